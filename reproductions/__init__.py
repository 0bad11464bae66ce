"""The experiments of published papers, run again: settings as they are published, figures beside the published ones."""

from reproductions import comparison, mitigation, shields
from reproductions.catalogue import PAPERS, load_paper

__all__ = ["PAPERS", "comparison", "load_paper", "mitigation", "shields"]

"""The experiments of published papers, run again: settings as they are published, figures beside the published ones."""

from evenhand.reproduce import comparison, mitigation, shields
from evenhand.reproduce.catalogue import PAPERS, load_paper

__all__ = ["PAPERS", "comparison", "load_paper", "mitigation", "shields"]

"""The experiments of published papers, run again: settings as they are published, figures beside the published ones."""

from evenhand.reproduce import mitigation, shields

__all__ = ["mitigation", "shields"]

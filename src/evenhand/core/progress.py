"""Progress of long work."""

from __future__ import annotations


def ignore_progress(step: str, share: float) -> None:
    """Ignore progress. Default of functions that report it."""

"""Progress of analyses."""

from __future__ import annotations


def ignore_progress(step: str, share: float) -> None:
    """Ignore progress. Default callback of functions that report progress."""

"""Progress of long work."""

from __future__ import annotations


def ignore_progress(what: str, share: float) -> None:
    """Ignore progress: the default where no function is given that shows it."""

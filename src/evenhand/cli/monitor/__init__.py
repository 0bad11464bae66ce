"""``evenhand monitor``: decisions watched while they are made."""

from evenhand.cli.monitor.command import monitor

__all__ = ["monitor"]

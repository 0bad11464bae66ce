"""Clocks of tests."""

from dataclasses import dataclass


@dataclass
class Clock:
    """Seconds that pass only when a test sets them."""

    now: float = 1_000.0

    def __call__(self):
        return self.now

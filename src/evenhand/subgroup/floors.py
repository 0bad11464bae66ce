"""Floors: how many people a rule set needs on both sides before anything is said about it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Floors:
    """What a rule set must hold.

    Attributes:
        share: people in it, and outside, at least, to be looked at without having been asked about.
        people: the same for one that was asked about, and for all others too.
    """

    share: int
    people: int

    def met(self, size: Floats, rest: Floats, *, asked: bool = False) -> NDArray[np.bool_]:
        """Which rule sets may be looked at; one that was asked about need not hold a share of everybody."""
        least = self.people if asked else max(self.share, self.people)
        return np.asarray((size >= least) & (rest >= least))

    def reason(self, size: int, rest: int) -> str | None:
        """Why nothing is said about a rule set that was asked about; None if something is."""
        for count, where in ((size, "in the subgroup"), (rest, "in the rest")):
            if count < self.people:
                people = "nobody is" if count == 0 else f"only {count:,} {'person is' if count == 1 else 'people are'}"
                return f"{people} {where}, fewer than {self.people}"
        return None


def floors(support: float, least_people: int, people: int) -> Floors:
    """The floors for so many people; a share is rounded up, but 0.05 of 1000 is 50 whatever the rounding of 0.05."""
    return Floors(math.ceil(support * people - 1e-9), least_people)

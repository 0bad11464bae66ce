"""Bounds on the welfare of every group: what keeps a gap small in every period keeps it small over all of them.

A group's welfare is the share of it that was accepted (among those with label 1, for equal opportunity). If it lies in
[l, u] in each of several periods, it lies there in all of them together, whatever their sizes, as a mediant of
fractions lies between them (Cano et al., "Fairness shields", Lemma 3). So does the welfare of replicas that decide side
by side. Bounds with u - l <= kappa therefore bound the gap between any two groups, and bounds with l >= (1 - kappa) u
their ratio. They can be met as soon as 1 / (u - l) of a group were seen (Lemma 9).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand.errors import OptionError
from evenhand.shield.plan import Plan

FINEST = 10**6
"""Denominator of bounds that come from data: more digits would mean nothing."""


@dataclass(frozen=True)
class WelfareBounds:
    """Every group's welfare between two numbers, both exact.

    Attributes:
        lower, upper: 0 <= lower < upper <= 1.

    Raises:
        OptionError: they are not.
    """

    lower: Fraction
    upper: Fraction

    def __post_init__(self) -> None:
        if not 0 <= self.lower < self.upper <= 1:
            raise OptionError(
                f"welfare bounds {float(self.lower):g} to {float(self.upper):g}",
                where="bounds",
                mend="give a lower bound below the upper one, both between 0 and 1",
            )

    @property
    def least(self) -> int:
        """How many of a group must have been seen for the bounds to be possible whatever they are: 1 / (u - l)."""
        return math.ceil(1 / (self.upper - self.lower))

    def holds(self, seen: Any, accepted: Any) -> NDArray[np.bool_]:
        """Whether the welfare lies within, exactly; arrays or numbers. Nobody seen is within."""
        seen, accepted = np.asarray(seen, dtype=np.int64), np.asarray(accepted, dtype=np.int64)
        low = accepted * self.lower.denominator >= seen * self.lower.numerator
        high = accepted * self.upper.denominator <= seen * self.upper.numerator
        return np.asarray(low & high)

    def tracked(self, seen: int) -> int:
        """How many to have accepted of so many: within the bounds from ``least`` on, one decision at a time."""
        return math.floor(self.upper * seen)

    def words(self) -> str:
        """For people."""
        return f"every group's rate between {float(self.lower):.4g} and {float(self.upper):.4g}"

    @classmethod
    def gap(cls, kappa: Fraction, middle: float) -> WelfareBounds:
        """Bounds kappa apart around a rate, moved into [0, 1] where they would leave it."""
        _positive(kappa)
        lower = Fraction(middle).limit_denominator(FINEST) - kappa / 2
        lower = max(Fraction(0), min(lower, 1 - kappa))
        return cls(lower, min(Fraction(1), lower + kappa))

    @classmethod
    def ratio(cls, kappa: Fraction, middle: float) -> WelfareBounds:
        """Bounds whose ratio is 1 - kappa, around a rate.

        Raises:
            OptionError: the rate is 0, of which no share can be had.
        """
        _positive(kappa)
        upper = Fraction(middle).limit_denominator(FINEST) / (1 - min(kappa, Fraction(1)) / 2)
        if upper <= 0:
            raise OptionError(
                "no ratio of rates can be kept around a rate of 0",
                where="bounds",
                mend="give bounds, or another property than disparate impact",
            )
        upper = min(upper, Fraction(1))
        return cls((1 - min(kappa, Fraction(1))) * upper, upper)


def bounds_of(plan: Plan) -> WelfareBounds:
    """The welfare bounds of a static-bw plan: as given, else as wide as kappa allows around the mean of the labels.

    Raises:
        OptionError: bounds that do not imply the property.
    """
    kept = plan.property
    ratio = kept.kind == "disparate_impact"
    if plan.bounds is not None:
        lower, upper = plan.bounds
        if ratio and lower < (1 - kept.kappa) * upper:
            raise OptionError(
                f"welfare bounds {float(lower):g} to {float(upper):g} allow rates in a smaller ratio than 1 - kappa",
                where="bounds",
                mend="a lower bound of at least (1 - kappa) times the upper one",
            )
        return WelfareBounds(lower, upper)
    means = plan.inputs.label if plan.inputs.label is not None else plan.inputs.accept
    middle = sum(rate * mean for rate, mean in zip(plan.inputs.rate, means, strict=True))
    return WelfareBounds.ratio(kept.kappa, middle) if ratio else WelfareBounds.gap(kept.kappa, middle)


def _positive(kappa: Fraction) -> None:
    if kappa <= 0:
        raise OptionError(
            "welfare bounds need a threshold above 0: with kappa = 0 both ends would be the same rate",
            where="kappa",
            mend="give a kappa above 0, or the kind finite or dynamic",
        )

"""Properties of shields: bounds on the bias between groups, tested exactly in integers.

The counters of a group are its seen and accepted people. For equal opportunity, only people with label 1 count. Its
welfare is accepted / seen.

Source: Cano, Henzinger, Könighofer, Kueffner, Mallik: Fairness Shields: Safeguarding against Biased Decision Makers,
AAAI 2025. The conventions for empty groups and the form 1 - min / max of disparate impact are ours.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import combinations, permutations
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from evenhand.core.typing import Booleans, Floats, Integers
from evenhand.errors import OptionError

PropertyKind: TypeAlias = Literal["demographic_parity", "disparate_impact", "equal_opportunity"]
PROPERTY_KINDS: tuple[PropertyKind, ...] = get_args(PropertyKind)

LARGEST_DENOMINATOR = 10**6
"""Maximum denominator of kappa. Its products with counters fit into 64 bits for every horizon that fits into memory."""


@dataclass(frozen=True)
class EmptyGroupRule:
    """Convention for groups that are empty or too small.

    Attributes:
        rule: ``zero``: an empty group has welfare 0; ``vacuous``: a bias with an empty group is fair; ``min_count``: it
            is fair until every group has ``at_least`` individuals.
        at_least: Minimum count, at least 1. 0 unless the rule is ``min_count``.
    """

    rule: Literal["zero", "vacuous", "min_count"] = "zero"
    at_least: int = 0

    def __post_init__(self) -> None:
        if self.rule not in ("zero", "vacuous", "min_count"):
            raise OptionError(f"unknown convention for empty groups {self.rule!r}", hint="zero, vacuous or min_count=N")
        if (self.rule == "min_count") != (self.at_least >= 1) or self.at_least < 0:
            raise OptionError(
                f"invalid minimum count {self.at_least} for the convention {self.rule}",
                hint="min_count=N requires N >= 1; zero and vacuous take no count",
            )

    @classmethod
    def parse(cls, text: str) -> EmptyGroupRule:
        """Parse ``zero``, ``vacuous`` or ``min_count=N``.

        Raises:
            OptionError: The text has another form.
        """
        name, equals, number = str(text).replace(" ", "").partition("=")
        if name == "min_count" and number.isascii() and number.isdigit() and int(number) >= 1:
            return cls("min_count", int(number))
        if name in ("zero", "vacuous") and not equals:
            return cls("zero" if name == "zero" else "vacuous")
        raise OptionError(
            f"unknown convention for empty groups {text!r}", hint="zero, vacuous or min_count=N with N >= 1"
        )

    @cached_property
    def needed_count(self) -> int:
        """Minimum count of every group before the bias is evaluated. 0: always."""
        return {"zero": 0, "vacuous": 1, "min_count": self.at_least}[self.rule]

    def __str__(self) -> str:
        return f"min_count={self.at_least}" if self.rule == "min_count" else self.rule


def parse_kappa(value: str | float | int | Fraction) -> Fraction:
    """Parse the bound on the bias as an exact number; ``"0.1"``, ``0.1`` and ``"1/10"`` are equal.

    Raises:
        OptionError: The number is not between 0 and 1, or its denominator is above a million.
    """
    try:
        exact = Fraction(str(value))
    except (ValueError, ZeroDivisionError):
        raise OptionError(f"kappa {value!r} is not a number", hint='a decimal such as "0.1", or "1/10"') from None
    if not 0 <= exact <= 1:
        raise OptionError(f"kappa must be between 0 and 1, got {value}", hint='for example kappa: "0.1"')
    if exact.denominator > LARGEST_DENOMINATOR:
        raise OptionError(f"kappa {value} has a denominator above {LARGEST_DENOMINATOR}", hint="use at most 6 digits")
    return exact


@dataclass(frozen=True)
class FairnessProperty:
    """Bound ``kappa`` on the bias between groups.

    Attributes:
        kind: ``demographic_parity``: the absolute difference of acceptance rates; ``disparate_impact``: 1 minus their
            ratio, smaller by larger (the four-fifths rule is kappa 0.2); ``equal_opportunity``: the absolute difference
            of acceptance rates among individuals whose label is 1.
        kappa: Largest fair bias, exact.
        empty_group: Convention for empty and small groups.
    """

    kind: PropertyKind
    kappa: Fraction
    empty_group: EmptyGroupRule = EmptyGroupRule()

    def __post_init__(self) -> None:
        if self.kind not in PROPERTY_KINDS:
            raise OptionError(f"unknown property {self.kind!r}", hint=f"one of {', '.join(PROPERTY_KINDS)}")
        object.__setattr__(self, "kappa", parse_kappa(self.kappa))

    @property
    def labelled(self) -> bool:
        """Whether only people with label 1 count. Labels are known after the decision."""
        return self.kind == "equal_opportunity"

    def fair(self, n_a: Any, a: Any, n_b: Any, b: Any) -> Any:
        """Check exactly whether the bias of the rates ``a / n_a`` and ``b / n_b`` is at most kappa.

        Integers give a bool, and integer arrays a Boolean array.
        """
        low, high = self.band(n_a, a, n_b)
        fair = (low <= b) & (b <= high)
        return bool(fair) if np.ndim(fair) == 0 else fair

    def band(self, n_a: Any, a: Any, n_b: Any) -> tuple[Integers, Integers]:
        """Compute the fair counts ``b`` given the other counts: those from low to high; none if low > high.

        Both are nondecreasing in ``a``, so that thresholds can store a shield.
        """
        n_a, a, n_b = (np.asarray(counts, dtype=np.int64) for counts in (n_a, a, n_b))
        numerator, denominator = self.kappa.numerator, self.kappa.denominator
        # An empty group has accepted no one: with a count of 1 instead of 0 its rate is 0.
        n, m = np.maximum(n_a, 1), np.maximum(n_b, 1)
        if self.kind == "disparate_impact":
            ratio = denominator - numerator
            low = -((-ratio * a * m) // (denominator * n))
            high = (denominator * a * m) // (ratio * n) if ratio else np.broadcast_to(n_b, low.shape)
        else:
            low = -(-(denominator * a - numerator * n) * m // (denominator * n))
            high = (denominator * a + numerator * n) * m // (denominator * n)
        low, high = np.maximum(low, 0), np.minimum(high, n_b)
        small = np.minimum(n_a, n_b) < self.empty_group.needed_count
        return np.where(small, 0, low), np.where(small, n_b, high)

    def bias(self, *counters: int, open_labels: Sequence[int] = ()) -> Fraction:
        """Compute the exact bias: the largest between two groups over all values of the open labels.

        0 while the groups are too small. The time does not depend on the number of open labels.

        Let n people of a group with label 1 be known, k of them accepted, and let r rejected and c accepted decisions
        be open. If y of the r and x of the c turn out to have label 1, the group has the rate (k + x) / (n + x + y). As
        k <= n, the rate grows with x and falls with y. The bias counts only if n + x + y >= m, the minimum count.

        - The largest rate has x = c and y = max(0, m - n - c). Proof: every other (x, y) with n + x + y >= m has at
          least this y, because n + c + y >= n + x + y >= m, and so (c, y) and then (c, max(0, m - n - c)) have larger
          rates.
        - The smallest rate has y = r and x = max(0, m - n - r), by the same argument.
        - The bias does not fall if the larger rate grows or the smaller one falls. The labels of the groups are
          independent, so its maximum has the largest rate of one group and the smallest rate of the other.
        - If m cannot be reached, the bias is 0.

        Args:
            counters: People who count and accepted ones of each group, (n_a, a, n_b, b, ...).
            open_labels: Rejected and accepted decisions of each group whose label is open. Default: none.
        """
        needed = self.empty_group.needed_count
        groups = [*zip(counters[::2], counters[1::2], strict=True)]
        pairs: Iterable[tuple[tuple[int, int], tuple[int, int]]] = combinations(groups, 2)
        if any(open_labels):
            extremes = [
                _extreme_counts(n, k, rejected, accepted, needed)
                for (n, k), rejected, accepted in zip(groups, open_labels[::2], open_labels[1::2], strict=True)
            ]
            pairs = [(high, low) for (low, _), (_, high) in permutations(extremes, 2)]
        # Cross products compare the fractions, so that only the largest is built.
        gap, whole = 0, 1
        for (n_a, a), (n_b, b) in pairs:
            if n_a < needed or n_b < needed:
                continue
            n, m = n_a or 1, n_b or 1
            x, y = a * m, b * n
            difference, divisor = abs(x - y), max(x, y) if self.kind == "disparate_impact" else n * m
            if difference * whole > gap * divisor:
                gap, whole = difference, divisor
        return Fraction(gap, whole)

    def bias_of_rates(self, rate_a: Any, rate_b: Any) -> Floats:
        """Compute the bias between arrays of rates, in floating point."""
        if self.kind != "disparate_impact":
            return np.asarray(np.abs(rate_a - rate_b))
        larger = np.maximum(rate_a, rate_b)
        return np.where(larger > 0, 1 - np.minimum(rate_a, rate_b) / np.where(larger > 0, larger, 1), 0.0)

    def words(self) -> str:
        """Describe the property."""
        bound = float(self.kappa)
        return {
            "demographic_parity": f"the acceptance rates of the groups differ by at most {bound:g}",
            "disparate_impact": f"the smaller acceptance rate is at least {1 - bound:g} of the larger",
            "equal_opportunity": f"the acceptance rates among those with label 1 differ by at most {bound:g}",
        }[self.kind]


def _extreme_counts(n: int, k: int, rejected: int, accepted: int, needed: int) -> tuple[tuple[int, int], ...]:
    """Compute the counts of a group for its smallest and its largest rate. See `FairnessProperty.bias`."""
    more = min(max(needed - n - rejected, 0), accepted)
    fewer = min(max(needed - n - accepted, 0), rejected)
    return (n + rejected + more, k + more), (n + accepted + fewer, k + accepted)


def is_fair(fairness: FairnessProperty, sizes: Integers, accepted: Integers) -> Booleans:
    """Check exactly whether the bias between any two groups is at most kappa; counters of shape (runs, groups)."""
    fair = np.ones(len(sizes), bool)
    for a, b in combinations(range(sizes.shape[1]), 2):
        fair &= fairness.fair(sizes[:, a], accepted[:, a], sizes[:, b], accepted[:, b])
    return fair


def largest_bias(fairness: FairnessProperty, sizes: Integers, accepted: Integers) -> Floats:
    """Compute the largest bias between two groups, shape (runs,): ``FairnessProperty.bias`` for arrays."""
    rate = accepted / np.maximum(sizes, 1)
    largest = np.zeros(len(sizes))
    for a, b in combinations(range(sizes.shape[1]), 2):
        between = fairness.bias_of_rates(rate[:, a], rate[:, b])
        small = np.minimum(sizes[:, a], sizes[:, b]) < fairness.empty_group.needed_count
        largest = np.maximum(largest, np.where(small, 0.0, between))
    return largest

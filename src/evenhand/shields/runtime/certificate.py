"""Certificates of running shields: bounds on the bias, their assumptions, and whether these have held."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from evenhand.core.text import format_count
from evenhand.core.typing import Integers
from evenhand.shields.policy.periodic import ShieldPeriod
from evenhand.shields.spec.ends import FairEnd, WelfareBounds
from evenhand.shields.spec.plan import Counters
from evenhand.shields.spec.properties import FairnessProperty


@dataclass(frozen=True, slots=True)
class ShieldCertificate:
    """Bound on the future bias.

    Attributes:
        keeps: Description of the property.
        kappa: Largest fair bias.
        step, horizon: Number of decisions so far in the period, and in total. A finite shield has one period.
        period: Number of the period, from 0.
        bias: Bias of the applied decisions: ``unshielded`` in advisory mode, and else ``shielded``.
        shielded: Bias of the shield's decisions over all periods. With open labels, the largest possible bias.
        unshielded: Bias of the recommendations.
        open_labels: Decisions that await a label.
        expired_labels: Decisions whose label did not arrive within the configured wait. They are not counted.
        bound: Upper bound on the bias at the end of this period. None if nothing is guaranteed.
        exact: Whether the bias can reach the bound.
        later: Upper bound on the bias at the end of each later period, if the assumption holds until then. None without
            later periods or without a guarantee.
        how: Reason for the bound, or for its absence.
        how_later: Reason for ``later``, or for its absence. Empty if there is no later period.
        assumption: Assumption of the bounds.
        assumption_held: Whether the assumption has held and can still hold in this period. None without an assumption.
        advisory: Whether recommendations are followed, and the shield only counts.
    """

    keeps: str
    kappa: Fraction
    step: int
    horizon: int
    period: int
    bias: Fraction
    shielded: Fraction
    unshielded: Fraction
    open_labels: int
    bound: Fraction | None
    exact: bool
    later: Fraction | None
    how: str
    assumption: str
    assumption_held: bool | None
    how_later: str
    advisory: bool
    expired_labels: int

    def summary(self) -> str:
        """Summarise the certificate in two or three lines."""
        waiting = f", {self.open_labels} labels open" if self.open_labels else ""
        waiting += f", {self.expired_labels} expired and not counted" if self.expired_labels else ""
        when, other = ("after", self.shielded) if self.advisory else ("before", self.unshielded)
        first = (
            f"after {self.step} of {self.horizon} decisions the bias is {float(self.bias):.4g}{waiting}; "
            f"{when} the shield {float(other):.4g}"
        )
        return "\n".join([first, *(words for _, words in self.describe(self.to_dict()))])

    @staticmethod
    def describe(certificate: Mapping[str, Any]) -> list[tuple[str, str]]:
        """Describe the guarantee in one or two sentences, each with its kind, ``proved`` or ``unknown``.

        Args:
            certificate: Result of `to_dict`.
        """
        over = certificate["step"] == certificate["horizon"]
        how, further = certificate["how"], certificate.get("how_later")
        if expired := certificate.get("expired_labels"):
            how += f"; {format_count(expired, 'decision', 'decisions')} without a label not counted"
        if certificate["attained"] and not over:
            how += "; the bias can reach it"
        end = "This period" if further else f"After {certificate['horizon']:,} decisions"
        sentences = [_guarantee(end, certificate["bound"], how)]
        return [*sentences, _guarantee("Later periods", certificate["bound_later"], further)] if further else sentences

    def to_dict(self) -> dict[str, Any]:
        """Convert to JSON values: numbers as floats, kappa and the bound as exact strings too.

        The key ``expired_labels`` is omitted if it is 0.
        """
        return {
            "kind": "shield-certificate",
            "property": self.keeps,
            "kappa": str(self.kappa),
            "step": self.step,
            "horizon": self.horizon,
            "period": self.period,
            "bias": float(self.bias),
            "bias_shielded": float(self.shielded),
            "bias_unshielded": float(self.unshielded),
            "open_labels": self.open_labels,
            **({"expired_labels": self.expired_labels} if self.expired_labels else {}),
            "bound": None if self.bound is None else float(self.bound),
            "bound_exact": None if self.bound is None else str(self.bound),
            "attained": self.exact,
            "bound_later": None if self.later is None else float(self.later),
            "how": self.how,
            "how_later": self.how_later or None,
            "advisory": self.advisory,
            "assumption": self.assumption or None,
            "assumption_held": self.assumption_held,
        }


def _guarantee(when: str, bound: float | None, how: str) -> tuple[str, str]:
    """Describe one bound on the bias, and return its kind and the description."""
    if bound is None:
        return "unknown", f"{when}: no guarantee, because {how}."
    return "proved", f"{when}: bias at most {bound:.4g}, proved ({how})."


PROMPT_LABELS = "every label arrives before the next decision"
PROMPT_FROM_HERE = "every label from now on arrives before the next decision"
"""Assumption after late labels that turned out to be harmless."""


ROUNDING_SLACK = Fraction(1, 10**9)
"""Margin added to bounds computed in floating point, far larger than their errors."""

Corners = list[tuple[float, float]]


def bound_period_bias(period: ShieldPeriod, fairness: FairnessProperty, past: Counters, horizon: int) -> Fraction:
    """Bound the bias between two groups at the end of a period, for all possible arrivals.

    Args:
        period: The period, with the end that its policy keeps.
        fairness: The property, over the past and the period.
        past: Counters of everything before the period.
        horizon: Number of decisions in the period.
    """
    n_a, n_b = (counts.reshape(-1) for counts in np.indices((horizon + 1, horizon + 1)))
    possible = n_a + n_b <= horizon if fairness.labelled else n_a + n_b == horizon
    n_a, n_b = n_a[possible], n_b[possible]
    # For given counts, the bias of past and period together is largest at a corner of the set of allowed pairs of
    # rates.
    free = np.ones(len(n_a), dtype=bool)
    corners: Corners = []
    end = period.end
    if isinstance(end, FairEnd) and not any(end.start):
        kappa = float(fairness.kappa)
        free = np.minimum(n_a, n_b) < max(fairness.empty_group.needed_count, 1)
        corners = [(1, 1 - kappa), (1 - kappa, 1), (0, 0), (1, 1)]
        if fairness.kind != "disparate_impact":
            corners += [(kappa, 0), (0, kappa)]
    elif isinstance(end, WelfareBounds):
        lower, upper = float(end.lower), float(end.upper)
        free = np.minimum(n_a, n_b) < end.least_seen
        corners = [(lower, upper), (upper, lower), (lower, lower), (upper, upper)]
    worst = max(
        _worst_corner_bias(fairness, past, n_a[~free], n_b[~free], corners),
        _worst_corner_bias(fairness, past, n_a[free], n_b[free], [(0, 1), (1, 0), (0, 0), (1, 1)]),
    )
    return min(Fraction(worst) + ROUNDING_SLACK, Fraction(1))


def _worst_corner_bias(
    fairness: FairnessProperty, past: Counters, n_a: Integers, n_b: Integers, corners: Corners
) -> float:
    seen_a, past_a, seen_b, past_b = past
    judged = np.minimum(n_a + seen_a, n_b + seen_b) >= fairness.empty_group.needed_count
    n_a, n_b = n_a[judged], n_b[judged]
    if not len(n_a):
        return 0.0
    worst = 0.0
    for x, y in corners:
        rate_a = (past_a + n_a * x) / np.maximum(seen_a + n_a, 1)
        rate_b = (past_b + n_b * y) / np.maximum(seen_b + n_b, 1)
        worst = max(worst, float(fairness.bias_of_rates(rate_a, rate_b).max()))
    return worst

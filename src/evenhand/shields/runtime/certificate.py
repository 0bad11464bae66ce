"""What a running shield guarantees from here on, what that rests on, and whether it has held so far."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from evenhand.core.text import format_count
from evenhand.shields.spec.plan import Counters
from evenhand.shields.spec.properties import FairnessProperty
from evenhand.stats.quantity import Proved, Unknown


@dataclass(frozen=True, slots=True)
class ShieldCertificate:
    """The bound on the bias that holds from here on.

    Attributes:
        keeps: the property, in words.
        kappa: the largest bias that is fair.
        step: decisions made in the period (a finite shield has a single one), of ``horizon``.
        period: which period that is, from 0.
        shielded: the bias of the shield's decisions so far, over all periods; while labels are open, the largest it can
            turn out to be.
        unshielded: the same for the recommendations.
        open_labels: decisions whose label is awaited.
        expired_labels: Decisions whose label did not come within the configured wait; no figure counts them.
        bound: the bias at the end of this period is at most that; None: nothing is guaranteed.
        exact: whether some future attains the bound; else it may never be met.
        later: the bias at the end of each later period is at most that, if the assumption holds in every period until
            then; None where there is none, where nothing is guaranteed, or where the assumption did not hold.
        how: why the bound holds, or why there is none.
        how_later: why ``later`` holds, or why it is None; empty where no later period follows.
        assumption: what the bounds rest on.
        assumption_held: whether the assumption has held so far, and still can in this period; None where nothing is
            assumed.
        advisory: whether the recommendations stand, and the shield only counts.
    """

    keeps: str
    kappa: Fraction
    step: int
    horizon: int
    period: int
    shielded: Fraction
    unshielded: Fraction
    open_labels: int
    bound: Fraction | None
    exact: bool
    later: Fraction | None
    how: str
    assumption: str
    assumption_held: bool | None
    how_later: str = ""
    advisory: bool = False
    expired_labels: int = 0

    @property
    def bias(self) -> Fraction:
        """Of the decisions that were in force."""
        return self.unshielded if self.advisory else self.shielded

    def as_advice(self) -> ShieldCertificate:
        """Return the same where the recommendations stand: nothing is guaranteed."""
        how = "the recommendations stand (advisory mode)"
        how_later = how if self.how_later else ""
        return replace(self, advisory=True, bound=None, exact=False, later=None, how=how, how_later=how_later)

    @property
    def quantity(self) -> Proved | Unknown:
        """The bound as a number that says what it is."""
        return Unknown(reason=self.how) if self.bound is None else Proved(value=float(self.bound), how=self.how)

    def summary(self) -> str:
        """Return two or three lines."""
        waiting = f", {self.open_labels} labels open" if self.open_labels else ""
        waiting += f", {self.expired_labels} expired and not counted" if self.expired_labels else ""
        other = (
            f"after the shield {float(self.shielded):.4g}"
            if self.advisory
            else f"before the shield {float(self.unshielded):.4g}"
        )
        lines = [
            f"after {self.step} of {self.horizon} decisions the bias is {float(self.bias):.4g}{waiting}; " + other,
            *(words for _, words in self.describe(self.to_dict())),
        ]
        return "\n".join(lines)

    @staticmethod
    def describe(certificate: Mapping[str, Any]) -> list[tuple[str, str]]:
        """Return what is guaranteed in one or two sentences, each behind its kind: ``proved`` or ``unknown``.

        Args:
            certificate: as `to_dict` gives it.
        """
        over = certificate["step"] == certificate["horizon"]
        how, further = certificate["how"], certificate.get("how_later")
        if expired := certificate.get("expired_labels"):
            how += f"; {format_count(expired, 'decision', 'decisions')} without a label not counted"
        if certificate["attained"] and not over:
            how += "; some future attains it"
        end = "This period" if further else f"After {certificate['horizon']:,} decisions"
        found = [_guarantee(end, certificate["bound"], how)]
        return [*found, _guarantee("Later periods", certificate["bound_later"], further)] if further else found

    def to_dict(self) -> dict[str, Any]:
        """Convert to JSON values: numbers as floats, kappa and the bound as exact strings too.

        ``expired_labels`` is left out if it is 0.
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
    """Return the kind and the words of one bound on the bias."""
    if bound is None:
        return "unknown", f"{when}: no guarantee, because {how}."
    return "proved", f"{when}: bias at most {bound:.4g}, proved ({how})."


def explain_later(assumption: str, *, held: bool, bound: Fraction | None) -> str:
    """Return why a bound holds for later periods, or why there is none.

    Args:
        assumption: what it rests on; empty: nothing.
        held: whether that has held so far, and still can.
        bound: for later periods.
    """
    if not held:
        return f"an assumption has not held, or no longer can: {assumption}"
    if bound is None:
        return "labels of earlier periods are open"
    return f"as long as {assumption}" if assumption else "no later period can end otherwise"


OpenLabels = tuple[int, int, int, int]
"""Decisions whose label is awaited: rejected and accepted of the first group, then of the second."""


def worst_bias(kept: FairnessProperty, counters: Counters, open_labels: OpenLabels = (0, 0, 0, 0)) -> Fraction:
    """Compute the largest bias over all values of the open labels, in constant time.

    Let n people of a group with label 1 be known, k of them accepted, and let r rejected and c accepted decisions be
    open. If y of the r and x of the c turn out to have label 1, the group has the rate (k + x) / (n + x + y). As
    k <= n, the rate grows with x and falls with y. The bias counts only if n + x + y >= m, the property's least count.

    - The largest rate has x = c and y = max(0, m - n - c). Proof: every other (x, y) with n + x + y >= m has at least
      this y, because n + c + y >= n + x + y >= m, and so (c, y) and then (c, max(0, m - n - c)) have larger rates.
    - The smallest rate has y = r and x = max(0, m - n - r), by the same argument.
    - The bias does not fall if the larger rate grows or the smaller one falls. The labels of the groups are
      independent, so its maximum has the largest rate of one group and the smallest rate of the other.
    - If m cannot be reached, the bias is 0.

    Args:
        kept: The property.
        counters: People with label 1 and accepted ones of each group, (n_a, a, n_b, b).
        open_labels: See `OpenLabels`.
    """
    n_a, a, n_b, b = counters
    needed = kept.empty_group.needed_count
    low_a, high_a = _extreme_counts(n_a, a, open_labels[0], open_labels[1], needed)
    low_b, high_b = _extreme_counts(n_b, b, open_labels[2], open_labels[3], needed)
    return max(kept.bias(*high_a, *low_b), kept.bias(*low_a, *high_b))


def _extreme_counts(n: int, k: int, rejected: int, accepted: int, needed: int) -> tuple[tuple[int, int], ...]:
    """Return people and accepted ones of a group with the smallest rate, and with the largest, see `worst_bias`."""
    more = min(max(needed - n - rejected, 0), accepted)
    fewer = min(max(needed - n - accepted, 0), rejected)
    return (n + rejected + more, k + more), (n + accepted + fewer, k + accepted)

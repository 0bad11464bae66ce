"""Accuracy, selection rates and gaps as functions of the score threshold, with simultaneous bands."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple, Self

import numpy as np
from pydantic import Field

from evenhand.core.result_part import ResultPart
from evenhand.core.typing import Booleans, Floats, Integers
from evenhand.groups.membership import Membership
from evenhand.schema.thresholds import Threshold
from evenhand.stats.curves import RateCurves, gap_band, kolmogorov_width, rate_bands
from evenhand.stats.level import bonferroni
from evenhand.stats.quantity import Observed

if TYPE_CHECKING:
    from evenhand.groups.config import GroupConfig

MAX_THRESHOLDS = 100
"""Maximum number of thresholds of a curve. If there are more scores, thresholds are quantiles of the scores."""

BOOTSTRAP = "Gaussian multiplier bootstrap, 1,000 draws"
KOLMOGOROV = "Dvoretzky-Kiefer-Wolfowitz-Massart"


class Curve(ResultPart):
    """A metric as a function of the threshold, with a band that is simultaneous over all thresholds.

    Attributes:
        name: ``accuracy``, ``selection_rate``, ``demographic_parity_difference``, ``equal_opportunity_difference`` or
            ``equalized_odds_difference``.
        by: Protected attribute of a gap or a group; empty for all people.
        group: Group of a selection rate. Empty for all people and for gaps.
        values, low, high: Value and band at each threshold.
        n: Number of people.
        confidence, method: Confidence level and name of the band.
        not_assessable: Groups omitted from a gap, with the number of people that is too small.
    """

    name: str
    by: str = ""
    group: str = ""
    values: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    n: int
    confidence: float
    method: str
    not_assessable: dict[str, int] = Field(default_factory=dict)

    def reversed(self) -> Curve:
        """Return the curve with the thresholds in reverse order."""
        return self.model_copy(update={name: getattr(self, name)[::-1] for name in ("values", "low", "high")})

    def at(self, place: int) -> Observed:
        """Return the number at one threshold, with the band as its interval."""
        return Observed(
            value=self.values[place],
            n=self.n,
            low=self.low[place],
            high=self.high[place],
            confidence=self.confidence,
            method=f"simultaneous over {len(self.values)} thresholds: {self.method}",
        )


class ThresholdCurves(ResultPart):
    """Metrics as functions of the threshold.

    Attributes:
        thresholds: Thresholds in ascending order. People are selected if their score is at least the threshold, or at
            most the threshold if ``low_is_good``.
        different: Number of distinct scores. If there are more than thresholds, these are quantiles of the scores.
        in_force: Threshold of the audit; None without one.
        low_is_good: Whether low scores are favourable.
        curves: ``selection_rate`` of all people and of each group, ``accuracy`` if true labels are known, and the gaps
            by each protected attribute.
    """

    thresholds: tuple[float, ...]
    different: int
    in_force: Threshold | None = None
    low_is_good: bool = False
    curves: tuple[Curve, ...]

    def curve(self, name: str, by: str = "", group: str = "") -> Curve | None:
        """Return one curve; None if it does not exist."""
        return next((curve for curve in self.curves if (curve.name, curve.by, curve.group) == (name, by, group)), None)

    @property
    def attributes(self) -> tuple[str, ...]:
        """Protected attributes with curves of gaps."""
        return tuple(dict.fromkeys(curve.by for curve in self.curves if curve.by and not curve.group))


class ScoredPeople(NamedTuple):
    """People with scores.

    Attributes:
        memberships: Groups by each protected attribute.
        scores: Scores, shape (n,).
        true_labels: 1 favourable, 0 unfavourable, -1 unknown, shape (n,); None without true labels.
        weights: Sample weights, shape (n,); None without weights.
        low_is_good: Whether people are selected if their score is at most the threshold.
    """

    memberships: Sequence[Membership]
    scores: Floats
    true_labels: Integers | None
    weights: Floats | None = None
    low_is_good: bool = False

    @property
    def sign(self) -> Literal[1, -1]:
        """Sign of the scores such that people are selected at or above a threshold."""
        return -1 if self.low_is_good else 1


@dataclass(frozen=True)
class ThresholdCells:
    """People in the cells between thresholds.

    Attributes:
        people: People with scores.
        thresholds: Thresholds of the scores in ascending order, of the negative scores if low scores are good.
        cell: Cell of each person, shape (n,).
        different: Number of distinct scores.
    """

    people: ScoredPeople
    thresholds: Floats
    cell: Integers
    different: int

    @classmethod
    def of(cls, people: ScoredPeople, required: Sequence[float]) -> Self:
        """Choose the thresholds, some of which are required, and assign the people to cells."""
        sign = people.sign
        thresholds, different = choose_thresholds(sign * people.scores, [sign * value for value in required])
        cell = np.searchsorted(thresholds, sign * people.scores, side="right") - 1
        return cls(people, thresholds, cell, different)

    @property
    def ascending(self) -> Floats:
        """Thresholds of the original scores, in ascending order."""
        sign = self.people.sign
        return sign * self.thresholds[::sign]

    def count(self, codes: Integers, groups: int, among: Booleans | None = None) -> RateCurves:
        """Compute the share of each group, among a subset of the people, with a score of at least each threshold."""
        up = self.add_up(codes, groups, among)
        none = np.zeros_like(up[0])
        return RateCurves.count(*up, none, none)

    def add_up(self, codes: Integers, groups: int, among: Booleans | None) -> tuple[Floats, Floats]:
        """Sum the weights and their squares by group and cell, shape (groups, cells) each."""
        chosen, cells = slice(None) if among is None else among, len(self.thresholds)
        place = codes[chosen] * cells + self.cell[chosen]
        weights = np.ones(len(place)) if self.people.weights is None else self.people.weights[chosen]
        total, squares = (
            np.asarray(np.bincount(place, weights=column, minlength=groups * cells), dtype=np.float64)
            for column in (weights, weights**2)
        )
        return total.reshape(groups, cells), squares.reshape(groups, cells)


def trace_curves(people: ScoredPeople, config: GroupConfig, in_force: Threshold | None = None) -> ThresholdCurves:
    """Compute accuracy, selection rates and gaps as functions of the threshold.

    The band of each curve is simultaneous over all thresholds, and those of selection rates over all groups of an
    attribute. The band of selection rates is that of Dvoretzky, Kiefer, Wolfowitz & Massart. Accuracy, gaps, and all
    curves of weighted people have bootstrap bands (``stats.rate_bands``, ``stats.gap_band``).

    Args:
        people: People with scores.
        config: Confidence level, minimum size of a compared group, and random seed.
        in_force: Threshold of the audit, which is included in the curves.
    """
    cells = ThresholdCells.of(people, () if in_force is None else (in_force.value,))
    tracer = _Tracer(people, cells, config)
    curves = [*tracer.trace_total(), *(curve for part in people.memberships for curve in tracer.trace_groups(part))]
    return ThresholdCurves(
        thresholds=tuple(cells.ascending.tolist()),
        different=cells.different,
        in_force=in_force,
        low_is_good=people.low_is_good,
        curves=tuple(curve.reversed() if people.low_is_good else curve for curve in curves),
    )


def choose_thresholds(scores: Floats, required: Sequence[float]) -> tuple[Floats, int]:
    """Choose the thresholds of a curve, in ascending order, and count the distinct scores."""
    values = np.unique(scores)
    chosen = values
    if len(values) > MAX_THRESHOLDS:
        chosen = np.quantile(scores, np.arange(MAX_THRESHOLDS) / MAX_THRESHOLDS, method="inverted_cdf")
    inside = [value for value in required if values[0] < value <= values[-1]]
    return np.unique(np.concatenate([values[:1], chosen, inside])), len(values)


class _Tracer:
    """Builds curves from the counts of people by group, true label and cell."""

    def __init__(self, people: ScoredPeople, cells: ThresholdCells, config: GroupConfig) -> None:
        self.people, self.cells, self.config = people, cells, config
        self.rng = np.random.default_rng(config.seed)

    def trace_total(self) -> Iterator[Curve]:
        """Yield the selection rate of all people, and the accuracy over people with a true label."""
        everyone, labels = np.zeros(len(self.people.scores), dtype=np.int64), self.people.true_labels
        yield from self._rates(self.cells.count(everyone, 1), "", ("",))
        if labels is None:
            return
        # The decision is correct at thresholds up to the score if the true label is favourable, else above the score.
        up, down = (self.cells.add_up(everyone, 1, labels == label) for label in (1, 0))
        curves = RateCurves.count(*up, *down)
        low, high = rate_bands(curves, self.config.confidence, self.rng)
        yield self._curve("accuracy", curves.rates[0], (low[0], high[0]), int((labels >= 0).sum()), BOOTSTRAP)

    def trace_groups(self, membership: Membership) -> Iterator[Curve]:
        """Yield the selection rate of each group that is large enough, and the gaps."""
        groups, known, labels = len(membership.labels), np.arange(len(membership.known)), self.people.true_labels
        selected = _select(self.cells.count(membership.codes, groups), known)
        large = np.flatnonzero(selected.effective >= self.config.min_group_size)
        if len(large):
            yield from self._rates(
                _select(selected, large), membership.name, [membership.labels[i] for i in large.tolist()]
            )
        everyone = np.ones(len(self.people.scores), dtype=np.bool_)
        yield from self._gap("demographic_parity_difference", membership, selected, everyone)
        if labels is None:
            return
        rates = [
            (_select(self.cells.count(membership.codes, groups, labels == label), known), labels == label)
            for label in (1, 0)
        ]
        yield from self._gap("equal_opportunity_difference", membership, *rates[0])
        yield from self._larger_gap(membership, rates)

    def _gap(
        self, name: str, membership: Membership, curves: RateCurves, among: Booleans, *, confidence: float | None = None
    ) -> Iterator[Curve]:
        """Yield the gap of a rate; nothing if fewer than two groups have a large enough denominator."""
        large = curves.effective >= self.config.min_group_size
        if large.sum() < 2:
            return
        compared = _select(curves, np.flatnonzero(large))
        sizes = np.bincount(membership.codes[among], minlength=len(membership.labels))[: len(membership.known)]
        left_out = {
            membership.labels[i]: int(curves.effective[i])
            for i in np.flatnonzero(~large).tolist()
            if np.any(membership.codes == i)
        }
        gap = compared.rates.max(axis=0) - compared.rates.min(axis=0)
        band = gap_band(compared, confidence or self.config.confidence, self.rng)
        curve = self._curve(name, gap, band, int(sizes[large].sum()), BOOTSTRAP, by=membership.name)
        yield curve.model_copy(update={"not_assessable": left_out})

    def _larger_gap(self, membership: Membership, rates: Sequence[tuple[RateCurves, Booleans]]) -> Iterator[Curve]:
        """Yield the larger gap of several rates; nothing if one of them has none.

        The bands of all rates are simultaneous (Bonferroni), so the true larger gap is between the larger of their
        lower and the larger of their upper ends, at every threshold.
        """
        name, level = "equalized_odds_difference", bonferroni(self.config.confidence, len(rates))
        gaps = [curve for rate in rates for curve in self._gap(name, membership, *rate, confidence=level)]
        if len(gaps) < len(rates):
            return
        values, low, high = (
            np.array([getattr(gap, end) for gap in gaps]).max(axis=0) for end in ("values", "low", "high")
        )
        method = f"{BOOTSTRAP}, and over {len(gaps)} rates (Bonferroni)"
        people = sum(gap.n for gap in gaps)
        curve = self._curve(name, values, (low, high), people, method, by=membership.name)
        left_out = {label: n for gap in gaps for label, n in gap.not_assessable.items()}
        yield curve.model_copy(update={"not_assessable": left_out})

    def _rates(self, curves: RateCurves, by: str, labels: Sequence[str]) -> list[Curve]:
        level = bonferroni(self.config.confidence, len(labels))
        if self.people.weights is None:
            width = np.array([[kolmogorov_width(n, level)] for n in curves.effective.tolist()])
            low, high = np.maximum(curves.rates - width, 0.0), np.minimum(curves.rates + width, 1.0)
            method = KOLMOGOROV
        else:
            low, high = rate_bands(curves, level, self.rng)
            method = BOOTSTRAP
        method += f", and over {len(labels)} groups (Bonferroni)" if len(labels) > 1 else ""
        sizes = np.rint(curves.effective).astype(int).tolist()
        return [
            self._curve("selection_rate", curves.rates[i], (low[i], high[i]), sizes[i], method, by=by, group=label)
            for i, label in enumerate(labels)
        ]

    def _curve(
        self,
        name: str,
        values: Floats,
        band: tuple[Floats, Floats],
        n: int,
        method: str,
        *,
        by: str = "",
        group: str = "",
    ) -> Curve:
        rounded, low, high = (tuple(np.round(column, 6).tolist()) for column in (values, *band))
        return Curve(
            name=name,
            by=by,
            group=group,
            values=rounded,
            low=low,
            high=high,
            n=n,
            confidence=self.config.confidence,
            method=method,
        )


def _select(curves: RateCurves, groups: Integers) -> RateCurves:
    return RateCurves(
        curves.rates[groups],
        curves.rising[groups],
        curves.falling[groups],
        curves.totals[groups],
        curves.effective[groups],
    )

"""Accuracy, selection rates and gaps as functions of the score threshold, with simultaneous bands."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

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
        name: ``accuracy``, ``selection_rate``, ``demographic_parity_difference`` or ``equal_opportunity_difference``.
        by: Protected attribute of a gap or a group; empty for all people.
        group: Group of a selection rate. Empty for all people and for gaps.
        values, low, high: Value and band at each threshold.
        n: Number of people.
        confidence, method: Confidence level of the band, and name of its method.
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
    # If low scores are good, scores are negated, so that people are always selected at or above the threshold.
    sign: Literal[1, -1] = -1 if people.low_is_good else 1
    scores = sign * people.scores
    required = [] if in_force is None else [sign * in_force.value]
    thresholds, different = choose_thresholds(scores, required)
    cell = np.searchsorted(thresholds, scores, side="right") - 1
    tracer = _Tracer(people, config, cell, len(thresholds), sign, np.random.default_rng(config.seed))
    curves = [*tracer.trace_total(), *(curve for part in people.memberships for curve in tracer.trace_groups(part))]
    return ThresholdCurves(
        thresholds=tuple((sign * thresholds[::sign]).tolist()),
        different=different,
        in_force=in_force,
        low_is_good=people.low_is_good,
        curves=tuple(curves),
    )


def choose_thresholds(scores: Floats, required: Sequence[float]) -> tuple[Floats, int]:
    """Choose the thresholds of a curve, in ascending order, and count the distinct scores."""
    values = np.unique(scores)
    chosen = values
    if len(values) > MAX_THRESHOLDS:
        chosen = np.quantile(scores, np.arange(MAX_THRESHOLDS) / MAX_THRESHOLDS, method="inverted_cdf")
    inside = [value for value in required if values[0] < value <= values[-1]]
    return np.unique(np.concatenate([values[:1], chosen, inside])), len(values)


class _Tracer(NamedTuple):
    """Builds curves from the counts of people by group, true label and cell.

    Attributes:
        people, config: As in ``trace_curves``.
        cell: Position of the highest threshold that selects each person, shape (n,).
        cells: Number of thresholds.
        sign: -1 if low scores are good, otherwise 1.
        rng: Random generator of the bootstrap.
    """

    people: ScoredPeople
    config: GroupConfig
    cell: Integers
    cells: int
    sign: Literal[1, -1]
    rng: np.random.Generator

    def trace_total(self) -> Iterator[Curve]:
        """Yield the selection rate of all people, and the accuracy over people with a true label."""
        everyone, labels = np.zeros(len(self.cell), dtype=np.int64), self.people.true_labels
        yield from self._trace_rates(self._count(everyone, 1), "", ("",))
        if labels is None:
            return
        # The decision is correct at thresholds up to the score if the true label is favourable, else above the score.
        up, down = (self._add_up(everyone, 1, labels == label) for label in (1, 0))
        curves = RateCurves.count(*up, *down)
        band = rate_bands(curves, self.config.confidence, self.rng)
        n = int((labels >= 0).sum())
        yield self._curve("accuracy", (curves.rates[0], band[0][0], band[1][0]), n, BOOTSTRAP)

    def trace_groups(self, membership: Membership) -> Iterator[Curve]:
        """Yield the selection rate of each group that is large enough, and the gaps."""
        labels = self.people.true_labels
        selected = self._count(membership.codes, len(membership.labels)).take(slice(len(membership.known)))
        large = np.flatnonzero(selected.effective >= self.config.min_group_size)
        if len(large):
            names = [membership.labels[i] for i in large.tolist()]
            yield from self._trace_rates(selected.take(large), membership.name, names)
        yield from self._trace_gap("demographic_parity_difference", membership, slice(None))
        if labels is not None:
            yield from self._trace_gap("equal_opportunity_difference", membership, labels == 1)

    def _trace_gap(self, name: str, membership: Membership, among: Booleans | slice) -> Iterator[Curve]:
        """Yield the gap of a rate; nothing if fewer than two groups have a large enough denominator."""
        known, codes = len(membership.known), membership.codes
        curves = self._count(codes, len(membership.labels), among).take(slice(known))
        large = curves.effective >= self.config.min_group_size
        if large.sum() < 2:
            return
        compared = curves.take(large)
        gap = compared.rates.max(axis=0) - compared.rates.min(axis=0)
        band = gap_band(compared, self.config.confidence, self.rng)
        n = int(np.bincount(codes[among], minlength=known)[:known][large].sum())
        present = np.bincount(codes, minlength=known)[:known] > 0
        left_out = np.flatnonzero(~large & present).tolist()
        curve = self._curve(name, (gap, *band), n, BOOTSTRAP, by=membership.name)
        yield curve.model_copy(
            update={"not_assessable": {membership.labels[i]: int(curves.effective[i]) for i in left_out}}
        )

    def _trace_rates(self, curves: RateCurves, by: str, labels: Sequence[str]) -> Iterator[Curve]:
        """Yield the selection rate of each group."""
        level = bonferroni(self.config.confidence, len(labels))
        if self.people.weights is None:
            width = np.array([[kolmogorov_width(n, level)] for n in curves.effective.tolist()])
            low, high = np.maximum(curves.rates - width, 0.0), np.minimum(curves.rates + width, 1.0)
            method = KOLMOGOROV
        else:
            low, high = rate_bands(curves, level, self.rng)
            method = BOOTSTRAP
        method += f", and over {len(labels)} groups (Bonferroni)" if len(labels) > 1 else ""
        for i, (label, n) in enumerate(zip(labels, np.rint(curves.effective).astype(int).tolist(), strict=True)):
            yield self._curve("selection_rate", (curves.rates[i], low[i], high[i]), n, method, by=by, group=label)

    def _curve(
        self, name: str, columns: Sequence[Floats], n: int, method: str, *, by: str = "", group: str = ""
    ) -> Curve:
        """Build a curve from its values and the ends of its band."""
        ends = ("values", "low", "high")
        rounded = (tuple(np.round(column[:: self.sign], 6).tolist()) for column in columns)
        bands: dict[str, Any] = dict(zip(ends, rounded, strict=True))
        return Curve(name=name, by=by, group=group, n=n, confidence=self.config.confidence, method=method, **bands)

    def _count(self, codes: Integers, groups: int, among: Booleans | slice = slice(None)) -> RateCurves:
        """Compute the share of each group, among a subset of the people, with a score of at least each threshold."""
        up = self._add_up(codes, groups, among)
        none = np.zeros_like(up[0])
        return RateCurves.count(*up, none, none)

    def _add_up(self, codes: Integers, groups: int, among: Booleans | slice) -> tuple[Floats, Floats]:
        """Sum the weights and their squares by group and cell, shape (groups, cells) each."""
        place = codes[among] * self.cells + self.cell[among]
        weights = np.ones(len(place)) if self.people.weights is None else self.people.weights[among]
        total, squares = (
            np.asarray(np.bincount(place, weights=column, minlength=groups * self.cells), dtype=np.float64)
            for column in (weights, weights**2)
        )
        return total.reshape(groups, self.cells), squares.reshape(groups, self.cells)

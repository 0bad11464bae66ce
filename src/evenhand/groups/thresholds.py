"""Accuracy, selection rates and gaps as functions of the score threshold, with simultaneous bands."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from pydantic import Field

from evenhand.core.result_part import ResultPart
from evenhand.core.typing import Floats, Integers
from evenhand.groups.membership import DecidedPeople, Membership
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
        not_assessable: Groups omitted from a gap, with their insufficient number of people.
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
        different: Number of distinct scores. If there are more scores than thresholds, the thresholds are quantiles of
            the scores.
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


def trace_curves(
    people: DecidedPeople, config: GroupConfig, in_force: Threshold | None = None, *, low_is_good: bool = False
) -> ThresholdCurves:
    """Compute accuracy, selection rates and gaps as functions of the threshold.

    The band of each curve is simultaneous over all thresholds, and those of selection rates over all groups of an
    attribute. The band of selection rates is that of Dvoretzky, Kiefer, Wolfowitz & Massart. Accuracy, gaps, and all
    curves of weighted people have bootstrap bands (``stats.rate_bands``, ``stats.gap_band``).

    Args:
        people: People with scores.
        config: Confidence level, minimum size of a compared group, and random seed.
        in_force: Threshold of the audit, which is included in the curves.
        low_is_good: Whether people are selected if their score is at most the threshold.
    """
    assert people.scores is not None
    # If low scores are favourable, scores are negated, so that people are always selected at or above the threshold.
    sign: Literal[1, -1] = -1 if low_is_good else 1
    scores = sign * people.scores
    required = [] if in_force is None else [sign * in_force.value]
    thresholds, different = choose_thresholds(scores, required)
    place = np.searchsorted(thresholds, scores, side="right") - 1
    if people.truth is not None:
        place += (
            people.truth.astype(np.int64) % 3 * len(thresholds)
        )  # The position of an unknown label, -1, refers to the last entry.
    tracer = _Tracer(people, config, place, len(thresholds), sign, np.random.default_rng(config.seed))
    curves = [*tracer.trace_total(), *(curve for part in people.memberships for curve in tracer.trace_groups(part))]
    return ThresholdCurves(
        thresholds=tuple((sign * thresholds[::sign]).tolist()),
        different=different,
        in_force=in_force,
        low_is_good=low_is_good,
        curves=tuple(curves),
    )


def choose_thresholds(scores: Floats, required: Sequence[float]) -> tuple[Floats, int]:
    """Choose the thresholds of a curve, in ascending order, and count the distinct scores."""
    ordered = np.sort(scores)
    values = ordered[np.flatnonzero(np.diff(ordered, prepend=-np.inf))]
    chosen = values
    if len(values) > MAX_THRESHOLDS:
        chosen = np.quantile(ordered, np.arange(MAX_THRESHOLDS) / MAX_THRESHOLDS, method="inverted_cdf")
    inside = [value for value in required if values[0] < value <= values[-1]]
    return np.unique(np.concatenate([values[:1], chosen, inside])), len(values)


class _Sums(NamedTuple):
    """Sums over people by group, true label (0, 1, unknown) and cell, each of shape (groups, 3, cells)."""

    people: Integers
    weights: Floats
    squares: Floats

    def among(self, label: int | None = None) -> tuple[Floats, Floats]:
        """Return the sums of weights and of their squares of people with a true label, or of all."""
        if label is None:
            return self.weights.sum(axis=1), self.squares.sum(axis=1)
        return self.weights[:, label], self.squares[:, label]


class _Tracer(NamedTuple):
    """Builds curves from the counts of people by group, true label and cell.

    Attributes:
        people, config: As in ``trace_curves``.
        place: Position of each person in a table of true labels (0, 1, unknown) and cells, shape (n,). The cell is the
            highest threshold that selects the person.
        cells: Number of thresholds.
        sign: -1 if low scores are favourable, otherwise 1.
        rng: Random generator of the bootstrap.
    """

    people: DecidedPeople
    config: GroupConfig
    place: Integers
    cells: int
    sign: Literal[1, -1]
    rng: np.random.Generator

    def trace_total(self) -> Iterator[Curve]:
        """Yield the selection rate of all people, and the accuracy over people with a true label."""
        sums = self._sum_up(0, 1)
        yield from self._trace_rates(_rates(*sums.among()), "", ("",))
        if self.people.truth is None:
            return
        # The decision is correct at thresholds up to the score if the true label is favourable, otherwise above the
        # score.
        curves = RateCurves.count(*sums.among(1), *sums.among(0))
        band = rate_bands(curves, self.config.confidence, self.rng)
        n = int(sums.people[:, :2].sum())
        yield self._curve("accuracy", (curves.rates[0], band[0][0], band[1][0]), n, BOOTSTRAP)

    def trace_groups(self, membership: Membership) -> Iterator[Curve]:
        """Yield the selection rate of each group that is large enough, followed by the gaps."""
        known = len(membership.known)
        people, weights, squares = self._sum_up(membership.codes, len(membership.labels))
        sums = _Sums(people[:known], weights[:known], squares[:known])
        selected = _rates(*sums.among())
        large = np.flatnonzero(selected.effective >= self.config.min_group_size)
        if len(large):
            names = [membership.labels[i] for i in large.tolist()]
            yield from self._trace_rates(selected.take(large), membership.name, names)
        yield from self._trace_gap("demographic_parity_difference", membership, sums)
        if self.people.truth is not None:
            yield from self._trace_gap("equal_opportunity_difference", membership, sums, label=1)

    def _trace_gap(
        self, name: str, membership: Membership, sums: _Sums, *, label: int | None = None
    ) -> Iterator[Curve]:
        """Yield the gap of a rate; nothing if fewer than two groups have a large enough denominator."""
        curves = _rates(*sums.among(label))
        large = curves.effective >= self.config.min_group_size
        if large.sum() < 2:
            return
        compared = curves.take(large)
        gap = compared.rates.max(axis=0) - compared.rates.min(axis=0)
        band = gap_band(compared, self.config.confidence, self.rng)
        counted = sums.people if label is None else sums.people[:, label]
        present = sums.people.any(axis=(1, 2))
        left_out = np.flatnonzero(~large & present).tolist()
        curve = self._curve(name, (gap, *band), int(counted[large].sum()), BOOTSTRAP, by=membership.name)
        yield curve.model_copy(
            update={"not_assessable": {membership.labels[i]: int(curves.effective[i]) for i in left_out}}
        )

    def _trace_rates(self, curves: RateCurves, by: str, labels: Sequence[str]) -> Iterator[Curve]:
        """Yield the selection rate of each group."""
        level = bonferroni(self.config.confidence, len(labels))
        if self.people.sample_weight is None:
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

    def _sum_up(self, codes: Integers | int, groups: int) -> _Sums:
        """Count people, and sum their weights and squared weights, by group, true label and cell in one pass."""
        place = codes * (3 * self.cells) + self.place
        shape = (groups, 3, self.cells)

        def add(column: Floats | None) -> Any:
            return np.bincount(place, column, minlength=math.prod(shape)).reshape(shape)

        people, weights = add(None), self.people.sample_weight
        if weights is None:
            return _Sums(people, people.astype(np.float64), people.astype(np.float64))
        return _Sums(people, add(weights), add(weights**2))


def _rates(sums: Floats, squares: Floats) -> RateCurves:
    """Compute the share of each group with a score of at least each threshold."""
    none = np.zeros_like(sums)
    return RateCurves.count(sums, squares, none, none)

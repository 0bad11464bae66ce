"""Accuracy, selection rates and gaps as functions of the score threshold, with simultaneous bands."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from evenhand.core.typing import Booleans, Floats
from evenhand.groups.config import GroupConfig
from evenhand.groups.decisions import DecisionSample
from evenhand.groups.membership import DecidedPeople, Partition, list_partitions
from evenhand.groups.result import Curve, ThresholdCurves
from evenhand.schema.thresholds import Threshold
from evenhand.stats.curves import RateCurves, gap_band, kolmogorov_bands, rate_bands
from evenhand.stats.level import bonferroni

MAX_THRESHOLDS = 100
"""Maximum number of thresholds of a curve. If there are more scores, thresholds are quantiles of the scores."""

BOOTSTRAP = "Gaussian multiplier bootstrap, 1,000 draws"
KOLMOGOROV = "Dvoretzky-Kiefer-Wolfowitz-Massart"


def trace_curves(
    people: DecidedPeople, config: GroupConfig, in_force: Threshold | None = None, *, low_is_good: bool = False
) -> ThresholdCurves:
    """Compute accuracy, selection rates and gaps as functions of the threshold.

    The band of each curve is simultaneous over all thresholds, and those of selection rates over all groups of an
    attribute. The band of selection rates is that of Dvoretzky, Kiefer, Wolfowitz & Massart. Accuracy, gaps, and all
    curves of weighted people have bootstrap bands (``stats.rate_bands``, ``stats.gap_band``).
    The threshold of the audit, ``in_force``, is included.
    """
    assert people.scores is not None
    # If low scores are favourable, scores are negated, so that people are always selected at or above the threshold.
    sign: Literal[1, -1] = -1 if low_is_good else 1
    scores = sign * people.scores
    required = [] if in_force is None else [sign * in_force.value]
    thresholds, different = choose_thresholds(scores, required)
    # The highest threshold that selects each person.
    cell = np.searchsorted(thresholds, scores, side="right") - 1
    cells = DecisionSample.tabulate(people._replace(scores=None), 2, (cell, len(thresholds)), why_no_scores="")
    tracer = _Tracer(cells, config, len(thresholds), sign, np.random.default_rng(config.seed))
    partitions = list_partitions(cells.memberships, len(cells.n))
    curves = [curve for partition in partitions if len(partition.by) < 2 for curve in tracer.trace(partition)]
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


class _Tracer(NamedTuple):
    """Builds curves from the counts of people by group, threshold and true label.

    Attributes:
        cells: Counts. The bin of a cell is the highest threshold that selects its people.
        config: As in ``trace_curves``.
        thresholds: Number of thresholds.
        sign: -1 if low scores are favourable, otherwise 1.
        rng: Random generator of the bootstrap.
    """

    cells: DecisionSample
    config: GroupConfig
    thresholds: int
    sign: Literal[1, -1]
    rng: np.random.Generator

    def trace(self, partition: Partition) -> Iterator[Curve]:
        """Yield the selection rate of each group that is large enough, followed by the gaps.

        All people together have an accuracy instead of gaps.
        """
        truth, known = self.cells.truth, partition.codes >= 0
        yield from self._trace_rates(partition, known)
        if partition.by:
            yield from self._trace_gap("demographic_parity_difference", partition, known)
            if truth is not None:
                yield from self._trace_gap("equal_opportunity_difference", partition, known & (truth == 1))
        elif truth is not None:
            # The decision is correct at thresholds up to the score if the true label is favourable, otherwise above it.
            curves = self._count(partition, truth == 1, truth == 0)
            bands = (band[0] for band in rate_bands(curves, self.config.confidence, self.rng))
            people = int(self.cells.n[truth >= 0].sum())
            yield self._curve("accuracy", (curves.rates[0], *bands), people, BOOTSTRAP)

    def _large(self, curves: RateCurves) -> Booleans:
        return np.asarray(curves.effective >= self.config.min_group_size)

    def _trace_gap(self, name: str, partition: Partition, among: Booleans) -> Iterator[Curve]:
        """Yield the gap of a rate; nothing if fewer than two groups have a large enough denominator."""
        curves = self._count(partition, among)
        large = self._large(curves)
        if large.sum() < 2:
            return
        compared = curves.take(large)
        gap = compared.rates.max(axis=0) - compared.rates.min(axis=0)
        band = gap_band(compared, self.config.confidence, self.rng)
        left_out = {partition.labels[i]: int(curves.effective[i]) for i in np.flatnonzero(~large).tolist()}
        people = int(self.cells.n[among & large[partition.codes]].sum())
        yield self._curve(name, (gap, *band), people, BOOTSTRAP, by=partition.by[0], not_assessable=left_out)

    def _trace_rates(self, partition: Partition, known: Booleans) -> Iterator[Curve]:
        """Yield the selection rate of each group that is large enough, or of all people together."""
        curves = self._count(partition, known)
        groups = np.flatnonzero(self._large(curves)) if partition.by else np.arange(1)
        if not len(groups):
            return
        curves, level = curves.take(groups), bonferroni(self.config.confidence, len(groups))
        if self.cells.people.weights is not None:
            bands, method = rate_bands(curves, level, self.rng), BOOTSTRAP
        else:
            bands, method = kolmogorov_bands(curves, level), KOLMOGOROV
        method += f", and over {len(groups)} groups (Bonferroni)" if len(groups) > 1 else ""
        for group, *columns, n in zip(groups.tolist(), curves.rates, *bands, curves.effective.tolist(), strict=True):
            place = {"by": "".join(partition.by), "group": partition.labels[group]}
            yield self._curve("selection_rate", columns, round(n), method, **place)

    def _curve(self, name: str, columns: Sequence[Floats], n: int, method: str, **fields: Any) -> Curve:
        """Build a curve from its values and the ends of its band."""
        values, low, high = (tuple(np.round(column[:: self.sign], 6).tolist()) for column in columns)
        return Curve(
            name=name,
            values=values,
            low=low,
            high=high,
            n=n,
            confidence=self.config.confidence,
            method=method,
            **fields,
        )

    def _count(self, partition: Partition, up: Booleans, down: Booleans | None = None) -> RateCurves:
        """Compute the share of each group that is selected (``up``) or not selected (``down``) at each threshold."""
        shape = (len(partition.values), self.thresholds)

        def add(values: Floats, mask: Booleans | None) -> Floats:
            if mask is None:
                return np.zeros(shape)
            place = partition.codes[mask] * self.thresholds + self.cells.bins[mask]
            return np.asarray(np.bincount(place, values[mask], minlength=math.prod(shape)), np.float64).reshape(shape)

        return RateCurves.count(*(add(values, mask) for mask in (up, down) for values in self.cells.sums[:2]))

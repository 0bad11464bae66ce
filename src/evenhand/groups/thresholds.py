"""What other thresholds would do: accuracy, selection rates and gaps over the threshold, in simultaneous bands."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

import numpy as np
from pydantic import Field

from evenhand.core.document import Block, Column, Figure, Fold, ReportedNumber, Table, TableRow, Text
from evenhand.core.result_part import ResultPart
from evenhand.core.text import format_count, format_level, format_percent, list_some
from evenhand.core.typing import Booleans, Floats, Integers
from evenhand.groups.membership import Membership
from evenhand.schema.thresholds import Thresholds
from evenhand.stats.curves import RateCurves, gap_band, kolmogorov_width, rate_bands
from evenhand.stats.level import bonferroni
from evenhand.stats.metric_specs import METRICS
from evenhand.stats.quantity import Observed, format_ends, format_value, show_quantity

MOST = 100
"""Thresholds of a curve: every different score, or where there are more, scores with as many people between them."""

LISTED = 9
"""Thresholds of a table that a reader sees at once."""

MORE = 20
"""Thresholds of the table with every gap; the JSON has all."""

NEAR = 0.01
"""Accuracies this close to the highest are compared by their gaps."""

BOOTSTRAP = "Gaussian multiplier bootstrap, 1,000 draws"
KOLMOGOROV = "Dvoretzky-Kiefer-Wolfowitz-Massart"


class Curve(ResultPart):
    """A number over the threshold, with a band that holds for all thresholds at once.

    Attributes:
        name: what it is: ``accuracy``, ``selection_rate``, ``demographic_parity_difference``,
            ``equal_opportunity_difference``, ``equalized_odds_difference``.
        by: the protected attribute of a gap or a group; empty for everybody.
        group: of a selection rate; empty for everybody and for gaps.
        values, low, high: at each threshold.
        n: people it rests on.
        confidence, method: of the band.
        not_assessable: groups that a gap leaves out, with the people that are too few.
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
        """Return it in the opposite order of thresholds."""
        return self.model_copy(update={name: getattr(self, name)[::-1] for name in ("values", "low", "high")})

    def at(self, place: int) -> Observed:
        """Return the number at one threshold, with its part of the band."""
        return Observed(
            value=self.values[place],
            n=self.n,
            low=self.low[place],
            high=self.high[place],
            confidence=self.confidence,
            method=f"simultaneous over {len(self.values)} thresholds: {self.method}",
        )


class ThresholdCurves(ResultPart):
    """Accuracy, selection rates and gaps over the threshold from which on the favourable decision is given.

    Attributes:
        thresholds: in rising order; a person is selected whose score is at least the threshold, or at most.
        low_is_good: whether at most.
        different: how many different scores there are; where there are more than thresholds, these divide the people
            into equal parts.
        in_force: the thresholds by which this audit decides; None where none was given.
        curves: ``selection_rate`` of everybody and of each group, ``accuracy`` where true labels are known, and the
            gaps by each protected attribute.
    """

    thresholds: tuple[float, ...]
    different: int
    in_force: Thresholds | None = None
    low_is_good: bool = False
    curves: tuple[Curve, ...]

    def curve(self, name: str, by: str = "", group: str = "") -> Curve | None:
        """Return one curve; None where it is not known."""
        return next((one for one in self.curves if (one.name, one.by, one.group) == (name, by, group)), None)

    @property
    def attributes(self) -> tuple[str, ...]:
        """The protected attributes that gaps are traced for."""
        return tuple(dict.fromkeys(one.by for one in self.curves if one.by and not one.group))


class ScoredPeople(NamedTuple):
    """Whom curves are traced on.

    Attributes:
        memberships: the group of each person by each protected attribute.
        scores: shape (n,).
        true_labels: 1 favourable, 0 unfavourable, -1 unknown, shape (n,); None without true labels.
        weights: how much each person counts, shape (n,); None where all count alike.
        low_is_good: whether people are selected up to a threshold.
    """

    memberships: Sequence[Membership]
    scores: Floats
    true_labels: Integers | None
    weights: Floats | None = None
    low_is_good: bool = False


class BandSettings(NamedTuple):
    """Settings of the bands: their level, the smallest group that is compared, and the seed of the bootstrap."""

    confidence: float
    least: int
    seed: int


def trace_curves(people: ScoredPeople, settings: BandSettings, in_force: Thresholds | None = None) -> ThresholdCurves:
    """Trace accuracy, selection rates and gaps over the threshold.

    Each curve's band holds for all of its thresholds at once, at the confidence level; selection rates of groups hold
    for all groups of an attribute too. Selection rates have the band of Dvoretzky, Kiefer, Wolfowitz & Massart,
    accuracy and gaps one of a bootstrap, and with weights all (``stats.rate_bands``, ``stats.gap_band``).
    """
    # Where low is good, everything is counted for the negatives, which are selected from a threshold on.
    sign = -1 if people.low_is_good else 1
    own = () if in_force is None else [sign * value for value in in_force.values]
    thresholds, different = choose_thresholds(sign * people.scores, own)
    cell = np.searchsorted(thresholds, sign * people.scores, side="right") - 1
    rng = np.random.default_rng(settings.seed)
    tracer = _Tracer(people, cell, len(thresholds), settings, rng)
    curves = [*tracer.trace_everybody()]
    for membership in people.memberships:
        curves += tracer.trace_groups(membership)
    return ThresholdCurves(
        thresholds=tuple((sign * thresholds[::sign]).tolist()),
        different=different,
        in_force=in_force,
        low_is_good=people.low_is_good,
        curves=tuple(curve.reversed() for curve in curves) if people.low_is_good else tuple(curves),
    )


def choose_thresholds(scores: Floats, wanted: Sequence[float]) -> tuple[Floats, int]:
    """Return the thresholds of a curve, the lowest score first, and how many different scores there are."""
    values = np.unique(scores)
    chosen = values
    if len(values) > MOST:
        chosen = np.quantile(scores, np.arange(MOST) / MOST, method="inverted_cdf")
    inside = [value for value in wanted if values[0] < value <= values[-1]]
    return np.unique(np.concatenate([values[:1], chosen, inside])), len(values)


class _Tracer:
    """Counts people by group, true label and cell of the score, and makes curves of the counts."""

    def __init__(
        self, people: ScoredPeople, cell: Integers, cells: int, settings: BandSettings, rng: np.random.Generator
    ) -> None:
        self.people, self.cell, self.cells, self.settings, self.rng = people, cell, cells, settings, rng

    def trace_everybody(self) -> Iterator[Curve]:
        """Yield the share of people selected, and the accuracy over people with a true label."""
        everyone, labels = np.zeros(len(self.cell), dtype=np.int64), self.people.true_labels
        yield self._rates(self._count(everyone, 1), "", ("",))[0]
        if labels is None:
            return
        # The decision is correct at thresholds up to the score if the true label is favourable, else above the score.
        up, down = (self._cells(everyone, 1, labels == label) for label in (1, 0))
        curves = RateCurves.count(*up, *down)
        low, high = rate_bands(curves, self.settings.confidence, self.rng)
        yield self._curve("accuracy", curves.rates[0], (low[0], high[0]), int((labels >= 0).sum()), BOOTSTRAP)

    def trace_groups(self, membership: Membership) -> Iterator[Curve]:
        """Yield the selection rate of every group that is large enough, and the gaps between them."""
        groups, known = len(membership.labels), np.arange(len(membership.known))
        selected = _pick(self._count(membership.codes, groups), known)
        kept = np.flatnonzero(selected.effective >= self.settings.least)
        if len(kept):
            labels = [membership.labels[i] for i in kept.tolist()]
            yield from self._rates(_pick(selected, kept), membership.name, labels)
        yield from self._gap("demographic_parity_difference", membership, selected, None)
        if self.people.true_labels is not None:
            positive, negative = self.people.true_labels == 1, self.people.true_labels == 0
            true_positive = _pick(self._count(membership.codes, groups, positive), known)
            yield from self._gap("equal_opportunity_difference", membership, true_positive, positive)
            false_positive = _pick(self._count(membership.codes, groups, negative), known)
            yield from self._larger_gap(membership, [(true_positive, positive), (false_positive, negative)])

    def _gap(
        self, name: str, membership: Membership, curves: RateCurves, among: Booleans | None, *, confidence: float = 0.0
    ) -> Iterator[Curve]:
        """Yield the gap of a rate; none where fewer than two groups have enough people below its line."""
        enough = curves.effective >= self.settings.least
        if enough.sum() < 2:
            return
        kept = _pick(curves, np.flatnonzero(enough))
        codes = membership.codes if among is None else membership.codes[among]
        sizes = np.bincount(codes, minlength=len(membership.labels))[: len(membership.known)]
        left_out = {
            membership.labels[i]: int(curves.effective[i])
            for i in np.flatnonzero(~enough).tolist()
            if np.any(membership.codes == i)
        }
        gap = kept.rates.max(axis=0) - kept.rates.min(axis=0)
        band = gap_band(kept, confidence or self.settings.confidence, self.rng)
        curve = self._curve(name, gap, band, int(sizes[enough].sum()), BOOTSTRAP, by=membership.name)
        yield curve.model_copy(update={"not_assessable": left_out})

    def _larger_gap(self, membership: Membership, rates: Sequence[tuple[RateCurves, Booleans]]) -> Iterator[Curve]:
        """Yield the larger gap of several rates; none where one of them has none.

        The bands of all rates hold together (Bonferroni), so the true larger gap lies between the larger of their
        lower and the larger of their upper ends, at every threshold.
        """
        name, level = "equalized_odds_difference", bonferroni(self.settings.confidence, len(rates))
        parts = [
            part for curves, among in rates for part in self._gap(name, membership, curves, among, confidence=level)
        ]
        if len(parts) < len(rates):
            return
        values, low, high = (
            np.array([getattr(part, end) for part in parts]).max(axis=0) for end in ("values", "low", "high")
        )
        together = f"{BOOTSTRAP}, and over {len(parts)} rates (Bonferroni)"
        people = sum(part.n for part in parts)
        curve = self._curve(name, values, (low, high), people, together, by=membership.name)
        left_out: dict[str, int] = {}
        for part in parts:
            left_out |= part.not_assessable
        yield curve.model_copy(update={"not_assessable": left_out})

    def _rates(self, curves: RateCurves, by: str, labels: Sequence[str]) -> list[Curve]:
        level = bonferroni(self.settings.confidence, len(labels))
        if self.people.weights is None:
            width = np.array([[kolmogorov_width(n, level)] for n in curves.effective.tolist()])
            low, high = np.maximum(curves.rates - width, 0.0), np.minimum(curves.rates + width, 1.0)
            method = KOLMOGOROV
        else:
            low, high = rate_bands(curves, level, self.rng)
            method = BOOTSTRAP
        together = f", and over {len(labels)} groups (Bonferroni)" if len(labels) > 1 else ""
        sizes = np.rint(curves.effective).astype(int).tolist()
        return [
            self._curve(
                "selection_rate", curves.rates[i], (low[i], high[i]), sizes[i], method + together, by=by, group=label
            )
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
        found, low, high = (tuple(np.round(one, 6).tolist()) for one in (values, *band))
        confidence = self.settings.confidence
        return Curve(
            name=name, by=by, group=group, values=found, low=low, high=high, n=n, confidence=confidence, method=method
        )

    def _count(self, codes: Integers, groups: int, among: Booleans | None = None) -> RateCurves:
        """Return the share of each group, of some people, whose score is at least each threshold."""
        up = self._cells(codes, groups, among)
        nobody = np.zeros_like(up[0])
        return RateCurves.count(*up, nobody, nobody)

    def _cells(self, codes: Integers, groups: int, among: Booleans | None) -> tuple[Floats, Floats]:
        """Return the sums of weights and of their squares by group and cell, each of shape (groups, cells)."""
        chosen = np.ones(len(codes), dtype=bool) if among is None else among
        place = codes[chosen] * self.cells + self.cell[chosen]
        shape = (groups, self.cells)
        if self.people.weights is None:
            counts = np.bincount(place, minlength=groups * self.cells).reshape(shape).astype(np.float64)
            return counts, counts
        weights = self.people.weights[chosen]
        first, second = (
            np.bincount(place, weights=one, minlength=groups * self.cells).reshape(shape).astype(np.float64)
            for one in (weights, weights**2)
        )
        return first, second


def _pick(curves: RateCurves, sets: Integers) -> RateCurves:
    return RateCurves(
        curves.rates[sets], curves.rising[sets], curves.falling[sets], curves.totals[sets], curves.effective[sets]
    )


def describe_rule(thresholds: Thresholds) -> str:
    """Return in a sentence by which thresholds an audit decides, and that it is a what-if where they differ."""
    if not thresholds.uses_protected:
        return f"Decisions are made by the score: selected {say_limit(f'{thresholds.values[0]:g}', thresholds)}."
    side = "up to" if thresholds.low_is_good else "from"
    return (
        f"A what-if with thresholds by {thresholds.attribute}: selected {side} a score of {thresholds.describe()}. "
        f"Such a decision uses {thresholds.attribute}: people with the same score are decided differently by it, which "
        "anti-discrimination law may forbid, whatever it does to the gaps."
    )


class _Directed(Protocol):
    @property
    def low_is_good(self) -> bool: ...


def say_limit(threshold: str, thresholds: _Directed) -> str:
    """Return ``from 0.5 on``, or where low scores are good ``up to 0.5``."""
    return f"up to {threshold}" if thresholds.low_is_good else f"from {threshold} on"


def threshold_answers(curves: ThresholdCurves) -> list[str]:
    """Return what other thresholds would do, in a sentence for each protected attribute; none without true labels."""
    accuracy, selected = curves.curve("accuracy"), curves.curve("selection_rate")
    if accuracy is None or selected is None:
        return []
    best = int(np.argmax(accuracy.values))
    found = []
    for by in curves.attributes:
        gap = curves.curve("demographic_parity_difference", by)
        if gap is None:
            continue
        near = [i for i, value in enumerate(accuracy.values) if value >= accuracy.values[best] - NEAR]
        least = min(near, key=lambda i: gap.values[i])
        say = _sayer(curves, accuracy, gap, selected)
        sentence = f"By {by}, accuracy is highest at a threshold of {say(best)}."
        if least != best:
            sentence += f" Within {100 * NEAR:g} percentage point of it, the gap is smallest at {say(least)}."
        found.append(sentence)
    return found


def _sayer(curves: ThresholdCurves, accuracy: Curve, gap: Curve, selected: Curve) -> Callable[[int], str]:
    def say(place: int) -> str:
        right, apart = accuracy.at(place), gap.at(place)
        return (
            f"{format_threshold(curves.thresholds[place])}: accuracy {format_value(right, 'accuracy')}, demographic "
            f"parity difference {format_value(apart, gap.name)} ({format_level(apart.confidence)} band "
            f"{format_ends(apart, gap.name)}), "
            f"{format_percent(selected.values[place])} selected"
        )

    return say


def format_threshold(threshold: float) -> str:
    """Return a threshold as people read it."""
    return f"{threshold:.3g}"


def threshold_table(curves: ThresholdCurves, *, every: bool = False) -> Table:
    """Return what thresholds do: about nine of them, and those in force; or about twenty, with every gap."""
    shown = _listed_places(curves, MORE if every else LISTED)
    columns = [one for one in curves.curves if not one.group]
    if not every:
        columns = [
            one for one in columns if one.name not in ("equal_opportunity_difference", "equalized_odds_difference")
        ]
    titles = [METRICS[column.name].title + (f" by {column.by}" if column.by else "") for column in columns]
    own = () if curves.in_force is None else curves.in_force.values
    rows = []
    for place in shown:
        threshold = curves.thresholds[place]
        cells = [show_quantity(one.at(place), "rate" if not one.by else one.name) for one in columns]
        name = format_threshold(threshold) + (" (in force)" if threshold in own else "")
        rows.append(TableRow((ReportedNumber(name, threshold), *cells)))
    level = format_level(columns[0].confidence)
    return Table(
        f"Selected {say_limit('each threshold', curves)}, observed; below each its {level} band, which holds for all "
        "thresholds at once",
        (Column("threshold", numeric=True), *(Column(title, numeric=True) for title in titles)),
        tuple(rows),
        usual="observed",
    )


def _listed_places(curves: ThresholdCurves, most: int) -> list[int]:
    count = len(curves.thresholds)
    places = {round(i * (count - 1) / (most + 1)) for i in range(1, most + 1)} if count > most else {*range(count)}
    own = () if curves.in_force is None else curves.in_force.values
    return sorted(places | {i for i, threshold in enumerate(curves.thresholds) if threshold in own})


def threshold_blocks(curves: ThresholdCurves) -> Iterator[Block]:
    """Yield the curves: how to read them, a drawing for each protected attribute, and all numbers."""
    count = len(curves.thresholds)
    every = (
        f"These are all {count} different scores"
        if curves.different <= count
        else f"The {count} thresholds divide the people into parts of about equal size, of "
        f"{format_count(curves.different, 'different score', 'different scores')}"
    )
    labels = "" if curves.curve("accuracy") else " The data has no true labels, so nothing is said about accuracy."
    yield Text(
        "What a decision by the score alone would do, for each threshold "
        f"{'up to which' if curves.low_is_good else 'from which on'} people are selected. "
        f"{every}. Bands hold for all of them at once, each curve by itself, so a threshold may be chosen by looking "
        f"at them.{labels} At both ends nobody or everybody is selected, and there is no gap for that reason alone."
    )
    for by in curves.attributes:
        yield Figure(
            "threshold curves",
            f"Over the threshold, by {by}: the gap, accuracy where true labels are known, and the selection rate of "
            "each group, inside their simultaneous bands.",
            curves,
            (by,),
        )
        left_out = _left_out(curves, by)
        if left_out:
            yield Text(f"In no gap by {by}, because they are too few: {list_some(left_out)}.")
    few = count <= MORE
    title = "All thresholds in numbers" if few else f"About {MORE} thresholds in numbers; the JSON has all {count}"
    yield Fold(title, (threshold_table(curves, every=True),))


def _left_out(curves: ThresholdCurves, by: str) -> list[str]:
    gaps: Mapping[str, int] = {}
    for one in curves.curves:
        if one.by == by and not one.group:
            gaps = {**one.not_assessable, **gaps}
    return [f"{label} ({n})" for label, n in gaps.items()]

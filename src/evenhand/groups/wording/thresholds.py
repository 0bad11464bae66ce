"""Sentences, tables and figures about other thresholds."""

from __future__ import annotations

from collections.abc import Iterator

from evenhand.core.document import Block, Column, Figure, Fold, ReportedNumber, Table, TableRow, Text
from evenhand.core.text import format_count, format_level
from evenhand.groups.breakdown import list_counts
from evenhand.groups.result import ThresholdCurves
from evenhand.schema.thresholds import Threshold
from evenhand.stats.metric_specs import METRICS
from evenhand.stats.quantity import show_quantity

LISTED = 9
"""Number of thresholds in the first table."""

MORE = 20
"""Number of thresholds in the table with all gaps; the JSON contains all thresholds."""


def describe_limit(threshold: str, thresholds: Threshold | ThresholdCurves) -> str:
    """Return ``from 0.5 on``, or ``up to 0.5`` if low scores are good."""
    return f"up to {threshold}" if thresholds.low_is_good else f"from {threshold} on"


def threshold_table(curves: ThresholdCurves, *, every: bool = False) -> Table:
    """Build a table of about nine thresholds, or about twenty with all gaps; the applied threshold is included."""
    omitted = "" if every else "equal_opportunity_difference"
    shown = [curve for curve in curves.curves if not curve.group and curve.name != omitted]
    titles = [METRICS[curve.name].title + (f" by {curve.by}" if curve.by else "") for curve in shown]
    rows = []
    for place in _choose_rows(curves, MORE if every else LISTED):
        threshold = curves.thresholds[place]
        cells = [show_quantity(curve.at(place), curve.name if curve.by else "rate") for curve in shown]
        name = f"{threshold:.3g}" + (" (in force)" if threshold == curves.applied else "")
        rows.append(TableRow((ReportedNumber(name, threshold), *cells)))
    level = format_level(shown[0].confidence)
    return Table(
        f"Selected {describe_limit('each threshold', curves)}, observed, each with its {level} band, simultaneous "
        "over all thresholds",
        (Column("threshold", numeric=True), *(Column(title, numeric=True) for title in titles)),
        tuple(rows),
        usual="observed",
    )


def _choose_rows(curves: ThresholdCurves, rows: int) -> list[int]:
    count = len(curves.thresholds)
    places = {round(i * (count - 1) / (rows + 1)) for i in range(1, rows + 1)} if count > rows else {*range(count)}
    return sorted(places | {i for i, threshold in enumerate(curves.thresholds) if threshold == curves.applied})


def threshold_blocks(curves: ThresholdCurves) -> Iterator[Block]:
    """Yield the curves: an explanation, a figure for each protected attribute, and all numbers."""
    count = len(curves.thresholds)
    thresholds = f"These are all {count} distinct scores"
    if curves.different > count:
        scores = format_count(curves.different, "distinct score", "distinct scores")
        thresholds = f"The {count} thresholds divide the people into parts of similar size, from {scores}"
    labels = "" if curves.curve("accuracy") else " The data has no true labels, so there is no accuracy."
    yield Text(
        "Decisions by the score alone, if people with a score "
        f"{'up to' if curves.low_is_good else 'of at least'} the threshold are selected. {thresholds}. The band "
        "of each curve is simultaneous over all thresholds, so the curve may be used to choose a threshold."
        f"{labels} At the two ends, none or all are selected, so there is no gap."
    )
    for by in curves.attributes:
        yield Figure(
            "threshold curves",
            f"Curves over the threshold, by {by}: the gap, accuracy if true labels are known, and the selection rate "
            "of each group, with their simultaneous bands.",
            curves,
            (by,),
        )
        gaps = [curve.not_assessable for curve in curves.curves if curve.by == by and not curve.group]
        left_out = {label: n for gap in reversed(gaps) for label, n in gap.items()}
        if left_out:
            yield Text(f"Excluded from the gaps by {by} because they are too small: {list_counts(left_out)}.")
    more = f"About {MORE} thresholds in numbers; the JSON has all {count}"
    title = more if count > MORE else "All thresholds in numbers"
    yield Fold(title, (threshold_table(curves, every=True),))

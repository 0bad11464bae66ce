"""Gaps in words: what is compared, how large it is, and every group against a reference."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from evenhand.core import Block, Column, Note, Table, TableRow
from evenhand.groups.breakdown import Breakdown, Gap
from evenhand.groups.label_result import LabelBreakdown
from evenhand.groups.names import DENOMINATORS, GAP_TITLES, METRIC_TITLES, number_name
from evenhand.stats import Proved, Unknown, show_quantity
from evenhand.text import join_names, list_some


def format_not_assessable(gap: Gap) -> str:
    """Say which groups a gap leaves out: ``not assessable for: B (24)``; empty if none."""
    if not gap.not_assessable:
        return ""
    return f"not assessable for: {list_some([f'{label} ({n})' for label, n in gap.not_assessable.items()])}"


def small_group_notes(breakdowns: Iterable[Breakdown | LabelBreakdown], least: int) -> Iterator[Note]:
    """Yield which groups are too small to be compared: fewer people than ``least``."""
    for breakdown in breakdowns:
        small = [f"{group.label} ({group.size:,})" for group in breakdown.groups if group.small]
        if small:
            few = f"fewer than {least} people"
            yield Note(f"Not assessable by {join_names(breakdown.by)}: {few}, in no gap: {list_some(small)}", "caution")


def title_gap(gap: Gap) -> str:
    """Return what a gap compares, in words."""
    title = GAP_TITLES.get(gap.name, f"{gap.metric}: highest minus lowest")
    if not gap.reference:
        return title
    name, colon, _ = title.partition(":")
    verb = "divided by" if gap.name == "demographic_parity_ratio" else "furthest from"
    return f"{name}{colon} {METRIC_TITLES.get(gap.metric, gap.metric)} {verb} that of {gap.reference}"


def describe_size(gap: Gap) -> str:
    """Say how large a gap is in people per 1,000, and whether its interval tells it from no gap at all."""
    value = gap.value
    if isinstance(value, Unknown | Proved):
        return ""
    if gap.name == "demographic_parity_ratio":
        apart = value.high < 1 or value.low > 1
        size, none = "", "1, equal rates"
    else:
        apart, none = value.low > 0, "0"
        counted, low, high = (f"{1000 * number:.0f}" for number in (value.value, value.low, value.high))
        size = f"{counted} ({low} to {high}) in 1,000 {DENOMINATORS.get(gap.metric, 'people')}; "
        size = "" if gap.metric == "calibration_gap" or gap.name not in GAP_TITLES else size
    return f"{size}{'distinguishable' if apart else 'not distinguishable'} from {none}"


def reference_table(breakdown: Breakdown, levels: str, weighted: str) -> Iterator[Block]:
    """Yield how far every group lies from the reference, by every gap; nothing without a reference."""
    gaps = [gap for gap in breakdown.gaps if gap.by_group]
    if not gaps:
        return
    names = {GAP_TITLES.get(gap.name, gap.metric).partition(":")[0]: gap for gap in gaps}
    labels = [group.label for group in breakdown.groups if group.label != gaps[0].reference]
    yield Table(
        f"Every group against {gaps[0].reference} by {join_names(breakdown.by)}, observed{weighted}: its value minus "
        f"that of {gaps[0].reference} (ratio: divided by it); below each its {levels} interval, for all together",
        (Column(join_names(breakdown.by)), *(Column(name, numeric=True) for name in names)),
        tuple(
            TableRow(
                (
                    label,
                    *(
                        show_quantity(gap.by_group[label], number_name(gap.name)) if label in gap.by_group else "-"
                        for gap in names.values()
                    ),
                )
            )
            for label in labels
        ),
        usual="observed",
    )

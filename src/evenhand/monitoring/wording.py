"""Documents of monitors."""

from __future__ import annotations

from evenhand.core.document import (
    Block,
    Column,
    Document,
    Facts,
    Figure,
    Heading,
    Note,
    ReportedNumber,
    Table,
    TableRow,
    Text,
)
from evenhand.core.text import format_count, format_level, format_percent
from evenhand.monitoring.comparisons import EVERYONE_ELSE
from evenhand.monitoring.result import (
    MEASURES,
    MonitoredGap,
    MonitorResult,
    describe_selection,
    format_ends,
    format_gap,
    format_points,
    list_cautions,
)

DRAWN = 4
"""Maximum number of histories of each measure on a page. Those with alarms come first."""


def build_document(result: MonitorResult, name: str = "") -> Document:
    """Build the document: alarms, comparisons, histories and explanations."""
    level = 1 - float(result.config["false_alarms"]["probability"])
    blocks: list[Block] = []
    if result.alarms:
        blocks.append(Note(format_count(len(result.alarms), "alarm", "alarms") + ".", "caution"))
        blocks.append(Text(items=tuple(f"{alarm.sentence}." for alarm in result.alarms), role="finding"))
    elif result.compared:
        blocks.append(Text("No alarm: no gap was shown to exceed its tolerance.", role="finding"))
    else:
        blocks.append(Note("No groups were compared: fewer than two groups have enough decisions.", "caution"))
    blocks += [Note(caution, "caution") for caution in list_cautions(result)]
    for number, (watch, gaps) in enumerate(zip(result.config["watch"], result.watched, strict=True)):
        measure, form = (watch["gap"], "gap") if watch["gap"] else (watch["ratio"], "ratio")
        title = MEASURES[measure] if measure == "calibration" else f"{MEASURES[measure]}, {form} between groups"
        blocks.append(Heading(title.capitalize()))
        if measure != "selection_rate" and describe_selection(result.selection):
            note = "Only decisions with a label, mostly accepted ones, are counted here (see above)."
            blocks.append(Text(note, role="small"))
        blocks.append(_tabulate(gaps, measure, form, watch["tolerance"], level))
        drawable = [k for k in range(len(gaps)) if gaps[k].estimate is not None]
        order = sorted(drawable, key=lambda k: (gaps[k].alarm is None, gaps[k].alarm or 0, k))
        blocks += [
            Figure(
                "course of a gap",
                f"{_name_gap(gaps[k])}: the mean with its interval, and the recent mean (dashed); grey is tolerated.",
                result,
                (number, k),
            )
            for k in order[:DRAWN]
        ]
        if len(order) > DRAWN:
            note = f"The JSON contains the histories of {len(order) - DRAWN} more comparisons."
            blocks.append(Text(note, role="small"))
    blocks += _explain(level)
    lead = format_count(result.decisions, "decision", "decisions")
    if result.labels:
        lead += f", {format_count(result.labels, 'label', 'labels')}"
    return Document(
        f"Monitor of {name or 'decisions'}",
        f"{lead}.",
        tuple(blocks),
        brand="Evenhand monitor",
    )


def _tabulate(gaps: tuple[MonitoredGap, ...], measure: str, form: str, tolerance: float, level: float) -> Table:
    paired = measure == "calibration"
    tolerated = (
        f"{format_points(tolerance)} tolerated" if form == "gap" else f"{tolerance:g} and 1/{tolerance:g} tolerated"
    )
    rows = []
    for gap in gaps:
        counts = f"{gap.first_count:,}" if paired else f"{gap.first_count:,} and {gap.second_count:,}"
        text, ends = format_gap(gap.estimate, form), format_ends(gap)
        number = ReportedNumber(text, gap.estimate, "estimated", gap.low, gap.high, ends, level)
        rates = [_rate(gap.first_rate), _rate(gap.second_rate)]
        if gap.alarm is not None:
            counts += f"; alarm at {gap.alarm:,}"
        name = f"{gap.by}: {gap.first}" if gap.second == EVERYONE_ELSE else _name_gap(gap)
        rows.append(TableRow((name, *rates, number, format_gap(gap.recent, form)), detail=counts))
    headings = ("observed", "score") if paired else ("first", "second")
    has_rest = any(gap.second == EVERYONE_ELSE for gap in gaps)
    counted = "labels" if measure != "selection_rate" else "decisions"
    against = "a single group is compared with everyone else; " if has_rest else ""
    unit = ", points" if form == "gap" else ""
    return Table(
        f"{tolerated}; {against}in small print: number of {counted}; "
        f"{format_level(level)} intervals, jointly valid at all times; "
        "recent: observed, with most weight on recent decisions",
        (Column("compared"), *(Column(name, numeric=True) for name in (*headings, f"{form}{unit}", "recent"))),
        tuple(rows),
        usual="estimated",
    )


def _explain(level: float) -> list[Block]:
    facts = (
        (
            "alarms",
            "If no gap exceeds its tolerance, the probability of any alarm in the whole run, over all comparisons, is "
            f"at most {format_percent(1 - level)}, however often the result is inspected.",
        ),
        (
            "intervals",
            f"With probability {format_level(level)}, every interval contains the mean gap until then, at all times; "
            "rates may change over time.",
        ),
        (
            "estimate",
            "The mean over blocks of decisions from about the same time. It differs from the difference of the two "
            "rates if groups arrive at different times.",
        ),
        ("assumed", "Arrivals do not depend on the outcomes of the last few decisions."),
    )
    return [Heading("How to read this", detail=True), Facts(facts)]


def _name_gap(gap: MonitoredGap) -> str:
    return f"{gap.by}: {gap.first}, {gap.second}"


def _rate(value: float | None) -> str:
    return "-" if value is None else format_percent(value)

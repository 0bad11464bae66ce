"""A comparison of two audits in words: what is better and worse, every change, and how it is known."""

from __future__ import annotations

from collections.abc import Iterator

from evenhand.auditing.changes import AuditComparison, ChangeLine
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
from evenhand.core.text import format_count, format_level
from evenhand.stats.metric_specs import METRICS, unit_of
from evenhand.stats.quantity import Known, Observed, Proved, Quantity, Unknown, format_value, show_quantity

PAIRINGS = {
    "paired": "Paired: both audits are about the same people, and both decisions about each are known. What they "
    "share cancels. What is not kept for each person, such as counterfactual flips, ratios and metrics of your own, is "
    "bounded by the intervals of both.",
    "same people": "Not paired, although both audits are about the same people: the reports do not hold what was "
    "decided about each. Each change is bounded by the intervals of both numbers, which holds however they depend on "
    "each other but is wide.",
    "unpaired": "Unpaired: the people are not the same, and are taken for two independent samples. If many are in "
    "both, the intervals are not exact.",
}
PROOF = "Proof"
EXACT = (
    "What is proved is exact: it has no interval. How much is proved depends on how long was proved, so a change is "
    "better only if fewer people can be treated unfairly than were proved to be before, and worse only if more are "
    "proved to be than could be before."
)
KEEP = "audit both with --keep-decisions (keep_decisions=True) for paired, shorter intervals"


def build_document(result: AuditComparison) -> Document:
    """Return what a comparison says."""
    return Document(
        f"{result.after.model}, {result.after.data}, compared with {result.before.model}, {result.before.data}",
        blocks=tuple(_blocks(result)),
        brand="Evenhand compare",
        made=result.provenance,
        readings=result.readings,
    )


def _blocks(result: AuditComparison) -> Iterator[Block]:
    found = list(_findings(result))
    yield Text(items=tuple(found), role="finding")
    yield Note(PAIRINGS[result.pairing] + (f" Next time, {KEEP}." if result.pairing == "same people" else ""))
    level = format_level(result.confidence)
    together = (
        f"; intervals hold for all {result.comparisons} changes together ({level}, Bonferroni)"
        if result.comparisons > 1
        else f"; with its {level} interval"
    )
    unit = f", in {result.unit}" if result.unit else ""
    for title, lines in _parts(result):
        proved = title == PROOF
        yield Heading(title)
        if proved:
            yield Text(EXACT)
        yield Table(
            f"{title}: shares of the simulated population, proved" if proved else f"{title}, observed{unit}{together}",
            (
                Column("number"),
                Column("before", numeric=True),
                Column("after", numeric=True),
                Column("change", numeric=True),
                Column("verdict"),
            ),
            tuple(_row(line, result.pairing) for line in lines),
            usual="proved" if proved else "observed",
        )
    yield Figure(
        "changes",
        "Dots: the change, after minus before, with its interval. A line that misses 0 is a clear change.",
        result,
    )
    if result.left_out:
        yield Heading("Not compared")
        yield Text(items=tuple(f"{one}." for one in result.left_out))
    yield Heading("How it was done", detail=True)
    methods = dict.fromkeys(line.change.method for line in result.lines if isinstance(line.change, Observed))
    yield Facts(
        (
            ("Before", f"{result.before.model}, {result.before.data}; SHA-256 {result.before.fingerprint}"),
            ("After", f"{result.after.model}, {result.after.data}; SHA-256 {result.after.fingerprint}"),
            ("Intervals", "; ".join(methods) or "none"),
            (
                "Verdicts",
                "accuracy, area under the ROC curve and demographic parity ratio are better if higher; gaps, flip "
                "rates and absolute errors if lower; all else, such as a selection rate, a mean or a metric of your "
                "own, is neither, and higher or lower. No clear change: the interval contains 0, which does not prove "
                "that nothing changed",
            ),
        )
    )


def _findings(result: AuditComparison) -> Iterator[str]:
    better, worse = result.count("better"), result.count("worse")
    judged = sum(line.verdict in ("better", "worse", "no clear change") for line in result.lines)
    yield (
        f"{format_count(worse, 'number is', 'numbers are')} clearly worse and {better} clearly better than before, of "
        f"{judged} that may be judged, such as accuracies, gaps, ratios and flip rates."
    )
    for verdict in ("worse", "better"):
        for line in [line for line in result.lines if line.verdict == verdict][:2]:
            assert not isinstance(line.before, Unknown)
            assert not isinstance(line.after, Unknown)
            yield (
                f"{verdict.capitalize()}: {name_line(line)}, {_format_known(line.before, line)} before and "
                f"{_format_known(line.after, line)} after."
            )


def _parts(result: AuditComparison) -> Iterator[tuple[str, list[ChangeLine]]]:
    proved = [line for line in result.lines if isinstance(line.change, Proved)]
    counted = [line for line in result.lines if not isinstance(line.change, Proved)]
    for by in dict.fromkeys(line.by for line in counted):
        title = f"By {by.replace('_x_', ' x ')}" if by else "Everybody together"
        yield title, [line for line in counted if line.by == by]
    if proved:
        yield PROOF, proved


def name_line(line: ChangeLine) -> str:
    """Return what a line is about: ``demographic parity difference by sex``, ``selection rate of sex Female``."""
    name = METRICS[line.name].short_title if line.name in METRICS else line.name.replace("_", " ")
    by = line.by.replace("_x_", " x ")
    return f"{name} of {by} {line.group}" if line.group else f"{name} by {by}" if by else name


def _row(line: ChangeLine, pairing: str) -> TableRow:
    # Decimals, as gaps, or in the unit of a number that is decided.
    change: ReportedNumber = show_quantity(
        line.change, line.name if unit_of(line.name) == "target" else "accuracy_difference"
    )
    pairs = line.pairing if isinstance(line.change, Observed) and line.pairing != pairing else ""
    detail = "; ".join(part for part in (pairs, line.caution) if part)
    return TableRow(
        (name_line(line), _report_number(line.before, line), _report_number(line.after, line), change, line.verdict),
        detail,
    )


def _report_number(quantity: Quantity, line: ChangeLine) -> ReportedNumber:
    """Return a number of one audit without its own interval, which is at another level."""
    if isinstance(quantity, Unknown):
        return ReportedNumber("-", kind="unknown", basis=quantity.reason)
    return ReportedNumber(_format_known(quantity, line), quantity.value, kind=quantity.kind)


def _format_known(quantity: Known, line: ChangeLine) -> str:
    return format_value(quantity, line.name if line.name in METRICS else "own_metric")

"""Document of a comparison: better and worse numbers, all changes, and their methods."""

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
from evenhand.stats.metric_specs import METRICS, metric_spec, unit_of
from evenhand.stats.quantity import Descriptive, Known, Observed, Proved, Quantity, Unknown, format_value, show_quantity

PAIRINGS = {
    "paired": "Paired: both audits are about the same people and contain the decision about each of them. Numbers "
    "that are not stored for each person, such as counterfactual flips, ratios and custom metrics, are bounded by the "
    "intervals of both audits.",
    "same people": "Not paired, although both audits are about the same people: the reports do not contain the "
    "decision about each of them. Each change is bounded by the intervals of both numbers. These bounds are valid for "
    "any dependence, but wide.",
    "unpaired": "Unpaired: the people differ and are treated as two independent samples. If many people are in both, "
    "the intervals are not exact.",
}
PROOF = "Proof"
EXACT = (
    "Proved shares are exact and have no interval. They also depend on the effort of the proof. A change is better "
    "only if the largest possible share of unfairly treated people is below the share proved before, and worse only if "
    "the proved share is above the largest share possible before."
)
KEEP = "audit both with --keep-decisions (keep_decisions=True) to get paired, shorter intervals"


def build_document(result: AuditComparison) -> Document:
    """Build the document of a comparison."""
    return Document(
        f"{result.after.model}, {result.after.data}, compared with {result.before.model}, {result.before.data}",
        blocks=tuple(_blocks(result)),
        brand="Evenhand compare",
    )


def _blocks(result: AuditComparison) -> Iterator[Block]:
    yield Text(items=tuple(_findings(result)), role="finding")
    yield Note(PAIRINGS[result.pairing] + (f" Next time, {KEEP}." if result.pairing == "same people" else ""))
    level = format_level(result.confidence)
    simultaneous = (
        f"; intervals are simultaneous over all {result.comparisons} changes ({level}, Bonferroni)"
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
            f"{title}: shares of the simulated population, proved"
            if proved
            else f"{title}, observed{unit}{simultaneous}",
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
        "Dots: change, after minus before, with its interval. An interval that excludes 0 is a clear change.",
        result,
    )
    if result.left_out:
        yield Heading("Not compared")
        yield Text(items=tuple(f"{number}." for number in result.left_out))
    yield Heading("Method", detail=True)
    methods = dict.fromkeys(line.change.method for line in result.lines if isinstance(line.change, Observed))
    yield Facts(
        (
            ("Before", f"{result.before.model}, {result.before.data}; SHA-256 {result.before.fingerprint}"),
            ("After", f"{result.after.model}, {result.after.data}; SHA-256 {result.after.fingerprint}"),
            ("Intervals", "; ".join(methods) or "none"),
            (
                "Verdicts",
                "accuracy, area under the ROC curve and demographic parity ratio are better if higher; gaps, flip "
                "rates and absolute errors are better if lower; all other numbers, such as a selection rate, a mean or "
                "a custom metric, are only higher or lower. No clear change: the interval contains 0, which does not "
                "prove that nothing changed",
            ),
        )
    )


def _findings(result: AuditComparison) -> Iterator[str]:
    better, worse = result.count("better"), result.count("worse")
    assessed = sum(line.verdict in ("better", "worse", "no clear change") for line in result.lines)
    yield (
        f"{format_count(worse, 'number is', 'numbers are')} clearly worse and {better} clearly better than before, of "
        f"{assessed} that can be better or worse, such as accuracies, gaps, ratios and flip rates."
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
        title = f"By {by.replace('_x_', ' x ')}" if by else "All people"
        yield title, [line for line in counted if line.by == by]
    if proved:
        yield PROOF, proved


def name_line(line: ChangeLine) -> str:
    """Name the number of a line, such as ``demographic parity difference by sex``."""
    name = METRICS[line.name].short_title if line.name in METRICS else line.name.replace("_", " ")
    by = line.by.replace("_x_", " x ")
    return f"{name} of {by} {line.group}" if line.group else f"{name} by {by}" if by else name


def _row(line: ChangeLine, pairing: str) -> TableRow:
    # Changes are decimals, like gaps, or have the unit of a numeric target.
    change: ReportedNumber = show_quantity(
        line.change, line.name if unit_of(line.name) == "target" else "accuracy_difference"
    )
    other_pairing = line.pairing if isinstance(line.change, Observed) and line.pairing != pairing else ""
    detail = "; ".join(part for part in (other_pairing, line.caution) if part)
    return TableRow(
        (name_line(line), _report_number(line.before, line), _report_number(line.after, line), change, line.verdict),
        detail,
    )


def _report_number(quantity: Quantity, line: ChangeLine) -> ReportedNumber:
    """Format a number of one audit without its interval, which has a different level."""
    if isinstance(quantity, Unknown):
        return ReportedNumber("-", kind="unknown", basis=quantity.reason)
    assert not isinstance(quantity, Descriptive)  # only rankings have descriptive numbers
    return ReportedNumber(_format_known(quantity, line), quantity.value, kind=quantity.kind)


def _format_known(quantity: Known, line: ChangeLine) -> str:
    return format_value(quantity, metric_spec(line.name).name)

"""A comparison of two audits in words: what is better and worse, every change, and how it is known."""

from __future__ import annotations

from collections.abc import Iterator

from evenhand.auditing.comparison import AuditComparison, ChangeLine
from evenhand.core import Block, Column, Document, Facts, Figure, Heading, Note, ReportedNumber, Table, TableRow, Text
from evenhand.stats import Observed, Quantity, Unknown, format_value, show_quantity
from evenhand.text import format_count, format_level

NAMES = {
    "selection_rate": "selection rate",
    "accuracy": "accuracy",
    "true_positive_rate": "true positive rate",
    "demographic_parity_difference": "demographic parity difference",
    "demographic_parity_ratio": "demographic parity ratio",
    "equal_opportunity_difference": "equal opportunity difference",
    "accuracy_difference": "accuracy difference",
    "counterfactual_flip_rate": "counterfactual flip rate",
}
PAIRINGS = {
    "paired": "Paired: both audits are about the same people, and both decisions about each are known. What they "
    "share cancels. Counterfactual flip rates are not kept for each person: their changes, and those of ratios, are "
    "bounded by the intervals of both.",
    "same people": "Not paired, although both audits are about the same people: the reports do not hold who was "
    "selected. Each change is bounded by the intervals of both numbers, which holds however they depend on each other "
    "but is wide.",
    "unpaired": "Unpaired: the people are not the same, and are taken for two independent samples. If many are in "
    "both, the intervals are not exact.",
}
KEEP = "audit both with --keep-decisions (keep_decisions=True) for paired, shorter intervals"


def build_document(result: AuditComparison) -> Document:
    """Return what a comparison says."""
    return Document(
        f"{result.after.model}, {result.after.data}, compared with {result.before.model}, {result.before.data}",
        f"{format_count(result.before.people, 'person', 'people')} before, "
        f"{format_count(result.after.people, 'person', 'people')} after",
        tuple(_blocks(result)),
        brand="Evenhand compare",
        made=result.provenance,
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
    for title, lines in _parts(result):
        yield Heading(title)
        yield Table(
            f"{title}, observed{together}",
            (
                Column("number"),
                Column("before", numeric=True),
                Column("after", numeric=True),
                Column("change", numeric=True),
                Column("verdict"),
            ),
            tuple(_row(line, result.pairing) for line in lines),
            usual="observed",
        )
    yield Figure(
        "changes", "Dots: the change, after minus before, with its interval. A line that misses 0 is a clear change.",
        result,
    )  # fmt: skip
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
                "accuracy and demographic parity ratio are better if higher; gaps and flip rates if lower; a selection "
                "rate or true positive rate is neither, and higher or lower. No clear change: the interval contains 0, "
                "which does not prove that "
                "nothing changed",
            ),
        )
    )


def _findings(result: AuditComparison) -> Iterator[str]:
    better, worse = result.count("better"), result.count("worse")
    judged = sum(line.verdict in ("better", "worse", "no clear change") for line in result.lines)
    yield (
        f"{format_count(worse, 'number is', 'numbers are')} clearly worse and {better} clearly better than before, of "
        f"{judged} accuracies, gaps, ratios and flip rates that may be judged."
    )
    for verdict in ("worse", "better"):
        for line in [line for line in result.lines if line.verdict == verdict][:3]:
            assert not isinstance(line.before, Unknown)
            assert not isinstance(line.after, Unknown)
            yield (
                f"{verdict.capitalize()}: {name_line(line)}, {format_value(line.before, line.name)} before and "
                f"{format_value(line.after, line.name)} after."
            )


def _parts(result: AuditComparison) -> Iterator[tuple[str, list[ChangeLine]]]:
    whole = [line for line in result.lines if not line.by]
    if whole:
        yield "Everybody together", whole
    for by in dict.fromkeys(line.by for line in result.lines if line.by):
        yield f"By {by.replace('_x_', ' x ')}", [line for line in result.lines if line.by == by]


def name_line(line: ChangeLine) -> str:
    """Return what a line is about: ``demographic parity difference by sex``, ``selection rate of sex Female``."""
    name, by = NAMES[line.name], line.by.replace("_x_", " x ")
    return f"{name} of {by} {line.group}" if line.group else f"{name} by {by}" if by else name


def _row(line: ChangeLine, pairing: str) -> TableRow:
    change: ReportedNumber = show_quantity(line.change, "accuracy_difference")  # decimals, as gaps
    detail = line.pairing if isinstance(line.change, Observed) and line.pairing != pairing else ""
    return TableRow(
        (name_line(line), _shown(line.before, line), _shown(line.after, line), change, line.verdict), detail
    )


def _shown(quantity: Quantity, line: ChangeLine) -> ReportedNumber:
    """Return a number of one audit without its own interval, which is at another level."""
    if isinstance(quantity, Unknown):
        return ReportedNumber("-", kind="unknown", basis=quantity.reason)
    return ReportedNumber(format_value(quantity, line.name), quantity.value, kind=quantity.kind)

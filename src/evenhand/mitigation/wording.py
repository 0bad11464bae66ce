"""Document of a mitigation."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from evenhand.core.document import (
    Block,
    Column,
    Document,
    Facts,
    Figure,
    Fold,
    Heading,
    Metric,
    Note,
    ReportedNumber,
    Table,
    TableRow,
    Text,
)
from evenhand.core.text import format_count, format_level, format_percent
from evenhand.groups.config import SMALL
from evenhand.mitigation.result import PART_TITLES, CandidateResult, Change, ComparisonLine, MitigationResult
from evenhand.stats.metric_specs import unit_of
from evenhand.stats.quantity import Quantity, Unknown, format_quantity, show_quantity

MINUS = "\N{MINUS SIGN}"

SIGNS = {"better": "\N{BLACK CIRCLE}", "worse": "\N{BLACK UP-POINTING TRIANGLE}"}
"""Markers of verdicts, as in the figures."""

MAIN_PARTS = ("performance", "asked")
"""Topics of the summary."""

METHOD = {
    "shares of people": "paired, before and after: Tango\u2019s score interval, held to McNemar\u2019s exact test",
    "areas under the curve": "DeLong\u2019s test for paired data",
    "gaps": f"groups of at least {SMALL} people in the test set; the interval that reaches furthest over all pairs of "
    "groups, which is valid whichever groups are truly furthest apart",
    "other subgroups": "found in the validation set under the new model, measured on the test set",
    "proofs": "equal numbers of boxes for networks of equal size, over independent attributes distributed as in the "
    "training set; better or worse only if the proved share of one model excludes all possible values of the other",
}
"""Methods of the comparison, the same for each mitigation."""

LIMITS = (
    "All observed numbers are about people like those in the test set. Groups absent from the data are not covered.",
    "\u201cWithin noise\u201d does not prove that nothing changed: small groups can hide large changes, as the "
    "intervals show.",
    "Regressions were checked for the protected attributes of the schema, alone and jointly, and for their subgroups. "
    "Others were not checked.",
    "True labels are assumed to be correct. If they reflect past discrimination, so do accuracy and error rates.",
    "The test set is used up: the numbers of a model chosen on this page are biased by the choice. Report numbers of "
    "a new test set instead.",
)


def build_document(result: MitigationResult) -> Document:
    """Build the document: the first candidate, then all candidates in detail."""
    sizes, leading = result.people, result.candidates[0]
    lead = (
        f"Training set {format_count(sizes.train, 'person', 'people')}, validation set {sizes.validation:,}, test "
        f"set {sizes.test:,}{f' of {result.test_data}' if result.test_data else ''}. "
        "Numbers are observed on the test set unless stated otherwise. All intervals of changes hold simultaneously "
        f"with {format_level(result.confidence)} confidence."
    )
    blocks: list[Block] = []
    if result.interrupted:
        blocks.append(Note("The mitigation was interrupted. These are the best models so far.", "caution"))
    blocks += _decision_blocks(result)
    blocks += _headline_numbers(leading)
    blocks += _regression_blocks(result)
    blocks += [Note(note) for note in result.notes]
    blocks += _comparison_blocks(result)
    for i, candidate in enumerate(result.candidates):
        blocks += _candidate_blocks(result, candidate, i)
    blocks += [Heading("Method", anchor="method", detail=True), _method_facts(result)]
    blocks += [Heading("Limits", detail=True), Text(items=LIMITS)]
    return Document(
        f"Mitigation of {result.model} on {result.data}",
        lead,
        tuple(blocks),
        "Evenhand mitigation",
    )


def _decision_blocks(result: MitigationResult) -> Iterator[Block]:
    """Yield the recommended model."""
    leading = result.candidates[0]
    if result.chosen is not None:
        yield Text(f"Use the new model, {leading.method}: {leading.words}.", role="finding")
        return
    yield Text("No better model was found. The original model is kept, and no model is written.", role="finding")
    yield Text(f"{leading.method}: {leading.rejected}. The numbers of its model, {leading.words}, follow.")
    better = [candidate.method for candidate in result.candidates if not (candidate.control or candidate.rejected)]
    if better:
        yield Note(f"The model of {better[0]} is better than the original one. Name this method first to write it.")


def _headline_numbers(candidate: CandidateResult) -> Iterator[Block]:
    """Yield the main numbers: performance, metrics, numbers that got worse, and proofs; then a count of verdicts."""
    for line in candidate.lines:
        proof = line.name == "certified" and not candidate.control
        if line.part in MAIN_PARTS or proof or line.verdict == "worse":
            yield _metric(line)
    verdicts = Counter(line.verdict for line in candidate.lines)
    counts = ", ".join(f"{n} {verdict}" for verdict, n in verdicts.items())
    yield Text(f"Verdicts on all {format_count(len(candidate.lines), 'number', 'numbers')}: {counts}.")
    yield Text(
        "\u201cWithin noise\u201d: the test set is too small to decide. The number may still have changed.",
        role="small",
    )


def _metric(line: ComparisonLine) -> Metric:
    """Show the number after mitigation, with the number before, the verdict and the change."""
    verdict = _format_verdict(line)
    if line.change is not None:
        change = _show_change(line, line.change)
        verdict = f"{verdict}, {change.text} ({change.ends})"
    original, number = (_show_number(line, quantity) for quantity in (line.before, line.after))
    before = line.before.reason if isinstance(line.before, Unknown) else original.text
    return Metric(line.words, number, (f"vs. {before} before: {verdict}", *filter(None, (line.note,))))


def _show_number(line: ComparisonLine, quantity: Quantity) -> ReportedNumber:
    """Format a number: decimals for areas and for gaps between groups, otherwise percentages."""
    number = show_quantity(quantity, line.name, basis=quantity.reason if isinstance(quantity, Unknown) else "")
    if line.name != "auc" or number.value is None:
        return number
    # Areas are often close together, so two digits would hide changes.
    ends = "" if number.low is None else f"{number.low:.3f} to {number.high:.3f}"
    return replace(number, text=f"{number.value:.3f}", ends=ends)


def _show_change(line: ComparisonLine, change: Change) -> ReportedNumber:
    """Format a change with its interval: ``-3.2 points``, from ``-4.8`` to ``-1.7``."""
    scale, unit = (1, "") if unit_of(line.name) == "decimal" else (100, " points")
    half = scale * (change.high - change.low) / 2
    fewest = 2 if scale == 1 else 1
    digits = min(6, max(fewest, math.ceil(-math.log10(half)))) if half > 0 else fewest
    # The verdict depends on whether an end is 0, so rounding must not turn an end into 0.
    while digits < fewest + 3 and any(end and not round(scale * end, digits) for end in (change.low, change.high)):
        digits += 1

    def signed(value: float) -> str:
        text = f"{scale * value:+.{digits}f}"
        return (text[1:] if not float(text) else text).replace("-", MINUS)

    ends = f"{signed(change.low)} to {signed(change.high)}"
    text = f"{signed(change.value)}{unit}"
    return ReportedNumber(text, change.value, "observed", change.low, change.high, ends, change.confidence)


def _format_verdict(line: ComparisonLine) -> str:
    """Format the verdict with its mark."""
    return f"{SIGNS[line.verdict]}\N{NO-BREAK SPACE}{line.verdict}" if line.verdict in SIGNS else line.verdict


def _regression_blocks(result: MitigationResult) -> Iterator[Block]:
    """Yield the regressions of all candidates."""
    for candidate in result.candidates:
        for line in candidate.regressions:
            change = f"from {format_quantity(line.before)} to {format_quantity(line.after)}"
            yield Note(f"Regression for another group under {candidate.method}: {line.words}: {change}", "caution")
    if not any(candidate.regressions for candidate in result.candidates):
        yield Text(
            "No regression for another group: no other subgroup and no other number by a protected attribute got worse "
            "beyond noise.",
            role="small",
        )


def _comparison_blocks(result: MitigationResult) -> Iterator[Block]:
    yield Heading("All candidates", anchor="candidates", detail=True)
    yield Text(
        "Performance and metrics of each model. Each candidate is compared with the original model, not with the "
        "others. The first is written if it is better."
    )
    yield Figure(
        "candidates",
        "On the test set, with an interval for each number. Dashed line: the original model. Filled blue circle: "
        "better. Filled orange diamond: worse. Hollow and grey: within noise, or not comparable.",
        result,
    )
    columns = [Column("number"), Column("original model", numeric=True)]
    columns += [Column(_candidate_name(candidate), numeric=True) for candidate in result.candidates]
    rows = []
    for leading in (line for line in result.candidates[0].lines if line.part in MAIN_PARTS):
        lines = [candidate.line(leading.name, leading.of) for candidate in result.candidates]
        cells = ["" if line is None else _show_marked(line) for line in lines]
        rows.append(TableRow((leading.words, _show_number(leading, leading.before), *cells)))
    counts = [f"{len(candidate.regressions):,}" if candidate.regressions else "none" for candidate in result.candidates]
    rows.append(TableRow(("regressions for other groups", "", *counts)))
    yield Table(
        f"Observed on the test set of {format_count(result.people.test, 'person', 'people')}, with "
        f"{format_level(result.confidence)} intervals; {SIGNS['better']} better and {SIGNS['worse']} worse than the "
        "original model",
        tuple(columns),
        tuple(rows),
        usual="observed",
    )


def _show_marked(line: ComparisonLine) -> ReportedNumber:
    """Format the number after, with the mark of the verdict."""
    number = _show_number(line, line.after)
    sign = SIGNS.get(line.verdict)
    return number if sign is None else replace(number, text=f"{number.text}\N{NO-BREAK SPACE}{sign}")


def _candidate_name(candidate: CandidateResult) -> str:
    return f"{candidate.method} (control)" if candidate.control else candidate.method


def _candidate_blocks(result: MitigationResult, candidate: CandidateResult, i: int) -> Iterator[Block]:
    yield Heading(_candidate_name(candidate), anchor=f"candidate-{i}", detail=i == 0)
    yield Text(f"{candidate.words[:1].upper()}{candidate.words[1:]}.")
    if candidate.rejected:
        yield Text(f"Not better than the original model: {candidate.rejected}.")
    if candidate.interrupted:
        yield Note("The method was interrupted. This is its best model so far.", "caution")
    yield from (Note(f"{note[:1].upper()}{note[1:].rstrip('.')}.") for note in candidate.notes)
    if i:
        yield from _headline_numbers(candidate)
    yield Figure(
        "before and after",
        "Before (short line) and after (mark), and the change with its adjusted interval, cut off if it is very wide. "
        "Filled blue circle: better. Filled orange diamond: worse. Hollow and grey: within noise, or undecided by "
        "proof.",
        candidate,
    )
    title, table = f"All {len(candidate.lines)} numbers compared", _lines_table(result, candidate)
    if i:
        yield Fold(title, (table,))
    else:
        yield Heading(title, level=3, detail=True)
        yield table


def _lines_table(result: MitigationResult, candidate: CandidateResult) -> Table:
    rows = []
    for part, title in PART_TITLES.items():
        lines = [line for line in candidate.lines if line.part == part]
        rows += [TableRow((title,), heading=True)] if lines else []
        rows += [_line_row(line) for line in lines]
    numbers = (Column(name, numeric=True) for name in ("before", "after", "change"))
    return Table(
        f"Before and after, observed, with {format_level(result.confidence)} intervals of each number alone; changes "
        "with adjusted intervals, in percentage points unless stated otherwise",
        (Column("number"), Column("verdict"), *numbers),
        tuple(rows),
        usual="observed",
    )


def _line_row(line: ComparisonLine) -> TableRow:
    change = line.change
    notes = [line.note] if line.note else []
    if change is not None and change.p is not None:
        notes.append(f"p {'below 1e-10' if change.p < 1e-10 else format(change.p, '.2g')}, not adjusted")
    numbers = (_show_number(line, quantity) for quantity in (line.before, line.after))
    # The caption describes the adjustment of the changes.
    shown = "" if change is None else _show_change(line, change)
    return TableRow((line.words, _format_verdict(line), *numbers, shown), "; ".join(notes))


def _method_facts(result: MitigationResult) -> Facts:
    sizes = result.people
    sources = f"; found in {', '.join(result.sources)}" if result.sources else ""
    test = f"all {sizes.test:,} of {result.test_data}" if result.test_data else f"{sizes.test:,}"
    levels = [
        (candidate.method, [line.change.confidence for line in candidate.lines if line.change is not None])
        for candidate in result.candidates
    ]
    adjusted = "; ".join(f"{name}, {len(own)} intervals of {100 * own[0]:.2f} % each" for name, own in levels if own)
    facts = {
        "people": f"stratified by label and protected group: training set {sizes.train:,}, validation set "
        f"{sizes.validation:,}; test set {test}",
        "metrics": f"{'; '.join(result.harms)}{sources}",
        "allowed loss": f"{format_percent(result.accuracy_loss)} of accuracy, on the validation set",
        "verdicts": "better or worse if the adjusted interval of the change excludes 0"
        f"{f': {adjusted}' if adjusted else ''} (Bonferroni), so that all intervals of a candidate hold simultaneously "
        f"with {format_level(result.confidence)} confidence",
    }
    return Facts(tuple({**facts, **METHOD}.items()))

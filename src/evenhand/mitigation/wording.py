"""A mitigation in words: what the new models changed, on people whom no method looked at."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

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
from evenhand.groups.result import SMALL
from evenhand.mitigation.result import (
    PART_TITLES,
    PUBLISHED,
    CandidateResult,
    Change,
    ComparisonLine,
    MitigationResult,
)
from evenhand.stats.metric_specs import unit_of
from evenhand.stats.quantity import Proved, Quantity, Unknown, show_quantity

MINUS = "\N{MINUS SIGN}"

SIGNS = {"better": "\N{BLACK CIRCLE}", "worse": "\N{BLACK UP-POINTING TRIANGLE}"}
"""What stands before a verdict: the mark that it has in the drawings."""

HEADED = ("performance", "asked")
"""Parts that are read first; of the others, what got worse."""

OFFERED = ("widest_gap", "certified")
"""Numbers besides."""

LIMITS = (
    "Everything observed is about people like those in the test set. Whom the data do not have, it says nothing about.",
    "Within noise does not prove that nothing changed: small groups can hide large changes, as intervals show.",
    "Regressions were looked for by the protected attributes that the schema names, alone and together, and by "
    "subgroups of them. Elsewhere they were not looked for.",
    "True labels are taken as given. Where they carry past harm, accuracy and error rates carry it too.",
    "These people are spent: who chooses a model by this page, and then reports these numbers, reports a choice. Keep "
    "others for that.",
)


def build_document(result: MitigationResult) -> Document:
    """Return what a mitigation says: the new model, then all candidates, then each of them in full."""
    people, first = result.people, result.candidates[0]
    lead = (
        f"Training set {format_count(people.train, 'person', 'people')}, validation set {people.validation:,}, test "
        f"set {people.test:,}{f' of {result.test_data}' if result.test_data else ''}. "
        "Everything is observed on the test set unless it says otherwise; all intervals of changes hold together with "
        f"{format_level(result.confidence)}."
    )
    blocks: list[Block] = []
    if result.interrupted:
        blocks.append(Note("The mitigation was interrupted: this is the best that was found before.", "caution"))
    blocks += _decision_blocks(result)
    blocks += headline_answers(first)
    blocks.append(Text(f"{describe_verdicts(first)}."))
    blocks.append(
        Text("\u201cWithin noise\u201d: the test set cannot tell; it does not say that nothing changed.", role="small")
    )
    blocks += _regression_blocks(result)
    blocks += [Note(note) for note in result.notes]
    blocks += _comparison_blocks(result)
    for i, candidate in enumerate(result.candidates):
        blocks += _candidate_blocks(result, candidate, i)
    blocks += [Heading("How it was done", anchor="method", detail=True), _method_facts(result)]
    blocks += [Heading("Limits", detail=True), Text(items=LIMITS)]
    return Document(
        f"Mitigation of {result.model} on {result.data}",
        lead,
        tuple(blocks),
        "Evenhand mitigation",
        result.provenance,
        result.readings,
    )


def _decision_blocks(result: MitigationResult) -> Iterator[Block]:
    """Yield which model is to be used: the new one, or the given one as nothing better was found."""
    first = result.candidates[0]
    if result.chosen is not None:
        yield Text(f"The new model, {first.method}: {first.words}.", tuple(_changes(first)), role="finding")
        return
    yield Text("Nothing better was found: the given model is kept, and no model is written.", role="finding")
    yield Text(f"{first.method}: {first.rejected}. Its model beside the given one, {first.words}:")
    better = [one.method for one in result.candidates if not (one.control or one.rejected)]
    if better:
        yield Note(
            f"The first method is the one that is written. Better than the given model is {better[0]}: name it first."
        )


def _changes(candidate: CandidateResult) -> Iterator[str]:
    """Yield what got worse, what got better and what became of the accuracy: a sentence each, four at most."""
    worse, better = (
        [line for line in candidate.lines if line.verdict == verdict][:most]
        for verdict, most in (("worse", 1), ("better", 2))
    )
    shown = {line.name: line for line in candidate.lines if line.name == "accuracy"}
    for said, lines in (("Worse", worse), ("Better", better), ("Performance", [*shown.values()])):
        for line in lines:
            if not isinstance(line.before, Unknown) and not isinstance(line.after, Unknown):
                before, after = (show_number(line, one).text for one in (line.before, line.after))
                yield f"{said}: {line.words}, {before} before and {after} after."


def headline_answers(candidate: CandidateResult) -> list[Metric]:
    """Return the numbers to read first: performance, what was to be reduced, what got worse, what else there is now."""
    offered = () if candidate.control else OFFERED
    # Where people are compared who can exist, what was published stands beside their rate.
    plausible = {line.of for line in candidate.lines if line.name == "counterfactual_flip_rate"}
    beside = {line.of: line for line in candidate.lines if line.name == "flip_rate" and line.of in plausible}
    lines = [
        line
        for line in candidate.lines
        if (line.part in HEADED or line.name in offered or line.verdict == "worse")
        and not (line.of in plausible and line.name in PUBLISHED)
    ]
    return [_answer(line, beside.get(line.of) if line.name == "counterfactual_flip_rate" else None) for line in lines]


def describe_verdicts(candidate: CandidateResult) -> str:
    """Say how many numbers got which verdict, so that what is not shown is not taken for worse or better."""
    counted: dict[str, int] = {}
    for line in candidate.lines:
        counted[line.verdict] = counted.get(line.verdict, 0) + 1
    said = ", ".join(f"{n} {verdict}" for verdict, n in counted.items())
    return f"All {format_count(len(candidate.lines), 'number', 'numbers')} compared: {said}"


def show_number(line: ComparisonLine, quantity: Quantity, *, sign: str = "") -> ReportedNumber:
    """Return a number of a line: decimals for areas and for gaps between groups, else percent.

    Args:
        line: whose number it is.
        quantity: the number before, or after.
        sign: what stands behind it.
    """
    behind = f"\N{NO-BREAK SPACE}{sign}" if sign else ""
    if line.name == "auc" and not isinstance(quantity, Unknown):
        # Areas are close to each other: two digits would often show no change where there is one.
        value, text = quantity.value, f"{quantity.value:.3f}{behind}"
        if isinstance(quantity, Proved):
            return ReportedNumber(text, value, "proved")
        ends = f"{quantity.low:.3f} to {quantity.high:.3f}"
        return ReportedNumber(text, value, quantity.kind, quantity.low, quantity.high, ends, quantity.confidence)
    shown = show_quantity(quantity, line.name, basis=quantity.reason if isinstance(quantity, Unknown) else "")
    return ReportedNumber(
        f"{shown.text}{behind}",
        shown.value,
        shown.kind,
        shown.low,
        shown.high,
        shown.ends,
        shown.confidence,
        shown.basis,
    )


def show_change(line: ComparisonLine, change: Change) -> ReportedNumber:
    """Return a change with its interval: ``-3.2 points``, from ``-4.8`` to ``-1.7``."""
    scale, unit = (1, "") if unit_of(line.name) == "decimal" else (100, " points")
    half = scale * (change.high - change.low) / 2
    least = 2 if scale == 1 else 1
    digits = min(6, max(least, math.ceil(-math.log10(half)))) if half > 0 else least
    # An end that is not 0 does not look like it: that is what the verdict rests on.
    while digits < least + 3 and any(end and not round(scale * end, digits) for end in (change.low, change.high)):
        digits += 1

    def signed(value: float) -> str:
        shown = f"{scale * value:+.{digits}f}"
        return (shown[1:] if not float(shown) else shown).replace("-", MINUS)

    return ReportedNumber(
        f"{signed(change.value)}{unit}",
        change.value,
        "estimated" if line.after.kind == "estimated" else "observed",
        change.low,
        change.high,
        f"{signed(change.low)} to {signed(change.high)}",
        change.confidence,
    )


def describe_reduction(line: ComparisonLine) -> str:
    """Say how many times fewer people a rate concerns, where that is more than twice: ``12 times fewer``."""
    if not line.name.endswith("flip_rate") or line.verdict != "better":
        return ""
    if isinstance(line.before, Unknown) or isinstance(line.after, Unknown):
        return ""
    if line.after.value == 0:
        return "none left among those asked about"
    times = line.before.value / line.after.value
    return f"{times:.3g} times fewer" if times >= 2 else ""


def format_verdict(line: ComparisonLine) -> str:
    """Return the verdict behind its mark."""
    return f"{SIGNS[line.verdict]}\N{NO-BREAK SPACE}{line.verdict}" if line.verdict in SIGNS else line.verdict


def _answer(line: ComparisonLine, published: ComparisonLine | None = None) -> Metric:
    """Return the number after, with the number before, the verdict and the change beside it; as published besides."""
    before = "unknown" if isinstance(line.before, Unknown) else show_number(line, line.before).text
    said = f"{format_verdict(line)}{f', {_format_change(line)}' if line.change else ''}"
    if isinstance(line.after, Unknown):
        notes = [f"before {before}; {said}"]
    else:
        notes = [f"after {before} before: {said}"]
        if isinstance(line.before, Unknown):
            notes.append(f"before: {line.before.reason}")
    number = show_number(line, line.after)
    if not isinstance(line.after, Unknown):
        number = ReportedNumber(number.text, number.value, number.kind)
    more = [part for part in (describe_reduction(line), line.note) if part]
    if published is not None:
        first, second = (
            "unknown" if isinstance(one, Unknown) else show_number(published, one).text
            for one in (published.before, published.after)
        )
        more.append(f"as published, only the attribute changes: {second} after {first} before")
    return Metric(line.words, number, (*notes, *more))


def _format_change(line: ComparisonLine) -> str:
    if line.change is None:
        return ""
    shown = show_change(line, line.change)
    return f"{shown.text} ({shown.ends})"


def _regression_blocks(result: MitigationResult) -> Iterator[Block]:
    """Yield what got worse without having been asked about, under every candidate."""
    found = [(candidate, one) for candidate in result.candidates for one in candidate.moved]
    for candidate, one in found:
        yield Note(f"Regression for another group under {candidate.method}: {one.words}", "caution")
    if not found:
        yield Text(
            "No regression for another group was seen: no other subgroup and no other measure by a protected attribute "
            "got worse by more than noise.",
            role="small",
        )


def _comparison_blocks(result: MitigationResult) -> Iterator[Block]:
    yield Heading("Candidates side by side", anchor="candidates", detail=True)
    yield Text(
        "What each model is worth, and what was to be reduced. Each candidate is compared with the given model, not "
        "with the others; the first is the one that is written, if it is better."
    )
    yield Figure(
        "candidates",
        "On the test set, with intervals of each number alone. Square and dashed line: the given model. Filled blue "
        "circle: better than it. Filled orange triangle: worse. Hollow and grey: within noise, or not comparable.",
        result,
    )
    columns = [Column("number"), Column("given model", numeric=True)]
    columns += [Column(_candidate_name(candidate), numeric=True) for candidate in result.candidates]
    rows = []
    for wanted in (line for line in result.candidates[0].lines if line.part in HEADED):
        lines = [candidate.line(wanted.name, wanted.of) for candidate in result.candidates]
        cells = [
            "" if line is None else show_number(line, line.after, sign=SIGNS.get(line.verdict, "")) for line in lines
        ]
        rows.append(TableRow((wanted.words, show_number(wanted, wanted.before), *cells)))
    seen = [f"{len(candidate.moved):,}" if candidate.moved else "none seen" for candidate in result.candidates]
    rows.append(TableRow(("regressions for other groups", "", *seen)))
    yield Table(
        f"Observed on the {format_count(result.people.test, 'person', 'people')} of the test set, below each its "
        f"{format_level(result.confidence)} interval; {SIGNS['better']} better and {SIGNS['worse']} worse than the "
        "given model",
        tuple(columns),
        tuple(rows),
        usual="observed",
    )


def _candidate_name(candidate: CandidateResult) -> str:
    return f"{candidate.method} (control)" if candidate.control else candidate.method


def _candidate_blocks(result: MitigationResult, candidate: CandidateResult, i: int) -> Iterator[Block]:
    yield Heading(_candidate_name(candidate), anchor=f"candidate-{i}", detail=i == 0)
    yield Text(f"{candidate.words[:1].upper()}{candidate.words[1:]}.")
    if candidate.rejected:
        yield Text(f"Not better than the given model: {candidate.rejected}.")
    if candidate.interrupted:
        yield Note("It was interrupted; this is the best that was found before.", "caution")
    yield from (Note(f"{note[:1].upper()}{note[1:].rstrip('.')}.") for note in candidate.notes)
    if i:
        yield from headline_answers(candidate)
        yield Text(f"{describe_verdicts(candidate)}.")
    yield Figure(
        "before and after",
        "Before (grey bar) and after (mark), and beside it the change with its adjusted interval, cut at the edge "
        "where it is very wide. Filled blue circle: better. Filled orange triangle: worse. Hollow and grey: within "
        "noise, or not decided by proof.",
        candidate,
    )
    table = _lines_table(result, candidate)
    if i:
        yield Fold(f"All {len(candidate.lines)} numbers compared", (table,))
    else:
        yield Heading(f"All {len(candidate.lines)} numbers compared", level=3, detail=True)
        yield table
    if len(candidate.trials) > 1:
        yield Heading("What was tried", level=3, detail=True)
        yield _trial_table(result, candidate)


def _lines_table(result: MitigationResult, candidate: CandidateResult) -> Table:
    rows = []
    for part, title in PART_TITLES.items():
        lines = [line for line in candidate.lines if line.part == part]
        rows += [TableRow((title,), heading=True)] if lines else []
        rows += [_line_row(line) for line in lines]
    columns = (
        Column("number"),
        Column("verdict"),
        Column("before", numeric=True),
        Column("after", numeric=True),
        Column("change", numeric=True),
    )
    return Table(
        f"Before and after, observed, with {format_level(result.confidence)} intervals of each number alone; changes "
        "with adjusted intervals, in percentage points where nothing else is said",
        columns,
        tuple(rows),
        usual="observed",
    )


def _line_row(line: ComparisonLine) -> TableRow:
    change = line.change
    said = [line.note] if line.note else []
    if change is not None and change.p is not None:
        said.append(f"p {'below 1e-10' if change.p < 1e-10 else format(change.p, '.2g')}, not adjusted")
    # The caption says what changes are: that they are adjusted, and how far.
    shown = "" if change is None else show_change(line, change)
    return TableRow(
        (line.words, format_verdict(line), show_number(line, line.before), show_number(line, line.after), shown),
        "; ".join(said),
    )


def _trial_table(result: MitigationResult, candidate: CandidateResult) -> Table:
    def share(value: float) -> ReportedNumber:
        return ReportedNumber(format_percent(value), value, "observed")

    columns: Sequence[Column] = (
        Column(candidate.trials[0].setting),
        Column("chosen"),
        Column("accuracy", numeric=True),
        *(Column(harm, numeric=True) for harm in result.harms),
    )
    rows = tuple(
        TableRow(
            (
                f"{trial.value:.6g}",
                "yes" if trial.chosen else "",
                share(trial.accuracy),
                *(share(harm) for harm in trial.harms),
            )
        )
        for trial in candidate.trials
    )
    caption = (
        f"Observed on the {format_count(result.people.validation, 'person', 'people')} of the validation set, who "
        "decided what is chosen"
    )
    return Table(caption, tuple(columns), rows, usual="observed")


def _method_facts(result: MitigationResult) -> Facts:
    people = result.people
    sources = f"; found in {', '.join(result.sources)}" if result.sources else ""
    test = f"all {people.test:,} of {result.test_data}" if result.test_data else f"{people.test:,}"
    levels = [
        (candidate.method, [line.change.confidence for line in candidate.lines if line.change is not None])
        for candidate in result.candidates
    ]
    adjusted = "; ".join(f"{name}, {len(own)} intervals of {100 * own[0]:.2f} % each" for name, own in levels if own)
    return Facts(
        (
            (
                "people",
                "split once, with the same share of each label among each protected group: training set "
                f"{people.train:,}, validation set {people.validation:,}; test set {test}",
            ),
            ("to be reduced", f"{'; '.join(result.harms)}{sources}"),
            ("price allowed", f"{format_percent(result.accuracy_loss)} of accuracy, on the validation set"),
            (
                "verdicts",
                "better or worse where the adjusted interval of the change excludes no change"
                f"{f': {adjusted}' if adjusted else ''} (Bonferroni), so that all of one candidate hold together with "
                f"{format_level(result.confidence)}",
            ),
            (
                "shares of people",
                "the same people before and after: Tango\u2019s score interval, held to McNemar\u2019s exact test",
            ),
            ("areas under the curve", "DeLong\u2019s test for the same people"),
            (
                "gaps",
                f"groups of at least {SMALL} people in the test set; of all pairs of groups, the interval that reaches "
                "furthest, so that it holds whichever groups are truly furthest apart, before and after",
            ),
            (
                "other subgroups",
                "searched for in the validation set under the new model, measured on the test set",
            ),
            (
                "proofs",
                "as many boxes for both models where they are networks of one size, over independent attributes "
                "distributed as in the training set; better or worse only where what is proved of one model excludes "
                "all that could be true of the other",
            ),
        )
    )

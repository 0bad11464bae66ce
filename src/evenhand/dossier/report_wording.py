"""Dossiers that rest on results in words: documentation, impact assessment, scenarios, alternatives."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from evenhand.core import Block, Column, Document, Facts, Figure, Heading, Note, ReportedNumber, Table, TableRow, Text
from evenhand.dossier.citations import cite
from evenhand.dossier.evidence import Alternative, AlternativeLine, Alternatives, EvidenceNumber, ResultFile
from evenhand.dossier.findings import AT_LEAST, ScenarioFinding, ThresholdFinding
from evenhand.dossier.outline import OPEN, OUTLINES, read_statement
from evenhand.dossier.result import DossierName, DossierResult
from evenhand.dossier.table_wording import comparison_tables, name_category, show_decimal, show_percent
from evenhand.stats import Proved, Quantity, Unknown, show_quantity
from evenhand.text import format_count, format_level, format_percent

PERFORMANCE = ("accuracy", "true_positive_rate", "false_positive_rate", "precision", "mean_absolute_error", "auc")
"""Performance that documents show by group; a file has all of it."""

PART_TITLES = {
    "gap": "Gaps between groups",
    "flip": "Decisions that change with a protected attribute",
    "proof": "Proved for the population",
    "subgroup": "Subgroups that stand apart after adjustment and that no other explains",
}

FINDINGS = {"within": "within the threshold", "beyond": "beyond the threshold", "unknown": "unknown"}

NOT_MEASURED = "Not measured: no result of an audit was given for this item."


def document_items(result: DossierResult) -> Iterator[Block]:
    """Yield the items of the technical documentation, numbers where they can be measured."""
    yield Text(
        f"The items are those of {cite('annex-iv')}, and of paragraphs 2 and 3 of {cite('data-governance')}. What "
        "people must state is printed as they stated it, or as open; the numbers are measured."
    )
    for item, asks in OUTLINES["annex-iv"].items.items():
        yield from _state_item(result, "annex-iv", item, asks)
        if item == "2g":
            yield from _measured_outcomes(result, "annex-iv")
            yield from _evidence_tables(result.evidence, tuple(PART_TITLES))
        elif item == "3":
            yield from _performance_tables(result.evidence)
    yield Heading("Data governance (f): examination for biases", anchor="annex-iv-examination")
    examined = format_count(sum(len(one.numbers) for one in result.evidence), "number", "numbers")
    yield Text(
        f"Rates by {', '.join(' x '.join(one.by) for one in result.runs[0].four_fifths)} were compared, with exact "
        f"tests; results of other analyses add {examined}. They stand under item 2g. What was not examined:",
        tuple(f"{one.name}: {said}" for one in result.evidence for said in one.not_run)
        or (
            "nothing that was asked for; other attributes, and people whom the data does not have, were not looked at",
        ),
    )
    yield Heading("Data governance (g): measures against biases", anchor="annex-iv-measures")
    searches = [one for one in result.evidence if one.alternatives is not None or one.record is not None]
    for one in searches:
        if one.record is not None:
            chosen = one.record.chosen
            taken = "none was chosen" if chosen is None else f"candidate {chosen} was chosen"
            yield Text(f"Search for less discriminatory alternatives, {one.name}: {taken}, {one.record.reason}.")
        if one.alternatives is not None:
            yield from _tell_choice(one.alternatives)
            yield from _candidate_tables(one.alternatives, named=(one.alternatives.chosen,))
    if not searches:
        yield Text(f"No result of a mitigation was given. Measures: {OPEN}.")
    yield Heading("Data governance (h): gaps in the data", anchor="annex-iv-gaps")
    yield _gap_table(result)
    yield Heading("Data governance, paragraph 3: whom the data represents", anchor="annex-iv-population")
    yield from _population_table(result)


def assess_impact(result: DossierResult) -> Iterator[Block]:
    """Yield the items of the impact assessment: those affected are counted, what was measured is evidence for (d)."""
    yield Text(
        f"The items are those of paragraph 1 of {cite('fria')}. What people must state is printed as they stated it, "
        "or as open."
    )
    items = OUTLINES["fria"].items
    for item in "abcdef":
        if item == "c":
            yield Heading("(c) people and groups likely to be affected", anchor="fria-c")
            yield Text("Counted in the data; whether others are affected too is for people to say.")
            yield _gap_table(result)
            continue
        yield from _state_item(result, "fria", item, items[item])
        if item == "d":
            yield Text("Evidence for it, measured:")
            yield from _measured_outcomes(result, "fria")
            yield from _performance_tables(result.evidence)
            yield from _evidence_tables(result.evidence, tuple(PART_TITLES))
            if result.scenarios:
                yield from tell_scenarios(result)


def tell_scenarios(result: DossierResult) -> Iterator[Block]:
    """Yield each scenario: what was measured of it beside its threshold, what is done, and when it is reviewed."""
    scenarios = result.config.scenarios
    if not scenarios:
        yield Text(f"Scenarios: {OPEN}.")
    for number, one in enumerate(scenarios, start=1):
        group = ", ".join(f"{name}: {category}" for name, category in one.group.items())
        yield Heading(f"Scenario {number}: {group}", level=3, anchor=f"scenario-{number}")
        found = [each for each in result.scenarios if each.number == number]
        threshold = next((each.threshold for each in found if each.threshold is not None), None)
        side = "at least" if one.measure in AT_LEAST else "at most"
        limit = OPEN if threshold is None else f"{side} {_write_limit(threshold, one.measure)}"
        yield Facts(
            (
                ("Hazard", one.hazard or OPEN),
                ("Measure", one.measure.replace("_", " ")),
                ("Threshold", limit),
                ("Mitigation", one.mitigation or OPEN),
                ("Reviewed again when", one.review_trigger or OPEN),
            )
        )
        rows = tuple(
            TableRow((each.of, show_measure(each.quantity, one.measure), _word_finding(each))) for each in found
        )
        yield Table(
            f"What was measured of scenario {number}; below each number its interval",
            (Column("outcome or number"), Column("result", numeric=True), Column("finding")),
            rows,
        )


def tell_thresholds(result: DossierResult) -> Iterator[Block]:
    """Yield the ratios and differences of the tables beside the declared thresholds."""
    if not result.thresholds:
        return
    rows = tuple(
        TableRow(
            (
                name_category(one.category),
                one.of,
                one.measure,
                show_measure(one.quantity, one.measure),
                f"{'at least' if one.measure == 'ratio' else 'at most'} {_write_limit(one.threshold, one.measure)}",
                _word_finding(one),
            )
        )
        for one in result.thresholds
    )
    names = ("category", "of", "measure", "result", "threshold", "finding")
    yield Heading("Beside the declared thresholds", level=3, anchor="disparity-thresholds")
    yield Table(
        "Ratios to the reference, and the reference's rate minus this one: observed; below each its 95 % interval",
        tuple(Column(name, numeric=name == "result") for name in names),
        rows,
        usual="observed",
    )


def tell_alternatives(result: DossierResult) -> Iterator[Block]:
    """Yield the incumbent, the declared search, every candidate, and which was chosen or why none."""
    for file in result.evidence:
        found, record = file.alternatives, file.record
        told = file.refutation if record is None else record
        if found is None and told is None:
            continue
        what = "Refutation" if file.refutation is not None else "Search"
        yield Heading(f"{what} recorded in {file.name}", anchor=f"alternatives-{file.sha256[:8]}")
        if told is not None:
            yield from _tell_record(told.document())
        if found is None:
            continue
        yield Facts(
            (
                ("Incumbent", found.incumbent),
                ("People", f"{found.data}: training {found.train:,}, validation {found.validation:,}"),
                ("Holdout", f"{found.holdout}; no method looked at them"),
                ("Favourable", found.favourable),
                ("To be reduced", "; ".join(found.harms) or "-"),
                ("Findings that it started from", ", ".join(found.sources) or "-"),
                ("Methods declared", ", ".join(one.method for one in found.candidates)),
                (
                    "Budget",
                    f"{format_count(sum(len(one.trials) for one in found.candidates), 'model', 'models')} tried, "
                    f"{format_count(found.queries, 'individual', 'individuals')} asked of the incumbent",
                ),
                ("Floor", f"{format_percent(found.accuracy_loss)} of accuracy may be lost on the validation people"),
            )
        )
        yield from _tell_choice(found)
        yield from _candidate_tables(found)
        yield from _trial_tables(found)


def _tell_record(record: Document) -> Iterator[Block]:
    """Yield what a record says, its headings below the dossier's; its drawing stands on its own page."""
    yield Text(record.lead)
    for block in record.blocks:
        if not isinstance(block, Figure):
            yield Heading(block.text, level=3) if isinstance(block, Heading) else block


def list_evidence(result: DossierResult) -> Iterator[Block]:
    """Yield the files that the dossier rests on; nothing where there are none."""
    if not result.evidence:
        return
    yield Heading("Results that this rests on", anchor="evidence")
    columns = tuple(map(Column, ("file", "what", "about", "made by evenhand", "SHA-256")))
    rows = tuple(
        TableRow((one.name, one.result_kind, one.about, f"{one.evenhand}, seed {one.seed}", one.sha256[:16]))
        for one in result.evidence
    )
    yield Table("Files of results; of each SHA-256 the first 16 digits", columns, rows)
    notes = tuple(f"{one.name}: {note}" for one in result.evidence for note in one.notes)
    if notes:
        yield Text("What else is to be known of them:", notes)
    yield Text(
        "Observed: counted on people, with an interval for people like these. Estimated: from a random sample of a "
        "population, with an interval. Proved: follows from the model for the whole population, without sampling."
    )


REPORTS: dict[DossierName, Callable[[DossierResult], Iterator[Block]]] = {
    "annex-iv": document_items,
    "fria": assess_impact,
    "bias-scenarios": tell_scenarios,
    "alternatives": tell_alternatives,
}
"""What stands in a dossier beside who, when, and which data."""


def show_measure(quantity: Quantity, measure: str) -> ReportedNumber:
    """Return a number of a scenario or a threshold with its interval."""
    names = {
        "rate": "selection_rate",
        "ratio": "demographic_parity_ratio",
        "difference": "demographic_parity_difference",
    }
    return show_quantity(quantity, names.get(measure, measure))


def _write_limit(threshold: float, measure: str) -> str:
    percent = show_measure(Proved(value=threshold, how=""), measure).text.endswith("%")
    return f"{100 * threshold:.10g} %" if percent else f"{threshold:.10g}"


def _word_finding(one: ScenarioFinding | ThresholdFinding) -> str:
    if isinstance(one.quantity, Unknown):
        return f"unknown: {one.quantity.reason}"
    if one.threshold is None:
        return f"threshold {OPEN}"
    return f"{FINDINGS[one.finding]}{'; its interval reaches both sides' if one.straddles else ''}"


def _state_item(result: DossierResult, name: DossierName, item: str, asks: str) -> Iterator[Block]:
    shown = (
        f"{item[0]}({item[1:]})" if item[0].isdigit() and len(item) > 1 else item if item[0].isdigit() else f"({item})"
    )
    yield Heading(f"{shown} {asks}", anchor=f"{name}-{item}")
    yield Text(read_statement(result.config, name, item) or OPEN)


def _measured_outcomes(result: DossierResult, name: DossierName) -> Iterator[Block]:
    for run in result.runs:
        yield Text(f"Rates of people {run.of}, by group:")
        for table in run.four_fifths:
            yield from comparison_tables(table, name)


def _performance_tables(evidence: Sequence[ResultFile]) -> Iterator[Block]:
    audits = [one for one in evidence if any(number.part == "performance" for number in one.numbers)]
    if not audits:
        yield Text(NOT_MEASURED)
    for file in audits:
        numbers = [one for one in file.numbers if one.part == "performance" and one.name in PERFORMANCE]
        names = [name for name in PERFORMANCE if any(one.name == name for one in numbers)]
        titles = {one.name: one.words for one in numbers}
        if not names:
            yield Text(f"{file.name} has no true labels, so that nothing is known of errors.")
            continue
        by_group = {one.of: {each.name: each for each in numbers if each.of == one.of} for one in numbers}
        rows = tuple(
            TableRow((of, *(show_quantity(own[name].quantity, name) if name in own else "" for name in names)))
            for of, own in by_group.items()
        )
        columns = (Column("people"), *(Column(titles[name], numeric=True) for name in names))
        caption = f"Performance by group: observed, from {file.name}; below each its {_levels(numbers)} interval"
        yield Table(caption, columns, rows, usual="observed")


def _levels(numbers: Sequence[EvidenceNumber]) -> str:
    levels = sorted({level for one in numbers if (level := getattr(one.quantity, "confidence", None)) is not None})
    return " or ".join(map(format_level, levels)) or "95 %"


def _evidence_tables(evidence: Sequence[ResultFile], parts: Sequence[str]) -> Iterator[Block]:
    for file in evidence:
        for part in parts:
            numbers = [one for one in file.numbers if one.part == part]
            if not numbers:
                continue
            rows = tuple(TableRow((one.of, one.words, show_quantity(one.quantity, one.name))) for one in numbers)
            columns = (Column("of"), Column("number"), Column("value", numeric=True))
            caption = f"{PART_TITLES[part]}, from {file.name}; below each number its interval and kind"
            yield Table(caption, columns, rows)


def _gap_table(result: DossierResult) -> Table:
    rows = [
        TableRow(
            (
                f"{table.by[0]}: {name_category(row.category)}",
                row.n,
                show_percent(row.share),
                "empty" if not row.n else "below 2 % of the people" if row.below_2_percent else "",
            )
        )
        for table in result.runs[0].ll144
        if len(table.by) == 1
        for row in table.rows
    ]
    rows += [
        TableRow((f"{table.by[0]}: unknown", table.unknown, "-", "in no table of this attribute"))
        for table in result.runs[0].ll144
        if len(table.by) == 1
    ]
    columns = (Column("category"), Column("people", numeric=True), Column("share", numeric=True), Column("remark"))
    caption = f"Declared categories and unknown values: observed on {format_count(result.assessed, 'person', 'people')}"
    return Table(caption, columns, tuple(rows), usual="observed")


def _population_table(result: DossierResult) -> Iterator[Block]:
    if not result.population:
        yield Text(f"Shares of the people whom the system is for: {OPEN}.")
        return
    yield Text(f"Compared with: {result.config.population.source or OPEN}.")
    rows = tuple(
        TableRow(
            (
                f"{one.attribute}: {one.category}",
                one.n,
                show_quantity(one.share, "share"),
                f"{100 * one.reference:.10g} %",
                "" if isinstance(one.share, Unknown) else f"{100 * (one.share.value - one.reference):+.1f} points",
            )
        )
        for one in result.population
    )
    names = ("category", "people", "share of the data", "share of the population", "difference")
    columns = (Column(names[0]), *(Column(name, numeric=True) for name in names[1:]))
    yield Table("Shares: observed; below each its 95 % interval", columns, rows, usual="observed")


def _tell_choice(found: Alternatives) -> Iterator[Block]:
    if found.interrupted:
        yield Note("The search was interrupted: this is what was found before.", tone="caution")
    if found.chosen is not None:
        chosen = next(one for one in found.candidates if one.method == found.chosen)
        yield Text(f"Chosen: {chosen.method}, {chosen.recipe}.", role="finding")
    else:
        reasons = tuple(f"{one.method}: {one.rejected}" for one in found.candidates if one.rejected)
        yield Text("None was chosen: the incumbent is kept.", reasons, role="finding")


def _candidate_tables(found: Alternatives, named: Sequence[str | None] | None = None) -> Iterator[Block]:
    if named is None:
        yield from _overview(found)
    for one in found.candidates:
        if named is not None and one.method not in named:
            continue
        yield Heading(f"{one.method}: {one.recipe}", level=3)
        rows = tuple(
            TableRow(
                (
                    line.words,
                    _show_line(line, line.before),
                    _show_line(line, line.after),
                    _show_line(line, line.change) if line.change is not None else "-",
                    line.verdict,
                )
            )
            for line in one.lines
        )
        columns = (
            Column("number"),
            Column("incumbent", numeric=True),
            Column("candidate", numeric=True),
            Column("change", numeric=True),
            Column("what can be said"),
        )
        level = format_level(found.confidence)
        caption = (
            f"Incumbent and {one.method}: observed on {found.holdout}, unless a number says otherwise; below each its "
            f"interval, those of all changes together {level}"
        )
        yield Table(caption, columns, rows, usual="observed")
        if one.notes:
            yield Text("", one.notes, role="small")


def _overview(found: Alternatives) -> Iterator[Block]:
    keys = [
        (line.name, line.of, line.words)
        for line in (found.candidates[0].lines if found.candidates else ())
        if line.name == "accuracy" or line.part == "asked"
    ]

    def row(name: str, recipe: str, values: Sequence[ReportedNumber | str], frontier: bool | None) -> TableRow:
        return TableRow((name, recipe, *values, {True: "yes", False: "no", None: "unknown"}[frontier]))

    def values(one: Alternative, *, after: bool) -> list[ReportedNumber | str]:
        lines = {(line.name, line.of): line for line in one.lines}
        return [
            _show_line(line, line.after if after else line.before) if (line := lines.get((name, of))) else "-"
            for name, of, _ in keys
        ]

    if not found.candidates:
        return
    rows = [row("incumbent", "the model in use", values(found.candidates[0], after=False), found.incumbent_on_frontier)]
    rows += [
        row(f"{one.method}{' (control)' if one.control else ''}", one.recipe, values(one, after=True), one.on_frontier)
        for one in found.candidates
    ]
    columns = (
        Column("model"),
        Column("recipe"),
        *(Column(words, numeric=True) for _, _, words in keys),
        Column("on the frontier"),
    )
    caption = (
        f"Every model of the search: observed on {found.holdout}; below each number its interval. On the frontier: no "
        "other model shown is as good in all these numbers and better in one, as observed"
    )
    yield Table(caption, columns, tuple(rows), usual="observed")


def _trial_tables(found: Alternatives) -> Iterator[Block]:
    for one in found.candidates:
        if not one.trials:
            continue
        rows = tuple(
            TableRow(
                (
                    f"{trial.setting} {trial.value:.10g}",
                    show_percent(trial.accuracy),
                    *(show_decimal(harm) for harm in trial.harms),
                    "chosen" if trial.chosen else "",
                )
            )
            for trial in one.trials
        )
        width = max(len(trial.harms) for trial in one.trials)
        harms = [*found.harms, *(f"harm {number}" for number in range(len(found.harms) + 1, width + 1))][:width]
        columns = (
            Column("tried"),
            Column("accuracy", numeric=True),
            *(Column(harm, numeric=True) for harm in harms),
            Column("taken"),
        )
        caption = f"Models tried by {one.method}: observed on {found.validation:,} validation people, without intervals"
        yield Table(caption, columns, rows, usual="observed")


def _show_line(line: AlternativeLine, quantity: Quantity) -> ReportedNumber:
    return show_quantity(quantity, line.name)

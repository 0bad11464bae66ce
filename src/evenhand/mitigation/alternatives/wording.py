"""The record of a search for less discriminatory alternatives in words."""

from __future__ import annotations

from collections.abc import Iterator

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
from evenhand.core.text import format_count, format_decimal, format_level, format_percent, join_names
from evenhand.mitigation.alternatives.gaps import GAP_WORDS
from evenhand.mitigation.alternatives.result import AlternativeCandidate, AlternativesResult
from evenhand.mitigation.refutation.wording import state_finding
from evenhand.mitigation.result import Change

MINUS = "\N{MINUS SIGN}"

LIMITS = (
    "None better means: none in the space that was searched, within the loss that was allowed, on these people. Other "
    "methods, attributes or data may have one.",
    "True labels are taken as given. Where they carry past harm, accuracy carries it too.",
    "Numbers of single candidates on the people kept aside have no interval where they are not on the frontier. Who "
    "picks one of these by its number there picks chance with it.",
    "These people are spent: who chooses another candidate by this record measures it again on others.",
)


def build_document(result: AlternativesResult) -> Document:
    """Return the choice, the frontier on the people kept aside, the declared search, and every candidate."""
    aside = format_count(result.test, "person", "people")
    lead = (
        f"Candidates were trained and validated on {format_count(result.validation, 'person', 'people')} of "
        f"{result.data}, and compared with the given model on {aside}"
        f"{f' of {result.test_data}' if result.test_data else ''} whom nothing looked at. "
        f"To be reduced: {GAP_WORDS[result.against]}, by "
        f"{join_names(result.protected)}."
    )
    blocks: list[Block] = []
    if result.interrupted:
        blocks.append(Note("The search was interrupted: these are the candidates that were made before.", "caution"))
    blocks += _choice_blocks(result)
    if result.refutation is not None:
        blocks.append(Text(f"Refutation: {state_finding(result.refutation)}"))
    blocks += [Note(note) for note in result.notes]
    blocks += _frontier_blocks(result)
    blocks += [Heading("The declared search", anchor="search", detail=True), _search_facts(result)]
    blocks += [Text("What was searched:", result.space), Text(f"The rule: {result.rule}")]
    blocks += [Heading("Every candidate", anchor="candidates", detail=True), _candidate_table(result)]
    blocks += [Heading("By group", anchor="groups", detail=True), _group_table(result)]
    blocks += [Heading("Limits", detail=True), Text(items=LIMITS)]
    return Document(
        f"Less discriminatory alternatives to {result.model}",
        lead,
        tuple(blocks),
        brand="Evenhand mitigation",
        made=result.provenance,
        readings=result.readings,
    )


def _choice_blocks(result: AlternativesResult) -> Iterator[Block]:
    given = result.candidates[0].test
    if result.chosen is None:
        yield Text(f"None is better: {result.reason}. The given model is kept.", role="finding")
        if result.least_loss is not None and result.least_loss > result.accuracy_loss:
            yield Text(
                f"With these people the rule can tell a smaller gap from a loss of {_points(result.least_loss)} on: "
                f"allow as much with `accuracy_loss={result.least_loss:.4f}`, or give more people."
            )
        return
    one = result.candidates[result.chosen]
    yield Text(
        f"Candidate {one.number} takes the given model's place: {one.recipe}. {_name_needs(one)}", role="finding"
    )
    yield Text(f"Why: {result.reason}.")
    yield Facts(
        (
            (
                "Gap",
                f"{format_decimal(one.test.gap)} after {format_decimal(given.gap)} before: "
                f"{_describe_change(one.gap_change)} points",
            ),
            (
                "Accuracy",
                f"{format_percent(one.test.accuracy)} after {format_percent(given.accuracy)} before: "
                f"{_describe_change(one.accuracy_change)} points",
            ),
        )
    )


def _name_needs(one: AlternativeCandidate) -> str:
    needs = f"It must be told {join_names(one.asks)} when it decides." if one.asks else "It is not told the group."
    return f"{needs} Some people are decided by a fixed lot." if one.by_lot else needs


def _frontier_blocks(result: AlternativesResult) -> Iterator[Block]:
    yield Heading("The frontier", anchor="frontier")
    yield Figure(
        "alternatives",
        "Each point a candidate, on the people kept aside. Filled, with their numbers and the intervals of their "
        "changes: on the frontier of the validation people, or chosen. Square: the given model. Candidates further off "
        "are in the table of all.",
        result,
    )
    rows = tuple(
        TableRow(
            (
                one.number,
                one.recipe,
                join_names(one.asks) if one.asks else "-",
                _share(one.test.accuracy),
                _describe_change(one.accuracy_change),
                _decimal(one.test.gap),
                _describe_change(one.gap_change),
                one.verdict if one.gap_change is not None else "",
                _place(one, result),
            )
        )
        for one in result.compared
    )
    yield Table(
        f"On the {format_count(result.test, 'person', 'people')} kept aside; changes from the given model in "
        f"points, with intervals that hold together with {format_level(result.confidence)} "
        f"({result.critical:.2f} standard errors)",
        (
            Column("number"),
            Column("recipe"),
            Column("is told"),
            Column("accuracy", numeric=True),
            Column("change", numeric=True),
            Column("gap", numeric=True),
            Column("change of the gap", numeric=True),
            Column("what can be said"),
            Column("within the loss"),
        ),
        rows,
        usual="observed",
    )


def _place(one: AlternativeCandidate, result: AlternativesResult) -> str:
    if one.number == result.chosen:
        return "chosen"
    return "yes" if one.feasible else ""


def _search_facts(result: AlternativesResult) -> Facts:
    baseline = "the given model" if result.baseline == 0 else "its kind fitted again with nothing changed"
    return Facts(
        (
            ("Incumbent", f"{result.model}, candidate 0"),
            ("Groups", ", ".join(result.groups)),
            ("Not told when deciding", join_names(result.decide_without) if result.decide_without else "-"),
            (
                "Budget",
                f"{format_count(len(result.candidates), 'candidate', 'candidates')}, "
                f"{format_count(result.fits, 'model', 'models')} fitted, "
                f"{format_count(result.queries, 'individual', 'individuals')} asked of the incumbent",
            ),
            ("Allowed loss", f"{_points(result.accuracy_loss)} of accuracy, counted from {baseline}"),
        )
    )


def _candidate_table(result: AlternativesResult) -> Table:
    names = ("accuracy", "AUC", "KS", "gap", "ratio")
    rows = []
    for one in result.candidates:
        aside = one.test
        rows.append(
            TableRow(
                (
                    one.number,
                    f"{one.method}: {one.recipe}",
                    _points(one.loss),
                    _points(one.margin),
                    _decimal(one.validation.gap),
                    _share(aside.accuracy),
                    *(_decimal(value) for value in (aside.auc, aside.ks, aside.gap, aside.ratio)),
                    _place(one, result),
                ),
                faint=not one.on_frontier,
            )
        )
    return Table(
        "Loss of accuracy, what is added to be sure of it, and the gap on the validation people; then the numbers on "
        "the people kept aside, without intervals; ratio: lowest selection rate divided by the highest",
        (
            Column("number"),
            Column("candidate"),
            Column("loss", numeric=True),
            Column("margin", numeric=True),
            Column("gap there", numeric=True),
            *(Column(name, numeric=True) for name in names),
            Column("within the loss"),
        ),
        tuple(rows),
        usual="observed",
    )


def _group_table(result: AlternativesResult) -> Table:
    groups = tuple(result.candidates[0].test.selection_rates)
    rows = tuple(
        TableRow(
            (
                one.number,
                *(_share(one.test.selection_rates[group]) for group in groups),
                *(_decimal(one.test.smd[group]) for group in groups),
            )
        )
        for one in result.compared
    )
    return Table(
        "Selection rates, and standardised mean differences of the scores from the largest group (SMD), on the people "
        "kept aside, of the given model and the frontier; the JSON has those of every candidate",
        (
            Column("number"),
            *(Column(f"selected: {group}", numeric=True) for group in groups),
            *(Column(f"SMD: {group}", numeric=True) for group in groups),
        ),
        rows,
        usual="observed",
    )


def _points(share: float) -> str:
    return f"{100 * share:.2f} points".replace("-", MINUS)


def _describe_change(change: Change | None) -> str:
    if change is None:
        return ""
    ends = f"{100 * change.value:+.1f} ({100 * change.low:+.1f} to {100 * change.high:+.1f})"
    return ends.replace("-", MINUS)


def _share(value: float) -> ReportedNumber:
    return ReportedNumber(format_percent(value), value, "observed")


def _decimal(value: float | None) -> str | ReportedNumber:
    return "-" if value is None else ReportedNumber(format_decimal(value), value, "observed")

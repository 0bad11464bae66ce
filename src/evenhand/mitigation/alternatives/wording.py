"""Document of a search for less discriminatory alternatives."""

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
from evenhand.mitigation.result import Change

LOSS = "within the loss"

TEXTS = ("number", "recipe", "also uses", "candidate", "verdict", LOSS)
"""Columns of text. All others are numbers."""

LIMITS = (
    "No better candidate means: none in the searched space, within the allowed loss, for these people. Other methods, "
    "attributes or data may give one.",
    "True labels are assumed to be correct. If they reflect past discrimination, so does accuracy.",
    "Numbers of candidates outside the frontier on the test set have no intervals. A candidate chosen by such a "
    "number may owe it to chance.",
    "The test set is used up: measure another candidate of this record on a new one.",
)


def build_document(result: AlternativesResult) -> Document:
    """Build a document with the choice, the frontier, the declared search and all candidates."""
    lead = (
        f"Candidates were trained and validated on {format_count(result.validation, 'person', 'people')} of "
        f"{result.data}, and compared with the original model on a test set of "
        f"{format_count(result.test, 'person', 'people')}{f' of {result.test_data}' if result.test_data else ''}. "
        f"Gap to reduce: {GAP_WORDS[result.against]}, by {join_names(result.protected)}."
    )
    blocks: list[Block] = []
    if result.interrupted:
        blocks.append(
            Note("The search was interrupted. These are the candidates found before the interrupt.", "caution")
        )
    blocks += _choice_blocks(result)
    blocks += [Note(note) for note in result.notes]
    blocks += _frontier_blocks(result)
    blocks += [Heading("Declared search", anchor="search", detail=True), _search_facts(result)]
    blocks += [Text("Searched families:", result.space), Text(f"Rule: {result.rule}")]
    blocks += [Heading("All candidates", anchor="candidates", detail=True), _candidate_table(result)]
    blocks += [Heading("Limits", detail=True), Text(items=LIMITS)]
    return Document(
        f"Less discriminatory alternatives to {result.model}",
        lead,
        tuple(blocks),
        brand="Evenhand mitigation",
    )


def _choice_blocks(result: AlternativesResult) -> Iterator[Block]:
    original = result.candidates[0].test
    if result.chosen is None:
        yield Text(f"No candidate is better: {result.reason}. The original model is kept.", role="finding")
        if result.least_loss is not None and result.least_loss > result.accuracy_loss:
            yield Text(
                f"For these people, a smaller gap requires an allowed loss of {_points(result.least_loss)}. Set "
                f"`accuracy_loss={result.least_loss:.4f}`, or add people."
            )
        return
    chosen = result.candidates[result.chosen]
    yield Text(
        f"Candidate {chosen.number} replaces the original model: {chosen.recipe}. "
        + (f"It uses {join_names(chosen.asks)}." if chosen.asks else "It does not use the group."),
        role="finding",
    )
    yield Text(f"Reason: {result.reason}.")
    gaps = format_decimal(original.gap), format_decimal(chosen.test.gap)
    shares = format_percent(original.accuracy), format_percent(chosen.test.accuracy)
    yield Facts(
        (
            ("Gap", f"{gaps[0]} before, {gaps[1]} after: {_format_change(chosen.gap_change)} points"),
            ("Accuracy", f"{shares[0]} before, {shares[1]} after: {_format_change(chosen.accuracy_change)} points"),
        )
    )


def _frontier_blocks(result: AlternativesResult) -> Iterator[Block]:
    yield Heading("Frontier", anchor="frontier")
    yield Figure(
        "alternatives",
        "Each point is a candidate, on the test set. Filled, with numbers and the intervals of their changes: on the "
        "frontier of the validation set, or chosen. Square: the original model. Distant candidates are only in the "
        "table of all.",
        result,
    )
    rows = tuple(
        TableRow(
            (
                candidate.number,
                candidate.recipe,
                join_names(candidate.asks) if candidate.asks else "-",
                _share(candidate.test.accuracy),
                _format_change(candidate.accuracy_change),
                _decimal(candidate.test.gap),
                _format_change(candidate.gap_change),
                candidate.verdict if candidate.gap_change is not None else "",
                _status(candidate, result),
            )
        )
        for candidate in result.compared
    )
    yield Table(
        f"On the test set of {format_count(result.test, 'person', 'people')}; changes from the original model in "
        f"points, with intervals that hold simultaneously with {format_level(result.confidence)} confidence "
        f"({result.critical:.2f} standard errors)",
        _columns("number", "recipe", "also uses", "accuracy", "change", "gap", "change of the gap", "verdict", LOSS),
        rows,
        usual="observed",
    )


def _status(candidate: AlternativeCandidate, result: AlternativesResult) -> str:
    if candidate.number == result.chosen:
        return "chosen"
    return "yes" if candidate.feasible else ""


def _search_facts(result: AlternativesResult) -> Facts:
    baseline = "the original model" if result.baseline == 0 else "its kind refitted without changes"
    return Facts(
        (
            ("Original model", f"{result.model}, candidate 0"),
            ("Groups", ", ".join(result.groups)),
            ("Attributes not used", join_names(result.decide_without) if result.decide_without else "-"),
            (
                "Budget",
                f"{format_count(len(result.candidates), 'candidate', 'candidates')}, "
                f"{format_count(result.fits, 'fitted model', 'fitted models')}, "
                f"{format_count(result.queries, 'query', 'queries')} of the original model",
            ),
            ("Allowed loss", f"{_points(result.accuracy_loss)} of accuracy, counted from {baseline}"),
        )
    )


def _candidate_table(result: AlternativesResult) -> Table:
    rows = tuple(
        TableRow(
            (
                candidate.number,
                f"{candidate.method}: {candidate.recipe}",
                _points(candidate.loss),
                _points(candidate.margin),
                _decimal(candidate.validation.gap),
                _share(candidate.test.accuracy),
                _decimal(candidate.test.auc),
                _decimal(candidate.test.ks),
                _decimal(candidate.test.gap),
                _decimal(candidate.test.ratio),
                _status(candidate, result),
            ),
            faint=not candidate.on_frontier,
        )
        for candidate in result.candidates
    )
    return Table(
        "Loss of accuracy, its safety margin and the gap on the validation set; then the numbers on the test set, "
        "without intervals; ratio: lowest selection rate divided by the highest",
        _columns(
            "number", "candidate", "loss", "margin", "validation gap", "accuracy", "AUC", "KS", "gap", "ratio", LOSS
        ),
        rows,
        usual="observed",
    )


def _columns(*names: str) -> tuple[Column, ...]:
    return tuple(Column(name, numeric=name not in TEXTS) for name in names)


def _points(share: float) -> str:
    return f"{100 * share:.2f} points".replace("-", "\N{MINUS SIGN}")


def _format_change(change: Change | None) -> str:
    return "" if change is None else change.points


def _share(value: float) -> ReportedNumber:
    return ReportedNumber(format_percent(value), value, "observed")


def _decimal(value: float | None) -> str | ReportedNumber:
    return "-" if value is None else ReportedNumber(format_decimal(value), value, "observed")

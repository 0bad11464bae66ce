"""The comparison of two language models in words."""

from __future__ import annotations

from collections.abc import Iterator

from evenhand.core.document import Block, Column, Document, Facts, Figure, Heading, Metric, Note, Table, TableRow, Text
from evenhand.llm.comparison import GapChange, LanguageModelComparison
from evenhand.llm.wording import OUTCOMES, certain, show_gap, show_share
from evenhand.stats.quantity import Quantity, Unknown, show_quantity

VERDICTS = {
    "better": "the gap became smaller",
    "worse": "the gap became larger",
    "no clear change": "whether the gap became smaller is not certain",
    "unknown": "the change is unknown",
}
"""What changed, by verdict."""


def build_document(result: LanguageModelComparison) -> Document:
    """Return what changed between two language models."""
    before, after = result.before, result.after
    items = [_sentence(result, one) for one in result.changes] + list(_outcome_sentences(result))
    blocks: list[Block] = [Text(items=tuple(items), role="finding")]
    blocks += [Note(text, "caution") for text in dict.fromkeys((*before.cautions, *after.cautions))]
    blocks += [Note("Interrupted: this was found before.", "caution") for _ in range(result.interrupted)]
    blocks += [
        Metric("change of the gap", show_gap(before, one.change, "in pairs"), (VERDICTS[one.verdict],), one.name)
        for one in result.changes
    ]
    blocks += [
        Heading("Gaps before and after", anchor="gaps"),
        Figure("language changes", "Gap of both models and its change, each with its interval.", result),
        _table("groups", [(one.name, one.before, one.after, one.change) for one in result.changes], result),
        Heading(f"Mean outcome: {OUTCOMES[before.outcome]}", anchor="outcomes"),
        _rates(result),
        Heading("Flips, calls and cost", anchor="cost"),
        Facts(tuple(_facts(result))),
        Text(
            "Both models were asked about the same rows with the same names, in the same order and with the same "
            f"seeds, in {result.sweeps:,} sweeps; what they have in common cancels in the change. Intervals hold for "
            "templates and names like these, and for all gaps together. A gap became smaller for certain where the "
            "intervals of both the change and the sum of the two gaps leave out 0, on opposite sides.",
            role="small",
        ),
    ]
    return Document(
        f"{before.file or before.model} and {after.file or after.model} compared, {before.data}",
        f"{before.model} before, {after.model} after; {before.templates:,} templates, {len(before.groups)} groups.",
        tuple(blocks),
        brand="Evenhand comparison",
        made=f"{result.provenance} All numbers at full precision are in the JSON.",
    )


def _sentence(result: LanguageModelComparison, one: GapChange) -> str:
    if isinstance(one.change, Unknown):
        return f"How the gap between {one.name} changed is unknown: {one.change.reason}."
    shown = show_gap(result.before, one.change)
    gaps = " to ".join(show_gap(result.before, gap).text for gap in (one.before, one.after))
    said = {"better": "became smaller", "worse": "became larger"}.get(one.verdict)
    if said is None:
        said = "became smaller is not certain"
        return f"Whether the gap of {one.name} {said}: from {gaps} (change {shown.text}, {shown.interval})."
    return f"The gap of {one.name} {said}: from {gaps} (change {shown.text}, {shown.interval})."


def _outcome_sentences(result: LanguageModelComparison) -> Iterator[str]:
    """Yield for each group whose mean outcome changed for certain by how much."""
    for one in result.outcomes:
        if certain(one.change):
            shown = show_gap(result.before, one.change)
            yield f"The {OUTCOMES[result.before.outcome]} of {one.group} changed by {shown.text} ({shown.interval})."


def _table(title: str, rows: list[tuple[str, Quantity, Quantity, Quantity]], result: LanguageModelComparison) -> Table:
    columns = (Column(title), *(Column(name, numeric=True) for name in ("before", "after", "change")))
    cells = tuple(TableRow((name, *(show_gap(result.before, number) for number in numbers))) for name, *numbers in rows)
    return Table("Gaps over the sweeps that both finished, and their change in pairs", columns, cells, "estimated")


def _rates(result: LanguageModelComparison) -> Table:
    """Return the table of mean outcomes by group."""
    name = {"number": "mean", "rank": "mean_score"}.get(result.before.outcome, "rate")
    columns = (Column("group"), *(Column(one, numeric=True) for one in ("before", "after", "change")))
    rows = tuple(
        TableRow(
            (
                one.group,
                *(show_quantity(each, name) for each in (one.before, one.after)),
                show_gap(result.before, one.change),
            )
        )
        for one in result.outcomes
    )
    scale = ", as a part of the range: 0 is the worst, 1 the best" if result.before.outcome == "number" else ""
    return Table(f"{OUTCOMES[result.before.outcome].capitalize()} of each group{scale}", columns, rows, "estimated")


def _facts(result: LanguageModelComparison) -> Iterator[tuple[str, str]]:
    """Yield flips by identity, noise, calls, tokens and money of both."""
    for one, other in zip(result.before.comparisons, result.after.comparisons, strict=True):
        if one.flips is not None and other.flips is not None:
            shown = [show_share(each.flips.identity) for each in (one, other) if each.flips is not None]
            texts = [f"{number.text} ({number.interval})" for number in shown]
            yield f"flips by identity, {one.name}", " before, ".join(texts) + " after"
    noises = [show_share(each.noise).text for each in (result.before, result.after)]
    yield "own noise", f"{noises[0]} before, {noises[1]} after"
    one_use, other_use = result.usage
    yield "calls", f"{one_use.calls:,} before, {other_use.calls:,} after"
    tokens = [f"{each.tokens_in + each.tokens_out:,}" for each in result.usage]
    yield "tokens", f"{tokens[0]} before, {tokens[1]} after"
    if one_use.money is not None and other_use.money is not None:
        yield "price", f"{one_use.money:,.2f} before, {other_use.money:,.2f} after"

"""Report of a comparison of two language models."""

from __future__ import annotations

from collections.abc import Iterator

from evenhand.core.document import Block, Document, Facts, Figure, Heading, Metric, Note, Table, TableRow, Text
from evenhand.llm.comparison import GapChange, LanguageModelComparison
from evenhand.llm.wording import OUTCOMES, certain, number_table, show_gap, show_mean, show_share
from evenhand.stats.quantity import Unknown

VERDICTS = {
    "better": "the gap became smaller",
    "worse": "the gap became larger",
    "no clear change": "no significant change of the gap",
    "unknown": "the change is unknown",
}
"""Descriptions of the verdicts."""


def build_document(result: LanguageModelComparison) -> Document:
    """Build the report of a comparison."""
    before, after = result.before, result.after
    items = [_sentence(result, change) for change in result.changes] + list(_outcome_sentences(result))
    blocks: list[Block] = [Text(items=tuple(items), role="finding")]
    blocks += [Note(text, "caution") for text in dict.fromkeys((*before.cautions, *after.cautions))]
    if result.interrupted:
        blocks.append(Note("An audit was interrupted. The results cover the completed sweeps.", "caution"))
    blocks += [
        Metric("change of the gap", show_gap(before, item.change, "in pairs"), (VERDICTS[item.verdict],), item.name)
        for item in result.changes
    ]
    blocks += [
        Heading("Gaps before and after", anchor="gaps"),
        Figure("language changes", "Gap of both models and its change, each with its interval.", result),
        number_table(
            "Gaps over the sweeps that both models completed, and their paired change",
            ("groups", "before", "after", "change"),
            [
                TableRow((gap.name, *(show_gap(before, number) for number in (gap.before, gap.after, gap.change))))
                for gap in result.changes
            ],
        ),
        Heading(f"Mean outcome: {OUTCOMES[before.outcome]}", anchor="outcomes"),
        _means(result),
        Heading("Flips, calls and cost", anchor="cost"),
        Facts(tuple(_facts(result))),
        Text(
            "Both models answered questions about the same rows with the same names, in the same order and with the "
            f"same seeds, in {result.sweeps:,} sweeps, so their common variation cancels in the change. Intervals hold "
            "for templates and names like these, and simultaneously for all gaps. A gap is called smaller if the "
            "intervals of both the change and the sum of the two gaps exclude 0, on opposite sides.",
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


def _sentence(result: LanguageModelComparison, gap: GapChange) -> str:
    if isinstance(gap.change, Unknown):
        return f"The change of the gap of {gap.name} is unknown: {gap.change.reason}."
    change = show_gap(result.before, gap.change)
    gaps = " to ".join(show_gap(result.before, quantity).text for quantity in (gap.before, gap.after))
    verdict = {
        "better": f"The gap of {gap.name} became smaller",
        "worse": f"The gap of {gap.name} became larger",
    }.get(gap.verdict, f"The gap of {gap.name} did not change significantly")
    return f"{verdict}: from {gaps} (change {change.text}, {change.interval})."


def _outcome_sentences(result: LanguageModelComparison) -> Iterator[str]:
    """Yield the significant changes of mean outcomes."""
    for outcome in result.outcomes:
        if certain(outcome.change):
            change = show_gap(result.before, outcome.change)
            name = OUTCOMES[result.before.outcome]
            yield f"The {name} of {outcome.group} changed by {change.text} ({change.interval})."


def _means(result: LanguageModelComparison) -> Table:
    """Build the table of mean outcomes by group."""
    rows = []
    for outcome in result.outcomes:
        means = (show_mean(result.before, mean) for mean in (outcome.before, outcome.after))
        rows.append(TableRow((outcome.group, *means, show_gap(result.before, outcome.change))))
    scale = ", as a part of the range: 0 is the worst, 1 the best" if result.before.outcome == "number" else ""
    caption = f"{OUTCOMES[result.before.outcome].capitalize()} of each group{scale}"
    return number_table(caption, ("group", "before", "after", "change"), rows)


def _facts(result: LanguageModelComparison) -> Iterator[tuple[str, str]]:
    """Yield flips by identity, noise, calls, tokens and cost of both models."""
    for old, new in zip(result.before.comparisons, result.after.comparisons, strict=True):
        if old.flips is not None and new.flips is not None:
            numbers = [show_share(flips.identity) for flips in (old.flips, new.flips)]
            texts = [f"{number.text} ({number.interval})" for number in numbers]
            yield f"flips by identity, {old.name}", " before, ".join(texts) + " after"
    noises = [show_share(audit.noise).text for audit in (result.before, result.after)]
    yield "own noise", f"{noises[0]} before, {noises[1]} after"
    old_usage, new_usage = result.before.usage, result.after.usage
    yield "calls", f"{old_usage.calls:,} before, {new_usage.calls:,} after"
    tokens = [f"{usage.tokens_in + usage.tokens_out:,}" for usage in (old_usage, new_usage)]
    yield "tokens", f"{tokens[0]} before, {tokens[1]} after"
    if old_usage.money is not None and new_usage.money is not None:
        yield "price", f"{old_usage.money:,.2f} before, {new_usage.money:,.2f} after"

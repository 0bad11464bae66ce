"""Sentences and tables about a search in texts."""

from __future__ import annotations

from collections.abc import Iterator

from evenhand.core.document import (
    Column,
    Document,
    Figure,
    Heading,
    Note,
    ReportedNumber,
    Table,
    TableRow,
    Text,
)
from evenhand.core.result import PEOPLE_HIDDEN
from evenhand.core.text import format_count, format_percent
from evenhand.individual.search.texts import TextSearchResult
from evenhand.individual.wording import interrupted_notes, rate_metric
from evenhand.stats.quantity import Observed

SHOWN = 5
"""Number of findings that a terminal lists."""

NOUNS = ("text", "texts")

NOISY = "Flips count only if they repeat when both texts are queried again."
"""Consequence of noise."""


def build_document(result: TextSearchResult) -> Document:
    """Build the document with the rates and the clearest findings."""
    return Document(
        "Texts: label changes with the words for a group",
        "In each text that mentions a group, the words for it were replaced by those for every other group. The "
        "counterfactual flip rate is the share of such texts whose label changes.",
        (
            *([result.noise.caution(NOISY, NOUNS)] if result.noise is not None and result.noise.noisy else []),
            *interrupted_notes(result.interrupted),
            *_headline(result),
            *(
                rate_metric(rate, f"on {format_count(rate.n, *NOUNS)} with such words", rate.protected[0])
                for rate in result.rates
            ),
            Heading("Texts whose label changes"),
            Figure("flip rates of texts", "Counterfactual flip rate of each category, with its interval.", result),
            Note(PEOPLE_HIDDEN) if result.people_left_out else _findings_table(result),
        ),
        brand="Evenhand search",
    )


def _headline(result: TextSearchResult) -> Iterator[Text]:
    rates = [rate for rate in result.rates if isinstance(rate.rate, Observed)]
    if rates:
        worst = max(rates, key=lambda rate: rate.flips / max(rate.n, 1))
        yield Text(
            f"In {format_percent(worst.flips / max(worst.n, 1))} of {format_count(worst.n, *NOUNS)} with "
            f"words of {worst.protected[0]} the label changes when these words are replaced (observed).",
            role="finding",
        )


def _findings_table(result: TextSearchResult) -> Table:
    names = ["text", "category", "with the words of", "label", "with the words of", "label"]
    columns = tuple(Column(name) for name in names) + (Column("gap", numeric=True),) * (not result.label_only)
    rows = []
    for finding in result.examples:
        worse, better = finding.worse, finding.better
        gap = ReportedNumber(f"{finding.gap:.2f}", finding.gap, "observed")
        cells = (finding.category, worse.group, worse.label, better.group, better.label, gap)
        rows.append(TableRow((_shorten_template(finding.template), *cells)[: len(columns)]))
    caption = "Texts whose label changes with the words, observed; the widest gap between scores first"
    return Table(caption, columns, tuple(rows), usual="observed", listed=SHOWN)


def _shorten_template(template: str, length: int = 160) -> str:
    """Shorten a text to the part around its first slot, on one line."""
    words = " ".join(template.split())
    if len(words) <= length:
        return words
    start = max(0, words.find("{") - length // 3)
    part = words[start : start + length]
    return ("..." if start else "") + part + ("..." if start + length < len(words) else "")

"""Render a document as Markdown, for a repository, a ticket or a Markdown cell of a notebook."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import chain, groupby

from evenhand.core.document import (
    Block,
    Document,
    Facts,
    Figure,
    Fold,
    Heading,
    Metric,
    NextStep,
    Note,
    Pair,
    Side,
    Table,
    Text,
)
from evenhand.core.text import strip_unprintable
from evenhand.view.screen import cell_text

_SPECIAL = re.compile(r"([\\`*_<>\[\]|~&])|(?<![^\n])([#+-])(?=\s)")


def render_markdown(document: Document, picture: Callable[[Figure], str] | None = None) -> str:
    """Return the whole document as Markdown.

    Args:
        document: Document.
        picture: returns the address of a drawing. If None, only the captions are written: the numbers are in
            the tables.
    """
    parts = [f"# {escape(document.title)}"]
    parts += map(escape, document.opening_lines)
    parts += _blocks(document.blocks, picture)
    parts += [f"*{escape(document.made)}*"] if document.made else []
    return "\n\n".join(parts) + "\n"


def escape(text: str) -> str:
    """Escape a text for Markdown, on one line."""
    return _SPECIAL.sub(r"\\\g<0>", " ".join(strip_unprintable(text).split()))


def _blocks(blocks: Sequence[Block], picture: Callable[[Figure], str] | None) -> Iterator[str]:
    for kind, run in groupby(blocks, type):
        if kind is Metric:
            yield _metrics([block for block in run if isinstance(block, Metric)])
        else:
            yield from chain.from_iterable(_block(block, picture) for block in run)


def _block(block: Block, picture: Callable[[Figure], str] | None) -> Iterator[str]:
    match block:
        case Heading():
            yield f"{'#' * block.level} {escape(block.text)}"
        case Text():
            if block.text:
                yield f"**{escape(block.text)}**" if block.role == "finding" else escape(block.text)
            if block.items:
                yield "\n".join(f"- {escape(item)}" for item in block.items)
        case Note():
            yield f"> {'**Caution:** ' if block.tone == 'caution' else ''}{escape(block.text)}"
        case NextStep():
            yield f"Next: {escape(block.text)}" + (f": `{block.command}`" if block.command else "")
        case Facts():
            yield "\n".join(f"- **{escape(term)}**: {escape(meaning)}" for term, meaning in block.entries)
        case Figure() if picture is not None:
            yield f"![{escape(block.caption)}]({picture(block)})"
        case Figure():
            yield f"*{escape(block.caption)}*"
        case Pair():
            yield _pair(block)
        case Table():
            yield _table(block)
        case Fold():
            yield f"**{escape(block.summary)}**"
            yield from _blocks(block.blocks, picture)


def _metrics(metrics: Sequence[Metric]) -> str:
    lines = []
    for metric in metrics:
        about = f"{metric.about}: " if metric.about else ""
        notes = [*metric.explanation, *([f"next: {metric.next_step}"] if metric.next_step else [])]
        lines.append(f"| {escape(about + metric.name)} | {escape(metric.number.text)} | {escape('; '.join(notes))} |")
    return "\n".join(["| metric | number | what it is |", "|---|---:|---|", *lines])


def _pair(pair: Pair) -> str:
    def format_decision(side: Side) -> str:
        return escape(side.decision) + (" (favourable)" if side.favourable else "")

    sides = (pair.first, pair.second)
    lines = [f"**{escape(pair.title)}**", ""]
    lines += [f"| decision | {format_decision(sides[0])} | {format_decision(sides[1])} |", "|---|---|---|"]
    names = dict.fromkeys(name for side in sides for name in side.values)
    lines += [
        f"| {escape(name)} | " + " | ".join(escape(side.values.get(name, "")) for side in sides) + " |"
        for name in names
    ]
    if any(side.score is not None for side in sides):
        lines += ["| score | " + " | ".join("" if side.score is None else side.score.text for side in sides) + " |"]
    lines += [f"| {escape(name)} | {escape(value)} | the same |" for name, value in pair.same.items()]
    return "\n".join([*lines, *(["", escape(pair.note)] if pair.note else [])])


def _table(table: Table) -> str:
    lines = [f"**{escape(table.caption)}**", ""]
    lines.append("| " + " | ".join(escape(column.name) for column in table.columns) + " |")
    lines.append("|" + "|".join("---:" if column.numeric else "---" for column in table.columns) + "|")
    for row in table.rows:
        cells = [escape(cell_text(cell, table)) for cell in row.cells]
        if row.detail:
            cells[0 if table.columns[-1].numeric else -1] += f" ({escape(row.detail)})"
        cells[0] = "\N{EM SPACE}" * row.indent + cells[0]
        cells += [""] * (len(table.columns) - len(cells))
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)

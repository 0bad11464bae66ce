"""A document as lines of text: aligned, readable without colour, the same in a terminal and in a summary."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from evenhand.core.document import (
    Block,
    Cell,
    Document,
    Facts,
    Heading,
    Metric,
    NextStep,
    Note,
    Pair,
    ReportedNumber,
    Side,
    Table,
    TableRow,
    Text,
)

BESIDE = 72
"""Columns from which explanations stand beside their numbers; below, they stand under them."""

ROOM = 20
"""Columns that the last column of a table needs at least."""

UNLIMITED = 1_000_000
"""The width of text that its display wraps."""


class ScreenLine(NamedTuple):
    """A text with what stands before its first line, and how both look.

    Attributes:
        text: wrapped where it is too wide, and then indented by the width of ``lead``.
        lead: what stands before it.
        style, lead_style: names of styles that a terminal knows: ``bold``, ``italic``.
        whole: whether it stays on one line, so that it can be copied.
    """

    text: str = ""
    lead: str = ""
    style: str = ""
    lead_style: str = ""
    whole: bool = False


def summarize(document: Document) -> str:
    """Return the screen of a document as plain text, its lines as long as they are."""
    lines = (f"{line.lead}{line.text}".rstrip() for line in lay_out(document, UNLIMITED))
    return "\n".join(lines).rstrip()


def lay_out(document: Document, width: int, *, widest: int | None = None) -> Iterator[ScreenLine]:
    """Lay a document out as lines.

    Args:
        document: what to show; parts that are details, folded or drawn are left out.
        width: columns of the screen, as far as sentences use them.
        widest: columns that tables may use; by default as many.
    """
    yield ScreenLine(document.title, style="bold")
    yield from (ScreenLine(line) for line in (*document.opening_lines, document.made) if line)
    before: type | None = None
    for kind, blocks in groupby(document.on_screen(), type):
        if before is not NextStep and kind is NextStep:
            pass
        elif kind is not Heading and before is not Heading and not (kind is Note and before is None):
            yield ScreenLine()
        yield from _lay_out_blocks(kind, tuple(blocks), width, widest or width)
        before = kind


def _lay_out_blocks(kind: type[Block], blocks: tuple[Block, ...], width: int, widest: int) -> Iterator[ScreenLine]:
    """Yield blocks of one kind that follow each other."""
    if kind is Metric:
        yield from _metric_lines([block for block in blocks if isinstance(block, Metric)], width)
        return
    for i, block in enumerate(blocks):
        if i and isinstance(block, Pair | Table):
            yield ScreenLine()
        yield from _block_lines(block, width, widest)


def _block_lines(block: Block, width: int, widest: int) -> Iterator[ScreenLine]:
    match block:
        case Heading():
            yield ScreenLine()
            yield ScreenLine(block.text, style="bold")
        case Text():
            if block.text:
                yield ScreenLine(block.text, lead="  ", style="bold" if block.role == "finding" else "")
            yield from (ScreenLine(item, lead="  - ") for item in block.items)
        case Note():
            yield ScreenLine(block.text, lead="note: " if block.tone == "info" else "CAUTION: ")
        case NextStep():
            command = f": {block.command}" if block.command else ""
            yield ScreenLine(f"{block.text}{command}", lead="  next: ", style="italic")
        case Facts():
            name = max((len(name) for name, _ in block.entries), default=0)
            yield from (ScreenLine(said, lead=f"  {term:<{name}}  ") for term, said in block.entries)
        case Pair():
            yield from _pair_lines(block, width)
        case Table():
            # A last column of words is wrapped like sentences; one of numbers may stand further to the right.
            yield from _table_lines(block, widest if block.columns and block.columns[-1].numeric else width)


def _metric_lines(metrics: Sequence[Metric], width: int) -> Iterator[ScreenLine]:
    question = max(len(metric.name) for metric in metrics)
    number = max(len(metric.number.text) for metric in metrics)
    indent = 6 + question + number
    beside = width >= BESIDE and indent <= width - ROOM
    about = ""
    for i, metric in enumerate(metrics):
        if metric.about != about:
            if i:
                yield ScreenLine()
            yield ScreenLine(metric.about, style="bold")
        about = metric.about
        lead = f"  {metric.name:<{question}}  {metric.number.text:>{number}}  "
        if not beside:
            yield ScreenLine(metric.number.text, lead=f"  {metric.name}  ", style="bold", lead_style="bold")
            lead = " " * 4
        for said in metric.explanation or ("",):
            yield ScreenLine(said, lead=lead, lead_style="bold")
            lead = " " * (indent if beside else 4)
        if metric.next_step:
            yield ScreenLine(metric.next_step, lead=f"{lead}next: ", style="italic")


def _pair_lines(pair: Pair, room: int) -> Iterator[ScreenLine]:
    yield ScreenLine(pair.title, style="bold")
    sides = (pair.first, pair.second)
    names = [", ".join(f"{name} = {value}" for name, value in side.values.items()) for side in sides]
    width = max(len(name) for name in names)
    for name, side in zip(names, sides, strict=True):
        if width + 6 <= room - ROOM:
            yield ScreenLine(_describe_decision(side), lead=f"  {name:<{width}}  -> ")
        else:
            yield ScreenLine(name, lead="  ")
            yield ScreenLine(_describe_decision(side), lead="    -> ")
    if pair.same:
        yield ScreenLine(", ".join(f"{name} {value}" for name, value in pair.same.items()), lead="  the same: ")
    if pair.note:
        yield ScreenLine(pair.note, lead="  ")


def _describe_decision(side: Side) -> str:
    favourable = " (favourable)" if side.favourable else ""
    score = "" if side.score is None else f", score {side.score.text} ({side.score.kind})"
    return f"{side.decision}{favourable}{score}"


def _table_lines(table: Table, width: int) -> Iterator[ScreenLine]:
    yield ScreenLine(table.caption, style="bold")
    rows = table.rows if table.listed is None else table.rows[: table.listed]
    names = [column.name for column in table.columns]
    cells = [[cell_text(cell, table) for cell in row.cells] for row in rows]
    full = [row for row, written in zip(rows, cells, strict=True) if not row.heading and len(written) == len(names)]
    wide = [
        max(
            [
                len(name),
                *(
                    len(written[i]) + 2 * row.indent * (i == 0)
                    for row, written in zip(rows, cells, strict=True)
                    if row in full
                ),
            ]
        )
        for i, name in enumerate(names)
    ]
    last = 0 if not names or table.columns[-1].numeric else wide[-1]
    fixed = 2 + sum(wide) + 2 * (len(wide) - 1) - last
    if fixed + min(last, ROOM) <= width:
        yield _row_line(table, names, wide)
        for row, written in zip(rows, cells, strict=True):
            yield ScreenLine(written[0]) if row.heading else _row_line(table, written, wide, row)
    else:
        for row, written in zip(rows, cells, strict=True):
            yield ScreenLine(written[0], lead="  " + "  " * row.indent)
            rest = [f"{name} {said}" for name, said in zip(names[1:], written[1:], strict=False) if said]
            if rest:
                yield ScreenLine("; ".join(rest), lead="      ")
    if len(rows) < len(table.rows):
        yield ScreenLine(f"and {len(table.rows) - len(rows):,} more: pages and JSON have all", lead="  ")


def _row_line(table: Table, cells: Sequence[str], wide: Sequence[int], row: TableRow | None = None) -> ScreenLine:
    indent = "" if row is None else "  " * row.indent
    written = [
        f"{cell:>{size}}" if column.numeric else f"{indent if i == 0 else ''}{cell}".ljust(size)
        for i, (cell, size, column) in enumerate(zip(cells, wide, table.columns, strict=True))
    ]
    if table.columns[-1].numeric:
        return ScreenLine(lead=f"  {'  '.join(written)}")
    lead = "  " + "".join(f"{cell}  " for cell in written[:-1])
    return ScreenLine(cells[-1], lead=lead if cells[-1] else lead.rstrip())


def cell_text(cell: Cell, table: Table) -> str:
    """Return a cell as text: a number with its interval, and with its kind where the caption says another."""
    if isinstance(cell, int):
        return f"{cell:,}"
    if not isinstance(cell, ReportedNumber):
        return cell
    if cell.kind == "unknown":
        return f"unknown ({cell.basis})" if cell.basis else "-"
    said = [f"({cell.ends})"] if cell.ends else []
    if cell.kind is not None and cell.kind != table.usual:
        said.append(cell.kind)
    return " ".join([cell.text, *said])

"""A document as lines of text: aligned, readable without colour, the same in a terminal and in a summary."""

from __future__ import annotations

import re
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, groupby, zip_longest
from typing import NamedTuple

from evenhand.core.document import (
    Block,
    Cell,
    Column,
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
from evenhand.core.text import format_level

BESIDE = 72
"""Minimum width, in columns, for explanations to the right of numbers."""

ROOM = 20
"""Minimum width of the last column of a table."""

UNLIMITED = 1_000_000
"""Width of text that is wrapped where it is displayed."""

SHORT = 40
"""Maximum number of lines of a short screen."""

NOTE_LENGTH, NOTES = 140, 8
"""Maximum number of characters per note, and of lines of all notes, on a short screen."""

SHORT_NOTE = 32
"""Maximum number of characters of a note in the table of a short screen."""

FEW_ROWS = 3
"""Minimum number of rows of a table that is cut to fit a short screen."""

NARROW_COLUMN = 12
"""Minimum width of a wrapped column of a table."""

GLUE, NEXT = "\N{NO-BREAK SPACE}", "next: "


class ScreenLine(NamedTuple):
    """Text with a lead before its first line, and the styles of both.

    Attributes:
        text: text, wrapped if it is too wide, and then indented by the width of ``lead``.
        lead: lead of the first line.
        style, lead_style: names of styles that a terminal knows: ``bold``, ``italic``.
        whole: whether it stays on one line, so that it can be copied.
    """

    text: str = ""
    lead: str = ""
    style: str = ""
    lead_style: str = ""
    whole: bool = False

    def wrap(self, width: int) -> list[str]:
        """Wrap the text between words, never between a number and its unit. Words that are too long stay whole."""
        from rich.cells import cell_len

        if self.whole:
            return [self.text]
        # Never narrower than a word or two, or a long lead would leave no room at all.
        room = max(width - cell_len(self.lead), ROOM)
        lines = [""]
        for word in self.text.replace(" %", f"{GLUE}%").split(" "):
            longer = f"{lines[-1]} {word}" if lines[-1] else word
            if lines[-1] and cell_len(longer) > room:
                lines.append(word)
            else:
                lines[-1] = longer
        return [line.replace(GLUE, " ") for line in lines]


def summarize(document: Document) -> str:
    """Return the screen of a document as plain text, without wrapping its lines."""
    lines = (f"{line.lead}{line.text}".rstrip() for line in lay_out(document, UNLIMITED))
    return "\n".join(lines).rstrip()


def lay_out(document: Document, width: int, *, widest: int | None = None) -> Iterator[ScreenLine]:
    """Lay out a document as lines.

    Args:
        document: document to show; details, folded parts and figures are left out.
        width: maximum width of sentences, in columns.
        widest: maximum width of tables, in columns. Default: ``width``.
    """
    yield ScreenLine(document.title, style="bold")
    yield from (ScreenLine(line) for line in (*document.opening_lines, document.made) if line)
    previous: type | None = None
    for kind, blocks in groupby(document.on_screen(), type):
        if kind not in (NextStep, Heading) and previous is not Heading and (kind, previous) != (Note, None):
            yield ScreenLine()
        yield from _lay_out_blocks(kind, tuple(blocks), width, widest or width)
        previous = kind


def lay_out_short(document: Document, width: int, *, widest: int | None = None, room: int = SHORT) -> list[ScreenLine]:
    """Lay out a document in few lines: findings, one table of the numbers, and short cautions.

    A document that fits is laid out in full. Other blocks are shown as far as they fit, facts last.

    Args:
        document: Document.
        width: Maximum width of sentences, in columns.
        widest: Maximum width of tables, in columns. Default: ``width``.
        room: Maximum number of lines.
    """
    full = list(lay_out(document, width, widest=widest))
    if _height(full, width) <= room:
        return full
    blocks = list(document.on_screen())
    metrics = list(_name_subjects(blocks))
    findings = [block for block in blocks if isinstance(block, Text) and block.role == "finding"]
    lines = [ScreenLine(document.title, style="bold"), *map(ScreenLine, document.opening_lines)]
    end = _fit([[line] for line in _short_notes(blocks, metrics)], NOTES, width)
    end += [ScreenLine(f"{document.made} --verbose shows all lines.".lstrip())]
    table = _metric_table(metrics, width) if metrics else []
    sentences = [[line] for block in findings for line in _block_lines(block, width, width)]

    def left() -> int:
        return room - 1 - _height(lines + end, width)

    for parts, reserved in ((sentences, min(len(table) + 1, left() // 2)), (table, 0)):
        fitting = _fit(parts, left() - reserved, width)
        lines += [ScreenLine(), *fitting] if fitting else []
    kind: type | None = None
    for block in sorted(blocks, key=lambda block: isinstance(block, Facts)):
        if block in findings or isinstance(block, Heading | Metric | Note):
            continue
        fitting = _fit_block(block, left(), width, widest or width)
        lines += [ScreenLine()] if fitting and (type(block) is not kind or isinstance(block, Pair | Table)) else []
        lines += fitting
        kind = type(block) if fitting else kind
    return lines + end


def _height(lines: Iterable[ScreenLine], width: int) -> int:
    return sum(len(line.wrap(width)) for line in lines)


def _fit(parts: Sequence[Sequence[ScreenLine]], room: int, width: int) -> list[ScreenLine]:
    """Return the first parts that fit, then the number of the others. Empty if too few fit."""
    lines: list[ScreenLine] = []
    for i, part in enumerate(parts):
        if _height([*lines, *part], width) + (i < len(parts) - 1) > room:
            return [*lines, ScreenLine(f"and {len(parts) - i:,} more", lead="  ")] if i > 1 else []
        lines += part
    return lines


def _fit_block(block: Block, room: int, width: int, widest: int) -> list[ScreenLine]:
    """Return the lines of a block; a table is cut to the rows that fit. Empty if the block does not fit."""
    lines = list(_block_lines(block, width, widest))
    row_count = len(block.rows) if isinstance(block, Table) else 0
    while _height(lines, width) > room and row_count > FEW_ROWS and isinstance(block, Table):
        row_count -= 1
        lines = list(_block_lines(replace(block, listed=min(row_count, block.listed or row_count)), width, widest))
    return lines if _height(lines, width) <= room else []


def _short_notes(blocks: Sequence[Block], metrics: Sequence[Metric]) -> Iterator[ScreenLine]:
    """Yield the short notes, cautions first, then the people left out of numbers."""
    notes = [block for block in blocks if isinstance(block, Note)]
    for note in sorted(notes, key=lambda note: note.tone != "caution"):
        text = note.short or note.text
        if len(text) > NOTE_LENGTH:
            text = textwrap.shorten(re.split(r"(?<=\.) ", text)[0], NOTE_LENGTH, placeholder=" ...")
        yield ScreenLine(text, "note: " if note.tone == "info" else "CAUTION: ")
    left_out: dict[tuple[str, str], list[str]] = {}
    for metric in metrics:
        reason = f"unknown: {metric.number.basis}" if metric.number.kind == "unknown" else metric.left_out
        if reason:
            left_out.setdefault((reason, metric.name), []).append(metric.about)
    for (reason, name), subjects in left_out.items():
        by = f" by {', '.join(subjects)}" if any(subjects) else ""
        yield ScreenLine(f"{reason} ({name}{by})", "note: ")


def _name_subjects(blocks: Iterable[Block]) -> Iterator[Metric]:
    """Yield the metrics. The default subject is the heading above. Equal names are followed by their basis."""
    heading = ""
    metrics = []
    for block in blocks:
        if isinstance(block, Heading):
            heading = block.text
        elif isinstance(block, Metric):
            metrics.append(replace(block, about=block.about or heading))
    names = Counter((metric.about, metric.name) for metric in metrics)
    for metric in metrics:
        unique = names[metric.about, metric.name] == 1 or not metric.number.basis
        yield metric if unique else replace(metric, name=f"{metric.name} {metric.number.basis}")


def _metric_table(metrics: Sequence[Metric], width: int) -> list[list[ScreenLine]]:
    """Lay out metrics as a table. The subject is in the row of the first metric of its group."""
    levels = {metric.number.confidence for metric in metrics if metric.number.confidence is not None}
    interval = f"{format_level(min(levels))} interval" if len(levels) == 1 else "interval"
    intervals = [metric.number.ends for metric in metrics]
    if not any(intervals):
        # If no number has an interval, short notes such as verdicts are more important.
        intervals = [next((note for note in metric.notes[:1] if len(note) <= SHORT_NOTE), "") for metric in metrics]
        interval = "note" if any(intervals) else ""
    rows, subject = [], ""
    for metric, note in zip(metrics, intervals, strict=True):
        about = "" if metric.about == subject else metric.about
        rows.append(TableRow((about, metric.name, metric.number.text, note, metric.number.kind or "")))
        subject = metric.about
    columns = [Column(""), Column("metric"), Column("number", numeric=True), Column(interval), Column("kind")]
    return _grid(Table("", tuple(columns), tuple(rows)), width)


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
            yield ScreenLine(f"{block.text}{command}", lead=f"  {NEXT}", style="italic")
        case Facts():
            name = max((len(name) for name, _ in block.entries), default=0)
            yield from (ScreenLine(meaning, lead=f"  {term:<{name}}  ") for term, meaning in block.entries)
        case Pair():
            yield from _pair_lines(block, width)
        case Table():
            # A last column of words is wrapped like sentences; one of numbers may be placed further to the right.
            yield from _table_lines(block, widest if block.columns and block.columns[-1].numeric else width)


def _metric_lines(metrics: Sequence[Metric], width: int) -> Iterator[ScreenLine]:
    question = max(len(metric.name) for metric in metrics)
    number = max(len(metric.number.text) for metric in metrics)
    indent = 6 + question + number
    room = ROOM + (len(NEXT) if any(metric.next_step for metric in metrics) else 0)
    in_columns = width >= BESIDE and indent <= width - room
    about = ""
    for i, metric in enumerate(metrics):
        if metric.about != about:
            if i:
                yield ScreenLine()
            yield ScreenLine(metric.about, style="bold")
        about = metric.about
        lead = f"  {metric.name:<{question}}  {metric.number.text:>{number}}  "
        if not in_columns:
            yield ScreenLine(f"{metric.name}{2 * GLUE}{metric.number.text}", lead="  ", style="bold")
            lead = " " * 4
        for sentence in metric.explanation or ("",):
            yield ScreenLine(sentence, lead=lead, lead_style="bold")
            lead = " " * (indent if in_columns else 4)
        if metric.next_step:
            yield ScreenLine(metric.next_step, lead=f"{lead}{NEXT}", style="italic")


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
    yield from chain.from_iterable(_grid(replace(table, rows=rows), width))
    if len(rows) < len(table.rows):
        yield ScreenLine(f"and {len(table.rows) - len(rows):,} more: the HTML page and the JSON list all", lead="  ")


def _grid(table: Table, width: int) -> list[list[ScreenLine]]:
    """Lay out the head and each row of a table as a list of lines.

    Words that are too long for their column are wrapped. If the numbers leave no room, each row is a paragraph.
    """
    names = [column.name for column in table.columns]
    cells = [[cell_text(cell, table).replace(" %", f"{GLUE}%") for cell in row.cells] for row in table.rows]
    for row, texts in zip(table.rows, cells, strict=True):
        texts[0] = "  " * row.indent + texts[0]
    full = [names, *(texts for row, texts in zip(table.rows, cells, strict=True) if not row.heading)]
    sizes = [max(map(len, column)) for column in zip(*full, strict=True)]
    flexible = [i for i, column in enumerate(table.columns) if not column.numeric and sizes[i] > NARROW_COLUMN]
    for _ in range(2 * len(sizes) + sum(sizes) - width):
        flexible = [i for i in flexible if sizes[i] > NARROW_COLUMN]
        if not flexible:
            return [_paragraph(names, texts) for texts in cells]
        # Wrap the column in which the fewest words must be wrapped.
        sizes[min(flexible, key=lambda i: (sum(len(texts[i]) >= sizes[i] for texts in full), -sizes[i]))] -= 1

    def line(texts: Sequence[str]) -> ScreenLine:
        columns = zip(texts, sizes, table.columns, strict=True)
        padded = [f"{text:>{size}}" if column.numeric else f"{text:<{size}}" for text, size, column in columns if size]
        return ScreenLine(lead=f"  {'  '.join(padded)}".rstrip().replace(GLUE, " "))

    parts = [[line(names)]]
    for row, texts in zip(table.rows, cells, strict=True):
        wrapped = [textwrap.wrap(text, size) if size else [""] for text, size in zip(texts, sizes, strict=False)]
        lines = zip_longest(*wrapped, fillvalue="")
        parts.append([ScreenLine(texts[0])] if row.heading else [line(words) for words in lines])
    return parts


def _paragraph(names: Sequence[str], texts: Sequence[str]) -> list[ScreenLine]:
    """Lay out a row below its first cell."""
    fields = "; ".join(f"{name} {text}".lstrip() for name, text in zip(names[1:], texts[1:], strict=False) if text)
    return [ScreenLine(texts[0], lead="  "), *([ScreenLine(fields, lead="      ")] if fields else [])]


def cell_text(cell: Cell, table: Table) -> str:
    """Return a cell as text: a number with its interval, and with its kind if the caption states another kind."""
    if isinstance(cell, int):
        return f"{cell:,}"
    if not isinstance(cell, ReportedNumber):
        return cell
    if cell.kind == "unknown":
        return f"unknown ({cell.basis})" if cell.basis else "-"
    notes = [f"({cell.ends})"] if cell.ends else []
    if cell.kind is not None and cell.kind != table.usual:
        notes.append(cell.kind)
    return " ".join([cell.text, *notes])

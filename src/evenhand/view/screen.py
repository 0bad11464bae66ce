"""A document as lines of text: aligned, readable without colour, the same in a terminal and in a summary."""

from __future__ import annotations

import re
import textwrap
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
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
from evenhand.core.text import format_level

BESIDE = 72
"""Columns from which explanations stand beside their numbers; below, they stand under them."""

ROOM = 20
"""Columns that the last column of a table needs at least."""

UNLIMITED = 1_000_000
"""Width of text that is wrapped where it is displayed."""

SHORT = 40
"""Maximum number of lines of a short screen."""

NOTE_LENGTH, NOTES = 140, 8
"""Maximum number of characters of a note, and of lines of all notes, on a short screen."""

SHORT_NOTE = 32
"""Maximum number of characters of a note in the table of a short screen."""

FEW_ROWS = 3
"""Rows below which a table is not shown on a short screen."""

NARROW_COLUMN, LONG_WORD = 10, 16
"""Minimum width of a wrapped column of a table, and of a word that is broken into lines."""

GLUE = "\N{NO-BREAK SPACE}"


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


def lay_out_short(document: Document, width: int, *, widest: int | None = None, room: int = SHORT) -> list[ScreenLine]:
    """Lay a document out in few lines: findings, one table of the numbers, and short cautions.

    A document that fits is laid out in full. Other blocks are shown as far as they fit.

    Args:
        document: Document.
        width: Columns of the screen that sentences use.
        widest: Columns of the screen that tables use. Default: ``width``.
        room: Maximum number of lines.
    """
    full = list(lay_out(document, width, widest=widest))
    height = _height(full, width)
    if height <= room:
        return full
    blocks = list(document.on_screen())
    metrics = list(_name_subjects(blocks))
    findings = [block for block in blocks if isinstance(block, Text) and block.role == "finding"]
    lines = [ScreenLine(document.title, style="bold"), *map(ScreenLine, document.opening_lines)]
    notes = _fit([[line] for line in _short_notes(blocks, metrics)], NOTES, width)
    end = [*notes, ScreenLine("--verbose shows all lines.")]
    table = _metric_table(metrics, width) if metrics else []
    sentences = [[line] for block in findings for line in _block_lines(block, width, width)]

    def left() -> int:
        return room - 1 - _height([*lines, *end], width)

    for parts, reserved in ((sentences, min(len(table) + 1, left() // 2)), (table, 0)):
        shown = _fit(parts, left() - reserved, width)
        lines += [ScreenLine(), *shown] if shown else []
    kind: type | None = None
    for block in blocks:
        if block in findings or isinstance(block, Heading | Metric | Note):
            continue
        shown = _fit_block(block, left(), width, widest or width)
        lines += [ScreenLine()] if shown and (type(block) is not kind or isinstance(block, Pair | Table)) else []
        lines += shown
        kind = type(block) if shown else kind
    return [*lines, *end]


def _height(lines: Iterable[ScreenLine], width: int) -> int:
    return sum(len(line.wrap(width)) for line in lines)


def _fit(parts: Sequence[Sequence[ScreenLine]], room: int, width: int) -> list[ScreenLine]:
    """Return the first parts that fit into the room, then the number of the others. Nothing if only few fit."""
    lines: list[ScreenLine] = []
    for i, part in enumerate(parts):
        if _height([*lines, *part], width) + (i < len(parts) - 1) > room:
            return [*lines, ScreenLine(f"and {len(parts) - i:,} more", lead="  ")] if i > 1 else []
        lines += part
    return lines


def _fit_block(block: Block, room: int, width: int, widest: int) -> list[ScreenLine]:
    """Return the lines of a block, of a table with as many rows as fit. Nothing if they do not fit."""
    lines = list(_block_lines(block, width, widest))
    shown = len(block.rows) if isinstance(block, Table) else 0
    while _height(lines, width) > room and shown > FEW_ROWS and isinstance(block, Table):
        shown -= 1
        lines = list(_block_lines(replace(block, listed=min(shown, block.listed or shown)), width, widest))
    return lines if _height(lines, width) <= room else []


def _short_notes(blocks: Sequence[Block], metrics: Sequence[Metric]) -> Iterator[ScreenLine]:
    """Yield the notes in short, cautions first, and then what the numbers leave out."""
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
    """Yield the metrics. Those without a subject are about the heading above; those of equal names have their basis."""
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
    """Lay metrics out as a table, one list of lines for its head and for each metric.

    The subject is beside the first metric of its group. Words that are too long for a column are wrapped.
    """
    levels = {metric.number.confidence for metric in metrics if metric.number.confidence is not None}
    interval = f"{format_level(min(levels))} interval" if len(levels) == 1 else "interval"
    numbers = [metric.number for metric in metrics]
    # Where no number has an interval, short notes, such as verdicts, are more important.
    beside = [number.ends for number in numbers]
    if not any(beside):
        beside = [next((note for note in metric.notes[:1] if len(note) <= SHORT_NOTE), "") for metric in metrics]
        interval = "note" if any(beside) else ""
    head = ("", "metric", "number", interval, "kind")
    rows = [
        (metric.about, metric.name, number.text, note, number.kind or "")
        for metric, number, note in zip(metrics, numbers, beside, strict=True)
    ]
    about, name, *sizes = (max(map(len, column)) for column in zip(head, *rows, strict=True))
    room = width - 2 - sum(size + 2 for size in sizes) - 2
    if room < 2 * NARROW_COLUMN:
        return [[ScreenLine(", ".join(filter(None, (*row[:2], f"{row[2]} {row[3]}", row[4]))), "  ")] for row in rows]
    words = [word for metric in metrics for word in metric.about.split()]
    about = min(about, max(NARROW_COLUMN, room - name, *(len(word) for word in words if len(word) <= LONG_WORD)))
    name = min(name, max(NARROW_COLUMN, room - about))

    def line(subject: str, question: str, number: str = "", ends: str = "", kind: str = "") -> ScreenLine:
        cells = [f"{subject:<{about}}"] if about else []
        cells += [f"{question:<{name}}", f"{number:>{sizes[0]}}", f"{ends:<{sizes[1]}}", kind]
        return ScreenLine(lead=f"  {'  '.join(cells)}".rstrip())

    parts = [[line(*head)._replace(lead_style="bold")]]
    for subject, group in groupby(rows, lambda row: row[0]):
        subjects = iter(textwrap.wrap(subject, about) if subject else ())
        for _, question, *figures in group:
            parts.append(
                [
                    line(next(subjects, ""), words, *(() if i else figures))
                    for i, words in enumerate(textwrap.wrap(question, name))
                ]
            )
        parts[-1] += [line(words, "") for words in subjects]
    return parts


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

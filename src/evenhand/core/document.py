"""What a result says, once: a document of few kinds of blocks, which screens, pages and notebooks render alike.

An engine builds the document of its result and writes the words. How it looks is none of its business:
``evenhand.view`` renders every document as text for a terminal, as a page, as a fragment for a notebook, and as
Markdown.

    >>> from evenhand.core.document import Document, Heading, Metric, NextStep, ReportedNumber
    >>> rate = ReportedNumber("6.2 %", 0.062, "estimated", low=0.058, high=0.065, ends="5.8 to 6.5 %", confidence=0.95)
    >>> document = Document("Search of a model", blocks=(
    ...     Metric("counterfactual flip rate", rate, ("from 1,002 sampled people",)),
    ...     NextStep("prove how far it holds", "evenhand certify"),
    ... ))
    >>> [type(block).__name__ for block in document.blocks]
    ['Metric', 'NextStep']
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from evenhand.core.reading import TableReading

Kind: TypeAlias = Literal["proved", "estimated", "observed", "unknown"]
"""How a number came about: it follows from the model, from a sample, from counting people; or there is none."""


@dataclass(frozen=True, slots=True)
class ReportedNumber:
    """A number as people read it, with its value at full precision and what it rests on.

    Attributes:
        text: the number with its unit; a dash where there is none.
        value: the same at full precision, in the unit of the JSON; None if there is none.
        kind: how it came about; None for what needs no kind, such as the size of a file.
        low, high: the ends of its interval; None without one.
        ends: the interval as people read it.
        confidence: the level of the interval.
        basis: what it was counted on, to be read after its kind: ``on 9,769 people``; the reason where it is unknown.
    """

    text: str
    value: float | None = None
    kind: Kind | None = None
    low: float | None = None
    high: float | None = None
    ends: str = ""
    confidence: float | None = None
    basis: str = ""

    @property
    def interval(self) -> str:
        """The interval with its level: ``95 % interval 0.17 to 0.21``; nothing without one."""
        if not self.ends:
            return ""
        return f"{100 * self.confidence:.6g} % interval {self.ends}" if self.confidence is not None else self.ends


Cell: TypeAlias = str | int | ReportedNumber
"""What stands in a cell: words, a count, or a number that says what it is."""


@dataclass(frozen=True, slots=True)
class Heading:
    """The title of a part.

    Attributes:
        text: the title.
        level: 2 begins a section, 3 a part of it.
        anchor: the name of the section in links; by default made of the text.
        detail: whether the part is for the full document alone, so that screens and summaries leave it out; None: as
            the section that it is part of, and a section is shown.
    """

    text: str
    level: int = 2
    anchor: str = ""
    detail: bool | None = None


@dataclass(frozen=True, slots=True)
class Text:
    """Full sentences.

    Attributes:
        text: one paragraph; may be empty before items.
        items: sentences below it, one per line.
        role: ``finding`` for what a manager may repeat, ``small`` for what explains terms.
    """

    text: str = ""
    items: tuple[str, ...] = ()
    role: Literal["plain", "finding", "small"] = "plain"


@dataclass(frozen=True, slots=True)
class Metric:
    """One answer: a question, its number, and what the number is.

    Attributes:
        name: what was asked, by the field's word.
        number: the answer; its kind is always shown.
        notes: what else there is to know, most important first; the first is read after the number's basis.
        about: whom or what the answer is about, such as a protected attribute; answers in a row about the same stand
            under one title.
        next_step: what to do about it.
    """

    name: str
    number: ReportedNumber
    notes: tuple[str, ...] = ()
    about: str = ""
    next_step: str = ""

    @property
    def explanation(self) -> tuple[str, ...]:
        """What stands beside the number: kind, basis and interval, then the notes."""
        first = ", ".join(part for part in (self.number.basis, self.number.interval) if part)
        if self.number.kind is None:
            return tuple(part for part in (first, *self.notes) if part)
        kind = self.number.kind if self.number.value is not None or self.number.kind != "unknown" else "unknown:"
        parts = [first, *self.notes] if first else list(self.notes)
        return (f"{kind} {parts[0]}", *parts[1:]) if parts else (str(self.number.kind),)


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table.

    Attributes:
        name: its title.
        numeric: whether it holds numbers, which stand to the right.
        bar: whether it holds shares that a page also draws as bars.
    """

    name: str
    numeric: bool = False
    bar: bool = False


@dataclass(frozen=True, slots=True)
class TableRow:
    """A row of a table.

    Attributes:
        cells: one per column.
        detail: small print under the last cell if that holds words, else under the first.
        faint: whether it is less certain than the others, and shown so.
        indent: how far the first cell stands to the right.
        heading: whether it is the title of the rows below it; it has one cell.
    """

    cells: tuple[Cell, ...]
    detail: str = ""
    faint: bool = False
    indent: int = 0
    heading: bool = False


WIDE = 6
"""Columns of a table beyond which it counts as wide."""

PAGE_ROWS, WIDE_ROWS = 50, 20
"""Rows of a table, and of a wide one, that a page shows at most; the JSON has all."""


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of numbers and words that can be copied.

    Attributes:
        caption: what the rows are, how the numbers came about, the level of the intervals.
        columns: the titles.
        rows: the rows.
        usual: the kind of number that the caption says; cells of another kind say so themselves.
        listed: rows on a screen at most; a document has all, and a page says how many it leaves out.
        order: in which order the rows stand, to be said where they are not all shown: ``largest first``.
        tiles: whether a page shows the rows, a name and a number each, beside each other.
    """

    caption: str
    columns: tuple[Column, ...]
    rows: tuple[TableRow, ...]
    usual: Kind | None = None
    listed: int | None = None
    order: str = ""
    tiles: bool = False

    @property
    def page_rows(self) -> int:
        """Rows that a page shows at most."""
        return WIDE_ROWS if len(self.columns) > WIDE else PAGE_ROWS


@dataclass(frozen=True, slots=True)
class Facts:
    """Terms with what is to be said of each, such as how something was done."""

    entries: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Side:
    """One side of a pair: protected values, decision, whether it is favourable, and the score if there is one."""

    values: Mapping[str, str]
    decision: str
    favourable: bool = False
    score: ReportedNumber | None = None


@dataclass(frozen=True, slots=True)
class Pair:
    """The same individual twice, with other protected values.

    Attributes:
        title: who it is: somebody in the data, or somebody made up.
        first, second: both sides.
        same: what both have in common, attribute by attribute.
        note: what else is known of them.
    """

    title: str
    first: Side
    second: Side
    same: Mapping[str, str]
    note: str = ""


@dataclass(frozen=True, slots=True)
class Figure:
    """A drawing that ``evenhand.view`` knows for a kind of result.

    Attributes:
        chart: its name among the drawings of the result's class.
        caption: how to read it.
        source: the result that it draws.
        arguments: which part of the result, where there are several: a position, a name.
        alternative: what it shows, for who cannot see it; by default the drawing says so itself.
    """

    chart: str
    caption: str
    source: Any = field(repr=False)
    arguments: tuple[int | str, ...] = ()
    alternative: str = ""


@dataclass(frozen=True, slots=True)
class Note:
    """A remark. ``caution`` is for what a reader must not miss."""

    text: str
    tone: Literal["info", "caution"] = "info"


@dataclass(frozen=True, slots=True)
class NextStep:
    """What to do now, with a command that can be copied, or a file beside the page to open."""

    text: str
    command: str = ""
    link: str = ""


@dataclass(frozen=True, slots=True)
class Fold:
    """Blocks that a page shows when they are asked for, and a screen leaves out."""

    summary: str
    blocks: tuple[Block, ...]


Block: TypeAlias = Heading | Text | Metric | Table | Facts | Pair | Figure | Note | NextStep | Fold


@dataclass(frozen=True, slots=True)
class SubjectCard:
    """What was looked at, for results that do not hold it.

    Attributes:
        name: of the model; data: what the people are called; people: how many.
        target, favourable: what is decided, and the label that people want.
        label_only: whether the model gives labels without scores.
    """

    name: str
    data: str
    people: int
    target: str
    favourable: str
    label_only: bool


@dataclass(frozen=True, slots=True)
class Document:
    """What a result says, in the order in which it is read.

    What stands before the first heading of level 2 is the summary.

    Attributes:
        title: what was looked at.
        lead: whom it is about, in a sentence.
        blocks: the findings.
        brand: what made it, above the title.
        made: version, seed and time, at the end.
        readings: How each table was read, by its name; shown below the lead.
    """

    title: str
    lead: str = ""
    blocks: tuple[Block, ...] = ()
    brand: str = "Evenhand"
    made: str = ""
    readings: Mapping[str, TableReading] = field(default_factory=dict)

    @property
    def opening_lines(self) -> tuple[str, ...]:
        """Lines below the title: the lead, then how each table was read."""
        lines = [f"{name}: {one.describe()}" if name else one.describe() for name, one in self.readings.items()]
        return tuple(line for line in (self.lead, *lines) if line)

    def on_screen(self) -> Iterator[Block]:
        """Yield the blocks of a screen: no drawings, small print, folds and details; one pair per heading."""
        hidden = paired = False
        for block in self.blocks:
            if isinstance(block, Heading):
                paired = False
                hidden = (hidden and block.level > 2) if block.detail is None else block.detail
            if hidden or isinstance(block, Fold | Figure) or (paired and isinstance(block, Pair)):
                continue
            if isinstance(block, Text) and block.role == "small":
                continue
            paired = paired or isinstance(block, Pair)
            yield block

    def sections(self) -> tuple[tuple[Block, ...], tuple[tuple[Heading, tuple[Block, ...]], ...]]:
        """Return the blocks of the summary, and each section as its heading and its blocks."""
        opening: list[Block] = []
        found: list[tuple[Heading, list[Block]]] = []
        for block in self.blocks:
            if isinstance(block, Heading) and block.level == 2:
                found.append((block, []))
            elif found:
                found[-1][1].append(block)
            else:
                opening.append(block)
        return tuple(opening), tuple((heading, tuple(blocks)) for heading, blocks in found)

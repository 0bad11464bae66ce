"""Documents: the content of a result as blocks.

An analysis builds the document of its result. ``evenhand.view`` renders documents for terminals, pages and notebooks,
and as Markdown.

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
"""Source of a number: a proof, a sample, or a count of people; or no number is available."""


@dataclass(frozen=True, slots=True)
class ReportedNumber:
    """Formatted number with its value and basis.

    Attributes:
        text: Number with its unit. A dash if it is unknown.
        value: Value at full precision, in the unit of the JSON. None if it is unknown.
        kind: Source of the number. None for numbers that need none, such as the size of a file.
        low, high: Ends of the interval. None without an interval.
        ends: Formatted interval.
        confidence: Confidence level of the interval.
        basis: Sample or population, such as ``on 9,769 people``. The reason if the number is unknown.
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
        """Interval with its level, such as ``95 % interval 0.17 to 0.21``. Empty without an interval."""
        if not self.ends:
            return ""
        return f"{100 * self.confidence:.6g} % interval {self.ends}" if self.confidence is not None else self.ends


Cell: TypeAlias = str | int | ReportedNumber
"""Content of a table cell."""


@dataclass(frozen=True, slots=True)
class Heading:
    """Title of a section.

    Attributes:
        text: Title.
        level: 2 begins a section, 3 a subsection.
        anchor: Name of the section in links. Default: derived from the text.
        detail: Whether screens and summaries omit the section. None inherits the value of the parent section; the
            default of a section is False.
    """

    text: str
    level: int = 2
    anchor: str = ""
    detail: bool | None = None


@dataclass(frozen=True, slots=True)
class Text:
    """Paragraph with list items.

    Attributes:
        text: Paragraph. May be empty before items.
        items: Sentences below the paragraph, one per line.
        role: ``finding`` for main results, ``small`` for explanations of terms.
    """

    text: str = ""
    items: tuple[str, ...] = ()
    role: Literal["plain", "finding", "small"] = "plain"


@dataclass(frozen=True, slots=True)
class Metric:
    """Named number with notes.

    Attributes:
        name: Name of the metric.
        number: Value. Its kind is always shown.
        notes: Notes, most important first. The first follows the basis of the number.
        about: Subject of the metric, such as a protected attribute. Consecutive metrics with the same subject share a
            title.
        next_step: Recommended action.
    """

    name: str
    number: ReportedNumber
    notes: tuple[str, ...] = ()
    about: str = ""
    next_step: str = ""

    @property
    def explanation(self) -> tuple[str, ...]:
        """Explanation of the number: kind, basis and interval, then the notes."""
        basis = ", ".join(part for part in (self.number.basis, self.number.interval) if part)
        if self.number.kind is None:
            return tuple(part for part in (basis, *self.notes) if part)
        kind = self.number.kind if self.number.value is not None or self.number.kind != "unknown" else "unknown:"
        parts = [basis, *self.notes] if basis else list(self.notes)
        return (f"{kind} {parts[0]}", *parts[1:]) if parts else (str(self.number.kind),)


@dataclass(frozen=True, slots=True)
class Column:
    """Column of a table.

    Attributes:
        name: Title.
        numeric: Whether it contains numbers, which are aligned to the right.
        bar: Whether it contains shares that a page also draws as bars.
    """

    name: str
    numeric: bool = False
    bar: bool = False


@dataclass(frozen=True, slots=True)
class TableRow:
    """Row of a table.

    Attributes:
        cells: Cells, one per column.
        detail: Small print below the last cell if it is text, else below the first.
        faint: Whether the row is less certain than the others and shown in a lighter colour.
        indent: Indentation of the first cell.
        heading: Whether the row is the title of the rows below. Such a row has one cell.
    """

    cells: tuple[Cell, ...]
    detail: str = ""
    faint: bool = False
    indent: int = 0
    heading: bool = False


WIDE = 6
"""Maximum number of columns of a table that is not wide."""

PAGE_ROWS, WIDE_ROWS = 50, 20
"""Maximum numbers of rows on a page, of tables and of wide tables. The JSON contains all rows."""


@dataclass(frozen=True, slots=True)
class Table:
    """Table.

    Attributes:
        caption: Content of the rows, source of the numbers, and level of the intervals.
        columns: Columns.
        rows: Rows.
        usual: Kind of number stated in the caption. Cells of another kind state their kind.
        listed: Maximum number of rows on a screen. Pages state how many rows they omit.
        order: Order of the rows, such as ``largest first``, shown if rows are omitted.
        tiles: Whether a page shows the rows, each a name and a number, side by side.
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
        """Maximum number of rows on a page."""
        return WIDE_ROWS if len(self.columns) > WIDE else PAGE_ROWS


@dataclass(frozen=True, slots=True)
class Facts:
    """Terms with their descriptions, such as steps of a method."""

    entries: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Side:
    """One side of a pair: protected values, decision, whether it is favourable, and score."""

    values: Mapping[str, str]
    decision: str
    favourable: bool = False
    score: ReportedNumber | None = None


@dataclass(frozen=True, slots=True)
class Pair:
    """Individual with two assignments of protected values.

    Attributes:
        title: Source of the individual: the data or the simulated population.
        first, second: Sides of the pair.
        same: Common values, by attribute.
        note: Further information.
    """

    title: str
    first: Side
    second: Side
    same: Mapping[str, str]
    note: str = ""


@dataclass(frozen=True, slots=True)
class Figure:
    """Figure drawn by ``evenhand.view``.

    Attributes:
        chart: Name of the chart in ``evenhand.view.charts.FIGURES``.
        caption: Caption.
        source: Result that is drawn.
        arguments: Part of the result, such as a position or a name.
        alternative: Alternative text. Default: the description of the chart.
    """

    chart: str
    caption: str
    source: Any = field(repr=False)
    arguments: tuple[int | str, ...] = ()
    alternative: str = ""


@dataclass(frozen=True, slots=True)
class Note:
    """Remark. ``caution`` marks warnings."""

    text: str
    tone: Literal["info", "caution"] = "info"


@dataclass(frozen=True, slots=True)
class NextStep:
    """Recommended action, with a command to copy or a file to open."""

    text: str
    command: str = ""
    link: str = ""


@dataclass(frozen=True, slots=True)
class Fold:
    """Blocks that a page shows on demand and a screen omits."""

    summary: str
    blocks: tuple[Block, ...]


Block: TypeAlias = Heading | Text | Metric | Table | Facts | Pair | Figure | Note | NextStep | Fold


@dataclass(frozen=True, slots=True)
class SubjectCard:
    """Model and data of results that do not contain them.

    Attributes:
        name: Name of the model.
        data: Name of the data.
        people: Number of people.
        target: Name of the target.
        favourable: Favourable label.
        label_only: Whether the model returns labels without scores.
    """

    name: str
    data: str
    people: int
    target: str
    favourable: str
    label_only: bool


@dataclass(frozen=True, slots=True)
class Document:
    """Content of a result in reading order.

    The blocks before the first heading of level 2 are the summary.

    Attributes:
        title: Title.
        lead: Sentence about the people.
        blocks: Content.
        brand: Name of the command, above the title.
        made: Version, seed and time, at the end.
        readings: Table readings by name, shown below the lead.
    """

    title: str
    lead: str = ""
    blocks: tuple[Block, ...] = ()
    brand: str = "Evenhand"
    made: str = ""
    readings: Mapping[str, TableReading] = field(default_factory=dict)

    @property
    def opening_lines(self) -> tuple[str, ...]:
        """Lines below the title: the lead, then the table readings."""
        lines = [": ".join(filter(None, (name, reading.describe()))) for name, reading in self.readings.items()]
        return tuple(line for line in (self.lead, *lines) if line)

    def on_screen(self) -> Iterator[Block]:
        """Yield the blocks of a screen, without figures, small print, folds and details, with one pair per heading."""
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
        """Split the document into the blocks of the summary, and sections of a heading and its blocks."""
        summary: list[Block] = []
        sections: list[tuple[Heading, list[Block]]] = []
        for block in self.blocks:
            if isinstance(block, Heading) and block.level == 2:
                sections.append((block, []))
            elif sections:
                sections[-1][1].append(block)
            else:
                summary.append(block)
        return tuple(summary), tuple((heading, tuple(blocks)) for heading, blocks in sections)

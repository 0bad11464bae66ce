"""Documents: contents of results as a sequence of blocks.

An analysis builds the document of its result. ``evenhand.view`` renders documents for terminals, HTML pages and
notebooks, and as Markdown.

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
"""Source of a number: a proof, a sample, or a count of people. ``unknown`` if no number is available."""


@dataclass(frozen=True, slots=True)
class ReportedNumber:
    """Formatted number with its value and basis.

    Attributes:
        text: Number with its unit. A dash if the number is unknown.
        value: Value at full precision, in the unit used in JSON. None if the number is unknown.
        kind: Source of the number. None if the source is obvious, such as for the size of a file.
        low, high: Ends of the interval. None if there is no interval.
        ends: Formatted interval.
        confidence: Confidence level of the interval.
        basis: Sample or population, such as ``on 9,769 people``. If the number is unknown, the reason.
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
        """Interval with its level, such as ``95 % interval 0.17 to 0.21``. Empty if there is no interval."""
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
        level: Level of the heading: 2 for a section, 3 for a subsection.
        anchor: Name of the section in links. Default: derived from the text.
        detail: Whether terminals and summaries omit the section. Default: the value of the parent section, or False.
    """

    text: str
    level: int = 2
    anchor: str = ""
    detail: bool | None = None


@dataclass(frozen=True, slots=True)
class Text:
    """Paragraph with list items.

    Attributes:
        text: Paragraph. May be empty if there are items.
        items: List items below the paragraph.
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
        number: Value of the metric. Its source is always shown.
        notes: Notes, most important first.
        about: Subject of the metric, such as a protected attribute. Consecutive metrics with the same subject share one
            title.
        next_step: Recommended action.
        left_out: People that the number leaves out, such as ``left out: 3 people of unknown sex``.
    """

    name: str
    number: ReportedNumber
    notes: tuple[str, ...] = ()
    about: str = ""
    next_step: str = ""
    left_out: str = ""

    @property
    def explanation(self) -> tuple[str, ...]:
        """Explanation of the number: source, basis and interval, followed by the notes."""
        basis = ", ".join(part for part in (self.number.basis, self.number.interval) if part)
        parts = [part for part in (basis, *self.notes, self.left_out) if part]
        if self.number.kind is None:
            return tuple(parts)
        kind = self.number.kind if self.number.value is not None or self.number.kind != "unknown" else "unknown:"
        return (f"{kind} {parts[0]}", *parts[1:]) if parts else (str(self.number.kind),)


@dataclass(frozen=True, slots=True)
class Column:
    """Column of a table.

    Attributes:
        name: Title of the column.
        numeric: Whether the column contains numbers, which are right-aligned.
        bar: Whether HTML pages also draw the values as bars. The values must be shares.
    """

    name: str
    numeric: bool = False
    bar: bool = False


@dataclass(frozen=True, slots=True)
class TableRow:
    """Row of a table.

    Attributes:
        cells: Cells, one per column.
        detail: Small print below the last cell if this cell is text, otherwise below the first cell.
        faint: Whether to show the row in a lighter colour, because it is less certain than the others.
        indent: Indentation of the first cell.
        heading: Whether the row is the title of the rows below. A heading has one cell.
    """

    cells: tuple[Cell, ...]
    detail: str = ""
    faint: bool = False
    indent: int = 0
    heading: bool = False


WIDE = 6
"""Maximum number of columns of a normal table. Tables with more columns are wide."""

PAGE_ROWS, WIDE_ROWS = 50, 20
"""Maximum numbers of rows of a normal and of a wide table on an HTML page. The JSON contains all rows."""


@dataclass(frozen=True, slots=True)
class Table:
    """Table with a caption.

    Attributes:
        caption: Description of the rows, source of the numbers, and confidence level of the intervals.
        columns: Columns.
        rows: Rows.
        usual: Source of numbers stated in the caption. Numbers from another source are marked.
        listed: Maximum number of rows in a terminal. None disables the limit.
        order: Order of the rows, such as ``largest first``. Shown if rows are omitted.
        tiles: Whether an HTML page shows the rows side by side. Each row must consist of a name and a number.
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
        """Maximum number of rows on an HTML page."""
        return WIDE_ROWS if len(self.columns) > WIDE else PAGE_ROWS


@dataclass(frozen=True, slots=True)
class Facts:
    """Terms with their descriptions, such as the steps of a method."""

    entries: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Side:
    """Side of a pair: protected values, decision, whether the decision is favourable, and score."""

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
        same: Values that both sides share, by attribute.
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
        source: Result to draw.
        arguments: Further arguments of the chart, such as a position or a name.
    """

    chart: str
    caption: str
    source: Any = field(repr=False)
    arguments: tuple[int | str, ...] = ()


@dataclass(frozen=True, slots=True)
class Note:
    """Remark.

    Attributes:
        text: Remark.
        tone: ``caution`` marks a warning.
        short: Short form for terminals. Default: the text.
    """

    text: str
    tone: Literal["info", "caution"] = "info"
    short: str = ""


@dataclass(frozen=True, slots=True)
class NextStep:
    """Recommended action, with a command to copy or a file to open."""

    text: str
    command: str = ""
    link: str = ""


@dataclass(frozen=True, slots=True)
class Fold:
    """Blocks that an HTML page shows on demand and a terminal omits."""

    summary: str
    blocks: tuple[Block, ...]


Block: TypeAlias = Heading | Text | Metric | Table | Facts | Pair | Figure | Note | NextStep | Fold


@dataclass(frozen=True, slots=True)
class SubjectCard:
    """Description of the model and data, for results that do not contain them.

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
        lead: Sentence about the people, shown below the title.
        blocks: Content.
        brand: Name of the program, shown above the title.
        made: Version, seed and running time, shown at the end.
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
        """Lines below the title: the lead and the table readings."""
        lines = [": ".join(filter(None, (name, reading.describe()))) for name, reading in self.readings.items()]
        return tuple(line for line in (self.lead, *lines) if line)

    def on_screen(self) -> Iterator[Block]:
        """Yield the terminal blocks, with one pair per heading, and without figures, small print, folds and details."""
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
        """Split the document into the blocks of the summary and the sections, each a heading with its blocks."""
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

"""A reproduction in words: which tables agree, then each of them, published figures beside ours."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from evenhand.core import (
    Block,
    Cell,
    Column,
    Document,
    Facts,
    Heading,
    Note,
    ReportedNumber,
    Table,
    TableRow,
    Text,
)
from evenhand.text import format_count, format_duration, format_significant
from reproductions.comparison.record import (
    ComparedFigure,
    ComparedTable,
    OwnFigure,
    PaperReproductionRecord,
    Verdict,
)

MANY: dict[Verdict, str] = {
    "agrees": "agree",
    "better": "are better",
    "differs": "differ",
    "not compared": "are not compared",
}
"""What is said of several, by verdict."""

SAID: dict[Verdict, str] = {
    "agrees": "agrees",
    "better": "is better",
    "differs": "differs",
    "not compared": "is not compared",
}


def build_document(found: PaperReproductionRecord) -> Document:
    """Return all tables, published figures beside ours."""
    blocks: list[Block] = []
    if found.interrupted:
        done = f"{len(found.pieces):,} of {found.wanted:,} pieces of the work were done before"
        blocks.append(Note(f"Interrupted: {done}.", "caution"))
    if found.quick:
        blocks.append(Note("A quick run: fewer runs or less time than published, so that figures vary more.", "info"))
    blocks += [Text(items=tuple(describe_outcome(found)), role="finding"), _overview(found)]
    for why in dict.fromkeys(found.left_out.values()):
        names = ", ".join(name for name, reason in found.left_out.items() if reason == why)
        blocks.append(Note(f"Left out: {names}: {why}", "caution"))
    for table in found.tables:
        blocks += _table_blocks(found, table)
    blocks += [Heading("How it was done", anchor="method", detail=True), _method_facts(found)]
    return Document(
        f"{found.title}, run again",
        f"The tables of {found.title} ({found.published_in}), published figures beside ours.",
        tuple(blocks),
        brand="Evenhand reproduce",
        made=found.provenance,
    )


def describe_outcome(found: PaperReproductionRecord) -> list[str]:
    """Return how many tables agree, and why those that differ do, in a sentence each."""
    verdicts = Counter(table.verdict for table in found.tables)
    counted = ", ".join(
        f"{many} {(SAID if many == 1 else MANY)[verdict]}" for verdict in MANY if (many := verdicts[verdict])
    )
    lines = [f"Of {format_count(len(found.tables), 'table or drawing', 'tables and drawings')}, {counted}."]
    return lines + [
        f"{table.number} {_verdict_of(table)}: {table.because.rstrip('.')}."
        for table in found.tables
        if table.because and table.verdict == "differs"
    ]


def _verdict_of(table: ComparedTable) -> str:
    return (MANY if table.number.startswith(("Tables ", "Figures ")) else SAID)[table.verdict]


def _overview(found: PaperReproductionRecord) -> Table:
    rows = []
    for table in found.tables:
        counts = Counter(figure.verdict for figure in table.figures)
        compared: tuple[Cell, ...] = tuple(counts[verdict] for verdict in MANY)
        # Why tables differ is listed above.
        why = "" if table.verdict == "differs" else table.because
        rows.append(TableRow((table.number, table.title, *compared, table.verdict), detail=why))
    columns = (Column("Table"), Column("Shows"))
    counted = tuple(Column(name, numeric=True) for name in ("Agree", "Better", "Differ", "Not compared"))
    return Table(
        "Every table and drawing, with how many of its figures agree with the published ones.",
        (*columns, *counted, Column("Agrees?")),
        tuple(rows),
    )


def _table_blocks(found: PaperReproductionRecord, table: ComparedTable) -> Iterator[Block]:
    yield Heading(f"{table.number}: {table.title}")
    if table.text or not table.figures:
        yield Text(table.text or f"Not compared: {table.because.rstrip('.')}.")
    missing = [name for name in table.missing if name not in found.left_out]
    if missing:
        yield Note(f"Without {', '.join(missing)}, which were not done.", "caution")
    counted = Counter(figure.because for figure in table.figures if figure.because)
    shared = [why for why, count in counted.items() if count > 1]
    reasons = {why: f"reason {number}" for number, why in enumerate(shared, 1)}
    for measure in dict.fromkeys(figure.measure for figure in table.figures):
        yield _measure_table(measure, [figure for figure in table.figures if figure.measure == measure], reasons)
    if reasons:
        yield Text(items=tuple(f"Reason {number}: {why.rstrip('.')}." for number, why in enumerate(shared, 1)))


def _measure_table(measure: str, figures: list[ComparedFigure], reasons: dict[str, str]) -> Table:
    unit = figures[0].unit
    both = any(figure.default is not None for figure in figures)
    place = any(figure.at is not None for figure in figures)
    rows = []
    for figure in figures:
        cells: list[Cell] = [figure.row if figure.at is None else f"{figure.row} at {figure.at:g}"]
        published = "-" if figure.published is None else format_significant(figure.published)
        cells += [figure.published_text or published, _own(figure.ours)]
        if both:
            cells.append(_own(figure.default))
        rows.append(TableRow((*cells, figure.verdict), detail=reasons.get(figure.because, figure.because)))
    names = ["Published", "Published method" if both else "Ours"] + (["Evenhand's method"] if both else [])
    numeric = tuple(Column(name, numeric=True) for name in names)
    said = measure[:1].upper() + measure[1:] + (f", {'in percent' if unit == '%' else 'in seconds'}" if unit else "")
    return Table(f"{said}.", (Column("Row and place" if place else "Row"), *numeric, Column("Agrees?")), tuple(rows))


def _own(figure: OwnFigure | None) -> Cell:
    if figure is None:
        return "-"
    ends = ""
    if figure.low is not None and figure.high is not None:
        ends = f"{format_significant(figure.low)} to {format_significant(figure.high)}"
    return ReportedNumber(
        format_significant(figure.value),
        figure.value,
        kind=None if figure.kind == "measured" else figure.kind,
        low=figure.low,
        high=figure.high,
        ends=ends,
        confidence=0.95 if ends else None,
        basis=figure.basis,
    )


def _method_facts(found: PaperReproductionRecord) -> Facts:
    longest = max(found.pieces, key=lambda piece: piece.seconds, default=None)
    facts = [
        ("Pieces of work", f"{len(found.pieces):,} of {found.wanted:,}"),
        ("Time of all pieces", format_duration(sum(piece.seconds for piece in found.pieces))),
        ("Seed", str(found.seed)),
    ]
    if longest is not None:
        facts.append(("Longest piece", f"{longest.name}, {format_duration(longest.seconds)}"))
    return Facts(tuple(facts))

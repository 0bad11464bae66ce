"""Tables and cells of several dossiers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from evenhand.core.document import Block, Column, Note, ReportedNumber, Table, TableRow
from evenhand.core.text import format_decimal, format_percent, join_names
from evenhand.dossier.result import DossierName
from evenhand.dossier.tables import Category, RateComparison, RateComparisons

SWAP = {True: "yes", False: "no", None: "-"}


def comparison_tables(table: RateComparisons, name: DossierName) -> Iterator[Block]:
    """Yield the comparison of all categories with the reference; for ``ugesp``, also the effects of swaps."""
    if table.reference is None:
        yield Note(f"No person has a known category {say_by(table.by)}, so there is no comparison.")
        return
    adverse_impact = name == "ugesp"
    selected, ratio = ("selected", "ratio") if adverse_impact else ("favourable", "ratio (AIR)")
    columns = ["people", selected, "rate", ratio]
    columns += ["four fifths", "z"] if adverse_impact else ["difference", "odds ratio"]
    rows = []
    for row in table.rows:
        word = "reference" if row.category == table.reference else row.four_fifths or "-"
        measures = (word, write_plain(row.z)) if adverse_impact else map(show_decimal, (row.difference, row.odds_ratio))
        cells = (name_category(row.category), row.n, row.k, show_percent(row.rate), show_decimal(row.ratio))
        rows.append(TableRow((*cells, *measures, write_plain(row.fisher_p), _significance(row))))
    reason = "highest rate" if table.reference_picked else "declared"
    caption = f"{say_by(table.by).capitalize()}, compared with {name_category(table.reference)} ({reason}), observed"
    yield Table(caption, name_columns([*columns, "Fisher p", "adjusted p"]), tuple(rows), usual="observed")
    swaps = [
        TableRow(
            (
                name_category(row.category),
                write_plain(row.shortfall),
                SWAP[row.one_swap_clears],
                SWAP[row.one_swap_reverses],
                "-" if row.swaps_to_four_fifths is None else row.swaps_to_four_fifths,
            )
        )
        for row in table.rows
        if row.shortfall is not None
    ]
    if swaps and adverse_impact:
        titles = ("shortfall", "one swap reaches 4/5", "one swap reverses the order", "swaps to 4/5")
        yield Table(f"Effects of single selections, {say_by(table.by)}", name_columns(titles), tuple(swaps))


def name_columns(names: Sequence[str]) -> tuple[Column, ...]:
    """Build the columns of a table of categories with numbers."""
    return (Column("category"), *(Column(name, numeric=True) for name in names))


def name_category(category: Category) -> str:
    """Join the names of a category of several attributes."""
    return " x ".join(category)


def say_by(names: Sequence[str]) -> str:
    """Name the attributes of a table, such as ``by sex x race``."""
    return f"by {join_names(names)}"


def _significance(row: RateComparison) -> str | ReportedNumber:
    if row.adjusted_p is None:
        return "-"
    return ReportedNumber(f"{row.adjusted_p:.3g}{'*' if row.significant else ''}", row.adjusted_p)


def show_percent(value: float | None) -> str | ReportedNumber:
    """Format an observed share in percent, or a dash if there is none."""
    return "-" if value is None else ReportedNumber(format_percent(value), value, "observed")


def show_decimal(value: float | None) -> str | ReportedNumber:
    """Format an observed ratio or difference, or a dash if there is none."""
    return "-" if value is None else ReportedNumber(format_decimal(value), value, "observed")


def write_plain(value: float | None) -> str:
    """Format a statistic with three digits, or a dash if there is none."""
    return "-" if value is None else f"{value:.3g}"

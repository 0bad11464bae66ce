"""Rows and cells that several dossiers share: every category against the reference."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from evenhand.core.document import Block, Column, Note, ReportedNumber, Table, TableRow
from evenhand.core.text import format_decimal, format_percent, join_names
from evenhand.dossier.result import DossierName
from evenhand.dossier.tables import Category, RateComparison, RateComparisons

SWAP = {True: "yes", False: "no", None: "-"}


def comparison_tables(table: RateComparisons, name: DossierName) -> Iterator[Block]:
    """Yield every category against the reference; for ``ugesp`` with what single selections would change too."""
    if table.reference is None:
        yield Note(f"No person has a known category {say_by(table.by)}: there is nothing to compare.")
        return
    picked = "the highest rate" if table.reference_picked else "declared"
    caption = f"{say_by(table.by).capitalize()}, against {name_category(table.reference)} ({picked}), observed"
    if name == "ugesp":
        columns = ("people", "selected", "rate", "ratio", "four fifths", "z", "Fisher p", "adjusted p")
        rows = [
            TableRow(
                (
                    name_category(row.category),
                    row.n,
                    row.k,
                    show_percent(row.rate),
                    show_decimal(row.ratio),
                    _word(row.four_fifths, row, table.reference),
                    write_plain(row.z),
                    write_plain(row.fisher_p),
                    _significance(row),
                )
            )
            for row in table.rows
        ]
        yield Table(caption, name_columns(columns), tuple(rows), usual="observed")
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
        if swaps:
            said = ("shortfall", "one swap reaches 4/5", "one swap reverses the order", "swaps to 4/5")
            yield Table(f"What single selections would change, {say_by(table.by)}", name_columns(said), tuple(swaps))
        return
    columns = ("people", "favourable", "rate", "ratio (AIR)", "difference", "odds ratio", "Fisher p", "adjusted p")
    rows = [
        TableRow(
            (
                name_category(row.category),
                row.n,
                row.k,
                show_percent(row.rate),
                show_decimal(row.ratio),
                show_decimal(row.difference),
                show_decimal(row.odds_ratio),
                write_plain(row.fisher_p),
                _significance(row),
            )
        )
        for row in table.rows
    ]
    yield Table(caption, name_columns(columns), tuple(rows), usual="observed")


def name_columns(names: Sequence[str]) -> tuple[Column, ...]:
    """Return the columns of a table of categories with numbers."""
    return (Column("category"), *(Column(name, numeric=True) for name in names))


def name_category(category: Category) -> str:
    """Return a category of several attributes as one name."""
    return " x ".join(category)


def say_by(names: Sequence[str]) -> str:
    """Return by which attributes a table is, in words."""
    return f"by {join_names(names)}"


def _word(value: str | None, row: RateComparison, reference: Category) -> str:
    return "reference" if row.category == reference else value or "-"


def _significance(row: RateComparison) -> str | ReportedNumber:
    if row.adjusted_p is None:
        return "-"
    return ReportedNumber(f"{row.adjusted_p:.3g}{'*' if row.significant else ''}", row.adjusted_p)


def show_percent(value: float | None) -> str | ReportedNumber:
    """Return an observed share in percent, a dash where there is none."""
    return "-" if value is None else ReportedNumber(format_percent(value), value, "observed")


def show_decimal(value: float | None) -> str | ReportedNumber:
    """Return an observed ratio or difference, a dash where there is none."""
    return "-" if value is None else ReportedNumber(format_decimal(value), value, "observed")


def write_plain(value: float | None) -> str:
    """Return a statistic with three digits, a dash where there is none."""
    return "-" if value is None else f"{value:.3g}"

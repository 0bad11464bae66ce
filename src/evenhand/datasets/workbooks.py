"""Excel workbooks: one sheet, its header below any title rows, its cells with their own types."""

from __future__ import annotations

import io
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from evenhand.datasets.cells import build_frame, is_blank
from evenhand.datasets.text_tables import require_distinct
from evenhand.errors import DataError, MissingExtraError, OptionError, TableWarning
from evenhand.text import suggest_name

if TYPE_CHECKING:
    import pandas as pd

EXCEL_ERRORS = ("#DIV/0!", "#NAME?", "#NULL!", "#NUM!", "#REF!", "#VALUE!", "#N/A")
"""Cells of a workbook whose formula failed."""

Row = tuple[int, list[Any]]
"""The number of a row in its sheet, from 1, and its cells."""


def parse_workbook(data: bytes, location: str, *, sheet: str | None = None, words: bool = False) -> pd.DataFrame:
    """Read a sheet of an Excel workbook; a cell with a formula has the value that was saved with it.

    Args:
        data: the workbook.
        location: how to call it in messages.
        sheet: name of the sheet; None reads the only one that is not empty.
        words: read every cell as a word.

    Raises:
        DataError: the workbook is damaged or no table, or it has several sheets; the message names row and column.
        OptionError: there is no such sheet.

    Warns:
        TableWarning: rows above the header are left out.
    """
    sheets = _read_sheets(data, location, formulas=False)
    title = _choose_sheet(sheets, sheet, location)
    columns = _filled_columns(sheets[title])
    rows = _take(sheets[title], columns)
    place = _find_header(rows, columns, location)
    number, cells = rows[place]
    header = require_distinct([str(cell).strip() for cell in cells], f"{location}, row {number}")
    body = rows[place + 1 :]
    if not body:
        raise DataError("there are no rows", location=location)
    if any(None in cells for _, cells in body):
        formulas = dict(_take(_read_sheets(data, location, formulas=True)[title], columns))
        _require_saved_values(header, body, formulas, location)
    _require_no_errors(header, body, location)
    cells_of = zip(*([None if is_blank(cell) else cell for cell in cells] for _, cells in body), strict=True)
    return build_frame(dict(zip(header, map(list, cells_of), strict=True)), location, words=words)


def _choose_sheet(sheets: dict[str, list[Row]], sheet: str | None, location: str) -> str:
    filled = [title for title, rows in sheets.items() if rows]
    if sheet is not None and sheet not in sheets:
        hint = f"{suggest_name(sheet, sheets)}the sheets are: {', '.join(sheets)}"
        raise OptionError(f"there is no sheet {sheet!r}", location=location, hint=hint)
    if not filled or (sheet is not None and sheet not in filled):
        what = "workbook" if sheet is None else f"sheet {sheet!r}"
        raise DataError(f"the {what} is empty", location=location)
    if sheet is None and len(filled) > 1:
        raise DataError(
            f"the workbook has {len(filled)} sheets that are not empty: {', '.join(map(repr, filled))}",
            location=location,
            hint="name the sheet: `sheet=NAME`",
        )
    return filled[0] if sheet is None else sheet


def _filled_columns(rows: list[Row]) -> list[int]:
    """Return the positions of the columns that are not empty in every row."""
    columns = zip(*(cells for _, cells in rows), strict=True)
    return [place for place, cells in enumerate(columns) if not all(map(is_blank, cells))]


def _take(rows: list[Row], columns: Sequence[int]) -> list[Row]:
    return [(number, [cells[column] for column in columns]) for number, cells in rows]


def _find_header(rows: list[Row], columns: Sequence[int], location: str) -> int:
    """Return the position of the header, the first row without empty cells.

    The rows above it are titles: each fills at most half of the columns. Below titles, a header consists of words.

    Raises:
        DataError: there is no such row; the message names the first empty cell of the likely header.

    Warns:
        TableWarning: there are rows above the header.
    """
    for place, (number, cells) in enumerate(rows):
        empty = [column for column, cell in zip(columns, cells, strict=True) if is_blank(cell)]
        if len(empty) * 2 >= len(cells):
            continue
        if empty:
            raise _header_error(_cell_name(empty[0], number) + " is empty", location)
        if not all(isinstance(cell, str) or (type(cell) is int and place == 0) for cell in cells):
            break
        if place:
            warnings.warn(
                f"{location}: rows above the column names in row {number} are left out, the first of them row "
                f"{rows[0][0]}",
                TableWarning,
                stacklevel=4,
            )
        return place
    number, cells = rows[0]
    empty = [column for column, cell in zip(columns, cells, strict=True) if is_blank(cell)]
    raise _header_error(
        f"{_cell_name(empty[0], number)} is empty, and no row below consists of words"
        if empty
        else f"row {number} does not consist of words",
        location,
    )


def _cell_name(column: int, number: int) -> str:
    from openpyxl.utils import get_column_letter

    return f"{get_column_letter(column + 1)}{number}"


def _header_error(problem: str, location: str) -> DataError:
    return DataError(
        f"the row of column names cannot be found: {problem}",
        location=location,
        hint="give every column a name of its own, and delete title rows above the header and notes beside the table",
    )


def _require_saved_values(
    header: Sequence[str], rows: list[Row], formulas: dict[int, list[Any]], location: str
) -> None:
    for number, cells in rows:
        for name, cell, formula in zip(header, cells, formulas[number], strict=True):
            if cell is None and str(formula or "").startswith("="):
                raise _cell_error(name, number, "has a formula without a saved value", location)


def _require_no_errors(header: Sequence[str], rows: list[Row], location: str) -> None:
    for number, cells in rows:
        for name, cell in zip(header, cells, strict=True):
            if isinstance(cell, str) and cell in EXCEL_ERRORS:
                raise _cell_error(name, number, f"is the error {cell}", location)


def _cell_error(name: str, number: int, problem: str, location: str) -> DataError:
    return DataError(
        f"column {name!r}: the cell {problem}",
        location=f"{location}, row {number}",
        hint="open the workbook, correct the formula and save it again",
    )


def _read_sheets(data: bytes, location: str, *, formulas: bool) -> dict[str, list[Row]]:
    """Return the rows of each sheet that are not empty, as formulas or as their values."""
    try:
        import openpyxl
    except ImportError:
        raise MissingExtraError("openpyxl", extra="excel", purpose="to read an Excel workbook") from None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of styles and validations that are not read
            book = openpyxl.load_workbook(io.BytesIO(data), data_only=not formulas)
            return {
                sheet.title: [
                    (number, list(cells))
                    for number, cells in enumerate(sheet.iter_rows(values_only=True), 1)
                    if not all(map(is_blank, cells))
                ]
                for sheet in book.worksheets
            }
    except Exception as error:  # a damaged file surfaces as almost any exception of the reader
        raise DataError(
            f"not a readable Excel workbook: {str(error).splitlines()[0] if str(error) else type(error).__name__}",
            location=location,
            hint="save it again as .xlsx, or as CSV",
        ) from None

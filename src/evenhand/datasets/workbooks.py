"""Excel workbooks: one sheet, with a header below optional title rows, and typed cells."""

from __future__ import annotations

import io
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from evenhand.core.text import suggest_name
from evenhand.datasets.cells import build_frame, is_blank
from evenhand.datasets.text_tables import require_distinct
from evenhand.errors import DataError, MissingExtraError, OptionError, TableWarning

if TYPE_CHECKING:
    import pandas as pd

EXCEL_ERRORS = ("#DIV/0!", "#NAME?", "#NULL!", "#NUM!", "#REF!", "#VALUE!", "#N/A")
"""Cells of a workbook whose formula failed."""

Row = tuple[int, list[Any]]
"""Number of a row in its sheet, from 1, and its cells."""


def parse_workbook(data: bytes, location: str, *, sheet: str | None = None, words: bool = False) -> pd.DataFrame:
    """Read a sheet of an Excel workbook. Cells with formulas have their saved values.

    Args:
        data: Content of the file.
        location: Name of the file in error messages.
        sheet: Name of the sheet. If None, the workbook must have a single sheet that is not empty.
        words: Whether to convert every cell to a word.

    Raises:
        DataError: The workbook is damaged, not a table, or has several sheets; the message names row and column.
        OptionError: There is no such sheet.

    Warns:
        TableWarning: Rows above the header are skipped.
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
    formulas: dict[int, list[Any]] = {}
    if any(None in cells for _, cells in body):
        formulas = dict(_take(_read_sheets(data, location, formulas=True)[title], columns))
    _require_values(header, body, formulas, location)
    cells_of = zip(*([None if is_blank(cell) else cell for cell in cells] for _, cells in body), strict=True)
    return build_frame(dict(zip(header, map(list, cells_of), strict=True)), location, words=words)


def _choose_sheet(sheets: dict[str, list[Row]], sheet: str | None, location: str) -> str:
    filled = [title for title, rows in sheets.items() if rows]
    if sheet is not None and sheet not in sheets:
        hint = f"{suggest_name(sheet, sheets)}the sheets are: {', '.join(sheets)}"
        raise OptionError(f"there is no sheet {sheet!r}", location=location, hint=hint)
    if not filled or (sheet is not None and sheet not in filled):
        part = "workbook" if sheet is None else f"sheet {sheet!r}"
        raise DataError(f"the {part} is empty", location=location)
    if sheet is None and len(filled) > 1:
        raise DataError(
            f"the workbook has {len(filled)} sheets that are not empty: {', '.join(map(repr, filled))}",
            location=location,
            hint="name the sheet: `sheet=NAME`",
        )
    return filled[0] if sheet is None else sheet


def _filled_columns(rows: list[Row]) -> list[int]:
    """Return the positions of the columns that have a filled cell."""
    columns = zip(*(cells for _, cells in rows), strict=True)
    return [place for place, cells in enumerate(columns) if not all(map(is_blank, cells))]


def _take(rows: list[Row], columns: Sequence[int]) -> list[Row]:
    return [(number, [cells[column] for column in columns]) for number, cells in rows]


def _find_header(rows: list[Row], columns: Sequence[int], location: str) -> int:
    """Find the header, the first row without empty cells, and return its position.

    Rows above it are titles, each with at most half of the cells filled. A header below titles consists of words.

    Raises:
        DataError: There is no such row; the message names the first empty cell of the likely header.

    Warns:
        TableWarning: There are rows above the header.
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
                f"{location}: the rows above the column names in row {number} are skipped, from row {rows[0][0]} on",
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
        hint="name every column, and delete title rows above the header and notes next to the table",
    )


def _require_values(header: Sequence[str], rows: list[Row], formulas: dict[int, list[Any]], location: str) -> None:
    """Refuse cells whose formula failed, or has no saved value."""
    for number, cells in rows:
        for name, cell, formula in zip(header, cells, formulas.get(number, cells), strict=True):
            if cell is None and str(formula or "").startswith("="):
                problem = "has a formula without a saved value"
            elif isinstance(cell, str) and cell in EXCEL_ERRORS:
                problem = f"is the error {cell}"
            else:
                continue
            raise DataError(
                f"column {name!r}: the cell {problem}",
                location=f"{location}, row {number}",
                hint="open the workbook, correct the formula and save it again",
            )


def _read_sheets(data: bytes, location: str, *, formulas: bool) -> dict[str, list[Row]]:
    """Read the rows of each sheet that are not empty, with formulas or with their values."""
    try:
        import openpyxl
    except ImportError:
        raise MissingExtraError("openpyxl", extra="excel", purpose="to read an Excel workbook") from None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about styles and validations, which are not read
            book = openpyxl.load_workbook(io.BytesIO(data), data_only=not formulas)
            return {
                sheet.title: [
                    (number, list(cells))
                    for number, cells in enumerate(sheet.iter_rows(values_only=True), 1)
                    if not all(map(is_blank, cells))
                ]
                for sheet in book.worksheets
            }
    except Exception as error:  # the reader raises almost any exception for damaged files
        raise DataError(
            f"not a readable Excel workbook: {str(error).splitlines()[0] if str(error) else type(error).__name__}",
            location=location,
            hint="save it again as .xlsx, or as CSV",
        ) from None

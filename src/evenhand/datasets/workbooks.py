"""Excel workbooks: one sheet, with a header below optional title rows, and typed cells."""

from __future__ import annotations

import io
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from evenhand.core.text import suggest_name
from evenhand.datasets.cells import build_frame, is_blank
from evenhand.datasets.text_tables import read_header
from evenhand.errors import DataError, MissingExtraError, OptionError, TableWarning

if TYPE_CHECKING:
    import pandas as pd

EXCEL_ERRORS = ("#DIV/0!", "#NAME?", "#NULL!", "#NUM!", "#REF!", "#VALUE!", "#N/A")
"""Cells of a workbook whose formula failed."""

MERGED = "is merged with another cell"
"""Content of a cell that shows the value of another cell."""


def parse_workbook(data: bytes, location: str, *, sheet: str | None = None, words: bool = False) -> pd.DataFrame:
    """Read a sheet of an Excel workbook. Formulas are read as their saved values.

    Args:
        data: Content of the file.
        location: Name of the file in error messages.
        sheet: Name of the sheet. If None, the workbook must have a single sheet that is not empty.
        words: Whether to convert every cell to a string.

    Raises:
        DataError: The workbook is damaged, not a table, or has several sheets; the message states the row and column.
        OptionError: There is no such sheet.

    Warns:
        TableWarning: Rows above the header are skipped, or rows of the table are hidden.
    """
    sheets = _read_sheets(data, location, formulas=False)
    title = _choose_sheet(sheets, sheet, location)
    cells = sheets[title]
    place = _find_header(cells, location)
    header = read_header([str(cell) for cell in cells.iloc[place]], f"{location}, row {cells.index[place]}")
    body = cells.iloc[place + 1 :]
    if body.empty:
        raise DataError("there are no rows", location=location)
    hidden = int(body.index.isin(cells.attrs["hidden"]).sum())
    if hidden:
        warnings.warn(
            f"{location}: {hidden:,} of {len(body):,} rows are hidden in the workbook, and are read like the others",
            TableWarning,
            stacklevel=2,
        )
    contents, wrong = body, body.isna()
    if wrong.any(axis=None):
        contents = _read_sheets(data, location, formulas=True)[title].reindex(index=body.index, columns=body.columns)
        wrong &= contents.map(lambda cell: cell == MERGED or str(cell).startswith("="))
    places = np.argwhere((wrong | body.isin(EXCEL_ERRORS)).to_numpy())
    if len(places):
        row, column = places[0]
        cell: Any = body.iat[row, column]
        problem = "has a formula without a saved value" if cell is None else f"is the error {cell}"
        merged = contents.iat[row, column] == MERGED
        raise DataError(
            f"column {header[column]!r}: the cell {MERGED if merged else problem}",
            location=f"{location}, row {body.index[row]}",
            hint="unmerge the cells, and enter the value in each of them"
            if merged
            else "open the workbook, correct the formula and save it again",
        )
    columns = {name: body[column].tolist() for name, column in zip(header, body.columns, strict=True)}
    return build_frame(columns, location, words=words)


def _choose_sheet(sheets: dict[str, pd.DataFrame], sheet: str | None, location: str) -> str:
    if sheet is not None and sheet not in sheets:
        hint = f"{suggest_name(sheet, sheets)}the sheets are: {', '.join(sheets)}"
        raise OptionError(f"there is no sheet {sheet!r}", location=location, hint=hint)
    filled = [title for title, cells in sheets.items() if not cells.empty and sheet in (None, title)]
    if not filled:
        part = "workbook" if sheet is None else f"sheet {sheet!r}"
        raise DataError(f"the {part} is empty", location=location)
    if len(filled) > 1:
        raise DataError(
            f"the workbook has {len(filled)} sheets that are not empty: {', '.join(map(repr, filled))}",
            location=location,
            hint="name the sheet: `sheet=NAME`",
        )
    return filled[0]


def _find_header(cells: pd.DataFrame, location: str) -> int:
    """Find the header, the first row without empty cells, and return its position.

    Rows above it are titles, each with at most half of the cells filled. A header below title rows contains only text.

    Raises:
        DataError: There is no such row; the message states the first empty cell of the likely header.

    Warns:
        TableWarning: There are rows above the header.
    """
    top = cells.index[0]
    for place, number in enumerate(cells.index):
        row = cells.loc[number]
        empty = row.index[row.isna()]
        if len(empty) * 2 >= len(row):
            continue
        if len(empty):
            raise _header_error(_cell_name(empty[0], number) + " is empty", location)
        if not all(isinstance(cell, str) or (type(cell) is int and place == 0) for cell in row):
            break
        if place:
            warnings.warn(
                f"{location}: the header is in row {number} and the rows above it, from row {top}, are skipped",
                TableWarning,
                stacklevel=4,
            )
        return place
    empty = cells.columns[cells.loc[top].isna()]
    problem = f"row {top} has cells that are not text"
    if len(empty):
        problem = f"{_cell_name(empty[0], top)} is empty, and no row below consists only of text"
    raise _header_error(problem, location)


def _cell_name(column: int, number: int) -> str:
    from openpyxl.utils import get_column_letter

    return f"{get_column_letter(column)}{number}"


def _header_error(problem: str, location: str) -> DataError:
    return DataError(
        f"the header cannot be found: {problem}",
        location=location,
        hint="name every column, and delete title rows above the header and notes next to the table",
    )


def _read_sheets(data: bytes, location: str, *, formulas: bool) -> dict[str, pd.DataFrame]:
    """Read the non-empty rows and columns of each sheet, with formulas and marks of merged cells, or with values only.

    Rows and columns are numbered from 1, as in the sheet. Blank cells are None.
    """
    import pandas as pd

    try:
        import openpyxl
        from openpyxl.cell import MergedCell
        from openpyxl.utils.escape import unescape
    except ImportError:
        raise MissingExtraError("openpyxl", extra="excel", purpose="to read an Excel workbook") from None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # styles and validations are not read
            book = openpyxl.load_workbook(io.BytesIO(data), data_only=not formulas)
            sheets = {sheet.title: list(sheet.iter_rows(values_only=not formulas)) for sheet in book.worksheets}
            hidden = {
                sheet.title: [number for number, row in sheet.row_dimensions.items() if row.hidden]
                for sheet in book.worksheets
            }
    except Exception as error:  # the reader raises almost any exception for damaged files
        raise DataError(
            f"not a readable Excel workbook: {str(error).splitlines()[0] if str(error) else type(error).__name__}",
            location=location,
            hint="save it again as .xlsx, or as CSV",
        ) from None
    frames = {}
    for title, rows in sheets.items():
        if formulas:
            rows = [[MERGED if isinstance(cell, MergedCell) else cell.value for cell in row] for row in rows]
        # Excel writes control characters such as a carriage return as _x000D_.
        words = [[unescape(cell) if isinstance(cell, str) and "_x" in cell else cell for cell in row] for row in rows]
        cells = [[None if is_blank(cell) else cell for cell in row] for row in words]
        frame = pd.DataFrame(cells, index=range(1, len(cells) + 1), dtype=object).rename(columns=lambda i: i + 1)
        frames[title] = frame.dropna(how="all").dropna(axis=1, how="all")
        frames[title].attrs["hidden"] = hidden[title]
    return frames

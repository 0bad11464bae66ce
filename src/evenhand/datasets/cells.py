"""Cells of tables: columns of numbers stored as text, and columns of mixed types."""

from __future__ import annotations

import contextlib
import datetime as dt
import importlib
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from evenhand.core.typing import Floats, Integers
from evenhand.errors import TableWarning
from evenhand.schema.table import is_missing, parse_word

if TYPE_CHECKING:
    import pandas as pd

BLANKS = " \t\r\n\v\f\u00a0"
"""Characters of blank cells."""


def is_blank(cell: Any) -> bool:
    """Check whether a cell is empty or contains only blanks."""
    return cell is None or (isinstance(cell, str) and not cell.strip(BLANKS))


def parse_number(word: str) -> int | float | None:
    """Parse the canonical spelling of a number, without whitespace (see ``parse_word``). None for other strings."""
    number = parse_word(word)
    return None if isinstance(number, str) or word != word.strip() else number


def parse_numbers(frame: pd.DataFrame) -> pd.DataFrame:
    """Convert the columns in which every string is the canonical spelling of a number.

    Columns of integers without missing cells become int64. Other columns of numbers, and columns without any string,
    become float64. All other columns are returned unchanged.
    """
    import pandas as pd

    return pd.DataFrame({name: _parse_column(frame[name]) for name in frame.columns})


def _parse_column(words: pd.Series) -> pd.Series:
    import pandas as pd

    present = words.dropna()
    if present.empty:
        return words.astype(np.float64)
    if parse_number(present.iloc[0]) is None:
        return words
    try:
        import pyarrow as pa
    except ImportError:
        numbers = _parse_words(present.tolist())
    else:
        numbers = _parse_with_arrow(pa, present)
    return words if numbers is None else pd.Series(numbers, index=present.index).reindex(words.index)


def _parse_words(words: list[str]) -> Floats | Integers | None:
    """Parse strings as numbers. Return None if a string is not a canonical number."""
    numbers = {word: parse_number(word) for word in set(words)}
    return None if None in numbers.values() else np.array([numbers[word] for word in words])


def _parse_with_arrow(pa: Any, words: pd.Series) -> Floats | Integers | None:
    """Parse strings like ``_parse_words``, but several times as fast."""
    compute = importlib.import_module("pyarrow.compute")
    column = pa.array(words, type=pa.large_string(), from_pandas=True)
    try:
        numbers = column.cast(pa.float64())
    except pa.ArrowInvalid:
        return None
    # Arrow writes the shortest digits, as Python does, but switches to exponents at other magnitudes.
    size = compute.abs(numbers)
    usual = compute.and_(compute.greater_equal(size, 1e-3), compute.less(size, 1e15))
    proved = compute.and_(usual, compute.equal(numbers.cast(pa.large_string()), column))
    if any(parse_number(word) is None for word in column.filter(compute.invert(proved)).unique().to_pylist()):
        return None
    with contextlib.suppress(pa.ArrowInvalid):
        numbers = column.cast(pa.int64())
    return np.asarray(numbers)


def build_frame(columns: dict[str, list[Any]], location: str, *, words: bool = False) -> pd.DataFrame:
    """Build a data frame from typed cells, such as those of a workbook.

    Each column gets a single type. A column of numbers and strings becomes numeric if every string is the canonical
    spelling of a number. Other mixed-type columns are converted to strings.

    Args:
        columns: Cells of each column; None is a missing cell.
        location: Name of the table in messages.
        words: Whether to convert every cell to a string.

    Warns:
        TableWarning: A column has cells of several types.
    """
    import pandas as pd

    return pd.DataFrame({name: _unify(name, cells, location, words) for name, cells in columns.items()})


def _unify(name: str, cells: list[Any], location: str, words: bool) -> pd.Series:
    """Convert the cells of a column to a single type."""
    import pandas as pd

    kinds = {_kind_of(cell) for cell in cells if cell is not None}
    if not kinds:
        return pd.Series(np.full(len(cells), np.nan))
    if not words and len(kinds) > 1:
        numbers = [parse_number(cell) if isinstance(cell, str) else cell for cell in cells]
        words = kinds != {"numbers", "words"} or any(
            number is None and cell is not None for number, cell in zip(numbers, cells, strict=True)
        )
        warnings.warn(
            f"{location}: column {name!r} mixes {' and '.join(sorted(kinds))}; all are read as "
            f"{'words' if words else 'numbers'}",
            TableWarning,
            stacklevel=5,
        )
        cells = cells if words else numbers
    return pd.Series([to_word(cell) for cell in cells] if words else cells)


def _kind_of(cell: Any) -> str:
    if isinstance(cell, bool | np.bool_):
        return "truth values"
    if isinstance(cell, int | float | np.number):
        return "numbers"
    return "words" if isinstance(cell, str) else "times"


def to_word(cell: Any) -> str | None:
    """Format a cell as text: whole numbers without a decimal point, dates without a time at midnight."""
    if is_missing(cell):
        return None
    if isinstance(cell, float | np.floating) and float(cell).is_integer():
        return str(int(cell))
    if isinstance(cell, dt.datetime) and cell.time() == dt.time():
        return cell.date().isoformat()
    return str(cell)

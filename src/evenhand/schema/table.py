"""Tables as coded columns: each distinct value of a column is processed once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand.core.text import format_count
from evenhand.core.typing import Booleans, Floats, Integers
from evenhand.errors import DataError
from evenhand.schema.words import parse_number, read_number, word_of


def count_people(rows: Booleans, counts: Integers | None) -> int:
    """Count the people in the rows selected by a mask (n,). Each row is one person, or ``counts`` people."""
    return int(rows.sum() if counts is None else counts[rows].sum())


class CodedTable:
    """Data frame in memory whose columns are coded on first use.

    Attributes:
        frame: Narwhals data frame.
        counts: Number of people per row, shape (n,). None if every row is one person.
        location: Name of the data in messages.
        locate: Function that locates the first row with a value of a column; None to use row numbers.
        names: Column names.
    """

    def __init__(
        self,
        frame: Any,
        counts: Integers | None = None,
        location: str = "data",
        locate: Callable[[str, Any], str] | None = None,
    ) -> None:
        import narwhals as nw

        self.frame = nw.from_native(frame, eager_only=True)
        self.counts, self.location, self.locate = counts, location, locate
        self.names: list[str] = list(self.frame.columns)
        self._columns: dict[str, CodedColumn] = {}

    @classmethod
    def of(cls, frame: Any, location: str = "data") -> CodedTable:
        """Build the table of a data frame; a table is returned unchanged."""
        return frame if isinstance(frame, CodedTable) else cls(frame, location=location)

    def __len__(self) -> int:
        return len(self.frame)

    def __getitem__(self, name: str) -> CodedColumn:
        if name not in self._columns:
            locate = None if self.locate is None else partial(self.locate, name)
            self._columns[name] = CodedColumn.read(self.frame[name], self.counts, locate)
        return self._columns[name]


@dataclass(frozen=True, eq=False)
class CodedColumn:
    """Column stored as its distinct values and the code of each row.

    Attributes:
        name: Name of the column.
        known: Distinct values, and the position of each row's value among them; None to compute them on demand.
        array: Values of a numeric column, shape (n,). None for other columns.
        counts: Number of people per row, shape (n,). None if every row is one person.
        locate: Function that locates the first row with a value in the data; None to use row numbers.
    """

    name: str
    known: tuple[tuple[Any, ...], Integers] | None
    array: NDArray[Any] | None = None
    counts: Integers | None = None
    locate: Callable[[Any], str] | None = None

    @classmethod
    def read(
        cls, series: Any, counts: Integers | None = None, locate: Callable[[Any], str] | None = None
    ) -> CodedColumn:
        """Read a narwhals Series.

        Blank cells are missing. In a column with numbers, canonical spellings of numbers are numbers.

        Args:
            series: The column.
            counts: Number of people per row. None if every row is one person.
            locate: Function that locates the first row with a value in the data; None to use row numbers.
        """
        if series.dtype.is_integer() or series.dtype.is_float():
            array = series.to_numpy()
            if array.dtype.kind == ("f" if series.dtype.is_float() else "i"):
                return cls(series.name, None, array, counts, locate)
        words = _code_words(series)
        cells = [] if words is not None else series.to_list()
        try:
            column = cls(series.name, words or _code_objects(cells), None, counts, locate)
        except TypeError:  # a cell is not hashable
            return cls(series.name, (tuple(cells), np.arange(len(cells))), None, counts, locate)
        column = column._replace_values(_empty_blanks)
        # Numbers stored as text: 1 and "1" are one value.
        numeric = words is None and any(is_number(value) for value in column.values)
        return column._replace_values(parse_word) if numeric else column

    def with_numbers(self) -> CodedColumn:
        """Convert the strings to numbers, if every string is the canonical spelling of a number."""
        words = [value for value in self.values if isinstance(value, str)]
        return self if any(isinstance(parse_word(word), str) for word in words) else self._replace_values(parse_word)

    def _replace_values(self, change: Callable[[Any], Any]) -> CodedColumn:
        """Replace the values of the column and merge duplicates. If no value changes, return the column itself."""
        values = [change(value) for value in self.values]
        if all(new is old for new, old in zip(values, self.values, strict=True)):
            return self
        place: dict[Hashable, int] = {}
        codes = [place.setdefault(value_key(value), len(place)) for value in values]
        distinct = dict(zip(codes, values, strict=True))
        renumbered = np.array(codes, dtype=np.int64)[self.codes]
        return replace(self, known=(tuple(distinct[code] for code in sorted(distinct)), renumbered))

    def __len__(self) -> int:
        return len(self.codes if self.array is None else self.array)

    @cached_property
    def _code_values(self) -> tuple[tuple[Any, ...], Integers]:
        """Distinct values and codes; numbers are sorted, NaN last."""
        import pandas as pd

        if self.known is not None:
            return self.known
        codes, distinct = pd.factorize(np.asarray(self.array), use_na_sentinel=False)
        order = np.argsort(distinct, kind="stable")
        rank = np.empty(len(order), dtype=np.int64)
        rank[order] = np.arange(len(order))
        return tuple(distinct[order].tolist()), rank[codes]

    @property
    def values(self) -> tuple[Any, ...]:
        """Distinct values as Python objects; numbers in ascending order."""
        return self._code_values[0]

    @property
    def codes(self) -> Integers:
        """Position of each row's value in ``values``, shape (n,)."""
        return self._code_values[1]

    def each(self, predicate: Callable[[Any], bool]) -> Booleans:
        """Evaluate a predicate on the value of each row, shape (n,)."""
        return np.array([predicate(value) for value in self.values], dtype=bool)[self.codes]

    def missing(self) -> Booleans:
        """Mark missing values, shape (n,)."""
        return self.each(is_missing) if self.array is None else np.asarray(np.isnan(self.array))

    def numbers(self, convert: Callable[[Any], float]) -> Floats:
        """Return the value of each row as a number, shape (n,). Columns that are not numeric are converted."""
        return self.look_up(convert) if self.array is None else self.array.astype(np.float64)

    def finite_numbers(self, rows: Integers, role: str) -> Floats:
        """Convert the given rows to numbers, in any spelling, shape (rows,).

        Raises:
            DataError: A cell is missing, or not a finite number.
        """
        numbers = self.numbers(read_number)
        wrong = np.zeros(len(numbers), dtype=np.bool_)
        wrong[rows] = ~np.isfinite(numbers[rows])
        self.refuse(wrong, f"a finite number as {role}", f"drop these rows, or omit the column of {role}s")
        return np.asarray(numbers[rows])

    def look_up(self, convert: Callable[[Any], float]) -> Floats:
        """Convert the value of each row to a number, shape (n,)."""
        numbers: Floats = np.array([convert(value) for value in self.values], dtype=np.float64)[self.codes]
        return numbers

    def at(self, row: int) -> Any:
        """Return the value of one row."""
        return self.values[self.codes[row]] if self.array is None else self.array[row].item()

    def count_words(self, rows: Booleans) -> dict[str, int]:
        """Count the strings in the rows selected by a mask, most frequent first.

        Empty cells count as the empty string.
        """
        if not rows.any():
            return {}
        weights = None if self.counts is None else self.counts[rows]
        sizes = np.bincount(self.codes[rows], weights=weights, minlength=len(self.values)).astype(np.int64)
        words: Counter[str] = Counter()
        for value, size in zip(self.values, sizes.tolist(), strict=True):
            words["" if is_missing(value) else word_of(value)] += size
        return {word: size for word, size in sorted(words.items(), key=lambda item: (-item[1], item[0])) if size}

    def describe(self, rows: Booleans, most: int = 12) -> str:
        """Describe the distinct values in the rows selected by a mask, with their counts and first rows."""
        codes = list(dict.fromkeys(self.codes[rows].tolist()))
        parts = []
        for code in codes[:most]:
            same = rows & (self.codes == code)
            count = (
                ""
                if self.counts is not None
                else f"{format_count(count_people(same, self.counts), 'row', 'rows')}, first in "
            )
            parts.append(f"{self.values[code]!r} ({count}{self._place(same)})")
        return ", ".join(parts) + (f", ... ({len(codes)} in all)" if len(codes) > most else "")

    def refuse(self, rows: Booleans, expected: str, hint: str | None) -> None:
        """Check that there are no invalid rows.

        Raises:
            DataError: A row is invalid. The message states the first value, its location and the number of rows.
        """
        if rows.any():
            value = self.at(int(np.argmax(rows)))
            received = "an empty cell" if is_missing(value) else repr(value)
            raise DataError(
                f"column {self.name!r}, {self._place(rows)}: expected {expected}, got {received} "
                f"({format_count(count_people(rows, self.counts), 'such row', 'such rows')})",
                hint=hint,
            )

    def _place(self, rows: Booleans) -> str:
        """Describe the location of the first row selected by a mask.

        If rows were counted, include the number of selected rows with the same value.
        """
        first = int(np.argmax(rows))
        place = "" if self.locate is None else self.locate(self.at(first))
        if self.counts is None:
            return place or f"row {first + 1}"
        equal = count_people(rows & (self.codes == self.codes[first]), self.counts)
        return format_count(equal, "row", "rows") + (f", the first of them {place}" if place else "")


def _code_objects(column: list[Any]) -> tuple[tuple[Any, ...], Integers]:
    """Code values as distinct values and the position of each row's value among them."""
    kinds = set(map(type, column))
    if any(issubclass(kind, np.generic) for kind in kinds):
        column = [plain_value(value) for value in column]
    # True == 1 in Python, but they are different values.
    keys = column if len(kinds) == 1 or bool not in kinds else [value_key(value) for value in column]
    numbers = {key: i for i, key in enumerate(dict.fromkeys(keys))}
    codes = np.fromiter(map(numbers.__getitem__, keys), dtype=np.int64, count=len(keys))
    return tuple(numbers if keys is column else (key[1] for key in numbers)), codes


def _code_words(series: Any) -> tuple[tuple[Any, ...], Integers] | None:
    """Factorize strings into distinct values and the code of each row. Return None for other columns."""
    import narwhals as nw
    import pandas as pd

    if series.dtype not in (nw.String, nw.Categorical, nw.Enum):
        return None
    native = series.to_native()
    if series.implementation.is_polars():
        words = series.unique(maintain_order=True).to_list()
        codes = series.replace_strict(words, list(range(len(words))), return_dtype=nw.Int64).to_numpy()
    elif series.implementation.is_pyarrow():
        encoded = native.combine_chunks().dictionary_encode()
        words = encoded.dictionary.to_pylist()
        codes = encoded.indices.fill_null(-1).to_numpy().astype(np.int64)
    elif isinstance(native.dtype, np.dtype):  # Python objects are coded faster directly
        return None
    else:
        codes, distinct = pd.factorize(native)
        words = distinct.tolist()
    if not all(word is None or isinstance(word, str) for word in words):
        return None
    missing = codes < 0
    return (*words, *([None] if missing.any() else [])), np.where(missing, len(words), codes)


def _empty_blanks(value: Any) -> Any:
    return None if is_missing(value) or (isinstance(value, str) and not value.strip()) else value


def parse_word(value: Any) -> Any:
    """Convert a string to the number of which it is the canonical spelling; other values are unchanged."""
    number = parse_number(value.strip()) if isinstance(value, str) else None
    return value if number is None else number


def is_missing(value: Any) -> bool:
    """Check whether a value is missing: None, NaN, or a missing value of pandas or pyarrow."""
    return (
        value is None or (isinstance(value, float) and value != value) or type(value).__name__ in ("NAType", "NaTType")
    )


def is_number(value: Any) -> bool:
    """Check whether a value is a number, excluding Booleans and missing values."""
    return isinstance(value, int | float) and not isinstance(value, bool) and not is_missing(value)


def plain_value(value: Any) -> Any:
    """Convert a NumPy scalar to a Python value; return other values unchanged."""
    return value.item() if isinstance(value, np.generic) else value


def value_key(value: Any) -> tuple[bool, Hashable]:
    """Build the dictionary key of a value, which differs for True and 1."""
    return isinstance(value, bool), value


def sort_key(value: Any) -> tuple[str, Any]:
    """Build the sort key of a value: numbers first, then by type and text."""
    return ("", value) if isinstance(value, int | float) else (type(value).__name__, str(value))


def list_values(values: Any, most: int = 12) -> str:
    """Format the first values, and their number if there are more."""
    shown = [repr(value) for value in list(values)[:most]]
    return ", ".join(shown) + (f", ... ({len(values)} in all)" if len(values) > most else "")

"""Tables as coded columns, and the interpretation of their cells.

Each distinct value of a column is processed once.
"""

from __future__ import annotations

import itertools
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from evenhand.core.configuration import read_configuration
from evenhand.core.text import find_repeated, format_count, suggest_name
from evenhand.core.typing import Booleans, Floats, Integers
from evenhand.errors import DataError, OptionError

NUMBER = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?(e[+-]\d+)?", re.ASCII)
"""Pattern of strings that may be canonical spellings of numbers."""

LARGEST_INTEGER = 2**53
"""Larger integers remain strings, because 64-bit floats cannot represent all of them."""

LARGEST_COUNTED = 10_000
"""Maximum number of rows of a table that is checked for numbers of people."""

TRUTH = ("0", "1")
"""Outcome keys of false and true."""

TRIMMED = " \t\r\n\u00a0\u202f.()[]{}\"'\u2018\u2019\u201c\u201d"
"""Characters around a label that do not change its meaning."""


def parse_word(value: Any) -> Any:
    """Convert a string to the number of which it is the canonical spelling; other values are unchanged.

    A spelling is canonical if writing the number back gives the same string: ``2134``, ``0.5``, ``1.0`` and ``1e-05``
    are canonical; ``02134``, ``3.10``, ``+5``, ``1e3``, ``-0`` and ``TRUE`` are not, nor are integers beyond 2**53.
    Surrounding whitespace is ignored.
    """
    word = value.strip() if isinstance(value, str) else ""
    match = NUMBER.fullmatch(word)
    if match is None:
        return value
    if match[2] is None and match[3] is None:
        integer = int(word)
        return integer if str(integer) == word and abs(integer) <= LARGEST_INTEGER else value
    number = float(word)
    return number if math.isfinite(number) and repr(number) == word else value


def read_number(value: Any) -> float:
    """Parse a number in any spelling, such as ``3.10`` and ``+5``. Return NaN for other values."""
    if isinstance(value, str) and "_" in value:  # Python's own spelling of 1_000
        return math.nan
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return math.nan


def is_unusual_number(value: Any) -> bool:
    """Check whether a value is a non-canonical spelling of a number."""
    return isinstance(value, str) and math.isfinite(read_number(value)) and isinstance(parse_word(value), str)


def word_of(value: Any) -> str:
    """Format a value as text: a whole number without a decimal point, a string without surrounding whitespace.

    A number and the string that is its canonical spelling have the same text.
    """
    number = parse_word(value)
    return str(int(number)) if isinstance(number, float) and number.is_integer() else str(value).strip()


def outcome_key(value: Any) -> str:
    """Build the comparison key of an outcome: its text, or ``"1"`` and ``"0"`` for spellings of true and false."""
    word = word_of(value)
    return {"true": "1", "false": "0"}.get(word.casefold(), word)


def plain_key(value: Any) -> str:
    """Build the comparison key of an outcome in which yes means true and no means false."""
    word = folded(value)
    return "1" if word in ("yes", "y") else "0" if word in ("no", "n") else outcome_key(value)


def folded(value: Any) -> str:
    """Normalise a string: fold its case, and remove invisible characters and repeated whitespace."""
    visible = "".join(
        letter for letter in unicodedata.normalize("NFKC", str(value)) if unicodedata.category(letter) != "Cf"
    )
    return " ".join(visible.split()).casefold()


def find_variants(values: Iterable[Any]) -> list[list[Any]]:
    """Group the strings that differ only in case, whitespace or look-alike characters, in their order of appearance.

    Leading whitespace is ignored, because text tables often have it after the separator.
    """
    alike: dict[str, list[str]] = {}
    lookalikes = str.maketrans(*_data()["lookalikes"])
    for value in values:
        if isinstance(value, str):
            alike.setdefault(folded(value).translate(lookalikes), []).append(value)
    return [words for words in alike.values() if len({word.lstrip() for word in words}) > 1]


@cache
def _data() -> Mapping[str, Any]:
    return read_configuration(Path(__file__).with_name("words.toml"), example="words.toml", entries="unknown")


@cache
def _pattern(meaning: str) -> re.Pattern[str]:
    return re.compile("|".join(f"(?:{pattern})" for pattern in _data()[meaning]))


def means_unknown(value: Any, *, outcome: bool = False) -> bool:
    """Check whether a string means that a value is unknown, such as ``Prefer not to say``, ``NULL`` or ``?``.

    The strings are listed in ``words.toml``. As outcomes, ``declined`` and ``refused`` are known.
    """
    if not isinstance(value, str) or not _pattern("unknown").fullmatch(folded(value).strip(TRIMMED)):
        return False
    return not outcome or is_favourable_word(value) is None


def unknown_codes(values: Sequence[Any]) -> list[Any]:
    """List the numbers that are common codes for unknown values, such as -1 and 999."""
    codes = frozenset(_data()["codes"])
    return [
        value for value in values if isinstance(value, int | float) and not isinstance(value, bool) and value in codes
    ]


def is_adverse_name(name: str) -> bool | None:
    """Check whether a column name means that its label 1, yes or true is adverse, such as ``defaulted``.

    A negation reverses the meaning: ``no_default`` is not adverse, and ``not_hired`` is.

    Returns:
        None if the words of the name contradict each other, as in ``passed_risk_check``.
    """
    spaced = re.sub(r"(?<=[a-z])(?=[A-Z])|[^a-zA-Z0-9]+", " ", name).casefold()
    words = [word.rstrip("0123456789") or word for word in spaced.split()]
    pairs = [f"{first} {second}" for first, second in itertools.pairwise(words)]
    adverse = any(_pattern("adverse_names").fullmatch(word) for word in [*words, *pairs])
    good = any(_pattern("favourable").fullmatch(word) for word in words if plain_key(word) not in TRUTH)
    negated = any(_pattern("negations").fullmatch(word) for word in words)
    if adverse and good and not negated:
        return None
    return not negated if adverse else good and negated


def is_favourable_word(value: Any) -> bool | None:
    """Check whether a label is favourable, such as ``approved``, or not, such as ``denied``; None if unclear."""
    word = folded(outcome_key(value)).strip(TRIMMED)
    favourable, unfavourable = (bool(_pattern(meaning).fullmatch(word)) for meaning in ("favourable", "unfavourable"))
    return None if favourable == unfavourable else favourable


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
        rows: Number of rows.
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
        self.names, self.rows = list(self.frame.columns), len(self.frame)
        self._columns: dict[str, CodedColumn] = {}

    def __getitem__(self, name: str) -> CodedColumn:
        if name not in self._columns:
            locate = None if self.locate is None else partial(self.locate, name)
            self._columns[name] = CodedColumn.read(self.frame[name], self.counts, locate)
        return self._columns[name]


class Coding(NamedTuple):
    """Cells as distinct values, and the code of each row.

    Attributes:
        values: Distinct values as Python objects; numbers of a numeric column in ascending order, NaN last.
        codes: Position of each row's value in ``values``, shape (n,).
    """

    values: tuple[Any, ...]
    codes: Integers


@dataclass(frozen=True, eq=False)
class CodedColumn:
    """Column of a table, stored as a coding or as an array of numbers.

    Attributes:
        name: Name of the column.
        known: Coding of the cells. None for a numeric column, which is coded on first use.
        array: Values of a numeric column, shape (n,). None for other columns.
        counts: Number of people per row, shape (n,). None if every row is one person.
        locate: Function that locates the first row with a value in the data; None to use row numbers.
    """

    name: str
    known: Coding | None
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
            return cls(series.name, Coding(tuple(cells), np.arange(len(cells))), None, counts, locate)
        empty = [is_missing(value) or (isinstance(value, str) and not value.strip()) for value in column.coding.values]
        values = [None if gap else value for gap, value in zip(empty, column.coding.values, strict=True)]
        column = column.with_values(values)
        # Numbers stored as text: 1 and "1" are one value.
        numeric = words is None and any(is_number(value) for value in column.coding.values)
        return column.with_values(list(map(parse_word, column.coding.values))) if numeric else column

    def as_words(self) -> CodedColumn:
        """Convert the values to text (see ``word_of``). Missing values are None."""
        words = [None if is_missing(value) else word_of(value) for value in self.coding.values]
        cells = dict(zip(reversed(words), reversed(self.coding.values), strict=True))  # first cell of each word
        locate = self.locate
        return replace(self.with_values(words), locate=None if locate is None else lambda word: locate(cells[word]))

    def with_values(self, values: Sequence[Any]) -> CodedColumn:
        """Replace the distinct values and merge duplicates. If no value changes, return the column itself."""
        if all(new is old for new, old in zip(values, self.coding.values, strict=True)):
            return self
        place: dict[Hashable, int] = {}
        codes = [place.setdefault(value_key(value), len(place)) for value in values]
        distinct = dict(zip(codes, values, strict=True))
        renumbered = np.array(codes, dtype=np.int64)[self.coding.codes]
        return replace(self, array=None, known=Coding(tuple(distinct[code] for code in sorted(distinct)), renumbered))

    def __len__(self) -> int:
        return len(self.coding.codes if self.array is None else self.array)

    @cached_property
    def coding(self) -> Coding:
        """Distinct values, and the code of each row."""
        import pandas as pd

        if self.known is not None:
            return self.known
        codes, distinct = pd.factorize(np.asarray(self.array), use_na_sentinel=False)
        order = np.argsort(distinct, kind="stable")
        rank = np.empty(len(order), dtype=np.int64)
        rank[order] = np.arange(len(order))
        return Coding(tuple(distinct[order].tolist()), rank[codes])

    def missing(self, unknown: Iterable[Any] = (), markers: Iterable[str] = ()) -> Booleans:
        """Mark missing values, shape (n,).

        Args:
            unknown: Values that mean "unknown".
            markers: Strings that mean "missing", unless the column is numeric.
        """
        missing = self.map(is_missing) if self.array is None else np.asarray(np.isnan(self.array))
        words = {word_of(value) for value in (*unknown, *(markers if self.array is None else ()))}
        return missing | self.map(lambda value: word_of(value) in words) if words else missing

    def numbers(self, convert: Callable[[Any], float]) -> Floats:
        """Return the value of each row as a number, shape (n,). Columns that are not numeric are converted."""
        return self.map(convert, np.float64) if self.array is None else self.array.astype(np.float64)

    def finite_numbers(self, rows: Integers, role: str, *, optional: bool = False) -> Floats:
        """Convert the given rows to numbers, in any spelling, shape (rows,).

        Args:
            rows: Positions of the rows.
            role: Meaning of the numbers in messages.
            optional: Whether cells may be missing. Their number is NaN.

        Raises:
            DataError: A cell is not a finite number.
        """
        numbers = self.numbers(read_number)
        valid = np.isfinite(numbers) | (self.missing() & optional)
        wrong = np.zeros(len(numbers), dtype=np.bool_)
        wrong[rows] = ~valid[rows]
        hint = f"leave the cell empty if there is no {role}" if optional else f"omit the column of {role}s"
        self.refuse(wrong, f"a finite number as {role}", f"correct or drop these rows, or {hint}")
        return np.asarray(numbers[rows])

    def map(self, function: Callable[[Any], Any], dtype: type = np.bool_) -> NDArray[Any]:
        """Apply a function to the value of each row, shape (n,). By default, it is a predicate."""
        values, codes = self.coding
        results: NDArray[Any] = np.array([function(value) for value in values], dtype=dtype)[codes]
        return results

    def at(self, row: int) -> Any:
        """Return the value of one row."""
        return self.coding.values[self.coding.codes[row]] if self.array is None else self.array[row].item()

    def count_words(self, rows: Booleans) -> dict[str, int]:
        """Count the strings in the rows selected by a mask, most frequent first.

        Empty cells count as the empty string.
        """
        if not rows.any():
            return {}
        values, codes = self.coding
        weights = None if self.counts is None else self.counts[rows]
        sizes = np.bincount(codes[rows], weights=weights, minlength=len(values)).astype(np.int64)
        words: Counter[str] = Counter()
        for value, size in zip(values, sizes.tolist(), strict=True):
            words["" if is_missing(value) else word_of(value)] += size
        return {word: size for word, size in sorted(words.items(), key=lambda item: (-item[1], item[0])) if size}

    def describe(self, rows: Booleans, most: int = 12) -> str:
        """Describe the distinct values in the rows selected by a mask, with their counts and first rows."""
        values, codes = self.coding
        present = list(dict.fromkeys(codes[rows].tolist()))
        parts = []
        for code in present[:most]:
            same = rows & (codes == code)
            count = "" if self.counts is not None else f"{format_count(int(same.sum()), 'row', 'rows')}, first in "
            parts.append(f"{values[code]!r} ({count}{self.place(same)})")
        return ", ".join(parts) + (f", ... ({len(present)} in all)" if len(present) > most else "")

    def refuse(self, rows: Booleans, expected: str, hint: str | None) -> None:
        """Check that there are no invalid rows.

        Raises:
            DataError: A row is invalid. The message states the first value, its location and the number of rows.
        """
        if rows.any():
            value = self.at(int(np.argmax(rows)))
            received = "an empty cell" if is_missing(value) else repr(value)
            raise DataError(
                f"column {self.name!r}, {self.place(rows)}: expected {expected}, got {received} "
                f"({format_count(count_people(rows, self.counts), 'such row', 'such rows')})",
                hint=hint,
            )

    def place(self, rows: Booleans) -> str:
        """Describe the location of the first row selected by a mask.

        If rows were counted, include the number of selected rows with the same value.
        """
        first = int(np.argmax(rows))
        place = "" if self.locate is None else self.locate(self.at(first))
        if self.counts is None:
            return place or f"row {first + 1}"
        equal = count_people(rows & (self.coding.codes == self.coding.codes[first]), self.counts)
        return format_count(equal, "row", "rows") + (f", the first of them {place}" if place else "")


def _code_objects(column: list[Any]) -> Coding:
    """Code values as distinct values and the position of each row's value among them."""
    kinds = set(map(type, column))
    if any(issubclass(kind, np.generic | Decimal) for kind in kinds):
        column = [plain_value(value) for value in column]
    # True == 1 in Python, but they are different values.
    keys = column if len(kinds) == 1 or bool not in kinds else [value_key(value) for value in column]
    numbers = {key: i for i, key in enumerate(dict.fromkeys(keys))}
    codes = np.fromiter(map(numbers.__getitem__, keys), dtype=np.int64, count=len(keys))
    return Coding(tuple(numbers if keys is column else (key[1] for key in numbers)), codes)


def _code_words(series: Any) -> Coding | None:
    """Code strings or Booleans. Return None for other columns."""
    import narwhals as nw
    import pandas as pd

    if series.dtype == nw.Boolean and not series.null_count():
        codes, flags = pd.factorize(series.to_numpy())
        return Coding(tuple(flags.tolist()), codes)
    if series.dtype not in (nw.String, nw.Categorical, nw.Enum):
        return None
    native = series.to_native()
    if series.implementation.is_polars():
        words = series.unique(maintain_order=True).to_list()
        codes = series.replace_strict(words, list(range(len(words))), return_dtype=nw.Int64).to_numpy()
    elif series.implementation.is_pyarrow():
        encoded = native.combine_chunks().dictionary_encode()
        words = encoded.dictionary.to_pylist()
        codes = encoded.indices.cast("int64").fill_null(-1).to_numpy()  # the indices of DuckDB have no sign
    else:
        codes, distinct = pd.factorize(native)
        words = distinct.tolist()
    if not all(word is None or isinstance(word, str) for word in words):
        return None
    missing = codes < 0
    return Coding((*words, *([None] if missing.any() else [])), np.where(missing, len(words), codes))


def is_missing(value: Any) -> bool:
    """Check whether a value is missing: None, NaN, or a missing value of pandas or pyarrow."""
    return (
        value is None or (isinstance(value, float) and value != value) or type(value).__name__ in ("NAType", "NaTType")
    )


def is_number(value: Any) -> bool:
    """Check whether a value is a number, excluding Booleans and missing values."""
    return isinstance(value, int | float) and not isinstance(value, bool) and not is_missing(value)


def plain_value(value: Any) -> Any:
    """Convert a NumPy scalar or a decimal to a Python value; return other values unchanged."""
    if isinstance(value, Decimal):
        return int(value) if value.is_finite() and value == value.to_integral_value() else float(value)
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


def check_type(argument: str, value: Any, types: Any, expected: str) -> None:
    """Check the type of an argument that is not a column. None is always valid.

    Args:
        argument: Name of the argument in messages.
        value: Value of the argument.
        types: Type, or tuple of types, as for ``isinstance``.
        expected: Description of the expected type.

    Raises:
        OptionError: The value has another type.
    """
    if value is not None and not isinstance(value, types):
        raise OptionError(f"expected {expected} as {quote_argument(argument)}, got {describe_argument(value)}")


def list_columns(frame: Any, *, lazy: bool = False) -> list[str]:
    """List the columns of a data frame that is passed as ``data``.

    Args:
        frame: Data frame that narwhals supports.
        lazy: Whether the data frame may be lazy.

    Raises:
        DataError: The argument is not a data frame, has no rows, or its column names are not distinct strings.
    """
    import narwhals as nw

    if frame is None:
        raise DataError("expected a data frame, got none", hint="pass `data=`, one row per person")
    try:
        table = wrap_native(frame, "data")
    except TypeError:
        shape = f" of shape {frame.shape}" if hasattr(frame, "shape") else ""
        hint = "name its columns: pandas.DataFrame(X, columns=[...])"
        if hasattr(frame, "predict") or callable(frame):
            hint = "pass the model first, then the data"
        elif isinstance(frame, Mapping):
            hint = "pandas.DataFrame(data)"
        raise DataError(f"expected a data frame, got {type(frame).__name__}{shape}", hint=hint) from None
    columns = check_names(table.collect_schema().names(), "data")
    if isinstance(table, nw.LazyFrame):
        if not lazy:
            hint = "collect it, or a sample of its rows; lazy frames are supported for recorded decisions only"
            raise DataError("expected a data frame in memory, got a lazy one", hint=hint)
    elif len(table) == 0:
        raise DataError("expected at least one person, got a data frame without rows")
    else:
        refuse_totals(table)
    return columns


def refuse_totals(table: Any) -> None:
    """Check that neither the first nor the last row totals the others, as below tables of reports."""
    numbers = [name for name, kind in table.schema.items() if kind.is_numeric()]
    words = table.drop(numbers)
    for name, row in itertools.product(words.columns if len(words) > 2 else (), (len(words) - 1, 0)):
        cell = words[name][row]
        total = isinstance(cell, str) and _pattern("totals").fullmatch(folded(cell).strip(TRIMMED))
        if total and words[name].to_list().count(cell) == 1:
            message = f"row {row + 1:,} seems to total the others: column {name!r} is {cell!r} only there"
            raise DataError(message, hint="delete the row; if it is a person, write another word")


def refuse_counts(table: CodedTable, used: Iterable[str]) -> None:
    """Check that each row is a person, and not a number of people beside one combination of all other columns.

    Args:
        table: Table in memory. It has no numbers of people if it has fewer than 8 rows, or very many.
        used: Columns that are not such numbers, because they have another role.

    Raises:
        DataError: Each combination of the other columns occurs at most once, and most do.
    """
    codings = {name: table[name].coding for name in table.names} if 8 <= table.rows <= LARGEST_COUNTED else {}
    for name in [name for name in codings if name not in used]:
        numbers = [read_number(value) if is_number(value) else -1.0 for value in codings[name].values]
        others = [coding for other, coding in codings.items() if other != name and len(coding.values) > 1]
        complete = table.rows <= math.prod(len(coding.values) for coding in others) < 2 * table.rows
        if not complete or len(others) < 2 or min(numbers) < 0 or max(numbers) < 2 or any(x % 1 for x in numbers):
            continue
        if len(np.unique(np.column_stack([coding.codes for coding in others]), axis=0)) == table.rows:
            raise DataError(
                f"column {name!r} seems to count people: the other columns have almost every combination once",
                location=table.location,
                hint=f"repeat each row as often as {name!r} says, or drop the column if each row is a person",
            )


def wrap_native(values: Any, argument: str, *, numbers: bool = False, **options: Any) -> Any:
    """Wrap a data frame, or whatever else the options of ``narwhals.from_native`` allow.

    Args:
        values: Value of the argument.
        argument: Name of the argument in messages.
        numbers: Whether column names may be integers.
        options: Options of ``narwhals.from_native``.

    Raises:
        DataError: Two columns have the same name.
    """
    import narwhals as nw

    try:
        return nw.from_native(values, **options)
    except nw.exceptions.DuplicateError:
        check_names(list(getattr(values, "column_names", None) or values.columns), argument, numbers=numbers)
        raise


def check_names(names: Sequence[Any], argument: str, *, numbers: bool = False) -> list[str]:
    """Check that column names are distinct strings, and return them.

    Args:
        names: Column names.
        argument: Name of the argument in messages.
        numbers: Whether names may be integers, which are converted to text.

    Raises:
        DataError: Two names are equal, or a name is not text.
    """
    allowed = (str, int, np.integer) if numbers else (str,)
    texts = [str(name) for name in names]
    invalid = [name for name in names if not isinstance(name, allowed) or isinstance(name, bool)]
    if not invalid and len(set(texts)) == len(texts):
        return texts
    expected, hint = "text as column names", "convert the names: frame.columns = frame.columns.astype(str)"
    if not invalid:
        expected, hint = "distinct column names", "rename the columns, or drop the duplicates"
    elif isinstance(invalid[0], tuple):
        expected = "single-level column names"
        hint = "join the levels: frame.columns = ['_'.join(map(str, name)) for name in frame.columns]"
    received = [*invalid, *find_repeated(texts)][0]
    raise DataError(f"expected {expected} in {quote_argument(argument)}, got {received!r}", hint=hint)


def require_column(name: str, columns: Sequence[str], argument: str) -> None:
    """Check that the column named by an argument exists.

    Raises:
        DataError: There is no such column.
    """
    if name not in columns:
        parts = [part.strip() for part in name.split(",")]
        hint = f"{suggest_name(name, columns)}the columns are: {', '.join(columns)}"
        if len(parts) > 1 and all(part in columns for part in parts):
            hint = f"name the {len(parts)} columns separately"
        raise DataError(f"expected a column of the data as `{argument}=`, got {name!r}", hint=hint)


def quote_argument(argument: str) -> str:
    """Format the name of an argument for messages."""
    return f"`{argument}=`" if argument.isidentifier() else f"`{argument}`"


def describe_argument(values: Any) -> str:
    """Describe an argument: a scalar by its value, anything else by its type and shape."""
    if values is None or isinstance(values, str | bytes | int | float):
        return repr(values)
    shape = getattr(values, "shape", None)
    return f"{type(values).__name__}" + (f" of shape {shape}" if shape is not None else "")


def list_names(names: Sequence[str], argument: str) -> tuple[str, ...]:
    """Check that an argument is a list of distinct names, and return them as a tuple.

    Args:
        names: Names of columns.
        argument: Name of the argument in messages.

    Raises:
        OptionError: The argument is a single string, contains values other than strings, or repeats a name.
    """
    column = names if isinstance(names, str) else getattr(names, "name", None)
    hint = f"{argument}=[{column!r}]" if isinstance(column, str) else f"name the columns: {argument}=['sex']"
    is_list = not isinstance(names, str) and isinstance(names, Iterable) and getattr(names, "ndim", 1) > 0
    listed = tuple(names) if is_list else ()
    if not is_list:
        received = repr(names)
    elif not all(isinstance(name, str) for name in listed):
        received = f"a {type(names).__name__} of {len(listed):,} values"
    elif len(set(listed)) < len(listed):
        repeated = find_repeated(listed)[0]
        received = f"{repeated!r} {listed.count(repeated)} times"
    else:
        return listed
    raise OptionError(f"expected a list of distinct names as `{argument}=`, got {received}", hint=hint)

"""Row counts and score sums by cell, computed inside the engine that holds the rows.

Group results need only the number of rows and the score sums of each cell, so a table may be larger than memory. One
lazy ``group_by().agg()`` computes both in any engine that narwhals supports. Scores are summed as whole numbers, so the
result does not depend on the order of the rows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import numpy as np

from evenhand.core.typing import Booleans, Floats, Integers
from evenhand.errors import DataError
from evenhand.schema.table import CodedColumn, CodedTable, is_missing

UNIT = 2.0**24
"""Scores are rounded down to multiples of 1 / UNIT, and the remainders to multiples of 1 / UNIT^2."""

TENTHS = 10

BINS = 20
"""Base-2 logarithm of the number of score bins for the ROC curve. Fewer rows than bins are not binned."""

LOOKED_AT = 100_000
"""Number of rows that are checked for columns with many values before counting."""

MOST_VALUES = 10_000
"""Maximum number of distinct values of a column among these rows."""

OWN = "evenhand "
"""Prefix of added columns."""


@dataclass(frozen=True)
class ScoreSums:
    """Score sums by cell; each array has shape (cells,).

    A score x from 0 to 1 is stored as ``q = floor(2^24 x)`` and ``r = floor(2^24 (2^24 x - q))``. For other scores the
    sums are meaningless and only the range is valid.

    Attributes:
        tenth: Tenth of the score, 0 to 9.
        whole, rest: Sums of q and of r.
        squares, squares_rest: Sums of a and b, where ``q^2 = 2^24 a + b``.
        cross: Sums of ``floor(q r / 2^24)``.
        lowest, highest: Minimum and maximum of the original scores.
        unusable: Number of rows without a finite score; the sums exclude them.
        low_is_good: Whether low original scores are good. If so, the sums are of 1 minus the score.
        area: Score counts of both classes of true labels, if the labels are known.
    """

    tenth: Integers
    whole: Integers
    rest: Integers
    squares: Integers
    squares_rest: Integers
    cross: Integers
    lowest: Floats
    highest: Floats
    unusable: Integers
    low_is_good: bool = False
    area: RankedScores | None = None

    ADDED: ClassVar = ("whole", "rest", "squares", "squares_rest", "cross")
    COLUMNS: ClassVar = ("tenth", *ADDED, "lowest", "highest", "unusable")

    @classmethod
    def of(cls, scores: Floats, counts: Integers) -> ScoreSums:
        """Compute the sums of scores (n,) in memory, each repeated ``counts`` times."""
        inside = np.clip(scores, 0.0, 1.0)
        q = np.floor(inside * UNIT)
        r = np.floor((inside * UNIT - q) * UNIT)
        a = np.floor(q * q / UNIT)
        parts = (q, r, a, q * q - a * UNIT, np.floor(q * r / UNIT))
        sums: dict[str, Any] = {
            name: part.astype(np.int64) * counts for name, part in zip(cls.ADDED, parts, strict=True)
        }
        tenth = np.minimum(np.floor(inside * TENTHS), TENTHS - 1).astype(np.int64)
        unusable = np.zeros(len(scores), dtype=np.int64)
        return cls(tenth=tenth, **sums, lowest=scores, highest=scores, unusable=unusable)

    def at(self, cells: Integers) -> ScoreSums:
        """Select cells; ``area`` is None, because it covers all cells."""
        columns: dict[str, Any] = {name: getattr(self, name)[cells] for name in self.COLUMNS}
        return replace(self, area=None, **columns)

    def merge(self, order: Integers, first: Integers) -> ScoreSums:
        """Merge runs of cells, which start at the positions ``first`` of ``order``."""
        reductions = {"lowest": np.fmin, "highest": np.fmax}
        columns: dict[str, Any] = {
            name: reductions.get(name, np.add).reduceat(getattr(self, name)[order], first) for name in self.COLUMNS
        }
        return replace(self, **columns | {"tenth": self.tenth[order][first]})

    def moments(self, kind: Integers, people: Integers) -> tuple[Floats, Floats]:
        """Compute the mean score and the sum of squared deviations of each kind, shape (kinds,) each.

        With ``y = 2^24 x = q + r / 2^24`` the sum of squared deviations of n rows is ``sum(y^2) - sum(y)^2 / n``. Whole
        numbers avoid cancellation; ``y^2 = q^2 + 2 q r / 2^24 + ...`` is truncated by less than 3.

        Args:
            kind: Kind of each cell, shape (cells,).
            people: Number of rows of each kind, shape (kinds,).
        """
        unit, n = int(UNIT), people.astype(object)

        def add_up(column: Integers) -> Any:
            sums = np.zeros(len(people), dtype=np.int64)
            np.add.at(sums, kind, column)
            return sums.astype(object)  # Python integers do not overflow

        total = add_up(self.whole) * unit + add_up(self.rest)
        squares = add_up(self.squares) * unit + add_up(self.squares_rest) + 2 * add_up(self.cross)
        # Truncation may make the deviations of equal scores negative.
        deviations = np.maximum(n * squares * unit**2 - total * total, 0) / (n * unit**4)
        return (total / (n * unit**2)).astype(np.float64), deviations.astype(np.float64)

    @property
    def given_range(self) -> Floats:
        """Minimum and maximum of the original scores, shape (2,)."""
        return np.array([np.nanmin(self.lowest), np.nanmax(self.highest)])

    @property
    def turned(self) -> float | None:
        """Constant from which low-is-good scores are subtracted to reverse them; None if high scores are good."""
        low, high = self.given_range.tolist()
        return None if not self.low_is_good else 1.0 if low >= 0 and high <= 1 else 0.0

    @property
    def range(self) -> Floats:
        """Minimum and maximum of the scores, reversed if low scores are good, shape (2,)."""
        return self.given_range if self.turned is None else self.turned - self.given_range[::-1]


@dataclass(frozen=True)
class RankedScores:
    """Number of rows of each true class by score bin, in ascending order of the score.

    Attributes:
        positive, negative: Number of rows with and without the favourable true label, shape (bins,).
        mixed: Whether a bin contains different scores, shape (bins,).
    """

    positive: Integers
    negative: Integers
    mixed: Booleans


class CountedRows(CodedTable):
    """Number of rows by distinct values of some columns: a table with one row per cell.

    Attributes:
        lazy: Lazy frame that holds the rows.
        scores: Score sums; None without scores.
        selected: Whether the scores reach the threshold, shape (cells,); None without a threshold.
    """

    counts: Integers

    def __init__(
        self,
        frame: Any,
        counts: Integers,
        lazy: Any,
        scores: ScoreSums | None = None,
        selected: Booleans | None = None,
        location: str = "data",
    ) -> None:
        super().__init__(frame, counts, location)
        self.lazy, self.scores, self.selected = lazy, scores, selected
        self.locate = partial(locate_value, lazy)


def is_lazy(frame: Any) -> bool:
    """Check whether a data frame is lazy, such as a Polars LazyFrame or a database table."""
    import narwhals as nw

    return isinstance(nw.from_native(frame, pass_through=True), nw.LazyFrame)


def count_rows(
    frame: Any,
    columns: Sequence[str],
    score: str | None = None,
    *,
    low_is_good: bool = False,
    threshold: float | None = None,
    location: str = "data",
) -> CountedRows:
    """Count rows by the values of some columns.

    Args:
        frame: Lazy frame that narwhals supports (Polars, DuckDB, Spark, Ibis, ...).
        columns: Columns with few distinct values.
        score: Column of scores to sum.
        low_is_good: Whether low scores are good. If so, 1 minus the score is summed.
        threshold: Threshold of the score. Rows are also counted by whether the score reaches it, or does not exceed it
            if low scores are good.
        location: Name of the data in messages.

    Raises:
        DataError: There are no rows, a column has too many distinct values, or scores are not numbers.
    """
    import narwhals as nw

    rows = nw.from_native(frame).lazy()
    _check_values(rows, columns, location)
    by, sums, value = list(columns), [], own("given")
    if score is not None:
        rows, sums = _split_scores(read_scores(rows, score), low_is_good), [*ScoreSums.ADDED, "unusable"]
        by.append(OWN + "tenth")
        if threshold is not None:
            reached = value <= threshold if low_is_good else value >= threshold
            rows = rows.with_columns(reached.cast(nw.Int64).fill_null(0).alias(OWN + "selected"))
            by.append(OWN + "selected")
    cells = add_up_rows(rows, by, sums, None if score is None else value)
    counts = whole_numbers(cells[OWN + "n"])
    if not len(counts):
        raise DataError("there are no rows", location=location)
    table = cells.select(list(columns))
    if score is None:
        return CountedRows(table, counts, frame, location=location)
    arrays: dict[str, Any] = {name: whole_numbers(cells[OWN + name]) for name in ("tenth", *sums)}
    arrays |= {end: np.asarray(cells[OWN + end].to_numpy(), np.float64) for end in ("lowest", "highest")}
    selected = None if threshold is None else whole_numbers(cells[OWN + "selected"]) == 1
    scores = ScoreSums(**arrays, low_is_good=low_is_good)
    return CountedRows(table, counts, frame, scores, selected, location)


def _check_values(rows: Any, columns: Sequence[str], location: str) -> None:
    """Reject columns with many distinct values among the first rows, before all rows are counted."""
    import narwhals as nw

    head = collect(rows.select([nw.col(name) for name in dict.fromkeys(columns)]).head(LOOKED_AT))
    for name in columns:
        distinct = head[name].n_unique()
        if distinct > MOST_VALUES:
            raise DataError(
                f"expected at most {MOST_VALUES:,} different values in column {name!r}, got {distinct:,} in the first "
                f"{len(head):,} rows",
                location=location,
                hint="bin its values, leave it out, or read a sample of the rows into memory",
            )


def own(name: str) -> Any:
    """Build the expression of an added column."""
    import narwhals as nw

    return nw.col(OWN + name)


def read_scores(rows: Any, score: str) -> Any:
    """Add the scores as a column ``given``, NULL where a score is not a finite number.

    Raises:
        DataError: The column does not hold numbers.
    """
    import narwhals as nw

    kind = rows.collect_schema()[score]
    if not (kind.is_numeric() or kind == nw.Boolean):
        raise DataError(
            f"expected numbers in the column of scores, {score!r}, got {kind}", hint="convert the column to numbers"
        )
    rows = rows.with_columns(nw.col(score).cast(nw.Float64).alias(OWN + "number"))
    return rows.with_columns(nw.when(own("number").is_finite()).then(own("number")).alias(OWN + "given"))


def _split_scores(rows: Any, low_is_good: bool) -> Any:
    """Add the whole numbers of each score that ``ScoreSums`` sums up; 0 for missing scores."""
    import narwhals as nw

    inside = (1.0 - own("given") if low_is_good else own("given")).fill_null(0.0).clip(0.0, 1.0)
    rows = rows.with_columns(
        (inside * UNIT).alias(OWN + "scaled"),
        # Floor before the cast, because some engines round.
        (inside * TENTHS).floor().clip(upper_bound=TENTHS - 1.0).cast(nw.Int64).alias(OWN + "tenth"),
        own("given").is_null().cast(nw.Int64).alias(OWN + "unusable"),
    )
    rows = rows.with_columns(own("scaled").floor().alias(OWN + "q"))
    # Doubles below 2^53 and divisions by powers of two are exact, and therefore all these products.
    rows = rows.with_columns(
        ((own("scaled") - own("q")) * UNIT).floor().alias(OWN + "r"),
        (own("q") * own("q") / UNIT).floor().alias(OWN + "a"),
    )
    return rows.with_columns(
        own("q").cast(nw.Int64).alias(OWN + "whole"),
        own("r").cast(nw.Int64).alias(OWN + "rest"),
        own("a").cast(nw.Int64).alias(OWN + "squares"),
        (own("q") * own("q") - own("a") * UNIT).cast(nw.Int64).alias(OWN + "squares_rest"),
        (own("q") * own("r") / UNIT).floor().cast(nw.Int64).alias(OWN + "cross"),
    )


def rank_scores(
    frame: Any, score: str, label: str, kept: Mapping[str, CodedColumn], favourable: Sequence[Any], sums: ScoreSums
) -> RankedScores:
    """Count rows of each true class by score bin.

    Args:
        frame: Lazy frame that narwhals supports.
        score, label: Columns of the scores and of the true labels.
        kept: Values of columns by cell, with ``counts`` 0 for excluded cells.
        favourable: Favourable values of the labels.
        sums: Sums of the same scores.
    """
    import narwhals as nw

    rows = nw.from_native(frame).lazy()
    for name, column in kept.items():
        rows = _drop_absent(rows, name, column)
    low, high = sums.range.tolist()
    start, width = (0.0, 1.0) if low >= 0 and high <= 1 else (low, high - low)
    scale = 2.0 ** (BINS - math.ceil(math.log2(width))) if width > 0 else 1.0
    value = own("given") if sums.turned is None else sums.turned - own("given")
    counts = kept[label].counts
    assert counts is not None
    # A bin per score if there are few rows; adding 0 turns -0 into 0.
    bin_number = value + 0.0 if counts.sum() <= 2**BINS else ((value - start) * scale).floor().cast(nw.Int64)
    positive = nw.col(label).is_in(list(favourable)).cast(nw.Int64)
    rows = read_scores(rows, score).with_columns(
        bin_number.alias(OWN + "bin"), value.alias(OWN + "value"), positive.alias(OWN + "positive")
    )
    bins = add_up_rows(rows, [OWN + "bin"], ["positive"], own("value")).sort(OWN + "bin", nulls_last=True)
    n, positives = whole_numbers(bins[OWN + "n"]), whole_numbers(bins[OWN + "positive"])
    mixed = bins[OWN + "lowest"].to_numpy() < bins[OWN + "highest"].to_numpy()
    return RankedScores(positives, n - positives, np.asarray(mixed))


def _drop_absent(rows: Any, name: str, column: CodedColumn) -> Any:
    """Drop the rows whose value of a column occurs only in excluded cells."""
    import narwhals as nw

    assert column.counts is not None
    counts = np.bincount(column.codes, weights=column.counts, minlength=len(column.values))
    absent = [value for value, count in zip(column.values, counts.tolist(), strict=True) if not count]
    if any(is_missing(value) for value in absent):
        rows = rows.filter(~missing_cells(rows, name))
    values = [value for value in absent if not is_missing(value)]
    return rows.filter(~nw.col(name).is_in(values) | nw.col(name).is_null()) if values else rows


def missing_cells(rows: Any, name: str) -> Any:
    """Build the expression of the missing cells of a column: null, NaN, or blank."""
    import narwhals as nw

    kind, cell = rows.collect_schema()[name], nw.col(name)
    if kind.is_float():
        return cell.is_null() | cell.is_nan().fill_null(False)
    return cell.is_null() | (cell.str.strip_chars() == "").fill_null(False) if kind == nw.String else cell.is_null()


def collect(rows: Any) -> Any:
    """Read a lazy frame into memory; Polars streams the rows.

    Raises:
        DataError: The engine cannot read the rows.
    """
    try:
        return rows.collect(engine="streaming") if rows.implementation.is_polars() else rows.collect()
    except Exception as error:  # engines have no common error class
        lines = str(error).strip().splitlines() or [type(error).__name__]
        raise DataError(
            f"the rows cannot be counted: {lines[0]}",
            hint="use files with the same columns and column types, and convert the others",
        ) from None


def add_up_rows(rows: Any, by: Sequence[str], sums: Sequence[str], value: Any = None) -> Any:
    """Count rows by some columns, and aggregate others.

    Args:
        rows: Lazy narwhals frame.
        by: Columns to group by.
        sums: Added columns of whole numbers to sum, without prefix.
        value: Expression whose minimum and maximum are added as ``lowest`` and ``highest``.
    """
    import narwhals as nw

    ends = [] if value is None else [value.min().alias(OWN + "lowest"), value.max().alias(OWN + "highest")]
    cells = rows.group_by(*by).agg(nw.len().alias(OWN + "n"), *(own(name).sum() for name in sums), *ends)
    # Some engines sum whole numbers to decimals.
    return collect(cells.with_columns(*(own(name).cast(nw.Int64) for name in ("n", *sums))))


def whole_numbers(column: Any) -> Integers:
    """Convert a column in memory to an array of whole numbers."""
    return np.asarray(column.to_numpy(), dtype=np.int64)


def locate_value(frame: Any, column: str, value: Any) -> str:
    """Locate the first row with a value: ``in row 7 of 2026-03.parquet``; empty if the engine has no row numbers.

    Args:
        frame: Lazy frame that narwhals supports. Polars and DuckDB have row numbers.
        column: Column name.
        value: Value as the engine returned it; a missing value finds missing cells.
    """
    import narwhals as nw

    missing = is_missing(value)
    matches = missing_cells(nw.from_native(frame).lazy(), column) if missing else nw.col(column) == value
    return _locate(frame, matches)


def locate_score(frame: Any, score: str) -> str:
    """Locate the first row without a finite score; empty if the engine has no row numbers."""
    import narwhals as nw

    return _locate(frame, ~nw.col(score).cast(nw.Float64).is_finite().fill_null(False))


def _locate(frame: Any, condition: Any) -> str:
    import narwhals as nw

    lazy = nw.from_native(frame).lazy()
    try:
        if lazy.implementation.is_polars():
            numbered = nw.from_native(lazy.to_native().with_row_index(OWN + "row"))
            row = numbered.filter(condition).select(OWN + "row").head(1).collect().item()
            return f"in row {row + 1:,}"
        if lazy.implementation.is_duckdb():
            # DuckDB adds these two columns to every Parquet file.
            files = lazy.filter(condition).to_native().aggregate("filename, min(file_row_number) AS first")
            name, row = files.order("filename").limit(1).fetchall()[0]
            return f"in row {row + 1:,} of {name}"
    except Exception:  # the row number is optional
        return ""
    return ""

"""Rows as cells: people counted by what they share, inside the engine that holds the rows.

A table may be larger than memory: what is said of groups needs how many people there are of each kind, and sums of
their scores. One lazy ``group_by().agg()`` gives both, and any engine that narwhals speaks to runs it. Sums are of
whole numbers, so that every engine adds up the same, in whatever order it reads the rows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from evenhand.errors import DataError
from evenhand.schema.rows.coded import CodedColumn, is_missing
from evenhand.typing import Booleans, Floats, Integers

UNIT = 2.0**24
"""Scores are counted in this part of one, and what is left of them in this part of that: 48 binary digits."""

TENTHS = 10

BINS = 20
"""The area under the ROC curve is counted by score of so many people, 2 to this, or fewer; of more, in as many equal
parts of the range of scores."""

LOOKED_AT = 100_000
"""Rows that are looked at before all are counted."""

MOST_VALUES = 10_000
"""More different values than this among these rows, and a column has too many to count people by."""

OWN = "evenhand "
"""How columns begin that are added to those of the user."""


@dataclass(frozen=True)
class ScoreSums:
    """Sums over the scores of the people of each cell, each of shape (cells,).

    A score x from 0 to 1 is counted as ``q = floor(2^24 x)`` and ``r = floor(2^24 (2^24 x - q))``. Sums of scores that
    are not from 0 to 1 mean nothing; their range is theirs.

    Attributes:
        tenth: tenth of the score, 0 to 9.
        whole, rest: sums of q and of r.
        squares, squares_rest: sums of a and b, where ``q^2 = 2^24 a + b``.
        cross: sums of ``floor(q r / 2^24)``.
        lowest, highest: the least and the largest score, as they were given.
        unusable: how many people have no score, or one that is not a finite number; they are in no sum.
        low_is_good: whether low ones are good as they were given; the sums are of 1 minus these.
        area: scores of the two classes of true labels together, where these are known.
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
        """Return the sums of people in memory: those that each entry stands for have its score, shape (n,)."""
        inside = np.clip(scores, 0.0, 1.0)
        whole = np.floor(inside * UNIT)
        rest = np.floor((inside * UNIT - whole) * UNIT)
        squares = np.floor(whole * whole / UNIT)

        def added(part: Floats) -> Integers:
            return np.asarray(part.astype(np.int64) * counts)

        return cls(
            tenth=np.minimum(np.floor(inside * TENTHS), TENTHS - 1).astype(np.int64),
            whole=added(whole),
            rest=added(rest),
            squares=added(squares),
            squares_rest=added(whole * whole - squares * UNIT),
            cross=added(np.floor(whole * rest / UNIT)),
            lowest=scores,
            highest=scores,
            unusable=np.zeros(len(scores), dtype=np.int64),
        )

    def at(self, cells: Integers) -> ScoreSums:
        """Return those of some of the cells; no area, which is of all."""
        part: dict[str, Any] = {name: getattr(self, name)[cells] for name in self.COLUMNS}
        return replace(self, area=None, **part)

    def merge(self, order: Integers, first: Integers) -> ScoreSums:
        """Return the sums of runs of cells, which begin at such positions of an order; the area is that of all."""
        ends = {"lowest": np.fmin, "highest": np.fmax}
        added: dict[str, Any] = {
            name: ends.get(name, np.add).reduceat(getattr(self, name)[order], first) for name in self.COLUMNS
        }
        return replace(self, **added | {"tenth": self.tenth[order][first]})

    def moments(self, kind: Integers, people: Integers) -> tuple[Floats, Floats]:
        """Return the mean of the scores of each kind, and their sum of squared distances from it, (kinds,) each.

        With ``y = 2^24 x = q + r / 2^24`` the squared distances of n people are ``sum(y^2) - sum(y)^2 / n``, in whole
        numbers, which do not cancel; of ``y^2 = q^2 + 2 q r / 2^24 + ...`` less than 3 is left out.

        Args:
            kind: of each cell, shape (cells,).
            people: of each kind, shape (kinds,).
        """
        unit, n = int(UNIT), people.astype(object)

        def add_up(column: Integers) -> Any:
            total = np.zeros(len(people), dtype=np.int64)
            np.add.at(total, kind, column)
            return total.astype(object)  # whole numbers without a limit

        total = add_up(self.whole) * unit + add_up(self.rest)
        squares = add_up(self.squares) * unit + add_up(self.squares_rest) + 2 * add_up(self.cross)
        # What is left out may make a spread of none negative.
        spread = np.maximum(n * squares * unit**2 - total * total, 0) / (n * unit**4)
        return (total / (n * unit**2)).astype(np.float64), spread.astype(np.float64)

    @property
    def given_range(self) -> Floats:
        """The least and the largest score as they were given, shape (2,)."""
        return np.array([np.nanmin(self.lowest), np.nanmax(self.highest)])

    @property
    def turned(self) -> float | None:
        """What a score of which low ones are good is taken off from, so that high ones are; None where they are."""
        low, high = self.given_range.tolist()
        return None if not self.low_is_good else 1.0 if low >= 0 and high <= 1 else 0.0

    @property
    def range(self) -> Floats:
        """The least and the largest score of which high ones are good, shape (2,)."""
        return self.given_range if self.turned is None else self.turned - self.given_range[::-1]


@dataclass(frozen=True)
class RankedScores:
    """How many people of either true label have scores in each of many narrow bins, in ascending order.

    Attributes:
        positive, negative: whose true label is favourable, and whose is not, shape (bins,).
        mixed: bins that hold different scores, which one cannot tell apart there, shape (bins,).
    """

    positive: Integers
    negative: Integers
    mixed: Booleans


@dataclass(frozen=True)
class CountedRows:
    """People counted by the values that they share.

    Attributes:
        table: what narwhals wraps: one row per cell, the columns that people were counted by.
        counts: people in each, shape (cells,).
        scores: sums of their scores; None without scores.
        selected: whether their score selects them by a threshold, shape (cells,); None without a threshold.
    """

    table: Any
    counts: Integers
    scores: ScoreSums | None = None
    selected: Booleans | None = None


def is_lazy(frame: Any) -> bool:
    """Return whether rows stay where they are until something is asked of them: a lazy frame, or a database's."""
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
    """Count people by the values of some columns.

    Args:
        frame: a lazy frame that narwhals knows (Polars, DuckDB, Spark, Ibis, ...).
        columns: by what people are counted; each has few different values.
        score: column of a score of each, to be added up.
        low_is_good: whether low scores are good; then 1 minus the score is added up.
        threshold: count by whether the score reaches it, too; or is no higher, where low ones are good.
        location: how to call the data in messages.

    Raises:
        DataError: there are no rows, a column has too many different values, or scores are not numbers.
    """
    import narwhals as nw

    rows = nw.from_native(frame).lazy()
    _check_values(rows, columns, location)
    if score is None:
        found = add_up_rows(rows, columns, [], [])
        counts = whole_numbers(found[OWN + "n"])
        return CountedRows(found.select(list(columns)), _require_rows(counts, location))
    given, sums = nw.col(OWN + "given"), (*ScoreSums.ADDED, "unusable")
    rows, by = _split_scores(read_scores(rows, score), low_is_good), [*columns, OWN + "tenth"]
    if threshold is not None:
        reached = given <= threshold if low_is_good else given >= threshold
        rows, by = (
            rows.with_columns(reached.cast(nw.Int64).fill_null(0).alias(OWN + "selected")),
            [*by, OWN + "selected"],
        )
    ends = [given.min().alias(OWN + "lowest"), given.max().alias(OWN + "highest")]
    found = add_up_rows(rows, by, sums, ends)
    counts = _require_rows(whole_numbers(found[OWN + "n"]), location)
    lowest, highest = (np.asarray(found[OWN + end].to_numpy(), np.float64) for end in ("lowest", "highest"))
    whole: dict[str, Any] = {name: whole_numbers(found[OWN + name]) for name in ("tenth", *sums)}
    scores = ScoreSums(**whole, lowest=lowest, highest=highest, low_is_good=low_is_good)
    selected = None if threshold is None else whole_numbers(found[OWN + "selected"]) == 1
    return CountedRows(found.select(list(columns)), counts, scores, selected)


def _require_rows(counts: Integers, location: str) -> Integers:
    if not len(counts):
        raise DataError("there are no rows", location=location)
    return counts


def _check_values(rows: Any, columns: Sequence[str], location: str) -> None:
    """Refuse columns with many different values after a look at some rows, before everything is counted by them."""
    import narwhals as nw

    seen = collect(rows.select([nw.col(name) for name in dict.fromkeys(columns)]).head(LOOKED_AT))
    for name in columns:
        many = seen[name].n_unique()
        if many > MOST_VALUES:
            raise DataError(
                f"column {name!r} has {many:,} different values in the first {len(seen):,} rows, too many to count "
                "people by",
                location=location,
                hint="cut it into ranges first, leave it out, or read a sample of the rows into memory",
            )


def read_scores(rows: Any, score: str) -> Any:
    """Return the rows with a score as it is given, NULL where it is not a finite number.

    Raises:
        DataError: the column does not hold numbers.
    """
    import narwhals as nw

    kind = rows.collect_schema()[score]
    if not (kind.is_numeric() or kind == nw.Boolean):
        raise DataError(
            f"expected numbers in the column of scores, {score!r}", hint="write them as numbers, not as words"
        )
    number = rows.with_columns(nw.col(score).cast(nw.Float64).alias(OWN + "number"))
    usable = nw.col(OWN + "number").is_finite()
    return number.with_columns(nw.when(usable).then(nw.col(OWN + "number")).alias(OWN + "given"))


def _split_scores(rows: Any, low_is_good: bool) -> Any:
    """Return the rows with the whole numbers that a score is added up as, see ``ScoreSums``; 0 where there is none."""
    import narwhals as nw

    def own(name: str) -> Any:
        return nw.col(OWN + name)

    inside = (1.0 - own("given") if low_is_good else own("given")).fill_null(0.0).clip(0.0, 1.0)
    rows = rows.with_columns(
        (inside * UNIT).alias(OWN + "scaled"),
        # Floor before a cast: some engines round.
        (inside * TENTHS).floor().clip(upper_bound=TENTHS - 1.0).cast(nw.Int64).alias(OWN + "tenth"),
        own("given").is_null().cast(nw.Int64).alias(OWN + "unusable"),
    )
    rows = rows.with_columns(own("scaled").floor().alias(OWN + "q"))
    # Below 2^53 doubles are exact, and dividing by a power of two is: so is every product here.
    rows = rows.with_columns(
        ((own("scaled") - own("q")) * UNIT).floor().cast(nw.Int64).alias(OWN + "rest"),
        (own("q") * own("q") / UNIT).floor().alias(OWN + "a"),
    )
    return rows.with_columns(
        (own("q") * ((own("scaled") - own("q")) * UNIT).floor() / UNIT).floor().cast(nw.Int64).alias(OWN + "cross"),
        own("q").cast(nw.Int64).alias(OWN + "whole"),
        own("a").cast(nw.Int64).alias(OWN + "squares"),
        (own("q") * own("q") - own("a") * UNIT).cast(nw.Int64).alias(OWN + "squares_rest"),
    )


def rank_scores(
    frame: Any, score: str, label: str, kept: Mapping[str, CodedColumn], favourable: Sequence[Any], sums: ScoreSums
) -> RankedScores:
    """Count people of either true label by bins of their score.

    Args:
        frame: a lazy frame that narwhals knows.
        score, label: columns of the scores and the true labels.
        kept: column -> its values in all cells, where those of cells that are left out count no one (``counts`` 0).
        favourable: the values of the labels that are favourable.
        sums: of the same scores, for their range.
    """
    import narwhals as nw

    rows = nw.from_native(frame).lazy()
    for name, column in kept.items():
        rows = _without(rows, name, column)
    low, high = sums.range.tolist()
    start, width = (0.0, 1.0) if low >= 0 and high <= 1 else (low, high - low)
    scale = 2.0 ** (BINS - math.ceil(math.log2(width))) if width > 0 else 1.0
    given = nw.col(OWN + "given") if sums.turned is None else sums.turned - nw.col(OWN + "given")
    counts = kept[label].counts
    assert counts is not None
    # Of few people each score is a bin: 0 is added, so that -0 is not another one.
    place = given + 0.0 if counts.sum() <= 2**BINS else ((given - start) * scale).floor().cast(nw.Int64)
    rows = read_scores(rows, score).with_columns(
        place.alias(OWN + "bin"),
        given.alias(OWN + "value"),
        nw.col(label).is_in(list(favourable)).cast(nw.Int64).alias(OWN + "positive"),
    )
    value = nw.col(OWN + "value")
    ends = [value.min().alias(OWN + "lowest"), value.max().alias(OWN + "highest")]
    found = add_up_rows(rows, [OWN + "bin"], ["positive"], ends)
    order = np.argsort(found[OWN + "bin"].to_numpy())
    n, positive = whole_numbers(found[OWN + "n"])[order], whole_numbers(found[OWN + "positive"])[order]
    differ = (found[OWN + "lowest"].to_numpy() < found[OWN + "highest"].to_numpy())[order]
    return RankedScores(positive, n - positive, np.asarray(differ))


def _without(rows: Any, name: str, column: CodedColumn) -> Any:
    """Return the rows without those whose value in a column no one who is kept has."""
    import narwhals as nw

    assert column.counts is not None
    people = np.bincount(column.codes, weights=column.counts, minlength=len(column.values))
    absent = [value for value, many in zip(column.values, people.tolist(), strict=True) if not many]
    if any(is_missing(value) for value in absent):
        kind = rows.collect_schema()[name]
        rows = rows.filter(~nw.col(name).is_null())
        rows = rows.filter(~nw.col(name).is_nan()) if kind.is_float() else rows
    listed = [value for value in absent if not is_missing(value)]
    return rows.filter(~nw.col(name).is_in(listed) | nw.col(name).is_null()) if listed else rows


def collect(rows: Any) -> Any:
    """Return a lazy frame's rows as a table in memory; Polars reads them piece by piece.

    Raises:
        DataError: the engine cannot read them.
    """
    try:
        return rows.collect(engine="streaming") if rows.implementation.is_polars() else rows.collect()
    except Exception as error:  # every engine has errors of its own
        words = str(error).strip().splitlines() or [type(error).__name__]
        raise DataError(
            f"the rows cannot be counted: {words[0]}",
            hint="all files must have the same columns of the same types; write those that differ again",
        ) from None


def add_up_rows(rows: Any, by: Sequence[str], sums: Sequence[str], ends: Sequence[Any]) -> Any:
    """Return how many rows there are of each kind, sums of whole numbers of our own, and other aggregates."""
    import narwhals as nw

    own = [OWN + name for name in sums]
    added = rows.group_by(*by).agg(nw.len().alias(OWN + "n"), *(nw.col(name).sum() for name in own), *ends)
    # Sums of whole numbers are decimals in some engines.
    return collect(added.with_columns(*(nw.col(name).cast(nw.Int64) for name in (OWN + "n", *own))))


def whole_numbers(column: Any) -> Integers:
    """Return a column of whole numbers of a table in memory as an array."""
    return np.asarray(column.to_numpy(), dtype=np.int64)

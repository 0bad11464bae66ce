"""Scores by rank, inside the engine that holds the rows: the lowest but so many, found by counting, never by sorting.

The range of the scores is cut into equal parts and people are counted by part; the part that holds a rank is cut again,
until it holds so few people that they can be counted by score. What is found is a score that somebody has, to the last
bit, in whatever order an engine reads the rows, and no more than ``PARTS`` counts are in memory at any time.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from evenhand.schema.rows.cells import OWN, CountedRows, add_up_rows, collect, count_rows, read_scores, whole_numbers
from evenhand.typing import Booleans

PARTS = 2**16
"""People are counted by score in so many parts of a range, and by score itself where there are no more people."""


class ScoreRange(NamedTuple):
    """How many rows have a score, and the least and the largest of them.

    Attributes:
        scored: rows with a finite number.
        infinite: rows with a number that is not finite; a missing value is none.
        lowest, highest: of the scores; NaN without any.
    """

    scored: int
    infinite: int
    lowest: float
    highest: float


class Scale(NamedTuple):
    """How scores become numbers from 0 to 1, which can be added up as whole numbers: ``(score - low) / width``.

    The width is a power of 2, so that it does not matter whether an engine divides by it or multiplies.
    """

    low: float
    width: float

    @classmethod
    def of(cls, low: float, high: float) -> Scale:
        """Return the scale of scores between two."""
        return cls(low, math.ldexp(1.0, math.frexp(high - low)[1]))

    def apply(self, score: Any) -> Any:
        """Return the number of a score; of arrays and of expressions too, to the same bits."""
        return (score - self.low) / self.width


class ScoredCells(NamedTuple):
    """People counted by what they share, and by how their scores compare with some scores.

    Attributes:
        rows: the cells, with the sums of the scores by a scale where one was given.
        scored: whether the people of a cell have a score, shape (cells,).
        reached: whether it is as high as each of the scores, or higher, shape (scores, cells).
    """

    rows: CountedRows
    scored: Booleans
    reached: Booleans


def measure_range(frame: Any, score: str) -> ScoreRange:
    """Return how many rows of a lazy frame have a score, and the range of the scores.

    Raises:
        DataError: the column does not hold numbers.
    """
    import narwhals as nw

    given, number = nw.col(OWN + "given"), nw.col(OWN + "number")
    infinite = (~number.is_finite() & ~number.is_nan()).cast(nw.Int64).fill_null(0)
    found = collect(
        read_scores(nw.from_native(frame).lazy(), score).select(
            (~given.is_null()).cast(nw.Int64).sum().alias("scored"),
            infinite.sum().alias("infinite"),
            given.min().alias("lowest"),
            given.max().alias("highest"),
        )
    )
    scored, infinite, lowest, highest = found.row(0)
    if not scored:
        return ScoreRange(0, int(infinite or 0), math.nan, math.nan)
    return ScoreRange(int(scored), int(infinite), float(lowest), float(highest))


def find_ranked(frame: Any, score: str, ranks: Sequence[int], span: ScoreRange) -> tuple[float, ...]:
    """Return the scores of some ranks, 0 for the lowest, ties counted one by one.

    Args:
        frame: a lazy frame that narwhals knows.
        score: column of the scores.
        ranks: which are wanted, each below ``span.scored``.
        span: of the same scores.
    """
    import narwhals as nw

    rows = read_scores(nw.from_native(frame).lazy(), score)
    found = dict(_search(rows, sorted(set(ranks)), 0, span.scored, span.lowest, span.highest))
    return tuple(found[rank] for rank in ranks)


def _search(
    rows: Any, ranks: list[int], below: int, people: int, low: float, high: float
) -> Iterator[tuple[int, float]]:
    """Yield the score of each rank; ``people`` have scores from ``low`` to ``high``, and ``below`` lower ones."""
    import narwhals as nw

    value = nw.col(OWN + "given")
    # Halves, so that no difference overflows. Every step rises with the score, and more is not needed: the ends of a
    # part are those of the scores in it.
    width = high * 0.5 - low * 0.5
    scale = PARTS / width if width > 0 else math.inf
    place = value + 0.0
    if people > PARTS and math.isfinite(scale):
        place = ((value * 0.5 - low * 0.5) * scale).floor().cast(nw.Int64)
    within = rows.filter((value >= low) & (value <= high)).with_columns(place.alias(OWN + "part"))
    ends = [value.min().alias(OWN + "lowest"), value.max().alias(OWN + "highest")]
    found = add_up_rows(within, [OWN + "part"], [], ends)
    order = np.argsort(found[OWN + "part"].to_numpy())
    counts = whole_numbers(found[OWN + "n"])[order]
    lowest, highest = (found[OWN + end].to_numpy()[order] for end in ("lowest", "highest"))
    after = below + np.cumsum(counts)
    parts = np.searchsorted(after, ranks, side="right")
    for part in np.unique(parts).tolist():
        those = [rank for rank, at in zip(ranks, parts.tolist(), strict=True) if at == part]
        if lowest[part] == highest[part]:
            yield from ((rank, float(lowest[part]) + 0.0) for rank in those)
        else:
            many, start = int(counts[part]), int(after[part] - counts[part])
            yield from _search(rows, those, start, many, float(lowest[part]), float(highest[part]))


def count_scored(
    frame: Any, columns: Sequence[str], score: str, cuts: Sequence[float], scale: Scale | None, location: str = "data"
) -> ScoredCells:
    """Count people by the values of some columns, by whether they have a score, and by which scores it reaches.

    Args:
        frame: a lazy frame that narwhals knows.
        columns: by what people are counted; each has few different values.
        score: column of the scores.
        cuts: the scores that theirs are compared with.
        scale: by which scores are added up; None: they are not.
        location: how to call the data in messages.

    Raises:
        DataError: a column has too many different values.
    """
    import narwhals as nw

    given = nw.col(OWN + "given")
    flags = {OWN + "scored": ~given.is_null()} | {
        f"{OWN}reached {i}": (given >= cut).fill_null(False) for i, cut in enumerate(cuts)
    }
    added = {name: flag.cast(nw.Int64) for name, flag in flags.items()}
    added |= {} if scale is None else {OWN + "score": scale.apply(given)}
    rows = read_scores(nw.from_native(frame).lazy(), score)
    rows = rows.with_columns(*(value.alias(name) for name, value in added.items()))
    by = dict.fromkeys(columns)
    counted = count_rows(
        rows.select([*by, *added]), [*by, *flags], None if scale is None else OWN + "score", location=location
    )
    scored, *reached = (whole_numbers(counted.table[name]) == 1 for name in flags)
    return ScoredCells(counted, scored, np.array(reached).reshape(len(cuts), len(scored)))

"""Order statistics of scores, computed by counting inside the engine that holds the rows.

The range of the scores is divided into equal parts, and rows are counted by part. The part that contains a rank is
divided again until it has few enough rows to count them by score. The result is an exact score of the data in any order
of the rows, and at most ``PARTS`` counts are in memory.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from evenhand.core.typing import Booleans
from evenhand.schema.counted import (
    OWN,
    CountedRows,
    add_up_rows,
    collect,
    count_rows,
    own,
    read_scores,
    whole_numbers,
)

PARTS = 2**16
"""Number of bins of a range of scores. Up to this many rows are counted by their exact score."""


class ScoreRange(NamedTuple):
    """Number of scores and their range.

    Attributes:
        scored: Number of rows with a finite score.
        infinite: Number of rows with an infinite score.
        lowest, highest: Minimum and maximum of the finite scores; NaN without any.
    """

    scored: int
    infinite: int
    lowest: float
    highest: float


class Scale(NamedTuple):
    """Linear map of scores to 0 to 1, ``(score - low) / width``, so that they can be summed as whole numbers.

    The width is a power of 2, so engines that multiply by its inverse give the same result.
    """

    low: float
    width: float

    @classmethod
    def of(cls, low: float, high: float) -> Scale:
        """Build the scale of a range of scores."""
        return cls(low, math.ldexp(1.0, math.frexp(high - low)[1]))

    def apply(self, score: Any) -> Any:
        """Map a score, an array or an expression."""
        return (score - self.low) / self.width


class ScoredCells(NamedTuple):
    """Rows counted by the values of some columns and by the comparison of their score with cut-offs.

    Attributes:
        rows: Cells, with score sums if a scale was passed.
        scored: Whether the rows of a cell have a score, shape (cells,).
        reached: Whether their scores reach each cut-off, shape (cuts, cells).
    """

    rows: CountedRows
    scored: Booleans
    reached: Booleans


def measure_range(frame: Any, score: str) -> ScoreRange:
    """Count the scores of a lazy frame, and compute their range.

    Raises:
        DataError: The column does not hold numbers.
    """
    import narwhals as nw

    value, number = own("given"), own("number")
    statistics = read_scores(nw.from_native(frame).lazy(), score).select(
        (~value.is_null()).cast(nw.Int64).sum().alias("scored"),
        (~number.is_finite() & ~number.is_nan()).cast(nw.Int64).fill_null(0).sum().alias("infinite"),
        value.min().alias("lowest"),
        value.max().alias("highest"),
    )
    scored, infinite, lowest, highest = collect(statistics).row(0)
    if not scored:
        return ScoreRange(0, int(infinite or 0), math.nan, math.nan)
    return ScoreRange(int(scored), int(infinite), float(lowest), float(highest))


def find_ranked(frame: Any, score: str, ranks: Sequence[int], span: ScoreRange) -> tuple[float, ...]:
    """Find the scores of some ranks; rank 0 is the lowest score, and equal scores have consecutive ranks.

    Args:
        frame: Lazy frame that narwhals supports.
        score: Column of the scores.
        ranks: Ranks, each below ``span.scored``.
        span: Range of the scores.
    """
    import narwhals as nw

    rows = read_scores(nw.from_native(frame).lazy(), score)
    scores = dict(_search(rows, sorted(set(ranks)), 0, span.scored, span.lowest, span.highest))
    return tuple(scores[rank] for rank in ranks)


def _search(
    rows: Any, ranks: list[int], below: int, people: int, low: float, high: float
) -> Iterator[tuple[int, float]]:
    """Yield each rank and its score; ``people`` rows score from ``low`` to ``high``, and ``below`` rows score less."""
    import narwhals as nw

    value = own("given")
    # Halves prevent overflow. Rounding is harmless, because every step is monotonic and the bounds of a part are those
    # of its scores.
    width = high * 0.5 - low * 0.5
    scale = PARTS / width if width > 0 else math.inf
    part_number = value + 0.0
    if people > PARTS and math.isfinite(scale):
        part_number = ((value * 0.5 - low * 0.5) * scale).floor().cast(nw.Int64)
    inside = rows.filter((value >= low) & (value <= high)).with_columns(part_number.alias(OWN + "part"))
    parts = add_up_rows(inside, [OWN + "part"], [], value).sort(OWN + "part")
    counts = whole_numbers(parts[OWN + "n"])
    lowest, highest = (parts[OWN + end].to_numpy() for end in ("lowest", "highest"))
    ends = below + np.cumsum(counts)
    positions = np.searchsorted(ends, ranks, side="right").tolist()
    for part in sorted(set(positions)):
        members = [rank for rank, position in zip(ranks, positions, strict=True) if position == part]
        low, high, count = float(lowest[part]), float(highest[part]), int(counts[part])
        if low == high:
            yield from ((rank, low + 0.0) for rank in members)
        else:
            yield from _search(rows, members, int(ends[part]) - count, count, low, high)


def count_scored(
    frame: Any, columns: Sequence[str], score: str, cuts: Sequence[float], scale: Scale | None, location: str = "data"
) -> ScoredCells:
    """Count rows by the values of some columns, and by the comparison of their scores with cut-offs.

    Args:
        frame: Lazy frame that narwhals supports.
        columns: Columns with few distinct values.
        score: Column of the scores.
        cuts: Cut-offs.
        scale: Scale of the score sums. None disables the sums.
        location: Name of the data in messages.

    Raises:
        DataError: A column has too many distinct values.
    """
    import narwhals as nw

    value = own("given")
    flags = {OWN + "scored": ~value.is_null()}
    flags |= {f"{OWN}reached {i}": (value >= cut).fill_null(False) for i, cut in enumerate(cuts)}
    added = {name: flag.cast(nw.Int64) for name, flag in flags.items()}
    added |= {} if scale is None else {OWN + "score": scale.apply(value)}
    rows = read_scores(nw.from_native(frame).lazy(), score)
    rows = rows.with_columns(*(column.alias(name) for name, column in added.items()))
    by = dict.fromkeys(columns)
    counted = count_rows(
        rows.select([*by, *added]), [*by, *flags], None if scale is None else OWN + "score", location=location
    )
    scored, *reached = (whole_numbers(counted.frame[name]) == 1 for name in flags)
    return ScoredCells(counted, scored, np.array(reached).reshape(len(cuts), len(scored)))

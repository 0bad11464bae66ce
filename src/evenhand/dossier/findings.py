"""Declared limits beside the tables, and the intervals of rates and ratios."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Literal, TypeAlias

from evenhand.core.result_part import ResultPart
from evenhand.dossier.config import DossierConfig
from evenhand.dossier.tables import Category, ImpactRatios, RateComparison, RateComparisons
from evenhand.stats.proportion import (
    DIFFERENCE_METHOD,
    RATIO_METHOD,
    clopper_pearson,
    difference_interval,
    ratio_interval,
)
from evenhand.stats.quantity import Observed, Quantity, Unknown

CONFIDENCE = 0.95

GIVEN = "; the reference taken as given"

Finding: TypeAlias = Literal["within", "beyond", "unknown"]


class RowInterval(ResultPart):
    """The intervals of one category's rate, and of its ratio to the highest rate; None where there is no such number.

    The ends are those of one interval each, not adjusted for their number.
    """

    category: Category
    rate_low: float | None
    rate_high: float | None
    ratio_low: float | None
    ratio_high: float | None


class TableIntervals(ResultPart):
    """The intervals of a table of rates and impact ratios, for people like these sampled independently."""

    of: str
    by: tuple[str, ...]
    confidence: float
    rate_method: str
    ratio_method: str
    rows: tuple[RowInterval, ...]


class ThresholdFinding(ResultPart):
    """A ratio or a difference of the tables beside the threshold that was declared for it.

    Attributes:
        of, by, category, reference: which number of which table.
        measure: ``ratio`` to the reference, or ``difference``: the reference's rate minus this one.
        quantity: the number with its interval; threshold: the limit.
        finding: whether it is within the threshold; straddles: whether its interval reaches both sides.
    """

    of: str
    by: tuple[str, ...]
    category: Category
    reference: Category
    measure: Literal["ratio", "difference"]
    quantity: Quantity
    threshold: float
    finding: Finding
    straddles: bool | None


def bound_rates(of: str, table: ImpactRatios) -> TableIntervals:
    """Return the intervals of a table's rates (exact) and impact ratios, each to the highest rate as if declared."""
    known = [row for row in table.rows if row.status == "in"]
    best = max(known, key=lambda row: (Fraction(row.k, row.n), row.n), default=None)
    low, high = clopper_pearson([row.k for row in table.rows], [row.n for row in table.rows], CONFIDENCE)
    rows = []
    for row, below, above in zip(table.rows, low.tolist(), high.tolist(), strict=True):
        ratio: tuple[float | None, float | None] = (None, None)
        if best is not None and row.status == "in" and row.ratio != 1:
            ends = ratio_interval(row.k, row.n, best.k, best.n, CONFIDENCE)
            ratio = (float(ends[0]), float(ends[1]))
        rows.append(
            RowInterval(
                category=row.category,
                rate_low=below if row.n else None,
                rate_high=above if row.n else None,
                ratio_low=ratio[0],
                ratio_high=ratio[1],
            )
        )
    return TableIntervals(
        of=of,
        by=table.by,
        confidence=CONFIDENCE,
        rate_method="Clopper and Pearson",
        ratio_method=RATIO_METHOD + GIVEN,
        rows=tuple(rows),
    )


def find_beyond_thresholds(
    of: str, tables: Sequence[RateComparisons], config: DossierConfig
) -> Iterator[ThresholdFinding]:
    """Yield every ratio and difference of the tables beside the thresholds that are declared."""
    limits: tuple[tuple[Literal["ratio", "difference"], float | None], ...] = (
        ("ratio", config.thresholds.ratio),
        ("difference", config.thresholds.difference),
    )
    for table in tables:
        base = next((row for row in table.rows if row.category == table.reference), None)
        if base is None or table.reference is None:
            continue
        for row in table.rows:
            if row.category == table.reference or not row.n:
                continue
            for measure, threshold in limits:
                if threshold is not None:
                    quantity = _measure_row(measure, row, base)
                    finding, straddles = _judge(quantity, measure, threshold)
                    yield ThresholdFinding(
                        of=of,
                        by=table.by,
                        category=row.category,
                        reference=table.reference,
                        measure=measure,
                        quantity=quantity,
                        threshold=threshold,
                        finding=finding,
                        straddles=straddles,
                    )


def _measure_row(measure: Literal["ratio", "difference"], row: RateComparison, base: RateComparison) -> Quantity:
    """Measure a category against the reference, with an interval."""
    if measure == "ratio":
        if row.ratio is None:
            return Unknown(reason="the reference's rate is 0")
        value, (low, high), method = row.ratio, ratio_interval(row.k, row.n, base.k, base.n, CONFIDENCE), RATIO_METHOD
    else:
        value = base.k / base.n - row.k / row.n if row.difference is None else row.difference
        low, high = difference_interval(base.k, base.n, row.k, row.n, CONFIDENCE)
        method = DIFFERENCE_METHOD
    return Observed(
        value=value, n=row.n + base.n, low=float(low), high=float(high), confidence=CONFIDENCE, method=method + GIVEN
    )


def _judge(
    quantity: Quantity, measure: Literal["ratio", "difference"], threshold: float
) -> tuple[Finding, bool | None]:
    """Decide on which side of a threshold a number is, and whether its interval reaches both sides."""
    if not isinstance(quantity, Observed):
        return "unknown", None
    value = quantity.value
    beyond = value < threshold if measure == "ratio" else value > threshold
    # Equal but for the rounding of binary fractions is equal: 0.8 of counts is at a threshold of 0.8.
    beyond = beyond and not math.isclose(value, threshold, rel_tol=1e-12)
    return ("beyond" if beyond else "within"), quantity.low < threshold < quantity.high

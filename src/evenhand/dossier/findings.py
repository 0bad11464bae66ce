"""Declared thresholds, and intervals of rates and ratios."""

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

GIVEN = "; the reference is treated as fixed"

Finding: TypeAlias = Literal["within", "beyond", "unknown"]


class RowInterval(ResultPart):
    """Intervals of the rate of a category and of its ratio to the highest rate. None if there is no number.

    The intervals are not adjusted for multiple comparisons.
    """

    category: Category
    rate_low: float | None
    rate_high: float | None
    ratio_low: float | None
    ratio_high: float | None


class TableIntervals(ResultPart):
    """Intervals of a table of rates and impact ratios, for independently sampled people."""

    of: str
    by: tuple[str, ...]
    confidence: float
    rate_method: str
    ratio_method: str
    rows: tuple[RowInterval, ...]


class ThresholdFinding(ResultPart):
    """Comparison of a ratio or a difference with its declared threshold.

    Attributes:
        of: Outcome or class.
        by: Attributes of the table.
        category, reference: Compared categories.
        measure: ``ratio`` to the rate of the reference, or ``difference`` from it (reference minus category).
        quantity: Number with its interval.
        threshold: Declared threshold.
        finding: Whether the number is within the threshold.
        straddles: Whether the interval contains the threshold.
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
    """Compute exact intervals of the rates, and intervals of the impact ratios to the highest rate, which is fixed."""
    included = [row for row in table.rows if row.status == "in"]
    best = max(included, key=lambda row: (Fraction(row.k, row.n), row.n), default=None)
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


def check_thresholds(of: str, tables: Sequence[RateComparisons], config: DossierConfig) -> Iterator[ThresholdFinding]:
    """Yield the comparison of each ratio and difference with its declared threshold."""
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
    """Compute the ratio or the difference of a category and the reference, with its interval."""
    if measure == "ratio":
        if row.ratio is None:
            return Unknown(reason="the rate of the reference is 0")
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
    """Check whether a number is within a threshold, and whether its interval contains the threshold."""
    if not isinstance(quantity, Observed):
        return "unknown", None
    value = quantity.value
    beyond = value < threshold if measure == "ratio" else value > threshold
    # Differences due to rounding are ignored: a ratio of counts of 0.8 is within a threshold of 0.8.
    beyond = beyond and not math.isclose(value, threshold, rel_tol=1e-12)
    return ("beyond" if beyond else "within"), quantity.low < threshold < quantity.high

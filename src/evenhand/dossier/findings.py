"""What declared limits, scenarios and populations say beside the tables, and the intervals of rates and ratios."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Literal, TypeAlias

from evenhand.core import ResultPart
from evenhand.dossier.config import DossierConfig, ScenarioFields
from evenhand.dossier.evidence import EvidenceNumber, ResultFile
from evenhand.dossier.tables import Category, ImpactRatios, RateComparison, RateComparisons
from evenhand.errors import DossierError
from evenhand.stats import (
    DIFFERENCE_METHOD,
    RATIO_METHOD,
    Observed,
    Quantity,
    TwoRates,
    Unknown,
    clopper_pearson,
    difference_interval,
    observed_rate,
    quantity_value,
    ratio_interval,
)
from evenhand.text import list_some, suggest_name

CONFIDENCE = 0.95

GIVEN = "; the reference taken as given"

TABLE_MEASURES = ("rate", "ratio", "difference")
"""Measures of scenarios that are read from the tables; every other is a number of a result."""

AT_LEAST = ("rate", "ratio", "selection_rate", "true_positive_rate", "accuracy", "precision", "certified")
"""Measures that are beyond a threshold where they are below it; every other is so where it is above."""

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


class ScenarioFinding(ResultPart):
    """A scenario beside what was measured of it.

    Attributes:
        number: of the scenario, from 1; of: the outcome or the class, or the result that the number is from.
        quantity, threshold, finding, straddles: as for ``ThresholdFinding``; threshold None: to be filled.
    """

    number: int
    of: str
    quantity: Quantity
    threshold: float | None
    finding: Finding
    straddles: bool | None


class Representation(ResultPart):
    """A category's share of the data beside its share of the people whom the system is for.

    Attributes:
        attribute, category, n: whose share; people with an outcome and a known category.
        share: of the people counted by this attribute, with its interval; reference: as declared.
    """

    attribute: str
    category: str
    n: int
    share: Quantity
    reference: float


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
    for table in tables:
        for row in table.rows:
            if table.reference is None or row.category == table.reference or not row.n:
                continue
            for measure, threshold in (
                ("ratio", config.thresholds.ratio),
                ("difference", config.thresholds.difference),
            ):
                if threshold is not None:
                    quantity = _measure_row(measure, row, table)
                    finding, straddles = _judge(quantity, measure, threshold)
                    yield ThresholdFinding(
                        of=of,
                        by=table.by,
                        category=row.category,
                        reference=table.reference,
                        measure="ratio" if measure == "ratio" else "difference",
                        quantity=quantity,
                        threshold=threshold,
                        finding=finding,
                        straddles=straddles,
                    )


def _measure_row(measure: str, row: RateComparison, table: RateComparisons) -> Quantity:
    """Return a number of a category of a table, with its interval."""
    if not row.n:
        return Unknown(reason="this category has no people")
    if measure == "rate":
        return observed_rate(row.k, row.n, CONFIDENCE)
    base = next((one for one in table.rows if one.category == table.reference), None)
    if base is None or row.category == base.category:
        return Unknown(reason="this category is the reference" if base is not None else "there is no reference")
    rates = TwoRates(row.k, row.n, base.k, base.n)
    if measure == "ratio":
        if row.ratio is None:
            return Unknown(reason="the reference's rate is 0")
        value, (low, high), method = row.ratio, ratio_interval(*rates, CONFIDENCE), RATIO_METHOD + GIVEN
    else:
        value = base.k / base.n - row.k / row.n if row.difference is None else row.difference
        low, high = difference_interval(base.k, base.n, row.k, row.n, CONFIDENCE)
        method = DIFFERENCE_METHOD + GIVEN
    return Observed(
        value=value, n=row.n + base.n, low=float(low), high=float(high), confidence=CONFIDENCE, method=method
    )


def _judge(quantity: Quantity, measure: str, threshold: float | None) -> tuple[Finding, bool | None]:
    """Return on which side of a threshold a number is, and whether its interval reaches both sides."""
    value = quantity_value(quantity)
    if value is None or threshold is None:
        return "unknown", None
    low = getattr(quantity, "low", value)
    high = getattr(quantity, "high", value)
    beyond = value < threshold if measure in AT_LEAST else value > threshold
    # Equal but for the rounding of binary fractions is equal: 0.8 of counts is at a threshold of 0.8.
    beyond = beyond and not math.isclose(value, threshold, rel_tol=1e-12)
    return ("beyond" if beyond else "within"), low < threshold < high


def assess_scenarios(
    tables: Sequence[tuple[str, Sequence[RateComparisons]]], evidence: Sequence[ResultFile], config: DossierConfig
) -> Iterator[ScenarioFinding]:
    """Yield each scenario beside what was measured of it, once per outcome, class, or result that has the number.

    Args:
        tables: of each outcome or class, its name and its tables.
        evidence: results to look the other numbers up in.
        config: has the scenarios.

    Raises:
        DossierError: no-such-category, no-such-measure.
    """
    for number, scenario in enumerate(config.scenarios, start=1):
        declared = {"ratio": config.thresholds.ratio, "difference": config.thresholds.difference}
        threshold = scenario.threshold if scenario.threshold is not None else declared.get(scenario.measure)
        for of, quantity in _measure_scenario(number, scenario, tables, evidence):
            finding, straddles = _judge(quantity, scenario.measure, threshold)
            yield ScenarioFinding(
                number=number, of=of, quantity=quantity, threshold=threshold, finding=finding, straddles=straddles
            )


def _measure_scenario(
    number: int,
    scenario: ScenarioFields,
    tables: Sequence[tuple[str, Sequence[RateComparisons]]],
    evidence: Sequence[ResultFile],
) -> Iterator[tuple[str, Quantity]]:
    if scenario.measure in TABLE_MEASURES:
        for of, several in tables:
            table, row = _find_row(number, scenario, several)
            yield of, _measure_row(scenario.measure, row, table)
        return
    names = {one.name for file in evidence for one in file.numbers} | {"accuracy"}
    if evidence and scenario.measure not in names:
        known = [*TABLE_MEASURES, *sorted(names)]
        raise DossierError(
            f"no result has a number called {scenario.measure!r}",
            code="no-such-measure",
            location=f"scenarios[{number - 1}].measure",
            hint=f"{suggest_name(scenario.measure, known)}known here: {', '.join(known)}",
        )
    found = [
        (file.name, one)
        for file in evidence
        for one in file.numbers
        if one.name == scenario.measure and _is_about(one, scenario)
    ]
    if not found:
        yield "no result", Unknown(reason="no result was given that measures this of this group")
    for of, one in found:
        yield f"{one.words}, {of}", one.quantity


def _is_about(number: EvidenceNumber, scenario: ScenarioFields) -> bool:
    """Return whether a number is of the scenario's group, or between the groups of its attributes."""
    if number.group:
        return number.group == scenario.group
    attributes = number.of.split(":")[0].split(" x ")
    return number.part != "subgroup" and sorted(attributes) == sorted(scenario.group)


def _find_row(
    number: int, scenario: ScenarioFields, tables: Sequence[RateComparisons]
) -> tuple[RateComparisons, RateComparison]:
    place = f"scenarios[{number - 1}].group"
    table = next((one for one in tables if set(one.by) == set(scenario.group)), None)
    if table is None:
        known = [", ".join(one.by) for one in tables]
        message = f"there is no table by {', '.join(scenario.group)}"
        raise DossierError(message, code="no-such-category", location=place, hint=f"tables: {'; '.join(known)}")
    category = tuple(scenario.group[name] for name in table.by)
    row = next((one for one in table.rows if one.category == category), None)
    if row is None:
        known = [" x ".join(one.category) for one in table.rows]
        message = f"there is no category {' x '.join(category)} by {' x '.join(table.by)}"
        hint = f"categories: {list_some(known)}"
        raise DossierError(message, code="no-such-category", location=place, hint=hint, category=list(category))
    return table, row


def compare_population(tables: Sequence[ImpactRatios], config: DossierConfig) -> Iterator[Representation]:
    """Yield the share of every category beside that of the people whom the system is for, where it is declared.

    Raises:
        DossierError: no-such-category.
    """
    singles = {table.by[0]: table for table in tables if len(table.by) == 1}
    for attribute, shares in config.population.shares.items():
        table = singles.get(attribute)
        rows = {row.category[0]: row for row in table.rows} if table is not None else {}
        for category, reference in shares.items():
            if table is None or category not in rows:
                place = f"population.shares.{attribute}"
                known = list_some(list(rows) or list(singles))
                message = f"the data has no category {category!r} of {attribute}"
                hint = f"{'categories' if rows else 'attributes'}: {known}"
                given = {"column": attribute, "category": category}
                raise DossierError(message, code="no-such-category", location=place, hint=hint, **given)
            row = rows[category]
            share = observed_rate(row.n, table.counted, CONFIDENCE)
            yield Representation(attribute=attribute, category=category, n=row.n, share=share, reference=reference)

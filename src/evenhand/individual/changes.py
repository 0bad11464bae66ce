"""Individual effects on a number, such as a premium.

The individual effect is the largest difference between the model's numbers for one person under any two values of the
protected attributes, with all other values unchanged (counterfactual fairness for a regression: Kusner et al., NIPS
2017; here without a causal model). If the schema has rules, people are compared with plausible counterparts. With a
tolerance t, the flip rate is the share of people whose number changes by more than t.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from evenhand.core.config import setting
from evenhand.core.document import Document
from evenhand.core.result import Result, ResultNumber
from evenhand.core.text import join_names
from evenhand.core.time_limit import check_time
from evenhand.core.typing import Floats, Progress, ignore_progress
from evenhand.individual.analysis import VariationConfig
from evenhand.individual.flips import FlipRate, Variants, attribute_sets, merge_by_unprotected, repeat_pairs
from evenhand.individual.noise import rate_of
from evenhand.individual.result import Profile, describe_pair
from evenhand.models.noise import can_vary
from evenhand.models.scorer import Regressor, ask_numbers
from evenhand.population.independent import Population
from evenhand.schema.people import People
from evenhand.schema.schema import Schema
from evenhand.stats.repetition import SAME_DIRECTION

if TYPE_CHECKING:
    import pandas as pd

QUANTILES = (0.1, 0.25, 0.5, 0.75, 0.9, 0.99)
"""Levels of the reported quantiles of the change."""

CHUNK = 65_536
"""Maximum number of individuals per query."""


class ChangeConfig(VariationConfig):
    """Settings of the individual effect on a number."""

    tolerance: float = setting(0.0, "changes of the number up to this size do not count as flips", ge=0)


class NumberChange(FlipRate):
    """Flip rate at the tolerance, and distribution of the individual effect.

    Attributes:
        mean: Mean change.
        largest: Largest change.
        quantiles: Quantile of the change, by its level in percent.
        means: Mean number over the people compared, by joint value of the protected attributes. Empty if some values
            are not possible for everyone.
    """

    mean: float
    largest: float
    quantiles: dict[str, float]
    means: dict[str, float]


class ChangeResult(Result):
    """Individual effects on a number by protected attribute and jointly, with the people most affected.

    Attributes:
        tolerance: Largest change that does not count as a flip.
        unit: Unit of the number, if the schema names it.
        changes: Effects of each protected attribute and of all jointly, over the data and the population.
        examples: People in the data with the largest changes. Their numbers are the scores of the two sides.
    """

    kind: Literal["changes"] = "changes"
    tolerance: float
    unit: str | None
    changes: tuple[NumberChange, ...]
    examples: tuple[Profile, ...]

    def _records_hidden(self) -> dict[str, Any]:
        return {"examples": ()}

    def numbers(self) -> Iterator[ResultNumber]:
        """Yield the flip rates at the tolerance, and the mean and largest changes."""
        for change in self.changes:
            prefix, by = "" if change.over == "data" else "population_", "_x_".join(change.protected)
            yield ResultNumber(f"{prefix}flip_rate", by, "", change.rate)
            yield ResultNumber(f"{prefix}mean_change", by, "", change.mean)
            yield ResultNumber(f"{prefix}largest_change", by, "", change.largest)

    def document(self) -> Document:
        """Build the document with the rates, the distribution of changes, and the people most affected."""
        return self._write_document("evenhand.individual.number_wording")

    def to_frame(self) -> pd.DataFrame:
        """Convert the result to a table with one row for each entry of ``changes``."""
        import pandas as pd

        return pd.DataFrame(
            [
                {"protected": join_names(change.protected), "over": change.over, "n": change.n, "mean": change.mean}
                | {f"quantile {level}": value for level, value in change.quantiles.items()}
                | {"largest": change.largest, "rate": getattr(change.rate, "value", None)}
                for change in self.changes
            ]
        )


def measure_changes(
    regressor: Regressor,
    people: People,
    population: Population,
    config: ChangeConfig | None = None,
    *,
    progress: Progress | None = None,
    **settings: Any,
) -> ChangeResult:
    """Measure the individual effects on a model's number for the people in the data and for a population.

    Args:
        regressor: The model.
        people: The people. Each is queried once per joint value of the protected attributes.
        population: Population that further individuals are drawn from.
        config: The settings, including ``protected``.
        progress: Called with a description of the current step and the completed fraction.
        settings: Fields of ``ChangeConfig`` that replace those of ``config``.

    Raises:
        OptionError: A protected attribute has one value, or there are too many joint values.
        BudgetError: The budget does not cover the queries.
    """
    started = time.perf_counter()
    config = ChangeConfig.of(config, settings)
    progress = progress or ignore_progress
    schema = people.schema.without_rules() if config.as_published else people.schema
    sampled = population.sample(config.samples, np.random.default_rng(config.seed))
    sets = attribute_sets(config.protected)
    for protected in sets:
        schema.assignments(protected)  # refuse invalid sets before the first query
    changes: list[NumberChange] = []
    examples: list[Profile] = []
    for step, protected in enumerate(sets):
        progress(f"changes with {' x '.join(protected)}", step / len(sets))
        change, profiles = _measure_one(regressor, schema, protected, people.individuals, config)
        sampled_change, _ = _measure_one(regressor, schema, protected, sampled, config, population.name)
        changes += [change, sampled_change]
        examples += profiles
    return ChangeResult(
        tolerance=config.tolerance,
        unit=schema.target.unit,
        changes=tuple(changes),
        examples=tuple(examples),
        seed=config.seed,
        seconds=time.perf_counter() - started,
    )


def _measure_one(
    regressor: Regressor,
    schema: Schema,
    protected: tuple[str, ...],
    individuals: Floats,
    config: ChangeConfig,
    population: str | None = None,
) -> tuple[NumberChange, list[Profile]]:
    """Measure the changes of the people in the data (population None) or of a population, with the largest of them.

    If the model's answers vary, both ends of each change are queried again, and changes that do not repeat are set to
    0. A change repeats if it has the same direction, and exceeds the tolerance if it did before. It is replaced by the
    mean of the new answers, which unlike a maximum is not biased towards large changes.
    """
    variants = Variants.of(schema, protected, individuals)
    counterparts, plausible = variants.counterparts, variants.plausible
    numbers = np.full(plausible.shape, np.nan)
    queries = np.argwhere(plausible)
    for at in range(0, len(queries), CHUNK):
        check_time()
        row, assignment = queries[at : at + CHUNK].T
        numbers[row, assignment] = ask_numbers(regressor, counterparts[row, assignment])
    compared = (plausible.sum(axis=1) > 1) & schema.obeys_rules(individuals)
    lowest = np.argmin(np.where(plausible, numbers, np.inf), axis=1)
    highest = np.argmax(np.where(plausible, numbers, -np.inf), axis=1)
    at_ends = np.arange(len(numbers))[:, None], np.stack([lowest, highest], axis=1)
    sides, ends = counterparts[at_ends], numbers[at_ends]
    changes = np.where(compared, ends[:, 1] - ends[:, 0], 0.0)
    repeats = None
    if can_vary(regressor):
        rows = np.flatnonzero(changes > 0)
        exceeded = np.where(changes[rows] > config.tolerance, config.tolerance, 0.0)
        confirmed, ends[rows], repeats = repeat_pairs(
            sides[rows],
            lambda people: ask_numbers(regressor, people)[:, None],
            lambda pairs, answers: np.asarray(answers[:, 1, 0] - answers[:, 0, 0] > exceeded[pairs]),
            cost=2,
            chance=SAME_DIRECTION,
            confidence=config.confidence,
        )
        changes[rows] = np.where(confirmed, ends[rows, 1] - ends[rows, 0], 0.0)
    n = int(compared.sum())
    flips = int((changes > config.tolerance).sum())
    known = changes[compared] if n else np.zeros(1)
    # Means of the first answers, if all assignments are possible for everyone.
    averages = numbers[compared].mean(axis=0) if n else np.full(plausible.shape[1], np.nan)
    means: dict[str, float] = {}
    if not np.isnan(averages).any():
        attributes = [schema[name] for name in protected]
        for entries, average in zip(schema.assignments(protected), averages.tolist(), strict=True):
            texts = (attribute.text(entry) for attribute, entry in zip(attributes, entries, strict=True))
            means[" and ".join(texts)] = average
    change = NumberChange(
        over="data" if population is None else "population",
        population=population or "the people in the data",
        protected=protected,
        rate=rate_of(flips, n, config.confidence, population),
        flips=flips,
        n=n,
        without=len(compared) - n,
        mean=float(known.mean()),
        largest=float(known.max()),
        quantiles={f"{100 * level:g}": float(np.quantile(known, level)) for level in QUANTILES},
        means=means,
        repeats=repeats,
    )
    rows = np.argsort(-changes, kind="stable")
    rows = rows[changes[rows] > 0]
    # Each pair of people is listed once.
    rows = rows[merge_by_unprotected(sides[rows].reshape(len(rows), 2 * sides.shape[2]), []).first[: config.examples]]
    return change, [describe_pair(schema, protected, sides[row], ends[row].tolist(), ends[row]) for row in rows]

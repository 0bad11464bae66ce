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
from evenhand.models.noise import RepeatCheck, can_vary
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
        numbers = AssignedNumbers(regressor, schema, protected, people.individuals, config)
        changes.append(numbers.summarize(None))
        examples += numbers.most_affected(config.examples)
        changes.append(AssignedNumbers(regressor, schema, protected, sampled, config).summarize(population.name))
    return ChangeResult(
        tolerance=config.tolerance,
        unit=schema.target.unit,
        changes=tuple(changes),
        examples=tuple(examples),
        seed=config.seed,
        seconds=time.perf_counter() - started,
    )


class AssignedNumbers:
    """The model's numbers for people under every joint value of the protected attributes.

    If the model's answers vary, both ends of each change are queried again, and changes that do not repeat are set to
    0. A change repeats if it has the same direction, and exceeds the tolerance if it did before. It is replaced by the
    mean of the new answers, which unlike a maximum is not biased towards large changes.

    Attributes:
        schema: Schema of the people.
        protected: Attributes that vary.
        config: Settings.
        compared: Whether each person obeys the rules and has a counterpart, shape (n,).
        means: Mean first answer for each assignment over the people compared. NaN for assignments that are
            not possible for everyone.
        sides: Variants with the lowest and the highest number of each person, shape (n, 2, attributes).
        ends: Their numbers, shape (n, 2).
        change: Difference of these numbers for each person compared, otherwise 0, shape (n,).
        repeats: Number of changes that repeat. None for a deterministic model.
    """

    def __init__(
        self,
        regressor: Regressor,
        schema: Schema,
        protected: tuple[str, ...],
        individuals: Floats,
        config: ChangeConfig,
    ) -> None:
        """Query a model for people (n, attributes)."""
        self.schema, self.protected, self.config = schema, protected, config
        variants = Variants.of(schema, protected, individuals)
        counterparts, plausible = variants.counterparts, variants.plausible
        numbers = np.full(plausible.shape, np.nan)
        rows = np.argwhere(plausible)
        for at in range(0, len(rows), CHUNK):
            check_time()
            row, assignment = rows[at : at + CHUNK].T
            numbers[row, assignment] = ask_numbers(regressor, counterparts[row, assignment])
        self.compared = np.asarray((plausible.sum(axis=1) > 1) & schema.obeys_rules(individuals))
        self.means = numbers[self.compared].mean(axis=0) if self.compared.any() else np.full(plausible.shape[1], np.nan)
        lowest = np.argmin(np.where(plausible, numbers, np.inf), axis=1)
        highest = np.argmax(np.where(plausible, numbers, -np.inf), axis=1)
        ends = np.arange(len(numbers))[:, None], np.stack([lowest, highest], axis=1)
        self.sides, self.ends = counterparts[ends], numbers[ends]
        self.change = np.where(self.compared, self.ends[:, 1] - self.ends[:, 0], 0.0)
        self.repeats = self._confirm(regressor) if can_vary(regressor) else None

    def _confirm(self, regressor: Regressor) -> RepeatCheck:
        """Query both ends of each change again."""
        rows, tolerance = np.flatnonzero(self.change > 0), self.config.tolerance
        exceeded = np.where(self.change[rows] > tolerance, tolerance, 0.0)
        confirmed, self.ends[rows], check = repeat_pairs(
            self.sides[rows],
            lambda individuals: ask_numbers(regressor, individuals)[:, None],
            lambda pairs, answers: np.asarray(answers[:, 1, 0] - answers[:, 0, 0] > exceeded[pairs]),
            cost=2,
            chance=SAME_DIRECTION,
            confidence=self.config.confidence,
        )
        self.change[rows] = np.where(confirmed, self.ends[rows, 1] - self.ends[rows, 0], 0.0)
        return check

    def summarize(self, population: str | None) -> NumberChange:
        """Summarise the changes of the people in the data (population None) or of a population."""
        change = self.change[self.compared]
        n, flips = len(change), int((change > self.config.tolerance).sum())
        means: dict[str, float] = {}
        if n and not np.isnan(self.means).any():
            attributes = [self.schema[name] for name in self.protected]
            for row, mean in zip(self.schema.assignments(self.protected), self.means.tolist(), strict=True):
                value = " and ".join(attribute.text(entry) for attribute, entry in zip(attributes, row, strict=True))
                means[value] = mean
        return NumberChange(
            over="data" if population is None else "population",
            population=population or "the people in the data",
            protected=self.protected,
            rate=rate_of(flips, n, self.config.confidence, population),
            flips=flips,
            n=n,
            without=len(self.change) - n,
            mean=float(change.mean()) if n else 0.0,
            largest=float(change.max()) if n else 0.0,
            quantiles={f"{100 * level:g}": float(np.quantile(change, level)) if n else 0.0 for level in QUANTILES},
            means=means,
            repeats=self.repeats,
        )

    def most_affected(self, max_profiles: int) -> list[Profile]:
        """Select the profiles with the largest changes, without duplicate pairs."""
        rows = np.argsort(-self.change, kind="stable")
        rows = rows[self.change[rows] > 0]
        sides, values = self.sides[rows], self.ends[rows]
        distinct = merge_by_unprotected(sides.reshape(len(sides), 2 * sides.shape[2]), [])
        return [
            describe_pair(self.schema, self.protected, sides[row], values[row].tolist(), values[row])
            for row in distinct.first[:max_profiles]
        ]

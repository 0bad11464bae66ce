"""Search for people whose number, such as a premium, changes most with the protected attributes.

Random hill climbing from the people in the data with the largest changes. One or two unprotected attributes change at a
time, within the domain and the rules of the schema. A move is kept if it increases the change in the number. All
climbers are queried in one batch. The largest change found is a lower bound, since other people may change by more.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from evenhand.core.document import Document
from evenhand.core.result import Result
from evenhand.core.time_limit import TimeLimit
from evenhand.core.typing import Booleans, Floats, Progress, ignore_progress
from evenhand.errors import OptionError
from evenhand.individual.changes import AssignedNumbers, ChangedPerson, select_most_affected
from evenhand.individual.flips import merge_by_unprotected
from evenhand.individual.search.config import NumberSearchConfig
from evenhand.models.ledger import find_ledger
from evenhand.models.noise import RepeatCheck, can_vary
from evenhand.models.scorer import Regressor
from evenhand.schema.people import People
from evenhand.schema.schema import Schema

if TYPE_CHECKING:
    import pandas as pd

CLIMBERS = 64
"""Maximum number of people that move in parallel."""

REDRAWN_SHARE = 0.3
"""Probability that a value is redrawn from its whole domain instead of nearby."""

STEP_DEVIATION = 0.1
"""Standard deviation of a nearby move, as a fraction of the domain."""

RESERVED_SHARE = 0.2
"""Fraction of the budget reserved for repeated queries, if the answers of the model vary."""


class NumberSearchResult(Result):
    """People whose number changes most, found by search.

    Attributes:
        protected: Attributes whose joint values were compared.
        tolerance: Changes above it are counted in ``beyond``.
        unit: Unit of the number.
        largest: Largest change found.
        in_data: Largest change among the queried people in the data.
        beyond: Number of distinct profiles whose number changes by more than the tolerance. It is not a rate.
        repeats: Number of changes between single answers that repeat. Only these count. None for a deterministic model.
        queries: Number of individuals in queries.
        stopped_by: Limit that ended the search, or ``interrupt``.
        examples: People most affected.
    """

    kind: Literal["individual-number"] = "individual-number"
    protected: tuple[str, ...]
    tolerance: float
    unit: str | None
    largest: float
    in_data: float
    beyond: int
    repeats: RepeatCheck | None = None
    queries: int
    stopped_by: Literal["budget", "time", "interrupt"] = "budget"
    examples: tuple[ChangedPerson, ...]

    def _records_hidden(self) -> dict[str, Any]:
        return {"examples": tuple(example for example in self.examples if not example.real)}

    def document(self) -> Document:
        """Build the document of the largest change and the people most affected."""
        return self._write_document("evenhand.individual.number_wording")

    def to_frame(self) -> pd.DataFrame:
        """Convert the examples to a table."""
        import pandas as pd

        return pd.DataFrame(
            [
                example.same
                | {f"{name} (lower)": value for name, value in example.lower.items()}
                | {f"{name} (higher)": value for name, value in example.higher.items()}
                | {"lower": example.lower_number, "higher": example.higher_number}
                for example in self.examples
            ]
        )


def search_numbers(
    regressor: Regressor,
    people: People,
    config: NumberSearchConfig | None = None,
    *,
    progress: Progress | None = None,
    **settings: Any,
) -> NumberSearchResult:
    """Search for people whose number changes most with the protected attributes.

    Args:
        regressor: The model.
        people: People that the search starts from.
        config: The settings.
        progress: Called with a description of the current step and the completed fraction.
        settings: Fields of ``NumberSearchConfig`` that replace those of ``config``.

    Raises:
        OptionError: No attribute is protected, or the budget does not cover a single person.
    """
    started = time.perf_counter()
    config = NumberSearchConfig.of(config, settings)
    progress = progress or ignore_progress
    limit = TimeLimit.after(config.time_limit)
    schema = people.schema.without_rules() if config.as_published else people.schema
    protected = tuple(config.protected or schema.protected)
    if not protected:
        raise OptionError("no attribute is protected", hint="name at least one: `protected=NAME`")
    cost = len(schema.assignments(protected))
    ledger = find_ledger(regressor)
    # Queries during loading count towards the same budget.
    total = config.budget if ledger is None else int(min(config.budget, ledger.left))
    if total < cost:
        raise OptionError(f"a budget of {config.budget} does not cover a single person: each takes {cost} queries")
    budget = int((1 - RESERVED_SHARE * can_vary(regressor)) * total)
    rng = np.random.default_rng(config.seed)
    start = people.individuals[rng.permutation(len(people))][: max(1, budget // (2 * cost))]
    start = start[~np.isnan(start).any(axis=1)]
    origins = AssignedNumbers.ask(regressor, schema, protected, start)
    queries = int(origins.variants.plausible.sum())
    # The last query about both ends of each climber counts too.
    climbers = max(1, min(CLIMBERS, (budget - queries) // (2 * cost)))
    order = np.argsort(-origins.change, kind="stable")[:climbers]
    best, change = start[order].copy(), origins.change[order].copy()
    beyond = [origins.at(np.flatnonzero(origins.change > config.tolerance))]
    free = [i for i in range(len(schema.attributes)) if i not in schema.positions(protected)]
    stopped: Literal["budget", "time", "interrupt"] = "budget"
    while len(best) and free and queries + 2 * len(best) * cost <= budget:
        progress("searching for the largest change", min(1.0, queries / budget))
        if limit.passed():
            stopped = "time"
            break
        candidates = _move(schema, best, free, rng)
        try:
            numbers = AssignedNumbers.ask(regressor, schema, protected, candidates)
        except KeyboardInterrupt:
            stopped = "interrupt"
            break
        queries += len(best) * cost
        better = numbers.change > change
        best[better], change[better] = candidates[better], numbers.change[better]
        beyond.append(numbers.at(np.flatnonzero(numbers.change > config.tolerance)))
    final = AssignedNumbers.ask(regressor, schema, protected, best)
    queries += len(best) * cost
    distinct = AssignedNumbers.concatenate([final, origins, *beyond])
    distinct = distinct.at(merge_by_unprotected(distinct.variants.representatives, []).first)
    distinct = distinct.at(np.argsort(-distinct.change, kind="stable"))
    repeats = distinct.confirm(regressor, tolerance=config.tolerance, left=total - queries)
    data_rows = {row.tobytes() for row in origins.variants.representatives}
    in_data = np.array([row.tobytes() in data_rows for row in distinct.variants.representatives], dtype=np.bool_)
    return NumberSearchResult(
        protected=protected,
        tolerance=config.tolerance,
        unit=schema.target.unit,
        largest=float(distinct.change.max(initial=0.0)),
        in_data=float(distinct.change[in_data].max(initial=0.0)),
        beyond=int((distinct.change > config.tolerance).sum()),
        queries=queries + (0 if repeats is None else repeats.queries),
        stopped_by=stopped,
        repeats=repeats,
        table_reading=people.reading,
        examples=tuple(select_most_affected(distinct, protected, people, config.most_examples)),
        seed=config.seed,
        time_limited=limit.decided,
        seconds=time.perf_counter() - started,
    )


def _move(schema: Schema, people: Floats, free: list[int], rng: np.random.Generator) -> Floats:
    """Change one or two attributes of each person. A person who would break a rule stays unchanged."""
    moved = people.copy()
    for chance in (1.0, 0.5):
        columns = rng.choice(free, len(people))
        moving: Booleans = np.asarray(rng.random(len(people)) < chance)
        for i in np.unique(columns):
            rows = np.flatnonzero((columns == i) & moving)
            attribute = schema.attributes[i]
            low, high = attribute.first, attribute.last
            redrawn = rng.uniform(low, high, len(rows))
            nearby = moved[rows, i] + rng.normal(0, STEP_DEVIATION * (high - low), len(rows))
            entry = np.where(rng.random(len(rows)) < REDRAWN_SHARE, redrawn, nearby)
            if attribute.size is not None:
                # Categories have no order, so any other is equally near.
                entry = np.round(entry) if attribute.ordered else rng.integers(int(low), int(high) + 1, len(rows))
            moved[rows, i] = np.clip(entry, low, high)
    return np.where(schema.obeys_rules(moved)[:, None], moved, people)

"""Search for people whose number, such as a premium, changes most with the protected attributes.

A random hill climb from the people in the data whose change is largest: everything that is not protected may move, one
or two attributes at a time, within the domain and the schema's rules; a move is kept if the change grows. All climbers
are asked about in one batch. What is found is a lower bound: others may change by more, which only a proof excludes.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from evenhand.core.document import Block, Document, Heading, Metric, Note, Pair, ReportedNumber, Side
from evenhand.core.result import PEOPLE_HIDDEN, Result
from evenhand.core.text import format_count, join_names
from evenhand.core.time_limit import TimeLimit
from evenhand.core.typing import Booleans, Floats, Progress, ignore_progress
from evenhand.errors import OptionError
from evenhand.individual.changes import AssignedNumbers, ChangedPerson, most_affected, write_number
from evenhand.individual.flips import merge_by_unprotected
from evenhand.individual.search.config import NumberSearchConfig
from evenhand.models.ledger import find_ledger
from evenhand.models.noise import RepeatCheck, can_vary
from evenhand.models.scorer import Regressor
from evenhand.schema.people import People
from evenhand.schema.schema import Schema

if TYPE_CHECKING:
    import pandas as pd

STOPPED = {
    "time": "The time limit ended this search before the budget was spent.",
    "interrupt": "This search was interrupted.",
}
CLIMBERS = 64
"""People who are moved side by side."""
FAR = 0.3
"""How often a number is drawn again from its whole domain, not moved nearby."""
RESERVED_SHARE = 0.2
"""Share of a budget that is reserved for asking about changes again, if the model can vary."""
NEAR = 0.1
"""Standard deviation of a move nearby, as a share of the domain."""


class NumberSearchResult(Result):
    """People whose number changes most, found by search.

    Attributes:
        protected: the attributes whose joint values were compared.
        tolerance: what is counted changes by more than this.
        unit: of the number.
        largest: the largest change found; in_data: the largest among the people in the data that were asked about.
        beyond: different people asked about whose number changes by more than the tolerance; no share of anybody.
        repeats: How many changes between single answers repeat: only these count. None for a model that cannot vary.
        queries: individuals that were asked about.
        stopped_by: what ended it: the budget, the time limit, or an interrupt; what is here was found before.
        examples: those who are affected most.
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
        """Return the largest change found, and for whom."""
        name = join_names(self.protected)
        blocks: list[Block] = [
            Metric(
                "largest change found",
                ReportedNumber(write_number(self.largest, self.unit), self.largest, "observed"),
                (
                    f"among the people in the data {write_number(self.in_data, self.unit)}",
                    f"{format_count(self.beyond, 'profile', 'profiles')} found that change by more than "
                    f"{write_number(self.tolerance, self.unit)}",
                    f"{self.queries:,} individuals asked about",
                    *([self.repeats.sentence] if self.repeats is not None and self.repeats.noise else []),
                ),
                about=name,
                next_step="others may change by more: a certificate with a tolerance proves how many do not",
            ),
            *(
                [Note(f"{STOPPED[self.stopped_by]} It holds what was found before.")]
                if self.stopped_by in STOPPED
                else []
            ),
            *([Heading(f"Who is affected most by {name}")] if self.examples else []),
            *(
                Pair(
                    f"{'A person in the data' if one.real else 'An invented profile'}: a change by "
                    + write_number(one.higher_number - one.lower_number, self.unit),
                    Side(one.lower, write_number(one.lower_number, self.unit)),
                    Side(one.higher, write_number(one.higher_number, self.unit)),
                    one.same,
                )
                for one in self.examples
            ),
            *([Note(PEOPLE_HIDDEN)] if self.people_left_out else []),
            Note("Invented profiles start from people in the data and may be unlike anybody in it."),
        ]
        return Document(
            f"Search: whose number changes most with {name}",
            "Everything but the protected attributes is moved within the domain, as long as the change grows.",
            tuple(blocks),
            brand="Evenhand search",
            made=self.provenance,
            readings=self.readings,
        )

    def to_frame(self) -> pd.DataFrame:
        """One row per example."""
        import pandas as pd

        return pd.DataFrame(
            [
                one.same
                | {f"{name} (lower)": value for name, value in one.lower.items()}
                | {f"{name} (higher)": value for name, value in one.higher.items()}
                | {"lower": one.lower_number, "higher": one.higher_number}
                for one in self.examples
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
        regressor: the model.
        people: whom to start from.
        config: the settings.
        progress: called with what is being done and the share done, 0 to 1.
        settings: fields of ``NumberSearchConfig`` by name, in place of those in ``config``.

    Raises:
        OptionError: no attribute is protected, or the budget does not pay for a single person.
    """
    started = time.perf_counter()
    config = NumberSearchConfig.of(config, settings)
    say = progress or ignore_progress
    limit = TimeLimit.after(config.time_limit)
    schema = people.schema.without_rules() if config.as_published else people.schema
    protected = tuple(config.protected or schema.protected)
    if not protected:
        raise OptionError("no attribute is protected", hint="name at least one: `protected=NAME`")
    each = len(schema.assignments(protected))
    ledger = find_ledger(regressor)
    # What trying the model on has cost is paid for from the same budget.
    budget = config.budget if ledger is None else int(min(config.budget, ledger.left))
    if budget < each:
        raise OptionError(f"a budget of {config.budget} does not pay for a single person: each takes {each} questions")
    whole, budget = budget, int((1 - RESERVED_SHARE * can_vary(regressor)) * budget)
    rng = np.random.default_rng(config.seed)
    start = people.individuals[rng.permutation(len(people))][: max(1, budget // (2 * each))]
    start = start[~np.isnan(start).any(axis=1)]
    asked = AssignedNumbers.ask(regressor, schema, protected, start)
    queries = asked.variants.plausible.sum()
    # The last question to each climber, about both ends, is paid for too.
    climbers = max(1, min(CLIMBERS, (budget - int(queries)) // (2 * each)))
    order = np.argsort(-asked.change, kind="stable")[:climbers]
    best, change = start[order].copy(), asked.change[order].copy()
    beyond = [asked.at(np.flatnonzero(asked.change > config.tolerance))]
    free = [i for i in range(len(schema.attributes)) if i not in schema.positions(protected)]
    stopped: Literal["budget", "time", "interrupt"] = "budget"
    while len(best) and free and queries + 2 * len(best) * each <= budget:
        say("searching for the largest change", min(1.0, queries / budget))
        if limit.passed():
            stopped = "time"
            break
        moved = _move(schema, best, free, rng)
        try:
            found = AssignedNumbers.ask(regressor, schema, protected, moved)
        except KeyboardInterrupt:
            stopped = "interrupt"
            break
        queries += len(best) * each
        better = found.change > change
        best[better], change[better] = moved[better], found.change[better]
        beyond.append(found.at(np.flatnonzero(found.change > config.tolerance)))
    final = AssignedNumbers.ask(regressor, schema, protected, best)
    queries += len(best) * each
    distinct = AssignedNumbers.concatenate([final, asked, *beyond])
    distinct = distinct.at(merge_by_unprotected(distinct.variants.representatives, []).first)
    distinct = distinct.at(np.argsort(-distinct.change, kind="stable"))
    repeats = distinct.confirm(regressor, tolerance=config.tolerance, left=whole - int(queries))
    queries += 0 if repeats is None else repeats.queries
    known = {row.tobytes() for row in asked.variants.representatives}
    in_data = np.array([row.tobytes() in known for row in distinct.variants.representatives], dtype=np.bool_)
    return NumberSearchResult(
        protected=protected,
        tolerance=config.tolerance,
        unit=schema.target.unit,
        largest=float(distinct.change.max(initial=0.0)),
        in_data=float(distinct.change[in_data].max(initial=0.0)),
        beyond=int((distinct.change > config.tolerance).sum()),
        queries=int(queries),
        stopped_by=stopped,
        repeats=repeats,
        table_reading=people.reading,
        examples=tuple(most_affected(distinct, protected, people, config.most_examples)),
        seed=config.seed,
        time_limited=limit.decided,
        seconds=time.perf_counter() - started,
    )


def _move(schema: Schema, people: Floats, free: list[int], rng: np.random.Generator) -> Floats:
    """Return people with one or two attributes changed; a person who would break a rule stays as before."""
    moved = people.copy()
    for chance in (1.0, 0.5):
        chosen = rng.choice(free, len(people))
        going: Booleans = np.asarray(rng.random(len(people)) < chance)
        for i in np.unique(chosen):
            rows = np.flatnonzero((chosen == i) & going)
            attribute = schema.attributes[i]
            low, high = attribute.first, attribute.last
            anywhere = rng.uniform(low, high, len(rows))
            nearby = moved[rows, i] + rng.normal(0, NEAR * (high - low), len(rows))
            entry = np.where(rng.random(len(rows)) < FAR, anywhere, nearby)
            if attribute.size is not None:
                # Every value of a category is as near as any other.
                entry = np.round(entry) if attribute.ordered else rng.integers(int(low), int(high) + 1, len(rows))
            moved[rows, i] = np.clip(entry, low, high)
    obeys = schema.obeys_rules(moved)
    return np.where(obeys[:, None], moved, people)

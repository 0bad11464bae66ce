"""One search where a number is decided: its mean, its error, or how often it is above a level, subgroup by subgroup.

The engine is that of labels: every rule set is tested at once, and the largest standardised gap of all of them when the
numbers are dealt out at random among the people says what chance alone shows (Westfall and Young 1993, max-t). Under
the hypothesis that who somebody is says nothing about the number, this is exact whatever the distribution of the
numbers is. Numbers are standardised before, so that sums lose no digits, and results are in the number's own unit.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from evenhand.core.time_limit import TimeLimit
from evenhand.core.typing import Floats, Progress
from evenhand.errors import BudgetError, DataError, OptionError
from evenhand.models.ledger import QuestionLedger, find_ledger
from evenhand.models.scorer import Regressor, ask_numbers
from evenhand.schema.decisions import RecordedNumbers
from evenhand.schema.people import People
from evenhand.schema.target import Target
from evenhand.schema.weights import PeopleWeights
from evenhand.subgroups.analysis import known_rows
from evenhand.subgroups.config import NumberSubgroupConfig, SubgroupConfig
from evenhand.subgroups.measures import MeasuredOutcomes
from evenhand.subgroups.result import MeasuredNumber, SubgroupResult

SAME = (
    "attributes",
    "support",
    "min_size",
    "depth",
    "bins",
    "judged",
    "per",
    "budget",
    "confidence",
    "control",
    "permutations",
    "most",
    "time_limit",
    "seed",
)
"""Settings that mean the same whatever is compared."""


def find_number_subgroups(
    regressor: Regressor,
    people: People,
    config: NumberSubgroupConfig | None = None,
    *,
    weights: PeopleWeights | None = None,
    progress: Progress | None = None,
    **settings: Any,
) -> SubgroupResult:
    """Search for subgroups to whom a model gives other numbers than to the rest.

    Args:
        regressor: the model, asked once about everybody.
        people: the people it decides about; with the true numbers where errors are compared.
        config: the settings.
        weights: how much each person counts; None where all count alike.
        progress: called with what is being done and the share done, 0 to 1.
        settings: fields of ``NumberSubgroupConfig`` by name, in place of those in ``config``.

    Returns:
        The significant subgroups, with gaps in the number's unit. An interrupt or the time limit leaves what is known.

    Raises:
        EvenhandError: the options make no sense, or the model cannot be asked.
        DataError: errors are compared, and the people have no true numbers.
    """
    config = NumberSubgroupConfig.of(config, settings)
    ledger = find_ledger(regressor) or QuestionLedger()
    before = ledger.sent

    def ask(known: People) -> Floats:
        if len(known) > ledger.left:
            raise BudgetError(
                f"the budget of {ledger.budget:,} rows does not pay for the {len(known):,} people who are compared",
                location="`budget=`",
                hint="give a larger budget, or fewer people",
            )
        return ask_numbers(regressor, known.individuals)

    with ledger.within(config.budget):
        found = _search(people, weights, ask, config, progress)
    ledger.settle()
    return found.model_copy(update={"queries": ledger.sent - before})


def find_subgroups_of_numbers(
    numbers: RecordedNumbers,
    config: NumberSubgroupConfig | None = None,
    *,
    progress: Progress | None = None,
    **settings: Any,
) -> SubgroupResult:
    """Search for subgroups who were given other numbers than the rest, with no model to ask.

    Args:
        numbers: the numbers, and the people they are about.
        config: the settings; by default subgroups are described by all attributes.
        progress: called with what is being done and the share done, 0 to 1.
        settings: fields of ``NumberSubgroupConfig`` by name, in place of those in ``config``.

    Raises:
        OptionError: the settings make no sense.
        DataError: errors are compared, and the true numbers are not known.
    """
    config = NumberSubgroupConfig.of(config, settings)
    if config.attributes is None:
        config = config.model_copy(update={"attributes": numbers.people.schema.names})
    rows = known_rows(numbers.people, config.attributes or ())
    return _search(numbers.people, numbers.weights, lambda known: numbers.decided[rows], config, progress)


def _search(
    people: People,
    weights: PeopleWeights | None,
    ask: Callable[[People], Floats],
    config: NumberSubgroupConfig,
    progress: Progress | None,
) -> SubgroupResult:
    """Search among those whose attributes are known; ``ask`` gives the numbers of these."""
    started = time.perf_counter()
    from evenhand.subgroups.exact import search_exactly  # brings the compiler, which settings do not need

    limit = TimeLimit.after(config.time_limit)
    target = people.schema.target
    names = people.schema.protected if config.attributes is None else config.attributes
    rows = known_rows(people, names)
    everybody, known = len(people), people.at(rows)
    if config.measure != "mean" and known.numbers is None:
        raise DataError(
            f"the true numbers are not known, so there is no {config.measure}",
            hint="name their column as the target, or leave `measure=` out to compare means",
        )
    said: list[MeasuredNumber] = []

    def outcomes() -> MeasuredOutcomes:
        decided = ask(known)
        outcome = _measure(decided, known.numbers, config, target)
        spread = outcome.spread if config.above is None else float(np.std(decided))
        said.append(
            MeasuredNumber(
                name=target.name,
                unit=target.unit,
                favourable=str(target.favourable),
                above=config.above,
                deviation=spread,
            )
        )
        return outcome

    inner = SubgroupConfig(
        measure="score" if config.above is None else "favourable", **{name: getattr(config, name) for name in SAME}
    )
    found = search_exactly(
        known,
        outcomes,
        inner,
        margin=config.margin,
        weights=None if weights is None else weights.at(rows),
        progress=progress,
        limit=limit,
    )
    return found.model_copy(
        update={
            "measure": config.measure if config.above is None else "above",
            "number": said[0],
            "unknown": everybody - len(known),
            "time_limited": limit.decided,
            "seconds": time.perf_counter() - started,
        }
    )


def _measure(decided: Floats, truth: Floats | None, config: NumberSubgroupConfig, target: Target) -> MeasuredOutcomes:
    """Compute the outcomes of a measure from decided and true numbers: standardised, or whether above the level.

    Errors are those of people whose true number is known.
    """
    rows = np.arange(len(decided))
    better = -1 if target.favourable == "lower" or config.measure == "absolute-error" else 1
    if config.above is not None:
        return MeasuredOutcomes(rows, (decided > config.above).astype(np.float64), counted=True, better=better)
    values = decided
    if config.measure != "mean" and truth is not None:
        rows = np.flatnonzero(~np.isnan(truth))
        if not len(rows):
            raise OptionError(f"no person here has a known true number, so there is no {config.measure}")
        values = decided[rows] - truth[rows]
        values = values if config.measure == "residual" else np.abs(values)
    center, spread = float(values.mean()), float(values.std())
    # Equal numbers may differ by rounding alone, which is not a spread.
    if not spread > 1e-12 * max(abs(center), 1e-300):
        return MeasuredOutcomes(rows, np.zeros(len(rows)), counted=False, better=better, center=center)
    return MeasuredOutcomes(
        rows, (values - center) / spread, counted=False, better=better, center=center, spread=spread
    )

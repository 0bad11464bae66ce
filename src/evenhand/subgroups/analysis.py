"""Searches for subgroups of people. The model is queried once; everything after that is counting."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from evenhand.core.time_limit import TimeLimit
from evenhand.core.typing import Floats, Integers, Progress, ignore_progress
from evenhand.errors import BudgetError, DataError, OptionError
from evenhand.models.ledger import CountedScorer, QuestionLedger, answers_per_row, find_ledger
from evenhand.models.noise import CHECKED, FreshScorer, NoiseCheck, can_vary, check_noise
from evenhand.models.outputs import FIRST_QUESTIONS
from evenhand.models.scorer import Regressor, Scorer, ask_numbers, find_caution
from evenhand.schema.decisions import RecordedDecisions, RecordedNumbers
from evenhand.schema.people import People, PeopleWeights
from evenhand.subgroups.config import NumberSubgroupConfig, SubgroupConfig
from evenhand.subgroups.measures import (
    MeasuredOutcomes,
    find_concerned,
    measure_numbers,
    measure_outcomes,
    recorded_outcomes,
)
from evenhand.subgroups.result import SubgroupResult


def find_subgroups(
    scorer: Scorer,
    people: People,
    config: SubgroupConfig | None = None,
    *,
    weights: PeopleWeights | None = None,
    noise: NoiseCheck | None = None,
    progress: Progress | None = None,
    **settings: Any,
) -> SubgroupResult:
    """Search for subgroups that a model treats differently.

    Args:
        scorer: Model, queried once about all people. If its answers vary, each row gets an independent answer, even
            among identical rows, so that tests and intervals account for the noise.
        people: People that the model decides about.
        config: Settings.
        weights: Weight of each person. If None, all count equally.
        noise: Whether the answers of the model vary, if known. If None, some people are queried twice.
        progress: Called with the current step and the completed share, from 0 to 1.
        settings: Fields of ``SubgroupConfig``, which override those of ``config``.

    Returns:
        Significant subgroups. An interrupt (Ctrl-C) or the time limit after the model has answered ends the
        permutations early; ``interrupted`` and a note say so.

    Raises:
        EvenhandError: The options are invalid, or the model cannot be queried.
    """
    started = time.perf_counter()
    config = SubgroupConfig.of(config, settings)
    limit = TimeLimit.after(config.time_limit)
    if weights is not None and config.method != "exact":
        raise OptionError(
            f"weights require method='exact', got method={config.method!r}",
            hint="leave the weights out",
        )
    rows = find_known_rows(people, config.attributes or people.schema.protected)
    complete = people.at(rows)
    ledger = find_ledger(scorer) or QuestionLedger()
    counted_scorer: Scorer | None = None

    def prepare_scorer() -> Scorer:
        """Check by queries whether the answers vary, and wrap the model so that all queries are counted."""
        nonlocal noise, counted_scorer
        if noise is None:
            shuffled = complete.individuals[np.random.default_rng(config.seed).permutation(len(complete))]
            # The budget must also cover the answers about all people.
            affordable = int(max(0.0, min(len(complete), (ledger.left - config.repeats * len(complete)) / 2)))
            noise = check_noise(scorer, shuffled[:affordable], confidence=config.confidence, limit=limit)
        varies = noise is not None and (noise.noisy or config.repeats > 1)
        counted_scorer = FreshScorer(scorer, config.repeats) if varies else scorer
        counted_scorer = (
            counted_scorer if find_ledger(counted_scorer) is not None else CountedScorer(counted_scorer, ledger)
        )
        return counted_scorer

    def measure() -> MeasuredOutcomes:
        (progress or ignore_progress)("querying the model", 0.0)
        concerned = len(find_concerned(complete, config.measure))
        _check_budget(ledger, concerned, config.repeats if can_vary(scorer) else 1)
        return measure_outcomes(prepare_scorer(), complete, config.measure)

    with ledger.within(config.budget):
        if config.method == "exact":
            result = _search(complete, rows, measure, config, weights, progress, limit)
        else:
            from evenhand.subgroups.methods import METHODS

            method = METHODS[config.method]
            result = method(prepare_scorer(), complete, config, progress or ignore_progress, limit)
    return _finish(
        result,
        unknown=len(people) - len(complete),
        limit=limit,
        started=started,
        noise=noise,
        notes=(*result.notes, *filter(None, [find_caution(scorer)])),
        repeats=1 if counted_scorer is None else answers_per_row(counted_scorer),
        queries=ledger.settle(),
    )


def find_subgroups_of_decisions(
    decisions: RecordedDecisions,
    config: SubgroupConfig | None = None,
    *,
    progress: Progress | None = None,
    **settings: Any,
) -> SubgroupResult:
    """Search for subgroups that recorded decisions treat differently.

    Args:
        decisions: People, with the recorded decision about each.
        config: Settings. By default, subgroups are described by all attributes.
        progress: Called with the current step and the completed share, from 0 to 1.
        settings: Fields of ``SubgroupConfig``, which override those of ``config``.

    Raises:
        OptionError: The settings are invalid, or need a model.
        DataError: An error rate is measured without true labels.
    """
    started = time.perf_counter()
    config = SubgroupConfig.of(config, settings)
    people = decisions.people
    if config.method != "exact":
        raise OptionError(f"method={config.method!r} needs a model, got decisions already made", hint="leave it out")
    if config.attributes is None:
        config = config.model_copy(update={"attributes": people.schema.names})
    if people.counts is not None and config.measure == "score":
        raise OptionError(
            "mean scores require individual rows, but these rows are counted where they are stored",
            hint="omit `measure=`, or read a sample of the rows into memory",
        )
    limit = TimeLimit.after(config.time_limit)
    rows = find_known_rows(people, config.attributes or ())
    complete = decisions.at(rows)

    def measure() -> MeasuredOutcomes:
        return recorded_outcomes(complete, config.measure)

    result = _search(complete.people, rows, measure, config, decisions.weights, progress, limit)
    return _finish(result, unknown=people.size - complete.people.size, limit=limit, started=started)


def find_number_subgroups(
    regressor: Regressor,
    people: People,
    config: NumberSubgroupConfig | None = None,
    *,
    weights: PeopleWeights | None = None,
    progress: Progress | None = None,
    **settings: Any,
) -> SubgroupResult:
    """Search for subgroups to which a model assigns different numbers than to the rest.

    Args:
        regressor: Model, queried once about all people.
        people: People that the model decides about, with the true values if errors are compared.
        config: Settings.
        weights: Weight of each person. If None, all count equally.
        progress: Called with the current step and the completed share, from 0 to 1.
        settings: Fields of ``NumberSubgroupConfig``, which override those of ``config``.

    Returns:
        Significant subgroups, with gaps in the unit of the number. An interrupt or the time limit ends the permutations
        early.

    Raises:
        EvenhandError: The options are invalid, or the model cannot be queried.
        DataError: Errors are compared, but the people have no true values.
    """
    config = NumberSubgroupConfig.of(config, settings)
    ledger = find_ledger(regressor) or QuestionLedger()
    sent_before = ledger.sent

    def decide(complete: People) -> Floats:
        _check_budget(ledger, len(complete))
        return ask_numbers(regressor, complete.individuals)

    with ledger.within(config.budget):
        result = _search_numbers(people, decide, config, weights, progress)
    ledger.settle()
    return result.model_copy(update={"queries": ledger.sent - sent_before})


def find_subgroups_of_numbers(
    numbers: RecordedNumbers,
    config: NumberSubgroupConfig | None = None,
    *,
    progress: Progress | None = None,
    **settings: Any,
) -> SubgroupResult:
    """Search for subgroups whose recorded numbers differ from those of the rest.

    Args:
        numbers: People, with the recorded number of each.
        config: Settings. By default, subgroups are described by all attributes.
        progress: Called with the current step and the completed share, from 0 to 1.
        settings: Fields of ``NumberSubgroupConfig``, which override those of ``config``.

    Raises:
        OptionError: The settings are invalid.
        DataError: Errors are compared, but the true values are unknown.
    """
    config = NumberSubgroupConfig.of(config, settings)
    if config.attributes is None:
        config = config.model_copy(update={"attributes": numbers.people.schema.names})
    rows = find_known_rows(numbers.people, config.attributes or ())
    return _search_numbers(numbers.people, lambda _: numbers.decided[rows], config, numbers.weights, progress)


def _search_numbers(
    people: People,
    decide: Callable[[People], Floats],
    config: NumberSubgroupConfig,
    weights: PeopleWeights | None,
    progress: Progress | None,
) -> SubgroupResult:
    """Search among the people whose attributes are known; ``decide`` returns their numbers.

    The search is the same as for labels. If attributes are unrelated to the number, permuting numbers among people
    gives the exact distribution of the largest gap for any distribution of the numbers (Westfall and Young 1993,
    max-t).
    """
    started = time.perf_counter()
    limit = TimeLimit.after(config.time_limit)
    rows = find_known_rows(people, people.schema.protected if config.attributes is None else config.attributes)
    complete = people.at(rows)
    if config.measure != "mean" and complete.numbers is None:
        raise DataError(
            f"the true numbers are not known, so there is no {config.measure}",
            hint="name their column as the target, or leave `measure=` out to compare means",
        )

    def measure() -> MeasuredOutcomes:
        return measure_numbers(complete, decide(complete), config)

    result = _search(complete, rows, measure, config, weights, progress, limit)
    return _finish(result, unknown=len(people) - len(complete), limit=limit, started=started)


def _search(
    complete: People,
    rows: Integers,
    measure: Callable[[], MeasuredOutcomes],
    config: SubgroupConfig | NumberSubgroupConfig,
    weights: PeopleWeights | None,
    progress: Progress | None,
    limit: TimeLimit,
) -> SubgroupResult:
    from evenhand.subgroups.exact import search_exactly  # imports the compiler, which settings and results do not need

    known_weights = None if weights is None else weights.at(rows)
    return search_exactly(complete, measure, config, weights=known_weights, progress=progress, limit=limit)


def _finish(result: SubgroupResult, *, unknown: int, limit: TimeLimit, started: float, **fields: Any) -> SubgroupResult:
    seconds = time.perf_counter() - started
    return result.model_copy(update={"unknown": unknown, "time_limited": limit.decided, "seconds": seconds, **fields})


def find_known_rows(people: People, names: Sequence[str]) -> Integers:
    """Find the people whose values of these attributes are all known.

    Raises:
        OptionError: There are no such people.
    """
    rows = np.flatnonzero(people.is_known(names))
    if not len(rows):
        raise OptionError(
            f"no person in the data has known values of all of {', '.join(names)}", hint="name fewer attributes"
        )
    return rows


def _check_budget(ledger: QuestionLedger, people: int, repeats: int = 1) -> None:
    if people * repeats > ledger.left:
        answers = f"{repeats} answers about each of " if repeats > 1 else ""
        raise BudgetError(
            f"the budget of {ledger.budget:,} rows does not cover {answers}the {people:,} people who are compared",
            location="`budget=`",
            hint="increase the budget, or use fewer people",
        )


def forecast_queries(people: People, config: SubgroupConfig) -> int | None:
    """Compute the maximum number of queries of a search without a budget. None if there is no maximum."""
    if config.method != "exact":
        return None
    return FIRST_QUESTIONS + config.repeats * len(people) + 2 * CHECKED

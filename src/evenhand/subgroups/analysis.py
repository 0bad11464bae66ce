"""Searches for subgroups of people. The model is queried once; everything after that is counting."""

from __future__ import annotations

from typing import Any

import numpy as np

from evenhand.core.time_limit import TimeLimit
from evenhand.core.typing import Integers, Progress, ignore_progress
from evenhand.errors import BudgetError, OptionError
from evenhand.models.noise import CHECKED, FreshScorer, NoiseCheck, can_vary, check_noise
from evenhand.models.outputs import FIRST_QUESTIONS
from evenhand.models.replies import QuestionLedger, find_ledger
from evenhand.models.scorer import Regressor, Scorer, ask_numbers, find_caution
from evenhand.schema.decisions import RecordedDecisions, RecordedNumbers
from evenhand.schema.people import People, PeopleWeights
from evenhand.subgroups.config import NumberSubgroupConfig, SubgroupConfig
from evenhand.subgroups.exact import search_exactly
from evenhand.subgroups.measures import (
    MeasuredOutcomes,
    check_truth,
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
        scorer: Model, queried once for all people. If its answers vary, each row gets an independent answer, even
            among identical rows, so that tests and intervals account for the noise.
        people: People that the model decides about.
        config: Settings.
        weights: Weight of each person. If None, all count equally.
        noise: Whether the answers of the model vary, if known. If None, some people are queried twice.
        progress: Called with the current step and the completed share, from 0 to 1.
        settings: Fields of ``SubgroupConfig``, which override those of ``config``.

    Returns:
        Significant subgroups. An interrupt (Ctrl-C) or the time limit ends the permutations early, which
        ``interrupted`` and a note record.

    Raises:
        EvenhandError: The options are invalid, or the model cannot be queried.
    """
    config = SubgroupConfig.of(config, settings)
    limit = TimeLimit.after(config.time_limit)
    if weights is not None and config.method != "exact":
        raise OptionError(
            f"weights require method='exact', got method={config.method!r}",
            hint="leave the weights out",
        )
    ledger = find_ledger(scorer) or QuestionLedger()
    repeats, sent = 1, 0

    def prepare_scorer(complete: People) -> Scorer:
        """Check by queries whether the answers vary, and if so, wrap the model to query it afresh for each row."""
        nonlocal noise, repeats
        if noise is None:
            shuffled = complete.individuals[np.random.default_rng(config.seed).permutation(len(complete))]
            # The budget must also cover the answers for all people.
            affordable = int(max(0.0, min(len(complete), (ledger.left - config.repeats * len(complete)) / 2)))
            noise = check_noise(scorer, shuffled[:affordable], confidence=config.confidence, limit=limit)
        varies = noise is not None and (noise.noisy or config.repeats > 1)
        repeats = config.repeats if varies else 1
        return FreshScorer(scorer, repeats) if varies else scorer

    def measure(complete: People, rows: Integers) -> MeasuredOutcomes:
        nonlocal sent
        (progress or ignore_progress)("querying the model", 0.0)
        sent = len(find_concerned(complete, config.measure))
        _check_budget(ledger, sent, config.repeats if can_vary(scorer) else 1)
        return measure_outcomes(prepare_scorer(complete), complete, config.measure)

    with ledger.within(config.budget):
        if config.method == "exact":
            result = search_exactly(people, measure, config, weights=weights, progress=progress, limit=limit)
        else:
            from evenhand.subgroups.methods.sampled import search_sampled

            result = search_sampled(prepare_scorer, people, config, progress or ignore_progress, limit)
            sent = result.queries
    fields = {
        "noise": noise,
        "notes": (*result.notes, *filter(None, [find_caution(scorer)])),
        "repeats": repeats,
        "queries": repeats * sent if find_ledger(scorer) is None else ledger.settle(),
    }
    return result.model_copy(update=fields)


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
    config = SubgroupConfig.of(config, settings)
    people = decisions.people
    if config.method != "exact":
        raise OptionError(f"method={config.method!r} needs a model, got decisions already made", hint="leave it out")
    if people.counts is not None and config.measure == "score":
        raise OptionError(
            "mean scores require individual rows, but these rows are counted where they are stored",
            hint="omit `measure=`, or read a sample of the rows into memory",
        )
    names = config.attributes or people.schema.names

    def measure(complete: People, rows: Integers) -> MeasuredOutcomes:
        return recorded_outcomes(decisions.at(rows), config.measure)

    return search_exactly(people, measure, config, names=names, weights=decisions.weights, progress=progress)


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
        regressor: Model, queried once for all people.
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

    def measure(complete: People, rows: Integers) -> MeasuredOutcomes:
        check_truth(complete, config)
        _check_budget(ledger, len(complete))
        return measure_numbers(complete, ask_numbers(regressor, complete.individuals), config)

    names = config.attributes or people.schema.protected
    with ledger.within(config.budget):
        result = search_exactly(people, measure, config, names=names, weights=weights, progress=progress)
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
    people = numbers.people

    def measure(complete: People, rows: Integers) -> MeasuredOutcomes:
        check_truth(complete, config)
        return measure_numbers(complete, numbers.decided[rows], config)

    names = config.attributes or people.schema.names
    return search_exactly(people, measure, config, names=names, weights=numbers.weights, progress=progress)


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

"""Searches for subgroups of people. The model is queried once; everything after that is counting."""

from __future__ import annotations

from typing import Any

import numpy as np

from evenhand.core.time_limit import TimeLimit
from evenhand.core.typing import Booleans, Floats, Integers, Progress, ignore_progress
from evenhand.errors import BudgetError, DataError, OptionError
from evenhand.models.noise import CHECKED, FreshScorer, NoiseCheck, can_vary, check_noise
from evenhand.models.outputs import FIRST_QUESTIONS
from evenhand.models.replies import QuestionLedger, find_ledger
from evenhand.models.scorer import Regressor, Scorer, ask_numbers, favourable_score, find_caution, predict_labels
from evenhand.schema.decisions import RecordedDecisions, RecordedNumbers
from evenhand.schema.people import People, PeopleWeights
from evenhand.subgroups.config import Measure, NumberSubgroupConfig, SubgroupConfig
from evenhand.subgroups.exact import MeasuredOutcomes, search_exactly
from evenhand.subgroups.result import MeasuredNumber, SubgroupResult

NO_SCORES = "the model gives labels only, so there is no mean score"
MEASURE_RATE = "measure the favourable rate instead"


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
    limit = TimeLimit(config.time_limit)
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
        concerned = find_concerned(complete, config.measure)
        if config.measure != "score":
            return label_outcomes(concerned, decisions.selected[rows[concerned]], config.measure)
        if decisions.scores is None:
            raise OptionError("there are no scores, so there is no mean score", hint=MEASURE_RATE)
        return MeasuredOutcomes(concerned, decisions.scores[rows], counted=False)

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


def measure_outcomes(scorer: Scorer, people: People, measure: Measure) -> MeasuredOutcomes:
    """Query the model once for all people, and compute the outcomes.

    ``favourable``: whether the prediction is the favourable label. ``false-negative``: whether it is another label, for
    people with a favourable true label. ``false-positive``: whether it is the favourable label, for people with another
    true label. ``score``: the score of the favourable label.

    Raises:
        OptionError: The measure covers no one, or the model returns no scores.
        DataError: An error rate is measured without true labels.
    """
    rows = find_concerned(people, measure)
    if measure == "score":
        if scorer.label_only:
            raise OptionError(NO_SCORES, hint=MEASURE_RATE)
        return MeasuredOutcomes(rows, favourable_score(scorer, people.individuals), counted=False)
    selected = predict_labels(scorer, people.individuals[rows]) == scorer.favourable
    return label_outcomes(rows, selected, measure)


def label_outcomes(rows: Integers, selected: Booleans, measure: Measure) -> MeasuredOutcomes:
    """Compute the outcomes of people or texts, from a mask of the favourable labels; see ``measure_outcomes``."""
    refused = measure == "false-negative"
    values = (selected != refused).astype(np.float64)
    return MeasuredOutcomes(rows, values, counted=True, better=-1 if refused else 1)


def check_truth(people: People, config: NumberSubgroupConfig) -> None:
    """Raise a DataError if errors are compared and the true values are not known."""
    if config.measure != "mean" and people.numbers is None:
        raise DataError(
            f"the true values are not known, so there is no {config.measure}",
            hint="name their column as the target, or leave `measure=` out to compare means",
        )


def measure_numbers(people: People, decided: Floats, config: NumberSubgroupConfig) -> MeasuredOutcomes:
    """Compute the outcomes of numbers: standardised values, to preserve precision in sums, or indicators of the level.

    Residuals and errors are computed for people whose true value is known.

    Raises:
        OptionError: No true value is known.
    """
    target, rows, values = people.schema.target, np.arange(len(decided)), decided
    better = -1 if target.favourable == "lower" or config.measure == "absolute-error" else 1
    if config.measure != "mean" and people.numbers is not None:
        rows = np.flatnonzero(~np.isnan(people.numbers))
        if not len(rows):
            raise OptionError(f"no person has a known true value, so there is no {config.measure}")
        values = decided[rows] - people.numbers[rows]
        values = values if config.measure == "residual" else np.abs(values)
    center, deviation = float(values.mean()), float(values.std())
    # Equal numbers may differ by rounding errors, which are not variation.
    constant = not deviation > 1e-12 * max(abs(center), 1e-300)
    spread = 1.0 if constant else deviation
    number = MeasuredNumber(
        name=target.name,
        unit=target.unit,
        favourable=str(target.favourable),
        above=config.above,
        deviation=deviation if config.above is not None else spread,
    )
    if config.above is not None:
        above = (values > config.above).astype(np.float64)
        return MeasuredOutcomes(rows, above, counted=True, better=better, number=number)
    values = np.zeros(len(rows)) if constant else (values - center) / spread
    return MeasuredOutcomes(rows, values, False, better, (center, spread), number)


def find_concerned(people: People, measure: Measure) -> Integers:
    """Find the rows of the people that a measure covers.

    Raises:
        OptionError: The measure covers no one.
        DataError: An error rate is measured without true labels.
    """
    if measure in ("favourable", "score"):
        return np.arange(len(people))
    rows = np.flatnonzero(people.true_labels == (1 if measure == "false-negative" else 0))
    if len(rows) == 0:
        truly = "is" if measure == "false-negative" else "is not"
        raise OptionError(
            f"no one's true label {truly} {people.schema.target.favourable!r}, so there is no {measure} rate"
        )
    return rows

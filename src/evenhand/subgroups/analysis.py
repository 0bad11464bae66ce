"""One search: the model is asked once, everything after that is counting."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from evenhand.core.time_limit import TimeLimit
from evenhand.core.typing import Integers, Progress, ignore_progress
from evenhand.errors import BudgetError, OptionError
from evenhand.models.ledger import CountedScorer, QuestionLedger, answers_per_row, find_ledger
from evenhand.models.noise import CHECKED, FreshScorer, NoiseCheck, can_vary, check_noise
from evenhand.models.outputs import FIRST_QUESTIONS
from evenhand.models.scorer import Scorer, find_caution
from evenhand.schema.decisions import RecordedDecisions
from evenhand.schema.people import People
from evenhand.schema.weights import PeopleWeights
from evenhand.subgroups.config import SubgroupConfig
from evenhand.subgroups.measures import MeasuredOutcomes, find_concerned, measure_outcomes, recorded_outcomes
from evenhand.subgroups.result import SubgroupResult

SHARED_SETTINGS = ("method", "measure", "control", "confidence", "margin", "support", "min_size", "seed")
"""Settings that a result repeats."""


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
        scorer: the model, asked once about everybody. If it answers differently each time, each person gets an answer
            of their own, also where two are alike, so that its noise is independent from person to person: then it is
            part of what tests and intervals allow for.
        people: the people it decides about.
        config: the settings.
        weights: how much each person counts; None where all count alike.
        noise: whether it answers differently each time, where that is known; by default some people are asked about
            twice.
        progress: called with what is being done and the share done, 0 to 1.
        settings: fields of ``SubgroupConfig`` by name, in place of those in ``config``.

    Returns:
        The significant subgroups. An interrupt (Ctrl-C) or time limit after the model has answered leaves what is known
        with the permutations done so far; ``interrupted`` and a note say so.

    Raises:
        EvenhandError: the options make no sense, or the model cannot be asked.
    """
    from evenhand.subgroups.exact import search_exactly  # brings the compiler, which settings and results do not need
    from evenhand.subgroups.methods import METHODS

    started = time.perf_counter()
    config = SubgroupConfig.of(config, settings)
    say = progress or ignore_progress
    limit = TimeLimit.after(config.time_limit)
    names, everybody = config.attributes or people.schema.protected, len(people)
    if weights is not None and config.method != "exact":
        raise OptionError(
            f"weights are for the people in the data counted exactly, not for method={config.method!r}",
            hint="leave it out",
        )
    rows = known_rows(people, names)
    people, weights = people.at(rows), None if weights is None else weights.at(rows)
    ledger = find_ledger(scorer) or QuestionLedger()
    asked: Scorer | None = None

    def ask() -> Scorer:
        """Return the model as it is to be asked, once it is known whether it answers differently each time."""
        nonlocal noise, asked
        if asked is None:
            if noise is None:
                shuffled = people.individuals[np.random.default_rng(config.seed).permutation(len(people))]
                # Two answers of each, and those of everybody, have to be paid for.
                payable = int(max(0.0, min(len(people), (ledger.left - config.repeats * len(people)) / 2)))
                noise = check_noise(scorer, shuffled[:payable], confidence=config.confidence, limit=limit)
            may_vary = noise is not None and (noise.noisy or config.repeats > 1)
            fresh = FreshScorer(scorer, config.repeats) if may_vary else scorer
            asked = fresh if find_ledger(fresh) is not None else CountedScorer(fresh, ledger)
        return asked

    def outcomes() -> MeasuredOutcomes:
        concerned = len(find_concerned(people, config.measure))
        repeats = config.repeats if can_vary(scorer) else 1
        if concerned * repeats > ledger.left:
            each = f"{repeats} answers about each of " if repeats > 1 else ""
            raise BudgetError(
                f"the budget of {ledger.budget:,} rows does not pay for {each}the {concerned:,} people who are "
                "compared",
                location="`budget=`",
                hint="give a larger budget, or fewer people",
            )
        return measure_outcomes(ask(), people, config.measure)

    with ledger.within(config.budget):
        if config.method == "exact":
            say("asking the model", 0.0)
            result = search_exactly(people, outcomes, config, weights=weights, progress=say, limit=limit)
        else:
            settings = {name: getattr(config, name) for name in SHARED_SETTINGS}
            found_by = METHODS[config.method](ask(), people, config, say, limit)
            result = SubgroupResult(**settings | found_by, table_reading=people.reading, seconds=0.0)
    return result.model_copy(
        update={
            "unknown": everybody - len(people),
            "noise": noise,
            "notes": (*result.notes, *filter(None, [find_caution(scorer)])),
            "repeats": 1 if asked is None else answers_per_row(asked),
            "queries": ledger.settle(),
            "time_limited": limit.decided,
            "seconds": time.perf_counter() - started,
        }
    )


def find_subgroups_of_decisions(
    decisions: RecordedDecisions,
    config: SubgroupConfig | None = None,
    *,
    progress: Progress | None = None,
    **settings: Any,
) -> SubgroupResult:
    """Search for subgroups that decisions already made treat differently.

    Args:
        decisions: the decisions, and the people they are about.
        config: the settings; by default subgroups are described by all attributes.
        progress: called with what is being done and the share done, 0 to 1.
        settings: fields of ``SubgroupConfig`` by name, in place of those in ``config``.

    Raises:
        OptionError: the settings make no sense, or need a model that can be asked.
        DataError: error rates without true labels.
    """
    from evenhand.subgroups.exact import search_exactly

    started = time.perf_counter()
    config = SubgroupConfig.of(config, settings)
    if config.method != "exact":
        what = f"method={config.method!r}"
        raise OptionError(f"decisions already made cannot be asked for, as {what} does", hint="leave it out")
    if config.attributes is None:
        config = config.model_copy(update={"attributes": decisions.people.schema.names})
    if decisions.people.counts is not None and config.measure == "score":
        raise OptionError(
            "mean scores need every person, and these rows are counted where they are",
            hint="leave it out, or read a sample of the rows into memory",
        )
    limit = TimeLimit.after(config.time_limit)
    everybody = decisions.people.size
    decisions = decisions.at(known_rows(decisions.people, config.attributes or ()))
    result = search_exactly(
        decisions.people,
        lambda: recorded_outcomes(decisions, config.measure),
        config,
        weights=decisions.weights,
        progress=progress,
        limit=limit,
    )
    return result.model_copy(
        update={
            "unknown": everybody - decisions.people.size,
            "time_limited": limit.decided,
            "seconds": time.perf_counter() - started,
        }
    )


def known_rows(people: People, names: Sequence[str]) -> Integers:
    """Return the positions of people whose attributes that describe subgroups are all known.

    Raises:
        OptionError: there are no such people.
    """
    rows = np.flatnonzero(people.is_known(names))
    if not len(rows):
        raise OptionError(
            f"no person in the data has known values of all of {', '.join(names)}", hint="name fewer of them"
        )
    return rows


def forecast_queries(people: People, config: SubgroupConfig) -> int | None:
    """Return how many individuals a search without a budget asks a black box about at most; None: it has no bound."""
    if config.method not in ("exact", "linear"):
        return None
    return FIRST_QUESTIONS + config.repeats * len(people) + 2 * CHECKED

"""Findings of a search that repeat when a model that can vary is asked again."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from evenhand.core.time_limit import TimeLimit
from evenhand.individual.noise import confirm_flips
from evenhand.individual.search.findings import NOT_QUERIED, DiscriminatoryProfiles
from evenhand.individual.search.space import ProfileSpace
from evenhand.models.ledger import QuestionLedger
from evenhand.models.noise import CHECKED, NoiseCheck, RepeatCheck, check_noise
from evenhand.models.scorer import Scorer
from evenhand.population.independent import uniform_population
from evenhand.schema.people import People
from evenhand.schema.schema import Schema

MOST_NOISY = 200
"""Maximum number of findings of a noisy model that are asked about again."""

CHECK_SHARE = 0.05
"""Share of a budget for people who are asked about twice."""

NOISY_SHARE = 0.5
QUIET_SHARE = 0.2
"""Share of a budget that is reserved for asking about findings again, for a noisy model and for other ones."""


def check_source(
    scorer: Scorer, source: People | Schema, space: ProfileSpace, budget: int | None, rng: np.random.Generator
) -> NoiseCheck | None:
    """Ask about some people twice, or about anybody in the domain where there are none, as far as a budget allows."""
    if isinstance(source, People):
        people = source.individuals[rng.permutation(len(source))]
    else:
        people = uniform_population(space.schema).sample(CHECKED, rng)
    return check_noise(scorer, people, most=CHECKED if budget is None else min(CHECKED, int(CHECK_SHARE * budget)))


def reserve_answers(ledger: QuestionLedger, *, noisy: bool) -> int:
    """Return how many questions of a budget are reserved for ``confirm_against_noise``."""
    if ledger.budget is None:
        return 0
    return int((NOISY_SHARE if noisy else QUIET_SHARE) * max(0.0, ledger.left))


def confirm_against_noise(
    scorer: Scorer,
    space: ProfileSpace,
    found: DiscriminatoryProfiles,
    *,
    noisy: bool,
    confidence: float,
    ledger: QuestionLedger,
    limit: TimeLimit,
    rng: np.random.Generator,
) -> tuple[DiscriminatoryProfiles, RepeatCheck]:
    """Ask again about the worst and the best treated assignment of each finding, and keep the findings that repeat.

    Findings with the widest gap of scores come first, in random order where all gaps are alike, as far as the budget
    and the time limit go. If the model shows noise, only the two assignments that were asked about again are compared.
    """
    compared = found.compared & (found.labels != NOT_QUERIED)
    scores = found.scores[:, :, scorer.favourable]
    rows = np.arange(len(found))
    better = np.argmax(np.where(compared, scores, -np.inf), axis=1)
    other = compared & (found.labels != found.labels[rows, better][:, None])
    worse = np.argmin(np.where(other, scores, np.inf), axis=1)
    gaps = scores[rows, better] - scores[rows, worse]
    order = np.lexsort((rng.random(len(found)), -gaps))
    order = order[other[order].any(axis=1)][: MOST_NOISY if noisy else None]
    pairs = np.stack([worse, better], axis=1)[order]
    sides = space.rows_as(np.repeat(found.unprotected[order], 2, axis=0), pairs.ravel())
    again = confirm_flips(
        scorer,
        sides.reshape(len(order), 2, sides.shape[1]),
        found.labels[order[:, None], pairs],
        confidence=confidence,
        ledger=ledger,
        left=lambda: ledger.left,
        limit=limit,
    )
    kept = order[again.confirmed]
    means, compared = found.scores.copy(), found.compared.copy()
    means[kept[:, None], pairs[again.confirmed], scorer.favourable] = again.scores[again.confirmed]
    if noisy or again.check.noise:
        compared[kept] = False
        compared[kept[:, None], pairs[again.confirmed]] = True
    check = again.check.model_copy(update={"differed": len(found)})
    return replace(found, scores=means, compared=compared)[np.sort(kept)], check

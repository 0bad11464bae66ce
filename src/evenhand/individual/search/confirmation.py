"""Confirmation of findings by the model itself, and by repeated queries if its answers vary."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from evenhand.core.time_limit import TimeLimit
from evenhand.errors import BudgetError
from evenhand.individual.flips import confirm_flips, find_flips, find_widest_pairs
from evenhand.individual.search.findings import NOT_QUERIED, DiscriminatoryProfiles
from evenhand.individual.search.space import ProfileSpace
from evenhand.models.ledger import QuestionLedger, ask_model
from evenhand.models.noise import CHECKED, NoiseCheck, RepeatCheck, check_noise
from evenhand.models.scorer import BATCH_ROWS, Scorer
from evenhand.population.independent import uniform_population
from evenhand.schema.people import People
from evenhand.schema.schema import Schema

CONFIRM_BATCH = 10_000
"""Number of profiles confirmed at a time. An interrupt loses at most this many confirmations."""

MOST_NOISY = 200
"""Maximum number of findings of a noisy model that are queried again."""

CHECK_SHARE = 0.05
"""Fraction of the budget for people who are queried twice."""

NOISY_SHARE = 0.5
QUIET_SHARE = 0.2
"""Fractions of the budget reserved for queries about findings, for noisy models and for all others."""


def confirm_findings(
    scorer: Scorer, space: ProfileSpace, profiles: DiscriminatoryProfiles, ledger: QuestionLedger
) -> tuple[DiscriminatoryProfiles, bool]:
    """Query the missing answers of the model, and return the profiles whose decision changes.

    Missing scores (NaN) mark assignments that a method left out, and all answers of the white box. Answers of the model
    are not queried again. Profiles that the budget does not cover are kept only if their flip was found in answers of
    the model.

    Returns:
        The profiles, and whether an interrupt (Ctrl-C) stopped the queries.
    """
    parts, at, interrupted = [profiles[:0]], 0, False
    try:
        while at < len(profiles):
            part = profiles[at : at + CONFIRM_BATCH]
            # Cumulative number of queries: the budget covers the profiles before it is exceeded.
            missing = np.cumsum(np.isnan(part.scores).any(axis=2).sum(axis=1))
            paid = int(np.searchsorted(missing, ledger.left, side="right"))
            if paid == 0:
                break
            parts.append(_query_missing(scorer, space, part[:paid], ledger))
            at += paid
    except BudgetError:
        pass
    except KeyboardInterrupt:
        interrupted = True
    untested = profiles[at:]
    parts.append(untested[find_flips(untested.labels) & ~np.isnan(untested.scores).all(axis=(1, 2))])
    return DiscriminatoryProfiles.concatenate(parts), interrupted


def _query_missing(
    scorer: Scorer, space: ProfileSpace, profiles: DiscriminatoryProfiles, ledger: QuestionLedger
) -> DiscriminatoryProfiles:
    labels, scores = profiles.labels.copy(), profiles.scores.copy()
    profile, assignment = np.nonzero(np.isnan(scores).any(axis=2))
    substitutes = space.substitutes(profiles.unprotected)
    for at in range(0, len(profile), BATCH_ROWS):
        rows, which = profile[at : at + BATCH_ROWS], assignment[at : at + BATCH_ROWS]
        reply = ask_model(scorer, space.rows_as(profiles.unprotected[rows], substitutes[rows, which]), ledger)
        labels[rows, which], scores[rows, which] = reply.labels, reply.scores
    return replace(profiles, labels=labels, scores=scores)[find_flips(labels)]


def check_source(
    scorer: Scorer, source: People | Schema, space: ProfileSpace, budget: int | None, rng: np.random.Generator
) -> NoiseCheck | None:
    """Query some people twice, within a budget. Without data, draw individuals from the domain."""
    if isinstance(source, People):
        people = source.individuals[rng.permutation(len(source))]
    else:
        people = uniform_population(space.schema).sample(CHECKED, rng)
    return check_noise(scorer, people, most=CHECKED if budget is None else min(CHECKED, int(CHECK_SHARE * budget)))


def reserve_answers(ledger: QuestionLedger, *, noisy: bool) -> int:
    """Return the number of queries reserved for ``confirm_against_noise``."""
    if ledger.budget is None:
        return 0
    return int((NOISY_SHARE if noisy else QUIET_SHARE) * max(0.0, ledger.left))


def confirm_against_noise(
    scorer: Scorer,
    space: ProfileSpace,
    profiles: DiscriminatoryProfiles,
    *,
    noisy: bool,
    confidence: float,
    ledger: QuestionLedger,
    limit: TimeLimit,
    rng: np.random.Generator,
) -> tuple[DiscriminatoryProfiles, RepeatCheck]:
    """Query the worst and the best treated assignment of each finding again, and keep the findings that repeat.

    Findings with the widest gap between scores come first, equal gaps in random order, within the budget and the time
    limit. If the model is noisy, only the two assignments that were queried again are compared.
    """
    compared = profiles.compared & (profiles.labels != NOT_QUERIED)
    worse, better, gaps, differs = find_widest_pairs(
        profiles.labels, profiles.scores[:, :, scorer.favourable], compared
    )
    order = np.lexsort((rng.random(len(profiles)), -gaps))
    order = order[differs[order]][: MOST_NOISY if noisy else None]
    pairs = np.stack([worse, better], axis=1)[order]
    again = confirm_flips(
        scorer,
        space.sides(profiles.unprotected[order], pairs),
        profiles.labels[order[:, None], pairs],
        confidence=confidence,
        ledger=ledger,
        left=lambda: ledger.left,
        limit=limit,
    )
    confirmed, confirmed_pairs = order[again.confirmed][:, None], pairs[again.confirmed]
    means, compared = profiles.scores.copy(), profiles.compared.copy()
    means[confirmed, confirmed_pairs, scorer.favourable] = again.scores[again.confirmed]
    if noisy or again.check.noise:
        compared[confirmed[:, 0]] = False
        compared[confirmed, confirmed_pairs] = True
    check = again.check.model_copy(update={"differed": len(profiles)})
    return replace(profiles, scores=means, compared=compared)[np.sort(confirmed[:, 0])], check

"""Confirmation of findings by the model itself, and by repeated queries if its answers vary."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from evenhand.core.time_limit import TimeLimit
from evenhand.core.typing import Floats, Integers
from evenhand.errors import BudgetError
from evenhand.individual.flips import confirm_flips, find_flips
from evenhand.individual.search.findings import ProfileTable
from evenhand.models.noise import RepeatCheck
from evenhand.models.replies import QuestionLedger, ask_people
from evenhand.models.scorer import Scorer

CONFIRM_BATCH = 10_000
"""Number of profiles confirmed at a time. An interrupt loses at most this many confirmations."""

MOST_NOISY = 200
"""Maximum number of findings of a noisy model that are queried again."""


def confirm_findings(scorer: Scorer, table: ProfileTable, ledger: QuestionLedger) -> tuple[ProfileTable, bool]:
    """Query the missing answers of the model, and return the profiles whose decision changes.

    Missing scores (NaN) mark assignments that a method skipped, and all answers of the white box. Answers of the model
    are not queried again. Profiles that the budget does not cover are kept only if their flip was found in answers of
    the model.

    Returns:
        The profiles, and whether an interrupt (Ctrl-C) stopped the queries.
    """
    labels, scores, at, interrupted = table.labels.copy(), table.scores.copy(), 0, False
    try:
        while at < len(table):
            # Cumulative number of queries: the budget covers the profiles before it is exceeded.
            missing = np.cumsum(np.isnan(scores[at : at + CONFIRM_BATCH]).any(axis=2).sum(axis=1))
            paid = int(np.searchsorted(missing, ledger.left, side="right"))
            if paid == 0:
                break
            part = slice(at, at + paid)
            labels[part], scores[part] = _query_missing(scorer, table[part], ledger)
            at += paid
    except BudgetError:
        pass
    except KeyboardInterrupt:
        interrupted = True
    flips = find_flips(labels)
    flips[at:] &= ~np.isnan(scores[at:]).all(axis=(1, 2))
    return replace(table, labels=labels, scores=scores)[flips], interrupted


def _query_missing(scorer: Scorer, table: ProfileTable, ledger: QuestionLedger) -> tuple[Integers, Floats]:
    """Return all labels and scores of profiles, after querying those that are missing."""
    space, labels, scores = table.space, table.labels.copy(), table.scores.copy()
    profile, assignment = np.nonzero(np.isnan(scores).any(axis=2))
    which = space.substitutes(table.unprotected)[profile, assignment]
    reply = ask_people(scorer, space.rows_as(table.unprotected[profile], which), ledger)
    labels[profile, assignment], scores[profile, assignment] = reply.labels, reply.scores
    return labels, scores


def confirm_against_noise(
    scorer: Scorer,
    table: ProfileTable,
    *,
    noisy: bool,
    confidence: float,
    ledger: QuestionLedger,
    limit: TimeLimit,
    rng: np.random.Generator,
) -> tuple[ProfileTable, RepeatCheck]:
    """Query the worst and the best treated assignment of each finding again, and keep the findings that repeat.

    Findings with the widest gap between scores come first, equal gaps in random order, within the budget and the time
    limit. If the model is noisy, only the two assignments that were queried again are compared.
    """
    order = np.lexsort((rng.random(len(table)), -table.pairs.gaps))
    order = order[table.pairs.differs[order]][: MOST_NOISY if noisy else None]
    pairs = table.pairs.sides[order]
    again = confirm_flips(
        scorer,
        table.space.sides(table.unprotected[order], pairs),
        table.labels[order[:, None], pairs],
        confidence=confidence,
        ledger=ledger,
        left=lambda: ledger.left,
        limit=limit,
    )
    rows, pairs = order[again.confirmed][:, None], pairs[again.confirmed]
    scores, plausible = table.scores.copy(), table.plausible.copy()
    scores[rows, pairs, scorer.favourable] = again.scores[again.confirmed]
    if noisy or again.check.noise:
        plausible[rows[:, 0]] = False
        plausible[rows, pairs] = True
    check = again.check.model_copy(update={"differed": len(table)})
    return replace(table, scores=scores, plausible=plausible)[np.sort(rows[:, 0])], check

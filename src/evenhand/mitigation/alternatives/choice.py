"""Choice of a candidate, by a rule that is fixed before anything is measured: ``RULE``.

Losses of accuracy are paired, relative to the original model or to the same kind of model refitted without changes (see
``find_baseline``). A candidate is feasible if the upper bound of its loss, ``SURENESS`` standard errors above it, is
within the allowed loss. The standard error is that of the loss in a sample of the size of the test set,
``se sqrt(1 + n / m)``, so that the test set confirms it nine times in ten. Among a hundred candidates, some appear more
accurate than their baseline by chance, so a gain counts only to the extent that it exceeds ``GAIN_ERRORS`` standard
errors.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from evenhand.core.typing import Booleans, Floats, Integers
from evenhand.mitigation.alternatives.gaps import RateGap

SURENESS = 1.2816
"""Standard errors of a one-sided 90 % bound."""

GAIN_ERRORS = 2.0
"""Number of standard errors by which gains of accuracy are reduced."""

RULE = (
    "Candidates are compared by cross-fitted decisions about the validation set. A candidate is feasible if its loss "
    "of accuracy is within the allowed loss with 90 % confidence, also in a sample of the size of the test set; gains "
    "count only beyond two standard errors; the original model is always feasible. Among feasible candidates within "
    "one standard error of the smallest gap, the one with the smallest loss is chosen. It replaces the original model "
    "if its gap on the test set is significantly smaller."
)
"""Description of the rule."""


@dataclass(frozen=True, eq=False)
class CandidateRanking:
    """Comparison of all candidates on the validation set. Each array has one entry per candidate.

    Attributes:
        losses: Accuracy of the baseline minus that of the candidate.
        margins: Safety margins of the losses, including gains that do not count.
        gaps: Gaps.
        feasible: Whether the loss plus its margin is within the allowed loss.
        frontier: Whether no other candidate is better in both accuracy and gap.
        chosen: Index of the chosen candidate.
    """

    losses: Floats
    margins: Floats
    gaps: Floats
    feasible: Booleans
    frontier: Booleans
    chosen: int


def rank_candidates(
    accepted: Booleans,
    favourable: Booleans,
    gap: RateGap,
    *,
    baselines: Integers,
    allowed: float,
    new_people: int,
    parameters: Sequence[int],
) -> CandidateRanking:
    """Rank candidates and choose one.

    Args:
        accepted: Decisions, shape (candidates, n), with those of the original model first.
        favourable: True labels, shape (n,).
        gap: Gap between the groups of these people.
        baselines: Baseline of the loss of each candidate, shape (candidates,).
        allowed: Allowed loss of accuracy.
        new_people: Size of the test set.
        parameters: Number of fitted parameters of each candidate.
    """
    n = len(favourable)
    correct = accepted == favourable
    accuracy = correct.mean(axis=1)
    losses = accuracy[baselines] - accuracy
    errors = np.array([paired_error(correct[i], correct[baseline]) for i, baseline in enumerate(baselines)])
    # The loss in a new sample varies with both samples: 1 + n / m times the variance seen here.
    ignored = np.clip(-losses, 0.0, GAIN_ERRORS * errors)
    margins = SURENESS * errors * math.sqrt(1 + n / new_people) + ignored
    feasible = losses + margins <= allowed + 1e-12
    feasible[0] = True
    gaps = np.array([float(gap.sizes(decisions.astype(np.float64))) for decisions in accepted])

    def influence(candidate: int) -> Floats:
        decisions = accepted[candidate].astype(np.float64)
        return gap.influence(decisions, int(gap.differences(decisions).argmax()))

    candidates = list(map(int, np.flatnonzero(feasible)))
    best = candidates[int(np.argmin(gaps[candidates]))]
    smallest = influence(best)
    near = [
        candidate
        for candidate in candidates
        if gaps[candidate] - gaps[best] <= math.sqrt(float(((influence(candidate) - smallest) ** 2).sum()))
    ]
    chosen = min(near, key=lambda candidate: (round(float(losses[candidate]), 12), parameters[candidate], candidate))
    return CandidateRanking(losses, margins, gaps, feasible, find_frontier(losses, gaps), chosen)


def find_baseline(correct: Booleans, refit: int | None) -> int:
    """Choose the baseline for losses of refitted models: the original model (0) or the model refitted without changes.

    The latter is chosen if the original model is more accurate by more than two standard errors. In this case, the
    original model was trained on these people or on other data, and the difference is not a cost of fairness.

    Args:
        correct: Mask of correct decisions, shape (candidates, n).
        refit: Index of the candidate refitted without changes, or None.
    """
    if refit is None:
        return 0
    difference = correct[0].mean() - correct[refit].mean()
    return refit if difference > 2 * paired_error(correct[0], correct[refit]) else 0


def paired_error(correct: Booleans, baseline: Booleans) -> float:
    """Compute the standard error of the difference of two shares of the same people, each of shape (n,)."""
    variance = float((correct != baseline).mean()) - float(correct.mean() - baseline.mean()) ** 2
    return math.sqrt(max(variance, 0.0) / len(correct))


def find_frontier(losses: Floats, gaps: Floats) -> Booleans:
    """Find the candidates that are not dominated in loss and gap. Only the first of equal candidates is kept."""
    order: Integers = np.lexsort((np.arange(len(gaps)), gaps, losses))
    smallest, frontier = math.inf, np.zeros(len(gaps), dtype=np.bool_)
    for candidate in order:
        if gaps[candidate] < smallest:
            smallest, frontier[candidate] = gaps[candidate], True
    return frontier

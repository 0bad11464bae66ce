"""Changes of accuracy and gap on the test set, with simultaneous intervals for the frontier."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from evenhand.core.typing import Booleans, Floats
from evenhand.mitigation.alternatives.gaps import RateGap
from evenhand.mitigation.result import Change
from evenhand.stats.bootstrap import simultaneous_critical

METHOD = "paired, simultaneous over the frontier (largest studentised deviation)"


class PairedChanges(NamedTuple):
    """Changes from the original model by candidate, and the number of standard errors of all intervals."""

    accuracy: dict[int, Change]
    gap: dict[int, Change]
    critical: float


def compare_frontier(
    accepted: Booleans,
    favourable: Booleans,
    gap: RateGap,
    compared: Sequence[int],
    widest: Sequence[tuple[int, int]],
    *,
    confidence: float,
    seed: int,
) -> PairedChanges:
    """Compare accuracy and gap of candidates with those of the original model, for the same people.

    Let D_m be the signed differences whose maximum is the gap, and l and k the pairs that were furthest apart under the
    original model and under the candidate in the validation set. Then

        change <= max over m of D_m(after) - D_l(before),   change >= D_k(after) - max over m of D_m(before),

    so intervals of these smooth contrasts give the ends (the intersection-union principle, see
    ``stats.change_of_largest``).

    Args:
        accepted: Decisions of all candidates, shape (candidates, n), with those of the original model first.
        favourable: True labels, shape (n,).
        gap: Gap between the groups of these people.
        compared: Indices of the compared candidates.
        widest: For each candidate, the rows of ``gap.shares`` that are furthest apart in the validation set.
        confidence: Simultaneous confidence level of all intervals.
        seed: Seed of the critical value.
    """
    if not compared:
        return PairedChanges({}, {}, math.nan)
    n = len(favourable)
    correct = accepted == favourable
    pairs = [(int(a), int(b)) for a, b in gap.pairs]
    models = (0, *compared)
    decisions = {model: accepted[model].astype(np.float64) for model in models}
    differences = {model: gap.differences(decisions[model]) for model in models}
    influence = {
        model: np.stack([gap.influence(decisions[model], pair) for pair in range(len(pairs))], axis=1)
        for model in models
    }
    place = {model: pairs.index(widest[model]) if widest[model] in pairs else 0 for model in models}
    columns, values = [], []
    # Order for each candidate: the change of accuracy, the contrasts for the upper ends, and those for the lower ends.
    for model in compared:
        gained = correct[model].astype(np.float64) - correct[0]
        columns.append(((gained - gained.mean()) / n)[:, None])
        columns.append(influence[model] - influence[0][:, place[0], None])
        columns.append(influence[model][:, place[model], None] - influence[0])
        values.append(gained.mean())
        values.extend(differences[model] - differences[0][place[0]])
        values.extend(differences[model][place[model]] - differences[0])
    contributions: Floats = np.concatenate(columns, axis=1)
    critical = simultaneous_critical(contributions, confidence, rng=np.random.default_rng([seed, 64]))
    reach = critical * np.sqrt((contributions**2).sum(axis=0))
    observed = np.array(values)
    m = len(pairs)
    accuracy, gaps = {}, {}
    for number, model in enumerate(compared):
        block = slice((1 + 2 * m) * number, (1 + 2 * m) * (number + 1))
        centre, width = observed[block], reach[block]
        accuracy[model] = _change(centre[0], centre[0] - width[0], centre[0] + width[0], confidence, n)
        value = float(differences[model].max() - differences[0].max())
        high = float((centre[1 : m + 1] + width[1 : m + 1]).max())
        low = float((centre[m + 1 :] - width[m + 1 :]).min())
        gaps[model] = _change(value, min(low, value), max(high, value), confidence, n)
    return PairedChanges(accuracy, gaps, critical)


def _change(value: float, low: float, high: float, confidence: float, n: int) -> Change:
    return Change(
        value=float(value),
        low=max(-1.0, float(low)),
        high=min(1.0, float(high)),
        confidence=confidence,
        n=n,
        method=METHOD,
    )

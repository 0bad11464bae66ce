"""Changes of accuracy and gap on people never looked at, with intervals that hold together over the frontier."""

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
    """Changes from the given model, by candidate, and the standard errors at which all intervals hold together."""

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
    """Return how accuracy and gap of some candidates differ from the given model's, on the same people.

    With D_m the signed differences of which a gap is the largest, and l and k the pairs that were furthest apart under
    the given model and under the candidate among other people,

        change <= max over m of D_m(after) - D_l(before),   change >= D_k(after) - max over m of D_m(before),

    so that intervals of these contrasts, which are smooth, give the ends (the intersection-union principle: see
    ``stats.change_of_largest``). All of them hold together.

    Args:
        accepted: decisions of all candidates, shape (candidates, n); the given model's first.
        favourable: true labels, shape (n,). gap: between the groups of these people.
        compared: candidates.
        widest: of every candidate the two groups, rows of ``gap.shares``, furthest apart among the validation people.
        confidence: with which all intervals hold together. seed: of what the critical value is drawn from.
    """
    n = len(favourable)
    right = accepted == favourable
    pairs = [(int(a), int(b)) for a, b in gap.pairs]
    decisions = {one: accepted[one].astype(np.float64) for one in (0, *compared)}
    differences = {one: gap.differences(made) for one, made in decisions.items()}
    influence = {
        one: np.stack([gap.influence(made, pair) for pair in range(len(pairs))], axis=1)
        for one, made in decisions.items()
    }
    place = {one: pairs.index(widest[one]) if widest[one] in pairs else 0 for one in decisions}
    columns, values = [], []
    # Of each candidate first the change of accuracy, then per pair the contrast for the upper end, then per pair that
    # for the lower end.
    for one in compared:
        gained = right[one].astype(np.float64) - right[0]
        columns.append(((gained - gained.mean()) / n)[:, None])
        columns.append(influence[one] - influence[0][:, place[0], None])
        columns.append(influence[one][:, place[one], None] - influence[0])
        values.append(gained.mean())
        values.extend(differences[one] - differences[0][place[0]])
        values.extend(differences[one][place[one]] - differences[0])
    if not compared:
        return PairedChanges({}, {}, math.nan)
    contributions: Floats = np.concatenate(columns, axis=1)
    critical = simultaneous_critical(contributions, confidence, rng=np.random.default_rng([seed, 64]))
    reach = critical * np.sqrt((contributions**2).sum(axis=0))
    observed = np.array(values)
    each = 1 + 2 * len(pairs)
    accuracy, gaps = {}, {}
    for number, one in enumerate(compared):
        own = slice(each * number, each * (number + 1))
        centre, width = observed[own], reach[own]
        m = len(pairs)
        accuracy[one] = _change(centre[0], centre[0] - width[0], centre[0] + width[0], confidence, n)
        value = float(differences[one].max() - differences[0].max())
        high = float((centre[1 : m + 1] + width[1 : m + 1]).max())
        low = float((centre[m + 1 :] - width[m + 1 :]).min())
        gaps[one] = _change(value, min(low, value), max(high, value), confidence, n)
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

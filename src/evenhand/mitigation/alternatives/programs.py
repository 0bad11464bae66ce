"""Linear programs for the best rules at every size of the gap: prices of a tilt, thresholds of the groups."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from evenhand.mitigation.alternatives.rules import GroupCutoffs, RuleInputs, Tilt, tilt_features
from evenhand.typing import Booleans, Floats, Integers

PEOPLE = 2_000
"""People that prices are worked out on: drawn at random where there are more."""

LEVELS = (0.95, 0.9, 0.85, 0.8, 0.75, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1, 0.0)
"""Gaps aimed at, as shares of the gap of the model itself: close together where little accuracy is lost."""

BEYOND = (1.25, 1.5, 2.0)
"""How far prices go beyond those that close the gap as the model sees it: it may see less of it than there is."""

CUTS = 80
"""Thresholds that each group chooses among, at equal shares of its people."""


class _Solution(NamedTuple):
    amounts: Floats
    prices: Floats
    gap: float


def _maximise(gain: Floats, rates: Floats, blocks: int, most: float, extra: Any = None) -> _Solution:
    """Maximise ``gain x`` over x in [0, 1] so that within each block of rows of ``rates x`` all differ by ``most``.

    One free number per block is its lowest rate. The prices are the multipliers of the rows: by how much a wider range
    would raise the gain, with the sign of the end that binds; they add up to 0 in each block.

    Args:
        gain: shape (variables,). rates: shape (blocks * groups, variables), or sparse.
        extra: rows of x that add up to 1 each, or None.
    """
    from scipy.optimize import linprog
    from scipy.sparse import csr_array, hstack, vstack

    rows, groups = rates.shape[0], rates.shape[0] // blocks
    lowest = np.kron(np.eye(blocks), np.ones((groups, 1)))
    above = hstack([csr_array(rates), -csr_array(lowest)])  # rate - lowest <= most
    below = -above  # lowest - rate <= 0
    equal = {}
    if extra is not None:
        equal = {
            "A_eq": hstack([csr_array(extra), csr_array((extra.shape[0], blocks))]),
            "b_eq": np.ones(extra.shape[0]),
        }
    found = linprog(
        -np.concatenate([gain, np.zeros(blocks)]),
        A_ub=vstack([above, below]).tocsr(),
        b_ub=np.concatenate([np.full(rows, most), np.zeros(rows)]),
        bounds=[(0, 1)] * len(gain) + [(None, None)] * blocks,
        method="highs",
        **equal,
    )
    marginals = -np.asarray(found.ineqlin.marginals)
    amounts = np.asarray(found.x[: len(gain)])
    return _Solution(amounts, marginals[:rows] - marginals[rows:], most)


def _widest(rates: Floats, blocks: int) -> float:
    return float(np.ptp(rates.reshape(blocks, -1), axis=1).max())


def tilt_path(
    known: RuleInputs, conditions: tuple[bool | None, ...], shares: Floats, *, told: bool, rng: np.random.Generator
) -> Iterator[tuple[str, Tilt]]:
    """Yield tilts that narrow the gap more and more, with a word for how far.

    The prices are the multipliers of the program that gains the most, ``mean((2 p - 1) z)`` over decisions z, with
    rates at most so far apart. Rates are what the scores and the groups' probabilities make of them.

    Args:
        known: about people whose scores were not learnt from their own labels.
        conditions, shares, told: as in ``Tilt``.
        rng: draws the people that prices are worked out on, where there are more than ``PEOPLE``.
    """
    n = len(known.score)
    some = rng.permutation(n)[:PEOPLE]
    features = tilt_features(known, conditions, shares, told=told)[some] / len(some)
    gain = (2 * known.score[some] - 1) / len(some)
    widest = _widest(features.T @ (gain > 0), len(conditions))

    def tilted(prices: Floats) -> Tilt:
        # Acceptance pays 2 p - 1 there and p - 1/2 here.
        return Tilt(conditions, prices.reshape(len(conditions), -1) / 2, shares, told)

    prices = np.zeros(features.shape[1])
    for level in LEVELS if widest > 0 else ():
        prices = _maximise(gain, features.T, len(conditions), level * widest).prices
        yield f"towards {level:.0%} of the gap".replace("%", " %"), tilted(prices)
    for factor in BEYOND if prices.any() else ():
        yield f"{factor:g} times the prices that close it", tilted(factor * prices)


class _Curve(NamedTuple):
    """One group: thresholds, and at each how many are accepted rightly and the rates, shape (conditions, cuts)."""

    thresholds: Floats
    right: Floats
    rates: Floats


def _trace_curve(score: Floats, favourable: Booleans, conditions: Sequence[bool | None], n: int) -> _Curve:
    ascending = np.sort(score)
    middle = (ascending[1:] + ascending[:-1]) / 2
    places = np.unique(np.linspace(0, len(middle) - 1, CUTS).astype(np.int64))
    thresholds = np.unique(np.concatenate([[-1.0, 0.5, 2.0], middle[places]]))
    accepted = score > thresholds[:, None]
    right = (accepted == favourable).sum(axis=1) / n
    among = [np.ones_like(favourable) if one is None else favourable == one for one in conditions]
    return _Curve(thresholds, right, np.array([accepted[:, here].mean(axis=1) for here in among]))


def threshold_path(
    known: RuleInputs, group: Integers, favourable: Booleans, conditions: tuple[bool | None, ...], groups: int
) -> Iterator[tuple[str, GroupCutoffs]]:
    """Yield thresholds for every group that narrow the gap more and more, with a word for how far.

    A program over the groups' curves: each group mixes points of its curve, as many are decided rightly as possible,
    and rates are at most so far apart. Where a single rate is to be alike, a mixture of points is a threshold between
    them; where two are, some of the people between them are decided by lot (Hardt, Price, Srebro, "Equality of
    opportunity in supervised learning", NIPS 2016).

    Args:
        known: about people whose scores were not learnt from their own labels.
        group, favourable: of the same people, shape (n,).
        conditions: as in ``Tilt``.
        groups: how many there are.
    """
    curves = [
        _trace_curve(known.score[group == one], favourable[group == one], conditions, len(group))
        for one in range(groups)
    ]
    from scipy.linalg import block_diag

    rates = np.concatenate([block_diag(*(curve.rates[c] for curve in curves)) for c in range(len(conditions))])
    gain = np.concatenate([curve.right for curve in curves])
    together = block_diag(*(np.ones(len(curve.thresholds)) for curve in curves))
    own = np.concatenate([curve.thresholds == 0.5 for curve in curves])
    widest = _widest(rates @ own, len(conditions))
    ends = np.cumsum([len(curve.thresholds) for curve in curves])[:-1]
    for level in LEVELS if widest > 0 else ():
        mixed = _maximise(gain, rates, len(conditions), level * widest, together).amounts
        cuts = [
            _choose_cuts(curve, amounts, known.score[group == one], favourable[group == one], conditions)
            for one, (curve, amounts) in enumerate(zip(curves, np.split(mixed, ends), strict=True))
        ]
        yield f"{level:.0%} of the gap".replace("%", " %"), GroupCutoffs(tuple(cuts))


def _choose_cuts(
    curve: _Curve, amounts: Floats, score: Floats, favourable: Booleans, conditions: Sequence[bool | None]
) -> tuple[tuple[float, float], ...]:
    """Return the thresholds of one group from the mixture of points on its curve."""
    used = np.flatnonzero(amounts > 1e-9)
    if len(used) > 1 and len(conditions) > 1:
        share = amounts[used] / amounts[used].sum()
        return tuple(zip(map(float, share), map(float, curve.thresholds[used]), strict=True))
    if len(used) == 1:
        return ((1.0, float(curve.thresholds[used[0]])),)
    # One rate alone: the threshold that gives the mixture's rate.
    condition = conditions[0]
    among = np.sort(score if condition is None else score[favourable == condition])
    place = round((1 - float(amounts @ curve.rates[0])) * len(among))
    padded = np.concatenate([[-1.0], among, [2.0]])
    return ((1.0, float((padded[place] + padded[place + 1]) / 2)),)

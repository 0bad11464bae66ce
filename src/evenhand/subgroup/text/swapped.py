"""What swapping words changes: the same texts with every group's words in turn."""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import NDArray

from evenhand.stats import clustered_means
from evenhand.stats.level import normal_quantile
from evenhand.subgroup.text.config import Config
from evenhand.subgroup.text.control import controlled
from evenhand.subgroup.text.counts import Bools, Floats
from evenhand.subgroup.text.mentions import Mentions
from evenhand.subgroup.text.result import Effect
from evenhand.subgroup.text.seeds import Seed


def effects(
    taken: Sequence[Seed], values: Sequence[Floats], said: Mentions, counted: bool, config: Config
) -> tuple[tuple[Effect, ...], float | None]:
    """What it does to a text to speak of one group and not of the others, and the critical value of the intervals.

    Args:
        taken: the texts.
        values: 0 or 1, or a score, of each text's variants, in the order of ``slot.swapped``.
        said: the categories.
        counted: whether they are 0 and 1.
        config: settings.
    """
    columns = [(axis, group) for axis, one in enumerate(said.swappers) for group in one.category.groups]
    column = {key: i for i, key in enumerate(columns)}
    rates, rests = np.full((2, len(taken), len(columns)), np.nan)
    answers = np.zeros((len(taken), len(columns)))
    for row, (seed, given) in enumerate(zip(taken, values, strict=True)):
        where = [column[seed.axis, group] for group in seed.slot.swapped]
        rates[row, where] = given
        rests[row, where] = (given.sum() - given) / (len(given) - 1)
        answers[row, where] = len(given) - 1
    differences = rates - rests
    names: dict[Hashable, int] = {}
    clusters = np.array([names.setdefault(seed.cluster, len(names)) for seed in taken], dtype=np.int64)
    means = np.nan_to_num(np.nansum(differences, axis=0) / np.maximum((~np.isnan(differences)).sum(axis=0), 1))
    enough = (~np.isnan(differences)).sum(axis=0) >= config.least_texts
    for axis, one in enumerate(said.swappers):
        groups = one.category.groups
        if len(groups) == 2:  # the gain of one is the loss of the other: told of the one that loses
            first, second = column[axis, groups[0]], column[axis, groups[1]]
            enough[second if means[first] <= means[second] else first] = False
    kept = np.flatnonzero(enough)
    if len(kept) == 0:
        return (), None
    reach = 1.0 if counted else max(float(np.nanmax(np.abs(differences[:, kept]))), np.finfo(float).tiny)
    plain = float(normal_quantile(config.confidence))
    alone = clustered_means(differences[:, kept], clusters, reach, z=plain)
    rng = np.random.default_rng(config.seed)
    account = controlled(alone.z, config.control, config.confidence, lambda: alone.maxima(config.permutations, rng))
    measured = clustered_means(differences[:, kept], clusters, reach, z=account.critical)
    account = dataclasses.replace(account, z=measured.z)
    low, high = np.clip(measured.interval(account.critical), -1, 1)
    plain_low, plain_high = np.clip(alone.interval(plain), -1, 1)
    p = account.p
    found = account.stands_out(p, low, high, config.margin)
    order = np.lexsort((-np.abs(measured.z), -np.maximum(low, -high)))
    under = _explained(order, [columns[i][0] for i in kept], found, rates[:, kept], clusters, reach, account.critical)
    return tuple(
        Effect(
            rules={said.names[columns[kept[i]][0]]: (columns[kept[i]][1],)},
            words=f"{said.names[columns[kept[i]][0]]} {columns[kept[i]][1]}",
            size=int(measured.n[i]),
            rest=int(answers[:, kept[i]].sum()),
            positives=None,
            rest_positives=None,
            rate=float(np.nanmean(rates[:, kept[i]])),
            rest_rate=float(np.nanmean(rests[:, kept[i]])),
            gap=measured.mean[i],
            low=low[i],
            high=high[i],
            plain_low=plain_low[i],
            plain_high=plain_high[i],
            z=measured.z[i],
            adjusted_p=p[i],
            found=bool(found[i]),
            clusters=int(measured.clusters[i]),
            under=parent,
        )
        for i, parent in zip(order.tolist(), under, strict=True)
    ), account.critical


def _explained(
    order: NDArray[np.int64],
    axes: Sequence[int],
    found: Bools,
    rates: Floats,
    clusters: NDArray[np.int64],
    reach: float,
    critical: float,
) -> list[int | None]:
    """For each effect, in order, the place of one of the same category without which nothing is left of it.

    Where one group fares much worse than the others, each of the others fares better than "the others", which are then
    worse by that one group.
    """
    under: list[int | None] = [None] * len(order)
    causes: dict[int, dict[int, int]] = {}
    for place, i in enumerate(order.tolist()):
        if not found[i]:
            continue
        known = causes.setdefault(axes[i], {})
        others = [j for j, axis in enumerate(axes) if axis == axes[i] and j != i and j not in known]
        if known and not (others and _clear(rates[:, i] - _mean(rates[:, others]), clusters, reach, critical)):
            under[place] = min(known.values())
        else:
            known[i] = place
    return under


def _clear(differences: Floats, clusters: NDArray[np.int64], reach: float, critical: float) -> bool:
    return abs(float(clustered_means(differences[:, None], clusters, reach, z=critical).z[0])) > critical


def _mean(rates: Floats) -> Floats:
    """Of each row's known numbers; NaN where there is none."""
    known = (~np.isnan(rates)).sum(axis=1)
    return np.asarray(np.divide(np.nansum(rates, axis=1), known, out=np.full(len(rates), np.nan), where=known > 0))

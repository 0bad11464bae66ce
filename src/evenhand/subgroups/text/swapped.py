"""What swapping words changes: the same texts with every group's words in turn."""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from evenhand.core.typing import Booleans, Floats, Integers
from evenhand.datasets.identity.swapping import SwapTemplate
from evenhand.stats.level import normal_quantile
from evenhand.stats.mean import clustered_means
from evenhand.subgroups.config import TextSubgroupConfig
from evenhand.subgroups.control import adjust_text_tests, significant, text_p_values
from evenhand.subgroups.result import SwapEffect
from evenhand.subgroups.text.mentions import Mentions


def measure_swap_effects(
    taken: Sequence[SwappableText], values: Sequence[Floats], said: Mentions, counted: bool, config: TextSubgroupConfig
) -> tuple[tuple[SwapEffect, ...], float | None]:
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
    enough = (~np.isnan(differences)).sum(axis=0) >= config.min_texts
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
    account = adjust_text_tests(alone.z, config, lambda: alone.maxima(config.permutations, rng))
    measured = clustered_means(differences[:, kept], clusters, reach, z=account.critical)
    account = dataclasses.replace(account, z=measured.z)
    low, high = np.clip(measured.interval(account.critical), -1, 1)
    plain_low, plain_high = np.clip(alone.interval(plain), -1, 1)
    p = text_p_values(account)
    found = significant(account, p, low, high, config.margin)
    order = np.lexsort((-np.abs(measured.z), -np.maximum(low, -high)))
    under = _find_explained(
        order, [columns[i][0] for i in kept], found, rates[:, kept], clusters, reach, account.critical
    )
    return tuple(
        SwapEffect(
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


def _find_explained(
    order: Integers,
    axes: Sequence[int],
    found: Booleans,
    rates: Floats,
    clusters: Integers,
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
        if known and not (others and _is_clear(rates[:, i] - _known_mean(rates[:, others]), clusters, reach, critical)):
            under[place] = min(known.values())
        else:
            known[i] = place
    return under


def _is_clear(differences: Floats, clusters: Integers, reach: float, critical: float) -> bool:
    return abs(float(clustered_means(differences[:, None], clusters, reach, z=critical).z[0])) > critical


def _known_mean(rates: Floats) -> Floats:
    """Of each row's known numbers; NaN where there is none."""
    known = (~np.isnan(rates)).sum(axis=1)
    return np.asarray(np.divide(np.nansum(rates, axis=1), known, out=np.full(len(rates), np.nan), where=known > 0))


# Texts whose words for people can be swapped.


@dataclass(frozen=True)
class SwappableText:
    """A text whose words can be swapped.

    Attributes:
        axis: position of the category whose words they are.
        row: position of the text in the data.
        slot: the text and what takes the words' place. Where it speaks of several groups of the category, the one
            spoken of first gives up its place, and the group that takes it gets the other's.
        cluster: which texts count as one.
    """

    axis: int
    row: int
    slot: SwapTemplate
    cluster: Hashable


def select_swappable(
    texts: Sequence[str],
    said: Mentions,
    rows: Integers,
    clusters: Sequence[Hashable] | None,
    most: int,
    rng: np.random.Generator,
) -> list[SwappableText]:
    """For each category texts to swap words in: in random order, each set of variants once.

    Args:
        texts: all texts.
        said: who they speak of.
        rows: those that may be taken.
        clusters: which texts belong together; by default those that are the same with the category's words cut out.
        most: texts per category.
    """
    found = []
    for axis, swapper in enumerate(said.swappers):
        seen: set[frozenset[str]] = set()
        for row in rng.permutation(rows[said.any[rows, axis]]).tolist():
            if len(seen) == most:
                break
            for slot in swapper.slots(texts[row])[:1]:
                cluster = slot.pieces[::2] if clusters is None else clusters[row]
                seed = SwappableText(axis, row, slot, cluster)
                variants = frozenset(slot.variants)
                if variants not in seen:
                    seen.add(variants)
                    found.append(seed)
    return found

"""Effects of swapping words: the same texts with the words of each group."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from evenhand.core.typing import Floats, Integers
from evenhand.datasets.identity.swapping import SwapTemplate
from evenhand.stats.level import normal_quantile
from evenhand.stats.mean import clustered_means
from evenhand.subgroups.assessment import MaxTCorrection
from evenhand.subgroups.config import TextSubgroupConfig
from evenhand.subgroups.result import SwapEffect
from evenhand.subgroups.text.mentions import Mentions


@dataclass(frozen=True)
class SwappableText:
    """A text whose words can be swapped.

    Attributes:
        axis: Position of the category of the words.
        row: Position of the text in the data.
        slot: The text with its substitutes. If it mentions several groups of the category, the first one is replaced,
            and the substitute group is replaced by the first one.
        cluster: Texts of the same cluster count as one.
    """

    axis: int
    row: int
    slot: SwapTemplate
    cluster: Hashable


def select_swappable(
    texts: Sequence[str],
    mentions: Mentions,
    rows: Integers,
    clusters: Sequence[Hashable] | None,
    max_texts: int,
    rng: np.random.Generator,
) -> list[SwappableText]:
    """Select the texts whose words are swapped, in random order for each category, without repeated sets of variants.

    Args:
        texts: All texts.
        mentions: Groups that they mention.
        rows: Rows of the texts that may be selected.
        clusters: Cluster of each text. If None, texts that are identical without the words of the category.
        max_texts: Maximum number of texts per category.
    """
    selected = []
    for axis, swapper in enumerate(mentions.swappers):
        variants: set[frozenset[str]] = set()
        for row in rng.permutation(rows[mentions.any[rows, axis]]).tolist():
            if len(variants) == max_texts:
                break
            for slot in swapper.slots(texts[row])[:1]:
                own = frozenset(slot.variants)
                if own not in variants:
                    variants.add(own)
                    cluster = slot.pieces[::2] if clusters is None else clusters[row]
                    selected.append(SwappableText(axis, row, slot, cluster))
    return selected


def measure_swap_effects(
    texts: Sequence[SwappableText],
    values: Sequence[Floats],
    mentions: Mentions,
    counted: bool,
    config: TextSubgroupConfig,
) -> tuple[tuple[SwapEffect, ...], float | None]:
    """Compute the effect of naming each group instead of the others, and the critical value of the intervals.

    Args:
        texts: Texts whose words were swapped.
        values: Outcome of each variant of each text, 0 or 1 or a score, in the order of ``slot.swapped``.
        mentions: Categories.
        counted: Whether outcomes are 0 and 1.
        config: Settings.
    """
    columns = [(axis, group) for axis, swapper in enumerate(mentions.swappers) for group in swapper.category.groups]
    position = {column: i for i, column in enumerate(columns)}
    rates, rests = np.full((2, len(texts), len(columns)), np.nan)
    answers = np.zeros((len(texts), len(columns)))
    for row, (text, outcomes) in enumerate(zip(texts, values, strict=True)):
        swapped = [position[text.axis, group] for group in text.slot.swapped]
        rates[row, swapped] = outcomes
        rests[row, swapped] = (outcomes.sum() - outcomes) / (len(outcomes) - 1)
        answers[row, swapped] = len(outcomes) - 1
    differences = rates - rests
    numbers: dict[Hashable, int] = {}
    clusters = np.array([numbers.setdefault(text.cluster, len(numbers)) for text in texts], dtype=np.int64)
    present = (~np.isnan(differences)).sum(axis=0)
    means = np.nan_to_num(np.nansum(differences, axis=0) / np.maximum(present, 1))
    enough = present >= config.min_texts
    for axis, swapper in enumerate(mentions.swappers):
        groups = swapper.category.groups
        if len(groups) == 2:  # the gain of one group is the loss of the other, so only the loss is reported
            one_group, other_group = position[axis, groups[0]], position[axis, groups[1]]
            enough[other_group if means[one_group] <= means[other_group] else one_group] = False
    tested = np.flatnonzero(enough)
    if len(tested) == 0:
        return (), None
    rates, rests, differences = rates[:, tested], rests[:, tested], differences[:, tested]
    reach = 1.0 if counted else max(float(np.nanmax(np.abs(differences))), np.finfo(float).tiny)
    unadjusted = float(normal_quantile(config.confidence))
    single = clustered_means(differences, clusters, reach, z=unadjusted)
    rng = np.random.default_rng(config.seed)
    correction = MaxTCorrection(len(tested), single.maxima(config.permutations, rng), config.confidence)
    critical = correction.critical
    measured = clustered_means(differences, clusters, reach, z=critical)
    low, high = np.clip(measured.interval(critical), -1, 1)
    plain_low, plain_high = np.clip(single.interval(unadjusted), -1, 1)
    p = correction.conservative_p(measured.z)
    is_significant = (p <= 1 - config.confidence + 1e-12) & ((low > 0) | (high < 0))
    is_significant &= np.maximum(-low, high) >= config.margin
    order = np.lexsort((-np.abs(measured.z), -np.maximum(low, -high))).tolist()
    # If one group fares much worse, each of the other groups fares better than the average of the others, which
    # includes that one group. So an effect is explained by the clearer ones of its category if nothing significant is
    # left without them.
    under: dict[int, int | None] = {}
    causes: dict[int, dict[int, int]] = {}
    axes = [columns[i][0] for i in tested]
    for place, i in enumerate(order):
        under[i] = None
        if not is_significant[i]:
            continue
        clearer = causes.setdefault(axes[i], {})
        other_groups = [j for j, axis in enumerate(axes) if axis == axes[i] and j != i and j not in clearer]
        remaining = rates[:, i] - _row_means(rates[:, other_groups])
        if clearer and not (
            other_groups
            and abs(float(clustered_means(remaining[:, None], clusters, reach, z=critical).z[0])) > critical
        ):
            under[i] = min(clearer.values())
        else:
            clearer[i] = place
    effects = []
    for i in order:
        axis, group = columns[tested[i]]
        effects.append(
            SwapEffect(
                rules={mentions.names[axis]: (group,)},
                words=f"{mentions.names[axis]} {group}",
                size=int(measured.n[i]),
                rest=int(answers[:, tested[i]].sum()),
                rate=float(np.nanmean(rates[:, i])),
                rest_rate=float(np.nanmean(rests[:, i])),
                gap=measured.mean[i],
                low=low[i],
                high=high[i],
                plain_low=plain_low[i],
                plain_high=plain_high[i],
                z=measured.z[i],
                adjusted_p=p[i],
                found=bool(is_significant[i]),
                clusters=int(measured.clusters[i]),
                under=under[i],
            )
        )
    return tuple(effects), critical


def _row_means(rates: Floats) -> Floats:
    """Compute the mean of each row without NaN, or NaN if the row has no numbers."""
    present = (~np.isnan(rates)).sum(axis=1)
    return np.asarray(np.divide(np.nansum(rates, axis=1), present, out=np.full(len(rates), np.nan), where=present > 0))

"""Texts whose words for people can be swapped."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evenhand.subgroup.text.mentions import Mentions
from evenhand.texts import Slot


@dataclass(frozen=True)
class Seed:
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
    slot: Slot
    cluster: Hashable

    @property
    def variants(self) -> list[str]:
        """The text with the words of every group that has them."""
        return [self.slot.of(group) for group in self.slot.swapped]


def seeds(
    texts: Sequence[str],
    said: Mentions,
    rows: NDArray[np.int64],
    clusters: Sequence[Hashable] | None,
    most: int,
    rng: np.random.Generator,
) -> list[Seed]:
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
                seed = Seed(axis, row, slot, cluster)
                variants = frozenset(seed.variants)
                if variants not in seen:
                    seen.add(variants)
                    found.append(seed)
    return found

"""The groups of people that rank highest, each under its simplest description."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Top:
    """Groups of people, highest score first.

    Attributes:
        score: what they are ranked by, shape (groups,).
        chosen: a rule set that describes each: the row of each attribute's rules, 0 for none, (groups, attributes).
        length: how long that is to say, see ``candidates.simplicity``.
        copies: how many rule sets of those looked at hold the same people.
        key: the sum of their random keys.
    """

    score: NDArray[np.float64]
    chosen: Ints
    length: NDArray[np.float64]
    copies: Ints
    key: NDArray[np.uint64]

    def __len__(self) -> int:
        return len(self.score)

    def at(self, where: Ints) -> Top:
        """Some of the groups."""
        return Top(**{field.name: getattr(self, field.name)[where] for field in fields(self)})

    def ranked(self) -> Top:
        """Highest score first, among equals the simplest."""
        return self.at(np.lexsort((*self.chosen.T[::-1], self.length, -self.score)))


def empty(attributes: int) -> Top:
    """No groups."""
    none = np.zeros(0, dtype=np.int64)
    return Top(
        score=np.zeros(0),
        chosen=np.zeros((0, attributes), dtype=np.int64),
        length=np.zeros(0),
        copies=none,
        key=np.zeros(0, dtype=np.uint64),
    )


def merge(several: Sequence[Top], keep: int) -> Top:
    """The ``keep`` highest of several; the same people once, under the simplest description.

    Equal scores at the end are told apart by the keys, so that the choice does not depend on who looked at what.
    """
    together = Top(**{field.name: np.concatenate([getattr(one, field.name) for one in several])
                      for field in fields(Top)})  # fmt: skip
    together = together.at(np.lexsort((*together.chosen.T[::-1], together.length, together.key)))
    first = np.flatnonzero(np.concatenate([[True], together.key[1:] != together.key[:-1]])[: len(together)])
    copies = np.add.reduceat(together.copies, first) if len(first) else together.copies
    different = together.at(first)
    best = np.lexsort((different.key, -different.score))[:keep]
    kept = different.at(best)
    return Top(**{field.name: getattr(kept, field.name) for field in fields(Top) if field.name != "copies"},
               copies=copies[best])  # fmt: skip

"""Kinds of people among the findings: groups that are alike, each with one real representative and what it shares."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from evenhand.individual.search.reading.attributes import ranges
from evenhand.individual.search.reading.distance import Floats, Gower, k_medoids
from evenhand.individual.search.reading.parts import KindOfPeople
from evenhand.individual.search.space import Space
from evenhand.individual.search.table import Table
from evenhand.schema import Attribute

KINDS = 6
"""Kinds shown at most."""

AMONG = 500
"""Profiles from which the representatives are chosen."""

COMMON = 2 / 3
"""What so many of a kind have in common, and fewer of the people in the data, is said of it."""


def kinds_of_people(
    table: Table, space: Space, rows: NDArray[np.int64]
) -> tuple[tuple[KindOfPeople, ...], NDArray[np.int64]]:
    """Kinds, the largest first, and the position in the table of each one's representative.

    Args:
        rows: positions of the profiles that representatives are chosen from.
    """
    gower = Gower(space.attributes)
    candidates = rows[:AMONG]
    profiles = table.found.unprotected
    distances = gower.between(profiles[candidates], profiles[candidates])
    chosen = candidates[k_medoids(distances, KINDS)]
    _, member = gower.nearest(profiles, profiles[chosen])
    sizes = np.bincount(member, minlength=len(chosen))
    order = np.argsort(-sizes, kind="stable")
    kinds = tuple(
        KindOfPeople(
            size=int(sizes[k]),
            share=float(sizes[k] / len(profiles)),
            common=_common(space, profiles[member == k]),
            gap=float(np.median(table.gap[member == k])),
        )
        for k in order
    )
    return kinds, chosen[order]


def _common(space: Space, profiles: Floats) -> dict[str, str]:
    """What most of a kind share, for attributes in which that is not true of most people anyway."""
    found = {}
    for i, attribute in enumerate(space.attributes):
        data = None if space.people is None else space.people[:, i]
        said = _typical(attribute, profiles[:, i], data)
        if said is not None:
            found[attribute.name] = said
    return found


def _typical(attribute: Attribute, entries: Floats, data: Floats | None) -> str | None:
    if attribute.discrete_values or (attribute.size or 99) <= 8:
        values, counts = np.unique(entries, return_counts=True)
        best = int(np.argmax(counts))
        if counts[best] < COMMON * len(entries):
            return None
        if data is not None and (data == values[best]).mean() >= COMMON:
            return None
        return attribute.text(values[best])
    edges, names = ranges(attribute, entries if data is None else data)

    def cell(numbers: Floats) -> NDArray[np.int64]:
        return np.clip(np.searchsorted(edges, numbers, side="right") - 1, 0, len(names) - 1)

    cells = cell(entries)
    low, high = np.quantile(cells, [(1 - COMMON) / 2, (1 + COMMON) / 2]).round().astype(int)
    if high - low + 1 > len(names) / 2:
        return None
    if data is not None and ((cell(data) >= low) & (cell(data) <= high)).mean() >= COMMON:
        return None
    return names[low] if low == high else f"{names[low].split(' to ')[0]} to {names[high].split(' to ')[-1]}"

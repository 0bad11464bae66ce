"""Which attributes matter: where the profiles differ from the data, and what undoes a flip."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from evenhand.individual.search.reading.distance import Floats
from evenhand.individual.search.reading.parts import AttributeReading, Share
from evenhand.individual.search.space import Space
from evenhand.individual.search.table import Table
from evenhand.schema import Attribute

TRIED = 100
"""Profiles in which every attribute is changed once."""

RANGES = 8
"""Ranges that a number with many values is shown in."""

ALONE = 0.25
"""A value of more people than this is shown by itself."""


class Predict(Protocol):
    """Labels of individuals (n, attributes), shape (n,)."""

    def __call__(self, individuals: Floats) -> NDArray[np.int64]: ...


def attributes_that_matter(
    table: Table, space: Space, predict: Predict | None, rng: np.random.Generator
) -> tuple[AttributeReading, ...]:
    """Every unprotected attribute, those first that undo most flips, then those that differ most from the data.

    Args:
        predict: asked about two individuals per profile tried and attribute; None: not asked.
    """
    tried = rng.permutation(len(table))[:TRIED]
    found = []
    for i, attribute in enumerate(space.attributes):
        data = None if space.people is None else space.people[:, i]
        shares = _shares(attribute, table.found.unprotected[:, i], data)
        differs = None
        if data is not None:
            differs = sum(abs(share.found - (share.data or 0.0)) for share in shares) / 2
        sensitive = _undone(table, space, predict, tried, i, rng) if predict is not None and data is not None else None
        found.append(
            AttributeReading(
                name=attribute.name,
                differs=differs,
                sensitive=None if sensitive is None or sensitive[1] == 0 else sensitive[0] / sensitive[1],
                tried=0 if sensitive is None else sensitive[1],
                shares=shares,
            )
        )
    return tuple(sorted(found, key=lambda one: (-(one.sensitive or 0.0) * one.tried, -(one.differs or 0.0))))


def _undone(
    table: Table, space: Space, predict: Predict, tried: NDArray[np.int64], column: int, rng: np.random.Generator
) -> tuple[int, int]:
    """For how many of the profiles another value from the data makes the pair be decided alike, and of how many."""
    assert space.people is not None
    rows = table.found.unprotected[tried].copy()
    others = space.people[rng.integers(0, len(space.people), size=len(rows)), column]
    changed = others != rows[:, column]
    rows[:, column] = others
    kept = rows[changed]
    if len(kept) == 0:
        return 0, 0
    sides = [space.rows_as(kept, which[tried][changed]) for which in (table.worse, table.better)]
    labels = predict(np.concatenate(sides))
    same = labels[: len(kept)] == labels[len(kept) :]
    return int(same.sum()), len(kept)


def _shares(attribute: Attribute, found: Floats, data: Floats | None) -> tuple[Share, ...]:
    """How the profiles and the data are spread over an attribute's values, or over ranges where these are many."""
    if attribute.discrete_values:
        cells = attribute.domain()
        edges = np.append(cells - 0.5, cells[-1] + 0.5)
        names = [attribute.text(cell) for cell in cells]
    else:
        edges, names = ranges(attribute, found if data is None else data)

    def spread(entries: Floats) -> Floats:
        known = entries[~np.isnan(entries)]
        counts = np.histogram(known, edges)[0]
        return np.asarray(counts / max(1, len(known)))

    among = spread(found)
    real = None if data is None else spread(data)
    return tuple(
        Share(value=name, found=float(among[k]), data=None if real is None else float(real[k]))
        for k, name in enumerate(names)
    )


def ranges(attribute: Attribute, entries: Floats) -> tuple[Floats, list[str]]:
    """Ranges of a number with about as many entries each: their edges (k + 1,) and names."""
    if attribute.size is not None and attribute.size <= RANGES:
        cells = attribute.domain()
        return np.append(cells - 0.5, cells[-1] + 0.5), [attribute.text(cell) for cell in cells]
    known = entries[~np.isnan(entries)]
    whole = attribute.kind == "integer"
    values, counts = np.unique(known, return_counts=True)
    alone = values[counts > ALONE * len(known)]  # a value of so many (no gain, no debts) is no part of a range
    rest = known[~np.isin(known, alone)]
    inner = np.quantile(rest, np.linspace(0, 1, RANGES + 1 - len(alone))[1:-1]) if len(rest) else np.empty(0)
    after = alone + 1 if whole else np.nextafter(alone, np.inf)
    cuts = np.unique(np.concatenate([np.ceil(inner) if whole else inner, alone, after]))
    cuts = cuts[(cuts > attribute.first) & (cuts <= attribute.last)]
    starts = np.concatenate([[attribute.first], cuts])
    ends = np.concatenate([cuts - 1 if whole else cuts, [attribute.last]])
    names = [
        attribute.text(low)
        if attribute.text(low) == attribute.text(high)
        else f"{attribute.text(low)} to {attribute.text(high)}"
        for low, high in zip(starts, ends, strict=True)
    ]
    last = attribute.last + 0.5 if whole else np.nextafter(attribute.last, np.inf)
    return np.append(starts, last), names

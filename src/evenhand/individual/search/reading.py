"""What people read of a search: kinds of people, attributes that matter, distance to real people.

A kind is a group of profiles that are alike, with one real representative and what its people have in common. An
attribute matters where the profiles differ from the data in it, or where another value of it undoes the flip."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from evenhand.core.result_part import ResultPart
from evenhand.core.typing import Floats, Integers
from evenhand.individual.search.distance import GowerDistance, RankedProfiles, k_medoids, rank_profiles
from evenhand.individual.search.findings import ProfileTable
from evenhand.individual.search.space import ProfileSpace
from evenhand.schema.attribute import Attribute


class ValueShare(ResultPart):
    """One value of an attribute, or a range: how common it is among the found profiles and in the data."""

    value: str
    found: float
    data: float | None


class AttributeReading(ResultPart):
    """What one unprotected attribute has to do with the findings.

    Attributes:
        name: the attribute.
        differs: how far its distribution among the found profiles is from that in the data: the share of profiles that
            would have to change (total variation distance), 0 to 1. None without data.
        sensitive: for how many of the profiles tried the pair is decided alike as soon as this attribute has the value
            of somebody else in the data. None if not asked.
        tried: of how many profiles that is the share.
        shares: values or ranges.
    """

    name: str
    differs: float | None
    sensitive: float | None
    tried: int
    shares: tuple[ValueShare, ...]


class PeopleCluster(ResultPart):
    """Profiles that are alike.

    Attributes:
        size, share: how many of all profiles are nearest to this kind's representative.
        common: attribute -> value or range that at least two in three of them have, and fewer in the data.
        gap: the median score gap among them.
    """

    size: int
    share: float
    common: dict[str, str]
    gap: float


class SearchReading(ResultPart):
    """A search for people to read. All numbers are counts over the profiles found, which are not a random sample.

    Attributes:
        attributes: those that matter most first.
        kinds: largest first; the representative of each is at the same place in ``SearchResult.representatives``.
        gaps: profiles by score gap, in 20 equal steps from 0 to 1.
        distance: the median distance (Gower) of the profiles looked at to the nearest person in the data; None without
            data.
        looked_at: profiles that kinds and distances were computed from: the first by validity and gap.
    """

    attributes: tuple[AttributeReading, ...]
    kinds: tuple[PeopleCluster, ...]
    gaps: tuple[int, ...]
    distance: float | None
    looked_at: int


MAX_TRIED = 100
"""Profiles in which every attribute is changed once."""

RANGES = 8
"""Ranges that a number with many values is shown in."""

ALONE = 0.25
"""A value of more people than this is shown by itself."""


class PredictLabels(Protocol):
    """Labels of individuals (n, attributes), shape (n,)."""

    def __call__(self, individuals: Floats) -> Integers: ...


def rank_attributes(
    table: ProfileTable, space: ProfileSpace, predict: PredictLabels | None, rng: np.random.Generator
) -> tuple[AttributeReading, ...]:
    """Return every unprotected attribute, those first that undo most flips, then those that differ most from the data.

    Args:
        predict: asked about two individuals per profile tried and attribute; None: not asked.
    """
    tried = rng.permutation(len(table))[:MAX_TRIED]
    found = []
    for i, attribute in enumerate(space.shown_attributes):
        data = None if space.people is None else space.people[:, i]
        shares = _value_shares(attribute, table.found.unprotected[:, i], data)
        differs = None
        if data is not None:
            differs = sum(abs(share.found - (share.data or 0.0)) for share in shares) / 2
        sensitive = (
            _count_undone(table, space, predict, tried, i, rng) if predict is not None and data is not None else None
        )
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


def _count_undone(
    table: ProfileTable,
    space: ProfileSpace,
    predict: PredictLabels,
    tried: Integers,
    column: int,
    rng: np.random.Generator,
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


def _value_shares(attribute: Attribute, found: Floats, data: Floats | None) -> tuple[ValueShare, ...]:
    """How the profiles and the data are spread over an attribute's values, or over ranges where these are many."""
    if attribute.is_discrete:
        cells = attribute.domain()
        edges = np.append(cells - 0.5, cells[-1] + 0.5)
        names = [attribute.text(cell) for cell in cells]
    else:
        edges, names = cut_ranges(attribute, found if data is None else data)

    def spread(entries: Floats) -> Floats:
        known = entries[~np.isnan(entries)]
        counts = np.histogram(known, edges)[0]
        return np.asarray(counts / max(1, len(known)))

    among = spread(found)
    real = None if data is None else spread(data)
    # Values that stand for each other have one name.
    places = {name: [k for k, other in enumerate(names) if other == name] for name in names}
    return tuple(
        ValueShare(value=name, found=float(among[at].sum()), data=None if real is None else float(real[at].sum()))
        for name, at in places.items()
    )


def cut_ranges(attribute: Attribute, entries: Floats) -> tuple[Floats, list[str]]:
    """Return the ranges of a number with about as many entries each: their edges (k + 1,) and names."""
    if attribute.size is not None and attribute.size <= RANGES:
        cells = attribute.domain()
        return np.append(cells - 0.5, cells[-1] + 0.5), [attribute.text(cell) for cell in cells]
    known = entries[~np.isnan(entries)]
    whole = attribute.kind == "integer"
    values, counts = np.unique(known, return_counts=True)
    alone = values[counts > ALONE * len(known)]  # a value of so many (no gain, no debts) is not a part of a range
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


KINDS = 6
"""Kinds shown at most."""

AMONG = 500
"""Profiles from which the representatives are chosen."""

COMMON = 2 / 3
"""What so many of a kind have in common, and fewer of the people in the data, is said of it."""


def cluster_people(
    table: ProfileTable, space: ProfileSpace, rows: Integers
) -> tuple[tuple[PeopleCluster, ...], Integers]:
    """Return kinds, the largest first, and the position in the table of each one's representative.

    Args:
        rows: positions of the profiles that representatives are chosen from.
    """
    gower = GowerDistance(space.attributes)
    candidates = rows[:AMONG]
    profiles = table.found.unprotected
    distances = gower.between(profiles[candidates], profiles[candidates])
    chosen = candidates[k_medoids(distances, KINDS)]
    _, member = gower.nearest(profiles, profiles[chosen])
    sizes = np.bincount(member, minlength=len(chosen))
    order = np.argsort(-sizes, kind="stable")
    kinds = tuple(
        PeopleCluster(
            size=int(sizes[k]),
            share=float(sizes[k] / len(profiles)),
            common=_common_values(space, profiles[member == k]),
            gap=float(np.median(table.gap[member == k])),
        )
        for k in order
    )
    return kinds, chosen[order]


def _common_values(space: ProfileSpace, profiles: Floats) -> dict[str, str]:
    """Return what most of a kind share, for attributes in which that is not true of most people anyway."""
    found = {}
    for i, attribute in enumerate(space.shown_attributes):
        data = None if space.people is None else space.people[:, i]
        said = _typical_value(attribute, profiles[:, i], data)
        if said is not None:
            found[attribute.name] = said
    return found


def _typical_value(attribute: Attribute, entries: Floats, data: Floats | None) -> str | None:
    if attribute.is_discrete or (attribute.size or 99) <= 8:
        values, counts = np.unique(entries, return_counts=True)
        best = int(np.argmax(counts))
        if counts[best] < COMMON * len(entries):
            return None
        if data is not None and (data == values[best]).mean() >= COMMON:
            return None
        return attribute.text(values[best])
    edges, names = cut_ranges(attribute, entries if data is None else data)

    def cell(numbers: Floats) -> Integers:
        return np.clip(np.searchsorted(edges, numbers, side="right") - 1, 0, len(names) - 1)

    cells = cell(entries)
    low, high = np.quantile(cells, [(1 - COMMON) / 2, (1 + COMMON) / 2]).round().astype(int)
    if high - low + 1 > len(names) / 2:
        return None
    if data is not None and ((cell(data) >= low) & (cell(data) <= high)).mean() >= COMMON:
        return None
    return names[low] if low == high else f"{names[low].split(' to ')[0]} to {names[high].split(' to ')[-1]}"


# Everything that people read of a search, from the table of all profiles.

STEPS = 20
"""Bars of the distribution of gaps."""


@dataclass(frozen=True)
class RankedReading:
    """A reading, with what it says about single profiles.

    Attributes:
        reading: for people.
        ranked: the most severe profiles.
        representatives: positions in the table, one per kind, in the order of ``reading.kinds``.
    """

    reading: SearchReading
    ranked: RankedProfiles
    representatives: Integers


def read_profiles(
    table: ProfileTable, space: ProfileSpace, predict: PredictLabels | None, rng: np.random.Generator
) -> RankedReading | None:
    """Read a table of profiles; None if it is empty.

    Args:
        predict: labels of individuals, to see which attributes undo a flip; None: the model is not asked.
    """
    if len(table) == 0:
        return None
    ranked = rank_profiles(table, space)
    kinds, representatives = cluster_people(table, space, ranked.rows)
    reading = SearchReading(
        attributes=rank_attributes(table, space, predict, rng),
        kinds=kinds,
        gaps=tuple(np.histogram(np.clip(table.gap, 0, 1), STEPS, (0, 1))[0].tolist()),
        distance=None if ranked.distance is None else float(np.median(ranked.distance)),
        looked_at=len(ranked),
    )
    return RankedReading(reading, ranked, representatives)

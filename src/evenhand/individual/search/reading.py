"""Summary of a search: kinds of people, attributes that matter, and distance to people in the data.

A kind is a group of similar profiles with a representative and the values that most of them share. An attribute matters
if its distribution among the profiles differs from the data, or if another value of it undoes the flip.
"""

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

MAX_TRIED = 100
"""Maximum number of profiles in which every attribute is changed once."""

RANGES = 8
"""Maximum number of ranges of a numeric attribute."""

ALONE = 0.25
"""Share of people above which a single value has a range of its own."""

MAX_KINDS = 6
"""Maximum number of kinds."""

MAX_CANDIDATES = 500
"""Maximum number of profiles among which representatives are selected."""

COMMON = 2 / 3
"""Share of a kind that must have a value in common. Fewer of the people in the data may have it."""

GAP_BINS = 20
"""Number of bins of the distribution of gaps."""


class ValueShare(ResultPart):
    """Share of a value or range of an attribute among the profiles found, and in the data."""

    value: str
    found: float
    data: float | None


class AttributeReading(ResultPart):
    """Relation of an unprotected attribute to the findings.

    Attributes:
        name: Name of the attribute.
        differs: Total variation distance between its distributions among the profiles and in the data, from 0 to 1.
            None without data.
        sensitive: Share of the profiles tried whose flip disappears if the attribute has the value of a random person
            in the data. None if it was not queried.
        tried: Number of profiles tried.
        shares: Shares of values or ranges.
    """

    name: str
    differs: float | None
    sensitive: float | None
    tried: int
    shares: tuple[ValueShare, ...]


class PeopleCluster(ResultPart):
    """Kind of people: a group of similar profiles.

    Attributes:
        size: Number of profiles.
        share: Share of all profiles.
        common: Value or range of each attribute that most of these profiles have, but fewer people in the data.
        gap: Median gap between scores.
    """

    size: int
    share: float
    common: dict[str, str]
    gap: float


class SearchReading(ResultPart):
    """Summary of a search. All numbers are counts over the profiles found, which are not a random sample.

    Attributes:
        attributes: Attributes in descending order of importance.
        kinds: Kinds of people, largest first. ``SearchResult.representatives`` has one profile of each.
        gaps: Number of profiles by gap between scores, in 20 equal bins from 0 to 1.
        distance: Median Gower distance of the profiles to the nearest person in the data. None without data.
        looked_at: Number of profiles used for kinds and distances, selected by validity and gap.
    """

    attributes: tuple[AttributeReading, ...]
    kinds: tuple[PeopleCluster, ...]
    gaps: tuple[int, ...]
    distance: float | None
    looked_at: int


class PredictLabels(Protocol):
    """Function that returns the labels of individuals (n, attributes), shape (n,)."""

    def __call__(self, individuals: Floats) -> Integers: ...


@dataclass(frozen=True)
class RankedReading:
    """Summary with the single profiles it refers to.

    Attributes:
        reading: The summary.
        ranked: Most severe profiles.
        representatives: Position of one profile per kind in the table, in the order of ``reading.kinds``.
    """

    reading: SearchReading
    ranked: RankedProfiles
    representatives: Integers


def read_profiles(
    table: ProfileTable, space: ProfileSpace, predict: PredictLabels | None, rng: np.random.Generator
) -> RankedReading | None:
    """Summarise a table of profiles. None if it is empty.

    Args:
        table: The table.
        space: Space of the search.
        predict: Returns labels of individuals, to determine which attributes undo a flip. None sends no query.
        rng: Source of randomness.
    """
    if len(table) == 0:
        return None
    ranked = rank_profiles(table, space)
    kinds, representatives = cluster_people(table, space, ranked.rows)
    reading = SearchReading(
        attributes=rank_attributes(table, space, predict, rng),
        kinds=kinds,
        gaps=tuple(np.histogram(np.clip(table.gap, 0, 1), GAP_BINS, (0, 1))[0].tolist()),
        distance=None if ranked.distance is None else float(np.median(ranked.distance)),
        looked_at=len(ranked),
    )
    return RankedReading(reading, ranked, representatives)


def rank_attributes(
    table: ProfileTable, space: ProfileSpace, predict: PredictLabels | None, rng: np.random.Generator
) -> tuple[AttributeReading, ...]:
    """Read every unprotected attribute, sorted by the flips it undoes, then by its difference from the data.

    Args:
        table: Table of profiles.
        space: Space of the search.
        predict: Queried about two individuals per profile tried and attribute. None sends no query.
        rng: Source of randomness.
    """
    tried = rng.permutation(len(table))[:MAX_TRIED]
    readings = []
    for i, attribute in enumerate(space.shown_attributes):
        data = None if space.people is None else space.people[:, i]
        shares = _value_shares(attribute, table.profiles.unprotected[:, i], data)
        undone = n = 0
        differs = None
        if data is not None:
            differs = sum(abs(share.found - (share.data or 0.0)) for share in shares) / 2
            if predict is not None:
                undone, n = _count_undone(table, space, predict, tried, i, rng)
        sensitive = undone / n if n else None
        readings.append(
            AttributeReading(name=attribute.name, differs=differs, sensitive=sensitive, tried=n, shares=shares)
        )
    order = sorted(
        readings, key=lambda reading: (-(reading.sensitive or 0.0) * reading.tried, -(reading.differs or 0.0))
    )
    return tuple(order)


def _count_undone(
    table: ProfileTable,
    space: ProfileSpace,
    predict: PredictLabels,
    tried: Integers,
    column: int,
    rng: np.random.Generator,
) -> tuple[int, int]:
    """Count the profiles whose flip disappears with another value from the data, and the profiles tried."""
    assert space.people is not None
    rows = table.profiles.unprotected[tried].copy()
    values = space.people[rng.integers(0, len(space.people), size=len(rows)), column]
    changed = values != rows[:, column]
    rows[:, column] = values
    rows = rows[changed]
    if len(rows) == 0:
        return 0, 0
    sides = [space.rows_as(rows, which[tried][changed]) for which in (table.worse, table.better)]
    worse, better = np.split(predict(np.concatenate(sides)), 2)
    return int((worse == better).sum()), len(rows)


def _value_shares(attribute: Attribute, entries: Floats, data: Floats | None) -> tuple[ValueShare, ...]:
    """Compute the distribution of profiles and data over an attribute's values, or over ranges of many values."""
    if attribute.is_discrete:
        edges, names = _cell_edges(attribute)
    else:
        edges, names = cut_ranges(attribute, entries if data is None else data)

    def distribution(values: Floats) -> Floats:
        present = values[~np.isnan(values)]
        return np.asarray(np.histogram(present, edges)[0] / max(1, len(present)))

    among = distribution(entries)
    real = None if data is None else distribution(data)
    # Linked values that represent the same people have the same name.
    places = {name: [k for k, other in enumerate(names) if other == name] for name in names}
    return tuple(
        ValueShare(value=name, found=float(among[at].sum()), data=None if real is None else float(real[at].sum()))
        for name, at in places.items()
    )


def _cell_edges(attribute: Attribute) -> tuple[Floats, list[str]]:
    """Return edges around each value, shape (values + 1,), and the names of the values."""
    cells = attribute.domain()
    return np.append(cells - 0.5, cells[-1] + 0.5), [attribute.text(cell) for cell in cells]


def cut_ranges(attribute: Attribute, entries: Floats) -> tuple[Floats, list[str]]:
    """Cut a number into ranges with about the same number of entries. Return their edges (k + 1,) and names."""
    if attribute.size is not None and attribute.size <= RANGES:
        return _cell_edges(attribute)
    present = entries[~np.isnan(entries)]
    is_whole = attribute.kind == "integer"
    values, counts = np.unique(present, return_counts=True)
    frequent = values[counts > ALONE * len(present)]  # a frequent value (no gain, no debts) is not part of a range
    remaining = present[~np.isin(present, frequent)]
    inner = (
        np.quantile(remaining, np.linspace(0, 1, RANGES + 1 - len(frequent))[1:-1]) if len(remaining) else np.empty(0)
    )
    next_values = frequent + 1 if is_whole else np.nextafter(frequent, np.inf)
    cuts = np.unique(np.concatenate([np.ceil(inner) if is_whole else inner, frequent, next_values]))
    cuts = cuts[(cuts > attribute.first) & (cuts <= attribute.last)]
    starts = np.concatenate([[attribute.first], cuts])
    ends = np.concatenate([cuts - 1 if is_whole else cuts, [attribute.last]])
    texts = [(attribute.text(low), attribute.text(high)) for low, high in zip(starts, ends, strict=True)]
    names = [low if low == high else f"{low} to {high}" for low, high in texts]
    upper_edge = attribute.last + 0.5 if is_whole else np.nextafter(attribute.last, np.inf)
    return np.append(starts, upper_edge), names


def cluster_people(
    table: ProfileTable, space: ProfileSpace, rows: Integers
) -> tuple[tuple[PeopleCluster, ...], Integers]:
    """Group profiles into kinds, the largest first. Return them with the positions of their representatives.

    Args:
        table: Table of profiles.
        space: Space of the search.
        rows: Positions of the profiles among which representatives are selected.
    """
    gower = GowerDistance(space.attributes)
    profiles, candidates = table.profiles.unprotected, rows[:MAX_CANDIDATES]
    distances = gower.between(profiles[candidates], profiles[candidates])
    medoids = candidates[k_medoids(distances, MAX_KINDS)]
    _, kind = gower.nearest(profiles, profiles[medoids])
    sizes = np.bincount(kind, minlength=len(medoids))
    order = np.argsort(-sizes, kind="stable")
    clusters = tuple(
        PeopleCluster(
            size=int(sizes[k]),
            share=float(sizes[k] / len(profiles)),
            common=_common_values(space, profiles[kind == k]),
            gap=float(np.median(table.gap[kind == k])),
        )
        for k in order
    )
    return clusters, medoids[order]


def _common_values(space: ProfileSpace, profiles: Floats) -> dict[str, str]:
    """Return the values that most of a kind share and fewer of the people in the data, by attribute."""
    common = {}
    for i, attribute in enumerate(space.shown_attributes):
        data = None if space.people is None else space.people[:, i]
        value = _typical_value(attribute, profiles[:, i], data)
        if value is not None:
            common[attribute.name] = value
    return common


def _typical_value(attribute: Attribute, entries: Floats, data: Floats | None) -> str | None:
    if attribute.is_discrete or (attribute.size or 99) <= RANGES:
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

    low, high = np.quantile(cell(entries), [(1 - COMMON) / 2, (1 + COMMON) / 2]).round().astype(int)
    if high - low + 1 > len(names) / 2:
        return None
    if data is not None and ((cell(data) >= low) & (cell(data) <= high)).mean() >= COMMON:
        return None
    return names[low] if low == high else f"{names[low].split(' to ')[0]} to {names[high].split(' to ')[-1]}"

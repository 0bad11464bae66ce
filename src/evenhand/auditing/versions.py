"""What every audit says of its data and of the libraries that took part."""

from __future__ import annotations

import hashlib
import importlib.metadata
from collections.abc import Sequence

import numpy as np

from evenhand import __version__
from evenhand.auditing.result import DataCard
from evenhand.schema.columns import PeopleWeights
from evenhand.schema.people import People


def count_values(people: People, names: Sequence[str]) -> dict[str, dict[str, int]]:
    """Return how many people have each value of these attributes."""
    counts = {}
    for attribute in (people.schema[name] for name in names):
        known = people.is_known([attribute.name])
        column = people.individuals[known, people.schema.position(attribute.name)]
        if people.counts is None:
            entries, sizes = np.unique(column, return_counts=True)
        else:
            entries, code = np.unique(column, return_inverse=True)
            sizes = np.bincount(code, weights=people.counts[known])
        counts[attribute.name] = {attribute.text(entry): int(size) for entry, size in zip(entries, sizes, strict=True)}
    return counts


def make_data_card(people: People, name: str, weights: PeopleWeights | None) -> DataCard:
    """Return who was in the data that a model was asked about, with its fingerprint."""
    fingerprint = hashlib.sha256(np.ascontiguousarray(people.individuals).tobytes())
    for column in people.carried_columns():
        fingerprint.update("\x1f".join(map(str, column)).encode("utf-8", "surrogatepass"))
    fingerprint.update(np.ascontiguousarray(people.labels).tobytes())
    if weights is not None:
        fingerprint.update(weights.values.tobytes())
    return DataCard(
        name=name,
        people=len(people),
        dropped=people.dropped,
        fingerprint=fingerprint.hexdigest(),
        counts=count_values(people, people.schema.protected),
        unknown=people.count_unknown(),
        base_rate=float(np.average(people.favourable, weights=None if weights is None else weights.values)),
    )


def library_versions() -> dict[str, str]:
    """Return the versions of Python and of the libraries that take part in an audit."""
    import platform

    libraries = {name: importlib.metadata.version(name) for name in ("numpy", "scipy", "scikit-learn")}
    return {"python": platform.python_version(), "evenhand": __version__} | libraries

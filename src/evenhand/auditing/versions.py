"""What every audit says of its data and of the libraries that took part."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Sequence

import numpy as np

from evenhand.schema import People


def count_values(people: People, names: Sequence[str]) -> dict[str, dict[str, int]]:
    """Return how many people have each value of these attributes."""
    counts = {}
    for attribute in (people.schema[name] for name in names):
        column = people.individuals[people.is_known([attribute.name]), people.schema.position(attribute.name)]
        entries, sizes = np.unique(column, return_counts=True)
        counts[attribute.name] = {attribute.text(entry): int(size) for entry, size in zip(entries, sizes, strict=True)}
    return counts


def library_versions() -> dict[str, str]:
    """Return the versions of Python and of the libraries that take part in an audit."""
    import platform

    libraries = {name: importlib.metadata.version(name) for name in ("evenhand", "numpy", "scipy", "scikit-learn")}
    return {"python": platform.python_version()} | libraries

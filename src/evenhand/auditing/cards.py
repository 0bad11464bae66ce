"""Descriptions of the data and of the libraries of an audit."""

from __future__ import annotations

import hashlib
import importlib.metadata
import platform
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from evenhand import __version__
from evenhand.auditing.result import DataCard
from evenhand.core.typing import Floats, Integers
from evenhand.schema.people import People


def make_data_card(
    people: People,
    name: str,
    contents: Iterable[Any],
    *,
    recorded: bool,
    dropped: int,
    held_out: bool = False,
    base_rate: float | None = None,
) -> DataCard:
    """Describe the data of an audit by aggregates.

    Args:
        people: People in the data.
        name: Name of the data in reports.
        contents: Arrays and bytes from which the fingerprint is computed. None entries are ignored.
        recorded: Whether recorded decisions are audited. Their groups are defined by all attributes.
        dropped: Number of excluded rows.
        held_out: Whether it is known that the model was not trained on these people.
        base_rate: Share of favourable true labels.
    """
    fingerprint = hashlib.sha256()
    for content in contents:
        if content is not None:
            fingerprint.update(content if isinstance(content, bytes) else np.ascontiguousarray(content).tobytes())
    return DataCard(
        name=name,
        people=people.size,
        dropped=dropped,
        fingerprint=fingerprint.hexdigest(),
        counts=_count_values(people, people.schema.names if recorded else people.schema.protected),
        unknown=people.count_unknown(),
        base_rate=base_rate,
        held_out=held_out,
        unlabelled=people.unlabelled,
    )


def measure_base_rate(people: People, weights: Floats | Integers | None) -> float | None:
    """Compute the share of favourable true labels among people with a true label. None if their weights sum to 0."""
    if people.labels is None:
        return None
    labelled = people.true_labels >= 0
    weights = np.ones(int(labelled.sum())) if weights is None else weights[labelled]
    return float(np.average(people.true_labels[labelled], weights=weights)) if weights.sum() > 0 else None


def _count_values(people: People, names: Sequence[str]) -> dict[str, dict[str, int]]:
    """Count the people with each value of some attributes."""
    counts = {}
    for attribute in (people.schema[name] for name in names):
        present = people.is_known([attribute.name])
        column = people.individuals[present, people.schema.position(attribute.name)]
        entries, codes = np.unique(column, return_inverse=True)
        sizes = np.bincount(codes, weights=None if people.counts is None else people.counts[present])
        counts[attribute.name] = {attribute.text(entry): int(size) for entry, size in zip(entries, sizes, strict=True)}
    return counts


def library_versions() -> dict[str, str]:
    """Return the versions of Python and of the libraries used in an audit."""
    libraries = {name: importlib.metadata.version(name) for name in ("numpy", "scipy", "scikit-learn")}
    return {"python": platform.python_version(), "evenhand": __version__} | libraries

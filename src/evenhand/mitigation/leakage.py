"""Leakage of test data: profiles that must not be trained on, and people in several sets."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from evenhand.core.typing import Floats
from evenhand.individual.flips import Variants
from evenhand.mitigation.findings import Findings
from evenhand.mitigation.split import Split
from evenhand.schema.schema import Schema


def drop_test_profiles(findings: Findings, split: Split) -> tuple[Findings, int]:
    """Remove profiles of the test set from findings, and count them.

    A model trained on these profiles would be tested on its training data. Profiles that also occur in the training or
    validation set are kept.
    """
    removed, profiles = 0, []
    schema = split.test.schema
    for profile_set in findings.profiles:
        train, validation, test = (
            _distinct_rows(merge_counterparts(schema, people.individuals, profile_set.protected))
            for people in (split.train, split.validation, split.test)
        )
        leaking = test - train - validation
        merged = merge_counterparts(schema, profile_set.individuals, profile_set.protected)
        mask = [row.tobytes() not in leaking for row in merged + 0.0]
        removed += mask.count(False)
        profiles.append(replace(profile_set, individuals=profile_set.individuals[mask]))
    return replace(findings, profiles=tuple(profiles)), removed


def merge_counterparts(schema: Schema, individuals: Floats, protected: tuple[str, ...]) -> Floats:
    """Map individuals (n, attributes) to rows that are equal for all counterparts."""
    if schema.constrains_people:
        return Variants.of(schema, protected, individuals).representatives[:, : len(schema.attributes)]
    return individuals[:, [i for i, name in enumerate(schema.names) if name not in protected]]


def count_overlap(split: Split) -> int:
    """Count the people of the test set who are identical, label included, to people of the other sets."""
    width = len(split.test.schema.attributes)
    train, validation, test = (
        np.column_stack([people.individuals[:, :width], np.asarray(people.labels, dtype=np.float64)])
        for people in (split.train, split.validation, split.test)
    )
    other = _distinct_rows(train) | _distinct_rows(validation)
    return sum(row.tobytes() in other for row in test + 0.0)


def _distinct_rows(rows: Floats) -> set[bytes]:
    return {row.tobytes() for row in rows + 0.0}

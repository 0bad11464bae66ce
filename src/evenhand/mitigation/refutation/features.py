"""Binary features of people, given as conditions in a file, and cells of people with equal features."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import permutations
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from evenhand.core.config import unknown_entry
from evenhand.core.configuration import read_configuration
from evenhand.core.expressions import quote_word
from evenhand.core.typing import Booleans, Floats, Integers
from evenhand.errors import DataError, OptionError
from evenhand.schema.constraint import Constraint, parse_constraint
from evenhand.schema.people import People
from evenhand.schema.schema import Schema

FeatureSource: TypeAlias = Path | str | Mapping[str, Any] | Sequence[str]
"""File of features, its content, or a list of conditions."""

MAX_FEATURES, MAX_GROUPS, MIN_GROUP_SIZE = 30, 20, 30
"""Maximum numbers of features and groups, and minimum size of a group. Smaller groups are pooled."""

EXAMPLE = "for example:\n     features:\n       - age >= 35\n       - housing == own"


class FeatureFile(NamedTuple):
    """Conditions by name: features, and groups if there are any."""

    features: dict[str, Constraint]
    groups: dict[str, Constraint]


def read_features(source: FeatureSource, schema: Schema) -> FeatureFile:
    """Read features, conditions such as ``age >= 35`` or ``housing == own``, and groups.

    Args:
        source: File with the entry ``features``, a list of conditions or a mapping from names to conditions, and
            optionally ``groups``, such a mapping. Alternatively, the content of such a file, or a list of conditions.
        schema: Data schema.

    Raises:
        OptionError: The file cannot be read, or a condition is invalid. The message contains the location.
    """
    location, content = "`features=`", source
    if isinstance(source, str | Path):
        location = str(source)
        content = read_configuration(Path(source), example="features.yaml", entries="features, a list of conditions")
    elif not isinstance(source, Mapping):
        content = {"features": list(source)}
    assert isinstance(content, Mapping)
    for name in content:
        if name not in ("features", "groups"):
            raise unknown_entry(str(name), ("features", "groups"), location)
    if "features" not in content:
        raise OptionError("`features` is missing", location=location, hint=EXAMPLE)
    parts = {
        name: _read_conditions(content[name], schema, f"{location}, {name}", maximum)
        for name, maximum in (("features", MAX_FEATURES), ("groups", MAX_GROUPS))
        if name in content
    }
    return FeatureFile(parts["features"], parts.get("groups", {}))


def _read_conditions(content: Any, schema: Schema, location: str, maximum: int) -> dict[str, Constraint]:
    entries = list(content.items()) if isinstance(content, Mapping) else content
    if not isinstance(entries, list) or not 1 <= len(entries) <= maximum:
        count = f"{len(entries)}" if isinstance(entries, list) else repr(content)
        raise OptionError(f"expected 1 to {maximum} conditions, got {count}", location=location, hint=EXAMPLE)
    conditions: dict[str, Constraint] = {}
    pairs = entries if isinstance(content, Mapping) else [(condition, condition) for condition in entries]
    for number, pair in enumerate(pairs, 1):
        invalid = [text for text in pair if not isinstance(text, str) or not text.strip()]
        if invalid:
            raise OptionError(
                f"expected a condition, got {invalid[0]!r}", location=location, hint="for example age >= 35"
            )
        name = pair[0].strip()
        if name in conditions:
            raise OptionError(f"{name!r} occurs twice", location=location, hint="remove one of them")
        conditions[name] = parse_constraint(pair[1], schema.attributes, location=f"{location}, {number}")
    return conditions


def holds(condition: Constraint, individuals: Floats) -> Booleans:
    """Evaluate a condition, shape (n,). It is false if a value that it uses is missing."""
    return np.asarray(condition.holds(individuals) & ~np.isnan(individuals[:, condition.columns]).any(axis=1))


def find_groups(people: People, groups: Mapping[str, Constraint]) -> tuple[Integers, dict[str, str]]:
    """Find the group of each person, shape (n,), and return it with the conditions of the groups.

    Args:
        people: People.
        groups: Conditions of the groups. Without any, the groups are the joint values of the protected attributes, and
            those smaller than ``MIN_GROUP_SIZE`` are pooled.

    Raises:
        OptionError: There are no groups and no protected attributes, or too many groups.
        DataError: There is a single group, or a person belongs to no group or to several.
    """
    conditions = dict(groups) or _joint_values(people)
    members = np.stack([holds(condition, people.individuals) for condition in conditions.values()])
    counts = members.sum(axis=0)
    if (counts != 1).any():
        none = int((counts == 0).sum())
        number, word = (none, "none") if none else (int((counts > 1).sum()), "several")
        raise DataError(
            f"expected each person in exactly one group, got {number:,} people in {word} of: {', '.join(conditions)}",
            hint="define the groups in the file of features, as `groups:` with names and conditions",
        )
    empty = [name for name, mask in zip(conditions, members, strict=True) if not mask.any()]
    if empty:
        raise DataError(f"the group {empty[0]!r} is empty", hint="change its condition")
    if len(conditions) < 2:
        raise DataError("expected at least two groups, got one", hint="protect other attributes, or define groups")
    texts = {name: condition.text for name, condition in conditions.items()}
    return members.argmax(axis=0).astype(np.int64), texts


def _joint_values(people: People) -> dict[str, Constraint]:
    schema = people.schema
    if not schema.protected:
        raise OptionError("no attribute is protected", hint="name at least one: `protected=NAME`")
    columns = people.individuals[:, [schema.position(name) for name in schema.protected]]
    rows, counts = np.unique(columns[~np.isnan(columns).any(axis=1)], axis=0, return_counts=True)
    groups: dict[str, str] = {}
    small = []
    for row, count in zip(rows, counts, strict=True):
        words = {name: schema[name].text(entry) for name, entry in zip(schema.protected, row, strict=True)}
        text = " and ".join(
            f"{quote_word(name)} == {quote_word(word) if schema[name].values is not None else word}"
            for name, word in words.items()
        )
        if count >= MIN_GROUP_SIZE:
            groups[", ".join(words.values())] = text
        else:
            small.append(text)
    if len(groups) + bool(small) > MAX_GROUPS or (len(small) > MAX_GROUPS and len(groups) < 2):
        raise OptionError(
            f"expected at most {MAX_GROUPS} groups of the protected attributes, got {len(rows)}",
            hint="define groups in the file of features, for example:\n     groups:\n       under 40: age < 40\n"
            "       others: age >= 40",
        )
    if small:
        groups["others"] = " or ".join(f"({text})" for text in small)
    return {name: parse_constraint(text, schema.attributes, location="group") for name, text in groups.items()}


@dataclass(frozen=True, eq=False)
class FeatureCells:
    """Numbers of people with equal features, by group and true label.

    Attributes:
        features: Features of each cell, shape (cells, features), 0 or 1.
        counts: Number of people by cell, group and favourable true label, shape (cells, groups, 2).
        need: Required number of correct decisions.
    """

    features: Integers
    counts: Integers
    need: int

    @classmethod
    def of(
        cls, features: Integers, group: Integers, favourable: Booleans, groups: int, need: int
    ) -> tuple[FeatureCells, Integers]:
        """Count people (n, ...) by cell. Return the table, and the cell of each person, shape (n,)."""
        distinct, cell = np.unique(features, axis=0, return_inverse=True)
        cell = cell.reshape(-1).astype(np.int64)
        counts = np.zeros((len(distinct), groups, 2), dtype=np.int64)
        np.add.at(counts, (cell, group, favourable.astype(np.int64)), 1)
        return cls(distinct, counts, need), cell

    @property
    def people(self) -> int:
        """Number of people."""
        return int(self.counts.sum())

    @property
    def base(self) -> int:
        """Number of correct decisions if no one is accepted."""
        return int(self.counts[:, :, 0].sum())

    @cached_property
    def gains(self) -> Integers:
        """Additional correct decisions from accepting each cell, shape (cells,)."""
        return np.asarray((self.counts[:, :, 1] - self.counts[:, :, 0]).sum(axis=1))

    @property
    def most_right(self) -> int:
        """Maximum number of correct decisions of any rule."""
        return self.base + int(np.maximum(self.gains, 0).sum())

    @property
    def full_range(self) -> Floats:
        """Lower and upper bounds of all decisions, shape (2, cells)."""
        return np.stack([np.zeros(len(self.features)), np.ones(len(self.features))])

    @cached_property
    def differences(self) -> Floats:
        """Share of one group minus that of another in each cell, for each ordered pair, shape (pairs, cells)."""
        sizes = self.counts.sum(axis=2)
        shares = (sizes / sizes.sum(axis=0)).T
        return np.stack([shares[a] - shares[b] for a, b in permutations(range(len(shares)), 2)])

    def measure(self, decisions: Floats) -> tuple[float, float]:
        """Compute the number of correct decisions and the gap of decisions (cells,) from 0 to 1."""
        return self.base + float(self.gains @ decisions), float((self.differences @ decisions).max())

"""Binary features of people, said as conditions in a file, and the cells of people who have them alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from evenhand.core.config import unknown_entry
from evenhand.core.configuration import read_configuration
from evenhand.core.expressions import quote_word
from evenhand.core.typing import Booleans, Floats, Integers
from evenhand.errors import DataError, EvenhandError, OptionError
from evenhand.schema.constraint import Constraint, parse_constraint
from evenhand.schema.people import People
from evenhand.schema.schema import Schema
from evenhand.stats.proportion import count_needed

FeatureSource: TypeAlias = Path | str | Mapping[str, Any] | Sequence[str]
"""A file of features, or what stands in it; or conditions alone."""

MOST_FEATURES, MOST_GROUPS, LEAST = 30, 20, 30
"""Features and groups, at most; groups with fewer people are taken together."""

EXAMPLE = "such as:\n     features:\n       - age >= 35\n       - housing == own"


class FeatureFile(NamedTuple):
    """Conditions on attributes by name: features, and groups where these are said."""

    features: dict[str, Constraint]
    groups: dict[str, Constraint]


def read_features(source: FeatureSource, schema: Schema) -> FeatureFile:
    """Return features, conditions such as ``age >= 35`` or ``housing == own``, and groups if there are any.

    Args:
        source: a file with the entry ``features``, a list of conditions or a mapping of names to conditions, and maybe
            ``groups``, such a mapping; or what stands in such a file; or a list of conditions.
        schema: of the people.

    Raises:
        OptionError: the file cannot be read, or a condition makes no sense; the message points at the place.
    """
    place, given = "`features=`", source
    if isinstance(source, str | Path):
        place = str(source)
        given = read_configuration(Path(source), example="features.yaml", entries="features, a list of conditions")
    elif not isinstance(source, Mapping):
        given = {"features": list(source)}
    assert isinstance(given, Mapping)
    for name in given:
        if name not in ("features", "groups"):
            raise unknown_entry(str(name), ("features", "groups"), place)
    if "features" not in given:
        raise OptionError("`features` is missing", location=place, hint=EXAMPLE)
    features = _read_conditions(given["features"], schema, f"{place}, features", MOST_FEATURES)
    groups = _read_conditions(given["groups"], schema, f"{place}, groups", MOST_GROUPS) if "groups" in given else {}
    return FeatureFile(features, groups)


def _read_conditions(given: Any, schema: Schema, place: str, most: int) -> dict[str, Constraint]:
    named = list(given.items()) if isinstance(given, Mapping) else given
    if not isinstance(named, list) or not 1 <= len(named) <= most:
        count = f"{len(named)} are given" if isinstance(named, list) else f"got {given!r}"
        raise OptionError(f"expected 1 to {most} conditions, {count}", location=place, hint=EXAMPLE)
    pairs = [one if isinstance(given, Mapping) else (one, one) for one in named]
    for pair in pairs:
        wrong = next((one for one in pair if not isinstance(one, str) or not one.strip()), None)
        if wrong is not None:
            raise OptionError(f"expected a condition, got {wrong!r}", location=place, hint="such as age >= 35")
    found: dict[str, Constraint] = {}
    for number, (name, condition) in enumerate(pairs, 1):
        if name.strip() in found:
            raise OptionError(f"{name.strip()!r} is there twice", location=place)
        found[name.strip()] = parse_constraint(condition, schema.attributes, location=f"{place}, {number}")
    return found


def holds(condition: Constraint, individuals: Floats) -> Booleans:
    """Return for whom a condition holds, shape (n,); it does not where a value that it names is missing."""
    return np.asarray(condition.holds(individuals) & ~np.isnan(individuals[:, condition.columns]).any(axis=1))


def find_groups(people: People, named: Mapping[str, Constraint]) -> tuple[Integers, dict[str, str]]:
    """Return everybody's group, shape (n,), and the groups: names and conditions.

    Args:
        people: those who are compared.
        named: the groups; without any these are the joint values of the protected attributes, and groups of fewer than
            ``LEAST`` people are taken together.

    Raises:
        OptionError: nothing says what the groups are, or they are too many.
        DataError: there is one group alone, or somebody is in none or several.
    """
    conditions = dict(named) or _joint_values(people)
    member = np.stack([holds(one, people.individuals) for one in conditions.values()])
    often = member.sum(axis=0)
    if (often != 1).any():
        wrong = "none" if (often == 0).any() else "several"
        count = int((often == 0).sum() if wrong == "none" else (often > 1).sum())
        raise DataError(
            f"expected everybody in one group, got {count:,} people in {wrong} of: {', '.join(conditions)}",
            hint="say the groups in the file of features, as `groups:`, names with a condition each",
        )
    empty = [name for name, own in zip(conditions, member, strict=True) if not own.any()]
    if empty:
        raise DataError(f"there is no one in the group {empty[0]!r}")
    if len(conditions) < 2:
        raise DataError("all people are in one group, and there is nothing to compare")
    return member.argmax(axis=0).astype(np.int64), {name: one.text for name, one in conditions.items()}


def _joint_values(people: People) -> dict[str, Constraint]:
    schema = people.schema
    if not schema.protected:
        raise OptionError("no attribute is protected", hint="name at least one: `protected=NAME`")
    columns = people.individuals[:, [schema.position(name) for name in schema.protected]]
    kept, counts = np.unique(columns[~np.isnan(columns).any(axis=1)], axis=0, return_counts=True)
    words = [
        {name: schema[name].text(entry) for name, entry in zip(schema.protected, row, strict=True)} for row in kept
    ]
    texts = [
        " and ".join(
            f"{quote_word(name)} == {quote_word(one) if schema[name].values is not None else one}"
            for name, one in each.items()
        )
        for each in words
    ]
    found = {
        ", ".join(each.values()): text for each, text, count in zip(words, texts, counts, strict=True) if count >= LEAST
    }
    small = [text for text, count in zip(texts, counts, strict=True) if count < LEAST]
    if len(found) + bool(small) > MOST_GROUPS or (len(small) > MOST_GROUPS and len(found) < 2):
        raise OptionError(
            f"the protected attributes make {len(kept)} groups, at most {MOST_GROUPS} are compared",
            hint="say them in the file of features, such as:\n     groups:\n       under 40: age < 40\n       others: "
            "age >= 40",
        )
    if small:
        found["others"] = " or ".join(f"({text})" for text in small)
    return {name: parse_constraint(text, schema.attributes, location="group") for name, text in found.items()}


@dataclass(frozen=True, eq=False)
class FeatureCells:
    """How many people have the same features, by group and true label: all that a rule on the features can tell.

    Attributes:
        features: of each cell, shape (cells, features), 0 or 1.
        counts: people by cell, group, and whether the true label is the favourable one, shape (cells, groups, 2).
        need: Correct decisions that a rule must make.
    """

    features: Integers
    counts: Integers
    need: int

    @classmethod
    def of(
        cls, features: Integers, group: Integers, favourable: Booleans, groups: int, need: int
    ) -> tuple[FeatureCells, Integers]:
        """Return the table of people (n, ...), and the cell of each, shape (n,)."""
        kept, cell = np.unique(features, axis=0, return_inverse=True)
        cell = cell.reshape(-1).astype(np.int64)
        counts = np.zeros((len(kept), groups, 2), dtype=np.int64)
        np.add.at(counts, (cell, group, favourable.astype(np.int64)), 1)
        return cls(kept, counts, need), cell

    @property
    def people(self) -> int:
        """How many people there are."""
        return int(self.counts.sum())

    @property
    def base(self) -> int:
        """How many are decided rightly when no one is accepted."""
        return int(self.counts[:, :, 0].sum())

    @property
    def gains(self) -> Integers:
        """How many more are decided rightly when a cell is accepted, shape (cells,)."""
        return np.asarray((self.counts[:, :, 1] - self.counts[:, :, 0]).sum(axis=1))

    @property
    def most_right(self) -> int:
        """How many any rule on these features can decide rightly, at most."""
        return self.base + int(np.maximum(self.gains, 0).sum())

    @property
    def shares(self) -> Floats:
        """Share of each group that is in a cell, shape (groups, cells)."""
        sizes = self.counts.sum(axis=2)
        return np.asarray((sizes / sizes.sum(axis=0)).T)

    @property
    def differences(self) -> Floats:
        """Shares of one group minus those of another, for every ordered pair, shape (pairs, cells)."""
        shares = self.shares
        groups = range(len(shares))
        return np.stack([shares[one] - shares[two] for one in groups for two in groups if one != two])

    def measure(self, decisions: Floats) -> tuple[float, float]:
        """Return how many are decided rightly, and the gap, under decisions (cells,) from 0 to 1."""
        return self.base + float(self.gains @ decisions), float((self.differences @ decisions).max())


def correct_decisions_needed(accuracy: float | None, given: int | None, people: int) -> int:
    """Compute the number of correct decisions that a rule must make.

    Args:
        accuracy: Accuracy that was asked for; None stands for that of the given model.
        given: Correct decisions of the given model; None without a model.
        people: Number of people.

    Raises:
        OptionError: Neither an accuracy nor a model is given.
    """
    if accuracy is not None:
        return count_needed(accuracy, people)
    if given is None:
        raise OptionError(
            "without a model the accuracy that a rule must reach is needed",
            location="`accuracy=`",
            hint="such as accuracy 0.82; or give the model, whose accuracy it is then",
        )
    return given


def require_labels(people: People) -> Booleans:
    """Return who truly has the favourable label, shape (n,).

    Raises:
        DataError: there are no true labels.
    """
    try:
        return people.favourable
    except EvenhandError as error:
        raise DataError(f"accuracy needs true labels: {error.message}", hint="name their column: `target=`") from None

"""Relations between the attributes of an individual: dependencies, and links for counterparts."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from itertools import pairwise
from typing import Annotated, TypeAlias

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, StrictStr

from evenhand.core.text import suggest_name
from evenhand.core.typing import Booleans, Floats
from evenhand.errors import SchemaError
from evenhand.schema.attribute import Attribute, Value
from evenhand.schema.constraint import Constraint

Entries: TypeAlias = Mapping[float, float]
"""Entries of one attribute, by the entries of another."""


class Dependency(BaseModel):
    """Functional dependency: the first attribute determines the second.

    A value of the first attribute that is not in the map is implausible.

    Attributes:
        between: Determinant and dependent attribute.
        map: Value of the dependent attribute, by value of the determinant. A one-to-one map applies in both directions.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    between: tuple[StrictStr, StrictStr]
    map: Annotated[dict[Value, Value], Field(min_length=1)]


class Link(BaseModel):
    """Values of an attribute that correspond to each other when a protected attribute changes.

    The row ``{Male: Husband, Female: Wife}`` of a link from sex to relationship makes a wife the counterpart of a
    husband. Values without a row do not change.

    Attributes:
        when: Attribute that changes.
        move: Attribute that changes with it.
        rows: Corresponding values of ``move``, by value of ``when``.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    when: StrictStr
    move: StrictStr
    rows: Annotated[tuple[dict[Value, Value], ...], Field(min_length=1)]


@dataclass(frozen=True)
class Proposal:
    """Rule, dependency or link that is suggested by data.

    Attributes:
        entry: Entry of ``rules``, ``dependencies`` or ``links``.
        evidence: Short evidence, such as ``seen 1, expected 6,536``.
        accepted: Whether the entry applies without confirmation.
    """

    entry: str | Dependency | Link
    evidence: str
    accepted: bool


@dataclass(frozen=True)
class Relation:
    """Corresponding entries of two attributes.

    Attributes:
        source: Column of the determinant attribute.
        column: Column of the dependent attribute.
        rows: Mappings from entries of the source to corresponding entries of the dependent attribute.
    """

    source: int
    column: int
    rows: tuple[Entries, ...]

    def fits(self, sources: Floats, values: Floats) -> Booleans:
        """Check elementwise whether values match their source entries, or occur in no row."""
        listed = np.isin(values, [value for row in self.rows for value in row.values()])
        return np.asarray(~listed | np.logical_or.reduce([look_up(row, sources) == values for row in self.rows]))

    def follow(self, originals: Floats, people: Floats) -> Booleans:
        """Update the dependent attribute in ``people`` (n, d), and check whether its entries are valid, shape (n,).

        If a row contains the entry for the old source entry, the entry is replaced by that row's entry for the new one.
        Otherwise, the entry does not change. An unchanged entry is invalid if a row contains it for the new source
        entry, because the result would be the counterpart of two individuals.
        """
        old, new, entries = originals[:, self.source], people[:, self.source], originals[:, self.column]
        changed = old != new
        invalid, in_any_row, collides = (np.zeros(len(people), dtype=np.bool_) for _ in range(3))
        for row in self.rows:
            in_row = changed & (look_up(row, old) == entries)
            targets = look_up(row, new)
            people[:, self.column] = np.where(in_row & ~np.isnan(targets), targets, people[:, self.column])
            invalid |= in_row & np.isnan(targets)
            in_any_row |= in_row
            collides |= targets == entries
        return np.asarray(~invalid & ~(changed & ~in_any_row & collides))


def look_up(mapping: Entries, entries: Floats) -> Floats:
    """Map entries (n,), shape (n,); NaN for entries that are not in the mapping."""
    keys = np.array(sorted(mapping), dtype=np.float64)
    values = np.array([*(mapping[key] for key in keys), np.nan])
    positions = np.minimum(np.searchsorted(keys, entries), len(keys) - 1)
    return np.asarray(values[np.where(keys[positions] == entries, positions, len(keys))])


def parse_dependencies(dependencies: Sequence[Dependency], attributes: Sequence[Attribute]) -> tuple[Relation, ...]:
    """Convert dependencies to relations with a single row.

    Raises:
        SchemaError: An attribute or a value is unknown, or two dependencies have the same attributes.
    """
    relations: dict[frozenset[str], Relation] = {}
    for number, dependency in enumerate(dependencies, 1):
        location = f"dependencies, number {number}"
        relation = _parse_relation(dependency.between, [dependency.map], attributes, location)
        key = frozenset(dependency.between)
        if relations.setdefault(key, relation) is not relation:
            raise SchemaError(
                f"{' and '.join(dependency.between)} already have a dependency: "
                f"dependencies, number {list(relations).index(key) + 1}",
                location=location,
                hint="delete one of them: a map without repeated values applies both ways",
            )
    return tuple(relations.values())


def parse_links(
    links: Sequence[Link], attributes: Sequence[Attribute], constraints: Sequence[Constraint]
) -> tuple[Relation, ...]:
    """Convert links to relations, and check that they define unique counterparts that obey the rules.

    Args:
        links: Links of the schema.
        attributes: All attributes, in the order of an individual's entries.
        constraints: Rules of the schema.

    Raises:
        SchemaError: A name or value is unknown, a value is in two rows, two links move the same attribute, the links
            form a cycle, or a row violates a rule.
    """
    relations: dict[str, Relation] = {}
    for number, link in enumerate(links, 1):
        location = f"links, number {number}"
        relation = _parse_relation((link.when, link.move), link.rows, attributes, location)
        if relations.setdefault(link.move, relation) is not relation:
            message = f"{link.move!r} is already moved by links, number {list(relations).index(link.move) + 1}"
            raise SchemaError(message, location=location, hint="put all rows under one link")
        _check_rows(relation, attributes, constraints, location)
    try:
        TopologicalSorter({link.move: {link.when} for link in links}).prepare()
    except CycleError as error:
        steps = ", ".join(f"{move} moves with {when}" for when, move in pairwise(error.args[1]))
        message = f"the links form a cycle: {steps}"
        raise SchemaError(message, location="links", hint="delete one of them") from None
    return tuple(relations.values())


def _parse_relation(
    names: tuple[str, str], rows: Sequence[Mapping[Value, Value]], attributes: Sequence[Attribute], location: str
) -> Relation:
    columns = {attribute.name: column for column, attribute in enumerate(attributes)}
    for name in names:
        if name not in columns:
            hint = f"{suggest_name(name, columns)}the attributes are: {', '.join(columns)}"
            raise SchemaError(f"there is no attribute {name!r}", location=location, hint=hint)
    source, column = (columns[name] for name in names)
    if source == column:
        raise SchemaError(f"expected two attributes, got {names[0]!r} twice", location=location)
    keys, values = attributes[source], attributes[column]
    entries = (
        {_to_entry(keys, key, location, is_key=True): _to_entry(values, value, location) for key, value in row.items()}
        for row in rows
    )
    return Relation(source, column, tuple(entries))


def _to_entry(attribute: Attribute, value: Value, location: str, *, is_key: bool = False) -> float:
    """Find the entry of a value. Keys of a JSON object are strings, and may stand for numbers and Booleans."""
    candidates = [value]
    if is_key and isinstance(value, str):
        with suppress(ValueError):
            candidates.append(json.loads(value))
    for candidate in candidates:
        entry: float | None = None
        if attribute.is_discrete:
            entry = attribute.find_value(str(candidate), quoted=isinstance(candidate, str))
        elif isinstance(candidate, int | float) and not isinstance(candidate, bool):
            entry = float(candidate) if attribute.contains(np.array([candidate], dtype=np.float64))[0] else None
        if entry is not None:
            return entry
    suggestion = suggest_name(str(value), map(str, attribute.values or ()))
    hint = f"{suggestion}its domain is {attribute.describe_domain()}"
    raise SchemaError(f"{value!r} is not a value of {attribute.name!r}", location=location, hint=hint)


def _check_rows(
    relation: Relation, attributes: Sequence[Attribute], constraints: Sequence[Constraint], location: str
) -> None:
    """Check that each row pairs at least two values, none of them in two rows, and that no rule forbids a pair."""
    columns = [relation.source, relation.column]
    when, move = (attributes[column] for column in columns)
    rules = [constraint for constraint in constraints if set(constraint.columns) <= set(columns)]
    person = np.array([[attribute.first for attribute in attributes]])
    row_numbers: dict[float, int] = {}
    for number, row in enumerate(relation.rows, 1):
        if len(row) < 2:
            hint = f"list at least two values of {when.name!r}"
            raise SchemaError(f"row {number} has {len(row)} value, expected 2 or more", location=location, hint=hint)
        for key, value in row.items():
            if row_numbers.setdefault(value, number) != number:
                message = f"{move.text(value)!r} is in row {row_numbers[value]} and in row {number}"
                raise SchemaError(message, location=location, hint="merge the rows, or delete the value from one")
            person[0, columns] = key, value
            violated = next((rule for rule in rules if not rule.holds(person)[0]), None)
            if violated is not None:
                pair = f"{when.text(key)!r} with {move.text(value)!r}"
                message = f"row {number} pairs {pair}, which the rule {violated.text!r} forbids"
                raise SchemaError(message, location=location, hint="correct the row or the rule")

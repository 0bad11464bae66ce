"""Relations between the attributes of an individual: dependencies, and links for counterparts."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, TypeAlias

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, StrictStr

from evenhand.core.text import suggest_name
from evenhand.core.typing import Floats
from evenhand.errors import SchemaError
from evenhand.schema.attribute import Attribute, Value
from evenhand.schema.constraint import Constraint

Entries: TypeAlias = Mapping[float, float]
"""Entries of one attribute, by the entries of another."""


class Dependency(BaseModel):
    """Functional dependency: the first attribute determines the second.

    A value of the first attribute that is not in the map is implausible.

    Attributes:
        between: Determining and determined attribute.
        map: Value of the second attribute, by value of the first. A map without repeated values applies both ways.
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
        accepted: Whether the entry applies unless a person deletes it, rather than only after a person confirms it.
    """

    entry: str | Dependency | Link
    evidence: str
    accepted: bool


def entries_of(mapping: Mapping[Value, Value], keys: Attribute, values: Attribute, location: str) -> Entries:
    """Convert the keys and values of a mapping to entries.

    Raises:
        SchemaError: A key or value is not in the domain of its attribute.
    """
    return {
        _to_entry(keys, _parse_key(keys, key), location): _to_entry(values, value, location)
        for key, value in mapping.items()
    }


def _parse_key(attribute: Attribute, key: Value) -> Value:
    # JSON keys are always text: read them as a number or Boolean if only that is in the domain.
    if isinstance(key, str) and _find_entry(attribute, key) is None:
        with suppress(ValueError):
            parsed = json.loads(key)
            if isinstance(parsed, bool | int | float) and _find_entry(attribute, parsed) is not None:
                return parsed
    return key


def _find_entry(attribute: Attribute, value: Value) -> float | None:
    if attribute.is_discrete:
        return attribute.find_value(str(value), quoted=isinstance(value, str))
    if isinstance(value, bool | str) or not attribute.contains(np.array([value], dtype=np.float64))[0]:
        return None
    return float(value)


def _to_entry(attribute: Attribute, value: Value, location: str) -> float:
    entry = _find_entry(attribute, value)
    if entry is None:
        hint = (
            f"{suggest_name(str(value), map(str, attribute.values or ()))}its domain is {attribute.describe_domain()}"
        )
        raise SchemaError(f"{value!r} is not a value of {attribute.name!r}", location=location, hint=hint)
    return entry


def look_up(mapping: Entries, entries: Floats) -> Floats:
    """Map entries (n,), shape (n,); NaN for entries that are not in the mapping."""
    keys = np.array(sorted(mapping), dtype=np.float64)
    values = np.array([*(mapping[key] for key in keys), np.nan])
    positions = np.minimum(np.searchsorted(keys, entries), len(keys) - 1)
    return np.asarray(values[np.where(keys[positions] == entries, positions, len(keys))])


def _require_names(pair: tuple[str, str], names: Sequence[str], location: str) -> None:
    """Check that a pair of names are two different attributes."""
    for name in pair:
        if name not in names:
            hint = f"{suggest_name(name, names)}the attributes are: {', '.join(names)}"
            raise SchemaError(f"there is no attribute {name!r}", location=location, hint=hint)
    if pair[0] == pair[1]:
        raise SchemaError(f"expected two attributes, got {pair[0]!r} twice", location=location)


def check_dependencies(dependencies: Sequence[Dependency], attributes: Sequence[Attribute]) -> None:
    """Check the names and values of dependencies.

    Raises:
        SchemaError: An attribute or a value is unknown, or two dependencies have the same attributes.
    """
    by_name = {attribute.name: attribute for attribute in attributes}
    locations: dict[frozenset[str], str] = {}
    for number, dependency in enumerate(dependencies, 1):
        location = f"dependencies, number {number}"
        _require_names(dependency.between, list(by_name), location)
        source, determined = dependency.between
        entries_of(dependency.map, by_name[source], by_name[determined], location)
        earlier = locations.setdefault(frozenset(dependency.between), location)
        if earlier != location:
            raise SchemaError(
                f"{source} and {determined} already have a dependency: {earlier}",
                location=location,
                hint="delete one of them: a map without repeated values applies both ways",
            )


def check_links(links: Sequence[Link], attributes: Sequence[Attribute], constraints: Sequence[Constraint]) -> None:
    """Check that links define unique counterparts that obey the rules.

    Args:
        links: Links of the schema.
        attributes: All attributes, in the order of an individual's entries.
        constraints: Rules of the schema.

    Raises:
        SchemaError: A name or value is unknown, a value is in two rows, two links move the same attribute, the links
            form a cycle, or a row violates a rule.
    """
    names = [attribute.name for attribute in attributes]
    locations: dict[str, str] = {}
    for number, link in enumerate(links, 1):
        location = f"links, number {number}"
        _require_names((link.when, link.move), names, location)
        earlier = locations.setdefault(link.move, location)
        if earlier != location:
            message, hint = f"{link.move!r} is already moved by {earlier}", "put all rows under one link"
            raise SchemaError(message, location=location, hint=hint)
        _check_rows(link, attributes, constraints, location)
    _check_cycles({link.move: link.when for link in links})


def _check_rows(link: Link, attributes: Sequence[Attribute], constraints: Sequence[Constraint], location: str) -> None:
    names = [attribute.name for attribute in attributes]
    columns = [names.index(link.when), names.index(link.move)]
    when, move = (attributes[column] for column in columns)
    rules = [constraint for constraint in constraints if set(constraint.columns) <= set(columns)]
    person = np.array([[attribute.first for attribute in attributes]])
    row_numbers: dict[float, int] = {}
    for number, row in enumerate(link.rows, 1):
        if len(row) < 2:
            hint = f"list at least two values of {link.when!r}"
            raise SchemaError(f"row {number} has {len(row)} value, expected 2 or more", location=location, hint=hint)
        for key, value in entries_of(row, when, move, location).items():
            if row_numbers.setdefault(value, number) != number:
                message = f"{move.text(value)!r} is in row {row_numbers[value]} and in row {number}"
                raise SchemaError(message, location=location, hint="join the two rows, or delete the value from one")
            person[0, columns] = key, value
            violated = next((rule for rule in rules if not rule.holds(person)[0]), None)
            if violated is not None:
                pair = f"{when.text(key)!r} with {move.text(value)!r}"
                message = f"row {number} pairs {pair}, which the rule {violated.text!r} forbids"
                raise SchemaError(message, location=location, hint="correct the row or the rule")


def _check_cycles(sources: Mapping[str, str]) -> None:
    for start in sources:
        path = [start]
        while path[-1] in sources and path[-1] not in path[:-1]:
            path.append(sources[path[-1]])
        if path[-1] in path[:-1]:
            steps = pairwise(path[path.index(path[-1]) :])
            message = "the links form a cycle: " + ", ".join(f"{move} moves with {when}" for move, when in steps)
            raise SchemaError(message, location="links", hint="delete one of them")

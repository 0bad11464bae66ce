"""What ties the attributes of one person together: functional dependencies, and values that stand for each other."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, TypeAlias

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, StrictStr

from evenhand.errors import SchemaError
from evenhand.schema.attribute import Attribute, Value
from evenhand.schema.constraint import Constraint
from evenhand.text import suggest_name
from evenhand.typing import Floats

Entries: TypeAlias = Mapping[float, float]
"""From an entry of one attribute to an entry of another."""


class Dependency(BaseModel):
    """One attribute determines another: people with the first value of a pair have its second value.

    A value of the first attribute that the map does not list occurs in no plausible person.

    Attributes:
        between: the attribute that determines, and the one that is determined.
        map: value of the first -> value of the second. Where no second value repeats, it is used both ways.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    between: tuple[StrictStr, StrictStr]
    map: Annotated[dict[Value, Value], Field(min_length=1)]


class Link(BaseModel):
    """Values of one attribute that stand for each other when another attribute changes.

    A row maps values of ``when`` to the value of ``move`` that stands for the row there: in ``{Male: Husband, Female:
    Wife}`` the counterpart of a husband is a wife. A value that is in no row stays as it is.

    Attributes:
        when: the attribute that changes.
        move: the attribute that moves along.
        rows: value of ``when`` -> value of ``move``.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    when: StrictStr
    move: StrictStr
    rows: Annotated[tuple[dict[Value, Value], ...], Field(min_length=1)]


@dataclass(frozen=True)
class Proposal:
    """A rule, a dependency or a link that data suggest.

    Attributes:
        entry: what a schema would have under ``rules``, ``dependencies`` or ``links``.
        evidence: why, in a few words: ``seen 1, expected 6,536``.
        accepted: whether it enters the schema unless a person deletes it; else only once a person confirms it.
    """

    entry: str | Dependency | Link
    evidence: str
    accepted: bool


def entries_of(mapping: Mapping[Value, Value], keys: Attribute, values: Attribute, location: str) -> Entries:
    """Return a map of values as one of entries.

    Raises:
        SchemaError: a value is not in its attribute's domain.
    """
    return {_key_entry(keys, key, location): _entry(values, value, location) for key, value in mapping.items()}


def _key_entry(attribute: Attribute, key: Value, location: str) -> float:
    # JSON has no keys but texts: there a key stands for the number or the truth value that it spells.
    if isinstance(key, str) and _find_entry(attribute, key) is None:
        with suppress(ValueError):
            spelled = json.loads(key)
            if isinstance(spelled, bool | int | float) and _find_entry(attribute, spelled) is not None:
                return _entry(attribute, spelled, location)
    return _entry(attribute, key, location)


def _find_entry(attribute: Attribute, value: Value) -> float | None:
    if attribute.is_discrete:
        return attribute.find_value(str(value), quoted=isinstance(value, str))
    if isinstance(value, bool | str) or not attribute.contains(np.array([value], dtype=np.float64))[0]:
        return None
    return float(value)


def _entry(attribute: Attribute, value: Value, location: str) -> float:
    entry = _find_entry(attribute, value)
    if entry is None:
        near = suggest_name(str(value), map(str, attribute.values or ()))
        raise SchemaError(
            f"{value!r} is not a value of {attribute.name!r}",
            location=location,
            hint=f"{near}its domain is {attribute.describe_domain()}",
        )
    return entry


def look_up(known: Entries, entries: Floats) -> Floats:
    """Return what entries (n,) map to, shape (n,); NaN where nothing is listed."""
    keys = np.array(sorted(known), dtype=np.float64)
    values = np.array([*(known[key] for key in keys), np.nan])
    places = np.minimum(np.searchsorted(keys, entries), len(keys) - 1)
    return np.asarray(values[np.where(keys[places] == entries, places, len(keys))])


def _require_names(names: Sequence[str], known: Sequence[str], location: str) -> None:
    """Refuse a name that is not an attribute's, and one attribute in two places.

    Raises:
        SchemaError: the message suggests the nearest name.
    """
    for name in names:
        if name not in known:
            hint = f"{suggest_name(name, known)}the attributes are: {', '.join(known)}"
            raise SchemaError(f"there is no attribute {name!r}", location=location, hint=hint)
    if len(set(names)) < len(names):
        raise SchemaError(f"expected two attributes, got {names[0]!r} twice", location=location)


def check_dependencies(dependencies: Sequence[Dependency], attributes: Sequence[Attribute]) -> None:
    """Refuse dependencies that name what is not in the schema, or one pair of attributes twice.

    Raises:
        SchemaError: naming the dependency, counted from 1.
    """
    known = {attribute.name: attribute for attribute in attributes}
    seen: dict[frozenset[str], str] = {}
    for number, dependency in enumerate(dependencies, 1):
        location = f"dependencies, number {number}"
        _require_names(dependency.between, list(known), location)
        one, other = dependency.between
        entries_of(dependency.map, known[one], known[other], location)
        first = seen.setdefault(frozenset(dependency.between), location)
        if first != location:
            raise SchemaError(
                f"{one} and {other} already have a dependency: {first}",
                location=location,
                hint="keep one of them: a map without repeated values is used both ways",
            )


def check_links(links: Sequence[Link], attributes: Sequence[Attribute], constraints: Sequence[Constraint]) -> None:
    """Refuse links under which it is unclear who a counterpart is, or under which the counterpart breaks a rule.

    Args:
        links: see ``Link``.
        attributes: all attributes, in the order of an individual's entries.
        constraints: the rules of the schema.

    Raises:
        SchemaError: an unknown name or value, a value in two rows, an attribute that two links move, links in a
            circle, or a row that a rule forbids.
    """
    names = [attribute.name for attribute in attributes]
    moved: dict[str, str] = {}
    for number, link in enumerate(links, 1):
        location = f"links, number {number}"
        _require_names((link.when, link.move), names, location)
        first = moved.setdefault(link.move, location)
        if first != location:
            raise SchemaError(
                f"{link.move!r} is already moved by {first}", location=location, hint="put all rows under one link"
            )
        _check_rows(link, attributes, constraints, location)
    _check_circles(links)


def _check_rows(link: Link, attributes: Sequence[Attribute], constraints: Sequence[Constraint], location: str) -> None:
    names = [attribute.name for attribute in attributes]
    columns = [names.index(link.when), names.index(link.move)]
    when, move = (attributes[column] for column in columns)
    about = [constraint for constraint in constraints if set(constraint.columns) <= set(columns)]
    person = np.array([[attribute.first for attribute in attributes]])
    listed: dict[float, int] = {}
    for number, row in enumerate(link.rows, 1):
        if len(row) < 2:
            raise SchemaError(
                f"row {number} has {len(row)} value, and nothing stands for it",
                location=location,
                hint=f"a row names at least two values of {link.when!r}",
            )
        for key, value in entries_of(row, when, move, location).items():
            if listed.setdefault(value, number) != number:
                raise SchemaError(
                    f"{move.text(value)!r} is in row {listed[value]} and in row {number}",
                    location=location,
                    hint="a value stands in one row only: join the two rows, or leave one out",
                )
            person[0, columns] = key, value
            broken = next((one for one in about if not one.holds(person)[0]), None)
            if broken is not None:
                raise SchemaError(
                    f"row {number} pairs {when.text(key)!r} with {move.text(value)!r}, which the rule "
                    f"{broken.text!r} forbids",
                    location=location,
                    hint="correct the row or the rule",
                )


def _check_circles(links: Sequence[Link]) -> None:
    above = {link.move: link.when for link in links}
    for start in above:
        path = [start]
        while path[-1] in above and path[-1] not in path[:-1]:
            path.append(above[path[-1]])
        if path[-1] in path[:-1]:
            circle = path[path.index(path[-1]) :]
            raise SchemaError(
                "the links form a circle: " + ", ".join(f"{move} moves with {when}" for move, when in pairwise(circle)),
                location="links",
                hint="leave one of them out",
            )

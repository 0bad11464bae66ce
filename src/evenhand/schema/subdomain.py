"""Subdomains: parts of the domain that are defined by conditions like ``age >= 18 and race in {White, Black}``.

A condition compares one attribute with its values:

    age >= 18        18 <= age < 65        race == White        race not in {"A, B", Other}

``and`` joins conditions. Ordinal values are ordered as in the schema. ``or`` is not supported, because a subdomain is a
product of value sets.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np

from evenhand.core.expressions import (
    COMPARISONS,
    Comparison,
    Containment,
    Expression,
    ExpressionPart,
    Logic,
    Node,
    parse_expression,
)
from evenhand.core.typing import Booleans, Floats
from evenhand.errors import OptionError
from evenhand.schema.attribute import Attribute
from evenhand.schema.constraint import OPERATORS, find_attribute, find_entry
from evenhand.schema.schema import Schema
from evenhand.schema.table import read_number

Runs: TypeAlias = tuple[tuple[float, float], ...]
"""Disjoint ranges of entries in ascending order, both ends included."""

MAX_LISTED = 1_000_000
"""Maximum number of listed entries of an attribute."""


@dataclass(frozen=True)
class Subdomain:
    """Part of a domain: a product of sets of entries.

    Attributes:
        conditions: Conditions, without surrounding spaces.
        allowed: Entries by name of the attributes in the conditions.
    """

    conditions: tuple[str, ...]
    allowed: Mapping[str, Runs]

    def runs(self, attribute: Attribute) -> Runs:
        """Return the allowed entries of an attribute as ranges."""
        return self.allowed.get(attribute.name, ((attribute.first, attribute.last),))

    def entries(self, attribute: Attribute) -> Floats:
        """List the allowed entries of a finite attribute, shape (n,).

        Raises:
            OptionError: There are too many entries.
        """
        return list_entries(attribute, self.runs(attribute))

    def __str__(self) -> str:
        return " and ".join(self.conditions)


def list_entries(attribute: Attribute, runs: Runs) -> Floats:
    """List the entries in ranges of a finite attribute, shape (n,).

    Raises:
        OptionError: There are too many entries.
    """
    if sum(high - low + 1 for low, high in runs) > MAX_LISTED:
        raise OptionError(
            f"attribute {attribute.name!r} has more than {MAX_LISTED:,} values in the subdomain",
            hint="restrict it to one range",
        )
    return np.concatenate([np.arange(low, high + 1) for low, high in runs])


class _Condition(NamedTuple):
    """Comparison of an attribute with entries.

    Attributes:
        attribute: Compared attribute.
        sign: ``<``, ``<=``, ``>`` or ``>=`` with one entry; ``in`` or ``not in`` with any number of entries.
        entries: Entries to compare with.
    """

    attribute: Attribute
    sign: str
    entries: list[float]

    def holds(self, points: Floats) -> Booleans:
        """Check entries elementwise."""
        if self.sign in OPERATORS:
            return np.asarray(OPERATORS[self.sign](points, self.entries[0]))
        return np.asarray(np.isin(points, self.entries) == (self.sign == "in"))


def parse_subdomain(schema: Schema, conditions: Sequence[str]) -> Subdomain | None:
    """Parse conditions that must all hold. Return None if there are none.

    Raises:
        OptionError: A condition is invalid (the message marks the position), or no value of an attribute remains.
    """
    texts = tuple(text.strip() for text in conditions)
    by_name: dict[str, list[_Condition]] = {}
    for text in conditions:
        expression = parse_expression(text, location="condition", words=schema.words)
        for condition in _read_conditions(expression, expression.tree, schema):
            by_name.setdefault(condition.attribute.name, []).append(condition)
    allowed = {name: _solve(schema[name], group) for name, group in by_name.items()}
    for name, runs in allowed.items():
        if not runs:
            raise OptionError(
                f"no value of {name!r} meets the conditions {' and '.join(texts)!r}",
                hint=f"its domain is {schema[name].describe_domain()}",
            )
    return Subdomain(texts, allowed) if allowed else None


def _solve(attribute: Attribute, conditions: Sequence[_Condition]) -> Runs:
    """Find the ranges of entries that meet all conditions.

    The conditions change only at their entries, so one point of each range between these entries is checked.
    """
    starts = {attribute.first}
    for entry in itertools.chain.from_iterable(condition.entries for condition in conditions):
        if attribute.size is None:
            starts |= {entry, float(np.nextafter(entry, np.inf))}
        else:
            starts |= {float(math.ceil(entry)), math.floor(entry) + 1.0}
    points = np.array(sorted(start for start in starts if attribute.first <= start <= attribute.last))
    ends = np.nextafter(points[1:], -np.inf) if attribute.size is None else points[1:] - 1
    holds = np.logical_and.reduce([condition.holds(points) for condition in conditions])
    pieces = zip(holds.tolist(), points.tolist(), [*ends.tolist(), attribute.last], strict=True)
    groups = ((valid, list(group)) for valid, group in itertools.groupby(pieces, key=lambda piece: piece[0]))
    return tuple((group[0][1], group[-1][2]) for valid, group in groups if valid)


def _read_conditions(source: Expression, node: Node, schema: Schema) -> Iterator[_Condition]:
    """Yield the conditions of an expression, in order."""
    if isinstance(node, Logic) and node.word == "and":
        for operand in node.operands:
            yield from _read_conditions(source, operand, schema)
    elif isinstance(node, Logic):
        hint = "list the values of one attribute: race in {White, Black}, race not in {White}"
        raise source.fault(f"conditions cannot contain {node.sign.text!r}", node.sign, hint)
    elif isinstance(node, Containment):
        attribute = find_attribute(source, node.operands[0], schema.attributes)
        yield _read_condition(source, attribute, "in" if node.inside else "not in", node.operands[1:], node.sign)
    elif isinstance(node, Comparison):
        for left, token, right in zip(node.operands, node.signs, node.operands[1:], strict=False):
            value, sign = right, token.text
            if source.word(left) not in schema.names and source.word(right) in schema.names:
                left, value, sign = right, left, COMPARISONS[sign]
            attribute = find_attribute(source, left, schema.attributes)
            yield _read_condition(source, attribute, {"==": "in", "!=": "not in"}.get(sign, sign), [value], value)
    else:
        hint = "compare it: == != < <= > >=, in {...}, not in {...}"
        raise source.fault("expected a comparison", node, hint)


def _read_condition(
    source: Expression, attribute: Attribute, sign: str, values: Sequence[Node], part: ExpressionPart
) -> _Condition:
    """Convert the values of a condition to entries.

    If the operator does not apply to the attribute, the error marks ``part``.
    """
    if sign in OPERATORS and not attribute.ordered:
        hint = f"{attribute.name} in {{...}}, with some of {attribute.describe_domain()}"
        raise source.fault(f"{sign} requires an ordered attribute, got {attribute.name!r}", part, hint)
    if sign not in OPERATORS and attribute.size is None:
        message = f"expected a range of the real attribute {attribute.name!r}, got single values"
        raise source.fault(message, part, "give a range, such as 18 <= age < 65")
    entries = []
    for value in values:
        if attribute.is_discrete:
            entries.append(find_entry(source, value, attribute))
            continue
        word = source.word(value)
        number = read_number(word)
        if not math.isfinite(number):
            message = f"expected a number to compare {attribute.name!r} with, got {word!r}"
            raise source.fault(message, value, f"its domain is {attribute.describe_domain()}")
        if sign not in OPERATORS and not number.is_integer():
            raise source.fault(f"expected a whole number for {attribute.name!r}, got {number:g}", value)
        entries.append(number)
    return _Condition(attribute, sign, entries)

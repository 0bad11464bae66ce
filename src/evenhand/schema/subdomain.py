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
    Comparison,
    Containment,
    Expression,
    Logic,
    Node,
    parse_expression,
)
from evenhand.core.typing import Floats
from evenhand.errors import OptionError
from evenhand.schema.attribute import Attribute
from evenhand.schema.constraint import Compiler, Evaluator
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
    """Condition on one attribute.

    Attributes:
        attribute: Compared attribute.
        evaluate: Function that evaluates the condition on individuals.
        entries: Entries at which the condition may change.
    """

    attribute: Attribute
    evaluate: Evaluator
    entries: list[float]


def parse_subdomain(schema: Schema, conditions: Sequence[str]) -> Subdomain | None:
    """Parse conditions that must all hold. Return None if there are none.

    Raises:
        OptionError: A condition is invalid (the message marks the position), or no value of an attribute remains.
    """
    texts = tuple(text.strip() for text in conditions)
    by_name: dict[str, list[_Condition]] = {}
    for text in conditions:
        source = parse_expression(text, location="condition", words=schema.words)
        for node in _split(source, source.tree):
            condition = _read_condition(source, node, schema)
            by_name.setdefault(condition.attribute.name, []).append(condition)
    allowed = {name: _solve(schema, schema.position(name), group) for name, group in by_name.items()}
    for name, runs in allowed.items():
        if not runs:
            raise OptionError(
                f"no value of {name!r} meets the conditions {' and '.join(texts)!r}",
                hint=f"its domain is {schema[name].describe_domain()}",
            )
    return Subdomain(texts, allowed) if allowed else None


def _solve(schema: Schema, column: int, conditions: Sequence[_Condition]) -> Runs:
    """Find the ranges of entries of an attribute that meet all conditions.

    The conditions change only at their entries, so one point of each range between these entries is checked.
    """
    attribute = schema.attributes[column]
    starts = {attribute.first}
    for entry in itertools.chain.from_iterable(condition.entries for condition in conditions):
        if attribute.size is None:
            starts |= {entry, float(np.nextafter(entry, np.inf))}
        else:
            starts |= {float(math.ceil(entry)), math.floor(entry) + 1.0}
    points = np.array(sorted(start for start in starts if attribute.first <= start <= attribute.last))
    ends = np.nextafter(points[1:], -np.inf) if attribute.size is None else points[1:] - 1
    individuals = np.zeros((len(points), len(schema.attributes)))
    individuals[:, column] = points
    holds = np.logical_and.reduce([condition.evaluate(individuals) for condition in conditions])
    pieces = zip(holds.tolist(), points.tolist(), [*ends.tolist(), attribute.last], strict=True)
    groups = ((valid, list(group)) for valid, group in itertools.groupby(pieces, key=lambda piece: piece[0]))
    return tuple((group[0][1], group[-1][2]) for valid, group in groups if valid)


def _split(source: Expression, node: Node) -> Iterator[Comparison | Containment]:
    """Yield the comparisons of an expression that are joined by ``and``, in order."""
    if isinstance(node, Logic) and node.word == "and":
        for operand in node.operands:
            yield from _split(source, operand)
    elif isinstance(node, Logic):
        hint = "list the values of one attribute: race in {White, Black}, race not in {White}"
        raise source.fault(f"conditions cannot contain {node.sign.text!r}", node.sign, hint)
    elif isinstance(node, Comparison | Containment):
        yield node
    else:
        hint = "compare it: == != < <= > >=, in {...}, not in {...}"
        raise source.fault("expected a comparison", node, hint)


def _read_condition(source: Expression, node: Comparison | Containment, schema: Schema) -> _Condition:
    compiler = Compiler(source, schema.attributes)
    evaluate = compiler.truth(node)
    if len(compiler.columns) != 1:
        message = "expected a comparison of one attribute with its values"
        raise source.fault(message, node, "write a condition such as 18 <= age < 65")
    attribute = schema.attributes[compiler.columns.pop()]
    if attribute.is_discrete:
        return _Condition(attribute, evaluate, attribute.domain().tolist())
    signs = [node.sign] if isinstance(node, Containment) else node.signs
    if attribute.size is None and not all(sign.text[0] in "<>" for sign in signs):
        message = f"expected a range of the real attribute {attribute.name!r}, got single values"
        raise source.fault(message, signs[0], "give a range, such as 18 <= age < 65")
    entries = []
    for operand in node.operands:
        if (word := source.word(operand)) not in schema.names:
            entries.append(read_number(word))
            if not math.isfinite(entries[-1]):
                message = f"expected a number to compare {attribute.name!r} with, got {word!r}"
                raise source.fault(message, operand, f"its domain is {attribute.describe_domain()}")
    return _Condition(attribute, evaluate, entries)

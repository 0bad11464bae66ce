"""Subdomains: parts of the domain that are defined by conditions like ``age >= 18 and race in {White, Black}``.

A condition compares one attribute with its values:

    age >= 18        18 <= age < 65        race == White        race not in {"A, B", Other}

``and`` joins conditions. Ordinal values are ordered as in the schema. ``or`` is not supported, because a subdomain is a
product of value sets.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from evenhand.core.expressions import (
    COMPARISONS,
    Comparison,
    Containment,
    ExpressionPart,
    Logic,
    Name,
    Node,
    parse_expression,
)
from evenhand.core.typing import Floats
from evenhand.errors import OptionError
from evenhand.schema.attribute import Attribute
from evenhand.schema.schema import Schema
from evenhand.schema.words import read_number

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


def parse_subdomain(schema: Schema, conditions: Sequence[str]) -> Subdomain | None:
    """Parse conditions that must all hold; None without conditions.

    Raises:
        OptionError: A condition is invalid (the message marks the position), or no value of an attribute remains.
    """
    texts = tuple(text.strip() for text in conditions)
    allowed: dict[str, Runs] = {}
    for text in conditions:
        for name, runs in _Parser(schema, text).parse():
            attribute = schema[name]
            current = allowed.get(name, ((attribute.first, attribute.last),))
            allowed[name] = _merge_runs(attribute, _intersect_runs(current, runs))
    for name, runs in allowed.items():
        if not runs:
            raise OptionError(
                f"no value of {name!r} meets the conditions {' and '.join(texts)!r}",
                hint=f"its domain is {schema[name].describe_domain()}",
            )
    return Subdomain(texts, allowed) if allowed else None


def _intersect_runs(left: Runs, right: Runs) -> Runs:
    overlaps = ((max(a, c), min(b, d)) for a, b in left for c, d in right)
    return tuple(sorted((low, high) for low, high in overlaps if low <= high))


def _merge_runs(attribute: Attribute, runs: Runs) -> Runs:
    """Merge adjacent ranges of a finite attribute."""
    merged: list[tuple[float, float]] = []
    for low, high in runs:
        if merged and attribute.size is not None and low == merged[-1][1] + 1:
            low, _ = merged.pop()
        merged.append((low, high))
    return tuple(merged)


class _Parser:
    """Parser of conditions. Each condition becomes the entries that it allows."""

    def __init__(self, schema: Schema, text: str) -> None:
        self._schema = schema
        self._source = parse_expression(text, location="condition", words=schema.words)

    def parse(self) -> Iterator[tuple[str, Runs]]:
        """Yield the attribute name and allowed entries of each condition, in order."""
        return self._parse(self._source.tree)

    def _parse(self, node: Node) -> Iterator[tuple[str, Runs]]:
        if isinstance(node, Logic) and node.word == "and":
            for operand in node.operands:
                yield from self._parse(operand)
        elif isinstance(node, Logic):
            hint = "list the values of one attribute: race in {White, Black}, race not in {White}"
            raise self._source.fault(f"conditions cannot contain {node.sign.text!r}", node.sign, hint)
        elif isinstance(node, Containment):
            attribute = self._attribute(node.operands[0])
            yield attribute.name, self._restrict(attribute, node)
        elif isinstance(node, Comparison):
            yield from self._compare(node)
        else:
            hint = "compare it: == != < <= > >=, in {...}, not in {...}"
            raise self._source.fault("expected a comparison", node, hint)

    def _compare(self, node: Comparison) -> Iterator[tuple[str, Runs]]:
        left, right, *bounds = node.operands
        signs = [sign.text for sign in node.signs]
        if bounds and (len(bounds) > 1 or signs[0][0] not in "<>" or signs[0][0] != signs[1][0]):
            hint = "write a range, such as 18 <= age < 65"
            raise self._source.fault("the two comparisons must have the same direction", node.signs[1], hint)
        # The attribute is the second operand of 18 <= age < 65 and of 18 <= age.
        names = self._schema.names
        if bounds or (self._source.word(left) not in names and self._source.word(right) in names):
            left, right, signs[0] = right, left, COMPARISONS[signs[0]]
        attribute = self._attribute(left)
        for sign, operand in zip(signs, [right, *bounds], strict=True):
            yield attribute.name, self._apply_comparison(attribute, sign, operand)

    def _attribute(self, node: Node) -> Attribute:
        name, names = self._source.word(node), self._schema.names
        if name not in names:
            hint = f"the attributes are: {', '.join(names)}"
            raise self._source.unknown(f"there is no attribute {name!r}", node, names, hint)
        return self._schema[name]

    def _restrict(self, attribute: Attribute, node: Containment) -> Runs:
        self._require_finite(attribute, node.sign)
        entries = sorted({self._entry(attribute, value) for value in node.operands[1:]})
        if not node.inside:
            return _exclude_entries(attribute, entries)
        return _intersect_runs(tuple((entry, entry) for entry in entries), ((attribute.first, attribute.last),))

    def _require_finite(self, attribute: Attribute, part: ExpressionPart) -> None:
        if attribute.size is None:
            message = f"expected a range of the real attribute {attribute.name!r}, got single values"
            raise self._source.fault(message, part, "give a range, such as 18 <= age < 65")

    def _apply_comparison(self, attribute: Attribute, sign: str, node: Node) -> Runs:
        if sign in ("==", "!="):
            self._require_finite(attribute, node)
            entry = self._entry(attribute, node)
            return ((entry, entry),) if sign == "==" else _exclude_entries(attribute, [entry])
        if not attribute.ordered:
            hint = f"{attribute.name} in {{...}}, with some of {attribute.describe_domain()}"
            raise self._source.fault(f"{sign} requires an ordered attribute, got {attribute.name!r}", node, hint)
        entry = self._entry(attribute, node) if attribute.is_discrete else self._number(attribute, node)
        if sign in ("<", "<="):
            return ((-math.inf, _last_below(attribute, entry, strict=sign == "<")),)
        return ((_first_above(attribute, entry, strict=sign == ">"), math.inf),)

    def _number(self, attribute: Attribute, node: Node) -> float:
        word = self._source.word(node)
        number = read_number(word)
        if not math.isfinite(number):
            message = f"expected a number to compare {attribute.name!r} with, got {word!r}"
            raise self._source.fault(message, node, f"its domain is {attribute.describe_domain()}")
        return number

    def _entry(self, attribute: Attribute, node: Node) -> float:
        """Convert a word to an entry of a finite attribute."""
        if attribute.values is None:
            number = self._number(attribute, node)
            if number != math.floor(number):
                raise self._source.fault(f"expected a whole number for {attribute.name!r}, got {number:g}", node)
            return number
        word = self._source.word(node)
        entry = attribute.find_value(word, quoted=isinstance(node, Name) and node.quoted)
        if entry is None:
            hint = f"the values are {attribute.describe_domain()}"
            message = f"{word!r} is not a value of {attribute.name!r}"
            raise self._source.unknown(message, node, map(str, attribute.values), hint)
        return entry


def _exclude_entries(attribute: Attribute, entries: Sequence[float]) -> Runs:
    """Return the domain of a finite attribute without some entries, given in ascending order."""
    runs, low = [], attribute.first
    for entry in entries:
        if attribute.first <= entry <= attribute.last:
            runs += [(low, entry - 1)] if low < entry else []
            low = entry + 1
    return tuple([*runs, (low, attribute.last)] if low <= attribute.last else runs)


def _last_below(attribute: Attribute, bound: float, *, strict: bool) -> float:
    """Return the largest entry below a bound, or up to the bound if not strict."""
    if attribute.size is None:
        return float(np.nextafter(bound, -np.inf)) if strict else bound
    return math.ceil(bound) - 1.0 if strict else float(math.floor(bound))


def _first_above(attribute: Attribute, bound: float, *, strict: bool) -> float:
    """Return the smallest entry above a bound, or from the bound on if not strict."""
    if attribute.size is None:
        return float(np.nextafter(bound, np.inf)) if strict else bound
    return math.floor(bound) + 1.0 if strict else float(math.ceil(bound))

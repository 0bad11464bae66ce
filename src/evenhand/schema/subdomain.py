"""A part of the domain, said in conditions like ``age >= 18 and race in {White, Black}``.

A condition compares one attribute with values of its own:

    age >= 18        18 <= age < 65        race == White        race not in {"A, B", Other}

``and`` joins conditions. Ordinal values compare by their place in the schema's list. There is no ``or`` between
attributes, as the part is then no product of value sets any more.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from evenhand.core import COMPARISONS, Comparison, Containment, ExpressionPart, Logic, Name, Node, parse_expression
from evenhand.errors import OptionError
from evenhand.schema.attribute import Attribute
from evenhand.schema.schema import Schema
from evenhand.typing import Floats

Runs: TypeAlias = tuple[tuple[float, float], ...]
"""Entries that are allowed: ranges with both ends included, increasing and apart."""

MAX_LISTED = 1_000_000
"""Entries of one attribute that are listed one by one, at most."""


@dataclass(frozen=True)
class Subdomain:
    """What conditions leave of a domain: of each attribute some of its entries.

    Attributes:
        conditions: as they were given, without outer spaces.
        allowed: entries by attribute name, for those that conditions name.
    """

    conditions: tuple[str, ...]
    allowed: Mapping[str, Runs]

    def runs(self, attribute: Attribute) -> Runs:
        """Return the entries of an attribute that lie in this part."""
        return self.allowed.get(attribute.name, ((attribute.first, attribute.last),))

    def entries(self, attribute: Attribute) -> Floats:
        """Return the same one by one, shape (n,).

        Raises:
            OptionError: there are too many.
        """
        return list_entries(attribute, self.runs(attribute))

    def __str__(self) -> str:
        return " and ".join(self.conditions)


def list_entries(attribute: Attribute, runs: Runs) -> Floats:
    """Return the entries in some ranges of a finite attribute one by one, shape (n,).

    Raises:
        OptionError: there are too many.
    """
    if sum(last - first + 1 for first, last in runs) > MAX_LISTED:
        raise OptionError(
            f"attribute {attribute.name!r} keeps more than {MAX_LISTED:,} values, too many to list them one by one",
            hint="restrict it to one range",
        )
    return np.concatenate([np.arange(first, last + 1) for first, last in runs])


def parse_subdomain(schema: Schema, conditions: Sequence[str]) -> Subdomain | None:
    """Read conditions that must all hold; None if there are none.

    Raises:
        OptionError: a condition cannot be read, or makes no sense for its attribute; the message points at the place.
            Or nothing is left of an attribute.
    """
    allowed: dict[str, Runs] = {}
    for text in conditions:
        for name, runs in _Reader(schema, text).conditions():
            attribute = schema[name]
            before = allowed.get(name, ((attribute.first, attribute.last),))
            allowed[name] = _merge_runs(attribute, _intersect_runs(before, runs))
    for name, runs in allowed.items():
        if not runs:
            raise OptionError(
                f"no value of {name!r} meets the conditions {' and '.join(text.strip() for text in conditions)!r}",
                hint=f"its domain is {schema[name].describe_domain()}",
            )
    return Subdomain(tuple(text.strip() for text in conditions), allowed) if allowed else None


def _intersect_runs(one: Runs, other: Runs) -> Runs:
    """Return entries in both."""
    found = [(max(a, c), min(b, d)) for a, b in one for c, d in other]
    return tuple(sorted((low, high) for low, high in found if low <= high))


def _merge_runs(attribute: Attribute, runs: Runs) -> Runs:
    """Return the same entries with ranges that touch made one."""
    found: list[tuple[float, float]] = []
    for low, high in runs:
        if found and attribute.size is not None and low == found[-1][1] + 1:
            found[-1] = (found[-1][0], high)
        else:
            found.append((low, high))
    return tuple(found)


class _Reader:
    """Turns one expression into the entries that each of its conditions leaves."""

    def __init__(self, schema: Schema, text: str) -> None:
        self._names = schema.names
        self._schema = schema
        self._source = parse_expression(text, location="condition", words=schema.words)

    def conditions(self) -> Iterator[tuple[str, Runs]]:
        """(attribute, what it may be) of each condition, in order."""
        return self._conditions(self._source.tree)

    def _conditions(self, node: Node) -> Iterator[tuple[str, Runs]]:
        if isinstance(node, Logic) and node.word == "and":
            for part in node.operands:
                yield from self._conditions(part)
        elif isinstance(node, Logic):
            hint = "list the values of one attribute: race in {White, Black}, race not in {White}"
            raise self._source.fault(f"there is no {node.sign.text!r} of conditions", node.sign, hint)
        elif isinstance(node, Containment):
            attribute = self._attribute(node.operands[0])
            yield attribute.name, self._restrict(attribute, node)
        elif isinstance(node, Comparison):
            yield from self._compare(node)
        else:
            hint = "compare it: == != < <= > >=, in {...}, not in {...}"
            raise self._source.fault("this is neither true nor false", node, hint)

    def _compare(self, node: Comparison) -> Iterator[tuple[str, Runs]]:
        first, second, *others = node.operands
        signs = [sign.text for sign in node.signs]
        if others and (len(others) > 1 or signs[0][0] not in "<>" or signs[0][0] != signs[1][0]):
            hint = "such as 18 <= age < 65"
            raise self._source.fault("the two comparisons must point the same way", node.signs[1], hint)
        # The attribute stands in the middle, or, where only the second is one, behind a value.
        if others or (self._source.word(first) not in self._names and self._source.word(second) in self._names):
            attribute = self._attribute(second)
            yield attribute.name, self._apply_comparison(attribute, COMPARISONS[signs[0]], first)
            for other in others:
                yield attribute.name, self._apply_comparison(attribute, signs[1], other)
        else:
            attribute = self._attribute(first)
            yield attribute.name, self._apply_comparison(attribute, signs[0], second)

    def _attribute(self, node: Node) -> Attribute:
        name = self._source.word(node)
        if name not in self._names:
            known = f"the attributes are: {', '.join(self._names)}"
            raise self._source.unknown(f"there is no attribute {name!r}", node, self._names, known)
        return self._schema[name]

    def _restrict(self, attribute: Attribute, node: Containment) -> Runs:
        self._require_finite(attribute, node.sign)
        entries = sorted({self._entry(attribute, value) for value in node.operands[1:]})
        if not node.inside:
            return _exclude_entries(attribute, entries)
        return _intersect_runs(tuple((entry, entry) for entry in entries), ((attribute.first, attribute.last),))

    def _require_finite(self, attribute: Attribute, place: ExpressionPart) -> None:
        if attribute.size is None:
            message = f"{attribute.name!r} is a real number, and a single value of it has no share"
            raise self._source.fault(message, place, "give a range, such as 18 <= age < 65")

    def _apply_comparison(self, attribute: Attribute, sign: str, node: Node) -> Runs:
        if sign in ("==", "!="):
            self._require_finite(attribute, node)
            entry = self._entry(attribute, node)
            return ((entry, entry),) if sign == "==" else _exclude_entries(attribute, [entry])
        if not attribute.ordered:
            message = f"{attribute.name!r} has no order, so {sign} says nothing about it"
            hint = f"{attribute.name} in {{...}}, with some of {attribute.describe_domain()}"
            raise self._source.fault(message, node, hint)
        entry = self._entry(attribute, node) if attribute.is_discrete else self._number(attribute, node)
        below = ((-math.inf, _last_below(attribute, entry, strict=sign == "<")),)
        above = ((_first_above(attribute, entry, strict=sign == ">"), math.inf),)
        return below if sign in ("<", "<=") else above

    def _number(self, attribute: Attribute, node: Node) -> float:
        word = self._source.word(node)
        try:
            number = float(word)
        except ValueError:
            number = math.nan
        if not math.isfinite(number):
            message = f"expected a number to compare {attribute.name!r} with, got {word!r}"
            raise self._source.fault(message, node, f"its domain is {attribute.describe_domain()}")
        return number

    def _entry(self, attribute: Attribute, node: Node) -> float:
        """Return the entry of a finite attribute that a word stands for."""
        if attribute.values is None:
            number = self._number(attribute, node)
            if number != math.floor(number):
                raise self._source.fault(f"{attribute.name!r} takes whole numbers only", node)
            return number
        word = self._source.word(node)
        entry = attribute.find_value(word, quoted=isinstance(node, Name) and node.quoted)
        if entry is None:
            known = f"its values are {attribute.describe_domain()}"
            message = f"{word!r} is not a value of {attribute.name!r}"
            raise self._source.unknown(message, node, map(str, attribute.values), known)
        return entry


def _exclude_entries(attribute: Attribute, entries: Sequence[float]) -> Runs:
    """Return all entries of a finite attribute but these, which are sorted."""
    runs, low = [], attribute.first
    for entry in entries:
        if attribute.first <= entry <= attribute.last:
            runs += [(low, entry - 1)] if low < entry else []
            low = entry + 1
    return tuple([*runs, (low, attribute.last)] if low <= attribute.last else runs)


def _last_below(attribute: Attribute, entry: float, *, strict: bool) -> float:
    if attribute.size is None:
        return float(np.nextafter(entry, -np.inf)) if strict else entry
    return math.ceil(entry) - 1.0 if strict else float(math.floor(entry))


def _first_above(attribute: Attribute, entry: float, *, strict: bool) -> float:
    if attribute.size is None:
        return float(np.nextafter(entry, np.inf)) if strict else entry
    return math.floor(entry) + 1.0 if strict else float(math.ceil(entry))

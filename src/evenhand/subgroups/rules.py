"""Rules and rule sets: descriptions of the people in a subgroup.

A rule restricts one attribute to some of its values or to a range of numbers. A rule set is a conjunction of rules over
different attributes (Zhang et al., "TestSGD", ACM TOSEM 2023, section 4.1).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import numpy as np

from evenhand.core.result_part import ResultPart
from evenhand.core.typing import Booleans, Floats
from evenhand.schema.attribute import Attribute
from evenhand.schema.people import People

MISSING = "missing"
"""Name of the cell of missing values."""

MOST_NAMED = 4
"""Maximum number of values that are named even if fewer are excluded."""


class Range(ResultPart):
    """A range of numbers.

    Attributes:
        low: Lower end, inclusive. None if the range has no lower end.
        high: Upper end. None if the range has no upper end.
        closed: Whether the upper end is inclusive (always for integers).
    """

    low: float | None = None
    high: float | None = None
    closed: bool = True

    def words(self) -> str:
        """Describe the range: ``40 to 59``, ``60 or more``, ``under 0.4``."""
        if self.low is None and self.high is None:
            return "any number"
        if self.high is None:
            return f"{self.low:.10g} or more"
        if self.low is None:
            return f"{self.high:.10g} or less" if self.closed else f"under {self.high:.10g}"
        if self.low == self.high and self.closed:
            return f"{self.low:.10g}"
        return f"{self.low:.10g} to {'' if self.closed else 'under '}{self.high:.10g}"

    def contains(self, number: float) -> bool:
        """Check whether the range contains a number."""
        return bool(self.contains_each(np.array(number)))

    def contains_each(self, numbers: Floats) -> Booleans:
        """Check which numbers the range contains."""
        above = np.ones(numbers.shape, dtype=np.bool_) if self.low is None else numbers >= self.low
        high = np.inf if self.high is None else self.high
        return np.asarray(above & (numbers <= high if self.closed else numbers < high))


Rule: TypeAlias = tuple[str, ...] | Range
"""Allowed values of one attribute, as in the data, or a range."""

Rules: TypeAlias = dict[str, Rule]
"""Attribute -> allowed values or range; for texts category -> contained term."""


def describe_rules(rules: Mapping[str, Rule], values: Mapping[str, tuple[str, ...]] | None = None) -> str:
    """Describe rules in words: ``race Black or Other, age 40 to 59``.

    Args:
        rules: Attribute -> values or range.
        values: All values of each attribute. If a rule includes most of them, the excluded values are named: ``race
            all but White``.
    """
    parts = []
    for name, rule in rules.items():
        if isinstance(rule, Range):
            parts.append(f"{name} {rule.words()}")
            continue
        excluded = [value for value in (values or {}).get(name, ()) if value not in rule]
        names, prefix, conjunction = list(rule), "", "or"
        if len(rule) > MOST_NAMED and 0 < len(excluded) < len(rule):
            names, prefix, conjunction = excluded, "all but ", "and"
        *others, last = names
        parts.append(f"{name} {prefix}{', '.join(others)} {conjunction} {last}" if others else f"{name} {prefix}{last}")
    return ", ".join(parts)


def find_members(people: People, rules: Mapping[str, Rule]) -> Booleans:
    """Find the people who satisfy every rule, shape (n,).

    Raises:
        SchemaError: A rule names an attribute that does not exist.
    """
    inside = np.ones(len(people), dtype=np.bool_)
    for (name, rule), column in zip(rules.items(), people.schema.positions(tuple(rules)), strict=True):
        inside &= _satisfy_rule(people.schema[name], people.individuals[:, column], rule)
    return inside


def _satisfy_rule(attribute: Attribute, entries: Floats, rule: Rule) -> Booleans:
    if isinstance(rule, Range):
        return rule.contains_each(entries)
    codes = [i for i, value in enumerate(attribute.values or ()) if str(value) in rule]
    inside = np.isin(entries, codes)
    return np.asarray(inside | np.isnan(entries)) if MISSING in rule else inside

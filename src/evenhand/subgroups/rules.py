"""Rules and rule sets: which people a subgroup is made of, in words.

A rule constrains one attribute: to some of its values, or to a range of numbers. A rule set is a conjunction of rules
over different attributes (Zhang et al., "TestSGD", ACM TOSEM 2023, section 4.1).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np

from evenhand.core.result_part import ResultPart
from evenhand.core.typing import Booleans, Floats
from evenhand.schema.attribute import Attribute
from evenhand.schema.people import People


class Range(ResultPart):
    """Numbers between two ends.

    Attributes:
        low: the lowest number in it; None without a lower end.
        high: the upper end; None without one.
        closed: whether the upper end belongs to it (always for whole numbers).
    """

    low: float | None = None
    high: float | None = None
    closed: bool = True

    def words(self) -> str:
        """Return the range as one says it: ``40 to 59``, ``60 or more``, ``under 0.4``."""
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
        """Return whether a number lies in it."""
        above = self.low is None or number >= self.low
        return above and (self.high is None or (number <= self.high if self.closed else number < self.high))


Rule: TypeAlias = tuple[str, ...] | Range
"""What one attribute may be: values as they are written in the data, or a range."""

Rules: TypeAlias = dict[str, Rule]
"""Attribute -> what it may be; for texts category -> the term that the text contains."""


class RuleSet(ResultPart):
    """A conjunction of rules.

    Attributes:
        rules: attribute -> values or range.
    """

    rules: Rules

    def words(self, values: Mapping[str, tuple[str, ...]] | None = None) -> str:
        """Return the rule set in words, see ``words``."""
        return describe_rules(self.rules, values)


MOST_NAMED = 4
"""Values that are named one by one even where fewer are left out."""


def describe_rules(rules: Mapping[str, Rule], values: Mapping[str, tuple[str, ...]] | None = None) -> str:
    """Return the rules as one says them: ``race Black or Other, age 40 to 59``.

    Args:
        rules: attribute -> values or range.
        values: all values of an attribute, so that many can be said by what is left out: ``race all but White``.
    """
    return ", ".join(f"{name} {_describe_rule(rule, (values or {}).get(name))}" for name, rule in rules.items())


def _describe_rule(rule: Rule, every: tuple[str, ...] | None) -> str:
    if isinstance(rule, Range):
        return rule.words()
    others = [value for value in every or () if value not in rule]
    if len(rule) > MOST_NAMED and 0 < len(others) < len(rule):
        return f"all but {_join(others, 'and')}"
    return _join(rule, "or")


def _join(values: Sequence[str], last: str) -> str:
    return values[0] if len(values) == 1 else f"{', '.join(values[:-1])} {last} {values[-1]}"


MISSING = "missing"
"""The cell of those whose value is missing."""


def refines_rules(rules: Mapping[str, Rule], wider: Mapping[str, Rule]) -> bool:
    """Return whether every rule of ``wider`` holds for all who satisfy ``rules``."""
    return all(name in rules and _refines(rules[name], rule) for name, rule in wider.items())


def _refines(rule: Rule, wider: Rule) -> bool:
    if isinstance(rule, Range) and isinstance(wider, Range):
        low = wider.low is None or (rule.low is not None and rule.low >= wider.low)
        return low and (wider.high is None or (rule.high is not None and rule.high <= wider.high))
    return not isinstance(rule, Range) and not isinstance(wider, Range) and set(rule) <= set(wider)


# Who a rule set holds.


def find_members(people: People, rules: Mapping[str, Rule]) -> Booleans:
    """Return which of the people satisfy every rule, shape (n,).

    Raises:
        SchemaError: a rule names an attribute that does not exist.
    """
    inside = np.ones(len(people), dtype=np.bool_)
    for (name, rule), at in zip(rules.items(), people.schema.positions(tuple(rules)), strict=True):
        inside &= _satisfy_rule(people.schema[name], people.individuals[:, at], rule)
    return inside


def _satisfy_rule(attribute: Attribute, entries: Floats, rule: Rule) -> Booleans:
    if isinstance(rule, Range):
        above = np.ones(len(entries), dtype=np.bool_) if rule.low is None else entries >= rule.low
        high = np.inf if rule.high is None else rule.high
        return np.asarray(above & (entries <= high if rule.closed else entries < high))
    wanted = [i for i, value in enumerate(attribute.values or ()) if str(value) in rule]
    inside = np.isin(entries, wanted)
    return np.asarray(inside | np.isnan(entries)) if MISSING in rule else inside

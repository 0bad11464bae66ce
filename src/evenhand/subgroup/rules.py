"""Rules and rule sets: which people a subgroup is made of, in words.

A rule constrains one attribute: to some of its values, or to a range of numbers. A rule set is a conjunction of rules
over different attributes (Zhang et al., "TestSGD", ACM TOSEM 2023, section 4.1).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from pydantic import BaseModel, ConfigDict


class Range(BaseModel):
    """Numbers between two ends.

    Attributes:
        low: the lowest number in it; None without a lower end.
        high: the upper end; None without one.
        closed: whether the upper end belongs to it (always for whole numbers).
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    low: float | None = None
    high: float | None = None
    closed: bool = True

    def words(self) -> str:
        """The range as one says it: ``40 to 59``, ``60 or more``, ``under 0.4``."""
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
        """Whether a number lies in it."""
        above = self.low is None or number >= self.low
        return above and (self.high is None or (number <= self.high if self.closed else number < self.high))


Rule: TypeAlias = tuple[str, ...] | Range
"""What one attribute may be: values as they are written in the data, or a range."""

Rules: TypeAlias = dict[str, Rule]
"""Attribute -> what it may be; for texts category -> the term that the text contains."""


class RuleSet(BaseModel):
    """A conjunction of rules.

    Attributes:
        rules: attribute -> values or range.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    rules: Rules

    def words(self, values: Mapping[str, tuple[str, ...]] | None = None) -> str:
        """The rule set in words, see ``words``."""
        return words(self.rules, values)


def words(rules: Mapping[str, Rule], values: Mapping[str, tuple[str, ...]] | None = None) -> str:
    """Rules as one says them: ``race Black or Other, age 40 to 59``.

    Args:
        rules: attribute -> values or range.
        values: all values of an attribute, so that most of them can be said by what is left out: ``race not White``.
    """
    return ", ".join(f"{name} {_said(rule, (values or {}).get(name))}" for name, rule in rules.items())


def _said(rule: Rule, every: tuple[str, ...] | None) -> str:
    if isinstance(rule, Range):
        return rule.words()
    others = [value for value in every or () if value not in rule]
    if 0 < len(others) < len(rule):
        return f"not {others[0]}" if len(others) == 1 else f"neither {', '.join(others[:-1])} nor {others[-1]}"
    return _either(rule)


def _either(values: tuple[str, ...] | list[str]) -> str:
    return values[0] if len(values) == 1 else f"{', '.join(values[:-1])} or {values[-1]}"

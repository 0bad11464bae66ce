"""Who a rule set holds."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from evenhand.schema import Attribute, People
from evenhand.subgroup.cells import MISSING
from evenhand.subgroup.rules import Range, Rule


def members(people: People, rules: Mapping[str, Rule]) -> NDArray[np.bool_]:
    """Which of the people satisfy every rule, shape (n,).

    Raises:
        SchemaError: a rule names an attribute that does not exist.
    """
    inside = np.ones(len(people), dtype=np.bool_)
    for (name, rule), at in zip(rules.items(), people.schema.positions(tuple(rules)), strict=True):
        inside &= _satisfy(people.schema[name], people.individuals[:, at], rule)
    return inside


def _satisfy(attribute: Attribute, entries: NDArray[np.float64], rule: Rule) -> NDArray[np.bool_]:
    if isinstance(rule, Range):
        above = np.ones(len(entries), dtype=np.bool_) if rule.low is None else entries >= rule.low
        high = np.inf if rule.high is None else rule.high
        return np.asarray(above & (entries <= high if rule.closed else entries < high))
    wanted = [i for i, value in enumerate(attribute.values or ()) if str(value) in rule]
    inside = np.isin(entries, wanted)
    return np.asarray(inside | np.isnan(entries)) if MISSING in rule else inside

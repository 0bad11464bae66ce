"""Rule sets that somebody asks about: conditions on any attributes, which need not follow the cells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evenhand.errors import OptionError
from evenhand.schema import Attribute, People
from evenhand.schema.subdomain import Runs, subdomain
from evenhand.subgroup.rules import Range, Rule, Rules, words


@dataclass(frozen=True)
class Asked:
    """A rule set that was asked about.

    Attributes:
        rules: what its conditions say.
        inside: who is in it, shape (n,).
    """

    rules: Rules
    inside: NDArray[np.bool_]

    @property
    def words(self) -> str:
        """The rule set as one says it."""
        return words(self.rules)


def asked(people: People, conditions: Sequence[str]) -> tuple[Asked, ...]:
    """Read rule sets such as ``age >= 90 and sex == Male``; who misses a value meets no condition on it.

    Raises:
        OptionError: a text cannot be read, says nothing, or nothing is left; the message points at the place.
    """
    found = []
    for text in conditions:
        part = subdomain(people.schema, [text]) if text.strip() else None
        if part is None:
            raise OptionError("a rule set to judge says nothing", mend='write for example "age >= 65 and sex == Male"')
        inside = np.ones(len(people), dtype=bool)
        rules: Rules = {}
        for name, runs in part.allowed.items():
            attribute, entries = people.schema[name], people.individuals[:, people.schema.position(name)]
            inside &= np.any([(entries >= low) & (entries <= high) for low, high in runs], axis=0)
            rules[name] = _rule(attribute, runs)
        found.append(Asked(rules, inside))
    return tuple(found)


def _rule(attribute: Attribute, runs: Runs) -> Rule:
    if attribute.values is not None:
        return tuple(attribute.text(entry) for low, high in runs for entry in np.arange(low, high + 1))
    ranges = [
        Range(low=None if low <= attribute.first else low, high=None if high >= attribute.last else high)
        for low, high in runs
    ]
    return ranges[0] if len(ranges) == 1 else tuple(one.words() for one in ranges)

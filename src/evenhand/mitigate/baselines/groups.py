"""Whose rates are made alike: inside and outside the subgroups found, else the groups of what is protected."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from evenhand.errors import DataError
from evenhand.mitigate.baselines.lots import Floats, Ints
from evenhand.mitigate.harms import GapHarm
from evenhand.schema import People, Schema
from evenhand.subgroup import Rules
from evenhand.subgroup.members import members

LEAST = 10
"""People with either label that a group needs; smaller groups are taken together."""


CUTS = 3
"""Ranges, with about as many people in each, that a number is cut into to make groups of it."""


@dataclass(frozen=True, eq=False)
class Groups:
    """Whose rates are made alike.

    Attributes:
        schema: of the individuals.
        rules: of subgroups; who is in which of them makes the group.
        ends: without rules: protected attribute -> upper ends of the ranges it is cut into; None: its own values.
        known: codes of the groups that are large enough, ascending.
        others: the group of everybody else, a position in ``known`` or one behind.
        words: what the groups are, for a reader.
    """

    schema: Schema
    rules: tuple[Rules, ...]
    ends: dict[str, Floats | None]
    known: Ints
    others: int
    words: str

    @classmethod
    def of(cls, people: People, harms: Sequence[object]) -> Groups:
        """By the subgroups among the harms, else by the joint values of the protected attributes.

        Raises:
            DataError: fewer than two groups have `LEAST` people with either label.
        """
        schema = people.schema
        rules = tuple(harm.rules for harm in harms if isinstance(harm, GapHarm))
        ends = {} if rules else {name: _ends(people, name) for name in schema.protected}
        words = "inside and outside the subgroup" if rules else f"by {' x '.join(schema.protected)}"
        draft = cls(schema, rules, ends, np.empty(0, dtype=np.int64), 0, words)
        codes, favourable = draft._codes(people.individuals), people.favourable
        values = np.unique(codes)
        enough = np.array([_enough(favourable[codes == value]) for value in values], dtype=np.bool_)
        known = values[enough]
        rest = ~np.isin(codes, known)
        pooled = _enough(favourable[rest])
        if len(known) + pooled < 2:
            raise DataError(
                f"fewer than two groups {words} have {LEAST} people with either label: there is nothing to make alike",
                mend="give more people, or protect other attributes",
            )
        largest = int(np.argmax([np.sum(codes == value) for value in known])) if len(known) else 0
        return replace(draft, known=known, others=len(known) if pooled else largest)

    def __call__(self, individuals: Floats) -> Ints:
        """The group of each individual (n, attributes), shape (n,)."""
        codes = self._codes(individuals)
        place = np.minimum(np.searchsorted(self.known, codes), max(len(self.known) - 1, 0))
        here = self.known[place] == codes if len(self.known) else np.zeros(len(codes), dtype=np.bool_)
        return np.where(here, place, self.others)

    def _codes(self, individuals: Floats) -> Ints:
        code = np.zeros(len(individuals), dtype=np.int64)
        if self.rules:
            people = People(self.schema, individuals, None, np.arange(len(individuals)), 0, None)
            for rules in self.rules:
                code = 2 * code + members(people, rules)
            return code
        for name, ends in self.ends.items():
            entries = individuals[:, self.schema.position(name)]
            count = len(self.schema[name].domain()) if ends is None else len(ends) + 1
            own = entries if ends is None else np.searchsorted(ends, entries).astype(np.float64)
            code = (count + 1) * code + np.where(np.isnan(entries), count, own).astype(np.int64)
        return code


def _enough(favourable: NDArray[np.bool_]) -> bool:
    return bool(favourable.sum() >= LEAST and (~favourable).sum() >= LEAST)


def _ends(people: People, name: str) -> Floats | None:
    if people.schema[name].kind not in ("integer", "real"):
        return None
    entries = people.individuals[:, people.schema.position(name)]
    return np.unique(np.nanquantile(entries, [i / CUTS for i in range(1, CUTS)], method="lower"))

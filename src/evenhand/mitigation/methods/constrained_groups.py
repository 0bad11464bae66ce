"""Groups of people whose selection rates a method makes equal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from evenhand.core.typing import Booleans, Floats, Integers
from evenhand.errors import DataError
from evenhand.mitigation.metrics import SubgroupGapMetric
from evenhand.models.scorer import Scorer
from evenhand.schema.people import People
from evenhand.schema.schema import Schema
from evenhand.subgroups.rules import Rules, find_members

MIN_PER_LABEL = 10
"""Minimum number of people with each label in a group. Smaller groups are pooled."""

RANGES = 3
"""Number of ranges of equal size that a number is divided into."""


@dataclass(frozen=True, eq=False)
class ConstrainedGroups:
    """Function from individuals to groups.

    Attributes:
        schema: Data schema.
        rules: Subgroups. Membership in each of them determines the group.
        ends: Upper ends of the ranges of each protected attribute, or None for its own values. Not used with rules.
        codes: Sorted codes of the groups that are large enough.
        pooled: Position of the group of all other people.
        words: Description of the groups.
        labels: Label of each group.
    """

    schema: Schema
    rules: tuple[Rules, ...]
    ends: dict[str, Floats | None]
    codes: Integers
    pooled: int
    words: str
    labels: tuple[str, ...] = ()

    @classmethod
    def of(cls, people: People, metrics: Sequence[object]) -> ConstrainedGroups:
        """Create groups from the subgroups among metrics, or else from the joint values of the protected attributes.

        Raises:
            DataError: Fewer than two groups have ``MIN_PER_LABEL`` people with each label.
        """
        schema = people.schema
        rules = tuple(metric.rules for metric in metrics if isinstance(metric, SubgroupGapMetric))
        ends = {} if rules else {name: _range_ends(people, name) for name in schema.protected}
        words = "inside and outside the subgroup" if rules else f"by {' x '.join(schema.protected)}"
        groups = cls(schema, rules, ends, np.empty(0, dtype=np.int64), 0, words)
        codes, favourable = groups._encode(people.individuals), people.favourable
        distinct = np.unique(codes)
        large = distinct[np.array([_is_large(favourable[codes == code]) for code in distinct], dtype=np.bool_)]
        pooled = _is_large(favourable[~np.isin(codes, large)])
        if len(large) + pooled < 2:
            raise DataError(
                f"expected two groups {words} with {MIN_PER_LABEL} people of each label, got fewer",
                hint="add people, or protect other attributes",
            )
        largest = int(np.argmax([np.sum(codes == code) for code in large])) if len(large) else 0
        firsts = [people.individuals[int(np.argmax(codes == code))] for code in large]
        labels = (*map(groups._label, firsts), *(["others"] if pooled else []))
        return replace(groups, codes=large, pooled=len(large) if pooled else largest, labels=labels)

    def __call__(self, individuals: Floats) -> Integers:
        """Find the group of each individual, shape (n,)."""
        codes = self._encode(individuals)
        if not len(self.codes):
            return np.full(len(codes), self.pooled)
        position = np.minimum(np.searchsorted(self.codes, codes), len(self.codes) - 1)
        return np.where(self.codes[position] == codes, position, self.pooled)

    def _label(self, individual: Floats) -> str:
        """Return the label of the group of an individual."""
        if self.rules:
            return "inside" if self._encode(individual[None])[0] else "outside"
        words = []
        for name, ends in self.ends.items():
            entry = float(individual[self.schema.position(name)])
            if ends is None or np.isnan(entry):
                words.append(self.schema[name].text(entry))
                continue
            place = int(np.searchsorted(ends, entry))
            above = f"above {ends[place - 1]:g}" if place > 0 else ""
            below = f"up to {ends[place]:g}" if place < len(ends) else ""
            words.append(f"{name} {', '.join(filter(None, (above, below)))}")
        return " x ".join(words)

    def _encode(self, individuals: Floats) -> Integers:
        code = np.zeros(len(individuals), dtype=np.int64)
        if self.rules:
            people = People(self.schema, individuals, None, np.arange(len(individuals)), 0, None)
            for rules in self.rules:
                code = 2 * code + find_members(people, rules)
            return code
        for name, ends in self.ends.items():
            entries = individuals[:, self.schema.position(name)]
            count = len(self.schema[name].domain()) if ends is None else len(ends) + 1
            values = entries if ends is None else np.searchsorted(ends, entries).astype(np.float64)
            code = (count + 1) * code + np.where(np.isnan(entries), count, values).astype(np.int64)
        return code


def _is_large(favourable: Booleans) -> bool:
    return bool(favourable.sum() >= MIN_PER_LABEL and (~favourable).sum() >= MIN_PER_LABEL)


def _range_ends(people: People, name: str) -> Floats | None:
    if people.schema[name].kind not in ("integer", "real"):
        return None
    entries = people.individuals[:, people.schema.position(name)]
    return np.unique(np.nanquantile(entries, [i / RANGES for i in range(1, RANGES)], method="lower"))


def require_two_labels(model: Scorer) -> None:
    """Check that a model has two labels.

    Raises:
        DataError: It has more.
    """
    if len(model.classes) != 2:
        raise DataError(
            f"expected a model with two labels, got a model that decides between {len(model.classes)}",
            location=model.name,
            hint="choose a method for several labels, such as retrain",
        )

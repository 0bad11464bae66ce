"""What a search has found: distinct profiles with all their assignments, labels and scores."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from evenhand.core.typing import Booleans, Floats, Integers
from evenhand.individual.flips import WidestPairs, find_flips, find_widest_pairs
from evenhand.individual.search.space import ProfileSpace
from evenhand.schema.attribute import Attribute, Value
from evenhand.schema.counterparts import counterparts_of
from evenhand.schema.schema import Schema

if TYPE_CHECKING:
    import pandas as pd


Labels: TypeAlias = Integers

NOT_QUERIED = -1
"""In place of the label under an assignment that was not asked about; the scores are then NaN."""


@dataclass(frozen=True)
class DiscriminatoryProfiles:
    """Profiles that are decided differently under some protected assignment, in the order they were found.

    Attributes:
        unprotected: shape (n, U), no two alike.
        labels: shape (n, A).
        scores: shape (n, A, classes).
        valid: shape (n,), whether every pair of their values occurs in the data; all True without data.
        given: shape (n,), whether it was a seed as it stands, so that no search was needed.
        compared: shape (n, A), under which assignments it is a person who can exist: the others say nothing.
    """

    unprotected: Floats
    labels: Labels
    scores: Floats
    valid: Booleans
    given: Booleans
    compared: Booleans

    def __len__(self) -> int:
        return len(self.unprotected)

    def __getitem__(self, which: Booleans | Integers | slice) -> DiscriminatoryProfiles:
        return DiscriminatoryProfiles(*(getattr(self, one.name)[which] for one in fields(self)))

    @classmethod
    def concatenate(cls, parts: list[DiscriminatoryProfiles]) -> DiscriminatoryProfiles:
        """Return all of several, in order."""
        return cls(*(np.concatenate([getattr(part, one.name) for part in parts]) for one in fields(cls)))


class FindingCollector:
    """Collects profiles as the model answers about them; each counts once."""

    def __init__(self, space: ProfileSpace, classes: int) -> None:
        self.space = space
        self._classes = classes
        self._seen: dict[int, None] = {}
        self._given: set[int] = set()
        self._unprotected: list[Floats] = []
        self._labels: list[Labels] = []
        self._scores: list[Floats] = []

    def __len__(self) -> int:
        return len(self._seen)

    def record_seeds(self, unprotected: Floats) -> None:
        """Note the seeds (n, U): those that discriminate as they stand are findings, but not of the search."""
        self._given.update(self.space.keys(unprotected).tolist())

    def add(self, unprotected: Floats, labels: Labels, scores: Floats) -> Booleans:
        """Take in the model's answers; which of these profiles (n, U) are decided differently, shape (n,).

        Args:
            labels: shape (n, A). scores: shape (n, A, classes).
        """
        flips = find_flips(labels)
        if not flips.any():
            return flips
        where = np.flatnonzero(flips)
        seen = self._seen
        new = []
        for i, key in zip(where.tolist(), self.space.keys(unprotected[where]).tolist(), strict=True):
            if key not in seen:
                seen[key] = None
                new.append(i)
        if new:
            self._unprotected.append(unprotected[new])
            self._labels.append(labels[new])
            self._scores.append(scores[new])
        return flips

    def reportable(self) -> DiscriminatoryProfiles:
        """Return all of them that may be reported: legal, and valid unless anything goes."""
        space = self.space
        n = len(space.assignments)
        unprotected = np.concatenate([np.empty((0, space.width)), *self._unprotected])
        labels = np.concatenate([np.empty((0, n), dtype=np.int64), *self._labels])
        scores = np.concatenate([np.empty((0, n, self._classes)), *self._scores])
        legal = space.is_legal(unprotected)
        valid = np.zeros(len(unprotected), dtype=np.bool_)
        valid[legal] = space.valid(unprotected[legal])
        keys = space.keys(unprotected).tolist() if self._given else [0] * len(unprotected)
        given = np.array([key in self._given for key in keys], dtype=np.bool_)
        kept = legal if space.allow_infeasible else legal & valid
        compared = space.compared(unprotected[kept])
        return DiscriminatoryProfiles(unprotected[kept], labels[kept], scores[kept], valid[kept], given[kept], compared)


# All profiles of a search as columns: entries, the worst and the best treated assignment, in the user's own words.


@dataclass(frozen=True)
class ProfileTable:
    """Found profiles with what is needed to read them.

    Attributes:
        schema: what the attributes are.
        protected: names of the protected attributes.
        assignments: shape (A, protected).
        classes, favourable: the model's labels, and the position of the one that people want.
        found: the profiles.
        with_data: whether ``found.valid`` says something.
        real: Whether each profile tells about a person in the data (see ``find_real``), shape (n,).
        carried: the passthrough columns of everybody in the search, by name.
    """

    schema: Schema
    protected: tuple[str, ...]
    assignments: Floats
    classes: tuple[Value, ...]
    favourable: int
    found: DiscriminatoryProfiles
    with_data: bool
    real: Booleans
    carried: Mapping[str, Any] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.found)

    @property
    def invented(self) -> ProfileTable:
        """The profiles that tell about no person in the data."""
        kept = ~self.real
        return replace(self, found=self.found[kept], real=self.real[kept])

    @cached_property
    def unprotected_names(self) -> tuple[str, ...]:
        """Names of the U unprotected attributes, in schema order."""
        return tuple(name for name in self.schema.names if name not in self.protected)

    @cached_property
    def scores(self) -> Floats:
        """The favourable label's score under every assignment, NaN where it was not asked, shape (n, A)."""
        return self.found.scores[:, :, self.favourable]

    @cached_property
    def compared(self) -> Booleans:
        """Under which assignments a profile is somebody who can exist and was asked about, shape (n, A)."""
        return np.asarray(self.found.compared & (self.found.labels != NOT_QUERIED))

    @cached_property
    def pairs(self) -> WidestPairs:
        """Best and worst treated assignment of each profile among those queried."""
        return find_widest_pairs(self.found.labels, self.scores, self.compared)

    @property
    def better(self) -> Integers:
        """Best treated assignment of each profile, shape (n,)."""
        return self.pairs.better

    @property
    def worse(self) -> Integers:
        """Worst treated assignment of each profile among those with another label, shape (n,)."""
        return self.pairs.worse

    @property
    def gap(self) -> Floats:
        """Difference of the favourable scores of these two, shape (n,)."""
        return self.pairs.gaps

    @cached_property
    def moved(self) -> tuple[str, ...]:
        """Names of unprotected attributes that move along with protected ones."""
        return tuple(self.schema.names[i] for i in counterparts_of(self.schema, self.protected).moved)

    def people(self, rows: Integers, which: Integers) -> Floats:
        """Return who the profiles at positions ``rows`` (n,) are under one assignment each (n,): (n, attributes)."""
        people = np.zeros((len(rows), len(self.schema.attributes)))
        people[:, self.schema.positions(self.unprotected_names)] = self.found.unprotected[rows]
        return counterparts_of(self.schema, self.protected).assign_each(people, which)

    def to_frame(self) -> pd.DataFrame:
        """Return one row per profile, in the data's own words (bins of numbers by their names).

        An attribute that moves along has the value of the worst treated person, and one column for the best treated.
        """
        import pandas as pd

        found, n = self.found, np.arange(len(self.found))
        worst, best = self.people(n, self.worse), self.people(n, self.better)
        columns: dict[str, Any] = {
            name: decode_entries(self.schema[name], worst[:, self.schema.position(name)])
            for name in self.unprotected_names
        }
        for name in self.moved:
            columns[f"{name} (better)"] = decode_entries(self.schema[name], best[:, self.schema.position(name)])
        for side, which in (("worse", self.worse), ("better", self.better)):
            for i, name in enumerate(self.protected):
                columns[f"{name} ({side})"] = decode_entries(self.schema[name], self.assignments[which, i])
        classes = _value_array(self.classes)
        for side, which in (("worse", self.worse), ("better", self.better)):
            columns[f"label ({side})"] = classes[found.labels[n, which]]
        for side, which in (("worse", self.worse), ("better", self.better)):
            columns[f"score ({side})"] = self.scores[n, which]
        columns["gap"] = self.gap
        columns["valid"] = found.valid if self.with_data else np.full(len(found), None)
        columns["given"] = found.given
        return pd.DataFrame(columns)


def decode_entries(attribute: Attribute, entries: Floats) -> NDArray[Any]:
    """Return entries (n,) of an attribute as values: categories and bins by name, whole numbers as such."""
    if attribute.values is not None:
        return _value_array(attribute.values)[entries.astype(np.int64)]
    return entries.astype(np.int64) if attribute.kind == "integer" else entries


def _value_array(values: tuple[Value, ...]) -> NDArray[Any]:
    listed = np.empty(len(values), dtype=object)
    listed[:] = values
    return listed

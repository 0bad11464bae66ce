"""Findings of a search: distinct profiles with labels and scores under all assignments."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from evenhand.core.typing import Booleans, Floats, Integers
from evenhand.individual.flips import WidestPairs, find_flips, find_widest_pairs
from evenhand.individual.search.space import ProfileSpace
from evenhand.schema.attribute import Value
from evenhand.schema.counterparts import counterparts_of
from evenhand.schema.schema import Schema

if TYPE_CHECKING:
    import pandas as pd

NOT_QUERIED = -1
"""Label under an assignment that was not queried. Its scores are NaN."""


@dataclass(frozen=True)
class DiscriminatoryProfiles:
    """Profiles whose label changes with a protected assignment, in the order they were found.

    Attributes:
        unprotected: Distinct unprotected parts, shape (n, U).
        labels: Labels, shape (n, A).
        scores: Scores, shape (n, A, classes).
        valid: Whether every pair of values occurs in the data, shape (n,). True without data.
        compared: Assignments that give a plausible person, shape (n, A). Others are not compared.
    """

    unprotected: Floats
    labels: Integers
    scores: Floats
    valid: Booleans
    compared: Booleans

    def __len__(self) -> int:
        return len(self.unprotected)

    def __getitem__(self, which: Booleans | Integers | slice) -> DiscriminatoryProfiles:
        return DiscriminatoryProfiles(*(getattr(self, column.name)[which] for column in fields(self)))

    @classmethod
    def concatenate(cls, parts: list[DiscriminatoryProfiles]) -> DiscriminatoryProfiles:
        """Concatenate profiles in order."""
        return cls(*(np.concatenate([getattr(part, column.name) for part in parts]) for column in fields(cls)))


class FindingCollector:
    """Collector of the distinct profiles whose label changes."""

    def __init__(self, space: ProfileSpace, classes: int) -> None:
        self.space = space
        self._seen: set[int] = set()
        shape = 0, len(space.assignments)
        self._parts = [(np.empty((0, space.width)), np.empty(shape, dtype=np.int64), np.empty((*shape, classes)))]

    def __len__(self) -> int:
        return len(self._seen)

    def add(self, unprotected: Floats, labels: Integers, scores: Floats, which: Integers | None = None) -> Booleans:
        """Add the answers about profiles (n, U), and return a mask of the profiles whose label changes, shape (n,).

        Args:
            unprotected: The profiles.
            labels: Labels, shape (n, k).
            scores: Scores, shape (n, k, classes).
            which: The k assignments of each profile, shape (n, k). Others are marked as not queried. Default: all A.
        """
        flips = find_flips(labels)
        rows, new = np.flatnonzero(flips), []
        for i, key in zip(rows.tolist(), self.space.keys(unprotected[rows]).tolist(), strict=True):
            if key not in self._seen:
                self._seen.add(key)
                new.append(i)
        unprotected, labels, scores = unprotected[new], labels[new], scores[new]
        if which is not None:
            partial, which = (labels, scores), which[new]
            labels = np.full((len(new), *self._parts[0][1].shape[1:]), NOT_QUERIED)
            np.put_along_axis(labels, which, partial[0], axis=1)
            scores = np.full((len(new), *self._parts[0][2].shape[1:]), np.nan)
            np.put_along_axis(scores, which[:, :, None], partial[1], axis=1)
        self._parts.append((unprotected, labels, scores))
        return flips

    def reportable(self) -> DiscriminatoryProfiles:
        """Return the profiles that may be reported: legal, and valid unless infeasible profiles are allowed."""
        space = self.space
        unprotected, labels, scores = (np.concatenate(parts) for parts in zip(*self._parts, strict=True))
        legal = space.is_legal(unprotected)
        valid = np.zeros(len(unprotected), dtype=np.bool_)
        valid[legal] = space.valid(unprotected[legal])
        reportable = legal if space.allow_infeasible else legal & valid
        return DiscriminatoryProfiles(
            unprotected[reportable],
            labels[reportable],
            scores[reportable],
            valid[reportable],
            space.compared(unprotected[reportable]),
        )


@dataclass(frozen=True)
class ProfileTable:
    """Profiles found, with the data needed to read them.

    Attributes:
        schema: Schema of the individuals.
        protected: Names of the protected attributes.
        assignments: Protected assignments, shape (A, protected).
        classes: Labels of the model.
        favourable: Position of the favourable label.
        profiles: The profiles.
        with_data: Whether ``profiles.valid`` was determined from data.
        real: Whether each profile reveals a person in the data (see ``find_real``), shape (n,).
        carried: Passthrough values of all individuals in the search, by column.
    """

    schema: Schema
    protected: tuple[str, ...]
    assignments: Floats
    classes: tuple[Value, ...]
    favourable: int
    profiles: DiscriminatoryProfiles
    with_data: bool
    real: Booleans
    carried: Mapping[str, Any] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.profiles)

    @property
    def synthetic(self) -> ProfileTable:
        """Profiles that reveal no person in the data."""
        return replace(self, profiles=self.profiles[~self.real], real=self.real[~self.real])

    @cached_property
    def unprotected_names(self) -> tuple[str, ...]:
        """Names of the U unprotected attributes, in the order of the schema."""
        return tuple(name for name in self.schema.names if name not in self.protected)

    @cached_property
    def scores(self) -> Floats:
        """Favourable score under every assignment, shape (n, A). NaN if it was not queried."""
        return self.profiles.scores[:, :, self.favourable]

    @cached_property
    def compared(self) -> Booleans:
        """Assignments that give a plausible person and were queried, shape (n, A)."""
        return np.asarray(self.profiles.compared & (self.profiles.labels != NOT_QUERIED))

    @cached_property
    def pairs(self) -> WidestPairs:
        """Best and worst treated assignment of each profile among those queried."""
        return find_widest_pairs(self.profiles.labels, self.scores, self.compared)

    @cached_property
    def by_gap(self) -> Integers:
        """Positions of the profiles, plausible ones first, each in descending order of the gap, shape (n,)."""
        return np.lexsort((-self.pairs.gaps, ~self.profiles.valid))

    @property
    def favoured(self) -> dict[str, int]:
        """Number of profiles by the protected value of the best treated assignment, if its label is favourable."""
        labels = self.profiles.labels[np.arange(len(self)), self.pairs.better]
        values = self.assignments[self.pairs.better[labels == self.favourable]]
        counts: dict[str, int] = {}
        for i, name in enumerate(self.protected):
            entries, sizes = np.unique(values[:, i], return_counts=True)
            names = (f"{name} {self.schema[name].text(entry)}" for entry in entries)
            counts |= dict(zip(names, sizes.tolist(), strict=True))
        return counts

    @cached_property
    def moved(self) -> tuple[str, ...]:
        """Names of unprotected attributes that are linked to protected ones."""
        return tuple(self.schema.names[i] for i in counterparts_of(self.schema, self.protected).moved)

    def people(self, rows: Integers, which: Integers) -> Floats:
        """Return the profiles at positions ``rows`` (n,), each under one assignment (n,): shape (n, attributes)."""
        people = np.zeros((len(rows), len(self.schema.attributes)))
        people[:, self.schema.positions(self.unprotected_names)] = self.profiles.unprotected[rows]
        return counterparts_of(self.schema, self.protected).assign_each(people, which)

    def to_frame(self) -> pd.DataFrame:
        """Convert the profiles to a table with values as in the data (bins of numbers by their names).

        A linked attribute has the value of the worst treated person, and a second column for the best treated.
        """
        import pandas as pd

        rows = np.arange(len(self))
        sides = {"worse": self.pairs.worse, "better": self.pairs.better}
        people = {side: self.people(rows, which) for side, which in sides.items()}

        def values(name: str, side: str) -> Any:
            """Return categories and bins by name, and whole numbers as integers."""
            attribute, entries = self.schema[name], people[side][:, self.schema.position(name)]
            if attribute.values is None and attribute.kind == "real":
                return entries
            whole = entries.astype(np.int64)
            return whole if attribute.values is None else [attribute.values[entry] for entry in whole]

        columns = {name: values(name, "worse") for name in self.unprotected_names}
        columns |= {f"{name} (better)": values(name, "better") for name in self.moved}
        columns |= {f"{name} ({side})": values(name, side) for side in sides for name in self.protected}
        for side, which in sides.items():
            columns[f"label ({side})"] = [self.classes[label] for label in self.profiles.labels[rows, which]]
        columns |= {f"score ({side})": self.scores[rows, which] for side, which in sides.items()}
        columns["gap"] = self.pairs.gaps
        columns["valid"] = self.profiles.valid if self.with_data else np.full(len(self), None)
        return pd.DataFrame(columns)

"""Findings of a search: distinct profiles with labels and scores under all assignments."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from evenhand.core.typing import Booleans, Floats, Integers
from evenhand.individual.flips import WidestPairs, find_flips, find_widest_pairs
from evenhand.individual.search.space import ProfileSpace
from evenhand.models.scorer import Scorer
from evenhand.schema.attribute import Value

if TYPE_CHECKING:
    import pandas as pd

NOT_QUERIED = -1
"""Label under an assignment that was not queried. Its scores are NaN."""

COLUMNS = ("unprotected", "labels", "scores", "valid", "plausible", "real")
"""Fields of ``ProfileTable`` with one entry per profile."""


@dataclass(frozen=True)
class ProfileTable:
    """Profiles whose label changes with a protected assignment, in the order they were found.

    Attributes:
        space: Space of the profiles.
        classes: Labels of the model.
        favourable: Position of the favourable label.
        unprotected: Distinct unprotected parts, shape (n, U).
        labels: Labels, shape (n, A).
        scores: Scores, shape (n, A, classes).
        valid: Whether every pair of values occurs in the data, shape (n,). True without data.
        plausible: Mask of the assignments under which a profile is a plausible person, shape (n, A). Others are not
            compared.
        real: Whether each profile reveals a person in the data (see ``find_real``), shape (n,).
    """

    space: ProfileSpace
    classes: tuple[Value, ...]
    favourable: int
    unprotected: Floats
    labels: Integers
    scores: Floats
    valid: Booleans
    plausible: Booleans
    real: Booleans

    def __len__(self) -> int:
        return len(self.unprotected)

    def __getitem__(self, which: Booleans | Integers | slice) -> ProfileTable:
        return replace(self, **{name: getattr(self, name)[which] for name in COLUMNS})

    @cached_property
    def favourable_scores(self) -> Floats:
        """Favourable score under every assignment, shape (n, A). NaN if it was not queried."""
        return self.scores[:, :, self.favourable]

    @cached_property
    def compared(self) -> Booleans:
        """Mask of the assignments that were queried and under which a profile is a plausible person, shape (n, A)."""
        return np.asarray(self.plausible & (self.labels != NOT_QUERIED))

    @cached_property
    def pairs(self) -> WidestPairs:
        """Best and worst treated assignment of each profile among those queried."""
        return find_widest_pairs(self.labels, self.favourable_scores, self.compared)

    @cached_property
    def by_gap(self) -> Integers:
        """Positions of the profiles, plausible ones first, each in descending order of the gap, shape (n,)."""
        return np.lexsort((-self.pairs.gaps, ~self.valid))

    @property
    def favoured(self) -> dict[str, int]:
        """Number of profiles by the protected value of the best treated assignment, if its label is favourable."""
        better = self.pairs.sides[:, 1]
        labels = self.labels[np.arange(len(self)), better]
        values = self.space.assignments[better[labels == self.favourable]]
        counts: dict[str, int] = {}
        for name, column in zip(self.space.protected, values.T, strict=True):
            entries, sizes = np.unique(column, return_counts=True)
            names = (f"{name} {self.space.schema[name].text(entry)}" for entry in entries)
            counts |= dict(zip(names, sizes.tolist(), strict=True))
        return counts

    def to_frame(self) -> pd.DataFrame:
        """Convert the profiles to a table with values as in the data (bins of numbers by their names).

        A linked attribute has the value of the worst treated person, and a second column for the best treated.
        """
        import pandas as pd

        space, pairs, sides = self.space, self.pairs.sides, ("worse", "better")
        people = space.sides(self.unprotected, pairs)
        labels, scores = (np.take_along_axis(each, pairs, axis=1) for each in (self.labels, self.favourable_scores))

        def values(name: str, side: int) -> Any:
            """Return categories and bins by name, and whole numbers as integers."""
            attribute, entries = space.schema[name], people[:, side, space.schema.position(name)]
            if attribute.kind == "real":
                return entries
            whole = entries.astype(np.int64)
            return whole if attribute.values is None else [attribute.values[entry] for entry in whole]

        columns = {attribute.name: values(attribute.name, 0) for attribute in space.attributes}
        columns |= {f"{space.attributes[i].name} (better)": values(space.attributes[i].name, 1) for i in space.moved}
        columns |= {f"{name} ({side})": values(name, i) for i, side in enumerate(sides) for name in space.protected}
        columns |= {f"label ({side})": [self.classes[k] for k in labels[:, i]] for i, side in enumerate(sides)}
        columns |= {f"score ({side})": scores[:, i] for i, side in enumerate(sides)}
        columns["gap"] = self.pairs.gaps
        columns["valid"] = np.full(len(self), None) if space.people is None else self.valid
        return pd.DataFrame(columns)


class FindingCollector:
    """Collector of the distinct profiles whose label changes."""

    def __init__(self, space: ProfileSpace, scorer: Scorer) -> None:
        self._space, self._scorer = space, scorer
        self._seen: set[int] = set()
        shape = 0, len(space.assignments)
        empty = np.empty(shape, dtype=np.int64), np.empty((*shape, len(scorer.classes)))
        self._parts = [(np.empty((0, space.width)), *empty)]

    def __len__(self) -> int:
        return len(self._seen)

    def add(self, unprotected: Floats, labels: Integers, scores: Floats, which: Integers | None = None) -> Booleans:
        """Add the answers for profiles (n, U) and return a mask of the profiles whose label changes, shape (n,).

        Labels (n, k) and scores (n, k, classes) are those under the assignments ``which`` (n, k). Others are marked as
        not queried. Default: all A.
        """
        flips = find_flips(labels)
        rows, new = np.flatnonzero(flips), []
        for i, key in zip(rows.tolist(), self._space.keys(unprotected[rows]).tolist(), strict=True):
            if key not in self._seen:
                self._seen.add(key)
                new.append(i)
        labels, scores = labels[new], scores[new]
        if which is not None:
            queried = labels, scores
            shape = len(new), len(self._space.assignments)
            labels, scores = np.full(shape, NOT_QUERIED), np.full((*shape, scores.shape[2]), np.nan)
            np.put_along_axis(labels, which[new], queried[0], axis=1)
            np.put_along_axis(scores, which[new][:, :, None], queried[1], axis=1)
        self._parts.append((unprotected[new], labels, scores))
        return flips

    def reportable(self) -> ProfileTable:
        """Return the profiles that may be reported: legal, and valid unless infeasible profiles are allowed."""
        space, scorer = self._space, self._scorer
        unprotected, labels, scores = (np.concatenate(parts) for parts in zip(*self._parts, strict=True))
        legal = space.is_legal(unprotected)
        valid = legal.copy()
        valid[legal] = space.is_comparable(unprotected[legal], by_data=True)
        rows = legal if space.allow_infeasible else valid
        profiles = unprotected[rows]
        return ProfileTable(
            space,
            scorer.classes,
            scorer.favourable,
            profiles,
            labels[rows],
            scores[rows],
            valid[rows],
            space.compared(profiles),
            np.zeros(len(profiles), dtype=np.bool_),
        )

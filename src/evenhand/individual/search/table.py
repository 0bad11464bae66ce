"""All profiles of a search as columns: entries, the worst and the best treated assignment, in the user's own words."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from evenhand.individual.search.findings import Found
from evenhand.schema import Attribute, Schema, Value

if TYPE_CHECKING:
    import pandas as pd

Floats: TypeAlias = NDArray[np.float64]


@dataclass(frozen=True)
class Table:
    """Found profiles with what is needed to read them.

    Attributes:
        schema: what the attributes are.
        protected: names of the protected attributes.
        assignments: shape (A, protected).
        classes, favourable: the model's labels, and the position of the one that people want.
        found: the profiles.
        with_data: whether ``found.valid`` says something.
    """

    schema: Schema
    protected: tuple[str, ...]
    assignments: Floats
    classes: tuple[Value, ...]
    favourable: int
    found: Found
    with_data: bool

    def __len__(self) -> int:
        return len(self.found)

    @cached_property
    def unprotected(self) -> tuple[str, ...]:
        """Names of the U unprotected attributes, in schema order."""
        return tuple(name for name in self.schema.names if name not in self.protected)

    @cached_property
    def scores(self) -> Floats:
        """The favourable label's score under every assignment, shape (n, A)."""
        return self.found.scores[:, :, self.favourable]

    @cached_property
    def better(self) -> NDArray[np.int64]:
        """The best treated assignment, shape (n,)."""
        return np.asarray(np.argmax(self.scores, axis=1), dtype=np.int64)

    @cached_property
    def worse(self) -> NDArray[np.int64]:
        """The worst treated assignment among those with another label than the best treated, shape (n,)."""
        labels = self.found.labels
        other = labels != labels[np.arange(len(labels)), self.better][:, None]
        return np.asarray(np.argmin(np.where(other, self.scores, np.inf), axis=1), dtype=np.int64)

    @cached_property
    def gap(self) -> Floats:
        """Difference of these two's favourable scores, shape (n,)."""
        n = np.arange(len(self.found))
        return np.asarray(self.scores[n, self.better] - self.scores[n, self.worse])

    def to_frame(self) -> pd.DataFrame:
        """One row per profile, in the data's own words (bins of numbers by their names)."""
        import pandas as pd

        found, n = self.found, np.arange(len(self.found))
        columns: dict[str, Any] = {
            name: words(self.schema[name], found.unprotected[:, i]) for i, name in enumerate(self.unprotected)
        }
        for side, which in (("worse", self.worse), ("better", self.better)):
            for i, name in enumerate(self.protected):
                columns[f"{name} ({side})"] = words(self.schema[name], self.assignments[which, i])
        classes = _listed(self.classes)
        for side, which in (("worse", self.worse), ("better", self.better)):
            columns[f"label ({side})"] = classes[found.labels[n, which]]
        for side, which in (("worse", self.worse), ("better", self.better)):
            columns[f"score ({side})"] = self.scores[n, which]
        columns["gap"] = self.gap
        columns["valid"] = found.valid if self.with_data else np.full(len(found), None)
        columns["given"] = found.given
        return pd.DataFrame(columns)


def words(attribute: Attribute, entries: Floats) -> NDArray[Any]:
    """Entries (n,) of an attribute as values: categories and bins by name, whole numbers as such."""
    if attribute.values is not None:
        return _listed(attribute.values)[entries.astype(np.int64)]
    return entries.astype(np.int64) if attribute.kind == "integer" else entries


def _listed(values: tuple[Value, ...]) -> NDArray[Any]:
    listed = np.empty(len(values), dtype=object)
    listed[:] = values
    return listed

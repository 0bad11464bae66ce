"""People whose label hangs on a protected attribute: found among given points, re-run on the model, listed once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from evenhand.certify.query import Query
from evenhand.certify.result import Counterexample
from evenhand.models.additive import AdditiveNetwork, Line

Floats = NDArray[np.float64]


class Finder:
    """Collects distinct counterexamples.

    Args:
        query: what is asked.
        limit: how many to keep.
    """

    def __init__(self, query: Query, limit: int) -> None:
        self._query = query
        self.limit = limit
        self._known: set[bytes] = set()
        self.found: list[Counterexample] = []

    @property
    def full(self) -> bool:
        """Whether no more are wanted."""
        return len(self.found) >= self.limit

    def unfair(self, entries: Floats) -> NDArray[np.bool_]:
        """Which of these people (n, unprotected attributes) get different labels, shape (n,). Keeps them."""
        network, query = self._query.network, self._query
        first = network.predict(query.individuals(entries, 0))
        other = np.zeros(len(entries), dtype=np.int64)
        for assignment in range(1, len(query.assignments)):
            differs = (other == 0) & (network.predict(query.individuals(entries, assignment)) != first)
            other[differs] = assignment
        unfair = other > 0
        for row in np.flatnonzero(unfair):
            if self.full:
                break
            self._keep(entries[row : row + 1], int(other[row]))
        return unfair

    def _keep(self, person: Floats, other: int) -> None:
        network, query = self._query.network, self._query
        rows = np.concatenate([query.individuals(person, 0), query.individuals(person, other)])
        labels = network.predict(rows)
        if person.tobytes() in self._known or not np.array_equal(labels, predict_float32(network, rows)):
            return
        self._known.add(person.tobytes())
        attributes = [cells.attribute for cells in query.cells]
        varied = [network.schema[name] for name in query.protected]
        self.found.append(
            Counterexample(
                unprotected={a.name: a.text(entry) for a, entry in zip(attributes, person[0], strict=True)},
                first={a.name: a.text(entry) for a, entry in zip(varied, query.assignments[0], strict=True)},
                second={a.name: a.text(entry) for a, entry in zip(varied, query.assignments[other], strict=True)},
                first_label=str(network.classes[int(labels[0])]),
                second_label=str(network.classes[int(labels[1])]),
            )
        )


def predict_float32(network: AdditiveNetwork, individuals: Floats) -> NDArray[np.int64]:
    """Labels by a forward pass in float32, as the model may run where it is deployed, shape (n,)."""
    units = np.tile(network.bias.astype(np.float32), (len(individuals), 1))
    for i, part in enumerate(network.parts):
        entries = individuals[:, i]
        if isinstance(part, Line):
            line = entries.astype(np.float32)[:, None] * part.slope.astype(np.float32)
            units += line + part.intercept.astype(np.float32)
        else:
            units += part.at(entries).astype(np.float32)
    for layer in network.layers:
        units = np.maximum(units, np.float32(0)) @ layer.weights.astype(np.float32) + layer.bias.astype(np.float32)
    if units.shape[1] == 1:
        return np.asarray(units[:, 0] > 0, dtype=np.int64)
    return np.asarray(np.argmax(units, axis=1), dtype=np.int64)

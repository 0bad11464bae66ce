"""The clearest examples: pairs with the widest score gap, each with different unprotected attributes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from evenhand.individual.result import Assignment, Profile
from evenhand.schema import Schema, Value


def clearest(
    schema: Schema,
    individuals: NDArray[np.float64],
    columns: Sequence[int],
    assignments: NDArray[np.float64],
    labels: NDArray[np.int64],
    scores: NDArray[np.float64],
    *,
    classes: tuple[Value, ...],
    most: int,
    source: Literal["data", "population"],
) -> list[Profile]:
    """The ``most`` individuals whose best and worst treated assignments lie furthest apart.

    Args:
        individuals: shape (n, attributes), each decided differently by some two assignments.
        columns: positions of the protected attributes.
        assignments: shape (m, protected).
        labels, scores: the model's labels and favourable scores, shape (n, m).
    """
    rows = np.arange(len(individuals))
    better = np.argmax(scores, axis=1)
    other = labels != labels[rows, better][:, None]
    worse = np.argmin(np.where(other, scores, np.inf), axis=1)
    gaps = scores[rows, better] - scores[rows, worse]
    order = np.argsort(-gaps, kind="stable")[:most]
    rest = [i for i in range(len(schema.attributes)) if i not in columns]
    names = [schema.attributes[i].name for i in columns]

    def assignment(row: int, which: int) -> Assignment:
        entries = zip(names, assignments[which], strict=True)
        return Assignment(
            values={name: schema[name].text(entry) for name, entry in entries},
            label=str(classes[labels[row, which]]),
            score=float(scores[row, which]),
        )

    return [
        Profile(
            unprotected={schema.attributes[i].name: schema.attributes[i].text(individuals[row, i]) for i in rest},
            worse=assignment(row, int(worse[row])),
            better=assignment(row, int(better[row])),
            disagreeing=_disagreeing(individuals[row, columns], assignments, labels[row]),
            gap=float(gaps[row]),
            source=source,
        )
        for row in order
    ]


def _disagreeing(own: NDArray[np.float64], assignments: NDArray[np.float64], labels: NDArray[np.int64]) -> int:
    """How many assignments get another label than the individual's own."""
    mine = int(np.argmax((assignments == own).all(axis=1)))
    return int((labels != labels[mine]).sum())

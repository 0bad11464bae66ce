"""Ask a model about a person under every protected assignment, many people at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evenhand.models import Scorer, favourable_score, predict


def variants(
    individuals: NDArray[np.float64], columns: list[int], assignments: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Every individual under every assignment, shape (n * assignments, attributes), individual by individual."""
    repeated = np.repeat(individuals, len(assignments), axis=0)
    repeated[:, columns] = np.tile(assignments, (len(individuals), 1))
    return repeated


def labels_by_assignment(
    scorer: Scorer, individuals: NDArray[np.float64], columns: list[int], assignments: NDArray[np.float64]
) -> NDArray[np.int64]:
    """The label of every individual under every assignment, shape (n, assignments)."""
    asked = variants(individuals, columns, assignments)
    return predict(scorer, asked).reshape(len(individuals), len(assignments))


def scores_by_assignment(
    scorer: Scorer, individuals: NDArray[np.float64], columns: list[int], assignments: NDArray[np.float64]
) -> NDArray[np.float64]:
    """The favourable score of every individual under every assignment, shape (n, assignments)."""
    asked = variants(individuals, columns, assignments)
    return favourable_score(scorer, asked).reshape(len(individuals), len(assignments))


def disagree(labels: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which individuals (rows of labels by assignment) are decided differently by some assignment, shape (n,)."""
    return np.asarray((labels != labels[:, :1]).any(axis=1))


@dataclass(frozen=True)
class Distinct:
    """People merged who differ in the protected columns only: they have the same variants.

    Attributes:
        individuals: one per distinct rest, in order of first appearance, shape (distinct, attributes).
        first: the person each appeared with first, increasing, shape (distinct,).
        of: which of them each person is, shape (n,).
    """

    individuals: NDArray[np.float64]
    first: NDArray[np.int64]
    of: NDArray[np.int64]


def distinct_unprotected(individuals: NDArray[np.float64], columns: list[int]) -> Distinct:
    """Merge people (n, attributes) who agree on everything but the given columns."""
    rest = [i for i in range(individuals.shape[1]) if i not in columns]
    if not rest:
        return Distinct(individuals[:1], np.zeros(1, dtype=np.int64), np.zeros(len(individuals), dtype=np.int64))
    keys = np.ascontiguousarray(individuals[:, rest])
    rows = keys.view(np.dtype((np.void, keys.dtype.itemsize * len(rest)))).ravel()
    _, first, of = np.unique(rows, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return Distinct(individuals[first[order]], first[order], rank[of])

"""Question about the change of a number of trees with the protected attributes.

A person is treated fairly if the numbers f(x, p) under all protected assignments p differ by at most a limit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from evenhand.certification.bounds.trees.question import TreeQuery, leaf_sizes, tree_question
from evenhand.certification.query.boxes import FAIR, UNDECIDED, UNFAIR
from evenhand.certification.query.differences import check_assignments
from evenhand.certification.query.rounding import BINARY32_UNIT, BINARY64_UNIT, summation_error
from evenhand.core.typing import Booleans, Floats, Integers
from evenhand.errors import OptionError
from evenhand.models.trees.ensemble import TreeEnsemble
from evenhand.population.independent import ProductPopulation


@dataclass(frozen=True, kw_only=True)
class TreeDifferenceQuery(TreeQuery):
    """Do the numbers of trees under any two protected assignments differ by at most a limit?

    Its margins are those of one number: ``fold`` and ``base`` make it of the outputs, and ``slack`` bounds by how much
    the deployed number may differ.

    Attributes:
        limit: by how much they may differ, in the unit of the model's output.
        demanded: the label that is fair.
    """

    limit: float
    demanded: ClassVar[int | None] = 0

    def answers(self, individuals: Floats) -> Floats:
        """Return the model's numbers, shape (n,)."""
        return self.margins(individuals)[:, 0]

    def differ(self, answers: Integers | Floats) -> Booleans:
        """Return whose numbers, shape (assignments, n), differ by more than the limit, shape (n,)."""
        return np.asarray(np.ptp(answers, axis=0) > self.limit)

    def confirms(self, pair: Floats) -> bool:
        """Return whether the numbers of two people differ by more than the limit, also where the model is deployed."""
        return bool(np.ptp(self.answers(pair)) > self.limit + 2 * self.slack[0])

    def answer_texts(self, individuals: Floats) -> list[str]:
        """Return the model's numbers as texts."""
        return [f"{number:,.6g}" for number in self.answers(individuals)]

    def classify(self, entries: Floats) -> NDArray[np.int8]:
        """Compute the outcomes of people (n, unprotected attributes), shape (n,)."""
        numbers = np.stack([self.answers(self.individuals(entries, p)) for p in range(len(self.assignments))])
        change, reach = np.ptp(numbers, axis=0), 2 * self.slack[0]
        outcomes = np.where(change > self.limit + reach, UNFAIR, np.where(change < self.limit - reach, FAIR, UNDECIDED))
        return outcomes.astype(np.int8)


def tree_difference_query_of(
    ensemble: TreeEnsemble,
    limit: float,
    protected: Sequence[str] | None = None,
    population: ProductPopulation | None = None,
    *,
    where: Sequence[str] = (),
) -> TreeDifferenceQuery:
    """Bring the question to normal form; see ``query.differences``.

    Raises:
        OptionError: as ``tree_query_of``; or the trees give labels by more than one number.
    """
    outputs = len(ensemble.base)
    if outputs > 2:
        raise OptionError(
            f"a tolerance is for models that give a number, and this one gives one of {outputs} labels",
            hint="leave it out: the labels are compared",
        )
    fold = np.ones((1, 1)) if outputs == 1 else np.array([[-1.0], [1.0]])
    question = tree_question(ensemble, protected, population, where=where)
    check_assignments(len(question["assignments"]))
    sizes = leaf_sizes(ensemble) @ np.abs(fold) / ensemble.divisor + np.abs(ensemble.base) @ np.abs(fold)
    unit = BINARY32_UNIT if ensemble.single else BINARY64_UNIT
    # A sum of the leaves and the base in any order, and our own rounding.
    slack = summation_error(ensemble.nodes.trees + 16, unit) * sizes + summation_error(64, BINARY64_UNIT) * sizes
    return TreeDifferenceQuery(
        **question,
        threshold=None,
        pairs=np.array([[0, 1]], dtype=np.int64),
        fold=fold / ensemble.divisor,
        base=ensemble.base @ fold,
        slack=slack,
        sizes=sizes,
        limit=limit,
    )

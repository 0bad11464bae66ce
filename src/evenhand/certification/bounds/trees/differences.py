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
    """Question whether the numbers of trees under any two protected assignments differ by at most a limit.

    It has one margin, the number: ``fold`` and ``base`` compute it from the outputs, and ``slack`` bounds its
    difference from the deployed number.

    Attributes:
        limit: Permitted difference, in the unit of the model's output.
        demanded: Label of fair treatment.
    """

    limit: float
    demanded: ClassVar[int | None] = 0

    def answers(self, individuals: Floats) -> Floats:
        """Compute the model's numbers, shape (n,)."""
        return self.margins(individuals)[:, 0]

    def differ(self, answers: Integers | Floats) -> Booleans:
        """Check whose numbers, shape (assignments, n), differ by more than the limit, shape (n,)."""
        return np.asarray(np.ptp(answers, axis=0) > self.limit)

    def confirms(self, pair: Floats) -> bool:
        """Check whether the numbers of two people differ by more than the limit, in the deployed model too."""
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
        OptionError: As for ``tree_query_of``, or the trees compute labels from more than one number.
    """
    outputs = len(ensemble.base)
    if outputs > 2:
        raise OptionError(
            f"a tolerance requires a model that predicts a number, but this one predicts one of {outputs} labels",
            hint="leave it out to compare the labels",
        )
    fold = np.ones((1, 1)) if outputs == 1 else np.array([[-1.0], [1.0]])
    question = tree_question(ensemble, protected, population, where=where)
    check_assignments(len(question["assignments"]))
    sizes = leaf_sizes(ensemble) @ np.abs(fold) / ensemble.divisor + np.abs(ensemble.base) @ np.abs(fold)
    unit = BINARY32_UNIT if ensemble.single else BINARY64_UNIT
    # Rounding of a sum of the leaves and the base in any order, and of our own computation.
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

"""Express the change of a forest's number with the protected attributes as a separate forest.

Every tree is rewritten so that its leaves list its value under each kind of protected assignment (``forest``). The
difference of two assignments is then a tree of the same shape, whose leaves hold differences; and trees without
protected attributes vanish. For every ordered pair of assignments there is a margin f(x, p) - f(x, q) - limit; label 0,
"within the limit", is demanded, and margin m sets it against label m + 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from evenhand.certification.bounds.trees.forest import FlatForest, flat_forest_of
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


def difference_forest_of(query: TreeDifferenceQuery) -> FlatForest:
    """Return the forest of the differences between all ordered pairs of assignments."""
    forest = flat_forest_of(query)
    pairs = np.array(check_assignments(len(query.assignments)), dtype=np.int64)
    margins = len(pairs)
    tables: list[Floats] = []
    places: list[Integers] = []
    ends = np.append(forest.root[1:], len(forest.attribute))
    for tree, (begin, end) in enumerate(zip(forest.root, ends, strict=True)):
        leaves = begin + np.flatnonzero(forest.attribute[begin:end] < 0)
        # A leaf's numbers stand one after the other: one for each kind of assignment, as there is one margin.
        given = forest.values[forest.row[leaves][:, None] + np.arange(forest.groups[tree])]
        kind = forest.group[tree]
        tables.append(given[:, kind[pairs[:, 0]]] - given[:, kind[pairs[:, 1]]])
        places.append(leaves)
    # Trees without a difference fall away; one stays, as a forest has some.
    used = np.array([tree for tree, table in enumerate(tables) if table.any()] or [0], dtype=np.int64)
    # Two equal groups, so that ``said`` can name the leaves with different numbers: if a box reaches no such leaf, no
    # number changes in it, in spite of rounding.
    row, sizes, joined = forest.row.copy(), np.zeros(margins), 0
    values, group_values = [], []
    for tree in used:
        row[places[tree]] = joined + np.arange(len(places[tree])) * 2 * margins
        joined += 2 * tables[tree].size
        sizes += np.abs(tables[tree]).max(axis=0)
        values.append(np.repeat(tables[tree][:, None], 2, axis=1).ravel())
        changes = tables[tree].any(axis=1)
        group_values.append(np.stack([np.zeros_like(changes), changes], axis=1).ravel())
    sizes += query.limit
    rounding = 2.0**-52 * sizes
    slots = [forest.slots[forest.slot[tree] : forest.slot[tree + 1]] for tree in used]
    touched = max((len(each) for each in slots), default=0)
    return forest._replace(
        row=row,
        root=forest.root[used],
        groups=np.full(len(used), 2, dtype=np.int32),
        group=np.zeros((len(used), 1), dtype=np.int32),
        slots=np.concatenate([*slots, np.zeros(0)]).astype(np.int32),
        slot=np.concatenate([[0], np.cumsum([len(each) for each in slots])]).astype(np.int64),
        margins=np.tile(np.arange(margins, dtype=np.int32), len(used)),
        margin=margins * np.arange(len(used) + 1, dtype=np.int64),
        values=np.concatenate(values),
        said=np.concatenate(group_values).astype(np.int64),
        base=np.full(margins, -query.limit),
        slack=np.full(margins, 2 * query.slack[0]),
        pad=rounding * (len(used) + 4 * len(query.cells) + 64) * (4 * touched + 8),
        plain=rounding * (len(used) + 64),
        pairs=np.stack([np.zeros(margins, dtype=np.int64), 1 + np.arange(margins)], axis=1),
        classes=margins + 1,
        demanded=True,
    )

"""What is asked of an ensemble of trees, in the form that its engine works on: cells, folded leaves, margins."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evenhand.certify.query import MAX_CLASSES, UNIFORM
from evenhand.certify.question import Question
from evenhand.certify.slack import DEPLOYED, OURS, gamma, log_odds, resolution_of
from evenhand.certify.trees.branches import Tests, cut_by, tests_of
from evenhand.errors import OptionError
from evenhand.models.trees import TreeEnsemble
from evenhand.population import ProductPopulation
from evenhand.schema import Schema, Value, subdomain

Floats = NDArray[np.float64]

TEXT = (
    "sums of leaves in float64, widened by their rounding; margins that the order of the sum or a float32 sum "
    "(XGBoost) could carry over zero count as undecided"
)


@dataclass(frozen=True, kw_only=True)
class TreeQuery(Question):
    """Is the label the same for every protected assignment?

    One margin per pair (a, b) of classes: label b beats label a where it is > 0. The margins of a person are ``base``
    plus the sum over the trees of ``fold`` of the reached leaves.

    Attributes:
        ensemble: the model asked about.
        tests: the questions of its nodes.
        pairs: classes (a, b) of each margin, shape (margins, 2).
        fold: what each output adds to each margin, shape (outputs, margins).
        base: shape (margins,).
        slack: how far from zero each margin must be for the deployed model to decide by its sign, shape (margins,).
            Zero where nothing is rounded: then a margin of zero is for label a.
        sizes: bound on the sum of the sizes of all that a margin adds up, shape (margins,).
    """

    ensemble: TreeEnsemble
    tests: Tests
    pairs: NDArray[np.int64]
    fold: Floats
    base: Floats
    slack: Floats
    sizes: Floats

    @property
    def schema(self) -> Schema:
        """What the model's individuals are."""
        return self.ensemble.schema

    @property
    def classes(self) -> tuple[Value, ...]:
        """The model's labels."""
        return self.ensemble.classes

    def labels(self, individuals: Floats) -> NDArray[np.int64]:
        """The model's labels for rows of its schema, as positions in its classes, shape (n,)."""
        if self.threshold is None or self.threshold == 0.5:
            return self.ensemble.predict(individuals)
        return np.asarray(self.ensemble.scores(individuals)[:, 1] > self.threshold, dtype=np.int64)

    def deployed(self, individuals: Floats) -> NDArray[np.int64]:
        """The same where the margins are further from zero than rounding can carry them; -1 elsewhere."""
        margins = self.margins(individuals)
        close = (np.abs(margins) <= self.slack) & (self.slack > 0)
        return np.where(close.any(axis=1), -1, self.labels(individuals))

    def margins(self, individuals: Floats) -> Floats:
        """Margins for rows of the schema, shape (n, margins)."""
        ensemble = self.ensemble
        return np.asarray((ensemble.raw(individuals) - ensemble.base) @ (self.fold * ensemble.divisor) + self.base)

    def possible(self, individuals: Floats) -> NDArray[np.int64]:
        """Sets of labels that the deployed model may give, as bits, shape (n,)."""
        margins = self.margins(individuals)
        labels = np.full(len(margins), (1 << len(self.classes)) - 1, dtype=np.int64)
        for m, (a, b) in enumerate(self.pairs):
            second, first = margins[:, m] > self.slack[m], margins[:, m] < -self.slack[m]
            first |= (self.slack[m] == 0) & ~second
            labels &= ~np.where(second, 1 << int(a), 0)
            labels &= ~np.where(first, 1 << int(b), 0)
        return labels


def tree_query_of(
    ensemble: TreeEnsemble,
    protected: Sequence[str] | None = None,
    population: ProductPopulation | None = None,
    *,
    where: Sequence[str] = (),
    threshold: float | None = None,
    relax: Mapping[str, float] | None = None,
) -> TreeQuery:
    """Bring a question about trees to normal form; arguments and errors as for ``query.query_of``."""
    schema = ensemble.schema
    names = tuple(dict.fromkeys(schema.protected if protected is None else protected))
    asked = subdomain(schema, where)
    among = {name: asked.entries(schema[name]) for name in names if name in asked.allowed} if asked else None
    assignments = schema.assignments(names, among=among)
    if any(relax.values() if relax else ()):
        raise OptionError(
            "people who differ in relaxed attributes cannot be compared by a model of trees yet",
            mend="leave out the tolerance",
        )
    if len(ensemble.classes) > MAX_CLASSES:
        raise OptionError(f"certification handles up to {MAX_CLASSES} labels, the model has {len(ensemble.classes)}")
    if population is not None and population.schema.names != schema.names:
        raise OptionError("the population and the model are about different attributes")
    pairs, fold, base, threshold = _margins(ensemble, threshold)
    tests = tests_of(ensemble)
    varied = schema.positions(names)
    cells = tuple(
        cut_by(
            tests,
            np.flatnonzero(tests.attribute == i),
            attribute,
            i,
            None if population is None else population.marginals[i],
            asked.runs(attribute) if asked else None,
        )
        for i, attribute in enumerate(schema.attributes)
        if i not in varied
    )
    slack, sizes = _slack(ensemble, fold, base, threshold)
    return TreeQuery(
        protected=names,
        assignments=assignments[_different(tests, schema, varied, assignments)],
        cells=cells,
        population=(UNIFORM if population is None else population.name) + (f", where {asked}" if asked else ""),
        tolerance=np.zeros(len(cells), dtype=np.int64),
        threshold=threshold,
        where=asked.conditions if asked else (),
        ensemble=ensemble,
        tests=tests,
        pairs=pairs,
        fold=fold,
        base=base,
        slack=slack,
        sizes=sizes,
    )


def protected_flags(tests: Tests, schema: Schema, protected: Sequence[str], assignments: Floats) -> NDArray[np.bool_]:
    """Whether each test about a protected attribute sends each assignment left, shape (tests, assignments)."""
    flags = np.zeros((len(tests.node), len(assignments)), dtype=np.bool_)
    for column, position in enumerate(schema.positions(protected)):
        mine = np.flatnonzero(tests.attribute == position)
        flags[mine] = tests.flags(mine, schema.attributes[position], assignments[:, column])
    return flags


def _different(tests: Tests, schema: Schema, varied: Sequence[int], assignments: Floats) -> NDArray[np.intp]:
    """The assignments that some node tells apart, each kind once."""
    flags = protected_flags(tests, schema, [schema.names[i] for i in varied], assignments)
    return np.sort(np.unique(flags, axis=1, return_index=True)[1])


def _margins(ensemble: TreeEnsemble, threshold: float | None) -> tuple[NDArray[np.int64], Floats, Floats, float | None]:
    """Pairs of classes, what outputs add to their margins, what margins start from, and the threshold."""
    classes = len(ensemble.classes)
    pairs = np.array([(a, b) for a in range(classes) for b in range(a + 1, classes)], dtype=np.int64)
    if classes != 2 and threshold is not None:
        raise OptionError(
            f"a threshold is for models with two labels, and this one has {classes}",
            mend="leave it out: the label with the largest output is given",
        )
    if threshold is not None and not 0 < threshold < 1:
        raise OptionError(f"a threshold lies between 0 and 1, both excluded, and {threshold:g} does not")
    outputs = len(ensemble.base)
    identity = np.eye(outputs)
    fold = np.ones((1, 1)) if outputs == 1 else identity[:, pairs[:, 1]] - identity[:, pairs[:, 0]]
    limit = 0.5 if threshold is None and classes == 2 else threshold
    shift = 0.0
    if limit is not None and limit != 0.5:
        if ensemble.link == "one-vs-rest":
            raise OptionError("with one-vs-rest probabilities, only the larger one can decide", mend="no threshold")
        if ensemble.link == "frequency":
            fold, shift = identity[:, 1:], limit
        else:
            shift = log_odds(limit) / ensemble.steepness
    return pairs, fold / ensemble.divisor, ensemble.base @ fold - shift, limit


def _slack(ensemble: TreeEnsemble, fold: Floats, base: Floats, threshold: float | None) -> tuple[Floats, Floats]:
    nodes = ensemble.nodes
    largest = np.maximum.reduceat(np.abs(nodes.values), nodes.offsets[:-1], axis=0)
    outputs = np.zeros(len(ensemble.base))
    for tree, first in enumerate(nodes.output):
        outputs[first : first + largest.shape[1]] += largest[tree]
    start = np.abs(ensemble.base) @ np.abs(fold * ensemble.divisor) + np.abs(base)
    sizes = outputs @ np.abs(fold) + start
    exact = nodes.trees == 1 and ensemble.divisor == 1 and not ensemble.single and not ensemble.base.any()
    if exact and ensemble.link == "frequency" and threshold in (None, 0.5):
        return np.zeros(len(sizes)), sizes
    unit = DEPLOYED if ensemble.single else OURS
    slack = gamma(nodes.trees + 16, unit) * sizes
    if ensemble.link != "frequency":
        limit = 0.5 if threshold is None else threshold
        # A float64 sigmoid or softmax errs as a float32 one does, 2**29 times less.
        resolution = resolution_of(limit) if ensemble.single else 2.0**-46 * (1 + sizes + abs(math.log(1 / limit - 1)))
        slack = slack + resolution / min(limit, 1 - limit) / ensemble.steepness
    return slack, sizes

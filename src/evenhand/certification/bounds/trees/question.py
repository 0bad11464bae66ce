"""Questions about tree ensembles, whose thresholds cut the domain into cells.

Between two neighbouring thresholds that the trees use on an attribute, all values take the same branch at every node.
Such a run of values is one cell (as is each value of a nominal attribute), so a combination of cells describes a person
exactly.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import starmap
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from evenhand.certification.query.bands import ScoreBands
from evenhand.certification.query.cells import Cells, cells_of
from evenhand.certification.query.differences import check_assignments
from evenhand.certification.query.outcomes import FAIR, UNDECIDED, UNFAIR, classify_points, possible_labels
from evenhand.certification.query.question import AskedDomain, Question, check_labels
from evenhand.certification.query.rounding import BINARY32_UNIT, BINARY64_UNIT, log_odds, resolution_of, summation_error
from evenhand.core.time_limit import check_time
from evenhand.core.typing import Booleans, Floats, Integers
from evenhand.errors import OptionError
from evenhand.models.additive.cells import (
    Cell,
    ListedCell,
    RampCell,
    evaluate_cell,
    first_true,
    is_listed,
    plain_inputs,
)
from evenhand.models.additive.network import StepTerm, TableTerm
from evenhand.models.trees.ensemble import ZERO_THRESHOLD, TreeEnsemble, goes_left
from evenhand.models.trees.nodes import TreeNodes
from evenhand.population.independent import Marginal, ProductPopulation, UniformMarginal
from evenhand.schema.attribute import Attribute
from evenhand.schema.schema import Schema
from evenhand.schema.subdomain import Subdomain, parse_subdomain

MAX_FLAGS = 2**28
"""Maximum number of tests times values of one attribute, to limit memory."""
WALKS_PER_SECOND = 5e6
"""Cautious estimate of the number of trees times rows evaluated per second."""
MIN_SIZE = 2.0**-900
"""Minimum bound on a sum of leaves, so that neither its rounding error nor its inverse leaves the range of float64."""


@dataclass(frozen=True)
class NodeTests:
    """Distinct tests of the nodes of an ensemble.

    Attributes:
        of: Test of each inner node, -1 at a leaf, shape (nodes,).
        node: A node that uses each test, shape (tests,).
        attribute: Position in the schema of the attribute that each test reads, -1 if none, shape (tests,).
        columns: Input columns of the ensemble, each a function of one attribute.
    """

    nodes: TreeNodes
    of: Integers
    node: Integers
    attribute: Integers
    columns: tuple[Cell, ...]

    def flags(self, tests: Integers, attribute: Attribute, entries: Floats) -> Booleans:
        """Compute a mask of the entries that each test sends to the left, shape (tests, entries)."""
        if len(tests) * len(entries) > MAX_FLAGS:
            raise OptionError(f"the trees divide {attribute.name!r} into {len(entries):,} parts, too many to certify")
        flags = np.empty((len(tests), len(entries)), dtype=np.bool_)
        for rows, inputs in self._by_column(tests, attribute, entries):
            for row in rows:
                flags[row] = self._flags_of(tests[row], inputs)
        return flags

    def changes(self, tests: Integers, attribute: Attribute, entries: Floats) -> Iterator[tuple[int, bool, Integers]]:
        """Yield each test, whether it sends the first entry left, and the entries from which its answer changes."""
        for rows, inputs in self._by_column(tests, attribute, entries):
            steps, nodes = np.diff(inputs), self.node[tests[rows]]
            falls = bool((steps <= 0).all())
            ordered = not np.isnan(inputs).any() and (falls or bool((steps >= 0).all()))
            below = np.searchsorted(inputs[::-1] if falls else inputs, self.nodes.threshold[nodes], side="right")
            plain = ordered & (self.nodes.set_start[nodes] < 0) & ~self.nodes.zero_missing[nodes]
            for row, number, is_plain in zip(rows, below, plain, strict=True):
                if is_plain:
                    cut = len(inputs) - int(number) if falls else int(number)
                    first = cut == 0 if falls else cut > 0
                    changes = np.array([cut] if 0 < cut < len(inputs) else [], dtype=np.int64)
                else:
                    flags = self._flags_of(tests[row], inputs)
                    first, changes = bool(flags[0]), 1 + np.flatnonzero(flags[1:] != flags[:-1])
                yield int(tests[row]), first, changes

    @cached_property
    def means(self) -> tuple[Floats, Floats]:
        """Mean margin below each node (last output minus first), and the probability of reaching the node."""
        nodes = self.nodes
        margin = nodes.values[:, -1] - (nodes.values[:, 0] if nodes.values.shape[1] > 1 else 0.0)
        weight = np.ones(len(margin))
        # Weights are computed level by level from the roots, and means from the deepest level back. Both children have
        # probability one half.
        levels = [nodes.offsets[:-1]]
        while len(levels[-1]):
            inner = levels[-1][nodes.left[levels[-1]] >= 0]
            for child in (nodes.left[inner], nodes.right[inner]):
                weight[child] = weight[inner] / 2
            levels.append(np.concatenate([nodes.left[inner], nodes.right[inner]]))
        for level in reversed(levels):
            inner = level[nodes.left[level] >= 0]
            margin[inner] = (margin[nodes.left[inner]] + margin[nodes.right[inner]]) / 2
        return margin, weight

    def _by_column(self, tests: Integers, attribute: Attribute, entries: Floats) -> Iterator[tuple[Integers, Floats]]:
        """Yield the rows of the tests of each input column, and the inputs of the entries there."""
        feature = self.nodes.feature[self.node[tests]]
        for column in np.unique(feature):
            inputs = np.asarray(evaluate_cell(self.columns[column], attribute, entries), dtype=np.float64)
            yield np.flatnonzero(feature == column), inputs

    def _flags_of(self, test: int, inputs: Floats) -> Booleans:
        """Compute a mask of the inputs that a test sends left."""
        check_time()
        return goes_left(self.nodes, np.full(len(inputs), self.node[test]), inputs)


def node_tests_of(ensemble: TreeEnsemble) -> NodeTests:
    """Number the distinct tests of an ensemble's nodes."""
    nodes = ensemble.nodes
    columns = tuple(plain_inputs(ensemble.schema) if ensemble.columns is None else ensemble.columns)
    owner = np.array([-1 if each.attribute is None else each.attribute for each in columns], dtype=np.int64)
    inner = np.flatnonzero(nodes.left >= 0)
    keys = np.stack(
        [
            nodes.feature[inner].astype(np.float64),
            nodes.threshold[inner],
            nodes.set_start[inner].astype(np.float64),
            nodes.set_size[inner].astype(np.float64),
            nodes.zero_missing[inner].astype(np.float64),
            (nodes.default_left[inner] & nodes.zero_missing[inner]).astype(np.float64),
        ],
        axis=1,
    )
    _, representatives, number = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    of = np.full(len(nodes.left), -1, dtype=np.int64)
    of[inner] = number.ravel()
    node = inner[representatives] if len(inner) else np.zeros(0, dtype=np.int64)
    return NodeTests(nodes=nodes, of=of, node=node, attribute=owner[nodes.feature[node]], columns=columns)


def _cut_entries(tests: NodeTests, mine: Integers, attribute: Attribute) -> Floats:
    """Find the first entry of each cell except the first, at which some test changes its result."""
    if is_listed(attribute):
        entries = attribute.domain()
        changes = [cuts for _, _, cuts in tests.changes(mine, attribute, entries)]
        return np.asarray(entries[np.unique(np.concatenate([*changes, np.zeros(0, dtype=np.int64)]))])
    cuts = [np.zeros(0)]
    for column in np.unique(tests.nodes.feature[tests.node[mine]]):
        inputs = tests.columns[column]
        asking = tests.node[mine][tests.nodes.feature[tests.node[mine]] == column]
        if isinstance(inputs, RampCell):
            cuts.append(_ramp_cuts(inputs, _switch_inputs(tests.nodes, asking), attribute))
        elif isinstance(inputs, ListedCell) and inputs.cuts is not None:
            cuts.append(inputs.cuts)
    return np.unique(np.concatenate(cuts))


def _switch_inputs(nodes: TreeNodes, asking: Integers) -> Floats:
    """List the inputs after which the result of some node may change."""
    inputs = [nodes.threshold[asking[nodes.set_start[asking] < 0]]]
    if nodes.zero_missing[asking].any():
        inputs.append(np.array([np.nextafter(-ZERO_THRESHOLD, -np.inf), ZERO_THRESHOLD]))
    for node in asking[nodes.set_start[asking] >= 0]:
        start, size = nodes.set_start[node], nodes.set_size[node]
        bits = (nodes.words[start : start + size, None].astype(np.int64) >> np.arange(32)) & 1
        # The result of a set changes from the integer at an edge of a run of its bits, so after the number just below
        # it.
        edges = np.flatnonzero(np.diff(np.concatenate([[0], bits.ravel(), [0]])))
        inputs.append(np.nextafter(edges.astype(np.float64), -np.inf))
    return np.unique(np.concatenate(inputs))


def _ramp_cuts(ramp: RampCell, switches: Floats, attribute: Attribute) -> Floats:
    """Find the first entries whose input is on a different side of a switch from the preceding entries."""
    low, high = np.full(len(switches), ramp.low), np.full(len(switches), ramp.high)

    def above(entries: Floats, limits: Floats) -> Booleans:
        return np.asarray(np.asarray(ramp.computed(entries), dtype=np.float64) > limits)

    at_low, at_high = above(low, switches), above(high, switches)
    changing = at_low != at_high
    low, high, limits, targets = low[changing], high[changing], switches[changing], at_high[changing]
    cuts = first_true(lambda entries: above(entries, limits) == targets, low, high)
    return np.unique(np.ceil(cuts) if attribute.size is not None else cuts)


def _rank_values(tests: NodeTests, mine: Integers, attribute: Attribute) -> TableTerm:
    """Rank the values of a nominal attribute so that ranges of values are useful."""
    entries = attribute.domain()
    flags = tests.flags(mine, attribute, entries)
    rank = entries.copy()
    if (np.abs(np.diff(flags.astype(np.int8), axis=1)).sum(axis=1) > 1).any():
        # Some set of values is not a range: values that take the same branch are moved together, in proportion to the
        # effect of going left and the probability of reaching the node.
        means, weight = tests.means
        for test, row in zip(mine, flags, strict=True):
            asking = np.flatnonzero(tests.of == test)
            left, right = means[tests.nodes.left[asking]], means[tests.nodes.right[asking]]
            rank += float((weight[asking] * (left - right)).sum()) * row * len(entries) * 1e6
        rank = np.argsort(np.argsort(rank, kind="stable"), kind="stable").astype(np.float64)
    return TableTerm(rows=rank[:, None], first=attribute.first)


# Questions about an ensemble of trees. Leaves are added in float64, and the sum is widened by its rounding error: a
# margin whose sign could change in another order, or in a float32 sum (XGBoost), counts as undecided.


@dataclass(frozen=True, kw_only=True)
class TreeQuery(Question):
    """Question whether the label of an ensemble is the same under every protected assignment.

    One margin per pair (a, b) of classes: label b beats label a where it is > 0. The margins of a person are ``base``
    plus the sum over the trees of ``fold`` of the reached leaves.

    Attributes:
        tests: Tests of its nodes.
        fold: Factor of each output in each margin, shape (outputs, margins).
        base: Constants of the margins, shape (margins,).
        slack: Minimum distance from zero at which the sign of each margin determines the decision of the deployed
            model, shape (margins,). If nothing is rounded, it is zero, and a margin of zero means label a.
        sizes: Bound on the sum of the absolute values of all terms of a margin, shape (margins,).
    """

    model: TreeEnsemble
    tests: NodeTests
    fold: Floats
    base: Floats
    slack: Floats
    sizes: Floats
    max_enumeration: ClassVar[float] = 10.0
    point_size: ClassVar[int] = 64

    @property
    def model_size(self) -> int:
        """Number of nodes of all trees."""
        return len(self.model.nodes.feature)

    @property
    def enumerable(self) -> bool:
        """Whether outputs decide. A limit of zero is proved by the leaves, because sums of leaves are rounded."""
        return self.limit != 0

    @property
    def point_seconds(self) -> float:
        """Cautious estimate of the seconds that evaluating the trees at a point takes."""
        return len(self.assignments) * self.model.nodes.trees / WALKS_PER_SECOND

    def deployed(self, individuals: Floats) -> Integers:
        """Compute the labels where rounding cannot change the sign of a margin, -1 elsewhere."""
        margins = self.margins(individuals)
        close = (np.abs(margins) <= self.slack) & (self.slack > 0)
        return np.where(close.any(axis=1), -1, self.labels(individuals))

    def margins(self, individuals: Floats) -> Floats:
        """Compute the margins of rows of the schema, shape (n, margins)."""
        model = self.model
        return np.asarray((model.raw(individuals) - model.base) @ (self.fold * model.divisor) + self.base)

    def numbers(self, individuals: Floats) -> Floats:
        """Compute the only margin, shape (n,)."""
        return self.margins(individuals)[:, 0]

    def possible(self, individuals: Floats) -> Integers:
        """Compute the sets of labels that the deployed model may predict, as bits, shape (n,)."""
        margins = self.margins(individuals)
        above, below = margins > self.slack, margins < -self.slack
        # Without rounding, a margin of zero gives the first label.
        return possible_labels(len(self.classes), self.pairs, above, below | ((self.slack == 0) & ~above))

    def decide_points(self, points: Integers) -> NDArray[np.int8]:
        """Compute the outcomes of combinations of cells by evaluating the model at one individual of each."""
        entries = self.entries(points)
        people = [self.individuals(entries, p) for p in range(len(self.assignments))]
        if self.limit is None:
            return classify_points(np.stack([self.possible(individuals) for individuals in people]), self.least)
        change, reach = np.ptp([self.numbers(individuals) for individuals in people], axis=0), 2 * self.number_error
        outcomes = np.where(change > self.limit + reach, UNFAIR, np.where(change < self.limit - reach, FAIR, UNDECIDED))
        return outcomes.astype(np.int8)


@dataclass(frozen=True)
class TreeForm:
    """Ensemble, margins and conditions of a question, without the compared people.

    Attributes:
        question: The same question about no one.
        asked: Part of the domain that satisfies the conditions. None: all of it.
    """

    question: TreeQuery
    asked: Subdomain | None

    @classmethod
    def of(
        cls,
        ensemble: TreeEnsemble,
        *,
        where: Sequence[str] = (),
        threshold: float | None = None,
        bands: Sequence[float] = (),
        least: int = 2,
        limit: float | None = None,
    ) -> TreeForm:
        """Compute the margins; arguments and errors as for ``tree_query_of``."""
        check_labels(len(ensemble.classes), threshold)
        cut = ScoreBands.of(bands, ensemble.classes, ensemble.favourable, threshold) if bands else None
        if limit is not None:
            pairs, fold, base, slack, sizes = _number_map(ensemble)
        elif cut is not None:
            pairs, fold, base = _band_map(ensemble, cut)
            slack, sizes = _band_rounding(ensemble, cut, fold, base)
        else:
            pairs, fold, base, threshold = _margin_map(ensemble, threshold)
            slack, sizes = _rounding_error(ensemble, fold, base, threshold)
        asked = parse_subdomain(ensemble.schema, where)
        question = TreeQuery(
            model=ensemble,
            protected=(),
            assignments=np.zeros((1, 0)),
            cells=(),
            population="",
            where=asked.conditions if asked else (),
            tests=node_tests_of(ensemble),
            threshold=threshold,
            least=least,
            bands=cut,
            pairs=pairs,
            fold=fold,
            base=base,
            slack=slack,
            sizes=sizes,
            limit=limit,
            number_error=0.0 if limit is None else float(slack[0]),
        )
        return cls(question, asked)

    @cached_property
    def parts(self) -> tuple[StepTerm | TableTerm, ...]:
        """Term of each attribute that has a different value where some test changes its result."""
        return tuple(starmap(self._part, enumerate(self.question.schema.attributes)))

    def _part(self, position: int, attribute: Attribute) -> StepTerm | TableTerm:
        tests = self.question.tests
        mine = np.flatnonzero(tests.attribute == position)
        if attribute.is_discrete and not attribute.ordered:
            return _rank_values(tests, mine, attribute)
        cuts = _cut_entries(tests, mine, attribute)
        return StepTerm(cuts=cuts, rows=np.arange(len(cuts) + 1, dtype=np.float64)[:, None])

    def cells(self, position: int, marginal: Marginal | UniformMarginal | None, held: Floats | None = None) -> Cells:
        """Build the cells of one attribute with a distribution (None: uniform), or only of the values ``held``."""
        attribute = self.question.schema.attributes[position]
        runs = self.asked.runs(attribute) if self.asked else None
        return cells_of(attribute, position, self.parts[position], marginal, runs=runs, held=held)

    def query(
        self, names: tuple[str, ...], assignments: Floats, cells: tuple[Cells, ...], population: str
    ) -> TreeQuery:
        """Build the question whether the label is the same under joint values of some attributes.

        Args:
            names: Attributes that are varied.
            assignments: Their joint values, shape (assignments, len(names)).
            cells: Cells of the other attributes.
            population: Name of the distribution of the masses.
        """
        flags = protected_flags(self.question.tests, self.question.schema, names, assignments)
        chosen = assignments[np.sort(np.unique(flags, axis=1, return_index=True)[1])]
        if self.question.limit is not None:
            check_assignments(len(chosen))
        return replace(self.question, protected=names, assignments=chosen, cells=cells, population=population)


def tree_query_of(
    ensemble: TreeEnsemble,
    protected: Sequence[str] | None = None,
    population: ProductPopulation | None = None,
    *,
    where: Sequence[str] = (),
    **options: Any,
) -> TreeQuery:
    """Normalise a question about trees; see ``query.query_of``.

    Args:
        ensemble: Model.
        protected, population, where: As for ``query_of``.
        options: ``threshold``, ``bands`` and ``least`` as for ``query_of``; and ``limit``, the permitted change of the
            model's number, instead of labels. The number is then the only margin.

    Raises:
        OptionError: As for ``query_of``, or a limit is given and the trees compute labels from more than one number.
    """
    form = TreeForm.of(ensemble, where=where, **options)
    domain = AskedDomain.of(ensemble.schema, protected, population, where)
    cells = tuple(starmap(form.cells, domain.free))
    return form.query(domain.protected, domain.assignments, cells, domain.population)


def protected_flags(tests: NodeTests, schema: Schema, protected: Sequence[str], assignments: Floats) -> Booleans:
    """Check whether tests of protected attributes and constants send assignments left, shape (tests, assignments)."""
    flags = np.zeros((len(tests.node), len(assignments)), dtype=np.bool_)
    # Constant columns belong to attribute -1 and do not depend on the entries.
    positions = [*schema.positions(protected), -1]
    for position, entries in zip(positions, [*assignments.T, assignments[:, 0]], strict=True):
        mine = np.flatnonzero(tests.attribute == position)
        flags[mine] = tests.flags(mine, schema.attributes[position], entries)
    return flags


def _margin_map(ensemble: TreeEnsemble, threshold: float | None) -> tuple[Integers, Floats, Floats, float | None]:
    """Compute the pairs of classes, the factors of outputs in their margins, their constants, and the threshold."""
    classes = len(ensemble.classes)
    pairs = np.array([(a, b) for a in range(classes) for b in range(a + 1, classes)], dtype=np.int64)
    outputs = len(ensemble.base)
    identity = np.eye(outputs)
    fold = np.ones((1, 1)) if outputs == 1 else identity[:, pairs[:, 1]] - identity[:, pairs[:, 0]]
    limit = 0.5 if threshold is None and classes == 2 else threshold
    shift = 0.0
    if limit is not None and limit != 0.5:
        if ensemble.link == "one-vs-rest":
            raise OptionError(
                "with one-vs-rest probabilities, only the larger one can decide", hint="leave the threshold out"
            )
        if ensemble.link == "frequency":
            fold, shift = identity[:, 1:], limit
        else:
            shift = log_odds(limit) / ensemble.steepness
    return pairs, fold / ensemble.divisor, ensemble.base @ fold - shift, limit


def _second_margin(outputs: int) -> Floats:
    """Return the factors of one or two outputs in the margin of the second label."""
    return np.ones((1, 1)) if outputs == 1 else np.array([[-1.0], [1.0]])


def _number_map(ensemble: TreeEnsemble) -> tuple[Integers, Floats, Floats, Floats, Floats]:
    """Compute the factors of outputs in the model's number, its constant, and bounds on its error and its size."""
    outputs = len(ensemble.base)
    if outputs > 2:
        raise OptionError(
            f"a tolerance requires a model that predicts a number, but this one predicts one of {outputs} labels",
            hint="omit it to compare the labels",
        )
    fold = _second_margin(outputs)
    sizes = leaf_sizes(ensemble) @ np.abs(fold) / ensemble.divisor + np.abs(ensemble.base) @ np.abs(fold)
    unit = BINARY32_UNIT if ensemble.single else BINARY64_UNIT
    # Rounding of a sum of the leaves and the base in any order, and of our own computation.
    slack = summation_error(ensemble.nodes.trees + 16, unit) * sizes + summation_error(64, BINARY64_UNIT) * sizes
    return np.array([[0, 1]], dtype=np.int64), fold / ensemble.divisor, ensemble.base @ fold, slack, sizes


def _band_map(ensemble: TreeEnsemble, cut: ScoreBands) -> tuple[Integers, Floats, Floats]:
    """Compute the pairs of bands, the factors of outputs in their margins, and their constants."""
    if ensemble.link == "one-vs-rest":
        raise OptionError("with one-vs-rest probabilities the score has no bands", hint="leave the bands out")
    if ensemble.link == "frequency":
        column, shift = np.eye(len(ensemble.base))[:, [cut.favourable]], cut.middles
    else:
        column, shift = _second_margin(len(ensemble.base)) * cut.sign, cut.cuts / ensemble.steepness
    fold = np.tile(column, (1, len(cut.pairs)))
    return cut.pairs, fold / ensemble.divisor, ensemble.base @ fold - shift


def _band_rounding(ensemble: TreeEnsemble, cut: ScoreBands, fold: Floats, base: Floats) -> tuple[Floats, Floats]:
    """Compute slack and sizes of the margins between bands: the maximum over thresholds at all edges."""
    if cut.of_number:
        slack, sizes = _rounding_error(ensemble, fold, base, None)
        return slack + cut.resolution, sizes
    # At 0.5, too, the score itself is compared, not the outputs.
    edges = [edge if edge != 0.5 else float(np.nextafter(0.5, 1)) for edge in cut.edges]
    errors = [_rounding_error(ensemble, fold, base, edge) for edge in edges]
    slack = 2 * np.max([slack for slack, _ in errors], axis=0)
    # Never zero: a score exactly on an edge belongs to the upper band, but a margin of zero to the lower label.
    return np.maximum(slack, 2.0**-50 * (1 + errors[0][1])), errors[0][1]


def leaf_sizes(ensemble: TreeEnsemble) -> Floats:
    """Bound the sums of the leaves of an ensemble, shape (outputs,). Each is at least ``MIN_SIZE``."""
    nodes = ensemble.nodes
    largest = np.maximum.reduceat(np.abs(nodes.values), nodes.offsets[:-1], axis=0)
    outputs = np.full(len(ensemble.base), MIN_SIZE)
    for tree, output in enumerate(nodes.output):
        outputs[output : output + largest.shape[1]] += largest[tree]
    return outputs


def _rounding_error(
    ensemble: TreeEnsemble, fold: Floats, base: Floats, threshold: float | None
) -> tuple[Floats, Floats]:
    nodes = ensemble.nodes
    outputs = leaf_sizes(ensemble)
    start = np.abs(ensemble.base) @ np.abs(fold * ensemble.divisor) + np.abs(base)
    sizes = outputs @ np.abs(fold) + start
    exact = nodes.trees == 1 and ensemble.divisor == 1 and not ensemble.single and not ensemble.base.any()
    if exact and ensemble.link == "frequency" and threshold in (None, 0.5):
        return np.zeros(len(sizes)), sizes
    unit = BINARY32_UNIT if ensemble.single else BINARY64_UNIT
    slack = summation_error(nodes.trees + 16, unit) * sizes
    if ensemble.link not in ("frequency", "identity"):
        limit = 0.5 if threshold is None else threshold
        # The error of a float64 sigmoid or softmax is 2**29 times smaller than in float32.
        resolution = resolution_of(limit) if ensemble.single else 2.0**-46 * (1 + sizes + abs(math.log(1 / limit - 1)))
        slack = slack + resolution / min(limit, 1 - limit) / ensemble.steepness
    return slack, sizes

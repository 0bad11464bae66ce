"""Bound the change of a model's number with the protected attributes by the margins of a network.

A network gives f(x, p) = w . relu(... relu(z(x) + b_p) ...): the protected values p only shift the first-layer units,
each by a constant. Separate bounds of f(x, p) and f(x, q) would add up the uncertainty of both, although they share x.
So the differences are written as a separate network, in which they occur explicitly and are bounded as such
(differential verification: Paulsen, Wang & Wang, "ReluDiff", ICSE 2020). Two identities, exact for all numbers, do it:

    first layer, a > 0     relu(u) - relu(u - a) = a - relu(a - relu(u)),                          always in [0, a]
    later layers           relu(z + d) - relu(z) = relu(d+ - z-) - d- + relu(d- - z+),            between 0 and d

with x+ = relu(x), x- = relu(-x). In the first layer the values b_p of a unit are sorted, and each step from one to the
next is such a difference; in later layers z is the unit under the first assignment and d the change under another one.

For every ordered pair of assignments there is a margin f(x, p) - f(x, q) - limit. A person is treated fairly if all
margins are negative: label 0, "within the limit", is required, and margin m compares it with label m + 1.

Rounding. The deployed numbers differ from f by at most ``reach`` each, by the analysis of ``rounding`` for float32; so
a change within limit - 2 reach is within the limit in the deployed model, and one beyond limit + 2 reach is beyond it.
The rewriting rounds differences and sums of first biases in float64, which is 2**29 times smaller per operation than
the float32 error of the same numbers in ``reach``; one part in a hundred covers it by far.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from evenhand.certification.query.cells import Cells, cells_of
from evenhand.certification.query.question import AskedDomain, Query, fold_term
from evenhand.certification.query.rounding import RoundingError, rounding_error_of
from evenhand.core.typing import Floats, Integers
from evenhand.errors import OptionError
from evenhand.models.additive.network import AdditiveNetwork, AffineLayer, AttributeTerm
from evenhand.population.independent import ProductPopulation

MOST_ASSIGNMENTS = 32
"""Maximum number of joint protected values whose numbers are compared. Each pair has two margins."""
COVERED = 1.01
"""Factor on the error of the deployed model that covers the rounding of the rewriting."""


def difference_query_of(
    network: AdditiveNetwork,
    limit: float,
    protected: Sequence[str] | None = None,
    population: ProductPopulation | None = None,
    *,
    where: Sequence[str] = (),
) -> Query:
    """Bring the question to normal form; arguments and errors as for ``query_of``, with a network of one output.

    Args:
        network: Model.
        limit: Largest permitted change, at least 0.
        protected, population, where: As for ``query_of``.
    """
    domain = AskedDomain.of(network.schema, protected, population, where)
    layers, fold = _single_output(network)
    parts, first_bias = network.parts, network.bias
    assignments, biases = _distinct_biases(domain.assignments, domain.varied, parts, first_bias)
    pairs = check_assignments(len(assignments))

    def cells_by(mapping: Floats) -> tuple[Cells, ...]:
        cells = []
        for i, marginal in domain.free:
            attribute = network.schema.attributes[i]
            runs = domain.asked.runs(attribute) if domain.asked else None
            cells.append(cells_of(attribute, i, fold_term(parts[i], mapping), marginal, runs=runs))
        return tuple(cells)

    own_units = np.eye(len(first_bias))
    cells = cells_by(own_units)
    sizes = sum((each.size() + np.abs(each.offset) for each in cells), np.zeros(len(first_bias)))
    fixed = np.abs(first_bias) + sum(
        (np.abs(parts[i].at(assignments[:, c])).max(axis=0) for c, i in enumerate(domain.varied)),
        np.zeros(len(first_bias)),
    )
    reach = _deployed_error(sizes, fixed, len(parts), layers, fold)
    if layers and len(assignments) > 1:
        twin = rewrite_differences(biases, layers, pairs, limit)
        cells = cells_by(own_units[:, twin.units])
    else:
        # Without hidden units the differences are constants. Under one assignment there are none, which one margin
        # represents.
        outputs = (biases @ fold)[:, 0] if not layers else np.zeros(1)
        pairs = pairs or [(0, 0)]
        constant = outputs[[p for p, _ in pairs]] - outputs[[q for _, q in pairs]] - limit
        twin = DifferenceNetwork(np.zeros(len(pairs), dtype=np.int64), constant, ())
        cells = cells_by(np.zeros((len(first_bias), len(pairs))))
    offset = sum((each.offset for each in cells), np.zeros(len(twin.units)))
    return Query(
        model=network,
        protected=domain.protected,
        assignments=assignments,
        cells=cells,
        population=domain.population,
        threshold=None,
        where=domain.where,
        biases=(twin.biases + offset)[None, :],
        layers=twin.layers,
        pairs=np.stack([np.zeros(len(pairs), dtype=np.int64), 1 + np.arange(len(pairs))], axis=1),
        slack=_rewritten_rounding(twin, cells, 2 * reach),
        limit=limit,
        number_error=reach,
    )


def check_assignments(count: int) -> list[tuple[int, int]]:
    """List the ordered pairs of assignments, each followed by its opposite.

    Raises:
        OptionError: There are too many assignments.
    """
    if count > MOST_ASSIGNMENTS:
        raise OptionError(
            f"numbers are compared under up to {MOST_ASSIGNMENTS} joint protected values, and there are {count}",
            hint="protect fewer attributes at once",
        )
    both = (((p, q), (q, p)) for p, q in itertools.combinations(range(count), 2))
    return [pair for pairs in both for pair in pairs]


def _single_output(network: AdditiveNetwork) -> tuple[tuple[AffineLayer, ...], Floats]:
    """Select the later layers, of which the last gives one number, and the map from the outputs to it."""
    outputs = network.layers[-1].weights.shape[1] if network.layers else len(network.bias)
    if outputs > 2:
        raise OptionError(
            f"a tolerance requires a model that predicts a number, but this one predicts one of {outputs} labels",
            hint="omit it to compare the labels",
        )
    fold = np.ones((1, 1)) if outputs == 1 else np.array([[-1.0], [1.0]])
    if not network.layers:
        return (), fold
    final_layer = network.layers[-1]
    return (*network.layers[:-1], AffineLayer(final_layer.weights @ fold, final_layer.bias @ fold)), fold


def _distinct_biases(
    assignments: Floats, varied: Sequence[int], parts: Sequence[AttributeTerm], bias: Floats
) -> tuple[Floats, Floats]:
    """Select the assignments with different effects, and compute the first biases under each."""
    terms = [parts[i].at(assignments[:, column]) for column, i in enumerate(varied)]
    distinct = np.sort(np.unique(np.hstack(terms), axis=0, return_index=True)[1])
    return assignments[distinct], bias + np.sum(terms, axis=0)[distinct]


class DifferenceNetwork(NamedTuple):
    """The differences as a network.

    Attributes:
        units: First unit of the model with the terms of each first-layer unit.
        biases: Biases of the first-layer units.
        layers: Later layers; the last gives the margins.
    """

    units: Integers
    biases: Floats
    layers: tuple[AffineLayer, ...]


class _Affine(NamedTuple):
    """Affine functions of units: ``units @ weights + bias``."""

    weights: Floats
    bias: Floats

    def through(self, weights: Floats, bias: Floats | float = 0.0) -> _Affine:
        """Compose with an affine map."""
        return _Affine(self.weights @ weights, self.bias @ weights + bias)

    def less(self, other: _Affine) -> _Affine:
        """Subtract other functions."""
        return _Affine(self.weights - other.weights, self.bias - other.bias)


def rewrite_differences(
    biases: Floats, layers: Sequence[AffineLayer], pairs: Sequence[tuple[int, int]], limit: float
) -> DifferenceNetwork:
    """Write the differences between the outputs under pairs of assignments, less a limit, as a network.

    Args:
        biases: Biases of the first-layer units under each assignment, shape (assignments, units).
        layers: Later layers, at least one; the last has one output.
        pairs: Ordered pairs of assignments.
        limit: Number subtracted from each difference.
    """
    deep = len(layers) > 1
    count, width = biases.shape
    # First layer. New units: unit j with its value v_k, for each k > 0 of its sorted values; if more layers follow,
    # also with the value of the first assignment. Then the steps a - relu(a - relu(u)), and the units for later layers.
    units: list[int] = []
    values: list[float] = []
    steps: list[tuple[int, float, float, Floats]] = []  # new unit, a, and the values at its ends; assignments above
    passed: list[int] = []
    for j in range(width):
        ladder = np.unique(biases[:, j])
        for low, high in itertools.pairwise(ladder.tolist()):
            steps.append((len(units), high - low, high, (biases[:, j] >= high).astype(np.float64)))
            units.append(j)
            values.append(high)
        if deep:
            above = [number for number in range(len(units)) if units[number] == j and values[number] == biases[0, j]]
            passed.append(above[0] if above else len(units))
            if not above:
                units.append(j)
                values.append(float(biases[0, j]))
    size = len(steps) + len(passed)
    weights, bias = np.zeros((len(units), size)), np.zeros(size)
    owner = np.array([units[unit] for unit, *_ in steps], dtype=np.int64)
    for k, (unit, a, _, _) in enumerate(steps):
        weights[unit, k], bias[k] = -1.0, a
    for k, unit in enumerate(passed):
        weights[unit, len(steps) + k] = 1.0
    rewritten = [AffineLayer(weights, bias)]
    # The change of the model's units from the lowest value to that of an assignment is the sum of the steps between.
    added = []
    for p in range(count):
        matrix, constant = np.zeros((size, width)), np.zeros(width)
        for k, (_, a, _, above_of) in enumerate(steps):
            matrix[k, owner[k]] = -above_of[p]
            constant[owner[k]] += above_of[p] * a
        added.append(_Affine(matrix, constant))
    deltas = [each.less(added[0]) for each in added[1:]]
    own = np.zeros((size, width))
    own[len(steps) + np.arange(len(passed)), np.arange(len(passed))] = 1.0
    base = _Affine(own, np.zeros(width))
    for number, layer in enumerate(layers[:-1]):
        base = base.through(layer.weights, layer.bias)
        deltas = [each.through(layer.weights) for each in deltas]
        is_last = number == len(layers) - 2
        base, deltas = _through_relu(base, deltas, rewritten, passing=not is_last)
    # f_p - f_q = (f_p - f_0) - (f_q - f_0).
    nothing = _Affine(np.zeros((len(rewritten[-1].bias), 1)), np.zeros(1))
    outputs = [nothing, *(each.through(layers[-1].weights) for each in deltas)]
    margins = [outputs[p].less(outputs[q]) for p, q in pairs]
    rewritten.append(
        AffineLayer(
            np.concatenate([each.weights for each in margins], axis=1),
            np.concatenate([each.bias for each in margins]) - limit,
        )
    )
    return DifferenceNetwork(np.array(units, dtype=np.int64), np.array(values), tuple(rewritten))


def _through_relu(
    base: _Affine, deltas: Sequence[_Affine], layers: list[AffineLayer], *, passing: bool
) -> tuple[_Affine, list[_Affine]]:
    """Append the two layers after which units behind their ReLU, and differences between them, are affine again.

    Args:
        base: z, the units under the first assignment, before ReLU.
        deltas: d, the changes under each other assignment.
        layers: List that receives the new layers.
        passing: Whether later layers need the units themselves, or only their differences.
    """
    width = len(base.bias)
    # z+, z-, then d+ and d- of each.
    stack = [base.weights, -base.weights, *(sign * each.weights for each in deltas for sign in (1, -1))]
    ends = [base.bias, -base.bias, *(sign * each.bias for each in deltas for sign in (1, -1))]
    layers.append(AffineLayer(np.concatenate(stack, axis=1), np.concatenate(ends)))
    number = len(deltas)
    # relu(d+ - z-), relu(d- - z+), and d- itself; the change of each unit is the first two less the third.
    signs, totals = np.zeros((2 + 2 * number, 3 * number + passing)), np.zeros((number, 3 * number + passing, 1))
    for k in range(number):
        signs[[2 + 2 * k, 1, 3 + 2 * k, 0, 3 + 2 * k], 3 * k + np.array([0, 0, 1, 1, 2])] = 1, -1, 1, -1, 1
        totals[k, 3 * k : 3 * k + 3, 0] = 1, 1, -1
    own = np.zeros((3 * number + passing, 1))
    if passing:
        signs[0, -1] = own[-1] = 1
    mixing = _unit_blocks(signs, width)
    layers.append(AffineLayer(mixing, np.zeros(mixing.shape[1])))
    following, *changes = (_Affine(_unit_blocks(total, width), np.zeros(width)) for total in (own, *totals))
    return following, changes


def _unit_blocks(signs: Floats, width: int) -> Floats:
    """Apply a matrix of signs to blocks of ``width`` units."""
    return np.asarray(np.kron(signs, np.eye(width)), dtype=np.float64)


def _deployed_error(
    sizes: Floats, fixed: Floats, attributes: int, layers: Sequence[AffineLayer], fold: Floats
) -> float:
    """Bound the error of one output of the deployed model over the whole domain.

    Args:
        sizes: Bound on the terms of the unprotected attributes in each first-layer unit.
        fixed: The same for the protected attributes and the bias.
        attributes: Number of terms of a sum.
        layers: Later layers.
        fold: Map from the outputs to the number, if these are the first-layer units.
    """
    if not layers:
        sizes, fixed = sizes @ np.abs(fold), fixed @ np.abs(fold)
    slack = rounding_error_of(fixed, sizes, np.zeros(len(fixed)), attributes, 0, layers, np.ones((1, 1)))
    error, height = slack.first(sizes), sizes + fixed
    for number, layer in enumerate(layers):
        error = slack.after(number, height, error)
        height = height @ np.abs(layer.weights) + np.abs(layer.bias)
    return COVERED * float(error[0])


def _rewritten_rounding(twin: DifferenceNetwork, cells: Sequence[Cells], resolution: float) -> RoundingError:
    """Compute the slack of the rewritten network: rounding of the bounds, and a constant for the margins."""
    none = np.zeros(len(twin.units))
    slack = rounding_error_of(
        np.abs(twin.biases) + sum((np.abs(each.offset) for each in cells), none),
        sum((each.summed_size() for each in cells), none),
        sum((each.residual for each in cells), none),
        attributes=len(cells) + 1,
        columns=sum(len(each.rows) for each in cells),
        layers=twin.layers,
        fold=np.eye(len(twin.layers[-1].bias if twin.layers else twin.biases)),
        resolution=resolution,
    )
    # It is not deployed itself: the error of the deployed numbers is in the resolution.
    return replace(slack, gammas=np.zeros_like(slack.gammas))

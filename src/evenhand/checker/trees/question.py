"""Rebuild the question of a certificate about trees: the test results of all cells, and the leaves' terms in the
margins.

The sign of a margin determines which of two labels, or bands of a score, beats the other. It is multiplied by the
number of trees that are averaged, so that its terms are numbers of the model, or differences of two of them. In integer
multiples of a small unit, each leaf is between two integers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from evenhand.checker.deployed import PROBABILITY, TIE, UNIT_ROUNDOFF, gamma, probability_margin
from evenhand.checker.form import log_odds
from evenhand.checker.question import (
    AskedQuestion,
    RecordedDomain,
    margin_pairs,
    recorded_domain_of,
    require_fingerprint,
)
from evenhand.checker.reading import SINGLE, CertificateClaim, CertificateError, RecordedCells
from evenhand.core.typing import Booleans, Floats, Integers
from evenhand.models.additive.cells import Cell, ListedCell, evaluate_cell, plain_inputs
from evenhand.models.trees.ensemble import ZERO_THRESHOLD, TreeEnsemble, ensemble_fingerprint, goes_left
from evenhand.schema.attribute import Attribute

MAX_ASSIGNMENTS = 4096
"""Maximum number of joint protected values that the trees distinguish."""
MAX_FLAGS = 2**28
"""Maximum number of node tests times cells of one attribute."""
UNIT_BITS = 60
"""Sums of a margin, and intermediate results, are less than 2**UNIT_BITS units."""
ROUNDINGS = 4
"""Number of roundings of the deployed model outside sums: a conversion, a division, a comparison, and one spare."""


class NodeQuestions(NamedTuple):
    """Distinct tests of the nodes.

    Attributes:
        of: Test of each node, -1 at a leaf, shape (nodes,).
        node, position: A node with each test, and position in the schema of the attribute that it reads, -1 for none.
    """

    of: Integers
    node: Integers
    position: Integers


@dataclass(frozen=True)
class TreeMargins:
    """Terms of the leaves in the margins; each margin has its own unit.

    Attributes:
        pairs: Labels (a, b) of each margin: b beats a if it is positive.
        labels: Number of labels.
        low, high: Integer bounds on the terms of each node, shape (nodes, margins).
        base_low, base_high: Integer bounds on the constants of the margins.
        above, below: b beats a if a margin is greater than ``above``, and a beats b if it is less than ``below``.
    """

    pairs: tuple[tuple[int, int], ...]
    labels: int
    low: Integers
    high: Integers
    base_low: Integers
    base_high: Integers
    above: Integers
    below: Integers


@dataclass(frozen=True, kw_only=True)
class RecordedTrees(RecordedDomain):
    """Trees, protected assignments and domain.

    Attributes:
        ensemble: Model.
        tests: Tests of its nodes.
        assigned: Whether a test sends a joint protected value to the left, shape (tests, assignments).
        answers: For each test of another attribute, which of its cells go left.
        margins: Margins between labels.
    """

    ensemble: TreeEnsemble
    tests: NodeQuestions
    assigned: Booleans
    answers: tuple[Booleans | None, ...]
    margins: TreeMargins


def recorded_trees_of(
    statement: CertificateClaim, ensemble: TreeEnsemble, question: AskedQuestion | None = None
) -> RecordedTrees:
    """Rebuild the question from trees and the numbers in the file, and check that it matches the request.

    Raises:
        CertificateError: The model, domain or population differs, cells do not partition the domain or contain people
            with different results, or the question is invalid for trees.
        OptionError: The question is invalid for this schema.
    """
    require_fingerprint(statement, "trees", ensemble_fingerprint(ensemble))
    if (statement.header.slack == SINGLE) != ensemble.single:
        raise CertificateError(
            "the certificate assumes a rounding of the deployed model that the checker does not support"
        )
    columns = tuple(plain_inputs(ensemble.schema) if ensemble.columns is None else ensemble.columns)
    tests = _number_tests(ensemble, columns)
    answers: list[Booleans | None] = [None] * len(tests.node)

    def check_cells(attribute: Attribute, position: int, cells: RecordedCells) -> None:
        mine = np.flatnonzero(tests.position == position)
        if len(mine) * cells.count > MAX_FLAGS:
            raise CertificateError(f"the cells of {attribute.name!r} are too many to check")
        for test in mine.tolist():
            answers[test] = _answers_of_cells(ensemble, columns, int(tests.node[test]), attribute, cells)

    domain = recorded_domain_of(statement, ensemble.schema, question or AskedQuestion(), check_cells)
    by_position = {axis.position: axis for axis in domain.axes}
    for test, flags in enumerate(answers):
        with_mass = None if flags is None else by_position[int(tests.position[test])].kept
        if flags is not None and with_mass is not None:
            answers[test] = flags[with_mass]
    return RecordedTrees(
        **vars(domain),
        ensemble=ensemble,
        tests=tests,
        assigned=_answers_of_assignments(statement, ensemble, columns, tests),
        answers=tuple(answers),
        margins=_tree_margins(statement, ensemble),
    )


def _number_tests(ensemble: TreeEnsemble, columns: tuple[Cell, ...]) -> NodeQuestions:
    nodes = ensemble.nodes
    of = np.full(len(nodes.left), -1, dtype=np.int64)
    numbers: dict[tuple[float, ...], int] = {}
    representatives: list[int] = []
    for node in np.flatnonzero(nodes.left >= 0).tolist():
        zero = bool(nodes.zero_missing[node])
        key = (
            int(nodes.feature[node]),
            float(nodes.threshold[node]),
            int(nodes.set_start[node]),
            int(nodes.set_size[node]),
            zero,
            zero and bool(nodes.default_left[node]),
        )
        of[node] = numbers.setdefault(key, len(numbers))
        if of[node] == len(representatives):
            representatives.append(node)
    owners = [-1 if column.attribute is None else column.attribute for column in columns]
    asking = np.array(representatives, dtype=np.int64)
    return NodeQuestions(of, asking, np.array(owners, dtype=np.int64)[nodes.feature[asking]])


def _answers_of_cells(
    ensemble: TreeEnsemble, columns: tuple[Cell, ...], node: int, attribute: Attribute, cells: RecordedCells
) -> Booleans:
    """Compute a mask of the cells of an attribute that a node sends to the left."""
    column = columns[int(ensemble.nodes.feature[node])]
    if cells.starts is None:
        raise CertificateError(f"the cells of {attribute.name!r} are not listed, so they may contain several cuts")
    starts = cells.starts
    results = _answers_of_inputs(ensemble, node, evaluate_cell(column, attribute, starts))
    if cells.ends is None:
        return results
    # A cell of a real attribute excludes its end, unless it is the last cell or a single point.
    ends = cells.ends.copy()
    if attribute.size is None:
        inner = ends[:-1] > starts[:-1]
        ends[:-1][inner] = np.nextafter(ends[:-1][inner], -np.inf)
    if isinstance(column, ListedCell):
        if column.cuts is None and len(column.values) == 1:
            return results
        # The input only changes at its cuts, so all steps that begin inside a cell must have the same result.
        low, high = (
            (entries - attribute.first).astype(np.int64)
            if column.cuts is None
            else np.searchsorted(column.cuts, entries, side="right")
            for entries in (starts, ends)
        )
        inputs_left = _answers_of_inputs(ensemble, node, np.asarray(column.values, dtype=np.float64))
        left = np.concatenate([[0], np.cumsum(inputs_left)])
        inside = left[high + 1] - left[low]
        same = (inside == 0) | (inside == high + 1 - low)
    else:
        # The input is monotone, so the result is constant between two inputs without a switch of the node between them.
        places = _switches(ensemble, node)
        low, high = (
            np.searchsorted(places, evaluate_cell(column, attribute, entries), side="left")
            for entries in (starts, ends)
        )
        same = low == high
    if not same.all():
        raise CertificateError(f"a cell of {attribute.name!r} holds several values that the model distinguishes")
    return results


def _answers_of_inputs(ensemble: TreeEnsemble, node: int, inputs: Floats) -> Booleans:
    return goes_left(ensemble.nodes, np.full(len(inputs), node), inputs)


def _switches(ensemble: TreeEnsemble, node: int) -> Floats:
    """List the inputs, in increasing order, after which the result of a node may change."""
    nodes = ensemble.nodes
    switches = [] if nodes.set_start[node] >= 0 else [float(nodes.threshold[node])]
    if nodes.zero_missing[node]:
        switches += [math.nextafter(-ZERO_THRESHOLD, -math.inf), ZERO_THRESHOLD]
    if nodes.set_start[node] >= 0:
        # A category covers the inputs from its integer up to the next.
        switches += [math.nextafter(k, -math.inf) for k in range(32 * int(nodes.set_size[node]) + 1)]
    return np.array(sorted(switches))


def _answers_of_assignments(
    statement: CertificateClaim, ensemble: TreeEnsemble, columns: tuple[Cell, ...], tests: NodeQuestions
) -> Booleans:
    """Compute which joint protected values each test sends to the left, without duplicates, (tests, assignments)."""
    schema = ensemble.schema
    results = np.zeros((len(tests.node), 1), dtype=np.bool_)
    if not len(tests.node):
        return results
    for name, entries in statement.header.protected.items():
        position = schema.position(name)
        mine = np.flatnonzero(tests.position == position)
        values = np.array(entries)
        flags = np.zeros((len(tests.node), len(values)), dtype=np.bool_)
        for test in mine.tolist():
            node = int(tests.node[test])
            inputs = evaluate_cell(columns[int(ensemble.nodes.feature[node])], schema.attributes[position], values)
            flags[test] = _answers_of_inputs(ensemble, node, inputs)
        # A test reads one attribute, so the results for joint values are those for the single values, concatenated.
        # Equal columns are merged after each attribute, so that few are in memory at a time.
        different = np.unique(flags, axis=1)
        joint = (results[:, :, None] | different[:, None, :]).reshape(len(tests.node), -1)
        results = np.unique(joint, axis=1)
        if results.shape[1] > MAX_ASSIGNMENTS:
            raise CertificateError(f"the trees distinguish more than {MAX_ASSIGNMENTS:,} joint protected values")
    constant = np.flatnonzero(tests.position < 0)
    for test in constant.tolist():
        node = int(tests.node[test])
        column = columns[int(ensemble.nodes.feature[node])]
        results[test] = _answers_of_inputs(ensemble, node, evaluate_cell(column, schema.attributes[0], np.zeros(1)))[0]
    return results


# Margins, and bounds on their difference from the deployed model.  The model adds up leaves in float64, or in float32
# if its library does. The error of a sum of n numbers in any order is at most n u / (1 - n u) times the sum of their
# magnitudes, where u is the unit roundoff (Higham, "Accuracy and Stability of Numerical Algorithms", 2nd ed., chapter
# 3). Every output is such a sum of the leaves of its trees and its base score. The resolution of a sigmoid or softmax
# is that for networks, and 2**29 times finer in float64.


def _tree_margins(statement: CertificateClaim, ensemble: TreeEnsemble) -> TreeMargins:
    """Return the margins of labels or bands."""
    link, header = ensemble.link, statement.header
    if link == "identity" or header.tolerance is not None:
        raise CertificateError("certificates about numbers of trees are not supported", hint="update Evenhand")
    threshold, bands, steepness = header.threshold, header.bands, ensemble.steepness
    edges = bands or (() if threshold is None or threshold == 0.5 else (threshold,))
    if edges and link == "one-vs-rest":
        raise CertificateError("a threshold or bands of a score cannot be used with this model")
    rising = link == "frequency" or ensemble.favourable == 1
    pairs = margin_pairs(header, len(ensemble.classes), rising=rising)
    labels = len(bands) + 1 if bands else len(ensemble.classes)
    # Each margin is one output minus another (-1: none), minus a shift, or a probability if outputs are probabilities.
    if link == "logistic":
        columns = [(0, -1)] * len(pairs)
    elif link == "frequency" and edges:
        columns = [(ensemble.favourable if bands else 1, -1)] * len(pairs)
    else:
        columns = [(1, 0)] * len(pairs) if bands else [(b, a) for a, b in pairs]
    shifts, ties = list(edges) or [0.0] * len(pairs), [0.0] * len(pairs)
    if link != "frequency" and edges:
        shifts = [(-1 if bands and not rising else 1) * log_odds(edge) / steepness for edge in edges]
        ties = [(2 if bands else 1) * _probability_tie(ensemble, edge) for edge in edges]
    elif link != "frequency":
        ties = [(TIE if ensemble.single else TIE * 2.0**-29) / steepness] * len(pairs)
    exact = ensemble.nodes.trees == 1 and ensemble.divisor == 1 and not ensemble.single and not ensemble.base.any()
    if exact and link == "frequency" and not edges:
        return _exact_margins(ensemble, pairs, labels)
    return _rounded_margins(ensemble, pairs, labels, (columns, shifts, ties))


def _probability_tie(ensemble: TreeEnsemble, threshold: float) -> float:
    """Compute the distance of a raw margin from a threshold beyond which the probability is on its side."""
    if ensemble.single:
        return probability_margin(threshold) / ensemble.steepness
    # If the probability changes by dt, the logit changes by dt / (t (1 - t)), with a relative error of 2**-20.
    slope = 1 / (threshold * (1 - threshold))
    return (PROBABILITY * 2.0**-29 * 1.0005 * slope + 2.0**-52 * abs(log_odds(threshold))) / ensemble.steepness


def _exact_margins(ensemble: TreeEnsemble, pairs: tuple[tuple[int, int], ...], labels: int) -> TreeMargins:
    """Return margins of a single tree. Nothing is summed, so their signs decide exactly; at 0 the first label wins."""
    values = ensemble.nodes.values
    signs = np.stack([np.sign(values[:, b] - values[:, a]) for a, b in pairs], axis=1).astype(np.int64)
    nothing = np.zeros(len(pairs), dtype=np.int64)
    return TreeMargins(pairs, labels, signs, signs, nothing, nothing, nothing, nothing + 1)


def _rounded_margins(
    ensemble: TreeEnsemble,
    pairs: tuple[tuple[int, int], ...],
    labels: int,
    margins: tuple[list[tuple[int, int]], list[float], list[float]],
) -> TreeMargins:
    """Return margins with an uncertain range around zero, because the deployed model rounds."""
    nodes, outputs = ensemble.nodes, len(ensemble.base)
    width = nodes.values.shape[1]
    largest = np.zeros(outputs)
    added = np.zeros((len(nodes.left), outputs))
    for tree, output in enumerate(nodes.output.tolist()):
        part = slice(int(nodes.offsets[tree]), int(nodes.offsets[tree + 1]))
        added[part, output : output + width] = nodes.values[part]
        largest[output : output + width] += np.abs(nodes.values[part]).max(axis=0)
    relative = gamma(nodes.trees + ROUNDINGS, UNIT_ROUNDOFF if ensemble.single else 2.0**-53) * (1 + 2.0**-30)
    touched = 4 + 4 * len(ensemble.schema.attributes)
    rows = []
    for (plus, minus), shift, tie in zip(*margins, strict=True):
        # All numbers are multiplied by the divisor, and sizes are rounded up by far more than the rounding error of
        # their sum. A magnitude of at least 2**-1000 keeps the unit and the error of the deployed model in range.
        sizes = largest[plus] + (largest[minus] if minus >= 0 else 0.0)
        start = abs(ensemble.base[plus]) + (abs(ensemble.base[minus]) if minus >= 0 else 0.0) + abs(shift) + tie
        magnitude = (sizes + ensemble.divisor * start) * (1 + 2.0**-30) + 2.0**-1000
        bits = UNIT_BITS - int(np.frexp(magnitude * touched)[1])
        if not magnitude < 2.0**800:
            raise CertificateError("the numbers of the trees are too large to check")
        blur = relative * magnitude + ensemble.divisor * tie * (1 + 2.0**-40)
        base = Fraction(float(ensemble.base[plus])) - (Fraction(float(ensemble.base[minus])) if minus >= 0 else 0)
        base = (base - Fraction(shift)) * Fraction(ensemble.divisor) * Fraction(2) ** bits
        upper_part = np.ldexp(added[:, plus], bits)
        lower_part = np.ldexp(added[:, minus], bits) if minus >= 0 else np.zeros(len(upper_part))
        rows.append(
            (
                np.floor(upper_part).astype(np.int64) - np.ceil(lower_part).astype(np.int64),
                np.ceil(upper_part).astype(np.int64) - np.floor(lower_part).astype(np.int64),
                math.floor(base),
                math.ceil(base),
                math.ceil(math.ldexp(blur, bits)) + 1,
            )
        )
    low, high = (np.stack([each[k] for each in rows], axis=1) for k in range(2))
    base_low, base_high, far = (np.array([each[k] for each in rows], dtype=np.int64) for k in range(2, 5))
    return TreeMargins(pairs, labels, low, high, base_low, base_high, far, -far)

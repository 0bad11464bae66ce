"""Which way every node sends every value of its attribute: the thresholds of an ensemble as cuts of the domain.

Between two neighbouring thresholds that the trees use on an attribute, all values go the same way at every node. Such a
run of values is one cell (a value of a nominal attribute is one by itself), and a person is a combination of cells,
exactly.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evenhand.certify.cells import Cells, cells_of
from evenhand.errors import OptionError
from evenhand.models import cells as cell
from evenhand.models.additive import Steps, Table
from evenhand.models.tree_nodes import Nodes
from evenhand.models.tree_walk import ZERO, goes_left
from evenhand.models.trees import TreeEnsemble
from evenhand.population import Marginal
from evenhand.schema import Attribute
from evenhand.schema.subdomain import Runs

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

MAX_FLAGS = 2**28
"""Tests times values of one attribute, at most: what is held in memory."""


@dataclass(frozen=True)
class Tests:
    """The different questions that the nodes of an ensemble ask.

    Attributes:
        of: shape (nodes,), the test of each inner node; -1 at a leaf.
        node: shape (tests,), a node that asks it.
        attribute: shape (tests,), the position in the schema of the attribute that it is about, -1 if of none.
        columns: the ensemble's input columns, each a function of one attribute.
    """

    nodes: Nodes
    of: Ints
    node: Ints
    attribute: Ints
    columns: tuple[cell.Cell, ...]

    def flags(self, tests: Ints, attribute: Attribute, entries: Floats) -> NDArray[np.bool_]:
        """Which of these tests send which entries of their attribute to the left, shape (tests, entries)."""
        if len(tests) * len(entries) > MAX_FLAGS:
            raise OptionError(f"the trees cut {attribute.name!r} into {len(entries):,} parts, too many to certify")
        found = np.empty((len(tests), len(entries)), dtype=np.bool_)
        feature = self.nodes.feature[self.node[tests]]
        for column in np.unique(feature):
            inputs = cell.at(self.columns[column], attribute, entries)
            for row in np.flatnonzero(feature == column):
                found[row] = goes_left(self.nodes, np.full(len(entries), self.node[tests[row]]), inputs)
        return found


def tests_of(ensemble: TreeEnsemble) -> Tests:
    """Number the different questions of an ensemble's nodes."""
    nodes = ensemble.nodes
    columns = tuple(cell.plain_inputs(ensemble.schema) if ensemble.columns is None else ensemble.columns)
    owner = np.array([-1 if each.attribute is None else each.attribute for each in columns], dtype=np.int64)
    inner = np.flatnonzero(nodes.left >= 0)
    asked = np.stack(
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
    _, first, number = np.unique(asked, axis=0, return_index=True, return_inverse=True)
    of = np.full(len(nodes.left), -1, dtype=np.int64)
    of[inner] = number.ravel()
    node = inner[first] if len(inner) else np.zeros(0, dtype=np.int64)
    return Tests(nodes=nodes, of=of, node=node, attribute=owner[nodes.feature[node]], columns=columns)


def cut_by(
    tests: Tests, mine: Ints, attribute: Attribute, position: int, marginal: Marginal | None, runs: Runs | None
) -> Cells:
    """The cells of an unprotected attribute.

    Args:
        tests: of the ensemble.
        mine: those that are about this attribute.
        attribute: which.
        position: where it stands in an individual's row.
        marginal: how the population has it; None for uniform.
        runs: its entries that are asked about; by default the whole domain.
    """
    if attribute.discrete_values and not attribute.ordered:
        return cells_of(attribute, position, _ranked(tests, mine, attribute), marginal, runs=runs)
    cuts = _cuts(tests, mine, attribute)
    part = Steps(cuts=cuts, rows=np.arange(len(cuts) + 1, dtype=np.float64)[:, None])
    return cells_of(attribute, position, part, marginal, runs=runs)


def _cuts(tests: Tests, mine: Ints, attribute: Attribute) -> Floats:
    """The first entry of each cell but the first: where some test changes its answer."""
    if cell.listed(attribute):
        entries = attribute.domain()
        flags = tests.flags(mine, attribute, entries)
        changed = (flags[:, 1:] != flags[:, :-1]).any(axis=0) if len(mine) else np.zeros(len(entries) - 1, np.bool_)
        return np.asarray(entries[1:][changed])
    found = [np.zeros(0)]
    for column in np.unique(tests.nodes.feature[tests.node[mine]]):
        given = tests.columns[column]
        asking = tests.node[mine][tests.nodes.feature[tests.node[mine]] == column]
        if isinstance(given, cell.Ramp):
            found.append(_along(given, _switches(tests.nodes, asking), attribute))
        elif given.cuts is not None:
            found.append(given.cuts)
    return np.unique(np.concatenate(found))


def _switches(nodes: Nodes, asking: Ints) -> Floats:
    """The inputs after which some node may decide otherwise."""
    found = [nodes.threshold[asking[nodes.set_start[asking] < 0]]]
    if nodes.zero_missing[asking].any():
        found.append(np.array([np.nextafter(-ZERO, -np.inf), ZERO]))
    for node in asking[nodes.set_start[asking] >= 0]:
        start, size = nodes.set_start[node], nodes.set_size[node]
        bits = (nodes.words[start : start + size, None].astype(np.int64) >> np.arange(32)) & 1
        edges = np.flatnonzero(np.diff(np.concatenate([[0], bits.ravel(), [0]])))
        found.append(np.nextafter(edges.astype(np.float64), -np.inf))
    return np.unique(np.concatenate(found))


def _along(ramp: cell.Ramp, switches: Floats, attribute: Attribute) -> Floats:
    """The first entries whose input lies on the other side of a switch than that of the entries before."""
    low, high = np.full(len(switches), ramp.low), np.full(len(switches), ramp.high)

    def above(entries: Floats, limits: Floats) -> NDArray[np.bool_]:
        return np.asarray(np.asarray(ramp.computed(entries), dtype=np.float64) > limits)

    at_low, at_high = above(low, switches), above(high, switches)
    changing = at_low != at_high
    low, high, limits, wanted = low[changing], high[changing], switches[changing], at_high[changing]
    cuts = cell.first_true(lambda entries: above(entries, limits) == wanted, low, high)
    return np.unique(np.ceil(cuts) if attribute.size is not None else cuts)


def _ranked(tests: Tests, mine: Ints, attribute: Attribute) -> Table:
    """The values of a nominal attribute in the order in which ranges of them are useful."""
    entries = attribute.domain()
    flags = tests.flags(mine, attribute, entries)
    rank = entries.copy()
    if (np.abs(np.diff(flags.astype(np.int8), axis=1)).sum(axis=1) > 1).any():
        means, weight = _means(tests.nodes)
        for test, row in zip(mine, flags, strict=True):
            asking = np.flatnonzero(tests.of == test)
            left, right = means[tests.nodes.left[asking]], means[tests.nodes.right[asking]]
            rank += float((weight[asking] * (left - right)).sum()) * row * len(entries) * 1e6
        rank = np.argsort(np.argsort(rank, kind="stable"), kind="stable").astype(np.float64)
    return Table(rows=rank[:, None], first=attribute.first)


def _means(nodes: Nodes) -> tuple[Floats, Floats]:
    """Of each node the mean over what is below it, last output less first, and how often it may be reached."""
    total = nodes.values[:, -1] - (nodes.values[:, 0] if nodes.values.shape[1] > 1 else 0.0)
    weight = np.ones(len(total))
    for node in range(len(total) - 1, -1, -1):
        if nodes.left[node] >= 0:
            total[node] = (total[nodes.left[node]] + total[nodes.right[node]]) / 2
    for node in range(len(total)):
        if nodes.left[node] >= 0:
            weight[nodes.left[node]] = weight[nodes.right[node]] = weight[node] / 2
    return total, weight

"""What joint counting (``patterns``) reads of a network with one hidden layer, and the arrays it works in."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from evenhand.certification.bounds.compiled.lanes import LANES
from evenhand.certification.bounds.compiled.problem import CompiledProblem
from evenhand.certification.bounds.compiled.shares import AttributeAxes
from evenhand.certification.bounds.compiled.tails import TailBuffers, tail_buffers
from evenhand.typing import Booleans, Floats, Integers

WORD_UNITS = 33
"""Units whose slopes, digits 0 to 2, make one whole number that a float64 holds exactly: 3**33 < 2**53."""
MAX_LIVE = 2 * WORD_UNITS
"""Undecided units of a box, at most; with more its share stays what it was."""
MAX_OUTER = 64
"""Joint values of the attributes that matter most, gone through one by one."""
FIRST_INNER, MAX_NODES = 64, 4096
"""Joint values of the attributes that come next, gone through side by side: at first, and at most."""
FIRST_GRID, GRID = 256, 1024
"""Steps of a table, at first and later."""
GAIN = 0.25
"""About what four times as many inner values decide of what is undecided."""
TABLES = 512
"""Tables of a box, at most; nodes of further patterns stay undecided."""
SLOTS = 2048
"""Places that patterns are looked for in: a power of two, four for each table."""
ATOMS = 256
"""Joint values of the narrowest attributes of R that are enumerated before anything is rounded."""
RUNS = 256
"""Runs of cells of an attribute of R: a real number has more cells than a table can tell apart."""


class OneLayerNetwork(NamedTuple):
    """A network with one hidden layer and one margin, over the unprotected attributes.

    Attributes:
        columns: what attributes add to the hidden units, shape (columns, units); see ``relaxation``.
        biases: of the units under each assignment, shape (assignments, units).
        weights: of the margin, shape (units,).
        offset: of the margin.
        pads: rounding of the units, shape (units,).
        first_error, sizes: float32 error of the units, and bounds on the weights as deployed, shape (units,).
        gamma, bias_size, last_pad: the float32 error of the margin (see ``relaxation.rounding_errors``).
    """

    columns: Floats
    biases: Floats
    weights: Floats
    offset: float
    pads: Floats
    first_error: Floats
    sizes: Floats
    gamma: float
    bias_size: float
    last_pad: float


class PatternBuffers(NamedTuple):
    """Work arrays of one thread.

    Attributes:
        n, step: runs of cells of each attribute, and cells of a run; ``group`` 1 and 2 for K, outer and inner, 0 for R.
        live, a: the undecided units and their weights.
        w: what each column adds to them and, last, to the part of the output that is linear, (columns, live + 1).
        mid, half: middle and half range of the terms, (attributes, live + 1).
        inc: what each inner joint value adds, (live + 1, nodes); ``chance`` its probability.
        lo, hi: bounds of the output under each assignment, (assignments, 16).
        margins: their least and largest over the assignments, (4, nodes); ``keys`` the patterns, (2, nodes).
        slot_stamp, slot_key, slot_table: where patterns are looked for.
        tables, least, inverse, built: of g (first) and of -g.
        run_term, run_chance: of the runs of cells of R; those of attribute i begin at ``at[i]``.
    """

    n: Integers
    step: Integers
    group: Integers
    order: Integers
    rank: Integers
    position: Integers
    score: Floats
    zl: Floats
    zu: Floats
    size: Floats
    term_low: Floats
    term_high: Floats
    linear: Floats
    live: Integers
    a: Floats
    bias: Floats
    bias_low: Floats
    bias_high: Floats
    h: Floats
    centre: Floats
    outer: Floats
    inc_low: Floats
    inc_high: Floats
    w: Floats
    mid: Floats
    half: Floats
    inc: Floats
    chance: Floats
    outer_chance: Floats
    outer_fair: Floats
    outer_unfair: Floats
    again: Booleans
    constant: Floats
    on_bias: Floats
    mixed: Integers
    always: Integers
    lo: Floats
    hi: Floats
    margins: Floats
    keys: Floats
    powers: Floats
    slot_stamp: Integers
    slot_key: Floats
    slot_table: Integers
    stamp: Integers
    symmetric: Booleans
    form: Floats
    form_mid: Floats
    slopes: Floats
    tables: Floats
    least: Floats
    inverse: Floats
    built: Booleans
    table_key: Floats
    tails: TailBuffers
    at: Integers
    run_chance: Floats
    run_term: Floats


def one_layer_network_of(problem: CompiledProblem) -> OneLayerNetwork | None:
    """Return what is counted here; None where the question is another: layers, margins, tolerances, outcomes."""
    net, roles = problem.network, problem.roles
    plain = roles.labels == 2 and roles.least == 2 and roles.demanded < 0 and not len(roles.relaxed)
    if len(net.sizes) != 2 or net.sizes[1] != 1 or not plain or roles.assignments < 2:
        return None
    units = int(net.sizes[0])
    biases = roles.biases[:, :units]
    if roles.joint:  # the assignment is an attribute of the network, after the others: one row for each
        first = int(net.start[len(problem.axes.first)])
        biases = biases + net.columns[first : first + roles.assignments, :units]
    return OneLayerNetwork(
        columns=net.columns[:, :units].copy(),
        biases=biases.copy(),
        weights=net.weights[0, :units, 0].copy(),
        offset=float(net.offsets[0, 0]),
        pads=net.pads[0, :units].copy(),
        first_error=net.first_error[:units].copy(),
        sizes=np.abs(net.output_sizes[:units, 0]),
        gamma=float(net.gammas[1]),
        bias_size=float(net.bias_sizes[0, 0]),
        last_pad=float(net.last_pads[0]),
    )


def pattern_buffers(net: OneLayerNetwork, axes: AttributeAxes) -> PatternBuffers:
    """Return fresh work arrays."""
    columns, units = net.columns.shape
    assignments, n = len(net.biases), len(axes.first)
    cells = np.diff(np.append(axes.first, len(axes.weight))) - 1
    runs = max(RUNS, int(cells[~axes.line].max(initial=0)))
    wide = MAX_LIVE + 1
    return PatternBuffers(
        n=np.zeros(n, np.int64),
        step=np.ones(n, np.int64),
        group=np.zeros(n, np.int64),
        order=np.zeros(n, np.int64),
        rank=np.zeros(n, np.int64),
        position=np.zeros(n, np.int64),
        score=np.zeros(n),
        zl=np.zeros(units),
        zu=np.zeros(units),
        size=np.zeros(units),
        term_low=np.zeros(units),
        term_high=np.zeros(units),
        linear=np.zeros(units),
        live=np.zeros(wide, np.int64),
        a=np.zeros(wide),
        bias=np.zeros((assignments, wide)),
        bias_low=np.zeros(wide),
        bias_high=np.zeros(wide),
        h=np.zeros(wide),
        centre=np.zeros(wide),
        outer=np.zeros(wide),
        inc_low=np.zeros(wide),
        inc_high=np.zeros(wide),
        w=np.zeros((columns, wide)),
        mid=np.zeros((n, wide)),
        half=np.zeros((n, wide)),
        inc=np.zeros((wide, MAX_NODES + LANES)),
        chance=np.zeros(MAX_NODES + LANES),
        outer_chance=np.zeros(MAX_OUTER),
        outer_fair=np.zeros(MAX_OUTER),
        outer_unfair=np.zeros(MAX_OUTER),
        again=np.zeros(MAX_OUTER, np.bool_),
        constant=np.zeros(assignments),
        on_bias=np.zeros(assignments),
        mixed=np.zeros(wide, np.int64),
        always=np.zeros(wide, np.int64),
        lo=np.zeros((assignments, LANES)),
        hi=np.zeros((assignments, LANES)),
        margins=np.zeros((4, MAX_NODES + LANES)),
        keys=np.zeros((2, MAX_NODES + LANES)),
        powers=np.power(3.0, np.arange(MAX_LIVE) % WORD_UNITS, dtype=np.float64),
        slot_stamp=np.zeros(SLOTS, np.int64),
        slot_key=np.zeros((SLOTS, 2)),
        slot_table=np.zeros(SLOTS, np.int64),
        stamp=np.zeros(3, np.int64),
        symmetric=np.zeros(1, np.bool_),
        form=np.zeros(columns),
        form_mid=np.zeros(n),
        slopes=np.zeros(wide),
        tables=np.zeros((2, TABLES, GRID + 24)),
        least=np.zeros((2, TABLES)),
        inverse=np.zeros((2, TABLES)),
        built=np.zeros((2, TABLES), np.bool_),
        table_key=np.zeros((TABLES, 2)),
        tails=tail_buffers(),
        at=runs * np.arange(n),
        run_chance=np.zeros(n * runs),
        run_term=np.zeros(n * runs),
    )

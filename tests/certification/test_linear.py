"""Linear bounds, proved shares and splits, each against asking about every point; then whole runs on real networks."""

from __future__ import annotations

import itertools
from dataclasses import replace
from fractions import Fraction
from typing import NamedTuple
from unittest import mock

import cases
import numpy as np
import pytest
from cases import Case, boxes_in, callable_kernel, expected, integer, margins_at, prove, random_case, real_network
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import linear_bounds

from evenhand.certification.bounds.compiled import problem as problems
from evenhand.certification.bounds.compiled import shares
from evenhand.certification.bounds.compiled.engine import CompiledBounder
from evenhand.certification.bounds.compiled.functions import build_functions, measure_boxes, set_held_ranges
from evenhand.certification.bounds.compiled.lanes import LANES
from evenhand.certification.bounds.compiled.relaxation import range_of_columns, run_of_columns
from evenhand.certification.bounds.compiled.shares import AttributeAxes
from evenhand.certification.bounds.compiled.splits import halving_cell, split_by_plan
from evenhand.certification.bounds.frontier import root_frontier
from evenhand.certification.bounds.schedule import COARSE, FINE, MEDIUM
from evenhand.certification.query.cells import Cells, CellScale
from evenhand.certification.query.question import Query, query_of
from evenhand.models import AdditiveNetwork
from evenhand.models.additive.network import network_from_dense
from evenhand.schema import Attribute
from support import scaled

SET_HELD_RANGES, MEASURE_BOXES, BUILD_FUNCTIONS = map(
    callable_kernel, (set_held_ranges, measure_boxes, build_functions)
)
SPLIT_BY_PLAN, HALVING_CELL, PROVE_SHARES = map(callable_kernel, (split_by_plan, halving_cell, shares.prove_shares))
RUN_OF_COLUMNS, RANGE_OF_COLUMNS = map(callable_kernel, (run_of_columns, range_of_columns))


class RangeTables(NamedTuple):
    least: np.ndarray
    greatest: np.ndarray


# Shares of a box.

PRECISIONS = (COARSE, MEDIUM, FINE, (4096, 1), (32, 1), (32, 4), (384, 1))


def random_axes(rng: np.random.Generator, widest: int = 6, most: int = 5) -> tuple[AttributeAxes, np.ndarray]:
    """Up to five attributes, lines (some with cells that reach on) and tables, with whole weights, some zero."""
    counts = rng.integers(1, widest + 1, size=rng.integers(1, most + 1))
    line = rng.random(len(counts)) < 0.5
    weights = [rng.integers(0, 4, size=count).astype(float) for count in counts]
    for weight in weights:
        weight[rng.integers(len(weight))] += 1
    running = [np.concatenate([[0.0], np.cumsum(weight)]) for weight in weights]
    positions = [np.arange(count) for count in counts]
    axes = AttributeAxes(
        start=np.cumsum([0, *np.where(line, 1, counts)])[:-1].astype(np.int64),
        line=line,
        reach=np.where(line & (rng.random(len(counts)) < 0.5), rng.choice([0.5, 1.0], size=len(counts)), 0.0),
        first=np.cumsum([0, *(counts + 1)])[:-1].astype(np.int64),
        weight=np.concatenate(running),
        moment=np.concatenate([np.append(0, np.cumsum(w * x)) for w, x in zip(weights, positions, strict=True)]),
        square=np.concatenate([np.append(0, np.cumsum(w * x**2)) for w, x in zip(weights, positions, strict=True)]),
        total=np.array([weight.sum() for weight in weights]),
    )
    return axes, counts


def weight_of(axes: AttributeAxes, i: int, low: int, high: int) -> int:
    return int(axes.weight[axes.first[i] + high + 1] - axes.weight[axes.first[i] + low])


def random_box(axes: AttributeAxes, counts: np.ndarray, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """A box that somebody lives in."""
    low, high = np.sort(rng.integers(0, counts, size=(2, len(counts))), axis=0)
    for i, count in enumerate(counts):
        while weight_of(axes, i, low[i], high[i]) == 0:
            low[i], high[i] = max(low[i] - 1, 0), min(high[i] + 1, count - 1)
    return low.astype(np.int64), high.astype(np.int64)


def points_of(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    return np.array(list(itertools.product(*(range(a, b + 1) for a, b in zip(low, high, strict=True))))).reshape(
        -1, len(low)
    )


def masses_of(axes: AttributeAxes, points: np.ndarray) -> list[int]:
    """Weight of each point, a whole number."""
    weights = np.ones(len(points), dtype=np.int64)
    for i in range(points.shape[1]):
        at = axes.first[i] + points[:, i]
        weights *= (axes.weight[at + 1] - axes.weight[at]).astype(np.int64)
    return weights.tolist()


def values_of(axes: AttributeAxes, g: np.ndarray, constant: np.ndarray, points: np.ndarray) -> np.ndarray:
    """The functions at every point, the least over its cell, shape (functions, points). Exact for dyadic numbers."""
    values = np.repeat(constant[:, None], len(points), axis=1)
    for i, a in enumerate(axes.start):
        if axes.line[i]:
            slope = g[:, a : a + 1]
            values += np.minimum(slope * points[:, i], slope * (points[:, i] + axes.reach[i]))
        else:
            values += g[:, a + points[:, i]]
    return values


def random_functions(assignments: int, columns: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Lower functions near each other, and upper ones not far above; multiples of 2**-20, in some cases whole."""
    base, shift, gap = rng.normal(size=columns), rng.normal(size=assignments), rng.exponential(size=assignments)
    apart, bent = 10.0 ** rng.integers(-3, 1, size=2)
    low = base + apart * rng.normal(size=(assignments, columns))
    high = low + bent * rng.normal(size=(assignments, columns))
    g, constant = np.concatenate([low, -high]), np.concatenate([shift, -shift - gap])
    unit = 1.0 if rng.random() < 0.3 else 2.0**-20
    return np.rint(3 * g / unit) * unit, np.rint(3 * constant / unit) * unit


def proved(
    axes: AttributeAxes,
    low: np.ndarray,
    high: np.ndarray,
    g: np.ndarray,
    constant: np.ndarray,
    zscore: np.ndarray,
    precision: tuple[int, int],
    pair: tuple[int, int] = (0, 1),
    second: np.ndarray | None = None,
) -> np.ndarray:
    second = np.full(len(g), -1) if second is None else second
    wanted = events(len(second) // 2, pair)
    most = max(map(len, wanted))
    asked = shares.ProofEvents(
        np.array([len(wanted)]),
        np.array([len(members) for members in wanted]),
        np.array([members + [0] * (most - len(members)) for members in wanted]),
        np.array([False, False, True, True]),
        np.array([False, False, True, True]),
    )
    cells = len(axes.weight) - len(axes.first)
    desk = shares.scratch_buffers(len(g), len(axes.first), cells, len(wanted), most)
    functions = shares.BoxFunctions(g, constant.copy(), zscore, second)
    PROVE_SHARES(asked, low, high, functions, axes, *precision, desk)
    return desk.share


def with_pieces(members: list[int], second: np.ndarray) -> list[int]:
    """Members of an event, and the second pieces of those that have one."""
    return [*members, *(int(second[f]) for f in members if second[f] >= 0)]


def events(assignments: int, pair: tuple[int, int]) -> list[list[int]]:
    """The functions that are wanted positive together."""
    first, others = list(range(assignments)), list(range(assignments, 2 * assignments))
    if assignments == 2:
        return [first, others, [0, 3], [1, 2]]
    return [first, others, [pair[0], assignments + pair[1]], []]


@settings(max_examples=scaled(500), deadline=None, derandomize=True)
@given(seed=st.integers(0, 10_000_000), assignments=st.sampled_from([2, 2, 3, 4]), pieces=st.booleans())
def test_a_proved_share_is_never_more_than_the_truth(seed: int, assignments: int, pieces: bool) -> None:
    """Some functions have a second piece, near it or not, which has to be positive too."""
    rng = np.random.default_rng(seed)
    axes, counts = random_axes(rng)
    low, high = random_box(axes, counts, rng)
    functions, columns = 2 * assignments, int(np.where(axes.line, 1, counts).sum())
    g, constant = random_functions(assignments, columns, rng)
    second = np.full(functions, -1)
    if pieces:
        others, constants = random_functions(assignments, columns, rng)
        near = rng.random(functions) < 0.5  # as a bend does, along one direction
        others[near] = g[near] + np.rint(rng.normal() * 2**20) / 2**20 * others[0]
        g, constant = np.concatenate([g, others]), np.concatenate([constant, constants])
        second = np.where(rng.random(functions) < 0.7, functions + np.arange(functions), -1)
    pair = (int(rng.integers(assignments - 1)), assignments - 1)
    points = points_of(low, high)
    masses = masses_of(axes, points)
    values = values_of(axes, g, constant, points)
    truth = [
        Fraction(sum(itertools.compress(masses, (values[both] > 0).all(axis=0))), sum(masses)) if both else 0
        for both in (with_pieces(members, second) for members in events(assignments, pair))
    ]
    for precision in (*PRECISIONS, (8, 2)):  # the last looks at runs of cells
        for scores in (rng.normal(size=len(g)), np.ones(len(g))):
            share = proved(axes, low, high, g, constant, scores, precision, pair, second)
            for event in range(4):
                assert 0 <= share[event] <= truth[event]
                if len(points) <= precision[1] and (scores == 1).all():
                    assert share[event] == pytest.approx(float(truth[event]), abs=1e-10)


@settings(max_examples=scaled(200), deadline=None, derandomize=True)
@given(seed=st.integers(0, 10_000_000))
def test_sums_that_only_rounding_puts_above_zero_do_not_count(seed: int) -> None:
    """Tenths, which float64 does not have: sums are zero up to rounding all the time. The truth is in fractions."""
    rng = np.random.default_rng(seed)
    axes, counts = random_axes(rng, widest=4, most=3)
    low, high = random_box(axes, counts, rng)
    columns = int(np.where(axes.line, 1, counts).sum())
    g, constant = rng.integers(-4, 5, size=(4, columns)) / 10, rng.integers(-4, 5, size=4) / 10
    points = points_of(low, high)
    masses = masses_of(axes, points)
    above = np.zeros((4, len(points)), dtype=np.bool_)
    for f, (number, point) in itertools.product(range(4), enumerate(points)):
        total = Fraction(constant[f])
        for i, a in enumerate(axes.start):
            if axes.line[i]:
                slope, cell = Fraction(g[f, a]), int(point[i])
                total += min(slope * cell, slope * (cell + Fraction(axes.reach[i])))
            else:
                total += Fraction(g[f, a + point[i]])
        above[f, number] = total > 0
    for precision in ((4096, 4096), (384, 1)):
        share = proved(axes, low, high, g, constant, np.ones(4), precision)
        for event, members in enumerate(events(2, (0, 1))):
            assert share[event] <= Fraction(sum(itertools.compress(masses, above[members].all(axis=0))), sum(masses))


@settings(max_examples=scaled(100), deadline=None, derandomize=True)
@given(seed=st.integers(0, 10_000_000))
def test_rounding_to_the_grid_loses_one_step_per_attribute(seed: int) -> None:
    """Two functions that differ by a constant are one condition: only the grid stands between proof and truth."""
    rng = np.random.default_rng(seed)
    axes, counts = random_axes(rng)
    low, high = np.zeros(len(counts), dtype=np.int64), counts - 1
    g, constant = random_functions(2, int(np.where(axes.line, 1, counts).sum()), rng)
    g[1], g[2:] = g[0], -1.0
    points = points_of(low, high)
    masses = masses_of(axes, points)
    values = values_of(axes, g, constant, points)[:2].min(axis=0)
    share = proved(axes, low, high, g, constant, np.array([1.0, 1.0, -9.0, -9.0]), (4096, 1))[0]
    lost = (len(counts) + 1) * np.ptp(values) / 4096 + 1e-9
    assert share <= Fraction(sum(itertools.compress(masses, values > 0)), sum(masses))
    assert share >= sum(itertools.compress(masses, values > lost)) / sum(masses) - 1e-9


# Bounds of the network.


def random_network(seed: int, *, whole: bool | None = None, real: bool = True) -> tuple[Query, Case]:
    """A network of two labels over all kinds of attributes."""
    while len((case := random_case(seed, real=real, whole=whole)).network.classes) > 2:
        seed += 1_000_000
    return query_of(case.network, None, case.population), case


def varied_network(seed: int, **options: bool) -> Query:
    """One whose protected values do not all act alike."""
    while len((query := random_network(seed, **options)[0]).assignments) < 2:
        seed += 1_000_000
    return query


class Bounded:
    """The functions of sixteen boxes, and what they say at a point."""

    def __init__(
        self, query: Query, low: np.ndarray, high: np.ndarray, *, joint_from: int, plain: bool = False
    ) -> None:
        with mock.patch.object(problems, "JOINT_DEPTH", joint_from):
            self.problem = p = problems.compiled_problem_of(query)
        self.low, self.high = low, high
        work, scratch = problems.kernel_workspace(p)[0][:2]
        work.lo[: low.shape[1]], work.hi[: low.shape[1]], work.plain[0] = low.T, high.T, plain
        SET_HELD_RANGES(p.roles, low.shape[1], work, scratch)
        MEASURE_BOXES(LANES, p.axes, work)
        BUILD_FUNCTIONS(p.network, p.roles, p.axes, LANES, True, work, scratch)
        self.constant, self.least = (each.reshape(-1, 2, LANES) for each in (work.constant, work.least))
        forms = np.moveaxis(work.g, 3, 2)
        self.g = forms.repeat(p.roles.assignments, axis=0) if p.roles.joint else forms

    def at(self, lane: int, places: np.ndarray) -> np.ndarray:
        """Values at places (n, attributes): numbers along lines, cells of tables; shape (functions, pieces, n)."""
        total = np.repeat(self.constant[:, :, lane, None], len(places), axis=2)
        for i in range(places.shape[1]):
            a = self.problem.network.start[i]
            if self.problem.network.line[i]:
                total += self.g[:, :, lane, a, None] * places[:, i]
            else:
                total += self.g[:, :, lane, a + places[:, i].astype(np.int64)]
        return total


def people_in(query: Query, low: np.ndarray, high: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """All cells of a box, or many, and all its corners; shape (n, attributes)."""
    if (high - low + 1.0).prod() <= 1500:
        return points_of(low, high)
    corners = np.array(list(itertools.product(*zip(low, high, strict=True))))
    return np.concatenate([rng.integers(low, high + 1, size=(500, len(low))), corners])


@settings(max_examples=scaled(150), deadline=None, derandomize=True)
@given(seed=st.integers(0, 900_000), joint_from=st.sampled_from([0, 9]), plain=st.booleans())
def test_functions_bound_the_network_at_every_point(seed: int, joint_from: int, plain: bool) -> None:
    """The smaller piece lies below what the network says there, in float64 and in float32; of minus that too."""
    query = varied_network(seed)
    rng = np.random.default_rng(seed)
    low, high = boxes_in(query, LANES, rng)
    bounded = Bounded(query, low, high, joint_from=joint_from, plain=plain)
    assert bounded.problem.roles.joint == (joint_from == 0 or len(query.assignments) > 2)
    for lane in range(0, LANES, 3):
        cells = people_in(query, low[lane], high[lane], rng)
        within = rng.choice([0.0, 1.0, 0.5], size=cells.shape)
        reach = bounded.problem.network.reach[: cells.shape[1]]
        said = bounded.at(lane, cells + within * reach)
        for kind in (np.float64, np.float32):
            answers = margins_at(query, cells, within, kind)[0]
            assert (said.min(axis=1) < np.concatenate([answers, -answers])).all()
        assert (bounded.least[:, :, lane, None] <= said + 1e-9).all()


def lines_below(seed: int, joint_from: int) -> set[bool]:
    """Compare the functions of a box with the reference; return whether their lines below ReLUs have slope 0."""
    query = varied_network(seed, whole=False)
    low, high = boxes_in(query, 1, np.random.default_rng(seed))
    bounded = Bounded(query, low.repeat(LANES, 0), high.repeat(LANES, 0), joint_from=joint_from, plain=True)
    p, n = bounded.problem, len(query.cells)
    extra = [p.roles.assignments - 1] if p.roles.joint else []
    taken = set()
    for assignment, side in itertools.product(range(p.roles.assignments), range(2)):
        f, sign = side * p.roles.assignments + assignment, 1 - 2 * side
        assert (bounded.g[f, 0] == bounded.g[f, 1]).all()
        alike = []
        for flat in (False, True):
            ends = (np.append(low[0], 0 * np.array(extra, int)), np.append(high[0], np.array(extra, int)))
            coefficients, constant = linear_bounds(p, 0 if p.roles.joint else assignment, *ends, flat=flat)[side]
            if p.roles.joint:
                constant += coefficients[p.network.start[n] + assignment]
            slack = sign * constant - bounded.constant[f, 0, 0]
            same = 2.0**-22 <= slack <= 1e-3 * (1 + abs(constant))
            least = bounded.constant[f, 0, 0]
            for i, a in enumerate(p.network.start[:n]):
                b = a + 1 if p.network.line[i] else a + high[0, i] + 1
                a = a if p.network.line[i] else a + low[0, i]
                same = same and bounded.g[f, 0, 0, a:b] == pytest.approx(sign * coefficients[a:b], abs=1e-8)
                ends = np.array([low[0, i], high[0, i] + p.network.reach[i]]) if p.network.line[i] else 1.0
                least += (sign * coefficients[a:b] * ends).min()
            alike.append(same and bounded.least[f, 0, 0] == pytest.approx(least, abs=1e-8))
        assert any(alike)
        taken |= {alike[1]} if alike[0] != alike[1] else set()
    return taken


@settings(max_examples=scaled(60), deadline=None, derandomize=True)
@given(seed=st.integers(0, 900_000), joint_from=st.sampled_from([0, 9]))
def test_functions_are_those_of_the_reference(seed: int, joint_from: int) -> None:
    """The coefficients of either choice, the constant lower by the slack, and the least value over the box."""
    lines_below(seed, joint_from)


def test_either_line_below_is_taken() -> None:
    """Were it always the same, the other would be work for nothing."""
    assert set.union(*(lines_below(seed, 0) for seed in range(20))) == {False, True}


# Splits.


@settings(max_examples=scaled(200), deadline=None, derandomize=True)
@given(seed=st.integers(0, 10_000_000))
def test_grandchildren_share_out_a_box(seed: int) -> None:
    """Everybody in the box is in exactly one part; nobody else is; no part is empty of people."""
    rng = np.random.default_rng(seed)
    axes, counts = random_axes(rng, widest=8, most=4)
    low, high = random_box(axes, counts, rng)
    plan = rng.integers(0, len(counts), size=4).astype(np.int8)
    plan[rng.integers(1, 5) :] = -1
    lo, hi = np.zeros((2, len(counts), LANES))
    count = SPLIT_BY_PLAN(low.astype(np.int32), high.astype(np.int32), plan, axes, True, lo, hi)
    assert 1 <= count <= LANES
    points = points_of(low, high)
    inside = (points[:, :, None] >= lo[:, :count]).all(axis=1) & (points[:, :, None] <= hi[:, :count]).all(axis=1)
    lived = np.array(masses_of(axes, points)) > 0
    assert (inside[lived].sum(axis=1) == 1).all()
    assert (inside.sum(axis=1) <= 1).all()
    assert inside[lived].any(axis=0).all()
    assert (lo[:, :count] >= low[:, None]).all()
    assert (hi[:, :count] <= high[:, None]).all()
    assert (lo[:, count:] == lo[:, :1]).all()


@settings(max_examples=scaled(200), deadline=None, derandomize=True)
@given(seed=st.integers(0, 10_000_000))
def test_a_range_is_halved_as_evenly_as_it_can_be(seed: int) -> None:
    rng = np.random.default_rng(seed)
    axes, counts = random_axes(rng, widest=9)
    i = int(rng.integers(len(counts)))
    low, high = np.sort(rng.integers(0, counts[i], size=2))
    if low == high:
        return
    cut = HALVING_CELL(i, int(low), int(high), axes)
    assert low <= cut < high
    uneven = [abs(weight_of(axes, i, low, c) - weight_of(axes, i, c + 1, high)) for c in range(low, high)]
    assert uneven[cut - low] == min(uneven)


# A box by hand.


def _by_hand(hidden: bool) -> AdditiveNetwork:
    """Over x, y in 0..3 the logit is relu(x + y - 2 + p) - 1.5, or x + y - 3.5 + p without a hidden unit."""
    schema = cases.schema_of(
        [{"name": name, "kind": "integer", "lower": 0, "upper": 3} for name in "xy"]
        + [integer("p", 0, 1, protected=True)]
    )
    first = np.ones((3, 1))
    if hidden:
        return network_from_dense(schema, [(first, np.array([-2.0])), (np.ones((1, 1)), np.array([-1.5]))])
    return network_from_dense(schema, [(first, np.array([-3.5]))])


def test_a_box_by_hand() -> None:
    """Its lines, which decide everybody; and what they decide where each is one function.

    For p = 0 the unit lies in -2..4: above it 2/3 (x + y), below it x + y - 2. For p = 1 it lies in -1..5: above it
    5/6 (x + y), below it x + y - 1. So both labels are the second for x + y >= 4 (6 people), both the first for
    x + y <= 1 (3 people). In two pieces, 0 and the unit itself, nothing is lost above it: both labels are the first for
    x + y <= 2 (6 people), and the 4 people with x + y = 3 are treated unfairly.
    """
    query = query_of(_by_hand(hidden=True))
    box = root_frontier(query.counts)
    low, high = box.lo.repeat(LANES, 0), box.hi.repeat(LANES, 0)
    for plain, slopes, constants, shares_of_box in (
        (
            True,
            [[1, 1], [1, 1], [-2 / 3, -2 / 3], [-5 / 6, -5 / 6]],
            [[-3.5] * 2, [-2.5] * 2, *[[1.5] * 2] * 2],
            (9, 0),
        ),
        (False, [[1, 1], [1, 1], [0, -1], [0, -1]], [[-3.5] * 2, [-2.5] * 2, [1.5, 3.5], [1.5, 2.5]], (12, 4)),
    ):
        bounded = Bounded(query, low, high, joint_from=9, plain=plain)
        assert bounded.g[:, :, 0, 0] == pytest.approx(np.array(slopes), abs=1e-5)
        assert bounded.g[:, :, 0, 1] == pytest.approx(np.array(slopes), abs=1e-5)
        assert bounded.constant[:, :, 0] == pytest.approx(np.array(constants), abs=1e-5)
        bounder = CompiledBounder(bounded.problem, 1)
        bounder.plain = plain
        assert 16 * bounder.prove(root_frontier(query.counts), FINE)[0] == pytest.approx(shares_of_box, abs=1e-9)
    result = prove(_by_hand(hidden=True), method="linear", enumeration=False)
    assert (result.certified, result.falsified) == pytest.approx((12 / 16, 4 / 16), abs=1e-11)


def test_one_box_is_enough_where_the_network_is_linear() -> None:
    query = query_of(_by_hand(hidden=False))
    fair, unfair = CompiledBounder(problems.compiled_problem_of(query), 1).prove(root_frontier(query.counts), FINE)[0]
    assert (fair, unfair) == pytest.approx((12 / 16, 4 / 16), abs=1e-11)


# Whole runs.


@pytest.mark.parametrize("joint_from", [0, 9])
def test_either_way_to_bound_is_sound_and_gets_there(joint_from: int) -> None:
    decided = 0
    for seed in range(60):
        case = random_network(seed, real=False)[1]
        fair, unfair = cases.true_shares(case)
        with mock.patch.object(problems, "JOINT_DEPTH", joint_from):
            result = prove(case.network, method="linear", population=case.population, enumeration=False, samples=16)
        assert result.certified <= fair
        assert result.falsified <= unfair
        decided += result.undecided < 1e-5
    assert decided >= 35


@pytest.mark.parametrize(
    ("name", "domain", "attribute", "boxes"),
    [("AC-8", "adult", "sex", 20_000), ("GC-1", "german", "age", 20_000), ("AC-2", "adult", "sex", 10_000)],
)
def test_more_is_decided_than_by_intervals_in_as_many_boxes(name: str, domain: str, attribute: str, boxes: int) -> None:
    sampled = expected(name)["sampled_truth"][attribute]["unfair_pct"] / 100
    error = 4 * np.sqrt(sampled * (1 - sampled) / 400_000) + 1e-5
    network = real_network(name, attribute, domain)
    linear, interval = (prove(network, method=method, max_boxes=boxes) for method in ("linear", "interval"))
    for result in (linear, interval):
        assert result.boxes <= boxes
        assert result.certified <= 1 - sampled + error
        assert result.falsified <= sampled + error
        assert result.estimate.low - error <= sampled <= result.estimate.high + error
    assert linear.undecided < 0.5 * interval.undecided


@settings(max_examples=scaled(300), deadline=None, derandomize=True)
@given(
    base=st.floats(-50, 50), step=st.floats(1e-3, 10), count=st.integers(2, 200), divisor=st.sampled_from([1, 3, 7.3])
)
def test_keys_are_on_their_line_within_the_miss(base: float, step: float, count: int, divisor: float) -> None:
    keys = (base + step * np.arange(count)) / divisor
    attribute = Attribute(name="x", kind="integer", lower=0, upper=count - 1)
    units = {"rows": np.ones((1, 1)), "offset": np.zeros(1), "residual": np.zeros(1)}
    cells = Cells(attribute=attribute, position=0, count=count, scale=CellScale(keys=keys), total=count, **units)
    line = problems._nearly_even(cells)
    assert line is not None
    start, slope, miss = map(Fraction, line)
    assert all(abs(Fraction(key) - (start + slope * i)) <= miss for i, key in enumerate(keys.tolist()))
    # A key that is clearly not on the line makes a table.
    bent = replace(cells, scale=CellScale(keys=keys + 0.1 * step / divisor * (np.arange(count) == count // 2)))
    assert count < 3 or problems._nearly_even(bent) is None


@settings(max_examples=scaled(100), deadline=None, derandomize=True)
@given(seed=st.integers(0, 10_000_000), levels=st.integers(1, 6))
def test_ranges_of_columns_are_read_in_runs(seed: int, levels: int) -> None:
    rng = np.random.default_rng(seed)
    counts = rng.integers(1, 40, size=rng.integers(1, 4))
    columns = rng.normal(size=(counts.sum(), 3))
    start = np.cumsum([0, *counts])[:-1]
    net = RangeTables(*problems.range_tables(columns, levels))
    for first, count in zip(start.tolist(), counts.tolist(), strict=True):
        a, b = (first + np.sort(rng.integers(0, count, 2))).tolist()
        run, last = RUN_OF_COLUMNS(net, a, b)
        low, high = RANGE_OF_COLUMNS(net, 1, a, run, last)
        assert (low, high) == (columns[a : b + 1, 1].min(), columns[a : b + 1, 1].max())

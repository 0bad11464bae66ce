"""Joint counting of networks with one hidden layer: by hand, against everybody, and on a published network."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from cases import Case, _attribute, _marginal, margins_at, real_network, schema_of
from hypothesis import given, settings
from hypothesis import strategies as st

from evenhand.certification.bounds.compiled.engine import compile_bounder
from evenhand.certification.bounds.compiled.pattern_problem import one_layer_network_of
from evenhand.certification.bounds.compiled.patterns import PatternCounter
from evenhand.certification.bounds.compiled.problem import compiled_problem_of
from evenhand.certification.bounds.joint import CountingEffort, CountingPlan, decay_of, pilot_boxes, plan_seconds
from evenhand.certification.query.question import Query, query_of
from evenhand.models import AdditiveNetwork, AffineLayer, network_from_dense
from evenhand.population import ProductPopulation
from evenhand.stats.proportion import clopper_pearson
from support import scaled

QUICK, THOROUGH = CountingEffort(64, 1.0), CountingEffort(4096, 1e-9)
WIDTHS = (2, 3, 4, 7, 70, 150)


def counter_of(query: Query) -> PatternCounter | None:
    problem = compiled_problem_of(query)
    net = one_layer_network_of(problem)
    return None if net is None else PatternCounter(net, problem.axes)


def wide_case(seed: int, *, real: bool = False) -> Case:
    """A network with one hidden layer over attributes of which some are too wide to be gone through at first."""
    rng = np.random.default_rng(seed)
    whole = bool(rng.integers(2))

    def weights(*shape: int) -> np.ndarray:
        return rng.integers(-2, 3, size=shape).astype(np.float64) if whole else rng.normal(size=shape)

    units = int(rng.integers(1, 9))
    described, parts, points = [], [], 1
    for i in range(int(rng.integers(3, 6)) + 1):
        count = int(rng.choice(([width for width in WIDTHS if points * width <= 20_000] or [2]) if i else [2, 3]))
        kind = str(rng.choice(["ordinal", "integer", "integer"] + ["real"] * real)) if i else "one-hot"
        points *= count if i and kind != "real" else 1
        one, part = _attribute(f"a{i}", kind, count, weights, units, rng, whole)
        described.append(one | {"protected": i == 0})
        parts.append(part)
    schema = schema_of(described)
    layers = (AffineLayer(weights(units, 1), weights(1)),)
    network = AdditiveNetwork(schema, tuple(parts), weights(units), layers, schema.target.values or (), 1)
    some = ProductPopulation("some people", schema, tuple(_marginal(one, rng) for one in schema.attributes))
    return Case(network, some if rng.integers(2) else None)


def true_range(query: Query, low: np.ndarray, high: np.ndarray, rng: np.random.Generator) -> tuple[float, float]:
    """The mass of a box that may be fair, and that may be unfair: everybody asked, at several places in real cells."""
    spans = [np.arange(a, b + 1) for a, b in zip(low, high, strict=True)]
    cells = np.array(list(itertools.product(*spans)))
    mass = np.ones(len(cells))
    for i, each in enumerate(query.cells):
        mass *= np.diff(each.before(np.arange(each.count + 1)).astype(np.float64))[cells[:, i]]
    fair = unfair = np.ones(len(cells), dtype=np.bool_)
    for within in (np.zeros(cells.shape), np.ones(cells.shape), rng.random(cells.shape)):
        positive = margins_at(query, cells, within, np.float64)[0] > 0
        same = (positive == positive[0]).all(axis=0)
        fair, unfair = fair & same, unfair & ~same
    return (0.0, 0.0) if mass.sum() == 0 else (mass[fair].sum() / mass.sum(), mass[unfair].sum() / mass.sum())


def check_against_everybody(seed: int) -> int:
    """Count boxes of one random network with both efforts; return how many."""
    case = wide_case(seed, real=seed % 4 == 0)
    query = query_of(case.network, population=case.population)
    counter = None if query.constant else counter_of(query)
    if counter is None:
        return 0
    rng = np.random.default_rng(seed)
    low, high = np.sort(rng.integers(0, query.counts, size=(2, 4, len(query.counts))), axis=0)
    low[0], high[0] = 0, query.counts - 1
    # Cells of a real number are many: a few of them are enough.
    high = np.where(query.counts > 1000, np.minimum(high, low + rng.integers(0, 70)), high)
    checked = 0
    for effort in (QUICK, THOROUGH):
        shares = counter.count(low, high, effort)
        for box in range(len(low)):
            if (high[box] - low[box] + 1.0).prod() > 200_000:
                continue
            fair, unfair = true_range(query, low[box], high[box], rng)
            if fair + unfair > 0:
                assert shares[box, 0] <= fair + 1e-12, (seed, effort, low[box], high[box])
                assert shares[box, 1] <= unfair + 1e-12, (seed, effort, low[box], high[box])
                checked += 1
    return checked


def test_by_hand() -> None:
    """One unit z = y - 5000 + 100 p over y in 0..9999 and p in 0, 1; the output is relu(z) - 1000.

    Its middle is above zero, so the slope is 1: relu(z) - z is in [0, 5000] for p = 0, in [0, 4900] for p = 1, and z is
    g - 0.5 or g + 99.5 with g = y - 4999.5. So the output is at least g - 1000.5 and g - 900.5, at most g + 3999.5 for
    both. Certified: g > 1000.5, which are y from 6001 on, 3,999 people, and g < -3999.5, which are y up to 999, 1,000
    people. The table takes cells in runs of 40 and rounds down to 256 steps, which costs up to 0.8 % at each end.
    """
    schema = schema_of(
        [
            {"name": "y", "kind": "integer", "lower": 0, "upper": 9999},
            {"name": "p", "kind": "integer", "lower": 0, "upper": 1, "protected": True},
        ]
    )
    network = network_from_dense(
        schema,
        [(np.array([[1.0], [100.0]]), np.array([-5000.0])), (np.array([[1.0]]), np.array([-1000.0]))],
        name="by hand",
    )
    counter = counter_of(query_of(network))
    assert counter is not None
    fair, unfair = counter.count(np.array([[0]]), np.array([[9999]]), QUICK)[0]
    assert 0.4999 - 2 * 0.008 <= fair <= 0.4999
    assert unfair == 0
    # Of 4,000 people all are gone through one by one. With p = 1 the output is 0 at y = 5900, with p = 0 at y = 6000:
    # too close to call. 1,900 people below, 1,999 above, 99 in between.
    fair, unfair = counter.count(np.array([[4000]]), np.array([[7999]]), THOROUGH)[0]
    assert (fair, unfair) == pytest.approx((0.97475, 0.02475), abs=1e-9)


def test_other_questions_are_left_alone() -> None:
    """Two hidden layers: no joint counting."""
    attributes = [
        {"name": "y", "kind": "integer", "lower": 0, "upper": 9},
        {"name": "p", "kind": "integer", "lower": 0, "upper": 1, "protected": True},
    ]
    deep = [(np.ones((2, 2)), np.zeros(2)), (np.ones((2, 2)), np.zeros(2)), (np.ones((2, 1)), np.zeros(1))]
    assert counter_of(query_of(network_from_dense(schema_of(attributes), deep, name="deep"))) is None


@settings(max_examples=scaled(100), deadline=None, derandomize=True)
@given(seed=st.integers(0, 50_000))
def test_never_more_than_everybody(seed: int) -> None:
    check_against_everybody(seed)


@pytest.mark.slow
def test_never_more_than_everybody_of_many_networks() -> None:
    assert sum(check_against_everybody(seed) > 0 for seed in range(100_000, 105_000)) > 4000


def test_published_network_against_samples() -> None:
    """Boxes of AC-2's frontier: what is counted never exceeds what 4,000 people each allow."""
    query = query_of(real_network("AC-2", "sex"))
    bounder = compile_bounder(query, 1)
    counter, rng = bounder.joint, np.random.default_rng(0)
    assert counter is not None
    boxes, _ = bounder.expand(bounder.root(), 2e-4, 4000)
    boxes = boxes[np.argsort(-boxes.open)[:12]]
    for effort in (QUICK, CountingEffort(1024, 4e-6)):
        shares = counter.count(boxes.lo, boxes.hi, effort)
        assert shares.sum() > bounder.prove(boxes, (1024, 256)).sum()
        for low, high, found in zip(boxes.lo, boxes.hi, shares, strict=True):
            people = rng.integers(low, high + 1, size=(4000, len(low)))
            first = query.first(people)
            positive = np.stack([query.margins(first, p)[:, 0] > 0 for p in range(2)])
            fair = int((positive[0] == positive[1]).sum())
            assert found[0] <= clopper_pearson(fair, 4000, 1 - 1e-7)[1]
            assert found[1] <= clopper_pearson(4000 - fair, 4000, 1 - 1e-7)[1]


# When to count.


def test_allocates_by_gain_for_cost() -> None:
    """A second box is not worth 3 more seconds where 4 for the quick effort on all and 3 for the first are taken."""
    plan = CountingPlan(np.array([1.0, 4.0]), np.array([0.5, 0.25]))
    undecided = np.array([8.0, 4.0, 2.0, 1.0])
    # Quick: half of what is undecided for 1 second; thorough: a quarter more for 3 seconds.
    assert plan.worthwhile() == [(0, 2.0), (1, 12.0)]
    assert plan.allocate(undecided, 8.0) == [(1, 1), (0, 3)]
    assert plan.left_after(undecided, 8.0) == pytest.approx(8 / 4 + 7 / 2)
    assert plan.allocate(undecided, 100.0) == [(1, 4)]
    assert plan.allocate(undecided, 0.5) == []


def test_an_effort_that_brings_too_little_is_left_out() -> None:
    plan = CountingPlan(np.array([1.0, 2.0, 3.0]), np.array([0.5, 0.49, 0.2]))
    assert [effort for effort, _ in plan.worthwhile()] == [0, 2]
    assert CountingPlan(np.array([1.0]), np.array([1.0])).allocate(np.ones(3), 10.0) == []


def test_holds_time_back_where_counting_pays() -> None:
    undecided = np.full(1000, 1e-4)
    good, useless = (CountingPlan(np.array([1e-4]), np.array([left])) for left in (0.3, 1.0))
    assert plan_seconds(good, undecided, 0.3, 0.1, 10.0, 0.02) > 4
    assert plan_seconds(useless, undecided, 0.3, 0.1, 10.0, 0.02) < 1


def test_pilot_and_decay() -> None:
    assert len(pilot_boxes(np.ones(1000), 60.0)) == 24
    assert len(pilot_boxes(np.ones(1000), 0.01)) == 0
    assert decay_of([(1.0, 0.4), (16.0, 0.1)], 0.3) == pytest.approx(0.5 * 0.3 + 0.5 * 0.5)
    assert decay_of([(1.0, 0.4)], 0.3) == 0.3

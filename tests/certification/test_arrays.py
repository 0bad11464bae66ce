"""The linear method on whole arrays: the same bounds as the slow reference, sound proofs, wide networks."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

import numpy as np
import pytest
from cases import boxes_in, expected, margins_at, prove, random_case, real_network, schema_of, true_shares
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import linear_bounds

from evenhand import certification
from evenhand.certification.bounds.arrays import bounds
from evenhand.certification.bounds.arrays import network as networks
from evenhand.certification.bounds.arrays.bounds import BatchBounds
from evenhand.certification.bounds.arrays.engine import ArrayEngine, plan_splits, uses_arrays
from evenhand.certification.bounds.arrays.events import decide_boxes
from evenhand.certification.bounds.arrays.functions import margin_functions_of
from evenhand.certification.bounds.arrays.network import ArrayNetwork, array_network_of
from evenhand.certification.bounds.compiled.events import FAIR, OPEN, UNFAIR
from evenhand.certification.bounds.compiled.problem import FunctionRoles
from evenhand.certification.bounds.linear import refine_boxes
from evenhand.certification.query.proved_mass import ProvedMass, SearchLimits
from evenhand.certification.query.question import Query, query_of
from evenhand.errors import OptionError
from evenhand.models.additive.network import network_from_dense
from support import scaled


def varied(seed: int, *, real: bool = True, whole: bool | None = None) -> Query:
    """A random question whose protected values do not all act alike."""
    while True:
        case = random_case(seed, real=real, whole=whole)
        if len((query := query_of(case.network, None, case.population)).assignments) > 1:
            return query
        seed += 1_000_000


def bounded(monkeypatch: pytest.MonkeyPatch, together: bool) -> None:
    monkeypatch.setattr(networks, "SEPARATE", 1 if together else 99)
    monkeypatch.setattr(networks, "TOGETHER_DEPTH", 0 if together else 99)


def dense(net: ArrayNetwork) -> SimpleNamespace:
    """What the reference reads: everything padded to one width, in the order of the columns' own layout."""
    columns = np.empty((len(net.order), int(net.columns.shape[1])))
    columns[net.order] = net.columns
    start, line, reach = net.axes.start, net.axes.line, net.axes.reach
    if net.apart is not None:
        start, line, reach = np.append(start, len(columns)), np.append(line, False), np.append(reach, 0.0)
        columns = np.concatenate([columns, net.apart])
    most = max([*net.widths, net.outputs])
    weights, offsets = np.zeros((net.depth, most, most)), np.zeros((net.depth, most))
    for k, (weight, offset) in enumerate(zip(net.weights, net.offsets, strict=True)):
        weights[k, : weight.shape[0], : weight.shape[1]] = weight
        offsets[k, : len(offset)] = offset
    wide = [np.pad(rows, ((0, 0), (0, most - rows.shape[1]))) for rows in (columns, net.biases)]
    held = SimpleNamespace(
        sizes=np.array([*net.widths, net.outputs]),
        columns=wide[0],
        start=start,
        line=line,
        reach=reach,
        weights=weights,
        offsets=offsets,
    )
    return SimpleNamespace(network=held, roles=SimpleNamespace(biases=wide[1]))


# Bounds.


@pytest.mark.parametrize("together", [False, True])
def test_bounds_are_those_of_the_reference(together: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Coefficients and constants of the first output, box by box and unit by unit, for every depth and attribute."""
    bounded(monkeypatch, together)
    depths = set()
    for seed in range(40):
        query = varied(seed, whole=False)
        if not query.layers:
            continue
        depths.add(len(query.layers))
        low, high = boxes_in(query, 3, np.random.default_rng(seed))
        net = array_network_of(query)
        assert (net.apart is not None) == together
        batch, slow = BatchBounds(net, low, high), dense(net)
        n = len(query.cells)
        for run in range(len(net.biases)):
            batch.bound(run)
            for flat, up in itertools.product((False, True), repeat=2):
                coefficients, constants = batch.output(0, up, flat)
                for box in range(3):
                    extra = [] if net.apart is None else [net.roles.assignments - 1]
                    ends = np.append(low[box], 0 * np.array(extra, int)), np.append(high[box], np.array(extra, int))
                    wanted, constant = linear_bounds(slow, run, *ends, flat=flat)[up]
                    said = np.empty(len(net.order))
                    said[net.order] = coefficients[box]
                    for i, a in enumerate(net.axes.start):
                        inside = slice(a, a + 1) if net.axes.line[i] else slice(a + low[box, i], a + high[box, i] + 1)
                        assert said[inside] == pytest.approx(wanted[inside], abs=1e-8)
                    of_each = constant + (wanted[slow.network.start[n] :] if extra else np.zeros(1))
                    assert constants[box] == pytest.approx(of_each, abs=1e-8)
    assert depths == {1, 2, 3}


def test_bounds_do_not_depend_on_what_fits_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    query = _narrow(4)
    low, high = boxes_in(query, 40, np.random.default_rng(0))
    answers = []
    for budget in (networks.WORK_BYTES, 1 << 20, 1):
        monkeypatch.setattr(bounds, "WORK_BYTES", budget)
        functions, scores = margin_functions_of(array_network_of(query), low, high, scoring=True)
        answers.append((functions.constants, functions.coefficients, scores))
    for wanted, *others in zip(*answers, strict=True):
        for other in others:
            assert other == pytest.approx(wanted, rel=1e-9, abs=1e-9)


def _narrow(depth: int) -> Query:
    rng = np.random.default_rng(1)
    sizes = [6, *[12] * depth, 1]
    schema = schema_of(
        [{"name": f"a{i}", "kind": "integer", "lower": 0, "upper": 5} for i in range(5)]
        + [{"name": "p", "kind": "integer", "lower": 0, "upper": 1, "protected": True}]
    )
    return query_of(
        network_from_dense(
            schema, [(rng.normal(size=(a, b)), rng.normal(size=b)) for a, b in itertools.pairwise(sizes)]
        )
    )


@settings(max_examples=scaled(120), deadline=None, derandomize=True)
@given(seed=st.integers(0, 900_000), together=st.booleans(), forward=st.booleans())
def test_functions_bound_the_network_at_every_point(seed: int, together: bool, forward: bool) -> None:
    """Each function is below what the network says at every point of the box, in float64 and in float32."""
    query = varied(seed)
    while forward and len(query.layers) < 3:
        seed += 1_000_000
        query = varied(seed)
    rng = np.random.default_rng(seed)
    low, high = boxes_in(query, 6, rng)
    with pytest.MonkeyPatch.context() as patch:
        bounded(patch, together)
        patch.setattr(networks, "FORWARD_GAIN", 0 if forward else np.inf)
        net = array_network_of(query)
    assert net.forward == forward
    functions, _ = margin_functions_of(net, low, high, scoring=False)
    for box in range(6):
        cells = rng.integers(low[box], high[box] + 1, size=(60, low.shape[1]))
        within = rng.choice([0.0, 1.0, 0.5], size=cells.shape)
        said = np.repeat(functions.constants[box][:, None], len(cells), axis=1)
        for i, a in enumerate(net.axes.start):
            if net.axes.line[i]:
                said += functions.coefficients[box][:, [a]] * (cells[:, i] + within[:, i] * net.axes.reach[i])
            else:
                said += functions.coefficients[box][:, a + cells[:, i]]
        for kind in (np.float64, np.float32):
            margins = margins_at(query, cells, within, kind)
            wanted = np.concatenate([margins, -margins]).reshape(len(said), len(cells))
            assert (said < wanted).all()


def test_bounds_forward_are_close_to_those_backward(monkeypatch: pytest.MonkeyPatch) -> None:
    """In three layers all units' intervals are as wide, give or take a fifth."""
    query, answers = _narrow(3), {}
    low, high = boxes_in(query, 60, np.random.default_rng(0))
    for gain in (0, np.inf):
        monkeypatch.setattr(networks, "FORWARD_GAIN", gain)
        batch = BatchBounds(array_network_of(query), low, high)
        batch.bound(0)
        answers[gain] = sum((layer.high.mean() - layer.low.mean()) for layer in batch.layers)
    assert answers[0] == pytest.approx(answers[np.inf], rel=0.2)
    assert answers[0] != answers[np.inf]


# Verdicts.


@settings(max_examples=scaled(60), deadline=None, derandomize=True)
@given(seed=st.integers(0, 900_000), together=st.booleans())
def test_a_box_decided_as_a_whole_is_decided_at_every_point(seed: int, together: bool) -> None:
    query = varied(seed, real=False)
    low, high = boxes_in(query, 30, np.random.default_rng(seed))
    with pytest.MonkeyPatch.context() as patch:
        bounded(patch, together)
        kinds = margin_functions_of(array_network_of(query), low, high, scoring=False)[0].kind
    for box in np.flatnonzero(kinds != OPEN):
        cells = np.array(list(itertools.product(*map(range, low[box], high[box] + 1))))
        wins = margins_at(query, cells, np.zeros(cells.shape), np.float64)
        above = np.zeros((len(cells), len(query.assignments), len(query.classes)), dtype=np.int64)
        for (a, b), margin in zip(query.pairs, wins, strict=True):
            above[:, :, b] += (margin > 0).T
            above[:, :, a] += (margin <= 0).T
        labels = above.argmax(axis=2)
        assert ((labels == labels[:, :1]).all(axis=1) == (kinds[box] == FAIR)).all()
        assert kinds[box] in (FAIR, UNFAIR)


def roles_of(labels: int, assignments: int, beats: np.ndarray) -> FunctionRoles:
    return FunctionRoles(assignments, labels, beats, np.zeros((1, 1)), False, least=2, demanded=-1)


def test_what_is_open_by_hand() -> None:
    """Two labels, two assignments: certain under one, 0.5 under the other. Then three assignments."""
    sure, never = 9.0, -9.0
    least = np.full((1, 4), -1.0)
    kind, undecided = decide_boxes(
        roles_of(2, 2, np.array([[0, 1], [0, 0]])), least, np.array([[never, never, sure, 0.0]])
    )
    assert (kind[0], undecided[0]) == (OPEN, pytest.approx(0.5))
    # Function 0 is "label 0 beats label 1" here, function 1 the other way round.
    kind, undecided = decide_boxes(
        roles_of(2, 3, np.array([[0, 0], [1, 0]])),
        np.full((1, 6), -1.0),
        np.array([[sure, sure, never, never, never, 1.0]]),
    )
    assert (kind[0], undecided[0]) == (OPEN, pytest.approx(0.158655, abs=1e-5))
    decided = np.array([[-1.0, -1.0, 1.0, 1.0], [-1.0, 1.0, 1.0, -1.0]])
    kind, undecided = decide_boxes(roles_of(2, 2, np.array([[0, 1], [0, 0]])), decided, np.zeros((2, 4)))
    assert kind.tolist() == [FAIR, UNFAIR]
    assert undecided.tolist() == [0.0, 0.0]


def test_plans_by_hand() -> None:
    """Scores 8 and 3: the first is halved twice, then it is worth 2 and the second goes first."""
    assert plan_splits(np.array([[8.0, 3.0]]), np.array([[16, 16]])).tolist() == [[0, 0, 1, 0]]
    assert plan_splits(np.array([[8.0, 0.0]]), np.array([[2, 3]])).tolist() == [[0, 1, 1, -1]]
    assert plan_splits(np.array([[5.0, 5.0]]), np.array([[1, 1]])).tolist() == [[-1, -1, -1, -1]]


# Whole runs.


def shares(query: Query, boxes: int = 3_000) -> tuple[tuple[float, float, float], int]:
    """Certified, falsified and undecided on whole arrays, and how many boxes it took."""
    engine = ArrayEngine(query, 1)
    tally = ProvedMass(query, 0.0)
    refine_boxes(engine, tally, SearchLimits(None, boxes, None), say=lambda share: None)
    return tally.shares(), tally.boxes


@pytest.mark.parametrize("together", [False, True])
def test_sound_and_able_to_finish(together: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Against asking about everybody, models with more than two labels too."""
    bounded(monkeypatch, together)
    decided = labels = 0
    for seed in range(25):
        case = random_case(seed)
        query = query_of(case.network, None, case.population)
        if len(query.assignments) < 2:
            continue
        (certified, falsified, undecided), boxes = shares(query)
        fair, unfair = true_shares(case)
        assert certified <= fair
        assert falsified <= unfair
        assert boxes <= 3_000
        decided += undecided < 1e-5
        labels += len(case.network.classes) > 2
    assert decided >= 12
    assert labels >= 5


def test_a_real_network_nearly_as_well_as_with_the_compiled_kernels() -> None:
    """As many boxes, whose functions are one piece here, decide nearly as much, and contradict no sampled truth."""
    network = real_network("GC-1", "age", "german")
    sampled = expected("GC-1")["sampled_truth"]["age"]["unfair_pct"] / 100
    error = 4 * np.sqrt(sampled * (1 - sampled) / 400_000) + 1e-5
    compiled = prove(network, method="linear", max_boxes=4_000)
    (certified, falsified, undecided), boxes = shares(query_of(network), 4_000)
    assert boxes <= 4_000
    assert certified <= 1 - sampled + error
    assert falsified <= sampled + error
    assert undecided < 1.5 * compiled.undecided


def test_remembered_functions_prove_what_fresh_ones_prove() -> None:
    query = query_of(real_network("GC-1", "age", "german"))
    engine = ArrayEngine(query, 2)
    boxes, _ = engine.expand(engine.root(), 0.02, 500)
    kept = engine.prove(boxes, (384, 64))
    fresh = ArrayEngine(query, 1).prove(boxes, (384, 64))
    assert len(boxes) > 100
    assert kept == pytest.approx(fresh, abs=1e-9)
    assert kept.sum() > 1


def test_a_record_accounts_for_every_part() -> None:
    """With ``recording`` the decided boxes come out as well, and all parts together are the whole."""
    query = query_of(real_network("GC-1", "age", "german"))
    engine = ArrayEngine(query, 1)
    boxes, totals = engine.expand(engine.root(), 1e-3, 2_000, recording=True)
    assert boxes.mass.sum() == pytest.approx(1, abs=1e-12)
    assert boxes.mass[boxes.kind == FAIR].sum() == pytest.approx(totals[0])
    assert boxes.mass[boxes.kind == UNFAIR].sum() == pytest.approx(totals[1])
    assert totals[0] > 0


def wide_network(width: int) -> Query:
    """One hidden layer, all of its units different, and a protected value that matters to some."""
    rng = np.random.default_rng(0)
    schema = schema_of(
        [{"name": f"a{i}", "kind": "integer", "lower": 0, "upper": 5} for i in range(4)]
        + [{"name": "p", "kind": "integer", "lower": 0, "upper": 1, "protected": True}]
    )
    first = rng.normal(size=(5, width)) / 5
    layers = [(first, rng.normal(size=width)), (rng.normal(size=(width, 1)) / np.sqrt(width), np.zeros(1))]
    return query_of(network_from_dense(schema, layers))


def test_ten_thousand_units() -> None:
    query = wide_network(10_000)
    assert uses_arrays(query)
    (certified, falsified, _), _ = shares(query, 600)
    people = np.array(list(itertools.product(range(6), repeat=4)))
    margins = margins_at(query, people, np.zeros(people.shape), np.float64)[0]
    fair = float(((margins > 0)[0] == (margins > 0)[1]).mean())
    assert 0.3 < certified <= fair
    assert 0 < falsified <= 1 - fair


# Choice of the engine.


def test_arrays_are_the_default_for_wide_networks_only() -> None:
    assert not uses_arrays(_narrow(4))
    network = real_network("GC-1", "age", "german")
    result = certification.certify(network, arrays=True, max_boxes=2_000, enumeration=False, jobs=2)
    assert result.method == "linear"
    assert result.certified > 0.3
    with pytest.raises(OptionError, match="intervals"):
        certification.certify(network, arrays=True, method="interval")

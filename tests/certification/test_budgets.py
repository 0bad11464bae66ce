"""Time and memory of linear bounds: what is made of any time limit, counted in work, and how little a box takes."""

from __future__ import annotations

import itertools
import subprocess
import sys

import numpy as np
import pytest
from cases import real_network, schema_of
from hypothesis import given, settings
from hypothesis import strategies as st

from evenhand.certification.bounds.compiled.engine import CompiledBounder, compile_bounder
from evenhand.certification.bounds.frontier import BoxFrontier, cell_record, frontier_of, pack_cells
from evenhand.certification.bounds.linear import refine_boxes
from evenhand.certification.bounds.schedule import COSTS, LEVELS, PROBING_SHARE, Proofs, ProofSchedule
from evenhand.certification.query.proved_mass import ProvedMass, SearchLimits
from evenhand.certification.query.question import Query, query_of
from evenhand.core.time_limit import Clock
from evenhand.core.typing import Floats
from evenhand.models.additive.network import network_from_dense
from support import scaled

BOX_SECONDS, CALL_SECONDS = 7e-6, 5e-5
"""What bounding a box takes, and a call besides, about."""


class WorkBounder:
    """The compiled kernels, with a clock that goes by their work: boxes bounded, and proofs by their precision."""

    jobs = 1
    proofs_per_box = 1
    joint = None

    def __init__(self, bounder: CompiledBounder, *, costs: tuple[float, ...] = COSTS) -> None:
        self.bounder = bounder
        self.costs = dict(zip(LEVELS, costs, strict=True))
        self.now = self.proving = 0.0

    def root(self) -> BoxFrontier:
        return self.bounder.root()

    def expand(
        self, boxes: BoxFrontier, threshold: float, limit: float = np.inf, *, recording: bool = False
    ) -> tuple[BoxFrontier, Floats]:
        found, totals = self.bounder.expand(boxes, threshold, limit, recording=recording)
        self.now += BOX_SECONDS * totals[2] + CALL_SECONDS
        return found, totals

    def prove(self, boxes: BoxFrontier, precision: tuple[int, int]) -> Floats:
        self.now += self.costs[precision] * len(boxes) + CALL_SECONDS
        return self.bounder.prove(boxes, precision)


def undecided_after(query: Query, bounder: CompiledBounder, seconds: float, patch: pytest.MonkeyPatch) -> float:
    """What is undecided when so many seconds of work are done; the clock of processors has no say."""
    work = WorkBounder(bounder)
    patch.setattr("evenhand.core.time_limit.RUNNING_SECONDS", lambda: work.now)
    mass = ProvedMass(query, 0.0)
    limits = SearchLimits(seconds, None, None, None, Clock())
    refine_boxes(work, mass, limits, say=lambda share: None)
    assert work.now <= seconds * 1.05 + 0.01
    certified, falsified, rest = mass.shares()
    assert certified + falsified + rest == pytest.approx(1.0)
    return rest


def random_query(seed: int, hidden: list[int]) -> Query:
    """A network over a dozen numbers, too many to ask about everybody."""
    rng = np.random.default_rng(seed)
    counts = rng.integers(2, 60, size=12)
    attributes = [
        {"name": f"a{i}", "kind": "integer", "lower": 0, "upper": int(count) - 1, "protected": i == 0}
        for i, count in enumerate(counts)
    ]
    sizes = [12, *hidden, 1]
    layers = [(rng.normal(size=(a, b)) / np.sqrt(a), 0.3 * rng.normal(size=b)) for a, b in itertools.pairwise(sizes)]
    layers[0] = (layers[0][0] / counts[:, None] * 4, layers[0][1])
    return query_of(network_from_dense(schema_of(attributes), layers))


def doublings(query: Query, budgets: list[float], patch: pytest.MonkeyPatch) -> list[float]:
    bounder = compile_bounder(query, 1)
    return [undecided_after(query, bounder, seconds, patch) for seconds in budgets]


def assert_more_time_is_better(rests: list[float]) -> None:
    """Each doubling leaves at most 2 % more undecided, and the median one less."""
    changes = [after / before for before, after in itertools.pairwise(rests)]
    assert max(changes) <= 1.02
    assert np.median(changes) < 1.0


@pytest.mark.parametrize(("seed", "hidden"), [(1, [24]), (2, [16, 12]), (3, [10, 8, 6])])
def test_more_time_is_never_much_worse(seed: int, hidden: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    assert_more_time_is_better(doublings(random_query(seed, hidden), [0.05, 0.1, 0.2, 0.4, 0.8], monkeypatch))


@pytest.mark.parametrize(("name", "domain", "attribute"), [("GC-1", "german", "age"), ("AC-2", "adult", "sex")])
def test_more_time_is_never_much_worse_for_published_networks(
    name: str, domain: str, attribute: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    query = query_of(real_network(name, attribute, domain))
    rests = doublings(query, [0.1, 0.2, 0.4, 0.8], monkeypatch)
    assert_more_time_is_better(rests)
    assert rests[-1] < {"GC-1": 0.03, "AC-2": 0.08}[name]


def test_a_target_is_reached_long_before_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    query = random_query(1, [24])
    work = WorkBounder(compile_bounder(query, 1))
    monkeypatch.setattr("evenhand.core.time_limit.RUNNING_SECONDS", lambda: work.now)
    reached = undecided_after(query, work.bounder, 0.4, monkeypatch)
    mass = ProvedMass(query, 0.0)
    work.now = 0.0
    monkeypatch.setattr("evenhand.core.time_limit.RUNNING_SECONDS", lambda: work.now)
    stop = refine_boxes(work, mass, SearchLimits(60.0, None, reached, None, Clock()), say=lambda share: None)[2]
    assert stop == "target"
    assert mass.shares()[2] <= reached
    assert work.now < 6.0


# What proofs cost and lose.


def some_boxes(n: int, open_share: float = 0.5) -> BoxFrontier:
    cells = np.zeros((n, 2), dtype=np.int32)
    mass = np.full(n, 1 / n)
    return frontier_of(pack_cells(cells, cells, cell_record(np.array([3, 700]))), mass, open_share * mass)


class ScriptedProofs:
    """Proofs that take as long as was written down, and prove as much."""

    def __init__(self, seconds: list[float], shares: list[float]) -> None:
        self.seconds, self.shares = dict(zip(LEVELS, seconds, strict=True)), dict(zip(LEVELS, shares, strict=True))
        self.now = 0.0
        self.asked: list[tuple[int, int]] = []

    def prove(self, boxes: BoxFrontier, precision: tuple[int, int]) -> Floats:
        self.asked.append(precision)
        self.now += self.seconds[precision] * len(boxes)
        return np.full((len(boxes), 2), self.shares[precision] / 2)

    def probe(self, schedule: ProofSchedule, boxes: BoxFrontier, left: float) -> None:
        schedule.probe(boxes, left, self.prove, lambda: self.now)


def test_a_finer_proof_that_is_timed_as_the_cheaper_one_is_taken() -> None:
    schedule, boxes = ProofSchedule(), some_boxes(1000)
    schedule.set_price(0.5, 10.0)
    ScriptedProofs([1e-4, 1e-5, 1e-5, 1e-5], [0.4, 0.44, 0.46, 0.46]).probe(schedule, boxes, 1e3)
    assert set(schedule.choose(boxes.gain).tolist()) == {2}


def test_what_a_second_is_worth_decides_the_precision() -> None:
    """The second level decides 0.04 of each of 1,000 boxes more than the first, for 3e-5 seconds: 1.33 in a second."""
    for price, wanted in ((1.3, 1), (1.4, 0), (1e9, -1)):
        schedule, boxes = ProofSchedule(), some_boxes(1000)
        ScriptedProofs([1e-5, 4e-5, 1.0, 1.0], [0.44, 0.48, 0.48, 0.48]).probe(schedule, boxes, 20.0)
        schedule.price = price
        assert set(schedule.choose(boxes.gain).tolist()) == {wanted}


def test_probes_take_a_few_boxes_and_little_of_the_time() -> None:
    """Levels that do not fit are left out, and all probes together keep to their part of the time."""
    schedule, boxes = ProofSchedule(), some_boxes(100_000)
    proofs = ScriptedProofs([4e-5, 1e-4, 2e-4, 1e-3], [0.4, 0.44, 0.45, 0.46])
    for _ in range(20):
        proofs.probe(schedule, boxes, 1.0 - proofs.now)
    assert LEVELS[0] in proofs.asked
    assert LEVELS[3] not in proofs.asked
    assert proofs.now <= PROBING_SHARE * 1.0 + 1e-9


def test_the_price_is_raised_until_proofs_fit() -> None:
    boxes = some_boxes(50_000)
    schedule = ProofSchedule()
    schedule.set_price(0.5, 100.0)
    for seconds in (3.0, 0.5):
        schedule.fit_price(boxes.gain, seconds)
        assert schedule.proof_seconds(schedule.choose(boxes.gain)) <= seconds


def test_precision_is_added_where_only_precision_is_lacking() -> None:
    """Two boxes have lost as much: one to its grid, the other is open by its bounds."""
    boxes = some_boxes(2)
    boxes.open[:] = 0.01, 0.4
    boxes.plan[:, 0] = 1
    split, finer, _ = ProofSchedule().rates(boxes, Proofs(np.full((2, 2), 0.1), np.zeros(2, dtype=np.int8)))
    assert finer[0] > split[0]
    assert split[1] > finer[1]


# What boxes take.


@settings(max_examples=scaled(50), deadline=None, derandomize=True)
@given(seed=st.integers(0, 10_000_000))
def test_packed_boxes_are_what_they_were(seed: int) -> None:
    rng = np.random.default_rng(seed)
    counts = rng.choice([1, 2, 255, 256, 257, 65_536, 65_537, 2_000_000], size=rng.integers(1, 6))
    low, high = np.sort(rng.integers(0, counts, size=(2, 7, len(counts))), axis=0)
    mass = rng.random(7)
    boxes = frontier_of(pack_cells(low, high, cell_record(counts)), mass, mass / 2)
    chosen = rng.random(7) < 0.5
    assert (boxes.lo == low).all()
    assert (boxes.hi == high).all()
    first, others = boxes[:].divide(chosen)
    assert (first.lo == low[chosen]).all()
    assert (others.hi == high[~chosen]).all()
    assert (BoxFrontier.join([first, others]).mass == np.concatenate([mass[chosen], mass[~chosen]])).all()


MEASURED = """
import resource, sys
import numpy as np
from evenhand.certification.bounds import linear
from evenhand.certification.bounds.frontier import BoxFrontier, cell_record, frontier_of, pack_cells
from evenhand.certification.bounds.schedule import ProofSchedule
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
before, n = peak(), int(sys.argv[1])
parts = []
for _ in range(n // 100_000):
    cells = np.zeros((100_000, 12), dtype=np.int32)
    mass = np.full(100_000, 1 / n)
    parts.append(frontier_of(pack_cells(cells, cells + 1, cell_record(np.full(12, 100))), mass, mass / 2))
boxes = BoxFrontier.join(parts)
for _ in range(2):  # a round of splits: some boxes are taken out, others come in
    boxes = BoxFrontier.join(list(boxes.divide(np.arange(len(boxes)) % 3 == 0)))
schedule = ProofSchedule()
schedule.set_price(0.5, 100.0)
shares, level = np.zeros((len(boxes), 2)), schedule.choose(boxes.gain)
print(boxes.row_bytes, len(boxes), peak() - before)
"""


def memory_of(boxes: int) -> tuple[int, int, int]:
    """Bytes of a box, how many there are, and the most memory that a process takes for them."""
    run = subprocess.run([sys.executable, "-c", MEASURED, str(boxes)], capture_output=True, text=True, check=True)
    row, held, peak = map(int, run.stdout.split())
    return row, held, peak


def test_a_box_takes_a_few_dozen_bytes() -> None:
    row, held, peak = memory_of(1_000_000)
    assert row <= 45
    assert held == 1_000_000
    assert peak <= 2**31 / 20 + 30e6


@pytest.mark.slow
def test_twenty_million_boxes_fit_in_two_gibibytes() -> None:
    assert memory_of(20_000_000)[2] <= 2**31

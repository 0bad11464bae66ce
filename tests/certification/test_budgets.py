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
from evenhand.certification.bounds.schedule import COSTS, LEVELS
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

    def __init__(self, bounder: CompiledBounder) -> None:
        self.bounder = bounder
        self.costs = dict(zip(LEVELS, COSTS, strict=True))
        self.now = 0.0

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
    limits = SearchLimits(seconds, None, None, clock=Clock())
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


@pytest.mark.parametrize("seed", [1, 2, 3, "GC-1", "AC-2"])
def test_more_time_is_never_much_worse(seed: int | str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each doubling leaves at most 2 % more undecided, and the median one less."""
    if isinstance(seed, int):
        query = random_query(seed, {1: [24], 2: [16, 12], 3: [10, 8, 6]}[seed])
    else:
        query = query_of(real_network(seed, *{"GC-1": ("age", "german"), "AC-2": ("sex", "adult")}[seed]))
    bounder = compile_bounder(query, 1)
    rests = [undecided_after(query, bounder, seconds, monkeypatch) for seconds in (0.1, 0.2, 0.4, 0.8)]
    changes = [after / before for before, after in itertools.pairwise(rests)]
    assert max(changes) <= 1.02
    assert np.median(changes) < 1.0
    assert rests[-1] < {"GC-1": 0.03, "AC-2": 0.08}.get(str(seed), 1.0)


def test_a_target_is_reached_long_before_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    query = random_query(1, [24])
    work = WorkBounder(compile_bounder(query, 1))
    reached = undecided_after(query, work.bounder, 0.4, monkeypatch)
    mass = ProvedMass(query, 0.0)
    monkeypatch.setattr("evenhand.core.time_limit.RUNNING_SECONDS", lambda: work.now)
    stop = refine_boxes(work, mass, SearchLimits(60.0, None, reached, clock=Clock()), say=lambda share: None)[2]
    assert stop == "target"
    assert mass.shares()[2] <= reached
    assert work.now < 6.0


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

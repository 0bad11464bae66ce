from __future__ import annotations

import numpy as np
import pytest
from cases import Case, boxes_in, everybody, integer, random_case, schema_of, worked_example
from hypothesis import given, settings
from hypothesis import strategies as st
from reference import bounds, smears, status

from evenhand.certification.bounds.interval.propagation import SymbolicBounder
from evenhand.certification.query.boxes import Boxes, BoxSplitter, whole_domain
from evenhand.certification.query.outcomes import FAIR, UNDECIDED
from evenhand.certification.query.question import Query, query_of
from evenhand.models.additive.network import network_from_dense
from evenhand.population import ProductPopulation
from evenhand.population.independent import Marginal
from support import scaled


def decided(query: Query, lo: np.ndarray, hi: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return SymbolicBounder(query).decide(lo, hi, np.zeros(len(lo), dtype=np.bool_))[:2]


def wide_case(seed: int, *, whole: bool | None = None) -> Case:
    """A case that has something to vary: protected values that do not all act alike."""
    while len(query_of((case := random_case(seed, whole=whole, widest=9)).network).assignments) < 2:
        seed += 100_000
    return case


def test_worked_example_bounds() -> None:
    """The numbers of FairQuant, section V-B, for the whole domain and for the partition x1 in 4..5."""
    query = query_of(worked_example())
    (female,), phases = bounds(query, 0, np.array([0, 0]), np.array([4, 5]))
    (male,), _ = bounds(query, 1, np.array([0, 0]), np.array([4, 5]))
    assert female == pytest.approx((-0.2, 2.643), abs=1e-3)
    assert male == pytest.approx((-0.8, 2.368), abs=1e-3)
    assert phases == [["on", "unstable"]]
    assert bounds(query, 0, np.array([3, 0]), np.array([4, 5]))[0][0] > (0, 0)
    assert bounds(query, 1, np.array([3, 0]), np.array([4, 5]))[0][0] > (0, 0)


def test_worked_example_splits() -> None:
    """It is undecided, its smears are 2.4 and 1.2 per assignment, x1 is split, and 4..5 is then certified."""
    query = query_of(worked_example())
    box = whole_domain(query)
    assert smears(query, box.lo[0], box.hi[0]) == pytest.approx([4.8, 2.4])
    outcome, attribute = decided(query, box.lo, box.hi)
    assert (outcome[0], attribute[0]) == (UNDECIDED, 0)
    halves = BoxSplitter(query).split_boxes(box, attribute)
    assert halves.hi[:, 0].tolist() == [2, 4]
    assert halves.lo[:, 0].tolist() == [0, 3]
    assert halves.mass == pytest.approx([0.6, 0.4])
    assert decided(query, halves.lo, halves.hi)[0].tolist() == [UNDECIDED, FAIR]


@settings(max_examples=scaled(50), deadline=None, derandomize=True)
@given(seed=st.integers(0, 50_000))
def test_agrees_with_the_reference(seed: int) -> None:
    """Same outcome, up to the rounding slack, and an attribute of largest smear."""
    query = query_of(wide_case(seed, whole=False).network)
    lo, hi = boxes_in(query, 33, np.random.default_rng(seed))
    outcome, attribute = decided(query, lo, hi)
    for box in range(len(lo)):
        wanted = status(query, lo[box], hi[box])
        near = min(
            abs(end) for p in range(len(query.biases)) for pair in bounds(query, p, lo[box], hi[box])[0] for end in pair
        )
        if near > 1e-3 or outcome[box] != UNDECIDED:
            assert outcome[box] == wanted
        if outcome[box] == UNDECIDED and near > 1e-3:
            smear = np.where(hi[box] > lo[box], smears(query, lo[box], hi[box]), -1.0)
            assert (attribute[box] == -1) == bool((smear < 0).all())
            if attribute[box] >= 0 and len(query.biases) <= 8:
                assert smear[attribute[box]] == pytest.approx(smear.max(), rel=1e-6, abs=1e-6)


@settings(max_examples=scaled(200), deadline=None, derandomize=True)
@given(seed=st.integers(0, 50_000))
def test_decided_boxes_hold_no_exception(seed: int) -> None:
    """Everybody in a box called fair is treated alike, and nobody in one called unfair: asked one by one."""
    network = wide_case(seed).network
    query = query_of(network)
    people, _, labels = everybody(network)
    alike = (labels == labels[0]).all(axis=0)
    lo, hi = boxes_in(query, 48, np.random.default_rng(seed))
    outcome, _ = decided(query, lo, hi)
    for box in np.flatnonzero(outcome != UNDECIDED):
        inside = np.ones(len(people), dtype=np.bool_)
        for i, cells in enumerate(query.cells):
            members = np.concatenate([_entries(cells, cell) for cell in range(lo[box, i], hi[box, i] + 1)])
            inside &= np.isin(people[:, i], members)
        assert inside.any()
        assert (alike[inside] == (outcome[box] == FAIR)).all()


def _entries(cells, cell: int) -> np.ndarray:
    if cells.ends is not None:
        return np.arange(cells.entries[cell], cells.ends[cell] + 1)
    return cells.entry(np.array([cell]))


def test_any_number_of_boxes() -> None:
    """A box's outcome does not depend on those it is worked on with."""
    query = query_of(wide_case(7).network)
    lo, hi = boxes_in(query, 100, np.random.default_rng(0))
    together = decided(query, lo, hi)
    for box in range(100):
        alone = decided(query, lo[box : box + 1], hi[box : box + 1])
        assert (alone[0][0], alone[1][0]) == (together[0][box], together[1][box])


def test_halves_partition_and_keep_their_mass() -> None:
    case = next(case for seed in range(100) if (case := random_case(seed)).population is not None)
    query = query_of(case.network, None, case.population)
    splitter = BoxSplitter(query)
    boxes = whole_domain(query)
    rng = np.random.default_rng(1)
    for _ in range(8):
        able = boxes.hi > boxes.lo
        attribute = np.array([rng.choice(np.flatnonzero(row)) if row.any() else -1 for row in able])
        halves = splitter.split_boxes(boxes[attribute >= 0], attribute[attribute >= 0])
        boxes = Boxes.concatenate([boxes[attribute < 0], halves])
    assert boxes.mass.sum() == pytest.approx(1.0, abs=1e-14)
    sizes = (boxes.hi.astype(int) - boxes.lo + 1).prod(axis=1)
    assert sizes.sum() == query.points
    for box in range(len(boxes)):
        exact = 1.0
        for i, cells in enumerate(query.cells):
            before = cells.before(np.array([boxes.lo[box, i], boxes.hi[box, i] + 1]))
            exact *= (before[1] - before[0]) / cells.total
        assert boxes.mass[box] == pytest.approx(exact, rel=1e-13, abs=1e-300)


def test_a_box_is_cut_in_the_middle_of_its_mass() -> None:
    """Nine in ten have no capital gain: the first cut parts them from the rest, not the range at its half."""
    schema = schema_of([integer("gain", 0, 99), integer("p", 0, 1, protected=True)])
    masses = np.array([0.9] + [0.001] * 99)
    population = ProductPopulation(
        "most without", schema, (Marginal(schema["gain"], masses), Marginal(schema["p"], np.ones(2)))
    )
    splitter = BoxSplitter(
        query := query_of(network_from_dense(schema, [(np.ones((2, 1)), np.zeros(1))]), None, population)
    )
    halves = splitter.split_boxes(whole_domain(query), np.array([0]))
    assert (halves.lo[:, 0].tolist(), halves.hi[:, 0].tolist()) == ([0, 1], [0, 99])
    assert halves.mass == pytest.approx(np.array([0.9, 0.099]) / 0.999)
    rest = splitter.split_boxes(halves[1:], np.array([0]))
    assert rest.mass[0] == pytest.approx(rest.mass[1], rel=0.03)

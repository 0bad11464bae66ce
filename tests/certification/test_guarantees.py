"""What a certificate promises, on random networks against asking everybody: by every method."""

from __future__ import annotations

import itertools
import os
import signal

import numpy as np
import pytest
from cases import Case, integer, prove, random_case, schema_of, true_shares, worked_example
from hypothesis import given, settings
from hypothesis import strategies as st

from evenhand.certification.query.proved_mass import ProgressWatch
from evenhand.certification.query.question import query_of
from evenhand.models import AdditiveNetwork
from evenhand.models.additive.network import AffineLayer, LineTerm, network_from_dense
from evenhand.population import uniform_population
from support import scaled

METHODS = ("linear", "interval")
both = pytest.mark.parametrize("method", METHODS)
WAYS = [{"method": "linear"}, {"method": "linear", "min_progress": 1e-12}, {"method": "interval"}]
every_way = pytest.mark.parametrize("way", [*({**way, "enumeration": False} for way in WAYS), {}])


@both
@settings(max_examples=scaled(600), deadline=None, derandomize=True)
@given(
    seed=st.integers(0, 10_000_000),
    enumeration=st.sampled_from([False, False, True]),
    max_boxes=st.sampled_from([None, None, 1, 7, 40, 200]),
    min_progress=st.sampled_from([None, None, 1e-12, 0.5]),
)
def test_never_more_than_the_truth(method, seed, enumeration, max_boxes, min_progress):
    case = random_case(seed)
    fair, unfair = true_shares(case)
    options = {"enumeration": enumeration, "max_boxes": max_boxes, "min_progress": min_progress, "samples": 32}
    result = prove(case.network, method=method, population=case.population, **options)
    assert result.certified <= fair
    assert result.falsified <= unfair
    assert result.certified + result.falsified + result.undecided == pytest.approx(1.0, abs=1e-15)
    assert result.estimate.low <= result.estimate.unfair <= result.estimate.high
    assert result.falsified <= result.estimate.low
    assert result.estimate.high <= 1 - result.certified + 1e-15
    assert len({tuple(each.unprotected.values()) for each in result.counterexamples}) == len(result.counterexamples)
    assert unfair > 0 or case.population is not None or not result.counterexamples
    if max_boxes is None:
        # Whole numbers make ties, which the slack leaves open; without them everything is decided.
        assert result.stopped_by == "done" or (result.stopped_by == "progress" and min_progress)
    elif result.method != "enumeration":
        assert result.boxes <= max_boxes


@every_way
def test_everything_without_ties_is_decided(way):
    decided, cases = 0, scaled(120)
    for seed in range(cases):
        case = random_case(seed)
        fair, unfair = true_shares(case)
        result = prove(case.network, population=case.population, samples=16, **way)
        if result.undecided < 1e-9:
            decided += 1
            assert result.certified == pytest.approx(float(fair), abs=1e-9)
            assert result.falsified == pytest.approx(float(unfair), abs=1e-9)
    assert decided >= 2 * cases // 3


@both
def test_counterexamples_are_people_of_the_domain_who_flip(method):
    seen, cases = 0, scaled(80)
    for seed in range(cases):
        case = random_case(seed)
        result = prove(case.network, population=case.population, method=method, samples=200, enumeration=bool(seed % 2))
        for each in result.counterexamples[:5]:
            rows = []
            for assignment in (each.first, each.second):
                said = each.unprotected | assignment
                rows.append([_entry(case, name, said[name]) for name in case.network.schema.names])
            individuals = np.array(rows)
            assert case.network.schema.contains(individuals).all()
            labels = case.network.predict(individuals)
            assert [str(case.network.classes[label]) for label in labels] == [each.first_label, each.second_label]
            assert labels[0] != labels[1]
            seen += 1
    assert seen >= cases // 2


def _entry(case: Case, name: str, said: str) -> float:
    attribute = case.network.schema[name]
    return float(attribute.values.index(said)) if attribute.values is not None else float(said)


@every_way
def test_worked_example(way):
    """24 of 30 are treated alike, 5 are not; for x1 = 1, x3 = 0 a man's logit is 0.5 - 0.5, which rounding can move."""
    result = prove(worked_example(), **way)
    assert result.certified == pytest.approx(24 / 30, abs=1e-11)
    assert result.falsified == pytest.approx(5 / 30, abs=1e-11)
    assert result.stopped_by == "done"
    assert {"x1": "1", "x3": "3"} in [each.unprotected for each in result.counterexamples]


def test_worked_example_box_by_box():
    """The first split certifies x1 in 4..5, two fifths of all."""
    third = prove(worked_example(), method="interval", enumeration=False, max_boxes=3)
    assert third.certified == pytest.approx(0.4, abs=1e-11)
    assert third.stopped_by == "boxes"


def one_neuron(shift: float) -> AdditiveNetwork:
    """Only x = 20000 is unfair: the logit is x - 20000 + shift * p."""
    schema = schema_of([integer("x", 19980, 20000), integer("p", 0, 1, protected=True)])
    return network_from_dense(
        schema, [(np.array([[1.0], [1.0]]), np.array([-20000.5 + shift])), (np.array([[1.0]]), np.array([-shift]))]
    )


@every_way
def test_the_last_value_of_a_wide_range_counts(way):
    result = prove(one_neuron(1000.0), **way)
    assert result.certified == pytest.approx(20 / 21, abs=1e-11)
    assert result.falsified == pytest.approx(1 / 21, abs=1e-11)
    assert result.counterexamples[0].unprotected == {"x": "20000"}


@every_way
def test_what_float32_could_flip_stays_undecided(way):
    """In float32, 1e8 + x is not what float64 says: margins of a few units there prove nothing."""
    schema = schema_of([integer("x", 0, 20), integer("p", 0, 1, protected=True)])
    network = network_from_dense(
        schema, [(np.array([[1.0], [3.0]]), np.array([1e8])), (np.array([[1.0]]), np.array([-1e8 - 8.5]))]
    )
    result = prove(network, **way)
    assert result.certified == result.falsified == 0
    assert result.undecided == 1


@both
def test_astronomical_domains(method):
    """1e60 people, far beyond 2**53: a logit that hangs on one attribute is decided all the same."""
    wide = [integer(f"a{i}", 1, 100) for i in range(30)]
    schema = schema_of([*wide, integer("p", 0, 1, protected=True)])
    slope = np.zeros((31, 1))
    slope[3], slope[30] = 1.0, 10.0
    result = prove(network_from_dense(schema, [(slope, np.array([-50.5]))]), method=method)
    assert result.method == method
    # The distribution of a score, which decides linear models, is known to nine digits.
    assert result.certified == pytest.approx(0.9, abs=1e-8)
    assert result.falsified == pytest.approx(0.1, abs=1e-8)


@both
def test_an_integer_too_wide_to_list(method):
    """Linear bounds keep prefix sums of every attribute; where these would be too long, intervals take over."""
    schema = schema_of([integer("x", 0, 2**52), integer("p", 0, 1, protected=True)])
    line = LineTerm(np.array([1.0]), np.zeros(1))
    network = AdditiveNetwork(
        schema, (line, LineTerm(np.array([2.0**50]), np.zeros(1))), np.array([-(2.0**51)]), (), (0, 1), 1
    )
    result = prove(network, method=method)
    assert result.method == "interval"
    assert result.certified == pytest.approx(0.75, abs=1e-4)
    assert result.falsified == pytest.approx(0.25, abs=1e-4)
    assert result.certified <= 0.75
    assert result.falsified <= 0.25


@both
def test_a_real_attribute(method):
    """Unfair exactly where 1 < x <= 1.5 of 0..4: an eighth of the domain, up to a cell at each end."""
    schema = schema_of([{"name": "x", "kind": "real", "lower": 0, "upper": 4}, integer("p", 0, 1, protected=True)])
    network = network_from_dense(schema, [(np.array([[1.0], [0.5]]), np.array([-1.5]))])
    result = prove(network, method=method)
    assert result.falsified == pytest.approx(1 / 8, abs=1e-4)
    assert result.falsified <= 1 / 8
    assert result.certified <= 7 / 8
    assert result.undecided < 2e-4


@both
def test_protected_values_that_act_alike_are_fair_without_a_proof(method):
    case = worked_example()
    first = case.parts[1]
    assert isinstance(first, LineTerm)
    parts = (case.parts[0], LineTerm(0 * first.slope, first.intercept), case.parts[2])
    blind = AdditiveNetwork(case.schema, parts, case.bias, case.layers, (0, 1), 1)
    result = prove(blind, method=method)
    assert (result.certified, result.falsified, result.undecided) == (1, 0, 0)
    assert result.estimate.high == 0


@every_way
def test_all_pairs_of_protected_values_are_compared(way):
    """Only the middle one of three values is treated differently."""
    p = {"name": "p", "kind": "categorical", "values": ["a", "b", "c"], "encoding": "one-hot", "protected": True}
    schema = schema_of([integer("x", 0, 9), p])
    network = network_from_dense(schema, [(np.array([[0.0], [1.0], [-1.0], [1.0]]), np.zeros(1))])
    result = prove(network, **way)
    assert result.falsified == 1
    assert {each.second["p"] for each in result.counterexamples} == {"b"}


@pytest.mark.parametrize(
    ("method", "boxes"),
    [pytest.param("linear", 60, marks=pytest.mark.full), pytest.param("interval", 3, marks=pytest.mark.slow)],
)
def test_interval_covers_as_often_as_it_says(method, boxes):
    """200 samples of what a few boxes leave open: at 80 %, the truth is inside in 160 runs at least, about."""
    case = _half_open() if method == "interval" else _deep()
    _, unfair = true_shares(case)
    inside = 0
    for seed in range(200):
        options = {"max_boxes": boxes, "samples": 150, "confidence": 0.8, "seed": seed}
        result = prove(case.network, method=method, enumeration=False, **options)
        inside += result.estimate.low <= unfair <= result.estimate.high
        assert 0.3 < result.undecided <= 1
    assert 150 <= inside <= 195


def _half_open() -> Case:
    return _seven_by_four([6], seed=3)


def _deep() -> Case:
    return _seven_by_four([8, 8, 8], seed=1)


def _seven_by_four(hidden: list[int], seed: int) -> Case:
    rng = np.random.default_rng(seed)
    wide = [integer(f"a{i}", 0, 6) for i in range(4)]
    schema = schema_of([*wide, integer("p", 0, 1, protected=True)])
    sizes = [5, *hidden, 1]
    layers = [(rng.normal(size=(a, b)), rng.normal(size=b)) for a, b in itertools.pairwise(sizes)]
    return Case(network_from_dense(schema, layers), None)


@both
@pytest.mark.parametrize("max_boxes", [100, 1000])
def test_same_seed_same_result_for_any_number_of_threads(method, max_boxes):
    case = _deep()
    options = {"method": method, "enumeration": False, "max_boxes": max_boxes, "samples": 500, "seed": 5}
    one, two = (prove(case.network, **options, jobs=jobs).plain() for jobs in (1, 2))
    for result in (one, two):
        for field in ("seconds", "cpu_seconds", "history"):
            del result[field]
    assert one == two


@both
def test_target_and_regions(method):
    case = _half_open()
    result = prove(case.network, method=method, enumeration=False, target_undecided=0.2)
    assert result.stopped_by == "target"
    assert result.undecided <= 0.2
    assert sum(region.undecided for region in result.regions) == pytest.approx(result.undecided, abs=1e-9)
    assert sum(region.falsified for region in result.regions) == pytest.approx(result.falsified, abs=1e-9)
    assert all(region.mass >= region.undecided + region.falsified - 1e-12 for region in result.regions)
    full = prove(case.network)
    assert full.method == "enumeration"
    assert sum(region.falsified for region in full.regions) == pytest.approx(full.falsified, abs=1e-9)


@both
def test_a_population_given_uniformly_is_the_uniform_one(method):
    case = _half_open()
    given_one = prove(
        case.network, method=method, population=uniform_population(case.network.schema), enumeration=False
    )
    default = prove(case.network, method=method, enumeration=False)
    assert (given_one.certified, given_one.falsified) == (default.certified, default.falsified)


@pytest.mark.parametrize(("method", "min_progress"), [("linear", None), ("linear", 1e-12), ("interval", None)])
@pytest.mark.parametrize("after", [1, 2, 3, 4])
def test_a_real_interrupt(method, min_progress, after, interruptible):
    """The signal itself, wherever it strikes: nothing is lost and nothing counts twice."""
    case = _deep()
    fair, unfair = true_shares(case)
    told: list[str] = []

    def progress(what: str, share: float) -> None:
        told.append(what)
        if len([each for each in told if each.startswith("proving")]) == after and not told.count("stop"):
            told.append("stop")
            os.kill(os.getpid(), signal.SIGINT)

    result = prove(
        case.network, method=method, enumeration=False, samples=2000, min_progress=min_progress, progress=progress
    )
    assert result.stopped_by == "interrupt"
    assert result.certified <= fair
    assert result.falsified <= unfair
    assert 0 < result.undecided <= 1
    assert result.estimate.low <= unfair <= result.estimate.high
    assert sum(region.undecided for region in result.regions) == pytest.approx(result.undecided, abs=1e-9)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_too_little_progress_ends_a_run_with_what_is_proved(monkeypatch):
    case = _deep()
    fair, unfair = true_shares(case)
    undecided: list[float] = []

    def stalled(watch: ProgressWatch, open_mass: float, boxes: int) -> bool:
        undecided.append(open_mass)
        return len(undecided) == 5

    monkeypatch.setattr(ProgressWatch, "stalled", stalled)
    result = prove(case.network, enumeration=False, samples=100, min_progress=0.01, method="linear")
    assert result.stopped_by == "progress"
    assert 0 < result.certified <= fair
    assert 0 < result.falsified <= unfair
    assert undecided == sorted(undecided, reverse=True)
    assert undecided[-1] == pytest.approx(result.undecided, abs=1e-9)
    proved = [moment.certified + moment.falsified for moment in result.history]
    assert len(proved) >= 3
    # What is proved is counted in two sums, whose total may round down by a bit.
    assert all(after >= before - 1e-12 for before, after in itertools.pairwise(proved))


@pytest.mark.parametrize("target", [0.0, 1e-9, 1e-4, 0.05, 0.5])
def test_any_target_ends(target):
    for seed in range(25):
        case = random_case(seed)
        result = prove(case.network, method="linear", enumeration=False, target_undecided=target, samples=16)
        assert result.undecided <= target + 1e-11 or result.stopped_by == "done"


def test_more_than_two_labels_are_decided_in_the_end():
    """Boxes of one person are asked, so that no more stays open than when everybody is asked."""
    cases = [case for seed in range(300) if len((case := random_case(seed)).network.classes) > 2]
    for case in cases[:30]:
        fair, unfair = true_shares(case)
        result = prove(case.network, population=case.population, method="linear", enumeration=False, samples=16)
        assert result.certified <= fair + 1e-12
        assert result.falsified <= unfair + 1e-12
        if query_of(case.network).enumerable:
            asked = prove(case.network, population=case.population, samples=16)
            assert result.undecided <= asked.undecided + 1e-9
            assert result.method == "linear" or len(query_of(case.network).assignments) == 1


def test_more_than_two_labels_and_an_interrupt(monkeypatch):
    """Ctrl-C in the middle leaves a true answer: what was proved before, the rest undecided and sampled."""
    from evenhand.certification.bounds.interval import search

    case = next(
        case
        for seed in range(500)
        if len((case := random_case(seed, widest=8)).network.classes) > 2
        and case.network.layers
        and query_of(case.network).points > 60
        and len(query_of(case.network).assignments) > 1
    )
    fair, unfair = true_shares(Case(case.network, None))
    original = search._make_decider

    def impatient(query, jobs):
        decide, calls = original(query, jobs), []

        def interrupted(boxes, pool):
            calls.append(len(boxes))
            if len(calls) == 4:
                raise KeyboardInterrupt
            return decide(boxes, pool)

        return interrupted

    monkeypatch.setattr(search, "_make_decider", impatient)
    # One seed is tried: an interval that it misses once in a hundred would be missed by one seed in a hundred.
    result = prove(case.network, enumeration=False, samples=4000, confidence=0.999999)
    assert result.stopped_by == "interrupt"
    assert result.certified <= fair
    assert result.falsified <= unfair
    assert result.estimate.low <= unfair <= result.estimate.high


@every_way
def test_a_linear_model_needs_no_hidden_layer(way):
    case = worked_example()
    lines = tuple(LineTerm(np.array([slope]), np.zeros(1)) for slope in (1.0, 1.0, -1.0))
    linear = AdditiveNetwork(case.schema, lines, np.array([0.25]), (), (0, 1), 1)
    parts = tuple(LineTerm(np.array([slope, -slope]), np.zeros(2)) for slope in (1.0, 1.0, -1.0))
    layers = (AffineLayer(np.array([[1.0], [-1.0]]), np.zeros(1)),)
    hidden = AdditiveNetwork(case.schema, parts, np.array([0.25, -0.25]), layers, (0, 1), 1)
    fair, unfair = true_shares(Case(linear, None))
    for network in (linear, hidden):
        result = prove(network, **way)
        assert result.certified == pytest.approx(float(fair), abs=1e-8)
        assert result.falsified == pytest.approx(float(unfair), abs=1e-8)

"""Parts of the domain, decision thresholds: by hand, against a naive loop, on real networks."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from cases import Case, everybody, integer, prove, random_case, real_network, schema_of, worked_example
from hypothesis import given, settings
from hypothesis import strategies as st

from evenhand.certification import Certificate, Counterexample
from evenhand.certification.certificate.counterexamples import CounterexampleFinder
from evenhand.certification.query.outcomes import FAIR, UNDECIDED, UNFAIR, classify_points
from evenhand.certification.query.question import predict_float32, query_of
from evenhand.certification.query.rounding import log_odds, resolution_of
from evenhand.errors import OptionError
from evenhand.models import AdditiveNetwork
from evenhand.models.additive.network import network_from_dense
from evenhand.population import ProductPopulation
from evenhand.population.independent import Marginal
from evenhand.schema import Attribute
from support import scaled

WAYS = [
    {"method": "interval", "enumeration": False},
    {"method": "linear", "enumeration": False},
    {"method": "linear", "enumeration": True},
]
every_way = pytest.mark.parametrize("way", WAYS, ids=["interval", "linear", "enumeration"])


def condition_on(attribute: Attribute, rng: np.random.Generator) -> tuple[str, Callable[[float], bool]]:
    """A random condition on a finite attribute, in words and as a test of one entry."""
    first, last = int(attribute.first), int(attribute.last)
    low, high = sorted(rng.integers(first, last + 1, size=2).tolist())

    def say(entry: int) -> str:
        return attribute.text(float(entry))

    kind = rng.integers(5)
    if kind == 0 and attribute.ordered:
        return f"{attribute.name} >= {say(low)}", lambda entry: entry >= low
    if kind == 1 and attribute.ordered:
        return f"{say(low)} <= {attribute.name} <= {say(high)}", lambda entry: low <= entry <= high
    if kind == 2:
        return f"{attribute.name} != {say(low)}", lambda entry: entry != low
    members = sorted(set(rng.integers(first, last + 1, size=3).tolist()))
    listed = "{" + ", ".join(map(say, members)) + "}"
    if kind == 3:
        return f"{attribute.name} not in {listed}", lambda entry: entry not in members
    return f"{attribute.name} in {listed}", lambda entry: entry in members


def asked_of(case: Case, seed: int) -> dict:
    """Random conditions and threshold for a case; and what each condition allows."""
    rng = np.random.default_rng([seed, 7])
    schema = case.network.schema
    conditions, allowed = [], {}
    for attribute in schema.attributes:
        if rng.random() < 0.4:
            said, test = condition_on(attribute, rng)
            conditions.append(said)
            allowed[attribute.name] = test
    threshold = float(rng.choice([0.03, 0.3, 0.5, 0.8])) if len(schema.target.values or ()) == 2 else None
    return {"where": conditions, "threshold": threshold}, allowed


def naive(case: Case, options: dict, allowed: dict) -> tuple[Fraction, Fraction] | None:
    """Exact (fair, unfair) shares among those asked about, person by person; None if there is nothing to ask."""
    network, threshold = case.network, options["threshold"]

    def answer(rows: np.ndarray) -> np.ndarray:
        return network.predict(rows) if threshold is None else network.scores(rows)[:, 1] > threshold

    _, mass, labels = everybody(network, case.population, answer, allowed)
    if len(labels) < 2 or mass.sum() == 0:
        return None
    fair = Fraction(mass[(labels == labels[0]).all(axis=0)].sum())
    return fair, 1 - fair


def check(case: Case, seed: int, way: dict, *, exact: bool) -> None:
    options, allowed = asked_of(case, seed)
    truth = naive(case, options, allowed)
    query = {**options, "population": case.population}
    if truth is None:
        with pytest.raises(OptionError, match=r"only one value|no value of|no one in the population"):
            prove(case.network, **query, **way)
        return
    fair, unfair = truth
    result = prove(
        case.network, **query, **way, samples=300, confidence=1 - 1e-6, max_boxes=None if way["enumeration"] else 2000
    )
    assert result.certified <= fair + Fraction(1, 10**15)
    assert result.falsified <= unfair + Fraction(1, 10**15)
    assert result.estimate.low - 1e-9 <= unfair <= result.estimate.high + 1e-9
    if exact:
        assert result.certified == pytest.approx(float(fair), abs=1e-9)
        assert result.falsified == pytest.approx(float(unfair), abs=1e-9)
    for found in result.counterexamples:
        replay(case.network, found, options)


def replay(network: AdditiveNetwork, found: Counterexample, options: dict) -> None:
    """A counterexample is two people of the domain who differ in protected attributes alone, with different labels."""
    schema = network.schema

    def person(words: dict[str, str]) -> np.ndarray:
        entries = []
        for attribute in schema.attributes:
            said = words[attribute.name]
            entries.append(float(said) if attribute.values is None else [str(v) for v in attribute.values].index(said))
        return np.array([entries], dtype=np.float64)

    one = person(found.unprotected | found.first)
    other = person(found.unprotected | found.second)
    assert schema.contains(np.concatenate([one, other])).all()
    for i, attribute in enumerate(schema.attributes):
        if not attribute.protected:
            assert one[0, i] == other[0, i]
    assert found.first != found.second
    threshold = options["threshold"]
    for row, said in ((one, found.first_label), (other, found.second_label)):
        score = network.scores(row)[0]
        label = int(np.argmax(score)) if threshold is None else int(score[1] > threshold)
        assert str(network.classes[label]) == said
    assert found.first_label != found.second_label


@every_way
@settings(max_examples=scaled(60), deadline=None, derandomize=True)
@given(seed=st.integers(0, 10**6))
def test_never_more_than_the_truth(way: dict, seed: int) -> None:
    check(random_case(seed, free=3, widest=5), seed, way, exact=False)


@settings(max_examples=scaled(150), deadline=None, derandomize=True)
@given(seed=st.integers(0, 10**6))
def test_enumeration_is_the_truth(seed: int) -> None:
    check(random_case(seed, whole=False, free=3, widest=5), seed, WAYS[2], exact=True)


@settings(max_examples=scaled(150), deadline=None, derandomize=True)
@given(seed=st.integers(0, 10**6))
def test_points_are_decided_pair_by_pair(seed: int) -> None:
    rng = np.random.default_rng(seed)
    classes, assignments, n = rng.integers((2, 1, 1), (8, 7, 30))
    sets = 1 << rng.integers(0, classes, (assignments, n))
    sets |= np.where(rng.random(sets.shape) < 0.2, 1 << rng.integers(0, classes, sets.shape), 0)
    for column, status in zip(sets.T.tolist(), classify_points(sets), strict=True):
        apart = any(first & second == 0 for first, second in itertools.product(column, repeat=2))
        alike = len(set(column)) == 1 and column[0].bit_count() == 1
        assert status == (UNFAIR if apart else FAIR if alike else UNDECIDED)


@settings(max_examples=scaled(100), deadline=None, derandomize=True)
@given(seed=st.integers(0, 10**6))
def test_asking_about_single_people_is_the_truth(seed: int) -> None:
    """What samples of the undecided go by: everybody within the tolerance is asked about, and nobody else."""
    case = random_case(seed, free=3, widest=5)
    options, allowed = asked_of(case, seed)
    truth = naive(Case(case.network, None), options, allowed)
    if truth is None:
        return
    entries = everybody(case.network, allowed=allowed)[0]
    finder = CounterexampleFinder(query_of(case.network, **options), len(entries))
    assert finder.unfair(entries).mean() == pytest.approx(float(truth[1]))
    assert len({tuple(found.unprotected.values()) for found in finder.found}) == len(finder.found)


def step_network() -> AdditiveNetwork:
    """Label 1 if x + 3 p > 5.5, for x in 0..9 and p in 0..1: unfair where x is 3, 4 or 5."""
    y = {"name": "y", "kind": "categorical", "values": ["a", "b", "c"]}
    schema = schema_of([integer("x", 0, 9), integer("p", 0, 1, protected=True), y])
    return network_from_dense(schema, [(np.array([[1.0], [3.0], [0.0]]), np.array([-5.5]))])


def shown(name: str, values: set[str], result: Certificate, way: dict) -> None:
    """The counterexamples show these values of an attribute: all of them where everybody was asked about."""
    found = {each.unprotected[name] for each in result.counterexamples}
    assert found
    assert found == values if way["enumeration"] else found <= values


@every_way
def test_part_of_the_domain_by_hand(way: dict) -> None:
    result = prove(step_network(), where=["x >= 2 and x < 6", "y in {a, c}"], **way)
    assert result.falsified == pytest.approx(3 / 4)
    assert result.certified == pytest.approx(1 / 4)
    assert result.where == ("x >= 2 and x < 6", "y in {a, c}")
    assert result.population == "everyone in the domain, uniformly, where x >= 2 and x < 6 and y in {a, c}"
    shown("y", {"a", "c"}, result, way)
    shown("x", {"3", "4", "5"}, result, way)
    holes = prove(step_network(), where=["x not in {3, 4}"], **way)
    assert holes.falsified == pytest.approx(1 / 8)


@every_way
@pytest.mark.parametrize("outputs", [1, 2])
@pytest.mark.parametrize("hidden", [False, True])
def test_threshold_by_hand(way: dict, outputs: int, hidden: bool) -> None:
    """Logit x - 4.5 + p: at threshold t label 1 from the log-odds of t on."""
    schema = schema_of([integer("x", 0, 9), integer("p", 0, 1, protected=True)])
    last = np.array([[1.0]]) if outputs == 1 else np.array([[-1.0, 0.0]])
    # With a hidden layer the sum is lifted above zero and lowered again after it.
    bias = np.zeros(outputs)
    bias[0] = -14.5 if outputs == 1 else 14.5
    first = (np.ones((2, 1)), np.array([10.0]))
    if hidden:
        network = network_from_dense(schema, [first, (last, bias)], classes=("label 0", "label 1"))
    else:
        network = network_from_dense(
            schema, [(np.ones((2, 1)) @ last, 10 * last[0] + bias)], classes=("label 0", "label 1")
        )
    for threshold, unfair in ((None, "4"), (0.5, "4"), (0.3, "3"), (0.1, "2"), (0.8, "5"), (0.99, "9"), (0.01, None)):
        result = prove(network, threshold=threshold, **way)
        assert result.threshold == (0.5 if threshold is None else threshold)
        assert result.positive == "label 1"
        unfair_values = [found.unprotected["x"] for found in result.counterexamples]
        assert unfair_values == ([] if unfair is None else [unfair])
        assert result.falsified == pytest.approx(0.1 if unfair else 0)
        assert result.certified == pytest.approx(0.9 if unfair else 1)


@settings(max_examples=scaled(300), deadline=None, derandomize=True)
@given(st.floats(1e-6, 1 - 1e-6), st.integers(-1, 1), st.floats(1.0, 30.0))
def test_beyond_the_resolution_float32_probabilities_agree(threshold: float, way: int, far: float) -> None:
    """Sigmoids computed in three ways in float32, and a softmax, tell such logits from the threshold."""
    pad = resolution_of(threshold)
    exact = log_odds(threshold) + (way or 1) * pad * far
    above = (way or 1) > 0
    # The float32 logit itself may be rounded: the error analysis of the network covers that.
    logit = np.float32(exact)
    if abs(float(logit) - log_odds(threshold)) < pad:
        return
    one, two, limit = np.float32(1), np.float32(2), np.float32(threshold)
    probabilities = [
        one / (one + np.exp(-logit)),
        np.exp(logit) / (one + np.exp(logit)),
        (np.tanh(logit / two) + one) / two,
    ]
    shifted = np.array([0, logit], dtype=np.float32) - max(np.float32(0), logit)
    probabilities.append(np.exp(shifted)[1] / np.exp(shifted).sum())
    for probability in probabilities:
        assert isinstance(probability, np.float32)
        assert (probability > limit) == above
        assert (float(probability) > threshold) == above


@every_way
@pytest.mark.parametrize("side", [1, -1])
def test_logits_within_the_resolution_stay_undecided(way: dict, side: int) -> None:
    """Label 1 never for p = 0, and for p = 1 surely from x = 2 on: x = 1 is too close to the threshold to say."""
    schema = schema_of([integer("x", 0, 3), integer("p", 0, 1, protected=True)])
    threshold = 0.001
    for far, undecided in ((0.5, 1 / 4), (2.0, 0.0)):
        at_one = log_odds(threshold) + side * far * resolution_of(threshold)
        network = network_from_dense(schema, [(np.array([[1.0], [50.0]]), np.array([at_one - 51.0]))])
        result = prove(network, threshold=threshold, **way)
        assert result.undecided == pytest.approx(undecided, abs=1e-9)
        assert result.falsified == pytest.approx((2 if undecided or side < 0 else 3) / 4)


def test_counterexamples_hold_in_float32_at_the_threshold() -> None:
    network = step_network()
    rows = np.array([[3.0, 0.0, 0.0], [3.0, 1.0, 0.0]])
    logits = network.logits(rows)[:, 0]
    threshold = float(1 / (1 + np.exp(-logits.mean())))
    assert predict_float32(network, rows, threshold).tolist() == [0, 1]
    assert predict_float32(network, rows, 0.999).tolist() == [0, 0]


def test_nobody_is_looked_at_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a small domain the same few unfair people are drawn again and again: each is run on the model once."""
    query, looked = query_of(step_network()), []
    run = type(query).deployed
    monkeypatch.setattr(type(query), "deployed", lambda self, rows: looked.append(len(rows)) or run(self, rows))
    finder = CounterexampleFinder(query, limit=100)
    entries = np.tile([[3.0, 0.0], [4.0, 1.0], [9.0, 2.0]], (500, 1))
    assert finder.unfair(entries).sum() == 1000
    assert finder.unfair(entries).sum() == 1000
    assert [each.unprotected for each in finder.found] == [{"x": "3", "y": "a"}, {"x": "4", "y": "b"}]
    assert len(looked) == 2


@pytest.mark.parametrize("bins", [False, True])
def test_a_real_attribute_in_part_of_its_histogram(bins: bool) -> None:
    """Density 1, 3, 0, 4 on quarters of 0..4, asked about from 0.5 to 3.5: unfair where 1 < x <= 1.5."""
    schema = schema_of([{"name": "x", "kind": "real", "lower": 0, "upper": 4}, integer("p", 0, 1, protected=True)])
    network = network_from_dense(schema, [(np.array([[1.0], [0.5]]), np.array([-1.5]))])
    if bins:
        from evenhand.models.additive.network import StepTerm

        steps = StepTerm(np.array([1.0, 1.5]), np.array([[0.0], [1.25], [2.0]]))
        network = AdditiveNetwork(schema, (steps, network.parts[1]), np.array([-1.5]), (), (0, 1), 1)
    marginals = (
        Marginal(schema["x"], np.array([1.0, 3, 0, 4]) / 8),
        Marginal(schema["p"], np.array([0.5, 0.5])),
    )
    population = ProductPopulation("some people", schema, marginals)
    for way in WAYS[:2]:
        result = prove(network, population=population, where=["0.5 <= x < 3.5"], **way)
        truth = 1.5 / (0.5 + 3 + 2)
        assert result.falsified == pytest.approx(truth, abs=1e-3)
        assert result.falsified <= truth + 1e-12
        assert result.certified <= 1 - truth + 1e-12
        assert result.undecided < 2e-3
        for found in result.counterexamples:
            assert 1 <= float(found.unprotected["x"]) <= 1.5
    plain = prove(network, where=["x > 1", "x <= 3"])
    assert plain.falsified == pytest.approx(1 / 4, abs=1e-3)
    with pytest.raises(OptionError, match="no one in the population has a value of 'x'"):
        prove(network, population=population, where=["2 <= x < 3"])
    with pytest.raises(OptionError, match="no one in the population has a value of 'x'"):
        prove(network, where=["x >= 4"])


def test_a_threshold_needs_two_labels() -> None:
    case = next(case for seed in range(500) if len((case := random_case(seed)).network.classes) > 2)
    with pytest.raises(OptionError, match="a threshold requires a model with two labels"):
        prove(case.network, threshold=0.3)
    assert prove(case.network).threshold is None


def test_one_protected_attribute_may_be_held_while_another_changes() -> None:
    case = worked_example()
    both = prove(case, protected=["x1", "x2"], where=["x1 == 2"])
    assert all(found.first["x1"] == found.second["x1"] == "2" for found in both.counterexamples)
    alone = prove(case, protected=["x2"], where=["x1 == 2"])
    assert both.falsified == alone.falsified


def test_a_published_network_where_all_is_asked_of_adults() -> None:
    network = real_network("AC-1", "sex")
    where = ["18 <= age < 65", "race != 0"]
    result = prove(network, where=where, max_boxes=20_000, samples=20_000)
    rng = np.random.default_rng(0)
    people = np.stack([rng.integers(int(a.first), int(a.last) + 1, 200_000) for a in network.schema.attributes], axis=1)
    ages, races = network.schema.position("age"), network.schema.position("race")
    people = people[(people[:, ages] >= 18) & (people[:, ages] < 65) & (people[:, races] != 0)].astype(np.float64)
    labels = []
    for sex in (0, 1):
        people[:, network.schema.position("sex")] = sex
        labels.append(network.predict(people))
    unfair = float((labels[0] != labels[1]).mean())
    error = 4 * np.sqrt(unfair * (1 - unfair) / len(people)) + 1e-4
    assert result.certified <= 1 - unfair + error
    assert result.falsified <= unfair + error
    assert result.estimate.low - error <= unfair <= result.estimate.high + error
    assert result.certified > 0.5
    for found in result.counterexamples:
        assert 18 <= int(found.unprotected["age"]) < 65
        assert found.unprotected["race"] != "0"

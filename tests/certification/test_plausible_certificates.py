"""Certificates about plausible counterparts: against asking everybody, by hand, and beside today's certificates."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import pytest
from cases import integer, random_case, real_network, schema_of
from hypothesis import given, settings
from hypothesis import strategies as st
from test_tree_certificates import random_tree, tree

from evenhand import certification
from evenhand.certification.bounds.scores import ScoreTable, needs_kernels
from evenhand.certification.certificate.conclusion import estimate_unfair_mass
from evenhand.certification.certificate.result import Evidence, estimated_share
from evenhand.certification.query.cells import Cells, cells_of
from evenhand.certification.query.orbits import orbit_question_of
from evenhand.errors import OptionError
from evenhand.models import AdditiveNetwork
from evenhand.models.additive.network import AffineLayer, LineTerm, TableTerm, network_from_dense
from evenhand.models.trees.ensemble import TreeEnsemble, build_ensemble
from evenhand.population import JointDistribution, MixturePopulation, fit_mixture
from evenhand.population.independent import Marginal
from evenhand.population.mixture import strata_of, uniform_mixture
from evenhand.schema import Attribute, People, Schema, counterparts_of
from evenhand.stats import clopper_pearson
from evenhand.stats.combined import OpenPart
from support import scaled

WAYS = [{"enumeration": True}, {"enumeration": False}]
every_way = pytest.mark.parametrize("way", WAYS, ids=["enumeration", "boxes"])


@dataclass(frozen=True)
class RuledCase:
    network: AdditiveNetwork | TreeEnsemble
    population: MixturePopulation


SEXES = {"name": "sex", "kind": "categorical", "values": ["f", "m"], "protected": True}
SPOUSES = {"name": "spouse", "kind": "categorical", "values": ["wife", "husband", "none"]}
MARRIED = {
    "rules": ["spouse == husband -> sex == m", "spouse == wife -> sex == f"],
    "links": [{"when": "sex", "move": "spouse", "rows": [{"m": "husband", "f": "wife"}]}],
}
"""A husband has a wife."""


def couple_schema(*numbers: dict[str, Any]) -> Schema:
    """Sex, and a spouse who moves with it, and numbers."""
    return Schema.parse(schema_of([SEXES, SPOUSES, *numbers]).model_dump() | MARRIED)


def ruled_schema(rng: np.random.Generator) -> Schema:
    """Sex and a spouse who moves with it, a block of two attributes, and up to two more."""
    attributes: list[dict[str, Any]] = [
        SEXES,
        SPOUSES | {"values": ["wife", "husband", "none", "other"]},
        integer("a", 0, int(rng.integers(1, 4))),
        integer("b", 0, int(rng.integers(1, 4))),
        integer("c", 3, int(rng.integers(4, 8))),
    ]
    if rng.integers(2):
        attributes.append({"name": "race", "kind": "categorical", "values": ["x", "y", "z"], "protected": True})
    rules = (
        [*MARRIED["rules"], ["a <= b", "a == 0 or b == 0"][rng.integers(2)]] if rng.integers(4) else MARRIED["rules"]
    )
    # Without a link, husbands and wives have no counterpart of the other sex.
    linked = MARRIED["links"] if rng.integers(4) else []
    order = rng.permutation(len(attributes))
    described = schema_of([attributes[i] for i in order], int(rng.choice([2, 2, 2, 3])))
    return Schema.parse(described.model_dump() | {"rules": rules, "links": linked})


def ruled_case(seed: int, layers: int | None = None) -> RuledCase:
    """A random network of 0 to 2 hidden layers, and a random population of 1 to 3 classes."""
    rng = np.random.default_rng(seed)
    schema = ruled_schema(rng)
    classes = len(schema.target.values or ())
    hidden = [int(rng.integers(1, 6)) for _ in range(rng.integers(0, 3) if layers is None else layers)]
    sizes = [*hidden, classes if classes > 2 else 1]
    parts = tuple(
        TableTerm(rng.normal(size=(attribute.size, sizes[0])), 0.0)
        if attribute.is_discrete
        else LineTerm(rng.normal(size=sizes[0]), rng.normal(size=sizes[0]))
        for attribute in schema.attributes
    )
    layers = tuple(AffineLayer(rng.normal(size=(a, b)), rng.normal(size=b)) for a, b in itertools.pairwise(sizes))
    network = AdditiveNetwork(schema, parts, rng.normal(size=sizes[0]), layers, schema.target.values or (), 1)
    return RuledCase(network, random_population(schema, int(rng.integers(1, 4)), rng))


def ruled_trees(seed: int) -> RuledCase:
    """A few random trees, and a random population of 1 to 3 classes."""
    rng = np.random.default_rng(seed)
    schema = ruled_schema(rng)
    outputs = 1 if len(schema.target.values or ()) == 2 else 3
    grown = [random_tree(rng, schema, 1, t % outputs, False) for t in range(outputs * int(rng.integers(1, 6)))]
    answers = list(range(len(schema.target.values or ())))
    link = "logistic" if outputs == 1 else "softmax"
    trees = build_ensemble(schema, grown, base=rng.normal(size=outputs), link=link, answers=answers, location="t")
    return RuledCase(trees, random_population(schema, int(rng.integers(1, 4)), rng))


def random_population(schema: Schema, classes: int, rng: np.random.Generator) -> MixturePopulation:
    whole = uniform_mixture(schema)
    tables = []
    for table in (whole.hub, *whole.blocks):
        kept = rng.permutation(len(table.values))[: max(1, int(rng.integers(1, len(table.values) + 1)))]
        tables.append(JointDistribution(table.columns, table.values[kept], random_masses(classes, len(kept), rng)))
    marginals = [
        tuple(Marginal(one[0].attribute, own) for own in random_masses(classes, len(one[0].masses), rng))
        for one in whole.marginals
    ]
    return MixturePopulation(
        "some people", schema, rng.dirichlet(np.ones(classes)), tables[0], tuple(tables[1:]), tuple(marginals)
    )


def random_masses(classes: int, values: int, rng: np.random.Generator) -> np.ndarray:
    masses = rng.dirichlet(np.ones(values), classes) * (rng.random((classes, values)) < 0.8)
    masses[masses.sum(axis=1) == 0, 0] = 1.0
    return masses / masses.sum(axis=1, keepdims=True)


def ask_everybody(case: RuledCase, allowed: np.ndarray | None = None) -> tuple[float, float, float]:
    """(fair, unfair, without a counterpart), person by person."""
    schema, population = case.network.schema, case.population
    everybody = np.array(list(itertools.product(*(attribute.domain() for attribute in schema.attributes))))
    moved, plausible = counterparts_of(schema).of(everybody)
    labels = case.network.predict(moved.reshape(-1, moved.shape[2])).reshape(plausible.shape)
    shares, whole = np.zeros(3), 0.0
    for person, asked, exists in zip(everybody, labels, plausible, strict=True):
        chance = 0.0
        for z, weight in enumerate(population.weights):
            part = weight
            for table in (population.hub, *population.blocks):
                part *= table.masses[z][(table.values == person[list(table.columns)]).all(axis=1)].sum()
            for column, marginals in zip(population.singles, population.marginals, strict=True):
                part *= marginals[z].masses[int(person[column] - marginals[z].attribute.first)]
            chance += part
        if allowed is not None and not allowed[tuple(person.astype(int))]:
            continue
        whole += chance
        kind = 2 if exists.sum() < 2 else int(len(set(asked[exists])) > 1)
        shares[kind] += chance
    return tuple(shares / whole)


def check(case: RuledCase, way: dict[str, Any]) -> None:
    fair, unfair, none = ask_everybody(case)
    if none > 1 - 1e-9:
        with pytest.raises(OptionError, match="no one has a plausible counterpart"):
            certification.certify(case.network, population=case.population, **way)
        return
    result = certification.certify(
        case.network, population=case.population, jobs=1, samples=300, confidence=1 - 1e-6, max_boxes=4000, **way
    )
    assert result.no_counterpart == pytest.approx(none, abs=1e-12)
    assert result.certified + result.falsified + result.undecided + result.no_counterpart == pytest.approx(1)
    assert result.certified <= fair + 1e-12
    assert result.falsified <= unfair + 1e-12
    assert result.estimate.low - 1e-9 <= unfair <= result.estimate.high + 1e-9
    if way["enumeration"]:
        # A margin within the float32 slack stays undecided, which is rare.
        assert result.method in ("enumeration", "linear", "trees")
        assert result.certified == pytest.approx(fair, abs=1e-9) or result.undecided > 0
        assert result.undecided < 0.2
    elif isinstance(case.network, TreeEnsemble):
        assert (result.certified, result.falsified) == pytest.approx((fair, unfair), abs=1e-9)
    for found in result.counterexamples:
        replay(case.network, found)


def replay(network: AdditiveNetwork | TreeEnsemble, found: certification.Counterexample) -> None:
    """Both people obey the rules, are each other's counterparts, and get the labels that are said."""
    schema = network.schema

    def entry(name: str, word: str) -> float:
        attribute = schema[name]
        return float(word) if attribute.values is None else float([str(v) for v in attribute.values].index(word))

    people = [found.unprotected | moved for moved in (found.first, found.second)]
    rows = np.array([[entry(name, person[name]) for name in schema.names] for person in people])
    assert schema.obeys_rules(rows).all()
    moved, plausible = counterparts_of(schema).of(rows)
    assert any((other == rows[1]).all() for other in moved[0][plausible[0]])
    labels = [str(network.classes[label]) for label in network.predict(rows)]
    assert labels == [found.first_label, found.second_label]
    assert labels[0] != labels[1]


@pytest.mark.parametrize(
    ("drawn", "way"),
    [
        (ruled_case, WAYS[0]),
        (ruled_case, WAYS[1]),
        (partial(ruled_case, layers=0), WAYS[1]),
        (ruled_trees, WAYS[0]),
        (ruled_trees, WAYS[1]),
    ],
    ids=["enumeration", "boxes", "scores", "trees one by one", "boxes of trees"],
)
@settings(max_examples=scaled(80), deadline=None, derandomize=True)
@given(seed=st.integers(0, 10**6))
def test_proofs_never_exceed_what_asking_everybody_says(
    drawn: Callable[[int], RuledCase], way: dict[str, Any], seed: int
) -> None:
    check(drawn(seed), way)


def check_sample(
    result: certification.Certificate, network: AdditiveNetwork, population: MixturePopulation, rng: np.random.Generator
) -> None:
    """Compare proofs with a sample of the same people."""
    drawn = population.sample(40_000, rng)
    moved, plausible = counterparts_of(network.schema).of(drawn)
    labels = network.predict(moved.reshape(-1, moved.shape[2])).reshape(plausible.shape)
    unfair = ((labels[:, 0] != labels[:, 1]) & plausible.all(axis=1)).mean()
    error = 5 * np.sqrt(unfair * (1 - unfair) / len(drawn))
    assert result.falsified - error <= unfair <= 1 - result.certified + error
    assert result.estimate.low - error <= unfair <= result.estimate.high + error


def cells_of_values(entries: list[float], masses: list[float]) -> Cells:
    """A number that takes these whole values, each of them the term that it adds."""
    attribute = Attribute(name="x", kind="integer", lower=0, upper=len(entries) - 1)
    return cells_of(attribute, 0, TableTerm(np.array(entries)[:, None], 0.0), Marginal(attribute, np.array(masses)))


def test_the_score_of_two_dice() -> None:
    die = cells_of_values([1, 2, 3, 4, 5, 6], [1 / 6] * 6)
    table = ScoreTable.of([die, die])
    # Scores count from the first value's term, which is part of the biases.
    offset = 2 * float(die.offset[0])
    for low, high, ways in ((9.5, np.inf, 6), (-np.inf, 3.5, 3), (6.5, 7.5, 6), (6.5, 8.5, 11), (12, np.inf, 0)):
        assert table.between(low - offset, high - offset) == pytest.approx(ways / 36, abs=1e-8)
        assert table.between(low - offset, high - offset) <= ways / 36
    assert table.between(-np.inf, np.inf) == 1
    # What lies on the border, or so near that rounding could carry it over, is on neither side.
    assert table.between(10 - offset, np.inf) + table.between(-np.inf, 10 - offset) == pytest.approx(33 / 36, abs=1e-8)


def test_the_score_of_two_real_numbers() -> None:
    """The sum of two uniform numbers exceeds 1.5 with a chance of 1/8."""
    attribute = Attribute(name="x", kind="real", lower=0, upper=1)
    line = LineTerm(np.ones(1), np.zeros(1))
    cells = cells_of(attribute, 0, line, Marginal(attribute, np.full(32, 1 / 32)))
    found = ScoreTable.of([cells, cells]).between(1.5, np.inf)
    assert 1 / 8 - 1e-4 < found <= 1 / 8


@settings(max_examples=scaled(100), deadline=None, derandomize=True)
@given(seed=st.integers(0, 10**6))
def test_tables_of_scores_are_lower_bounds_and_close(seed: int) -> None:
    """Against all sums one by one, of attributes that add very much and very little."""
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 12, int(rng.integers(1, 5)))
    attributes = [
        cells_of_values(list(rng.normal(0, 10.0 ** rng.integers(-3, 4), n)), list(rng.dirichlet(np.ones(n))))
        for n in sizes
    ]
    table = ScoreTable.of(attributes)
    sums, chances = np.zeros(1), np.ones(1)
    for cells in attributes:
        sums = (sums[:, None] + cells.cell_contributions(np.arange(cells.count))[:, 0]).ravel()
        chances = (chances[:, None] * np.diff(cells.before(np.arange(cells.count + 1))) / cells.total).ravel()
    near = (np.ptp(sums) + 1e-12) * 1e-4
    for low, high in np.sort(rng.choice(sums, (20, 2)) + rng.normal(size=(20, 2)) * np.ptp(sums) / 100, axis=1):
        for begin, end in ((low, high), (low, np.inf), (-np.inf, high)):
            found = table.between(begin, end)
            assert found <= chances[(sums > begin) & (sums < end)].sum() + 1e-12
            assert found >= chances[(sums > begin + near) & (sums < end - near)].sum() - 1e-8


@every_way
@pytest.mark.parametrize("hidden", [False, True])
def test_values_that_nobody_has_are_left_out(way: dict[str, Any], hidden: bool) -> None:
    """Of 100,000 values people have three, and what is said of them is said in these."""
    schema = couple_schema(integer("x", 0, 99_999))
    masses = np.zeros(100_000)
    masses[[3, 400, 70_000]] = 0.5, 0.25, 0.25
    hub = uniform_mixture(couple_schema(integer("x", 0, 9))).hub
    population = MixturePopulation("some people", schema, np.ones(1), hub, (), ((Marginal(schema["x"], masses),),))
    parts = (
        TableTerm(np.zeros((2, 1)), 0.0),
        TableTerm(np.array([[100.0], [300.0], [0.0]]), 0.0),
        LineTerm(np.ones(1), np.zeros(1)),
    )
    # A hidden unit that is always on changes nothing.
    layers = (AffineLayer(np.ones((1, 1)), np.array([-1000.0])),) if hidden else ()
    bias = np.array([-600.0 + 1000.0 if hidden else -600.0])
    network = AdditiveNetwork(schema, parts, bias, layers, ("no", "yes"), 1)
    question = orbit_question_of(network, None, population)
    assert question.orbits[0].query.counts.tolist() == [3]
    result = certification.certify(network, population=population, **way)
    # Husbands and wives at 400 differ: half of the people, and a quarter of those.
    assert result.falsified == pytest.approx(0.5 * 0.25)
    assert result.certified == pytest.approx(1 - 0.5 * 0.25)
    assert {found.unprotected["x"] for found in result.counterexamples} == {"400"}
    assert question.orbits[0].query.cells[0].words(0, 1) == "3 to 400"
    narrowed = certification.certify(network, population=population, where=["x >= 100", "spouse != none"], **way)
    assert narrowed.falsified == pytest.approx(0.5)


def couple_network(weights: dict[str, float], threshold: float) -> AdditiveNetwork:
    """Label 1 if the weights of husband, wife and sex, and x in 0..9, exceed the threshold."""
    schema = couple_schema(integer("x", 0, 9))
    parts = (
        TableTerm(np.array([[0.0], [weights.get("m", 0.0)]]), 0.0),
        TableTerm(np.array([[weights.get("wife", 0.0)], [weights.get("husband", 0.0)], [0.0]]), 0.0),
        LineTerm(np.ones(1), np.zeros(1)),
    )
    return AdditiveNetwork(schema, parts, np.array([-threshold]), (), ("no", "yes"), 1)


@every_way
def test_a_husband_is_compared_with_a_wife(way: dict[str, Any]) -> None:
    """Husbands get 2 more, wives too: changing sex alone would change 2 of 10, their counterparts none."""
    network = couple_network({"husband": 2.0, "wife": 2.0, "m": 0.0}, 5.5)
    result = certification.certify(network, **way)
    assert (result.certified, result.falsified, result.no_counterpart) == (1, 0, 0)
    assert result.moved == ("spouse",)
    unlike = couple_network({"husband": 4.0, "wife": 2.0}, 6.5)
    result = certification.certify(unlike, **way)
    # 4 equally likely joint values: f wife, f none, m husband, m none. Couples differ at x of 3 and 4.
    assert result.falsified == pytest.approx(0.5 * 2 / 10)
    assert result.certified == pytest.approx(1 - 0.1)
    assert {found.unprotected["x"] for found in result.counterexamples} <= {"3", "4"}
    assert {(found.first["spouse"], found.second["spouse"]) for found in result.counterexamples} <= {
        ("husband", "wife"),
        ("wife", "husband"),
    }
    assert {region.where["spouse"] for region in result.regions} == {"wife, husband"}
    as_published = certification.certify(unlike, as_published=True, enumeration=True)
    assert as_published.moved is None
    assert as_published.certified == pytest.approx(1)  # sex itself does nothing here


@every_way
def test_trees_that_ask_for_husbands_treat_couples_unfairly(way: dict[str, Any]) -> None:
    schema = couple_schema(integer("x", 0, 9))
    # Input 1 is the spouse: wife, husband, none.
    asking = [tree([(1, 0.5, 1, 2), -1.0, (1, 1.5, 3, 4), 1.0, -1.0])]
    model = build_ensemble(schema, asking, base=np.zeros(1), link="logistic", answers=[0, 1], location="t")
    result = certification.certify(model, **way)
    assert (result.certified, result.falsified, result.undecided) == pytest.approx((0.5, 0.5, 0), abs=1e-9)
    assert sorted(result.counterexamples[0].first.items()) in (
        [("sex", "f"), ("spouse", "wife")],
        [("sex", "m"), ("spouse", "husband")],
    )
    assert certification.certify(model, as_published=True).certified == 1


def test_draws_are_of_those_who_have_a_counterpart() -> None:
    """Half of all have one, nothing is proved: 10 flips of 100 of them are 5 % of all, with half the interval."""
    draws = Evidence(source="flip rate", mass=0.5, unfair=10, n=100)
    found = estimate_unfair_mass([draws], OpenPart(0.5, 0.0, 0.0, 0.5), 0.5, 0.0, 0.95)
    low, high = clopper_pearson(10, 100)
    assert (found.unfair, found.low, found.high) == pytest.approx((0.05, low / 2, high / 2), abs=1e-9)
    # 2 % of all are proved unfair, and half of those compared are open: 3 of 20 draws from there add 3.75 % of all.
    inside = Evidence(source="undecided", mass=0.25, unfair=3, n=20)
    found = estimate_unfair_mass([inside], OpenPart(0.25, 0.02, 0.02, 0.27), 0.5, 0.0, 0.95)
    assert found.unfair == pytest.approx(0.02 + 0.25 * 3 / 20)


def test_without_a_link_couples_have_no_counterpart() -> None:
    linked = couple_network({"husband": 4.0, "wife": 2.0, "m": 1.0}, 5.5)
    schema = Schema.parse(linked.schema.model_dump() | {"links": []})
    network = AdditiveNetwork(schema, linked.parts, linked.bias, (), linked.classes, 1)
    result = certification.certify(network)
    assert result.no_counterpart == pytest.approx(0.5)
    assert result.falsified == pytest.approx(0.5 * 0.1)
    assert result.certified == pytest.approx(0.5 * 0.9)
    assert estimated_share(result).value == pytest.approx(0.1)


def test_conditions_are_about_people_and_their_counterparts() -> None:
    network = couple_network({"husband": 4.0, "wife": 2.0, "m": 1.0}, 6.5)
    result = certification.certify(network, where=["x >= 2", "x < 6", "spouse != none"])
    assert result.no_counterpart == 0
    assert result.falsified == pytest.approx(3 / 4)  # husbands from 2 on, wives from 5 on
    alone = certification.certify(network, where=["spouse in {husband, none}"])
    assert alone.no_counterpart == pytest.approx(1 / 3)
    with pytest.raises(OptionError, match="no one has a plausible counterpart"):
        certification.certify(network, where=["sex == m"])


@settings(max_examples=scaled(30), deadline=None, derandomize=True)
@given(seed=st.integers(0, 10**6))
def test_no_rules_and_one_class_is_the_certificate_of_independent_attributes(seed: int) -> None:
    case = random_case(seed, free=3, widest=5)
    population = case.population
    if population is None:
        return
    schema = population.schema
    columns = strata_of(schema)[0]
    grid = np.array(list(itertools.product(*(schema.attributes[i].domain() for i in columns))))
    masses = np.ones(len(grid))
    for k, i in enumerate(columns):
        masses *= population.marginals[i].masses[(grid[:, k] - schema.attributes[i].first).astype(int)]
    hub = JointDistribution(columns, grid, masses[None, :])
    others = tuple((marginal,) for i, marginal in enumerate(population.marginals) if i not in columns)
    mixture = MixturePopulation(population.name, schema, np.ones(1), hub, (), others)
    for way in WAYS[:2]:
        one, other = (
            certification.certify(case.network, population=each, jobs=1, max_boxes=3000, **way)
            for each in (mixture, population)
        )
        # Without hidden layers the one is proved from the distribution of scores, the other from boxes.
        if one.method == other.method and (way["enumeration"] or needs_kernels(case.network)):
            assert one.certified == pytest.approx(other.certified, abs=1e-12)
            assert one.falsified == pytest.approx(other.falsified, abs=1e-12)


def test_what_cannot_be_done_is_refused_with_the_way_on() -> None:
    network = couple_network({"m": 1.0}, 5.5)
    with pytest.raises(OptionError, match="cannot be written to a file") as refusal:
        certification.certify(network, certificate="nowhere.json")
    assert "`as_published=True`" in str(refusal.value.hint)
    with pytest.raises(OptionError, match="needs linear bounds"):
        certification.certify(network, method="interval", enumeration=False)
    with pytest.raises(OptionError, match="does not say how"):
        certification.certify(network, protected=["spouse", "x"], population=uniform_mixture(network.schema))
    with pytest.raises(OptionError, match="population of independent attributes"):
        certification.certify(network, as_published=True, population=uniform_mixture(network.schema))


@pytest.mark.full
def test_people_fitted_to_data_are_certified_in_one_go() -> None:
    """A network over more points than are enumerated: proofs bracket what a sample of the same people shows."""
    rng = np.random.default_rng(4)
    schema = couple_schema(*(integer(f"u{i}", 0, 40) for i in range(5)))
    sex = rng.integers(0, 2, 2000)
    spouse = np.where(rng.random(2000) < 0.5, 2, sex)
    level = rng.integers(5, 35, 2000)
    numbers = np.clip(level[:, None] + rng.integers(-5, 6, (2000, 5)), 0, 40)
    people = People(schema, np.column_stack([sex, spouse, numbers]).astype(float), None, np.arange(2000), None)
    weights = np.array([[1.0], [2.0], *([0.3] for _ in range(5))])
    network = network_from_dense(
        schema, [(np.hstack([weights, -weights[::-1]]), np.array([-30.0, 9.0])), (np.ones((2, 1)), np.array([-3.0]))]
    )
    population = fit_mixture(people)
    result = certification.certify(network, population=population, max_boxes=30_000, jobs=1)
    check_sample(result, network, population, rng)
    assert result.method == "linear"
    assert result.undecided < 0.03
    again = certification.certify(network, population=population, max_boxes=30_000, jobs=2)
    assert (again.certified, again.falsified) == (result.certified, result.falsified)


def test_a_linear_model_leaves_only_the_border_open() -> None:
    """Eight attributes of 41 values, too many people to ask: next to nothing stays undecided, and no box is split."""
    rng = np.random.default_rng(7)
    schema = couple_schema(*(integer(f"u{i}", 0, 40) for i in range(8)))
    parts = tuple(
        TableTerm(rng.normal(size=(attribute.size, 1)), 0.0)
        if attribute.is_discrete
        else LineTerm(rng.normal(size=1) / 20, np.zeros(1))
        for attribute in schema.attributes
    )
    network = AdditiveNetwork(schema, parts, np.array([0.1]), (), schema.target.values or (), 1)
    population = random_population(schema, 3, rng)
    result = certification.certify(network, population=population)
    check_sample(result, network, population, rng)
    assert result.falsified > 0.01
    assert result.undecided < 1e-3
    assert result.stopped_by == "done"


@pytest.mark.full
def test_a_published_network_between_husbands_and_wives() -> None:
    """AC-1, over everybody who obeys the rules of marriage: what a sample of them shows lies between the proofs."""
    plain = real_network("AC-1", "sex")
    husband, wife, married = 0, 5, "{1, 2}"
    schema = Schema.parse(
        plain.schema.model_dump()
        | {
            "rules": [
                f"relationship == {husband} -> sex == 1",
                f"relationship == {wife} -> sex == 0",
                f"relationship in {{{husband}, {wife}}} -> 'marital-status' in {married}",
            ],
            "links": [{"when": "sex", "move": "relationship", "rows": [{1: husband, 0: wife}]}],
        }
    )
    network = replace(plain, schema=schema)
    population = uniform_mixture(schema)
    result = certification.certify(network, max_boxes=20_000, jobs=1)
    assert result.moved == ("relationship",)
    assert result.no_counterpart == 0
    check_sample(result, network, population, np.random.default_rng(0))
    assert result.undecided < 0.1
    for found in result.counterexamples:
        replay(network, found)

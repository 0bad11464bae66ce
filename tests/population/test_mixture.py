"""Populations that samples are drawn from: independent, by latent classes, with rules."""

import itertools
import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenhand import datasets, population
from evenhand.errors import OptionError
from evenhand.population import MixturePopulation, choose_population, fit_mixture, product_of_marginals
from evenhand.population.independent import Marginal, estimate_marginal
from evenhand.population.mixture import (
    CodedPeople,
    LatentClasses,
    code_people,
    fit_latent_classes,
    strata_of,
    uniform_mixture,
)
from evenhand.schema import People, Schema, encode
from support import scaled, shared

ATTRIBUTES = [
    {"name": "age", "kind": "integer", "lower": 18, "upper": 80},
    {"name": "sex", "kind": "categorical", "values": ["f", "m"], "protected": True},
    {"name": "spouse", "kind": "categorical", "values": ["wife", "husband", "none"]},
    {"name": "school", "kind": "ordinal", "values": ["low", "middle", "high"]},
    {"name": "years", "kind": "integer", "lower": 6, "upper": 14},
    {"name": "debt", "kind": "real", "lower": 0, "upper": 3, "missing": "keep"},
]
RULES = {
    "rules": ["spouse == husband -> sex == m", "spouse == wife -> sex == f"],
    "dependencies": [{"between": ["school", "years"], "map": {"low": 8, "middle": 10, "high": 13}}],
    "links": [{"when": "sex", "move": "spouse", "rows": [{"m": "husband", "f": "wife"}]}],
}
TARGET = {"name": "y", "favourable": 1, "values": [0, 1]}
RULED = Schema.parse({"target": TARGET, "attributes": ATTRIBUTES, **RULES})
FREE = Schema.parse({"target": TARGET, "attributes": ATTRIBUTES})


def people(schema: Schema, n: int, seed: int = 0) -> People:
    """People who obey the rules but for one in fifty."""
    rng = np.random.default_rng(seed)
    sex, school = rng.integers(0, 2, n), rng.integers(0, 3, n)
    spouse = np.where(rng.random(n) < 0.5, 2, sex)
    years = np.array([8, 10, 13])[school]
    wrong = rng.random(n) < 0.02
    spouse[wrong] = 1 - sex[wrong]
    age = np.clip(rng.normal(30 + 12 * school, 8, n).round(), 18, 80)
    debt = np.clip(rng.exponential(0.3 + 0.4 * school, n), 0, 3)
    debt[rng.random(n) < 0.2] = np.nan
    rows = np.stack([age, sex, spouse, school, years, debt], axis=1).astype(np.float64)
    return People(schema, rows, None, np.arange(n), None)


def test_the_hub_and_the_blocks_are_what_shares_rules() -> None:
    assert strata_of(RULED) == ((1, 2), (3, 4))
    assert strata_of(FREE) == ((1,),)
    further = RULED.model_copy(update={"rules": (*RULED.rules, "spouse == none or age >= 18")})
    assert strata_of(Schema.parse(further.model_dump())) == ((0, 1, 2), (3, 4))
    assert strata_of(RULED, ["school"]) == ((3, 4), (1, 2))


@pytest.mark.parametrize("classes", [(1,), (3,), (1, 2, 4)])
def test_samples_obey_the_rules_and_are_as_seen(classes: tuple[int, ...]) -> None:
    data = people(RULED, 3000)
    assert not RULED.obeys_rules(data.individuals).all()
    drawn = fit_mixture(data, classes=classes).sample(20_000, np.random.default_rng(1))
    assert RULED.contains(drawn).all()
    assert RULED.obeys_rules(drawn).all()
    obeying = data.individuals[RULED.obeys_rules(data.individuals)]
    assert {tuple(row) for row in drawn[:, 1:3]} == {tuple(row) for row in obeying[:, 1:3]}
    assert drawn[:, 0].mean() == pytest.approx(obeying[:, 0].mean(), abs=0.5)
    assert set(drawn[:, 0]) <= set(obeying[:, 0])


def test_dependence_is_kept() -> None:
    """Age goes with school: by classes two thirds of the correlation is there, by independent attributes none."""
    data = people(RULED, 5000)
    drawn = fit_mixture(data).sample(20_000, np.random.default_rng(1))
    real, found = (np.corrcoef(rows[:, 0], rows[:, 3])[0, 1] for rows in (data.individuals, drawn))
    assert real > 0.6
    assert found > 0.66 * real
    product = product_of_marginals(data).sample(20_000, np.random.default_rng(1))
    assert abs(np.corrcoef(product[:, 0], product[:, 3])[0, 1]) < 0.05


def test_without_rules_one_class_is_the_product_of_marginals() -> None:
    data = people(FREE, 500)
    mixture, product = fit_mixture(data, classes=(1,)), product_of_marginals(data)
    assert mixture.weights.tolist() == [1.0]
    assert mixture.hub.columns == (1,)
    assert mixture.hub.masses[0] == pytest.approx(product.marginals[1].masses)
    for column, marginals in zip(mixture.singles, mixture.marginals, strict=True):
        assert marginals[0].masses == pytest.approx(product.marginals[column].masses)


def test_the_same_seed_gives_the_same_people() -> None:
    data = people(RULED, 800)
    one, two, other = (
        fit_mixture(data, classes=(3,), seed=seed).sample(50, np.random.default_rng(0)) for seed in (1, 1, 2)
    )
    assert (one == two).all()
    assert not (one == other).all()


def chance_of(population: MixturePopulation, person: np.ndarray) -> float:
    """P(x) by its formula, one factor after the other."""
    total = 0.0
    for z, weight in enumerate(population.weights):
        chance = weight
        for table in (population.hub, *population.blocks):
            same = (table.values == person[list(table.columns)]).all(axis=1)
            chance *= table.masses[z][same].sum()
        for column, marginals in zip(population.singles, population.marginals, strict=True):
            chance *= marginals[z].masses[int(person[column] - marginals[z].attribute.first)]
        total += chance
    return total


@settings(max_examples=scaled(15), deadline=None, derandomize=True)
@given(seed=st.integers(0, 10**6), classes=st.integers(1, 3))
def test_frequencies_are_the_formula(seed: int, classes: int) -> None:
    """On a small domain: chances of all who obey the rules add up to 1, and 40,000 draws agree with them."""
    small = [
        {"name": "sex", "kind": "categorical", "values": ["f", "m"], "protected": True},
        {"name": "spouse", "kind": "categorical", "values": ["wife", "husband", "none"]},
        {"name": "a", "kind": "integer", "lower": 0, "upper": 2},
        {"name": "b", "kind": "integer", "lower": 0, "upper": 2},
        {"name": "c", "kind": "integer", "lower": 5, "upper": 7},
    ]
    schema = Schema.parse({"target": TARGET, "attributes": small, "rules": [*RULES["rules"], "a <= b"]})
    rng = np.random.default_rng(seed)
    domain = np.array(list(itertools.product(*(attribute.domain() for attribute in schema.attributes))))
    data = People(schema, domain[rng.integers(0, len(domain), 300)], None, np.arange(300), None)
    population = fit_mixture(data, classes=(classes,), seed=seed)
    chances = np.array([chance_of(population, person) for person in domain])
    assert chances.sum() == pytest.approx(1)
    assert (chances[~schema.obeys_rules(domain)] == 0).all()
    drawn = population.sample(40_000, rng)
    place = {tuple(person): i for i, person in enumerate(domain)}
    found = np.bincount([place[tuple(row)] for row in drawn], minlength=len(domain)) / len(drawn)
    assert np.abs(found - chances).max() < 6 * np.sqrt(chances.max() / len(drawn))


def test_uniform_is_everyone_who_obeys_the_rules() -> None:
    population = uniform_mixture(RULED)
    assert len(population.hub.values) == 4
    assert len(population.blocks[0].values) == 3
    drawn = population.sample(5000, np.random.default_rng(0))
    assert RULED.obeys_rules(drawn).all()
    assert np.bincount(drawn[:, 0].astype(int), minlength=81)[18:].min() > 40


def test_what_a_name_stands_for() -> None:
    ruled, free = people(RULED, 300), people(FREE, 300)
    assert isinstance(choose_population("data", ruled), MixturePopulation)
    assert isinstance(choose_population("uniform", RULED), MixturePopulation)
    for plain in (
        choose_population("data", free),
        choose_population("data", ruled, as_published=True),
        choose_population("independent", ruled),
        choose_population("uniform", RULED, as_published=True),
    ):
        assert not isinstance(plain, MixturePopulation)
    with pytest.raises(OptionError, match="requires data"):
        choose_population("data", RULED)


@pytest.mark.full
def test_people_of_adult_obey_its_rules() -> None:
    """No one drawn breaks a rule, of independent attributes four in five; held-out people are likelier by 3.5 nats."""
    frame = datasets.load_dataset("adult", data_home=shared("data", "tabular")).frame
    plain = datasets.load_dataset("adult", data_home=shared("data", "tabular")).schema.with_protected(["sex"])
    years = frame.groupby("education", observed=True)["education_num"].first()
    schema = Schema.parse(
        plain.model_dump()
        | {
            "rules": [
                "relationship == Husband -> sex == Male",
                "relationship == Wife -> sex == Female",
                'relationship in {Husband, Wife} -> marital_status in {"Married-civ-spouse", "Married-AF-spouse"}',
            ],
            "dependencies": [{"between": ["education", "education_num"], "map": {k: int(v) for k, v in years.items()}}],
        }
    )
    data = encode(schema, frame)
    data = data.at(np.random.default_rng(0).permutation(len(data))[:10_000])
    population = fit_mixture(data, classes=(4,))
    rng = np.random.default_rng(1)
    drawn = population.sample(20_000, rng)
    assert schema.obeys_rules(drawn).all()
    assert (~schema.obeys_rules(product_of_marginals(data).sample(20_000, rng))).mean() > 0.8
    groups = strata_of(schema)
    gains = []
    for columns, classes in ((groups, 4), (((schema.position("sex"),),), 1)):
        coded = code_people(schema, columns, data.individuals)[1]
        fitted = fit_latent_classes(coded.at(np.arange(7000)), classes, np.random.default_rng(2))
        gains.append(fitted.log_likelihood(coded.at(np.arange(7000, 10_000)), unseen=1e-4).mean())
    assert gains[0] - gains[1] > 3.5


def test_rules_that_nobody_obeys_are_refused() -> None:
    impossible = Schema.parse(
        {"target": TARGET, "attributes": ATTRIBUTES, "rules": ["age > 90 or sex == m and age < 0"]}
    )
    with pytest.raises(OptionError, match="no one in the data obeys the rules"):
        fit_mixture(people(impossible, 50))
    with pytest.raises(OptionError, match="no values of age, sex obey"):
        uniform_mixture(impossible)


def test_rules_of_endless_values_are_not_listed() -> None:
    endless = Schema.parse({"target": TARGET, "attributes": ATTRIBUTES, "rules": ["debt < 1 -> school == low"]})
    with pytest.raises(OptionError, match="infinitely many joint values"):
        uniform_mixture(endless)


SCHEMA = Schema.parse(
    {
        "target": {"name": "y", "favourable": 1, "values": [0, 1]},
        "attributes": [
            {"name": "age", "kind": "integer", "lower": 18, "upper": 22},
            {"name": "sex", "kind": "categorical", "values": ["f", "m"], "protected": True},
            {"name": "debt", "kind": "real", "lower": -1, "upper": 3, "missing": "keep"},
        ],
    }
)


def independent_people(individuals: np.ndarray) -> People:
    return People(SCHEMA, individuals, None, np.arange(len(individuals)), None)


@given(st.integers(0, 2**32 - 1))
def test_samples_lie_in_the_domain(seed):
    rng = np.random.default_rng(seed)
    uniform = population.uniform_population(SCHEMA)
    drawn = uniform.sample(200, rng)
    assert SCHEMA.contains(drawn).all()
    assert SCHEMA.contains(population.product_of_marginals(independent_people(drawn[:5])).sample(200, rng)).all()


def test_marginals_are_the_frequencies_and_ignore_missing_values():
    rows = np.array([[18, 0, np.nan], [18, 1, 0.0], [19, 1, 0.1], [22, 1, 3.0]])
    product = population.product_of_marginals(independent_people(rows))
    assert product.marginals[0].masses.tolist() == [0.5, 0.25, 0, 0, 0.25]
    assert product.marginals[1].masses.tolist() == [0.25, 0.75]
    assert product.marginals[2].masses.sum() == pytest.approx(1)
    assert product.marginals[2].masses[-1] == pytest.approx(1 / 3)
    drawn = product.sample(40_000, np.random.default_rng(0))
    counts = np.bincount(drawn[:, 0].astype(int), minlength=23)[18:] / 40_000
    assert np.abs(counts - [0.5, 0.25, 0, 0, 0.25]).max() < 0.01  # > 4 standard errors
    assert not np.isin(drawn[:, 0], [20, 21]).any()


def test_an_attribute_never_seen_has_no_distribution():
    with pytest.raises(OptionError, match="'debt' has no value"):
        population.product_of_marginals(independent_people(np.array([[18, 0, np.nan]])))


def test_the_data_itself():
    rows = np.array([[18, 0, 0.0], [22, 1, 3.0]])
    drawn = population.DataPopulation(independent_people(rows)).sample(100, np.random.default_rng(0))
    assert {tuple(row) for row in drawn} == {tuple(row) for row in rows}


AGE = SCHEMA["age"].model_copy(update={"upper": 1e9})
WIDE = SCHEMA.model_copy(update={"attributes": (AGE, *SCHEMA.attributes[1:])})
AGES = np.array([18.0, 18, 19, 22, 1e9])


def wide_and_narrow():
    """The distribution of the same ages, over a domain that is listed and over one with a cell for each value."""
    listed = estimate_marginal(WIDE["age"], AGES)
    cells = np.zeros(6)
    cells[[0, 1, 4, 5]] = [0.4, 0.2, 0.2, 0.2]
    names = np.array([18, 19, 20, 21, 22, 1e9])
    return listed, Marginal(SCHEMA["age"].model_copy(update={"upper": 23}), cells), names


def test_a_wide_domain_is_listed_where_anybody_is():
    listed, _, _ = wide_and_narrow()
    assert listed.held_values().tolist() == [18, 19, 22, 1e9]
    assert listed.masses.tolist() == [0.4, 0.2, 0.2, 0.2]
    assert listed.masses_of(np.array([17.0, 18, 20, 22, 1e9])).tolist() == [0, 0.4, 0, 0.2, 0.2]
    found = listed.mass_between(np.array([18.0, 19, 20, 23]), np.array([18.0, 22, 21, 1e9]))
    assert found == pytest.approx([0.4, 0.4, 0, 0.2])
    older = listed.restrict(19, 1e6)
    assert older.held_values().tolist() == [19, 22]
    assert older.masses == pytest.approx([0.5, 0.5])


def test_a_wide_domain_draws_the_same_people():
    listed, dense, names = wide_and_narrow()
    one, other = (marginal.sample(500, np.random.default_rng(0)) for marginal in (listed, dense))
    assert one.tolist() == names[(other - 18).astype(int)].tolist()
    starts, ends = np.full(50, 19.0), np.full(50, 22.0)
    drawn = [marginal.draw_between(starts, ends, np.random.default_rng(1)).tolist() for marginal in (listed, dense)]
    assert drawn[0] == drawn[1]
    assert set(drawn[0]) == {19, 22}


def test_a_domain_of_a_billion_costs_no_memory():
    rows = np.column_stack([AGES, np.zeros(5), np.zeros(5)])
    tracemalloc.start()
    uniform = population.uniform_population(WIDE)
    product = population.product_of_marginals(People(WIDE, rows, None, np.arange(5), None))
    drawn = [one.sample(1000, np.random.default_rng(0)) for one in (uniform, product)]
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2e6
    assert all(WIDE.contains(rows).all() for rows in drawn)
    assert drawn[0][:, 0].mean() == pytest.approx(5e8, rel=0.1)
    assert set(drawn[1][:, 0]) == set(AGES)


def coded(codes: np.ndarray) -> CodedPeople:
    return CodedPeople(codes.astype(np.int64), codes.max(axis=0).astype(np.int64) + 1)


@settings(max_examples=scaled(40), deadline=None, derandomize=True)
@given(seed=st.integers(0, 10**6), classes=st.integers(1, 5))
def test_every_step_raises_what_is_maximised(seed: int, classes: int) -> None:
    rng = np.random.default_rng(seed)
    codes = rng.integers(0, rng.integers(2, 6), size=(80, 4))
    codes[rng.random(codes.shape) < 0.1] = -1
    codes[0] = np.maximum(codes[0], 0)
    people = CodedPeople(codes, np.full(4, 6))
    fitted = fit_latent_classes(people, classes, rng)
    assert (np.diff(fitted.progress) > -1e-9).all()
    assert fitted.weights.sum() == pytest.approx(1)
    for chances in fitted.chances:
        assert chances.sum(axis=1) == pytest.approx(np.ones(classes))


def test_the_likelihood_is_its_formula() -> None:
    """P(x) = sum_z pi_z prod_g P(x_g | z), person by person; a missing code counts as any."""
    rng = np.random.default_rng(3)
    model = LatentClasses(np.array([0.3, 0.7]), tuple(rng.dirichlet(np.ones(3), 2) for _ in range(2)), ())
    codes = np.array([[0, 2], [1, 1], [-1, 0], [2, -1], [-1, -1]])
    seen = [[(g, code) for g, code in enumerate(row) if code >= 0] for row in codes]
    products = [[np.prod([model.chances[g][z, code] for g, code in row]) for z in range(2)] for row in seen]
    expected = [np.log(np.dot(model.weights, product)) for product in products]
    found = model.log_likelihood(CodedPeople(codes, np.array([3, 3])), unseen=1e-9)
    assert found == pytest.approx(expected)


def test_a_code_that_no_class_knows_has_the_least_chance() -> None:
    model = LatentClasses(np.ones(1), (np.array([[1.0, 0.0]]),), ())
    people = CodedPeople(np.array([[0], [1]]), np.array([2]))
    assert model.log_likelihood(people, unseen=0.01) == pytest.approx([0.0, np.log(0.01)])


def test_a_planted_mixture_is_found() -> None:
    """Two classes, of 30 and 70 %, over six attributes: weights and chances come back."""
    rng = np.random.default_rng(0)
    planted = [rng.dirichlet(np.full(4, 0.4), 2) for _ in range(6)]
    latent = (rng.random(20_000) > 0.3).astype(int)
    codes = np.stack(
        [(rng.random(len(latent))[:, None] > np.cumsum(chances, axis=1)[latent]).sum(axis=1) for chances in planted],
        axis=1,
    )
    fitted = fit_latent_classes(coded(np.minimum(codes, 3)), 2, rng)
    order = np.argsort(fitted.weights)
    assert fitted.weights[order] == pytest.approx([0.3, 0.7], abs=0.03)
    for chances, truth in zip(fitted.chances, planted, strict=True):
        assert np.abs(chances[order] - truth[:, : chances.shape[1]]).max() < 0.04


def test_one_class_is_frequencies() -> None:
    codes = np.array([[0, 1], [0, 0], [1, 1], [-1, 1]])
    fitted = fit_latent_classes(CodedPeople(codes, np.array([2, 2])), 1, np.random.default_rng(0))
    assert fitted.chances[0].ravel() == pytest.approx([2 / 3, 1 / 3])
    assert fitted.chances[1].ravel() == pytest.approx([1 / 4, 3 / 4])

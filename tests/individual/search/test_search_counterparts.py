"""A search among people who can exist: linked attributes move along, rules and clear absences in the data leave out."""

import runpy

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from couples import CHILD, EVERYBODY, HUSBAND, SCHEMA, WIDOW, WIFE, possible
from evenhand.errors import OptionError
from evenhand.individual import search
from evenhand.individual.search.plausibility import ValuePairs, error_limits
from evenhand.individual.search.save import replay_cases
from evenhand.individual.search.space import ProfileSpace
from evenhand.mitigation import Findings
from evenhand.models import predict_labels
from evenhand.models.additive.network import network_from_dense
from evenhand.schema import People, Schema
from support import scaled


def network(seed: int) -> object:
    rng = np.random.default_rng(seed)
    layers = [(rng.normal(size=(7, 5)), rng.normal(size=5)), (rng.normal(size=(5, 1)), rng.normal(size=1))]
    return network_from_dense(SCHEMA, layers)


def groups_of_counterparts(names: tuple[str, ...]) -> list[list[np.ndarray]]:
    """Everybody who can exist, in groups of those who are each other's counterparts."""
    changing = SCHEMA.positions(names)
    groups: dict[tuple[float, ...], list[np.ndarray]] = {}
    for person in EVERYBODY:
        if possible(person):
            key = person.copy()
            if "sex" in names and person[2] in (HUSBAND, WIFE):
                key[2] = HUSBAND
            key[changing] = -1
            groups.setdefault(tuple(key.tolist()), []).append(person)
    return [group for group in groups.values() if len(group) > 1]


@settings(max_examples=scaled(25), deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from([("sex",), ("origin",), ("sex", "origin")]))
def test_finds_every_group_of_counterparts_that_is_decided_differently(seed, names):
    model = network(seed)
    result = search.search(model, SCHEMA, protected=list(names), samples=300, confidence=1 - 1e-9)
    flipping = [
        group
        for group in groups_of_counterparts(names)
        if len(set(predict_labels(model, np.array(group)).tolist())) > 1
    ]
    assert result.profiles == len(flipping)
    expected = {frozenset(tuple(person) for person in group) for group in flipping}
    table = result.table
    for row in range(len(table)):
        which = np.flatnonzero(table.compared[row])
        group = table.space.rows_as(np.tile(table.unprotected[row], (len(which), 1)), which)
        assert frozenset(tuple(person) for person in group.tolist()) in expected
    # The rate is that of people with a counterpart.
    n = sum(len(group) for group in groups_of_counterparts(names))
    (rate,) = result.rates
    assert rate.n + rate.without + rate.breaking == 300
    assert rate.n < 300
    assert rate.rate.low <= sum(map(len, flipping)) / n <= rate.rate.high


@pytest.mark.parametrize("method", ["frontier", "random", "aequitas", "maft", "sg", "adf"])
def test_no_method_reports_anybody_who_breaks_a_rule(method):
    model = network(3)
    result = search.search(model, SCHEMA, protected=["sex", "origin"], method=method, samples=0, budget=3_000, seeds=20)
    assert result.profiles
    table = result.table
    sides = table.space.sides(table.unprotected, table.pairs.sides)
    assert SCHEMA.obeys_rules(sides.reshape(-1, sides.shape[2])).all()
    labels = [predict_labels(model, sides[:, side]) for side in (0, 1)]
    assert (labels[0] != labels[1]).all()


def test_examples_and_tables_show_what_moves(tmp_path):
    # Hired from a score of 3 on: 1 for every grade, 2 for husbands, 1 for wives.
    model = network_from_dense(SCHEMA, [(np.array([[1, 0, 0, 2, 1, 0, 0]], dtype=float).T, np.array([-2.5]))])
    result = search.search(model, SCHEMA, protected=["sex"], samples=0)
    assert result.profiles == 3  # the couples of grade 1, by origin
    example = result.examples[0]
    assert (example.worse.values, example.worse.moved) == ({"sex": "f"}, {"role": "wife"})
    assert (example.better.values, example.better.moved) == ({"sex": "m"}, {"role": "husband"})
    assert example.unprotected.keys() == {"grade", "origin"}
    frame = result.to_frame()
    assert frame["role"].tolist() == ["wife"] * 3
    assert frame["role (better)"].tolist() == ["husband"] * 3
    for source in (result, search.SearchResult.from_json(result.to_json())):
        found = Findings.read([source], SCHEMA)
        assert SCHEMA.obeys_rules(found.profiles[0].individuals).all()
    search.save_tests(result, tmp_path / "test_found.py")
    saved = runpy.run_path(str(tmp_path / "test_found.py"))
    assert saved["CASES"][0][1] == [{"sex": "f", "role": "wife"}, {"sex": "m", "role": "husband"}]
    assert replay_cases(model, saved["SCHEMA"], saved["CASES"]) == [["no", "yes"]] * 3


def test_as_published_the_attribute_changes_alone():
    model = network(5)
    plain = search.search(model, SCHEMA.without_rules(), protected=["sex"], samples=0, budget=10_000)
    published = search.search(model, SCHEMA, protected=["sex"], samples=0, budget=10_000, as_published=True)
    assert published.profiles == plain.profiles
    assert (published.table.unprotected == plain.table.unprotected).all()
    with pytest.raises(OptionError, match="'sex'"):
        search.search(model, SCHEMA, protected=["sex"], constraints=["sex == f"], as_published=True)


def test_a_constraint_may_name_what_is_protected():
    space = ProfileSpace(SCHEMA.without_rules(), ["sex"], constraints=["role == widow -> sex == f", "grade < 3"])
    profiles = np.array([[0, WIDOW, 0], [0, CHILD, 0], [3, CHILD, 0]], dtype=float)
    assert space.is_admissible(profiles).tolist() == [False, True, False]
    assert space.compared(profiles).tolist() == [[True, False], [True, True], [False, False]]


# What the data say: the protected value counts, one error does not, and long numbers are not lumped together.


def couples(n: int, errors: int) -> People:
    """Husbands are men and wives are women, but for some errors; two in three are neither; age follows the role."""
    rng = np.random.default_rng(0)
    sex = rng.integers(0, 2, n)
    role = np.where(rng.random(n) < 1 / 3, np.where(sex == 1, HUSBAND, WIFE), CHILD)
    sex[np.flatnonzero(role == HUSBAND)[:errors]] = 0
    age = np.where(role == CHILD, rng.integers(0, 90, n), rng.integers(18, 90, n))
    schema = Schema.parse(
        {
            "target": {"name": "hired", "favourable": "yes", "values": ["no", "yes"]},
            "attributes": [
                {"name": "age", "kind": "integer", "lower": 0, "upper": 99},
                {"name": "sex", "kind": "categorical", "values": ["f", "m"], "protected": True},
                {"name": "role", "kind": "categorical", "values": ["child", "husband", "wife", "widow"]},
            ],
        }
    )
    return People(schema, np.stack([age, sex, role], axis=1).astype(float), None, np.arange(n), None)


@pytest.mark.parametrize("errors", [0, 1])
def test_a_female_husband_is_not_plausible_though_one_is_in_the_data(errors):
    space = ProfileSpace(couples(3_000, errors))
    profiles = np.array([[40, HUSBAND], [40, WIFE], [40, CHILD]], dtype=float)
    assert space.is_comparable(profiles, by_data=True).tolist() == [False, False, True]
    published = ProfileSpace(couples(3_000, errors), as_published=True)
    assert published.is_comparable(profiles, by_data=True).tolist() == [True, True, True]


def test_few_people_of_a_group_do_not_say_what_it_cannot_be():
    space = ProfileSpace(couples(60, 0))
    assert space.is_comparable(np.array([[40, HUSBAND], [40, CHILD]], dtype=float), by_data=True).all()


def test_a_long_number_is_compared_by_ranges():
    data = couples(12_000, 0)
    pairs = ValuePairs.of(data.schema.attributes, data.individuals, [1])
    young = np.array([[age, 1, HUSBAND] for age in (3, 10, 17, 20, 60)], dtype=float)
    assert pairs.all_pairs_occur(young).tolist() == [False, False, False, True, True]
    coarse = ValuePairs.of(data.schema.attributes, data.individuals, [1], as_published=True)
    assert coarse.all_pairs_occur(young).tolist()[2:] == [True, True, True]  # 17 shares a bin with 18
    # One husband of three years is an error in the data; several would not be.
    for more, plausible in ((1, False), (3, True)):
        changed = data.individuals.copy()
        changed[np.flatnonzero(changed[:, 2] == HUSBAND)[:more], 0] = 3
        occurs = ValuePairs.of(data.schema.attributes, changed, [1])
        assert occurs.all_pairs_occur(young[:1]).tolist() == [plausible]


def test_what_an_error_is_by_hand():
    # Poisson with mean e / 20: none with probability below 1 % from e = 93 on, at most one from e = 133 on.
    expected = np.array([92.0, 93.0, 132.0, 133.0])
    assert (expected > error_limits(1_000)[0]).tolist() == [False, True, True, True]
    assert (expected > error_limits(1_000)[1]).tolist() == [False, False, False, True]
    assert error_limits(10_000)[2:].tolist() == [np.inf]
    assert error_limits(20_000)[2] < 1e6

"""Where a search moves, against enumeration of small domains."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenhand.errors import OptionError
from evenhand.individual.search.plausibility import ValuePairs
from evenhand.individual.search.space import ProfileSpace
from evenhand.schema import Attribute, People, Schema
from support import scaled

SCHEMA = Schema.parse(
    {
        "target": {"name": "hired", "favourable": "yes", "values": ["no", "yes"]},
        "attributes": [
            {"name": "grade", "kind": "integer", "lower": 2, "upper": 5},
            {"name": "sex", "kind": "categorical", "values": ["f", "m"], "protected": True},
            {"name": "job", "kind": "categorical", "values": ["cook", "clerk", "driver"]},
            {"name": "level", "kind": "ordinal", "values": ["low", "mid", "high"]},
        ],
    }
)
DOMAIN = np.array(list(itertools.product(range(2, 6), range(3), range(3))), dtype=float)

rows = st.lists(st.integers(0, len(DOMAIN) - 1), min_size=1, max_size=12).map(lambda which: DOMAIN[which])


def people(profiles: np.ndarray, schema: Schema = SCHEMA) -> People:
    """People who have these unprotected parts; their sexes alternate."""
    individuals = np.insert(profiles, 1, np.arange(len(profiles)) % 2, axis=1)
    return People(schema, individuals, None, np.arange(len(profiles)), None)


def valid_by_definition(profile: np.ndarray, data: np.ndarray) -> bool:
    return all(
        any(other[i] == profile[i] and other[j] == profile[j] for other in data)
        for i in range(len(profile))
        for j in range(len(profile))
    )


@settings(max_examples=scaled(60))
@given(rows)
def test_valid_is_that_every_pair_of_values_occurs(data):
    space = ProfileSpace(people(data))
    expected = [valid_by_definition(profile, data) for profile in DOMAIN]
    assert space.is_comparable(DOMAIN, by_data=True).tolist() == expected
    # Many at a time are looked at in another way.
    many = np.tile(DOMAIN, (80, 1))
    assert space.is_comparable(many, by_data=True).tolist() == expected * 80


def test_numbers_with_many_values_are_binned_at_quantiles():
    wide = Attribute(name="income", kind="real", lower=0, upper=1000)
    small = Attribute(name="children", kind="integer", lower=0, upper=3)
    income = np.linspace(0, 100, 160)
    data = np.stack([income, (income > 50).astype(float)], axis=1)
    pairs = ValuePairs.of((wide, small), data)
    asked = np.array([[3.21, 0.0], [3.21, 1.0], [97.0, 1.0], [999.0, 1.0], [3.21, 2.0]])
    # 3.21 stands for the lowest sixteenth, where nobody has a child; 999 for the highest.
    assert pairs.all_pairs_occur(asked).tolist() == [True, False, True, True, False]


def test_more_than_64_values_use_several_words():
    attribute = Attribute(name="country", kind="categorical", values=tuple(f"c{i}" for i in range(100)))
    other = Attribute(name="job", kind="categorical", values=tuple(f"j{i}" for i in range(90)))
    rng = np.random.default_rng(0)
    data = np.stack([rng.integers(0, 100, 300), rng.integers(0, 90, 300)], axis=1).astype(float)
    pairs = ValuePairs.of((attribute, other), data)
    known = {tuple(row) for row in data.tolist()}
    asked = np.array(list(itertools.product(range(100), range(90))), dtype=float)
    assert pairs.all_pairs_occur(asked).tolist() == [tuple(row) in known for row in asked.tolist()]
    assert pairs.all_pairs_occur(asked[:1000]).tolist() == [tuple(row) in known for row in asked[:1000].tolist()]


@settings(max_examples=scaled(40))
@given(rows, st.integers(0, 2**32 - 1), st.booleans())
def test_moves_and_samples_stay_where_people_could_be(data, seed, constrained):
    rng = np.random.default_rng(seed)
    space = ProfileSpace(people(data), constraints=["grade >= 3 or job == cook"] if constrained else [])
    start = space.people[space.is_legal(space.people)]
    directions = rng.integers(-1, 2, size=start.shape).astype(float)
    moved = space.move(start, directions, rng)
    assert space.is_admissible(moved).all()
    towards = np.sign(moved - start)
    assert ((towards == 0) | (towards == directions)).all()
    assert (np.abs(moved - start) <= 1).all()
    for sample in (space.uniform(20, rng), space.draw_near(20, rng, changes=2)):
        assert space.is_admissible(sample).all()
        assert len(sample) <= 20


def test_a_move_goes_as_far_as_it_may():
    # From (2, cook, low) towards (3, clerk, mid): a clerk at grade 3 is known, and so is every level but mid.
    data = np.array([[2, 0, 0], [3, 1, 0], [3, 0, 0], [2, 1, 2]], dtype=float)
    space = ProfileSpace(people(data))
    moved = space.move(data[:1], np.ones((1, 3)), np.random.default_rng(0))
    assert moved.tolist() == [[3, 1, 0]]
    free = ProfileSpace(people(data), allow_infeasible=True)
    assert free.move(data[:1], np.ones((1, 3)), np.random.default_rng(0)).tolist() == [[3, 1, 1]]
    # and never over the domain's edge
    assert free.move(np.array([[5.0, 2, 2]]), np.ones((1, 3)), np.random.default_rng(0)).tolist() == [[5, 2, 2]]


def test_where_hardly_anybody_is_possible_a_walk_from_people_in_the_data_samples():
    # Of 15 columns at most one is 1: 16 of 32,768 profiles are admissible, all one or two changes apart.
    names = [f"a{i}" for i in range(15)]
    attributes = [{"name": name, "kind": "integer", "lower": 0, "upper": 1} for name in names]
    sex = {"name": "sex", "kind": "categorical", "values": ["f", "m"], "protected": True}
    schema = Schema.parse({"target": {"name": "t", "favourable": 1}, "attributes": [sex, *attributes]})
    rows = np.concatenate([np.zeros((1, 15)), np.eye(15)])
    data = People(schema, np.insert(rows, 0, 0.0, axis=1), None, np.arange(16), None)
    space = ProfileSpace(data, constraints=[" + ".join(names) + " <= 1"])
    sample = space.uniform(4800, np.random.default_rng(0))
    assert len(sample) == 4800
    assert space.is_admissible(sample).all()
    counts = np.unique(sample, axis=0, return_counts=True)[1]
    assert len(counts) == 16
    assert counts == pytest.approx(np.full(16, 300), abs=90)  # uniform: 300 each, five standard deviations


def test_rows_and_split_are_inverse():
    space = ProfileSpace(people(DOMAIN))
    individuals = space.rows(DOMAIN)
    assert individuals.shape == (72, 4)
    assert individuals[:2].tolist() == [[2, 0, 0, 0], [2, 1, 0, 0]]
    profiles, which = space.split(individuals)
    assert (profiles == np.repeat(DOMAIN, 2, axis=0)).all()
    assert which.tolist() == [0, 1] * 36
    assert (space.rows_as(profiles, which) == individuals).all()


def test_keys_differ_exactly_for_different_profiles():
    assert len(set(ProfileSpace(SCHEMA).keys(DOMAIN).tolist())) == len(DOMAIN)
    attributes = [{"name": f"a{i}", "kind": "integer", "lower": 0, "upper": 1} for i in range(100)]
    reals = [{"name": "r", "kind": "real", "lower": -1, "upper": 1}]
    described = {"target": {"name": "t", "favourable": 1}, "attributes": [*attributes, *reals]}
    space = ProfileSpace(Schema.parse(described), ["a0"])
    rng = np.random.default_rng(0)
    profiles = np.column_stack([rng.integers(0, 2, size=(20_000, 99)), rng.random(20_000)])
    keys = space.keys(np.concatenate([profiles, profiles]))
    assert len(set(keys.tolist())) == 20_000
    assert (keys[:20_000] == keys[20_000:]).all()
    assert space.keys(np.zeros((1, 100))) == space.keys(-np.zeros((1, 100)))


def test_seeds_take_turns_between_clusters():
    far = np.repeat(np.array([[2, 0, 0], [5, 2, 2]], dtype=float), [90, 10], axis=0)
    seeds = ProfileSpace(people(far)).seeds(8, np.random.default_rng(1))
    assert sorted(np.bincount(seeds[:, 0].astype(int), minlength=6)[[2, 5]].tolist()) == [4, 4]
    assert len(ProfileSpace(SCHEMA).seeds(7, np.random.default_rng(1))) == 7


def test_people_with_missing_values_are_no_seeds():
    described = SCHEMA.model_dump()
    described["attributes"][0]["missing"] = "keep"
    schema = Schema.parse(described)
    data = people(np.array([[np.nan, 0, 0], [3, 1, 1]]), schema)
    space = ProfileSpace(data)
    assert space.people.tolist() == [[3, 1, 1]]
    assert (space.seeds(5, np.random.default_rng(0)) == [3, 1, 1, 1]).all()
    with pytest.raises(OptionError, match="every row of the data has a missing value"):
        ProfileSpace(people(np.array([[np.nan, 0, 0]]), schema))


def test_faults_are_named():
    with pytest.raises(OptionError, match="named twice"):
        ProfileSpace(SCHEMA, ["sex", "sex"])
    with pytest.raises(OptionError, match="every attribute is protected"):
        ProfileSpace(SCHEMA, list(SCHEMA.names))

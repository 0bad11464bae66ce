"""The depth-first search on real people: against the count cube with the same permutations, and where none fits."""

from __future__ import annotations

import re
import time

import numpy as np
import pandas as pd
import pytest

from evenhand import datasets
from evenhand.schema import Schema, encode
from evenhand.subgroup import Config, deep, exact
from evenhand.subgroup.candidates import count
from evenhand.subgroup.cells import cut
from evenhand.subgroup.chance import largest_gap, maxima
from evenhand.subgroup.cube import membership
from evenhand.subgroup.family import family
from evenhand.subgroup.floors import floors
from evenhand.subgroup.gaps import groups_of, tails
from evenhand.subgroup.measures import Outcome
from evenhand.subgroup.tabulate import tabulate
from support import shared

CRIME = [
    *("racepctblack", "racePctWhite", "racePctAsian", "racePctHisp"),
    *("agePct12t21", "agePct12t29", "agePct16t24", "agePct65up", "MalePctDivorce", "FemalePctDiv"),
]


def check_against_cube(rules, table, limits, permutations=60):
    """Everything that both ways say of a family, with permutations from the same random numbers."""
    cube = count(rules, table, limits).candidates
    known = deep.outcomes(table, permutations, np.random.default_rng(3))
    least = max(limits.share, limits.people)
    result = deep.search(rules, table, known, least=least, least_rest=least, rank="z", keep=50)
    assert (result.rule_sets, result.tested, result.passed) == (rules.size, len(cube), cube.copies.sum())
    shape = tails(groups_of(table, cube.size, cube.total, cube.squares), table.skewness)
    inside = membership(rules, table.cells, cube.chosen)
    drawn = maxima(table, largest_gap(shape, lambda where: inside[where], len(table.cells.sizes)), permutations,
                   np.random.default_rng(3))  # fmt: skip
    np.testing.assert_allclose(result.maxima, drawn.values, rtol=1e-5, atol=1e-4)
    z = np.abs(shape.z(cube.total.sum(axis=1)))
    np.testing.assert_allclose(result.top.score, np.sort(z)[::-1][:50], rtol=1e-9)
    assert result.standing == (z > result.critical).sum()
    described = {tuple(chosen) for chosen in cube.chosen.tolist()}
    assert all(tuple(chosen) in described for chosen in result.top.chosen.tolist())


@pytest.mark.parametrize(
    ("name", "attributes", "per"),
    [
        ("adult", ("sex", "race", "age"), None),
        ("adult", ("sex", "race"), "age"),
        ("german", ("sex", "age"), None),
    ],
)
def test_bundled_people_at_any_depth(name, attributes, per):
    data = datasets.load(name)
    people = encode(data.schema, data.frame)
    cuts, codes = cut(people, attributes)
    stratum = None if per is None else cut(people, (per,))[1][:, 0]
    table = tabulate(codes, people.favourable.astype(float), counted=True, stratum=stratum)
    check_against_cube(family(cuts), table, floors(0.05, 30, len(people)))


@pytest.fixture(scope="module")
def communities():
    columns = [*CRIME, "ViolentCrimesPerPop"]
    frame = pd.read_csv(shared("data", "tabular", "communities_crime.csv.xz"), usecols=columns)
    attributes = [{"name": name, "kind": "real", "lower": 0, "upper": 1} for name in CRIME]
    target = {"name": "high", "favourable": 0, "values": [0, 1]}
    schema = Schema.model_validate({"target": target, "attributes": attributes})
    people = encode(schema, frame[CRIME])
    high = frame["ViolentCrimesPerPop"] > frame["ViolentCrimesPerPop"].median()
    return people, frame[CRIME].assign(high=high)


@pytest.fixture(scope="module")
def crime(communities):
    people, frame = communities
    cuts, codes = cut(people, CRIME)
    return frame, cuts, tabulate(codes, frame["high"].to_numpy(float), counted=True)


def test_crime_agrees_with_the_cube_of_few_attributes(crime):
    _, cuts, table = crime
    check_against_cube(family(cuts[:3], 2), table, floors(0.05, 30, table.people))


def test_crime_has_nineteen_million_rule_sets_to_depth_three(crime):
    frame, cuts, table = crime
    rules = family(cuts, 3)
    known = deep.outcomes(table, 20, np.random.default_rng(0))
    found = deep.search(rules, table, known, least=100, least_rest=100, keep=500, margin=0.05)
    assert found.rule_sets == found.looked_at == 19_027_440
    assert found.rule_sets > found.passed > found.tested > found.standing > 10**6
    assert found.counted
    listed = deep.listed(rules, table, found)
    assert len(listed) == 500
    assert len(np.unique(listed.prints)) == 500
    for i in range(0, 500, 50):
        inside = np.ones(len(frame), dtype=bool)
        for name, rule in rules.describe(listed.chosen[i]).items():
            inside &= np.array([rule.contains(number) for number in frame[name]])
        assert listed.size[i].sum() == inside.sum()
        assert listed.total[i].sum() == frame["high"][inside].sum()


def test_a_search_that_time_ends_says_how_far_it_came(communities):
    people, frame = communities
    outcome = Outcome(np.arange(len(people)), frame["high"].to_numpy(float), True)
    config = Config(attributes=tuple(CRIME), depth=3, permutations=100, time_limit=0.1)
    result = exact.examine(people, lambda: outcome, config, deadline=time.perf_counter())
    assert result.interrupted
    [note] = [note for note in result.notes if note.startswith("Time was up after ")]
    seen, every = (int(number.replace(",", "")) for number in re.findall(r"[\d,]{2,}|\d", note)[:2])
    assert seen < every == result.rule_sets == 19_027_440
    assert result.tested <= seen

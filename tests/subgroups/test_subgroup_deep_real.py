"""The depth-first search on real people: against the count cube with the same permutations, and where none fits."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest

from evenhand import datasets
from evenhand.core.time_limit import TimeLimit
from evenhand.schema import Schema, encode
from evenhand.subgroups import SubgroupConfig, exact
from evenhand.subgroups.candidates import count_family
from evenhand.subgroups.cuts import cut_attributes
from evenhand.subgroups.deep.depth_first import DepthFirstConfig, list_candidates, permute_outcomes, search_depth_first
from evenhand.subgroups.family import build_family
from evenhand.subgroups.gaps import correct_tails, largest_gap_to_rest, sample_permutation_null
from evenhand.subgroups.measures import MeasuredOutcomes, minimum_sizes
from evenhand.subgroups.tabulate import cells_of_rule_sets, tabulate_people
from support import shared

CRIME = [
    *("racepctblack", "racePctWhite", "racePctAsian", "racePctHisp"),
    *("agePct12t21", "agePct12t29", "agePct16t24", "agePct65up", "MalePctDivorce", "FemalePctDiv"),
]


def check_against_cube(rules, table, limits, permutations=60):
    """Everything that both ways say of a family, with permutations from the same random numbers."""
    cube = count_family(rules, table, limits)
    known = permute_outcomes(table, permutations, np.random.default_rng(3))
    least = max(limits.share, limits.people)
    result = search_depth_first(rules, table, known, DepthFirstConfig(min_inside=least, min_outside=least, keep=50))
    assert (result.rule_sets, result.tested, result.passed) == (rules.size, len(cube), cube.copies.sum())
    shape = correct_tails(cube.groups(), table.skewness)
    inside = cells_of_rule_sets(rules, table.cells, cube.chosen)
    drawn = sample_permutation_null(
        table,
        largest_gap_to_rest(shape, lambda where: inside[where], len(table.cells.sizes)),
        permutations,
        np.random.default_rng(3),
    )
    np.testing.assert_allclose(result.maxima, drawn.values, rtol=1e-5, atol=1e-4)
    z = np.abs(shape.z(cube.moments[1].sum(axis=1)))
    np.testing.assert_allclose(result.top["score"], np.sort(z)[::-1][:50], rtol=1e-9)
    assert result.significant == (z > result.critical).sum()
    described = {tuple(chosen) for chosen in cube.chosen.tolist()}
    assert all(tuple(chosen) in described for chosen in result.top["chosen"].tolist())


@pytest.mark.parametrize(
    ("name", "attributes", "per"),
    [
        ("adult", ("sex", "race", "age"), None),
        ("adult", ("sex", "race"), "age"),
        ("german", ("sex", "age"), None),
    ],
)
def test_bundled_people_at_any_depth(name, attributes, per):
    data = datasets.load_dataset(name)
    people = encode(data.schema, data.frame)
    cuts, codes = cut_attributes(people, attributes)
    stratum = None if per is None else cut_attributes(people, (per,))[1][:, 0]
    table = tabulate_people(codes, people.favourable.astype(float), counted=True, stratum=stratum)
    check_against_cube(build_family(cuts), table, minimum_sizes(0.05, 30, len(people)))


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
    cuts, codes = cut_attributes(people, CRIME)
    return frame, cuts, tabulate_people(codes, frame["high"].to_numpy(float), counted=True)


def test_crime_agrees_with_the_cube_of_few_attributes(crime):
    _, cuts, table = crime
    check_against_cube(build_family(cuts[:3], 2), table, minimum_sizes(0.05, 30, table.people))


def test_crime_has_nineteen_million_rule_sets_to_depth_three(crime):
    frame, cuts, table = crime
    rules = build_family(cuts, 3)
    known = permute_outcomes(table, 20, np.random.default_rng(0))
    found = search_depth_first(
        rules, table, known, DepthFirstConfig(min_inside=100, min_outside=100, keep=500, margin=0.05)
    )
    assert found.rule_sets == found.looked_at == 19_027_440
    assert found.rule_sets > found.passed > found.tested > found.significant > 10**6
    assert found.counted
    listed = list_candidates(rules, table, found)
    assert len(listed) == 500
    assert len(np.unique(found.top["key"])) == 500
    for i in range(0, 500, 50):
        inside = np.ones(len(frame), dtype=bool)
        for name, rule in rules.describe(listed.chosen[i]).items():
            inside &= np.array([rule.contains(number) for number in frame[name]])
        assert listed.moments[0, i].sum() == inside.sum()
        assert listed.moments[1, i].sum() == frame["high"][inside].sum()


def test_a_search_that_time_ends_says_how_far_it_came(communities):
    people, frame = communities
    outcome = MeasuredOutcomes(np.arange(len(people)), frame["high"].to_numpy(float), True)
    config = SubgroupConfig(attributes=tuple(CRIME), depth=3, permutations=100, time_limit=0.1)
    result = exact.search_exactly(people, lambda: outcome, config, limit=TimeLimit.after(0.0))
    assert result.interrupted
    [note] = [note for note in result.notes if note.startswith("The time limit was reached after ")]
    seen, every = (int(number.replace(",", "")) for number in re.findall(r"[\d,]{2,}|\d", note)[:2])
    assert seen < every == result.rule_sets == 19_027_440
    assert result.tested <= seen

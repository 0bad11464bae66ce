"""Cells, rules and families: ends that one can read, nobody left out, every rule once."""

import itertools

import numpy as np
import pytest
from deciders import SCHEMA, people
from hypothesis import example, given
from hypothesis import strategies as st
from naive import rules_of

from evenhand.errors import OptionError, SchemaError
from evenhand.schema import Attribute
from evenhand.subgroup import Range, RuleSet
from evenhand.subgroup.cells import Cut, cut, cut_entries
from evenhand.subgroup.family import MOST_RULES, family, incidence
from evenhand.subgroup.members import members
from evenhand.subgroup.rules import words

AGE = Attribute(name="age", kind="integer", lower=0, upper=120)
SHARE = Attribute(name="share", kind="real", lower=-1e6, upper=1e6)


def test_ages_from_17_to_90_are_cut_into_decades():
    found, codes = cut_entries(AGE, np.arange(17, 91, dtype=float), 10)
    assert found.edges == tuple(range(10, 101, 10))
    assert found.names[0] == "10 to 19"
    assert found.names[-1] == "90 to 99"
    assert codes[np.arange(17, 91) == 40].tolist() == [3]
    assert found.rule(np.arange(9) == 3) == Range(low=40, high=49)
    assert found.rule(np.arange(9) >= 3).words() == "40 or more"
    assert found.rule(np.arange(9) < 3).words() == "39 or less"


def test_shares_are_cut_into_tenths_as_one_writes_them():
    found, codes = cut_entries(SHARE, np.array([0.0, 0.3, 0.55, 1.0]), 10)
    assert found.edges == (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
    assert codes.tolist() == [0, 3, 5, 9]
    assert found.rule(np.arange(10) == 3).words() == "0.3 to under 0.4"
    assert found.names[3] == "0.3 to under 0.4"
    assert found.names[9] == "0.9 to 1"


def test_few_whole_numbers_are_cells_of_their_own():
    found, _ = cut_entries(AGE, np.array([3.0, 5.0, 7.0]), 10)
    assert found.names == ("3", "4", "5", "6", "7")
    assert found.rule([False, True, True, False, False]) == Range(low=4, high=5)


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=60), st.integers(2, 12))
@example([0.0, 2.225073858507e-311], 2)
@example([1e6, 1e6 + 2e-10], 2)
def test_every_number_lies_in_the_rule_of_its_cell(numbers, bins):
    found, codes = cut_entries(SHARE, np.array(numbers), bins)
    assert len(found.names) <= bins + 1
    for number, code in zip(numbers, codes, strict=True):
        for first, last in itertools.combinations_with_replacement(range(len(found.names)), 2):
            rule = found.rule([first <= cell <= last for cell in range(len(found.names))])
            assert rule.contains(number) == (first <= code <= last)


@given(st.lists(st.integers(0, 120), min_size=1, max_size=60), st.integers(2, 12))
def test_every_whole_number_lies_in_the_rule_of_its_cell(numbers, bins):
    found, codes = cut_entries(AGE, np.array(numbers, dtype=float), bins)
    assert len(found.names) <= bins
    assert len(set(np.diff(found.edges))) == 1
    for number, code in zip(numbers, codes, strict=True):
        for cell in range(len(found.names)):
            assert found.rule(np.arange(len(found.names)) == cell).contains(number) == (cell == code)


def test_a_missing_value_is_a_cell_of_its_own():
    found, codes = cut_entries(AGE, np.array([20.0, np.nan, 21.0]), 10)
    assert (found.names, codes.tolist()) == (("20", "21", "missing"), [0, 2, 1])
    assert found.rule([False, False, True]) == ("missing",)
    assert [row.tolist() for row in incidence(found)] == [
        [True, False, False], [True, True, False], [False, True, False], [False, False, True]
    ]  # fmt: skip
    race = Attribute(name="race", kind="categorical", values=("a", "b", "c"), missing="keep")
    found, codes = cut_entries(race, np.array([2.0, np.nan, 0.0]), 10)
    assert (found.names, codes.tolist()) == (("a", "c", "missing"), [1, 2, 0])
    assert len(incidence(found)) == 6


def test_everybody_missing_leaves_no_rule():
    found, _ = cut_entries(AGE, np.array([np.nan, np.nan]), 10)
    assert len(incidence(found)) == 0


@pytest.mark.parametrize(("cells", "ordered"), [(2, False), (5, False), (10, True), (1, True), (7, True)])
def test_every_rule_is_there_once(cells, ordered):
    found = incidence(Cut("a", tuple(map(str, range(cells))), None, ordered))
    assert {frozenset(np.flatnonzero(row).tolist()) for row in found} == set(rules_of(range(cells), ordered))
    assert len(found) == len(rules_of(range(cells), ordered))


def test_many_values_leave_short_subsets_and_what_they_leave_out():
    found = incidence(Cut("country", tuple(map(str, range(41))), None, ordered=False))
    sizes = found.sum(axis=1)
    assert len(found) <= MOST_RULES
    assert len(np.unique(found, axis=0)) == len(found)
    assert set(sizes) == {1, 40}
    assert set(incidence(Cut("state", tuple(map(str, range(14))), None, ordered=False)).sum(axis=1)) == {
        1, 2, 3, 11, 12, 13
    }  # fmt: skip


def test_the_published_count_of_rules():
    """Two genders, five races, ten bins of age: 30 rules on race; with single values 17, 80 and 100 rule sets."""
    race = Cut("race", tuple("abcde"), None, ordered=False)
    assert len(incidence(race)) == 30
    singles = [np.concatenate([np.ones((1, n), bool), np.eye(n, dtype=bool)]) for n in (2, 5, 10)]
    everything = family((race,) * 3)
    counts = [type(everything)((race,) * 3, tuple(singles), depth).size for depth in (1, 2, 3)]
    assert counts == [17, 17 + 80, 17 + 80 + 100]


@given(st.lists(st.tuples(st.integers(1, 4), st.booleans()), min_size=1, max_size=3), st.integers(1, 3))
def test_the_size_of_a_family(described, depth):
    cuts = [Cut(f"a{i}", tuple(map(str, range(cells))), None, ordered) for i, (cells, ordered) in enumerate(described)]
    found = family(cuts, depth)
    counted = sum(
        0 < sum(row > 0 for row in chosen) <= depth for chosen in itertools.product(*(range(n) for n in found.shape))
    )
    assert found.size == counted


def test_rules_say_who_is_in_them():
    world = people(300, seed=3)
    cuts, codes = cut(world, ("sex", "race", "age"), 10)
    found = family(cuts)
    rng = np.random.default_rng(0)
    for _ in range(40):
        chosen = [int(rng.integers(n)) for n in found.shape]
        inside = np.all(
            [rules[row][codes[:, i]] for i, (rules, row) in enumerate(zip(found.rules, chosen, strict=True))], axis=0
        )
        assert (members(world, found.describe(chosen)) == inside).all()


def test_words():
    every = {"race": ("a", "b", "c", "d"), "sex": ("f", "m")}
    assert words({"race": ("a", "c"), "age": Range(low=40, high=59)}, every) == "race a or c, age 40 to 59"
    assert words({"race": ("a", "b", "c"), "sex": ("m",)}, every) == "race not d, sex m"
    assert words({"race": ("a", "b", "c")}) == "race a, b or c"
    assert words({"race": ("a", "b", "d")}, {"race": tuple("abdxy")}) == "race neither x nor y"
    assert RuleSet(rules={"age": Range(high=0.4, closed=False)}).words() == "age under 0.4"
    assert Range(low=3, high=3).words() == "3"
    assert Range().words() == "any number"
    assert RuleSet.model_validate_json(RuleSet(rules={"age": Range(low=1), "sex": ("f",)}).model_dump_json()).rules == {
        "age": Range(low=1), "sex": ("f",)
    }  # fmt: skip


def test_attributes_that_make_no_sense_are_refused():
    world = people(30)
    with pytest.raises(OptionError, match="no sensitive attribute"):
        cut(world, (), 10)
    with pytest.raises(OptionError, match="twice"):
        cut(world, ("sex", "sex"), 10)
    with pytest.raises(SchemaError, match="no attribute 'gender'"):
        cut(world, ("gender",), 10)
    assert SCHEMA.protected == ("sex", "race", "age")

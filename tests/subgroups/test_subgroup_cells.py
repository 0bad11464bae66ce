"""Cells, rules and families: ends that one can read, nobody left out, every rule once."""

import itertools
import math

import numpy as np
import pytest
from deciders import SCHEMA, people
from hypothesis import example, given
from hypothesis import strategies as st
from naive import rules_of

from evenhand.errors import OptionError, SchemaError
from evenhand.schema import Attribute
from evenhand.subgroups import Range, describe_rules, find_members
from evenhand.subgroups.family import (
    LARGE_CELL,
    MOST_RULES,
    AttributeCut,
    _round_number,
    build_family,
    cut_attributes,
    cut_entries,
    describe_large_cells,
    equal_width_ends,
    quantile_ends,
    rule_incidence,
)

AGE = Attribute(name="age", kind="integer", lower=0, upper=120)
SHARE = Attribute(name="share", kind="real", lower=-1e6, upper=1e6)


def test_ages_from_17_to_90_are_cut_into_decades_as_published():
    found, codes = cut_entries(AGE, np.arange(17, 91, dtype=float), 10, equal_width_ends)
    assert found.edges == tuple(range(10, 101, 10))
    assert found.names[0] == "10 to 19"
    assert found.names[-1] == "90 to 99"
    assert codes[np.arange(17, 91) == 40].tolist() == [3]
    assert found.rule(np.arange(9) == 3) == Range(low=40, high=49)
    assert found.rule(np.arange(9) >= 3).words() == "40 or more"
    assert found.rule(np.arange(9) < 3).words() == "39 or less"


def test_shares_are_cut_into_tenths_as_one_writes_them():
    found, codes = cut_entries(SHARE, np.array([0.0, 0.3, 0.55, 1.0]), 10, equal_width_ends)
    assert found.edges == (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
    assert codes.tolist() == [0, 3, 5, 9]
    assert found.rule(np.arange(10) == 3).words() == "0.3 to under 0.4"
    assert found.names[3] == "0.3 to under 0.4"
    assert found.names[9] == "0.9 to 1"


def test_few_whole_numbers_are_cells_of_their_own():
    found, _ = cut_entries(AGE, np.array([3.0, 5.0, 7.0]), 10)
    assert found.names == ("3", "4", "5", "6", "7")
    assert found.rule([False, True, True, False, False]) == Range(low=4, high=5)


cutters = st.sampled_from([equal_width_ends, quantile_ends])


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=60), st.integers(2, 12), cutters)
@example([0.0, 2.225073858507e-311], 2, quantile_ends)
@example([0.0, 2e-299], 2, quantile_ends)
@example([1e6, 1e6 + 2e-10], 2, quantile_ends)
def test_every_number_lies_in_the_rule_of_its_cell(numbers, bins, ends):
    found, codes = cut_entries(SHARE, np.array(numbers), bins, ends)
    assert len(found.names) <= bins + (ends is equal_width_ends)
    for number, code in zip(numbers, codes, strict=True):
        for first, last in itertools.combinations_with_replacement(range(len(found.names)), 2):
            rule = found.rule([first <= cell <= last for cell in range(len(found.names))])
            assert rule.contains(number) == (first <= code <= last)


@given(st.lists(st.integers(0, 120), min_size=1, max_size=60), st.integers(2, 12), cutters)
def test_every_whole_number_lies_in_the_rule_of_its_cell(numbers, bins, ends):
    found, codes = cut_entries(AGE, np.array(numbers, dtype=float), bins, ends)
    assert len(found.names) <= bins
    assert len(set(np.diff(found.edges))) == 1 or ends is quantile_ends
    for number, code in zip(numbers, codes, strict=True):
        for cell in range(len(found.names)):
            assert found.rule(np.arange(len(found.names)) == cell).contains(number) == (cell == code)


def test_ages_are_cut_at_round_numbers_into_parts_of_about_equal_size():
    """By hand: 18 to 79 is divided at 50, the roundest that leaves 30 % on either side; then 50 and older at 60."""
    ages = np.arange(18, 80, dtype=float)
    found, codes = cut_entries(AGE, ages, 10)
    assert found.edges == (18, 25, 30, 35, 40, 45, 50, 55, 60, 70, 80)
    assert (np.bincount(codes) >= 5).all()


def test_one_absurd_entry_moves_nobody_elses_cell():
    ages = np.random.default_rng(0).integers(18, 80, 2000).astype(float)
    for absurd in (999.0, 9e6):
        found, codes = cut_entries(SHARE, np.append(ages, absurd), 10)
        assert found.edges[1:-1] == cut_entries(SHARE, ages, 10)[0].edges[1:-1]
        assert np.bincount(codes).max() < 0.2 * len(codes)


@given(
    st.lists(st.floats(-1e6, 1e6).map(lambda number: round(number, 3)), min_size=50, max_size=300, unique=True),
    st.integers(2, 12),
)
def test_different_numbers_are_cut_into_cells_of_about_equal_size(numbers, bins):
    """A cell is divided only if it is the largest, and either part keeps three tenths, give or take one number."""
    found, codes = cut_entries(SHARE, np.array(numbers), bins)
    sizes = np.bincount(codes)
    assert len(sizes) == len(found.names) == bins
    assert sizes.max() <= sizes.min() / 0.3 + 5


@given(st.floats(-1e6, 1e6), st.floats(-1e6, 1e6), st.floats(0, 1))
def test_the_roundest_number_between_two(a, b, share):
    low, high = round(min(a, b), 2), round(max(a, b), 2)
    if high - low < 1:
        return
    found = _round_number(low, low + share * (high - low), high)
    assert low < found <= high
    # None above it in the order of roundness lies between: the slow way, from the roundest down.
    units = [factor * 10**power for power in range(6, -1, -1) for factor in (5, 2, 1)]
    unit = next((unit for unit in units if math.floor(high / unit) * unit > low), 1)
    assert found % unit == 0 or low < 0 <= high


def test_a_number_that_many_share_is_a_cell_and_does_not_use_up_the_others():
    gains = np.concatenate([np.zeros(920), np.arange(1000, 1080)])
    found, codes = cut_entries(AGE, gains, 10)
    assert np.bincount(codes)[0] == 920
    assert np.bincount(codes)[1:].max() <= 20
    [note] = describe_large_cells([found], codes[:, None])
    assert note == "92.0 % of the people are in one cell of age, 0 to 999: gaps within it cannot be detected."
    codes[: round((1 - LARGE_CELL) * 1000)] = 1
    assert describe_large_cells([found], codes[:, None]) == ()


def test_a_missing_value_is_a_cell_of_its_own():
    found, codes = cut_entries(AGE, np.array([20.0, np.nan, 21.0]), 10)
    assert (found.names, codes.tolist()) == (("20", "21", "missing"), [0, 2, 1])
    assert found.rule([False, False, True]) == ("missing",)
    assert [row.tolist() for row in rule_incidence(found)] == [
        [True, False, False],
        [True, True, False],
        [False, True, False],
        [False, False, True],
    ]
    race = Attribute(name="race", kind="categorical", values=("a", "b", "c"), missing="keep")
    found, codes = cut_entries(race, np.array([2.0, np.nan, 0.0]), 10)
    assert (found.names, codes.tolist()) == (("a", "c", "missing"), [1, 2, 0])
    assert len(rule_incidence(found)) == 6


def test_everybody_missing_leaves_no_rule():
    found, _ = cut_entries(AGE, np.array([np.nan, np.nan]), 10)
    assert len(rule_incidence(found)) == 0


@pytest.mark.parametrize(("cells", "ordered"), [(2, False), (5, False), (10, True), (1, True), (7, True)])
def test_every_rule_is_there_once(cells, ordered):
    found = rule_incidence(AttributeCut("a", tuple(map(str, range(cells))), None, ordered))
    assert {frozenset(np.flatnonzero(row).tolist()) for row in found} == set(rules_of(range(cells), ordered))
    assert len(found) == len(rules_of(range(cells), ordered))


def test_many_values_leave_short_subsets_and_what_they_leave_out():
    found = rule_incidence(AttributeCut("country", tuple(map(str, range(41))), None, ordered=False))
    sizes = found.sum(axis=1)
    assert len(found) <= MOST_RULES
    assert len(np.unique(found, axis=0)) == len(found)
    assert set(sizes) == {1, 40}
    states = rule_incidence(AttributeCut("state", tuple(map(str, range(14))), None, ordered=False))
    assert set(states.sum(axis=1)) == {1, 2, 3, 11, 12, 13}


def test_the_published_count_of_rules():
    """Two genders, five races, ten bins of age: 30 rules on race; with single values 17, 80 and 100 rule sets."""
    race = AttributeCut("race", tuple("abcde"), None, ordered=False)
    assert len(rule_incidence(race)) == 30
    singles = [np.concatenate([np.ones((1, n), bool), np.eye(n, dtype=bool)]) for n in (2, 5, 10)]
    everything = build_family((race,) * 3)
    counts = [type(everything)((race,) * 3, tuple(singles), depth).size for depth in (1, 2, 3)]
    assert counts == [17, 17 + 80, 17 + 80 + 100]


@given(st.lists(st.tuples(st.integers(1, 4), st.booleans()), min_size=1, max_size=3), st.integers(1, 3))
def test_the_size_of_a_family(described, depth):
    cuts = [
        AttributeCut(f"a{i}", tuple(map(str, range(cells))), None, ordered)
        for i, (cells, ordered) in enumerate(described)
    ]
    found = build_family(cuts, depth)
    counted = sum(
        0 < sum(row > 0 for row in chosen) <= depth
        for chosen in itertools.product(*(range(len(rules)) for rules in found.rules))
    )
    assert found.size == counted


def test_rules_say_who_is_in_them():
    world = people(300, seed=3)
    cuts, codes = cut_attributes(world, ("sex", "race", "age"), 10)
    found = build_family(cuts)
    rng = np.random.default_rng(0)
    for _ in range(40):
        chosen = [int(rng.integers(len(rules))) for rules in found.rules]
        inside = np.all(
            [rules[row][codes[:, i]] for i, (rules, row) in enumerate(zip(found.rules, chosen, strict=True))], axis=0
        )
        assert (find_members(world, found.describe(chosen)[0]) == inside).all()


def test_words():
    every = {"race": ("a", "b", "c", "d"), "sex": ("f", "m")}
    assert describe_rules({"race": ("a", "c"), "age": Range(low=40, high=59)}, every) == "race a or c, age 40 to 59"
    assert describe_rules({"race": ("a", "b", "c"), "sex": ("m",)}, every) == "race a, b or c, sex m"
    assert describe_rules({"race": ("a", "b", "c")}) == "race a, b or c"
    assert describe_rules({"race": tuple("abcd")}, {"race": tuple("abcdx")}) == "race a, b, c or d"
    assert describe_rules({"race": tuple("abcde")}, {"race": tuple("abcdexyz")}) == "race all but x, y and z"
    assert describe_rules({"race": tuple("abcde")}, {"race": tuple("abcdex")}) == "race all but x"
    assert describe_rules({"race": tuple("abcde")}, {"race": tuple("abcdevwxyz")}) == "race a, b, c, d or e"
    assert describe_rules({"age": Range(high=0.4, closed=False)}) == "age under 0.4"
    assert Range(low=3, high=3).words() == "3"
    assert Range().words() == "any number"


def test_attributes_that_make_no_sense_are_refused():
    world = people(30)
    with pytest.raises(OptionError, match="no sensitive attribute"):
        cut_attributes(world, (), 10)
    with pytest.raises(OptionError, match="twice"):
        cut_attributes(world, ("sex", "sex"), 10)
    with pytest.raises(SchemaError, match="no attribute 'gender'"):
        cut_attributes(world, ("gender",), 10)
    assert SCHEMA.protected == ("sex", "race", "age")

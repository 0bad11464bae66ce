"""Who belongs to which group: values, ranges of numbers, missing values."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenhand.errors import OptionError
from evenhand.groups.membership import MOST_NUMBERS, RANGES, group_by_attribute
from evenhand.schema import Attribute

NUMBER = Attribute(name="number", kind="integer", lower=-(10**15), upper=10**15, missing="keep")
integers = st.lists(st.integers(-30, 90), min_size=1, max_size=300)


def named(membership):
    return [membership.labels[code] for code in membership.codes]


@pytest.mark.parametrize(
    ("numbers", "labels"),
    [
        (range(1, 101), ("1 to 20", "21 to 40", "41 to 60", "61 to 80", "81 to 100")),
        (
            np.arange(20) * 10**9,
            (
                "0 to 3000000000",
                "3000000001 to 7000000000",
                "7000000001 to 11000000000",
                "11000000001 to 15000000000",
                "15000000001 to 19000000000",
            ),
        ),
        ([0] * 90 + list(range(1, 11)), ("0", "1 to 10")),  # nearly everybody has the lowest number,
        (list(range(10)) + [99] * 90, ("0 to 9", "10 to 99")),  # the highest,
        ([*range(12), *[50] * 90, *range(90, 102)], ("0 to 11", "12 to 50", "51 to 101")),  # or one in the middle
        ([*range(-5, 7)], ("-5 to -4", "-3 to -1", "0 to 1", "2 to 4", "5 to 6")),
    ],
)
def test_ranges_follow_the_people(numbers, labels):
    found = group_by_attribute(NUMBER, np.array(numbers, dtype=float))
    assert (found.labels, set(named(found)) <= set(labels)) == (labels, True)


@given(integers)
def test_every_number_is_in_the_range_that_names_it(numbers):
    found = group_by_attribute(NUMBER, np.array(numbers, dtype=float))
    distinct = len(set(numbers))
    assert len(found.labels) == distinct if distinct <= MOST_NUMBERS else 2 <= len(found.labels) <= RANGES
    for number, label in zip(numbers, named(found), strict=True):
        ends = [int(end) for end in label.split(" to ")]
        assert ends[0] <= number <= ends[-1]


@given(integers, st.randoms(use_true_random=False))
def test_the_order_of_people_does_not_matter(numbers, random):
    by_number = dict(zip(numbers, named(group_by_attribute(NUMBER, np.array(numbers, dtype=float))), strict=True))
    random.shuffle(numbers)
    assert (
        dict(zip(numbers, named(group_by_attribute(NUMBER, np.array(numbers, dtype=float))), strict=True)) == by_number
    )


def test_entries_of_an_attribute():
    race = Attribute(name="race", kind="categorical", values=("b", "a", "c"), missing="keep")
    assert group_by_attribute(race, np.array([0.0, 2.0])).labels == ("b", "a", "c")
    assert named(group_by_attribute(race, np.array([0.0, np.nan, 2.0]))) == ["b", "missing", "c"]
    age = Attribute(name="age", kind="integer", lower=0, upper=120)
    assert named(group_by_attribute(age, np.array([3.0, 70.0, 3.0]))) == ["3", "70", "3"]
    assert len(group_by_attribute(age, np.arange(121.0)).labels) == RANGES
    assert named(group_by_attribute(NUMBER, np.array([30.0, np.nan, 20.0]))) == ["30", "missing", "20"]
    band = Attribute(name="band", kind="ordinal", edges=tuple(range(0, 160, 10)))
    assert len(group_by_attribute(band, np.arange(15.0)).labels) == 15


def test_what_is_no_group():
    with pytest.raises(OptionError, match="'weight' is a real number"):
        group_by_attribute(Attribute(name="weight", kind="real", lower=0, upper=1), np.array([0.5]))

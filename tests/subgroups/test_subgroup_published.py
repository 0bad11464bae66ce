"""The published top findings (TestSGD, Table 4) on the real people they are about."""

from dataclasses import dataclass

import numpy as np
import pytest

from evenhand import subgroups
from evenhand.schema import People
from evenhand.subgroups import Finding
from evenhand.subgroups.result import RefusedRuleSet
from reproductions.testsgd_people import PUBLISHED, find_case, load_people
from support import shared

SIZES = {
    "census": [(13_749, 35_093), (12_947, 35_895), (13_856, 34_986)],
    "bank": [(45_202, 9), (44_657, 554), (43_427, 1_784)],
    "german": [(10, 990), (12, 988), (230, 770)],
    "compas": [(208, 5_964), (183, 5_989), (46, 6_126)],
    "law": [(941, 21_044), (1_254, 20_731), (811, 21_174)],
    "crime": [(768, 1_226), (639, 1_355), (371, 1_623)],
}
"""People inside and outside, counted in the tables by pandas, row by row."""


@dataclass(frozen=True)
class TrueLabels:
    """A model that gives everybody in the data their true label."""

    people: People
    label_only: bool = True
    name: str = "true labels"

    @property
    def schema(self):
        return self.people.schema

    @property
    def classes(self):
        return self.people.schema.target.values

    @property
    def favourable(self):
        return self.classes.index(self.people.schema.target.favourable)

    def predict(self, individuals):
        assert len(individuals) == len(self.people)
        return self.people.labels

    def scores(self, individuals):
        return np.eye(len(self.classes))[self.predict(individuals)]


def everybody(name):
    """The people of a data set."""
    home = None if name in ("census", "german") else shared("data", "tabular")
    return load_people(find_case(name), data_home=home)


def judged(name, **options):
    """The three published findings of a data set, judged on its true labels."""
    people = everybody(name)
    result = subgroups.find_subgroups(
        TrueLabels(people),
        people,
        attributes=find_case(name).sensitive,
        depth=2,
        bins=5,
        permutations=200,
        judged=tuple(each["rules"] for each in PUBLISHED["subgroups"][name]),
        **options,
    )
    return list(result.judged)


@pytest.mark.parametrize("name", list(SIZES))
def test_published_findings_come_with_the_people_they_are_about(name):
    assert [(each.size, each.rest) for each in judged(name)] == SIZES[name]


def test_a_contrast_with_nine_people_is_refused_and_says_why():
    first, second, third = judged("bank")
    assert isinstance(first, RefusedRuleSet)
    assert "9" in first.reason
    assert "30" in first.reason
    # The same data against enough people is judged: old clients subscribe more often.
    for each in (second, third):
        assert isinstance(each, Finding)
        assert each.found
        assert each.high < 0

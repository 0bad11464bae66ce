"""THEMIS's group discrimination score against enumeration of the domain."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenhand.errors import OptionError
from evenhand.schema import Attribute, People, Schema
from reproductions.testsgd_themis import score_groups
from support import scaled, small_schema

FINITE = small_schema(target="loan", sex="f m", age=(20, 39), income=(0, 4), job="x y z").with_protected(["sex", "age"])


class Decider:
    """Model of a decision rule."""

    classes = ("no", "yes")
    favourable = 1
    label_only = True
    name = "decider"

    def __init__(self, decide, schema=FINITE):
        self.decide, self.schema = decide, schema

    def predict(self, individuals):
        return self.decide(individuals).astype(int)


def people(schema=FINITE, n=300):
    rng = np.random.default_rng(0)
    rows = np.column_stack([rng.integers(attribute.first, attribute.last + 1, n) for attribute in schema.attributes])
    return People(schema, rows.astype(float), np.zeros(n, dtype=np.int64), np.arange(n), None)


@settings(max_examples=scaled(8))
@given(st.integers(0, 10_000))
def test_score_is_that_of_the_enumerated_domain(seed):
    rng = np.random.default_rng(seed)
    table = rng.random((2, 20, 5, 3)) < rng.random((2, 1, 5, 1))

    def decide(rows):
        sex, age, income, job = rows.astype(int).T
        return table[sex, age - 20, income, job]

    result = score_groups(Decider(decide), people(), ("sex", "age"), bins=2)
    exact = [table[sex, ages].mean() for sex, ages in itertools.product(range(2), (slice(10), slice(10, None)))]
    assert abs(result["score"] - np.ptp(exact)) <= 0.03  # both rates to within 0.01, with 99 % confidence each
    assert list(result["rates"].values()) == pytest.approx(exact, abs=0.015)
    assert result["low"] <= np.ptp(exact) <= result["high"]


def test_too_many_combinations_are_refused():
    attributes = tuple(Attribute(name=f"a{i}", kind="integer", lower=0, upper=9) for i in range(5))
    schema = Schema(target=FINITE.target, attributes=attributes)
    with pytest.raises(OptionError, match="combinations"):
        score_groups(Decider(lambda rows: rows[:, 0] > 5, schema), people(schema), schema.names)

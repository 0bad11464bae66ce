"""Changes of a number, and different decisions, count only if they repeat."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from evenhand import individual, population
from evenhand.models import load_regressor
from evenhand.schema import Schema, encode


def schema(kind):
    target = (
        {"name": "price", "kind": "number"}
        if kind == "number"
        else {"name": "price", "favourable": "yes", "values": ["no", "yes"]}
    )
    return Schema.parse(
        {
            "target": target,
            "attributes": [
                {"name": "age", "kind": "integer", "lower": 18, "upper": 70},
                {"name": "sex", "kind": "categorical", "values": ["f", "m"], "protected": True},
            ],
        }
    )


NUMBER, LABEL = schema("number"), schema("label")


def people(described, n=300):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.integers(18, 71, n), "sex": rng.choice(["f", "m"], n)})
    frame["price"] = 100.0 * frame["age"] if described is NUMBER else rng.choice(["no", "yes"], n)
    return encode(described, frame)


def measure(function, **settings):
    them = people(NUMBER)
    return individual.measure_changes(
        load_regressor(function, NUMBER),
        them,
        population.uniform_population(NUMBER),
        protected=("sex",),
        samples=500,
        **settings,
    )


@pytest.mark.parametrize("chance", [0.003, 0.05, 1.0])
@pytest.mark.parametrize("tolerance", [0.0, 5.0])
def test_noise_of_a_number_is_no_change(chance, tolerance):
    rng = np.random.default_rng(1)

    def price(frame):
        return 100.0 + np.where(rng.random(len(frame)) < chance, rng.normal(0, 20, len(frame)), 0)

    result = measure(price, tolerance=tolerance)
    for change in result.changes:
        assert change.rate.value <= 0.01
        assert change.repeats.noise > 0
        assert change.repeats.differed == change.repeats.tested
    assert len(result.examples) <= 0.02 * result.changes[0].repeats.differed


def test_a_real_change_is_found_behind_noise_and_is_not_exaggerated():
    rng = np.random.default_rng(1)

    def price(frame):
        return 100.0 + 50 * (frame["sex"] == "m") * (frame["age"] > 40) + rng.normal(0, 5, len(frame))

    result = measure(price, tolerance=20.0)
    data = result.changes[0]
    older = np.mean(people(NUMBER).individuals[:, 0] > 40)
    assert data.rate.value == pytest.approx(older, abs=0.05)
    assert data.largest < 65
    assert data.quantiles["75"] == pytest.approx(50, abs=8)
    assert all(one.better.values["sex"] == "m" for one in result.examples)


def test_a_number_that_repeats_is_measured_as_before():
    def price(frame):
        return 100.0 + 7.3 * (frame["sex"] == "m") * frame["age"]

    result = measure(price)
    assert result.changes[0].largest == pytest.approx(7.3 * people(NUMBER).individuals[:, 0].max())
    assert all(one.repeats.repeated == one.repeats.differed == one.n for one in result.changes)

"""Flip rates of the population that weights stand for, beside the unweighted ones."""

import numpy as np
import pandas as pd
import pytest

import evenhand
from evenhand.stats import clopper_pearson


def decide(frame):
    return (frame["skill"] - 2 * frame["female"] > 3).astype(int)


@pytest.fixture(scope="module")
def people():
    rng = np.random.default_rng(0)
    found = pd.DataFrame({"skill": rng.integers(0, 10, 300), "female": rng.integers(0, 2, 300)})
    found["hired"] = (found["skill"] > 3).astype(int)
    found["wt"] = np.where(found["skill"] < 6, 3.0, 1.0)
    return found


def audit(people, weight=None):
    about = {"target": "hired", "protected": ["female"], "searched": 0, "samples": 100}
    people = people if weight == "wt" else people.drop(columns="wt")
    return evenhand.audit(decide, people, sample_weight=weight, **about)


def test_the_weighted_rate_stands_beside_the_unweighted_one(people):
    """Who flips has a skill of 4 or 5; the interval is that of the linearised variance, by hand."""
    result = audit(people, "wt")
    data, population = result.individual.rates
    flips, w = people["skill"].isin([4, 5]).to_numpy(), people["wt"].to_numpy()
    p = w @ flips / w.sum()
    n = p * (1 - p) * w.sum() ** 2 / (w**2 @ (flips - p) ** 2)
    assert data.rate.value == pytest.approx(flips.mean())
    assert data.weighted.rate.value == pytest.approx(p)
    assert (data.weighted.rate.low, data.weighted.rate.high) == pytest.approx(clopper_pearson(p * n, n))
    assert data.weighted.effective_size == pytest.approx(w.sum() ** 2 / (w**2).sum())
    assert data.weighted.by == "wt"
    assert population.weighted is None
    said = result.to_markdown()
    assert "the number above is unweighted" in said
    assert "weighted flip rate" in said


def test_without_weights_there_is_no_weighted_rate_and_equal_ones_change_nothing(people):
    assert all(rate.weighted is None for rate in audit(people).individual.rates)
    equal = audit(people.drop(columns="wt").assign(wt=2.0), "wt").individual.rates[0]
    low, high = clopper_pearson(equal.flips, equal.n)
    assert (equal.weighted.rate.value, equal.weighted.rate.low, equal.weighted.rate.high) == pytest.approx(
        (equal.rate.value, low, high)
    )

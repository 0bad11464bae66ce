"""Numbers of people who count differently: weighted means, quantiles, and intervals that hold."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import evenhand
from evenhand.stats import quantile_interval
from evenhand.stats.distribution import number_moments, sample_quantile, skewed_mean_interval


def people(n=400, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"sex": rng.choice(["F", "M"], n), "true": rng.gamma(2.0, 100.0, n)})
    frame["premium"] = frame["true"] + rng.normal(0, 30, n) + 40 * (frame["sex"] == "F")
    return frame.assign(wt=rng.gamma(1.0, size=n) + 0.05)


def audit(frame, **settings):
    return evenhand.audit_predictions(
        frame["premium"],
        y_true=frame["true"],
        sensitive_features=frame[["sex"]],
        sample_weight=frame.get("wt"),
        kind="number",
        **settings,
    )


def test_three_people_by_hand():
    """Numbers 1, 2, 6 of weights 2, 1, 1: mean 2.5, n = 16 / 6, sum(w^2 d^2) = 4 x 2.25 + .25 + 12.25."""
    found = number_moments(np.array([1.0, 2.0, 6.0]), np.zeros(3, dtype=np.int64), 1, np.array([2.0, 1.0, 1.0]))
    n = 16 / 6
    assert (found.mean[0], found.n[0]) == pytest.approx((2.5, n))
    assert found.variance[0] / n == pytest.approx(21.5 / 16 * n / (n - 1))
    assert found.skewness[0] / np.sqrt(n) == pytest.approx((-27.0 - 0.125 + 42.875) / 21.5**1.5)
    assert [sample_quantile(np.array([1.0, 2.0, 6.0]), p, np.array([2.0, 1.0, 1.0])) for p in (0.5, 0.51, 0.9)] == [
        1.0,
        2.0,
        6.0,
    ]


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(1, 4)), min_size=1, max_size=30), st.floats(0.05, 0.95))
def test_whole_weights_are_people_repeated(rows, share):
    values, weights = (np.array(column, dtype=float) for column in zip(*sorted(rows), strict=True))
    repeated = np.repeat(values, weights.astype(int))
    assert sample_quantile(values, share, weights) == sample_quantile(repeated, share)
    moments = number_moments(values, np.zeros(len(values), dtype=np.int64), 1, weights)
    assert moments.mean[0] == pytest.approx(repeated.mean())
    limits = quantile_interval(values, share, weights=weights)
    assert limits is None or limits[0] <= sample_quantile(values, share, weights) <= limits[1]


def test_gaps_subgroups_and_words_are_weighted():
    frame = people()
    result = audit(frame)
    women, men = (frame[frame["sex"] == sex] for sex in "FM")
    means = [np.average(one["premium"], weights=one["wt"]) for one in (women, men)]
    breakdown = result.groups.breakdowns[0]
    assert breakdown.gap("mean_difference").value.value == pytest.approx(means[0] - means[1])
    errors = [np.average(one["premium"] - one["true"], weights=one["wt"]) for one in (women, men)]
    assert breakdown.gap("residual_difference").value.value == pytest.approx(errors[0] - errors[1])
    assert result.subgroups.weights == result.residual_subgroups.weights == "sample_weight"
    text = result.to_markdown().replace("\\", "")
    assert "weighted by sample_weight" in text
    assert "effective size" in text
    assert "weighted" not in audit(frame.drop(columns="wt")).to_markdown()


@pytest.mark.slow
@pytest.mark.parametrize("related", [False, True], ids=["unrelated", "by number"])
def test_weighted_intervals_of_numbers_hold(related):
    """Lognormal numbers of two groups alike, drawn unequally: mean 1.13, median 1; 600 samples."""
    rng, runs = np.random.default_rng(0), 600
    held = {"mean": 0, "median": 0}
    for _ in range(runs):
        x = np.exp(rng.normal(0, 0.5, 3000))
        chance = np.clip(0.03 + (0.06 * x if related else 0.12 * rng.random(3000)), 0, 1)
        drawn = rng.random(3000) < chance
        x, weights = x[drawn], 1 / chance[drawn]
        group = rng.integers(0, 2, len(x))
        moments = number_moments(x, group, 2, weights)
        low, high = skewed_mean_interval(moments, reach=float(np.ptp(x)))
        held["mean"] += bool(low[0] <= np.exp(0.125) <= high[0])
        order = np.argsort(x)
        limits = quantile_interval(x[order], 0.5, weights=weights[order])
        held["median"] += bool(limits[0] <= 1 <= limits[1])
    for name, count in held.items():
        assert count / runs >= (0.92 if name == "mean" else 0.95 - 3 * np.sqrt(0.95 * 0.05 / runs)), held

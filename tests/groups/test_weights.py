"""People who count differently: weighted rates, effective sizes, and intervals that hold."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import evenhand
from evenhand.groups.cells import EFFECTIVE
from evenhand.stats import clopper_pearson
from evenhand.stats.quantity import quantity_value


def audit(frame, **settings):
    return evenhand.audit_predictions(
        frame["selected"],
        y_true=frame["true"],
        y_score=frame["score"],
        sensitive_features=frame[["group"]],
        sample_weight=frame.get("weight"),
        favourable=1,
        **settings,
    ).groups


def people(n=400, seed=0):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "group": rng.choice(["a", "b"], n),
            "selected": rng.integers(0, 2, n),
            "true": rng.integers(0, 2, n),
            "score": rng.random(n),
            "weight": rng.gamma(1.5, size=n),
        }
    )


def test_two_people_of_three_times_the_weight_by_hand():
    """1 of 2 with weight 3, 0 of 4 with weight 1: 3 of 10 by weight; v = (9 x .49 + 13 x .09) / 100."""
    frame = pd.DataFrame(
        {
            "group": "a",
            "selected": [1, 0, 0, 0, 0, 0],
            "true": [1, 1, 0, 0, 0, 0],
            "score": 0.5,
            "weight": [3, 3, 1, 1, 1, 1],
        }
    )
    found = audit(frame)
    rate = found.overall["selection_rate"]
    size = 0.3 * 0.7 / ((9 * 0.49 + 13 * 0.09) / 100)
    assert rate.value == pytest.approx(0.3)
    assert rate.n == 6
    assert (rate.low, rate.high) == pytest.approx(clopper_pearson(0.3 * size, size))
    assert rate.method.endswith(EFFECTIVE)
    assert found.everyone.effective_size == pytest.approx(100 / 22)


@pytest.mark.parametrize(
    "options",
    [
        {"favourable": 1, "y_score": "score"},
        {"y_pred": "number", "kind": "number"},
        {"y_pred": "grade", "y_true": "true_grade", "kind": "ordinal", "order": ["low", "mid", "high"]},
    ],
)
def test_equal_weights_change_no_figure(options):
    frame, rng = people().assign(weight=1e308), np.random.default_rng(8)
    frame = frame.assign(number=rng.gamma(2.0, size=400) + frame["true"])
    frame["grade"], frame["true_grade"] = (rng.choice(["low", "mid", "high"], 400) for _ in range(2))
    columns = {"y_pred": "selected", "y_true": "true", "sensitive_features": ["group"], "data": frame}
    plain = evenhand.audit_predictions(**columns | options).groups
    weighted = evenhand.audit_predictions(**columns | options, sample_weight="weight").groups
    assert (plain.weights, weighted.weights) == (None, "weight")
    for ours, theirs in zip(plain.breakdowns[0].groups, weighted.breakdowns[0].groups, strict=True):
        assert theirs.effective_size == pytest.approx(ours.size)
        assert theirs.confusion == ours.confusion
        for (*name, one), (*_, other) in zip(ours.numbers(), theirs.numbers(), strict=True):
            assert (other.value, other.low, other.high, other.n) == pytest.approx(
                (one.value, one.low, one.high, one.n)
            ), name
    for ours, theirs in zip(plain.breakdowns[0].gaps, weighted.breakdowns[0].gaps, strict=True):
        assert (theirs.value.value, theirs.value.low, theirs.value.high) == pytest.approx(
            (ours.value.value, ours.value.low, ours.value.high)
        )


@given(
    st.lists(
        st.tuples(st.booleans(), st.booleans(), st.floats(0, 1), st.floats(0, 9), st.sampled_from("ab")),
        min_size=2,
        max_size=40,
    ).filter(lambda rows: sum(row[3] for row in rows) > 0.1)
)
def test_every_weighted_figure_is_a_plain_sum(rows):
    frame = pd.DataFrame(rows, columns=["selected", "true", "score", "weight", "group"]).astype(
        {"selected": int, "true": int}
    )
    for one in audit(frame).breakdowns[0].groups:
        own = frame[frame["group"] == one.values["group"]]
        w, y, t, x = (own[name].to_numpy(float) for name in ("weight", "selected", "true", "score"))
        if w.sum() < 1e-9 * frame["weight"].sum():
            continue  # next to nothing counts
        expected = {
            "selection_rate": (w * y).sum() / w.sum(),
            "base_rate": (w * t).sum() / w.sum(),
            "accuracy": (w * (y == t)).sum() / w.sum(),
            "mean_score": (w * x).sum() / w.sum(),
            "calibration_gap": (w * (x - t)).sum() / w.sum(),
        }
        for name, value in expected.items():
            assert quantity_value(one.metrics[name]) == pytest.approx(value, abs=1e-9)
        p = expected["selection_rate"]
        rate = one.metrics["selection_rate"]
        if 1e-6 < p < 1 - 1e-6:
            variance = (w**2 * (y - p) ** 2).sum() / w.sum() ** 2
            size = min(p * (1 - p) / variance, len(own))
            assert (rate.low, rate.high) == pytest.approx(clopper_pearson(p * size, size), abs=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("related", [False, True], ids=["unrelated", "by outcome"])
def test_intervals_of_a_survey_hold(related):
    """A population is sampled with unequal probabilities; weights are their inverses. True rates are .3 and .45."""
    rng = np.random.default_rng(0)
    runs, inside, gaps = 200, 0, 0
    for _ in range(runs):
        group = rng.random(4000) < 0.4
        selected = rng.random(4000) < np.where(group, 0.3, 0.45)
        chance = 0.03 + 0.12 * rng.random(4000) + (0.05 * selected if related else 0)
        drawn = rng.random(4000) < chance
        frame = pd.DataFrame({"group": np.where(group, "a", "b"), "selected": selected.astype(int)})[drawn]
        frame = frame.assign(true=rng.integers(0, 2, len(frame)), score=0.5, weight=1 / chance[drawn])
        breakdown = audit(frame).breakdowns[0]
        rate = breakdown.groups[0].metrics["selection_rate"]
        inside += rate.low <= 0.3 <= rate.high
        gap = breakdown.gap("demographic_parity_difference").value
        gaps += gap.low <= 0.15 <= gap.high
    noise = 3 * np.sqrt(0.95 * 0.05 / runs)  # of 600 runs each, 94 % and more held
    assert inside / runs >= 0.95 - noise
    assert gaps / runs >= 0.95 - noise

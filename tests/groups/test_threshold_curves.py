"""Curves over the threshold: the same numbers as deciding by each threshold and counting, and honest about the rest."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenhand.groups import DecisionRoles, measure_groups
from support import scaled


def curves_of(frame, threshold=0.5, low_is_good=False, **settings):
    roles = DecisionRoles(
        None,
        ["sex"],
        "y" if "y" in frame else None,
        "score",
        weight="w" if "w" in frame else None,
        favourable=1 if "y" in frame else None,
        threshold=threshold,
        low_is_good=low_is_good,
    )
    return measure_groups(roles.read(frame), thresholds=True, **{"min_group_size": 1, **settings})


BY_HAND = pd.DataFrame(
    {
        "sex": ["F", "F", "F", "F", "M", "M", "M", "M"],
        "score": [0.2, 0.4, 0.4, 0.6, 0.2, 0.6, 0.6, 0.8],
        "y": [0, 0, 1, 1, 0, 1, 0, 1],
    }
)


@pytest.mark.parametrize("high", [True, False])
def test_where_low_is_good_all_is_that_of_one_minus_the_score(high):
    """A risk of an eighth less than certain, or in points without a range of 0 to 1, and a threshold."""
    frame = BY_HAND.assign(score=[0.25, 0.5, 0.5, 0.625, 0.25, 0.625, 0.625, 0.75])  # exact in floating point
    risks = frame.assign(score=(1 if high else 10) - frame["score"])
    good = curves_of(frame, threshold=0.625)
    low = curves_of(risks, threshold=0.375 if high else 9.375, low_is_good=True)
    assert low.breakdowns == (good.breakdowns if high else low.breakdowns)
    for name in ("selection_rate", "accuracy"):
        assert low.overall[name] == good.overall[name]
    assert low.overall["auc"] == good.overall["auc"]
    assert low.thresholds.thresholds == tuple((1 if high else 10) - one for one in good.thresholds.thresholds[::-1])
    for curve in good.thresholds.curves:
        assert low.thresholds.curve(curve.name, curve.by, curve.group).values == curve.values[::-1]
    said = low.to_markdown()
    assert "selected up to" in said
    assert "up to each threshold" in said


@given(st.integers(0, 2**32 - 1), st.booleans())
@settings(max_examples=scaled(50), deadline=None)
def test_curves_are_what_deciding_by_each_threshold_gives(seed, weighted):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(8, 60))
    frame = pd.DataFrame(
        {
            "sex": rng.choice(["A", "B", "C"], n),
            "score": rng.integers(0, 9, n) / 8,
            "y": [0, 1, *rng.choice([0, 1, np.nan], n - 2)],
        }
    )
    if weighted:
        frame["w"] = rng.integers(1, 4, n)
    found = curves_of(frame).thresholds
    for i in rng.choice(len(found.thresholds), 3):
        at = curves_of(frame, threshold=found.thresholds[i])
        assert found.curve("accuracy").values[i] == pytest.approx(at.overall["accuracy"].value, abs=1e-6)
        assert found.curve("selection_rate").values[i] == pytest.approx(at.overall["selection_rate"].value, abs=1e-6)
        for name in ("demographic_parity_difference", "equal_opportunity_difference"):
            gap, curve = at.breakdowns[0].gap(name), found.curve(name, "sex")
            if not weighted and gap is not None and gap.value.kind == "observed":
                assert curve.values[i] == pytest.approx(gap.value.value, abs=1e-6)
    for curve in found.curves:
        assert all(low <= value <= high for value, low, high in zip(curve.values, curve.low, curve.high, strict=True))


def test_without_true_labels_no_accuracy_is_made_up():
    result = curves_of(BY_HAND.drop(columns="y"))
    assert {one.name for one in result.thresholds.curves} == {"selection_rate", "demographic_parity_difference"}
    assert "accuracy" not in result.overall
    said = result.to_markdown()
    assert "What a smaller demographic parity difference" not in said


def test_small_groups_are_named_and_in_no_gap():
    result = curves_of(pd.concat([BY_HAND] * 10 + [BY_HAND.assign(sex="X").head(3)]), min_group_size=30)
    assert result.thresholds.curve("demographic_parity_difference", "sex").not_assessable == {"X": 3}
    assert result.thresholds.curve("selection_rate", "sex", "X") is None
    assert "X (3)" in result.to_markdown()


def test_more_scores_than_thresholds_are_divided_into_equal_parts():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"sex": rng.choice(["F", "M"], 5000), "score": rng.random(5000)})
    found = curves_of(frame).thresholds
    assert found.different == 5000
    assert 100 <= len(found.thresholds) <= 101
    steps = -np.diff([*found.curve("selection_rate").values, 0])
    assert steps.max() <= 0.0102


def test_the_same_seed_gives_the_same_bands_and_json_brings_them_back():
    first, again, other = (curves_of(BY_HAND, seed=seed) for seed in (1, 1, 2))
    assert first.thresholds == again.thresholds
    assert first.thresholds != other.thresholds
    assert type(first).from_json(first.to_json()) == first

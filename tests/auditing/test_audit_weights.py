"""Weights in the audit of a model: groups are weighted, what is not says so, and bad weights are refused."""

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

import evenhand
from evenhand.errors import DataError
from evenhand.stats.auc import auc
from evenhand.stats.quantity import quantity_value


@pytest.fixture(scope="module")
def case():
    rng = np.random.default_rng(0)
    people = pd.DataFrame({"skill": rng.integers(0, 10, 600), "female": rng.integers(0, 2, 600)})
    hired = (people["skill"] - people["female"] + rng.normal(0, 2, 600) > 4).astype(int)
    return LogisticRegression().fit(people, hired), people, hired, rng.gamma(1.0, size=600).round(3)


def audit(case, weights, **settings):
    model, people, hired, _ = case
    settings = {"max_boxes": 20, "samples": 50, "searched": 0} | settings
    return evenhand.audit(model, people, hired, protected=["female"], sample_weight=weights, **settings)


def test_groups_calibration_and_auc_are_weighted_and_flips_are_not(case):
    model, people, hired, weights = case
    plain, weighted = audit(case, None), audit(case, weights)
    scores = model.predict_proba(people)[:, 1]
    overall = weighted.groups.overall
    assert overall["auc"].value == pytest.approx(roc_auc_score(hired, scores, sample_weight=weights))
    assert overall["accuracy"].value == pytest.approx(np.average(model.predict(people) == hired, weights=weights))
    assert overall["calibration_gap"].value == pytest.approx(np.average(scores - hired, weights=weights))
    assert weighted.data.base_rate == pytest.approx(np.average(hired, weights=weights))
    assert weighted.groups.weights == "sample_weight"
    assert weighted.flip_rate == plain.flip_rate
    assert weighted.subgroups.weights == "sample_weight"
    women = next(one for one in weighted.subgroups.findings if "1" in one.words)
    chosen = people["female"] == 1
    assert women.rate == pytest.approx(np.average(model.predict(people)[chosen], weights=weights[chosen]))
    assert weighted.data.fingerprint != plain.data.fingerprint


def test_a_column_of_the_data_may_hold_them(case):
    model, people, hired, weights = case
    frame = people.assign(wt=weights)
    named = evenhand.audit(
        model, frame, hired, protected=["female"], sample_weight="wt", max_boxes=20, samples=50, searched=0
    )
    assert named.groups.weights == "wt"
    assert "wt" not in named.described.names
    given = audit(case, weights).groups.overall
    for name, quantity in named.groups.overall.items():
        assert quantity_value(quantity) == pytest.approx(quantity_value(given[name]))


@pytest.mark.parametrize(
    ("weights", "words"),
    [
        ([1.0], "1 in `sample_weight=`"),
        ("wt", "'wt'"),
        ([-1.0] * 600, "at least 0"),
        ([0.0] * 600, "only zeros"),
        (["a"] * 600, "finite number"),
        ([None] * 600, "finite number"),
    ],
)
def test_what_are_no_weights_is_refused(case, weights, words):
    with pytest.raises(DataError, match=words):
        audit(case, weights)


def test_the_weighted_area_by_hand_and_as_people_repeated():
    """Positives .8 (weight 2) and .4 (1), negatives .6 (3) and .4 (1): (2 x 4 + 1 x .5) / 12."""
    scores, positive = np.array([0.8, 0.4, 0.6, 0.4]), np.array([True, True, False, False])
    found = auc(scores, positive, weights=np.array([2.0, 1.0, 3.0, 1.0]))
    assert found.value == pytest.approx(8.5 / 12)
    rng = np.random.default_rng(1)
    scores, positive, weights = rng.random(50).round(1), rng.random(50) < 0.4, rng.integers(1, 4, 50)
    repeated = auc(np.repeat(scores, weights), np.repeat(positive, weights))
    assert auc(scores, positive, weights=weights.astype(float)).value == pytest.approx(repeated.value)
    plain, equal = auc(scores, positive), auc(scores, positive, weights=np.full(50, 3.0))
    assert (equal.value, equal.low, equal.high) == pytest.approx((plain.value, plain.low, plain.high))


def test_weights_of_nobody_leave_no_area():
    found = auc(np.array([0.1, 0.9]), np.array([True, False]), weights=np.array([1.0, 0.0]))
    assert quantity_value(found) is None


@pytest.mark.full
@pytest.mark.parametrize("related", [False, True], ids=["unrelated", "by score"])
def test_the_interval_of_a_weighted_area_holds(related):
    """Scores are normal, one apart by class: an area of .760. People are drawn unequally, by their score or not."""
    from scipy.stats import norm

    rng = np.random.default_rng(0)
    runs, inside, area = 1000, 0, norm.cdf(1 / np.sqrt(2))
    for _ in range(runs):
        positive = rng.random(2000) < 0.3
        scores = rng.normal(size=2000) + positive
        chance = 0.02 + 0.2 * (norm.cdf(scores) if related else rng.random(2000))
        drawn = rng.random(2000) < chance
        found = auc(scores[drawn], positive[drawn], weights=1 / chance[drawn])
        inside += found.low <= area <= found.high
    assert inside / runs >= 0.95 - 3 * np.sqrt(0.95 * 0.05 / runs)

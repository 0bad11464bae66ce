"""Rates at every threshold are those that deciding by it gives; small groups and small denominators are not told."""

from __future__ import annotations

import numpy as np
import pytest

import evenhand
from evenhand.auditing import AuditResult

N = 600


def people(seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    sex = rng.choice(["f", "m", "x"], N, p=[0.4, 0.58, 0.02])
    score = np.round(rng.beta(2, 2, N), 3)
    return sex, score, rng.random(N) < score


def audited(scores, threshold, *, truth=True, **settings):
    sex, _, true = people()
    return evenhand.audit_predictions(
        y_score=scores, threshold=threshold, y_true=true if truth else None, sensitive_features={"sex": sex}, **settings
    )


def share(selected, among):
    return selected[among].mean()


@pytest.mark.parametrize("low_is_good", [False, True])
def test_they_are_those_of_deciding_by_each_threshold(low_is_good):
    sex, score, true = people()
    result = audited(score, 0.4, low_is_good=low_is_good, favourable_target=True)
    rates = result.groups.threshold_rates
    assert list(rates.thresholds) == sorted(rates.thresholds)
    assert 90 <= len(rates.thresholds) <= 102
    assert rates.thresholds[rates.own] == 0.4
    assert [(one.by, one.group) for one in rates.groups] == [("", ""), ("sex", "f"), ("sex", "m")]
    assert rates.left_out == {"sex": ("x",)}
    for place, threshold in enumerate(rates.thresholds):
        selected = score <= threshold if low_is_good else score >= threshold
        for one in rates.groups:
            whom = sex == one.group if one.group else np.ones(N, dtype=bool)
            assert one.n == whom.sum()
            assert one.selected[place] == pytest.approx(share(selected, whom), abs=5e-5)
            assert one.true_positive[place] == pytest.approx(share(selected, whom & true), abs=5e-5)
            assert one.false_positive[place] == pytest.approx(share(selected, whom & ~true), abs=5e-5)
        first, second = rates.of("sex")
        assert rates.gap("sex", place) == pytest.approx(abs(first.selected[place] - second.selected[place]))
    assert AuditResult.from_json(result.to_json()) == result


def test_at_the_threshold_in_force_they_are_those_of_the_audit():
    result = audited(people()[1], 0.4)
    rates = result.groups.threshold_rates
    (breakdown,) = result.groups.breakdowns
    for one in rates.of("sex"):
        (group,) = [group for group in breakdown.groups if group.label == one.group]
        assert one.selected[rates.own] == pytest.approx(group.metrics["selection_rate"].value, abs=5e-5)
        assert one.true_positive[rates.own] == pytest.approx(group.metrics["true_positive_rate"].value, abs=5e-5)


def test_no_rate_rests_on_too_few_people():
    sex, score, _ = people()
    rates = audited(score, 0.4, min_group_size=150).groups.threshold_rates
    told = {one.group: (bool(one.true_positive), bool(one.false_positive)) for one in rates.groups}
    assert told[""] == (True, True)
    assert np.sum(sex == "f") >= 150
    assert told["f"] == (False, False)  # about half of 240 people


def test_the_threshold_of_recorded_decisions_is_found_where_there_is_one():
    sex, score, true = people()
    given = {"y_true": true, "y_score": score, "sensitive_features": {"sex": sex}, "favourable": True}
    by_score = evenhand.audit_predictions(score >= 0.5, **given).groups.threshold_rates
    assert by_score.thresholds[by_score.own] == 0.5
    by_another = evenhand.audit_predictions(true, **given).groups.threshold_rates
    assert by_another.own is None
    by_sex = audited(score, [0.5, "sex=f:0.4"]).groups.threshold_rates
    assert by_sex.own is None


def test_a_threshold_beyond_all_scores_is_not_denied():
    _, score, _ = people()
    result = audited(score * 0.3, 0.4)
    assert result.groups.threshold_rates.own is None


def test_without_true_labels_only_selection_is_told_and_without_scores_nothing():
    sex, score, true = people()
    rates = audited(score, 0.4, truth=False).groups.threshold_rates
    assert not any(one.true_positive or one.false_positive for one in rates.groups)
    assert evenhand.audit_predictions(true, sensitive_features={"sex": sex}).groups.threshold_rates is None


def test_weights_count():
    _, score, true = people()
    once = audited(score, 0.4, sample_weight=np.where(true, 2.0, 1.0)).groups.threshold_rates
    for place, threshold in enumerate(once.thresholds):
        selected, weight = score >= threshold, np.where(true, 2.0, 1.0)
        assert once.groups[0].selected[place] == pytest.approx(np.average(selected, weights=weight), abs=5e-5)


def test_a_group_without_weight_is_named_among_those_not_shown():
    sex, score, _ = people()
    result = audited(score, 0.4, sample_weight=np.where(sex == "m", 0.0, 1.0))
    assert result.groups.threshold_rates.left_out == {"sex": ("m", "x")}
    assert "Not shown, too few or beyond the 12 largest: m by sex, x by sex." in result.to_markdown()


def test_an_audit_names_its_groups_of_many():
    rng = np.random.default_rng(1)
    town = np.char.add("town ", rng.integers(0, 15, 3000).astype(str))
    score = rng.random(3000)
    result = evenhand.audit_predictions(y_score=score, threshold=0.5, sensitive_features={"town": town})
    rates = result.groups.threshold_rates
    assert len(rates.of("town")) == 12
    assert len(rates.left_out["town"]) == 3
    assert "beyond the 12 largest" in result.to_markdown()

"""Decisions alone: what needs no model is measured, what needs true labels or scores only where these are there."""

import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import evenhand
from evenhand import auditing
from evenhand.errors import EvenhandError, OptionError
from evenhand.groups import DecisionRoles
from evenhand.stats.metric_specs import METRICS
from evenhand.stats.quantity import quantity_value

INEQUALITY = {"generalized_entropy_index", "theil_index"}
TRUTH = {
    spec.name
    for spec in METRICS.values()
    if spec.family == "group" and spec.denominator != "people" and spec.name != "calibration_gap"
}


def people(n=600, seed=0):
    rng = np.random.default_rng(seed)
    sex = rng.choice(["F", "M"], n)
    score = np.clip(rng.beta(2, 3, n) + 0.15 * (sex == "M"), 0, 1)
    return pd.DataFrame(
        {
            "sex": sex,
            "race": rng.choice(["A", "B", "C"], n, p=[0.5, 0.3, 0.2]),
            "score": score,
            "selected": np.where(score > 0.45, "yes", "no"),
            "hired": np.where(rng.random(n) < score, "yes", "no"),
        }
    )


def decisions(frame, **roles):
    return DecisionRoles(**{"decision": "selected", "protected": ["sex", "race"], **roles}).read(frame)


def test_a_ratio_counted_by_hand():
    """10 of 50 against 25 of 50: .2 against .5."""
    decided = [1] * 10 + [0] * 40 + [1] * 25 + [0] * 25
    result = evenhand.audit_predictions(decided, sensitive_features={"sex": ["F"] * 50 + ["M"] * 50})
    (sexes,) = result.groups.breakdowns
    assert sexes.gap("demographic_parity_ratio").value.value == pytest.approx(0.4)
    assert sexes.gap("demographic_parity_difference").value.value == pytest.approx(0.3)
    assert [finding.words for finding in result.subgroups.findings if finding.found] == ["sex F", "sex M"]


def test_without_true_labels_no_figure_is_made_up():
    result = auditing.audit_decisions(decisions(people()))
    known = set(result.groups.overall)
    assert known == {"selection_rate"}
    assert {name for one in result.groups.breakdowns for group in one.groups for name in group.metrics} == known
    gaps = {gap.name for one in result.groups.breakdowns for gap in one.gaps}
    assert gaps == {"demographic_parity_difference", "demographic_parity_ratio"}
    assert result.individual is None
    assert result.data.base_rate is None
    assert result.certificates == ()
    text = result.to_markdown()
    assert "accuracy" not in text
    assert "true labels" in text
    assert "counterfactual" not in text.lower()


def test_scores_alone_give_mean_scores_and_true_labels_error_rates_and_calibration():
    scored = auditing.audit_decisions(decisions(people(), score="score")).groups
    assert set(scored.overall) == {"selection_rate", "mean_score"}
    assert scored.calibration == ()
    full = auditing.audit_decisions(decisions(people(), score="score", target="hired")).groups
    assert set(full.overall) == {"selection_rate", "mean_score", "calibration_gap", "auc"} | TRUTH | INEQUALITY
    assert len(full.calibration) > 10


def test_the_figures_are_those_of_a_model_that_decides_so():
    frame = people()

    def model(given):
        return (given["score"] > 0.45).astype(int)

    asked = evenhand.audit(
        model, frame[["score", "sex", "race"]], frame["hired"], protected=["sex", "race"], searched=0, samples=1
    )
    recorded = auditing.audit_decisions(decisions(frame, target="hired"))
    left = {name: value for name, value in recorded.groups.overall.items() if name in TRUTH | {"selection_rate"}}
    assert {name: asked.groups.overall[name] for name in left} == left
    assert recorded.groups.breakdowns[0].gaps[:5] == asked.groups.breakdowns[0].gaps[:5]
    assert recorded.subgroups.findings == asked.subgroups.findings


@given(st.lists(st.tuples(st.booleans(), st.booleans(), st.sampled_from("abc")), min_size=1, max_size=60))
def test_every_rate_is_a_plain_count(rows):
    decided, true, group = zip(*rows, strict=True)
    result = evenhand.audit_predictions(
        list(decided), y_true=list(true), sensitive_features={"g": list(group)}, favourable=True
    )
    for one in result.groups.breakdowns[0].groups:
        own = [(d, t) for d, t, g in rows if g == one.values["g"]]
        assert one.size == len(own)
        assert quantity_value(one.metrics["selection_rate"]) == pytest.approx(sum(d for d, _ in own) / len(own))
        assert quantity_value(one.metrics["accuracy"]) == pytest.approx(sum(d == t for d, t in own) / len(own))
        deserving = [d for d, t in own if t]
        if deserving:
            assert quantity_value(one.metrics["true_positive_rate"]) == pytest.approx(sum(deserving) / len(deserving))


def test_the_result_travels_as_json_and_answers_gates():
    result = auditing.audit_decisions(decisions(people(), target="hired"), data_name="applicants.csv")
    assert auditing.AuditResult.from_json(result.to_json()) == result
    ratio = quantity_value(result.groups.breakdowns[0].gap("demographic_parity_ratio").value)
    assert auditing.parse_gate("demographic_parity_ratio.sex < 0.8").holds(result) == (ratio < 0.8)
    with pytest.raises(OptionError, match="no number called 'flip_rate'"):
        auditing.parse_gate("flip_rate > 0.1").holds(result)


def test_the_subgroups_are_those_of_the_search_for_any_measure():
    found = decisions(people(), target="hired", score="score")
    for measure in ("favourable", "false-negative", "false-positive", "score"):
        searched = evenhand.subgroups.find_subgroups_of_decisions(found, measure=measure, permutations=200)
        assert searched.measure == measure
        assert searched.findings
    bare = decisions(people())
    for settings in ({"measure": "score"}, {"method": "sampled"}):
        with pytest.raises(OptionError):
            evenhand.subgroups.find_subgroups_of_decisions(bare, **settings)
    with pytest.raises(EvenhandError, match="true label"):
        evenhand.subgroups.find_subgroups_of_decisions(bare, measure="false-negative")


def test_an_interrupt_leaves_the_groups(monkeypatch):
    def interrupt(*given, **settings):
        raise KeyboardInterrupt

    monkeypatch.setattr(evenhand.subgroups, "find_subgroups_of_decisions", interrupt)
    result = auditing.audit_decisions(decisions(people()))
    assert result.interrupted
    assert result.subgroups is None
    assert result.groups.breakdowns
    assert "interrupted" in result.summary().lower()
    assert json.loads(result.to_json())["interrupted"]

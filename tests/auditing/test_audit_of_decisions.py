"""Audits of decisions alone, and of people whose true label is missing."""

import json
from xml.etree import ElementTree as ET

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import evenhand
from evenhand import auditing
from evenhand.auditing import check_gates, compare_audits, format_annotations, format_junit, format_sarif, gates_pass
from evenhand.errors import EvenhandError, OptionError
from evenhand.groups import DecisionRoles
from evenhand.schema import Schema
from evenhand.stats import bonferroni, paired_difference
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
    race = rng.choice(["A", "B", "C"], n, p=[0.5, 0.3, 0.2])
    selected, hired = np.where(score > 0.45, "yes", "no"), np.where(rng.random(n) < score, "yes", "no")
    return pd.DataFrame({"sex": sex, "race": race, "score": score, "selected": selected, "hired": hired})


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


def test_scores_alone_give_mean_scores_and_true_labels_error_rates_and_calibration():
    scored = auditing.audit_decisions(decisions(people(), score="score")).groups
    assert set(scored.overall) == {"selection_rate", "mean_score"}
    assert scored.calibration == ()
    full = auditing.audit_decisions(decisions(people(), score="score", target="hired")).groups
    assert set(full.overall) == {"selection_rate", "mean_score", "calibration_gap", "auc"} | TRUTH | INEQUALITY
    assert len(full.calibration[0].groups) > 10


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
    assert json.loads(result.to_json())["interrupted"]


GROUPS = np.repeat(["a", "b"], 200)


def loans(*, seed=0, keep=False, accepted=(160, 100)):
    """Return an audit of loans: repaid or not is known for accepted people only."""
    decided = np.r_[[1] * accepted[0], [0] * (200 - accepted[0]), [1] * accepted[1], [0] * (200 - accepted[1])]
    repaid = np.where(decided == 1, (np.arange(400) % 3 > 0).astype(float), np.nan)
    return evenhand.audit_predictions(
        decided, y_true=repaid, sensitive_features={"group": GROUPS}, favourable=1, keep_decisions=keep, seed=seed
    )


def outcome(expression, result):
    return check_gates([auditing.parse_gate(expression)], result)[0]


def test_people_without_a_true_label_are_counted_and_not_dropped():
    data = loans().data
    repaid = [i % 3 > 0 for i in (*range(160), *range(200, 300))]
    assert (data.people, data.dropped, data.unlabelled) == (400, 0, 140)
    assert data.base_rate == pytest.approx(sum(repaid) / 260)


def test_a_gate_on_selection_rates_sees_everyone_and_has_no_caution():
    gate = outcome("demographic_parity_difference > 0.1", loans())
    assert (gate.status, gate.cautions) == ("failed", ())
    assert gate.measured == ("demographic_parity_difference = 0.3",)


@pytest.mark.parametrize(
    "expression",
    [
        "equal_opportunity_difference > 0.2",
        "equalized_odds_difference.group > 0.2",
        "accuracy_difference.group.high < 0",
        "accuracy < 0.1",
        "true_positive_rate < 0.5",
        "theil_index > 5",
    ],
)
def test_a_gate_on_an_error_rate_says_that_labels_are_selective(expression):
    result = loans()
    gate = outcome(expression, result)
    assert gate.status == "passed"
    assert len(gate.cautions) == 1
    assert gate.cautions[0] in gate.message
    log = json.loads(format_sarif([gate], subject="loans.csv"))["runs"][0]["results"]
    assert [(one["level"], gate.cautions[0] in one["message"]["text"]) for one in log] == [("note", True)]
    xml = ET.fromstring(format_junit([gate], subject="loans.csv", seconds=0).encode())
    assert xml.attrib["failures"] == xml.attrib["errors"] == "0"
    assert gate.cautions[0] in xml.find(".//system-out").text
    assert [line.partition(" ")[0] for line in format_annotations([gate], subject="loans.csv")] == ["::notice"]
    assert gates_pass([gate])


def test_a_failed_gate_keeps_its_level_and_names_the_caution():
    gate = outcome("accuracy < 0.9", loans())
    assert (gate.status, len(gate.cautions)) == ("failed", 1)
    log = json.loads(format_sarif([gate], subject="loans.csv"))["runs"][0]["results"]
    assert log[0]["level"] == "error"
    assert gate.cautions[0] in log[0]["message"]["text"]


def test_labels_missing_at_random_give_gates_no_caution():
    rng = np.random.default_rng(0)
    truth = np.where(rng.random(400) < 0.5, rng.integers(0, 2, 400), np.nan)
    result = evenhand.audit_predictions(
        rng.integers(0, 2, 400), y_true=truth, sensitive_features={"group": GROUPS}, favourable=1
    )
    assert not outcome("accuracy < 0.1 or equal_opportunity_difference > 0.9", result).cautions


def test_paired_changes_of_error_rates_are_of_people_with_a_true_label():
    rng = np.random.default_rng(3)
    truth = pd.Series(np.where(rng.random(400) < 0.5, rng.integers(0, 2, 400), np.nan))
    before, after = rng.integers(0, 2, 400), rng.integers(0, 2, 400)
    scores = rng.random(400), rng.random(400)

    def audit(decided, score, rows=slice(None)):
        options = {"sensitive_features": {"group": GROUPS[rows]}, "favourable": 1, "keep_decisions": True}
        known = truth[rows].reset_index(drop=True)
        return evenhand.audit_predictions(decided[rows], y_true=known, y_score=score[rows], **options)

    found = compare_audits(audit(before, scores[0]), audit(after, scores[1]))
    known = truth.notna().to_numpy()
    only = compare_audits(audit(before, scores[0], known), audit(after, scores[1], known))
    assert found.pairing == only.pairing == "paired"
    assert found.comparisons == only.comparisons
    for name, by, group in [
        ("accuracy", "", ""),
        ("auc", "", ""),
        ("true_positive_rate", "group", "a"),
        ("equal_opportunity_difference", "group", ""),
        ("accuracy_difference", "group", ""),
        ("calibration_difference", "group", ""),
        ("calibration_gap", "group", "b"),
    ]:
        line, other = found.line(name, by, group), only.line(name, by, group)
        assert (line.change.value, line.change.low, line.change.high) == pytest.approx(
            (other.change.value, other.change.low, other.change.high)
        ), name
        assert line.pairing == "paired"
    gained, lost = int(((before == 0) & (after == 1)).sum()), int(((before == 1) & (after == 0)).sum())
    change = found.line("selection_rate").change
    assert (change.low, change.high) == pytest.approx(
        paired_difference(gained, lost, 400, bonferroni(0.95, found.comparisons))
    )


def test_a_comparison_names_selective_labels_beside_error_rates():
    found = compare_audits(loans(), loans(accepted=(150, 90)))
    assert found.line("accuracy").caution
    assert found.line("equal_opportunity_difference", "group").caution
    assert found.line("true_positive_rate", "group", "a").caution
    assert not found.line("selection_rate").caution
    assert not found.line("demographic_parity_difference", "group").caution
    assert outcome("accuracy < -1", found).cautions


def test_paired_changes_of_errors_are_of_people_with_a_true_number():
    rng = np.random.default_rng(4)
    truth = np.where(rng.random(400) < 0.6, rng.normal(0, 1, 400), np.nan)
    before, after = rng.normal(0, 1, 400), rng.normal(0, 1, 400)

    def audit(decided, rows=slice(None)):
        options = {"sensitive_features": {"group": GROUPS[rows]}, "kind": "number", "keep_decisions": True}
        return evenhand.audit_predictions(decided[rows], y_true=truth[rows], **options)

    found, known = compare_audits(audit(before), audit(after)), ~np.isnan(truth)
    only = compare_audits(audit(before, known), audit(after, known))
    for name, by in (("mean_absolute_error", ""), ("residual_difference", "group")):
        line, other = found.line(name, by), only.line(name, by)
        assert (line.change.low, line.change.high) == pytest.approx((other.change.low, other.change.high)), name
        assert line.pairing == "paired"
    assert found.line("mean").change.value == pytest.approx(after.mean() - before.mean())


def test_rows_without_a_required_value_are_dropped_and_counted():
    age = np.r_[[np.nan] * 7, 20 + np.arange(393) % 40]
    people = pd.DataFrame({"group": GROUPS, "age": age, "hired": np.arange(400) % 2})
    attributes = [
        {"name": "group", "kind": "categorical", "values": ["a", "b"], "protected": True},
        {"name": "age", "kind": "integer", "lower": 20, "upper": 59, "missing": "drop"},
    ]
    schema = Schema.parse({"target": {"name": "hired", "favourable": 1}, "attributes": attributes})
    result = evenhand.audit(lambda frame: (frame["age"] > 40).astype(int), people, schema=schema, searched=0, samples=9)
    assert (result.data.people, result.data.dropped) == (393, 7)
    assert result.table_reading.left_out == {"without a value of age": 7}

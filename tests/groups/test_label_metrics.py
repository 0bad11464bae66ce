"""Several labels by group: by hand, against scikit-learn and fairlearn, and that the intervals hold."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import balanced_accuracy_score, confusion_matrix, precision_score

from evenhand.groups import DecisionRoles, GroupMetrics, measure_groups
from evenhand.schema.outcome import OutcomeRole
from evenhand.stats import Observed, Unknown
from evenhand.stats.metric_specs import LABEL_GAP_TITLES
from evenhand.stats.proportion import mean_of_proportions
from support import scaled

GRADES = ("low", "mid", "high")
HAND = pd.DataFrame(
    {
        "sex": ["F"] * 4 + ["M"] * 4,
        "true": ["low", "mid", "mid", "high", "low", "mid", "high", "high"],
        "given": ["low", "low", "mid", "mid", "low", "high", "high", "high"],
    }
)


def measured(frame, target="true", *, kind="ordinal", order=GRADES, by=("sex",), weight=None, **settings):
    outcome = OutcomeRole(kind, order if kind == "ordinal" else None)
    read = DecisionRoles("given", by, target if target in frame else None, outcome=outcome, weight=weight).read(frame)
    return measure_groups(read, **settings).labels


def test_weights_are_those_of_numpy():
    rng = np.random.default_rng(8)
    frame = pd.DataFrame({"sex": rng.choice(["F", "M"], 200), "true": rng.choice(GRADES, 200)})
    frame["given"] = np.where(rng.random(200) < 0.6, frame["true"], "mid")
    frame["w"] = rng.exponential(size=200)
    result = measured(frame, weight="w")
    assert (result.weights, result.everyone.effective_size) == (
        "w",
        pytest.approx(frame.w.sum() ** 2 / (frame.w**2).sum()),
    )
    codes = frame[["true", "given"]].replace({name: code for code, name in enumerate(GRADES)}).astype(float)
    for group in result.breakdowns[0].groups:
        part = frame[frame.sex == group.label]
        error = codes.given[part.index] - codes.true[part.index]
        recalls = [np.average(rows.given == name, weights=rows.w) for name, rows in part.groupby("true")]
        expected = {
            "label_accuracy": np.average(error == 0, weights=part.w),
            "too_low": np.average(error < 0, weights=part.w),
            "mean_grade_error": np.average(error, weights=part.w),
            "macro_recall": np.mean(recalls),
        }
        assert {name: group.metrics[name].value for name in expected} == pytest.approx(expected)


def test_by_hand():
    result = measured(HAND, min_group_size=1)
    women, men = result.breakdowns[0].groups
    assert (result.label_set.labels, result.label_set.ordered) == (GRADES, True)
    assert women.confusion == ((1, 0, 0), (1, 1, 0), (0, 1, 0))

    def values(found):
        return {name: pytest.approx(quantity.value) for name, quantity in found.items()}

    assert values(women.rates["low"]) == {
        "label_share": 1 / 2,
        "label_base_share": 1 / 4,
        "label_true_positive_rate": 1,
        "label_false_positive_rate": 1 / 3,
        "label_precision": 1 / 2,
    }
    assert isinstance(women.rates["high"]["label_precision"], Unknown)
    assert {label: rates["at_least"].value for label, rates in women.rates.items() if "at_least" in rates} == {
        "mid": 0.5,
        "high": 0,
    }
    assert values(women.metrics) == {
        "label_accuracy": 1 / 2,
        "too_low": 1 / 2,
        "too_high": 0,
        "macro_recall": 1 / 2,
        "mean_grade_error": -1 / 2,
    }
    assert values(men.metrics)["macro_recall"] == 2 / 3
    gaps = {gap.name: gap for gap in result.breakdowns[0].gaps if not gap.label}
    assert set(gaps) == set(LABEL_GAP_TITLES)
    assert {name: round(gap.value.value, 6) for name, gap in gaps.items()} == {
        "label_share_difference": 0.75,
        "cut_difference": 0.75,
        "label_accuracy_difference": 0.25,
        "too_low_difference": 0.5,
        "too_high_difference": 0.25,
        "macro_recall_difference": round(1 / 6, 6),
        "grade_error_difference": 0.75,
        "label_true_positive_difference": 1.0,
        "label_false_positive_difference": 0.5,
        "label_precision_difference": 0.5,
    }
    cut = result.breakdowns[0].gap("cut_difference")
    assert (cut.largest_at, cut.best, cut.worst) == ("high", "M", "F")
    assert result.breakdowns[0].gap("label_share_difference", "mid").value.value == 0.5
    assert GroupMetrics.from_json(result.to_json()) == result
    assert {"label_share", "at_least", "macro_recall"} <= set(result.to_frame()["metric"])


@given(st.integers(0, 2**32 - 1), st.integers(2, 5))
@settings(max_examples=scaled(60))
def test_against_scikit_learn(seed, kinds):
    rng = np.random.default_rng(seed)
    n, names = 90, [f"g{i}" for i in range(kinds)]
    frame = pd.DataFrame({"sex": rng.choice(["F", "M", "X"], n), "true": rng.choice(names, n)})
    kept = rng.random(n) < rng.random()
    frame["given"] = np.where(kept, frame["true"], rng.choice(names, n))
    result = measured(frame, order=names, min_group_size=5)
    parts = dict(list(frame.groupby("sex")))
    for group in result.breakdowns[0].groups:
        part = parts[group.label]
        table = confusion_matrix(part["true"], part["given"], labels=names)
        assert np.array_equal(group.confusion, table)
        if set(part["true"]) == set(names):
            expected = balanced_accuracy_score(part["true"], part["given"])
            assert group.metrics["macro_recall"].value == pytest.approx(expected)
        else:
            assert isinstance(group.metrics["macro_recall"], Unknown)
        precision = precision_score(part["true"], part["given"], labels=names, average=None, zero_division=np.nan)
        found = [group.rates[name]["label_precision"] for name in names]
        values = [np.nan if isinstance(one, Unknown) else one.value for one in found]
        assert values == pytest.approx(list(precision), nan_ok=True)
    for one in result.breakdowns[0].gaps:
        if isinstance(one.value, Observed):
            assert one.value.low <= one.value.value + 1e-12
            assert one.value.value <= one.value.high + 1e-12


def test_the_order_may_say_the_best_first():
    turned = OutcomeRole("ordinal", ("high", "mid", "low"))
    roles = DecisionRoles("given", ["sex"], "true", favourable="high", outcome=turned)
    again = measure_groups(roles.read(HAND), min_group_size=1).labels
    result = measured(HAND, min_group_size=1)
    assert again.label_set == result.label_set
    assert again.breakdowns == result.breakdowns


# Intervals: how often they hold. The full run repeats each 4,000 times.


@pytest.mark.parametrize("runs", [pytest.param(4000, marks=pytest.mark.full), 400])
def test_macro_recall_holds(runs):
    rng = np.random.default_rng(2)
    cells = np.array([[0.3, 0.05, 0.02], [0.04, 0.3, 0.03], [0.01, 0.05, 0.2]])
    tables = rng.multinomial(150, cells.ravel(), runs).reshape(-1, 3, 3)
    recall = (np.diagonal(cells) / cells.sum(axis=1)).mean()
    ends = [mean_of_proportions(np.diagonal(table), table.sum(axis=1), 0.9) for table in tables]
    assert np.mean([low <= recall <= high for _, low, high in ends]) > 0.9 - 3 * np.sqrt(0.09 / runs)


@pytest.mark.parametrize("runs", [pytest.param(1000, marks=pytest.mark.slow), 60])
def test_gaps_of_all_labels_hold_together(runs):
    rng = np.random.default_rng(4)
    held = 0
    for _ in range(runs):
        frame = pd.DataFrame({"sex": np.repeat(["F", "M"], 80), "given": rng.choice(GRADES, 160, p=(0.5, 0.3, 0.2))})
        gaps = [one for one in measured(frame, kind="labels", confidence=0.8).breakdowns[0].gaps if one.label]
        held += all(gap.value.low <= 0 for gap in gaps)
    assert held / runs > 0.8 - 3 * np.sqrt(0.16 / runs)

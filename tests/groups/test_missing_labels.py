"""People with a decision and no true label: selection rates over everyone, error rates over people with a label."""

import math

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import f1_score, roc_auc_score

import evenhand
from evenhand.groups import GroupMetrics
from evenhand.groups.label_coverage import LabelCoverage
from evenhand.stats import Observed, Unknown
from support import scaled

LENIENT = {"min_group_size": 1, "favourable": 1}
ERROR_RATES = (
    "base_rate",
    "true_positive_rate",
    "false_positive_rate",
    "accuracy",
    "precision",
    "false_discovery_rate",
    "false_omission_rate",
)


def people(seed, n=120, *, known=0.5, selective=False):
    """Return random people; ``known`` is the chance of a true label, with ``selective`` of the selected only."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"group": rng.choice(["a", "b", "c"], n), "decided": rng.integers(0, 2, n)})
    frame["true"] = pd.Series(rng.integers(0, 2, n)).astype("Int64")
    hidden = (frame["decided"] == 0) if selective else (rng.random(n) >= known)
    frame.loc[hidden, "true"] = pd.NA
    frame.loc[:3, ["decided", "true"]] = [[0, 0], [0, 1], [1, 0], [1, 1]]
    return frame.assign(score=rng.integers(0, 21, n) / 20, weight=rng.integers(1, 5, n))


def audit(frame, *, truth=True, **options):
    return evenhand.audit_predictions(
        "decided", sensitive_features=["group"], y_true="true" if truth else None, data=frame, **LENIENT | options
    ).groups


def selected_groups(result, index=0):
    return {group.label: group for group in result.breakdowns[index].groups}


def rates_of(frame):
    """Compute every rate as (numerator weight, denominator weight, people) with plain pandas."""
    labelled = frame[frame["true"].notna()].astype({"true": int})
    yes, no = labelled["true"] == 1, labelled["true"] == 0
    chosen = labelled["decided"] == 1
    pairs = {
        "base_rate": (yes, yes | no),
        "true_positive_rate": (yes & chosen, yes),
        "false_positive_rate": (no & chosen, no),
        "accuracy": (yes == chosen, yes | no),
        "precision": (yes & chosen, chosen),
        "false_discovery_rate": (no & chosen, chosen),
        "false_omission_rate": (yes & ~chosen, ~chosen),
    }
    weight = labelled["weight"]
    rates = {name: (weight[k].sum(), weight[n].sum(), int(n.sum())) for name, (k, n) in pairs.items()}
    everyone = frame["weight"]
    return rates | {"selection_rate": (everyone[frame["decided"] == 1].sum(), everyone.sum(), len(frame))}


def assert_rates(metrics, frame):
    for name, (k, n, count) in rates_of(frame).items():
        if count == 0:
            assert isinstance(metrics[name], Unknown), name
        else:
            assert (metrics[name].value, metrics[name].n) == (pytest.approx(k / n), count), name


@settings(max_examples=scaled(25), deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([0.05, 0.3, 0.9]), st.booleans())
def test_rates_are_those_of_plain_pandas(seed, known, weighted):
    frame = people(seed, known=known)
    frame = frame if weighted else frame.assign(weight=1)
    options = {"sample_weight": "weight"} if weighted else {}
    result = audit(frame, y_score="score", **options)
    assert_rates(result.overall, frame)
    labelled = frame[frame["true"].notna()].astype({"true": int})
    area = roc_auc_score(labelled["true"], labelled["score"], sample_weight=labelled["weight"])
    assert (result.overall["auc"].value, result.overall["auc"].n) == (pytest.approx(area), len(labelled))
    assert result.overall["theil_index"].n == len(labelled)
    for label, group in selected_groups(result).items():
        rows = frame[frame["group"] == label]
        assert_rates(group.metrics, rows)
        mean = np.average(rows["score"], weights=rows["weight"])
        assert (group.metrics["mean_score"].value, group.metrics["mean_score"].n) == (pytest.approx(mean), len(rows))
        rows = rows[rows["true"].notna()].astype({"true": int})
        gap = group.metrics["calibration_gap"]
        if len(rows):
            off = np.average(rows["score"] - rows["true"], weights=rows["weight"])
            assert (gap.value, gap.n) == (pytest.approx(off), len(rows))
        else:
            assert isinstance(gap, Unknown)
    assert sum(group.size for group in result.calibration[0].groups) == len(labelled)


@settings(max_examples=scaled(15), deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([0.05, 0.5]))
def test_counted_rows_have_the_numbers_of_rows_in_memory(seed, known):
    frame = people(seed, known=known)
    memory = audit(frame, y_score="score")
    counted = audit(pl.from_pandas(frame).lazy(), y_score="score")
    assert_rates(counted.overall, frame.assign(weight=1))
    assert counted.overall["auc"].value == pytest.approx(memory.overall["auc"].value)
    assert counted.everyone.label_coverage == memory.everyone.label_coverage
    for label, group in selected_groups(memory).items():
        other = selected_groups(counted)[label]
        assert other.label_coverage == group.label_coverage
        assert (other.metrics["calibration_gap"].kind, getattr(other.metrics["calibration_gap"], "n", 0)) == (
            group.metrics["calibration_gap"].kind,
            getattr(group.metrics["calibration_gap"], "n", 0),
        )
    for gap, other in zip(memory.breakdowns[0].gaps, counted.breakdowns[0].gaps, strict=True):
        assert (gap.value.kind, gap.not_assessable, gap.caution) == (
            other.value.kind,
            other.not_assessable,
            other.caution,
        )


def assert_same(quantity, other):
    assert quantity.kind == other.kind
    if isinstance(quantity, Observed):
        assert (quantity.value, quantity.low, quantity.high) == pytest.approx((other.value, other.low, other.high))
        assert (quantity.n, quantity.method) == (other.n, other.method)


@pytest.mark.parametrize(
    ("people", "labelled", "selective"),
    [
        ([100, 100], [49, 100], True),
        ([100, 100], [50, 100], False),
        ([100, 100], [100, 40], True),
        ([100, 100], [0, 0], False),
        ([0, 100], [0, 60], False),
        ([10, 100], [0, 1], True),
    ],
)
def test_labels_are_selective_below_half_of_the_largest_share(people, labelled, selective):
    coverage = LabelCoverage.of(people, labelled, ("not selected", "selected"))
    assert coverage.selective is selective
    assert bool(coverage.caution) is selective
    assert coverage.by_decision["selected"].share == labelled[1] / people[1]


def test_selective_labels_are_part_of_the_result_and_named_beside_error_rates():
    frame = people(1, n=600, selective=True).iloc[4:].reset_index(drop=True)
    result = audit(frame, y_score="score", min_group_size=30)
    counts = result.everyone.label_coverage.by_decision
    assert (counts["selected"].labelled, counts["not selected"].labelled) == ((frame["decided"] == 1).sum(), 0)
    assert counts["not selected"].people == (frame["decided"] == 0).sum()
    assert result.overall["true_positive_rate"].value == 1
    assert isinstance(result.overall["false_omission_rate"], Unknown)
    for gap in result.breakdowns[0].gaps:
        assert bool(gap.caution) == (gap.metric != "selection_rate"), gap.name
    assert all(group.label_coverage.selective for group in selected_groups(result).values())
    assert result.everyone.caution("auc") == result.everyone.label_coverage.caution
    assert not result.everyone.caution("selection_rate")
    read = GroupMetrics.from_json(result.to_json())
    assert (read.everyone.label_coverage, read.breakdowns) == (result.everyone.label_coverage, result.breakdowns)
    words = result.everyone.label_coverage.caution
    assert " ".join(result.summary().split()).count(words[len("selective labels: ") :]) >= 1


def test_labels_missing_at_random_and_complete_labels_need_no_caution():
    result = audit(people(2, n=600))
    assert result.everyone.label_coverage is not None
    assert not result.everyone.label_coverage.selective
    assert not any(gap.caution for gap in result.breakdowns[0].gaps)
    complete = audit(people(2, n=600, known=1.0))
    assert complete.everyone.label_coverage is None
    assert all(group.label_coverage is None for group in complete.breakdowns[0].groups)


def test_small_groups_keep_no_counts_of_their_labels():
    frame = people(3, n=300, known=0.4)
    frame = frame.drop(frame[(frame["group"] == "c") & (frame.index > 30)].index).reset_index(drop=True)
    hidden = audit(frame, min_group_size=30).without_people()
    assert selected_groups(hidden)["c"].label_coverage is None
    assert selected_groups(hidden)["a"].label_coverage is not None


def f1(y_true, y_pred):
    """A fast version for the bootstrap; it is compared with scikit-learn's."""
    return 2 * float((y_true & y_pred).sum()) / float(y_true.sum() + y_pred.sum())


def test_custom_metrics_are_of_people_with_a_true_label():
    frame = people(4, n=200, known=0.5)
    frame.loc[(frame["group"] == "c") & (frame.index > 3), "true"] = pd.NA
    result = audit(frame, metrics={"f1": f1}, min_group_size=10)
    labelled = frame[frame["true"].notna()].astype({"true": int})
    assert result.overall["f1"].value == pytest.approx(f1_score(labelled["true"], labelled["decided"]))
    assert result.overall["f1"].n == len(labelled)
    gap = result.breakdowns[0].gap("f1_difference")
    assert gap.not_assessable == {"c": int((labelled["group"] == "c").sum())}
    values = {}
    for label in "ab":
        rows = labelled[labelled["group"] == label]
        values[label] = f1_score(rows["true"], rows["decided"])
        assert selected_groups(result)[label].metrics["f1"].value == pytest.approx(values[label])
    assert gap.value.value == pytest.approx(abs(values["a"] - values["b"]))


@pytest.mark.parametrize("number", [0.1, 0.7])
def test_a_threshold_selects_the_same_number_in_any_precision(number):
    for low_is_good in (False, True):
        for scores in (np.full(80, number), np.full(80, number, np.float32), np.full(80, number, np.float16)):
            result = evenhand.audit_predictions(
                y_score=scores,
                threshold=number,
                sensitive_features=["a", "b"] * 40,
                low_is_good=low_is_good,
            )
            assert result.groups.overall["selection_rate"].value == 1


def test_decisions_made_by_a_threshold_include_people_without_a_true_label():
    frame = people(8, n=300, known=0.5)
    result = evenhand.audit_predictions(
        y_score="score", y_true="true", threshold=0.5, sensitive_features=["group"], data=frame, **LENIENT
    )
    assert result.data.people == len(frame)
    assert result.groups.overall["selection_rate"].value == pytest.approx((frame["score"] >= 0.5).mean())
    labelled = frame[frame["true"].notna()]
    right = ((labelled["score"] >= 0.5) == (labelled["true"] == 1)).mean()
    assert result.groups.overall["accuracy"].value == pytest.approx(right)


# Several labels, grades and numbers.


@settings(max_examples=scaled(10), deadline=None)
@given(st.integers(0, 10**6), st.sampled_from(["labels", "ordinal"]))
def test_several_labels_are_shared_by_everyone_and_compared_with_known_true_labels(seed, kind):
    rng = np.random.default_rng(seed)
    n, names = 150, ["low", "mid", "top"]
    frame = pd.DataFrame({"group": rng.choice(["a", "b"], n), "decided": rng.choice(names, n)})
    frame["true"] = pd.Series(rng.choice(names, n)).where(rng.random(n) < 0.5)
    options = {"order": names} if kind == "ordinal" else {}

    def measure(rows, truth="true"):
        return evenhand.audit_predictions(
            "decided", y_true=truth, sensitive_features=["group"], data=rows, kind=kind, min_group_size=1, **options
        ).groups.labels

    labelled = frame[frame["true"].notna()].reset_index(drop=True)
    every, without, known = measure(frame), measure(frame, None), measure(labelled)
    for group, plain, other in zip(
        every.breakdowns[0].groups, without.breakdowns[0].groups, known.breakdowns[0].groups, strict=True
    ):
        rows = frame[frame["group"] == group.label]
        assert group.size == len(rows)
        assert sum(map(sum, group.confusion)) == rows["true"].notna().sum()
        for label in names:
            assert group.rates[label]["label_share"] == plain.rates[label]["label_share"]
            for name, rate in other.rates[label].items():
                if name not in ("label_share", "at_least"):
                    assert_same(group.rates[label][name], rate)
        for name, quantity in other.metrics.items():
            assert_same(group.metrics[name], quantity)
    for gap in every.breakdowns[0].gaps:
        of_decisions = gap.metric in ("label_share", "at_least")
        other = (without if of_decisions else known).breakdowns[0].gap(gap.name, gap.label)
        assert_same(gap.value, other.value)


def test_labels_known_for_one_decision_only_are_selective():
    frame = pd.DataFrame({"group": ["a", "b"] * 60, "decided": (["x"] * 2 + ["y"] * 2 + ["z"] * 2) * 20})
    frame["true"] = frame["decided"].where(frame["decided"] != "z")
    labels = evenhand.audit_predictions(
        "decided", y_true="true", sensitive_features=["group"], data=frame, kind="labels"
    ).groups.labels
    assert labels.everyone.label_coverage.by_decision["z"].labelled == 0
    assert labels.everyone.label_coverage.selective
    for gap in labels.breakdowns[0].gaps:
        assert bool(gap.caution) == (gap.metric not in ("label_share", "labels")), gap.name
    assert labels.everyone.label_coverage.describe() in " ".join(labels.summary().split())


@settings(max_examples=scaled(10), deadline=None)
@given(st.integers(0, 10**6), st.booleans())
def test_means_are_of_all_numbers_and_errors_of_known_true_ones(seed, weighted):
    rng = np.random.default_rng(seed)
    n = 160
    frame = pd.DataFrame({"group": rng.choice(["a", "b"], n), "decided": rng.normal(50, 9, n)})
    frame["true"] = np.where(rng.random(n) < 0.5, frame["decided"] + rng.normal(0, 3, n), np.nan)
    frame["weight"] = rng.integers(1, 4, n) if weighted else 1

    def measure(rows, truth="true"):
        weight = {"sample_weight": "weight"} if weighted else {}
        return evenhand.audit_predictions(
            "decided", y_true=truth, sensitive_features=["group"], data=rows, kind="number", min_group_size=10, **weight
        )

    result, without = measure(frame), measure(frame, None)
    known = measure(frame[frame["true"].notna()].reset_index(drop=True))
    assert (result.data.people, result.data.dropped) == (n, 0)
    assert result.data.unlabelled == frame["true"].isna().sum()
    for label, group in selected_groups(result.groups).items():
        plain, other = selected_groups(without.groups)[label], selected_groups(known.groups)[label]
        for name, quantity in plain.metrics.items():
            assert group.metrics[name] == quantity
        for name in ("true_mean", "mean_residual", "mean_absolute_error"):
            assert_same(group.metrics[name], other.metrics[name])
    for gap in result.groups.breakdowns[0].gaps:
        errors = gap.metric in ("mean_residual", "mean_absolute_error")
        assert_same(gap.value, (known if errors else without).groups.breakdowns[0].gap(gap.name).value)
    residual = result.residual_subgroups
    assert residual.people == known.residual_subgroups.people
    assert math.isclose(residual.rate, known.residual_subgroups.rate, abs_tol=1e-9)


def test_true_numbers_known_for_low_decisions_only_are_selective():
    decided = np.arange(200.0)
    true = np.where(decided < 80, decided + 1, np.nan)
    result = evenhand.audit_predictions(
        decided, y_true=true, sensitive_features={"group": ["a", "b"] * 100}, kind="number"
    ).groups
    assert result.everyone.label_coverage.by_decision["lower half"].labelled == 80
    assert result.everyone.label_coverage.selective
    assert result.everyone.caution("mean_residual")
    assert not result.everyone.caution("median")
    gaps = {gap.name: bool(gap.caution) for gap in result.breakdowns[0].gaps}
    assert (gaps["residual_difference"], gaps["mean_difference"]) == (True, False)

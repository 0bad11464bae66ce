"""Every figure that fairlearn, aif360 or aequitas has too equals theirs, on public data."""

import json
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from decided import decide
from sklearn.metrics import accuracy_score, precision_score, roc_auc_score

from evenhand import datasets
from evenhand.groups import DecisionRoles, measure_groups
from evenhand.stats.inequality import generalized_entropy
from evenhand.stats.quantity import quantity_value
from support import shared

NAMES = ["german", "adult", "compas"]
SLOWLY = [
    "german",
    pytest.param("compas", marks=pytest.mark.full),
    pytest.param("adult", marks=pytest.mark.slow),
]
WEIGHTED = pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
COMPLEMENTS = {
    "false_negative_rate": "true_positive_rate",
    "true_negative_rate": "false_positive_rate",
    "negative_predictive_value": "false_omission_rate",
    "error_rate": "accuracy",
}
"""Rate of others -> the rate of ours that is 1 minus it."""


@cache
def people(name):
    home = None if name in ("german", "adult") else shared("data", "tabular")
    return decide(datasets.load_dataset(name, data_home=home, download=False))


@cache
def measured(name, *, weighted=False, reference=()):
    roles = DecisionRoles(
        "decided", ["sex", "second"], "true", "score", weight="weight" if weighted else None, favourable=1
    )
    return measure_groups(roles.read(people(name)), min_group_size=1, reference=reference)


def rates(group):
    """Return what we measured of a group, and the rates that are 1 minus one of these."""
    found = {metric: quantity_value(quantity) for metric, quantity in group.items()}
    return found | {one: None if found[ours] is None else 1 - found[ours] for one, ours in COMPLEMENTS.items()}


def key_of(group):
    """Return by what fairlearn indexes a group."""
    key = tuple(group.values.values())
    return key if len(key) > 1 else key[0]


def same(ours, theirs):
    """Return whether two figures are the same, or both undefined (their nan)."""
    return bool(np.isnan(theirs)) if ours is None else ours == pytest.approx(theirs, abs=1e-12)


@pytest.mark.parametrize("name", SLOWLY)
@WEIGHTED
def test_fairlearn(name, weighted):
    """``MetricFrame`` by one attribute, by two, and by one within each value of the other; all of its gaps."""
    fairlearn = pytest.importorskip("fairlearn.metrics", reason="needs the extra fairlearn")
    frame, ours = people(name), measured(name, weighted=weighted)
    rest = {"sample_weight": frame["weight"]} if weighted else {}

    def predictive(label):
        return lambda true, decided, **more: precision_score(
            true, decided, pos_label=label, zero_division=np.nan, **more
        )

    functions = {
        "selection_rate": fairlearn.selection_rate,
        "true_positive_rate": fairlearn.true_positive_rate,
        "false_positive_rate": fairlearn.false_positive_rate,
        "true_negative_rate": fairlearn.true_negative_rate,
        "false_negative_rate": fairlearn.false_negative_rate,
        "accuracy": accuracy_score,
        "precision": predictive(1),
        "negative_predictive_value": predictive(0),
    }
    compared = 0

    def compare(theirs, breakdown):
        nonlocal compared
        for group in breakdown.groups:
            mine = rates(group.metrics)
            for metric, value in theirs.by_group.loc[key_of(group)].items():
                undefined = mine[metric] is None and value == 0  # fairlearn's own rates of none are 0
                assert undefined or same(mine[metric], value), (group.label, metric)
                compared += 1

    def frame_of(columns, metrics=functions, predicted="decided", **more):
        return fairlearn.MetricFrame(
            metrics=metrics,
            y_true=frame["true"].to_numpy(),
            y_pred=frame[predicted].to_numpy(),
            sensitive_features=columns,
            sample_params=dict.fromkeys(metrics, rest),
            **more,
        )

    for breakdown in ours.breakdowns:
        columns = frame[list(breakdown.by)]
        theirs = frame_of(columns)
        compare(theirs, breakdown)
        differences = theirs.difference()
        for gap, metrics, value in [
            ("demographic_parity_difference", ["selection_rate"], differences["selection_rate"]),
            ("equal_opportunity_difference", ["true_positive_rate"], differences["true_positive_rate"]),
            (
                "equalized_odds_difference",
                ["true_positive_rate", "false_positive_rate"],
                fairlearn.equalized_odds_difference(
                    y_true=frame["true"], y_pred=frame["decided"], sensitive_features=columns, **rest
                ),
            ),
            ("accuracy_difference", ["accuracy"], differences["accuracy"]),
            ("false_discovery_difference", ["precision"], differences["precision"]),
            ("false_omission_difference", ["negative_predictive_value"], differences["negative_predictive_value"]),
        ]:
            found = breakdown.gap(gap)
            if found.not_assessable:  # fairlearn counts the rates of none as 0
                none = [[rates(group.metrics)[metric] is None for metric in metrics] for group in breakdown.groups]
                kept = theirs.by_group.loc[[key_of(group) for group in breakdown.groups], metrics].mask(np.array(none))
                value = (kept.max() - kept.min()).max()
            assert same(quantity_value(found.value), value), (breakdown.by, gap)
        ratio = breakdown.gap("demographic_parity_ratio")
        assert same(quantity_value(ratio.value), theirs.ratio()["selection_rate"])
    compare(frame_of(frame["second"], control_features=frame["sex"]), ours.breakdowns[2])
    of_scores = {"mean_score": fairlearn.mean_prediction, "auc": roc_auc_score}
    scored = frame_of(frame["sex"], of_scores, "score")
    for group in ours.breakdowns[0].groups:
        assert same(quantity_value(group.metrics["mean_score"]), scored.by_group.loc[group.label]["mean_score"])
    for metric, value in {**theirs.overall, **scored.overall}.items():
        assert same(rates(ours.overall)[metric], value), metric
    assert compared >= 8 * (2 + 3 + 6 + 6)


OF_AIF360 = {
    "selection_rate": "selection_rate",
    "true_positive_rate": "true_positive_rate",
    "false_positive_rate": "false_positive_rate",
    "false_negative_rate": "false_negative_rate",
    "true_negative_rate": "true_negative_rate",
    "precision": "positive_predictive_value",
    "negative_predictive_value": "negative_predictive_value",
    "false_discovery_rate": "false_discovery_rate",
    "false_omission_rate": "false_omission_rate",
    "accuracy": "accuracy",
    "error_rate": "error_rate",
}
"""Rate of ours -> method of ``aif360.metrics.ClassificationMetric``."""

DISTANCES = {
    "demographic_parity_difference": "statistical_parity_difference",
    "demographic_parity_ratio": "disparate_impact",
    "equal_opportunity_difference": "equal_opportunity_difference",
    "equalized_odds_difference": "equalized_odds_difference",
    "false_discovery_difference": "false_discovery_rate_difference",
    "false_omission_difference": "false_omission_rate_difference",
}
"""Gap of ours -> method of ``ClassificationMetric``, of a group against the privileged one."""


@pytest.mark.parametrize("name", NAMES)
@WEIGHTED
def test_aif360(name, weighted):
    """``ClassificationMetric`` of every group against a privileged one, by each of two attributes."""
    pytest.importorskip("aif360", reason="needs aif360, of the dependency group frameworks")
    from aif360.datasets import BinaryLabelDataset
    from aif360.metrics import BinaryLabelDatasetMetric, ClassificationMetric

    frame = people(name)
    columns = frame[["true", "decided", "weight"]].copy()
    named = {}
    for by in ("sex", "second"):
        named[by] = sorted(frame[by].unique())
        columns[by] = frame[by].map(named[by].index)
    true, decided = (
        BinaryLabelDataset(
            df=columns[["sex", "second", "weight", label]].rename(columns={label: "label"}),
            label_names=["label"],
            protected_attribute_names=["sex", "second"],
            instance_weights_name="weight" if weighted else None,
            favorable_label=1,
            unfavorable_label=0,
        )
        for label in ("true", "decided")
    )
    reference = {by: frame[by].mode()[0] for by in named}
    ours = measured(name, weighted=weighted, reference=tuple(f"{by}={value}" for by, value in reference.items()))
    for breakdown in ours.breakdowns[:2]:
        (by,) = breakdown.by
        privileged = [{by: named[by].index(reference[by])}]
        for group in breakdown.groups:
            if group.label == reference[by]:
                continue
            own = [{by: named[by].index(group.label)}]
            theirs = ClassificationMetric(true, decided, unprivileged_groups=own, privileged_groups=privileged)
            base = BinaryLabelDatasetMetric(true, unprivileged_groups=own, privileged_groups=privileged)
            assert same(rates(group.metrics)["base_rate"], base.base_rate(privileged=False))
            for metric, method in OF_AIF360.items():
                value = getattr(theirs, method)(privileged=False)
                assert same(rates(group.metrics)[metric], value), (group.label, metric)
            for gap, method in DISTANCES.items():
                found = breakdown.gap(gap).by_group[group.label]
                assert same(quantity_value(found), getattr(theirs, method)()), (group.label, gap)
            found = breakdown.gap("accuracy_difference").by_group[group.label]
            assert same(quantity_value(found), -theirs.error_rate_difference())
    for metric, method in OF_AIF360.items():
        assert same(rates(ours.overall)[metric], getattr(theirs, method)()), metric
    if not weighted:  # aif360's indices of inequality count everybody alike
        for alpha, metric in ((2, "generalized_entropy_index"), (1, "theil_index")):
            assert same(quantity_value(ours.overall[metric]), theirs.generalized_entropy_index(alpha))
        benefit = frame["decided"] - frame["true"] + 1
        assert generalized_entropy(np.bincount(benefit, minlength=3), 3) == pytest.approx(
            theirs.generalized_entropy_index(3)
        )


OF_AEQUITAS = {
    "selection_rate": "pprev",
    "base_rate": "prev",
    "true_positive_rate": "tpr",
    "false_positive_rate": "fpr",
    "false_negative_rate": "fnr",
    "true_negative_rate": "tnr",
    "precision": "precision",
    "negative_predictive_value": "npv",
    "false_discovery_rate": "fdr",
    "false_omission_rate": "for",
    "accuracy": "accuracy",
}
"""Rate of ours -> column of ``aequitas.group.Group.get_crosstabs``."""


@pytest.mark.parametrize("name", NAMES)
def test_aequitas(name):
    """Its figures are recorded, because it needs an older pandas: ``tools/record_aequitas.py`` made them."""
    recorded = json.loads(Path(__file__).with_name("aequitas.json").read_text(encoding="utf-8"))[name]
    majority = {by: people(name)[by].mode()[0] for by in ("sex", "second")}
    ours = measured(name, reference=tuple(f"{by}={value}" for by, value in majority.items()))
    compared = 0
    for breakdown in ours.breakdowns:
        table = recorded["both" if len(breakdown.by) == 2 else breakdown.by[0]]
        assert {group.label: group.size for group in breakdown.groups} == {
            label: row["group_size"] for label, row in table.items()
        }
        for group in breakdown.groups:
            row = table[group.label]
            for metric, column in OF_AEQUITAS.items():
                value = row[column]
                assert same(rates(group.metrics)[metric], np.nan if value is None else value), (group.label, metric)
                compared += 1
            if len(breakdown.by) == 1 and group.label != majority[breakdown.by[0]]:
                ratio = breakdown.gap("demographic_parity_ratio").by_group[group.label]
                assert same(quantity_value(ratio), row["pprev_disparity"]), group.label
    assert compared >= 11 * (2 + 3 + 6)

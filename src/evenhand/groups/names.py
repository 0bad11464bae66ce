"""What is measured of groups and compared between them: names, titles, denominators."""

from __future__ import annotations

METRIC_TITLES = {
    "selection_rate": "selection rate",
    "base_rate": "base rate",
    "true_positive_rate": "true positive rate",
    "false_positive_rate": "false positive rate",
    "accuracy": "accuracy",
    "precision": "precision",
    "false_discovery_rate": "false discovery rate",
    "false_omission_rate": "false omission rate",
    "mean_score": "mean score",
    "calibration_gap": "calibration error",
    "auc": "area under the ROC curve",
    "generalized_entropy_index": "generalised entropy of benefits (alpha 2)",
    "theil_index": "Theil index of benefits",
}
"""Metric -> its name in a sentence."""

GAP_TITLES = {
    "demographic_parity_difference": "demographic parity difference: highest minus lowest selection rate",
    "demographic_parity_ratio": "demographic parity ratio: lowest divided by highest selection rate",
    "equal_opportunity_difference": "equal opportunity difference: highest minus lowest true positive rate",
    "equalized_odds_difference": "equalized odds difference: true or false positive rates, whichever differ more",
    "calibration_difference": "calibration error: highest minus lowest",
    "accuracy_difference": "accuracy: highest minus lowest",
    "false_discovery_difference": "false discovery rate: highest minus lowest",
    "false_omission_difference": "false omission rate: highest minus lowest",
}
"""Gap -> what is compared."""

METRIC_NAMES = (
    "selection_rate",
    "base_rate",
    "true_positive_rate",
    "false_positive_rate",
    "accuracy",
    "precision",
    "false_discovery_rate",
    "false_omission_rate",
    "mean_score",
    "calibration_gap",
)
"""What is measured of every group, see ``Group``."""

DENOMINATORS = {
    "selection_rate": "people",
    "true_positive_rate": "people whose true label is favourable",
    "false_positive_rate": "people whose true label is unfavourable",
    "accuracy": "people with a true label",
    "false_discovery_rate": "selected people with a true label",
    "false_omission_rate": "people not selected, with a true label",
    "calibration_gap": "people with a true label",
    "label_share": "people",
    "label_true_positive_rate": "people who truly have the label",
    "label_false_positive_rate": "people who truly have another label",
    "label_precision": "people given the label, with a true label",
    "label_accuracy": "people with a true label",
    "at_least": "people",
    "too_low": "people with a true label",
    "too_high": "people with a true label",
    "mean_grade_error": "people with a true label",
    "mean_residual": "people with a true number",
    "mean_absolute_error": "people with a true number",
}
"""Metric -> its denominator."""

DECISION_METRICS = frozenset(
    {
        "selection_rate",
        "mean_score",
        "label_share",
        "at_least",
        "labels",
        "mean",
        "quantile_10",
        "median",
        "quantile_90",
        "distribution",
    }
)
"""Metrics of the decisions alone, over all people. All others, custom metrics included, need true labels or numbers."""

OVERALL_NAMES = (*METRIC_NAMES, "auc", "generalized_entropy_index", "theil_index")
"""What is measured of everybody together."""

GAP_NAMES = (
    "demographic_parity_difference",
    "demographic_parity_ratio",
    "equal_opportunity_difference",
    "equalized_odds_difference",
    "accuracy_difference",
    "false_discovery_difference",
    "false_omission_difference",
    "calibration_difference",
)
"""What is compared between groups, see ``Gap``."""


def number_name(name: str) -> str:
    """Return by which name a number is written: its own, or that of metrics of the user's own."""
    return name if name in METRIC_TITLES or name in GAP_TITLES else "own_metric"

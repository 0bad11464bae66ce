"""What is measured of labels by group and compared between groups: names and titles."""

from __future__ import annotations

RATE_TITLES = {
    "label_share": "share given it",
    "label_base_share": "share who truly have it",
    "label_true_positive_rate": "true positive rate",
    "label_false_positive_rate": "false positive rate",
    "label_precision": "precision",
}
"""Rate of one label against the rest -> its title in a table."""

LABEL_TITLES: dict[str, str] = {
    "label_accuracy": "accuracy (given the true label)",
    "macro_recall": "macro recall",
    "too_low": "graded too low",
    "too_high": "graded too high",
    "mean_grade_error": "mean error in grades",
    "weighted_kappa": "quadratic weighted kappa",
}
"""Metric over all labels -> its title. The last four are of labels in an order."""

LABEL_RATE_GAPS = {
    "label_share_difference": "label_share",
    "label_true_positive_difference": "label_true_positive_rate",
    "label_false_positive_difference": "label_false_positive_rate",
    "label_precision_difference": "label_precision",
}
"""Gap of one label against the rest -> the rate of each group that it compares."""

LABEL_GAP_TITLES: dict[str, str] = {
    "label_share_difference": "share given one label: highest minus lowest",
    "total_variation_distance": "total variation distance: the furthest apart of two groups' labels (0 to 1)",
    "cut_difference": "share given at least one grade: highest minus lowest",
    "probability_of_superiority": "probability of superiority: that a person of one group has the higher grade",
    "grade_wasserstein_distance": "Wasserstein distance in grades: the furthest apart of two groups",
    "label_accuracy_difference": "accuracy: highest minus lowest",
    "macro_recall_difference": "macro recall: highest minus lowest",
    "weighted_kappa_difference": "quadratic weighted kappa: highest minus lowest",
    "too_low_difference": "share graded too low: highest minus lowest",
    "too_high_difference": "share graded too high: highest minus lowest",
    "grade_error_difference": "mean error in grades (given minus true): highest minus lowest",
    "label_true_positive_difference": "true positive rate of one label: highest minus lowest",
    "label_false_positive_difference": "false positive rate of one label: highest minus lowest",
    "label_precision_difference": "precision of one label: highest minus lowest",
}
"""Gap between groups -> what is compared."""

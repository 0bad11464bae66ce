"""Every statistical formula in one place: numbers that say what they are, and their intervals."""

from evenhand.stats.auc import auc
from evenhand.stats.clustered import ClusteredMeans, clustered_means
from evenhand.stats.difference import newcombe, ratio
from evenhand.stats.discovery import benjamini_yekutieli, false_coverage_confidence, normal_p
from evenhand.stats.level import bonferroni, normal_quantile
from evenhand.stats.mean import observed_means, student, welch
from evenhand.stats.paired import (
    AucChange,
    PairedCells,
    auc_difference,
    change_of_largest,
    change_of_smallest_ratio,
    contrast,
    mcnemar,
    paired_difference,
)
from evenhand.stats.permutation import (
    adjusted_p,
    critical_value,
    permutation_moments,
    permuted_counts,
    permuted_sums,
    standardised_gap,
    standardised_mean_gap,
    stratified_gap,
)
from evenhand.stats.proportion import clopper_pearson, none_seen_upper, wilson
from evenhand.stats.quantity import Estimated, Observed, Proved, Quantity, Unknown, number, text
from evenhand.stats.rate import estimated_rate, observed_rate, observed_rates
from evenhand.stats.score_difference import common_difference, miettinen_nurminen, stratified_difference
from evenhand.stats.sequential import SequentialDifference, rate_bounds, rate_evidence, sequential_rate
from evenhand.stats.simultaneous import (
    largest_difference_of_means,
    largest_difference_of_proportions,
    pairs,
    smallest_ratio_of_proportions,
)
from evenhand.stats.stratified import Total, stratified

__all__ = [
    "AucChange",
    "ClusteredMeans",
    "Estimated",
    "Observed",
    "PairedCells",
    "Proved",
    "Quantity",
    "SequentialDifference",
    "Total",
    "Unknown",
    "adjusted_p",
    "auc",
    "auc_difference",
    "benjamini_yekutieli",
    "bonferroni",
    "change_of_largest",
    "change_of_smallest_ratio",
    "clopper_pearson",
    "clustered_means",
    "common_difference",
    "contrast",
    "critical_value",
    "estimated_rate",
    "false_coverage_confidence",
    "largest_difference_of_means",
    "largest_difference_of_proportions",
    "mcnemar",
    "miettinen_nurminen",
    "newcombe",
    "none_seen_upper",
    "normal_p",
    "normal_quantile",
    "number",
    "observed_means",
    "observed_rate",
    "observed_rates",
    "paired_difference",
    "pairs",
    "permutation_moments",
    "permuted_counts",
    "permuted_sums",
    "rate_bounds",
    "rate_evidence",
    "ratio",
    "sequential_rate",
    "smallest_ratio_of_proportions",
    "standardised_gap",
    "standardised_mean_gap",
    "stratified",
    "stratified_difference",
    "stratified_gap",
    "student",
    "text",
    "welch",
    "wilson",
]

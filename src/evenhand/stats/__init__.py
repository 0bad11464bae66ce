"""Every statistical formula in one place: numbers that say what they are, and their intervals."""

from evenhand.stats.auc import auc
from evenhand.stats.difference import newcombe, ratio
from evenhand.stats.level import bonferroni
from evenhand.stats.mean import observed_means, student, welch
from evenhand.stats.proportion import clopper_pearson, none_seen_upper, wilson
from evenhand.stats.quantity import Estimated, Observed, Proved, Quantity, Unknown, number, text
from evenhand.stats.rate import estimated_rate, observed_rate, observed_rates
from evenhand.stats.simultaneous import (
    largest_difference_of_means,
    largest_difference_of_proportions,
    pairs,
    smallest_ratio_of_proportions,
)
from evenhand.stats.stratified import Total, stratified

__all__ = [
    "Estimated",
    "Observed",
    "Proved",
    "Quantity",
    "Total",
    "Unknown",
    "auc",
    "bonferroni",
    "clopper_pearson",
    "estimated_rate",
    "largest_difference_of_means",
    "largest_difference_of_proportions",
    "newcombe",
    "none_seen_upper",
    "number",
    "observed_means",
    "observed_rate",
    "observed_rates",
    "pairs",
    "ratio",
    "smallest_ratio_of_proportions",
    "stratified",
    "student",
    "text",
    "welch",
    "wilson",
]

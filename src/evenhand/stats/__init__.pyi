from .combined import combined_share
from .contingency import StratifiedOdds, fisher_exact, mantel_haenszel
from .distribution import quantile_interval
from .level import bonferroni
from .mean import student_interval
from .paired import auc_difference, mcnemar, paired_difference
from .permutation import holm
from .proportion import clopper_pearson, difference_interval, ratio_interval, stratified_difference
from .quantity import Estimated, Known, Observed, Proved, Quantity, Unknown, format_quantity
from .sequential.betting import betting_bounds

__all__ = [
    "Estimated",
    "Known",
    "Observed",
    "Proved",
    "Quantity",
    "StratifiedOdds",
    "Unknown",
    "auc_difference",
    "betting_bounds",
    "bonferroni",
    "clopper_pearson",
    "combined_share",
    "difference_interval",
    "fisher_exact",
    "format_quantity",
    "holm",
    "mantel_haenszel",
    "mcnemar",
    "paired_difference",
    "quantile_interval",
    "ratio_interval",
    "stratified_difference",
    "student_interval",
]

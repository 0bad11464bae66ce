"""Statistics that may be looked at while data still come: bets, alpha spent at looks, confidence sequences."""

from evenhand.stats.sequential.betting import betting_bounds, betting_martingales, sequential_rate
from evenhand.stats.sequential.looks import AlphaSpending, largest_deviation, log_evidence

__all__ = [
    "AlphaSpending",
    "betting_bounds",
    "betting_martingales",
    "largest_deviation",
    "log_evidence",
    "sequential_rate",
]

"""Every statistical formula in one place: numbers that say what they are, and their intervals."""

from evenhand.stats.quantity import Estimated, Observed, Proved, Quantity, Unknown, number, text

__all__ = ["Estimated", "Observed", "Proved", "Quantity", "Unknown", "number", "text"]

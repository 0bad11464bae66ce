"""Numbers and names as people read them: enough digits, never so few that a small number looks like none."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TypeAlias

from evenhand.charts import percent_digits
from evenhand.stats import Estimated, Observed, Proved

Known: TypeAlias = Proved | Observed | Estimated
"""A quantity that is a number."""

EVERYONE = "everyone who could apply"
"""What the report calls the population beyond the data; which one it is, is said where the audit is described."""

METRICS = {
    "selection_rate": "selection rate",
    "base_rate": "favourable true label",
    "true_positive_rate": "true positive rate",
    "false_positive_rate": "false positive rate",
    "accuracy": "accuracy",
    "precision": "precision",
    "mean_score": "mean score",
    "calibration_gap": "score minus truth",
    "auc": "area under the ROC curve",
}
"""Metric -> its name in a sentence."""

GAPS = {
    "demographic_parity_difference": "selection rates: highest minus lowest (demographic parity)",
    "demographic_parity_ratio": "selection rates: lowest divided by highest (impact ratio)",
    "equal_opportunity_difference": "true positive rates: highest minus lowest (equal opportunity)",
    "equalized_odds_difference": "true or false positive rates, whichever differ more (equalized odds)",
    "calibration_difference": "score minus truth: highest minus lowest (calibration)",
    "accuracy_difference": "accuracy: highest minus lowest",
}
"""Gap -> what is compared."""

PLAIN = frozenset({"mean_score", "calibration_gap", "auc", *GAPS})
"""Numbers written as decimals; all others are shares of people, written in percent."""


def joined(protected: Iterable[str]) -> str:
    """Several protected attributes as one name: ``sex x race``."""
    return " x ".join(protected)


def at_least(share: float) -> str:
    """A proved lower bound in percent, rounded down, so that what is written is proved too."""
    return _bound(share, upper=False)


def at_most(share: float) -> str:
    """A proved upper bound in percent, rounded up."""
    return _bound(share, upper=True)


def _bound(share: float, *, upper: bool) -> str:
    digits = percent_digits(share)
    # The small term: what was 96.1 before it became binary stays 96.1.
    scaled = 100 * share * 10**digits
    end = math.ceil(scaled - 1e-7) if upper else math.floor(scaled + 1e-7)
    return f"{end / 10**digits:.{digits}f} %"


def decimal(value: float) -> str:
    """A difference, a ratio or a score: two digits, more where it is close to 0 or to 1.

    >>> decimal(0.1934), decimal(0.0042), decimal(0.99951), decimal(float("inf"))
    ('0.19', '0.0042', '0.99951', 'without limit')
    """
    return _written(value, _decimal_digits(value))


def _decimal_digits(value: float) -> int:
    if math.isinf(value) or value in (0, 1):
        return 0
    small = min(abs(value), 20 * abs(1 - value))
    return 2 if small >= 0.1 else min(8, 1 - math.floor(math.log10(min(abs(value), abs(1 - value)))))


def _written(value: float, digits: int) -> str:
    if math.isinf(value):
        return "without limit"
    return f"{value:.0f}" if value in (0, 1) else f"{value:.{digits}f}"


def against(value: float, threshold: float) -> str:
    """A decimal with enough digits to see on which side of a threshold it lies."""
    digits = 2
    while digits < 8 and (round(value, digits) < threshold) != (value < threshold):
        digits += 1
    return f"{value:.{digits}f}"


def value(quantity: Known, name: str) -> str:
    """The number, with as many digits as its interval gives reason for, and never so few that it looks like none."""
    return _plain(quantity.value, quantity, name) + ("" if name in PLAIN else " %")


def ends(quantity: Known, name: str) -> str:
    """The ends of its interval, with as many digits: ``0.17 to 0.21``; nothing for a number without one."""
    if isinstance(quantity, Proved):
        return ""
    low, high = (_plain(end, quantity, name) for end in (quantity.low, quantity.high))
    return f"{low} to {high}{'' if name in PLAIN else ' %'}"


def interval(quantity: Known, name: str) -> str:
    """``95 % interval 0.17 to 0.21``; nothing for a number without one."""
    if isinstance(quantity, Proved):
        return ""
    return f"{level(quantity.confidence)} interval {ends(quantity, name)}"


def _plain(number: float, quantity: Known, name: str) -> str:
    """One number of a quantity, without its unit; with more digits if it would look like 0."""
    if name in PLAIN:
        own, reason = _decimal_digits(quantity.value), _width_digits(quantity, 1)
        digits = max(2, own if reason is None else max(reason, min(own, reason + 1)))
        return _written(number, max(digits, _decimal_digits(number)) if round(number, digits) == 0 else digits)
    digits = max(1, percent_digits(quantity.value), _width_digits(quantity, 100) or 0)
    if round(100 * number, digits) == 0:
        digits = max(digits, percent_digits(number))
    return f"{100 * number:.0f}" if number in (0, 1) else f"{100 * number:.{digits}f}"


def _width_digits(quantity: Known, scale: float) -> int | None:
    """Digits after the point that the width of its interval gives reason for; None without one."""
    half = 0.0 if isinstance(quantity, Proved) else scale * (quantity.high - quantity.low) / 2
    return min(8, math.ceil(-math.log10(half))) if 0 < half < math.inf else None


def level(confidence: float) -> str:
    """A confidence as ``95 %``."""
    return f"{100 * confidence:.6g} %"


def basis(quantity: Known) -> str:
    """What the number rests on, to be read after its kind: ``on 9,769 people``."""
    if isinstance(quantity, Proved):
        return quantity.how
    if isinstance(quantity, Observed):
        return f"on {count(quantity.n, 'person', 'people')}"
    return f"from {count(quantity.n, 'sampled individual', 'sampled individuals')}"


def count(n: int, one: str, many: str) -> str:
    """``1 person``, ``9,769 people``."""
    return f"{n:,} {one if n == 1 else many}"


def listed(words: Sequence[str], most: int = 12) -> str:
    """Some of the words and how many more there are."""
    shown = ", ".join(words[:most])
    return f"{shown} and {len(words) - most:,} more" if len(words) > most else shown


def duration(seconds: float) -> str:
    """``0.4 s``, ``41.7 s``, ``3 min 5 s``."""
    if seconds < 100:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes:,} min {rest} s"

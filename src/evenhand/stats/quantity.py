"""Numbers that say what they are: proved, observed, estimated, or unknown. They are never mixed silently."""

from __future__ import annotations

import math
from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from evenhand.core.document import ReportedNumber
from evenhand.core.result_part import ResultPart
from evenhand.core.text import decimal_digits, format_count, format_digits, format_level, percent_digits


class Proved(ResultPart):
    """A number that follows by proof from the model and the domain; no sampling is in it."""

    kind: Literal["proved"] = "proved"
    value: float
    how: str


class Observed(ResultPart):
    """A number counted on given people, with an interval for the people they stand for.

    Attributes:
        value: what was counted.
        n: on how many people.
        low, high, confidence: interval for the value among people like these, sampled independently.
    """

    kind: Literal["observed"] = "observed"
    value: float
    n: int
    low: float
    high: float
    confidence: float
    method: str


class Estimated(ResultPart):
    """A number about a whole population, estimated from a random sample of it.

    Attributes:
        value: the estimate.
        n: the size of the sample.
        low, high, confidence: the interval, two-sided.
        population: what was sampled.
        method: the interval's name.
    """

    kind: Literal["estimated"] = "estimated"
    value: float
    low: float
    high: float
    confidence: float
    n: int
    population: str
    method: str


class Unknown(ResultPart):
    """No number, and why: an empty group, a ratio to zero."""

    kind: Literal["unknown"] = "unknown"
    reason: str


Quantity: TypeAlias = Annotated[Proved | Observed | Estimated | Unknown, Field(discriminator="kind")]


def quantity_value(quantity: Proved | Observed | Estimated | Unknown) -> float | None:
    """Return the value itself, None if unknown: for thresholds and plots, after its kind was said."""
    return None if isinstance(quantity, Unknown) else quantity.value


def format_quantity(quantity: Proved | Observed | Estimated | Unknown, *, percent: bool = True) -> str:
    """Return one phrase with the number, its kind, its interval and its sample size."""
    if isinstance(quantity, Unknown):
        return f"unknown ({quantity.reason})"
    shown = _format_value(quantity.value, percent)
    if isinstance(quantity, Proved):
        return f"{shown} (proved)"
    low, high = _format_value(quantity.low, percent), _format_value(quantity.high, percent)
    interval = f"{quantity.confidence:.0%} interval {low} to {high}"
    people = "people" if isinstance(quantity, Observed) else "sampled individuals"
    return f"{shown} ({quantity.kind} on {quantity.n:,} {people}, {interval})"


def _format_value(value: float, percent: bool) -> str:
    if not percent:
        return f"{value:.3f}"
    scaled = 100 * value
    digits = 0 if scaled in (0.0, 100.0) else 1 if abs(scaled) >= 1 else 2
    return f"{scaled:.{digits}f} %"


Known: TypeAlias = Proved | Observed | Estimated
"""A quantity that is a number."""

MOST_MORE_DIGITS = 3
"""Digits that the width of an interval may add to those of a percentage by itself: 18.2089 % at most."""
ROUNDING = 1e-9
"""Ends of an interval that differ by less than this part of them differ by rounding error alone."""

DECIMAL = frozenset(
    {
        "accuracy_difference",
        "attention_minus_merit",
        "auc",
        "calibration_difference",
        "calibration_gap",
        "cut_difference",
        "demographic_parity_difference",
        "demographic_parity_ratio",
        "disparate_treatment_ratio",
        "equal_opportunity_difference",
        "equalized_odds_difference",
        "exposure",
        "exposure_per_relevance",
        "exposure_ratio",
        "false_discovery_difference",
        "false_omission_difference",
        "generalized_entropy_index",
        "kolmogorov_distance",
        "label_accuracy_difference",
        "label_false_positive_difference",
        "label_precision_difference",
        "label_share_difference",
        "label_true_positive_difference",
        "macro_recall_difference",
        "mean_score",
        "own_metric",
        "pairwise_accuracy_difference",
        "pairwise_parity_difference",
        "relative_exposure",
        "representation_ratio",
        "selection_difference",
        "selection_ratio",
        "probability_of_superiority",
        "theil_index",
        "too_high_difference",
        "too_low_difference",
        "total_variation_distance",
        "weighted_kappa",
        "weighted_kappa_difference",
    }
)
"""Numbers written as decimals; all others are shares of people, written in percent, or measured in a unit."""

MEASURED = frozenset(
    {
        "absolute_error_difference",
        "grade_error_difference",
        "grade_wasserstein_distance",
        "mean",
        "mean_absolute_error",
        "mean_difference",
        "mean_grade_error",
        "mean_residual",
        "median",
        "median_difference",
        "quantile_10",
        "quantile_10_difference",
        "quantile_90",
        "quantile_90_difference",
        "residual_difference",
        "true_mean",
        "wasserstein_distance",
    }
)
"""Numbers in the unit of what is decided, such as prices."""


def format_value(quantity: Known, name: str) -> str:
    """Return the number, with as many digits as its interval supports, never so few that it looks like 0."""
    return _format_number(quantity.value, quantity, name) + _percent_sign(name)


def format_ends(quantity: Known, name: str) -> str:
    """Return the ends of its interval, with as many digits: ``0.17 to 0.21``; nothing for a number without one."""
    if isinstance(quantity, Proved):
        return ""
    low, high = (_format_number(end, quantity, name) for end in (quantity.low, quantity.high))
    return f"{low} to {high}{_percent_sign(name)}"


def _percent_sign(name: str) -> str:
    return "" if name in DECIMAL or name in MEASURED else " %"


def format_interval(quantity: Known, name: str) -> str:
    """Return ``95 % interval 0.17 to 0.21``; nothing for a number without one."""
    if isinstance(quantity, Proved):
        return ""
    return f"{format_level(quantity.confidence)} interval {format_ends(quantity, name)}"


def _format_number(number: float, quantity: Known, name: str) -> str:
    """Return one number of a quantity, without its unit; with more digits if it would look like 0."""
    if name in MEASURED:
        width = _width_digits(quantity, 1)
        digits = min(8, max(0, width + 1 if width is not None else decimal_digits(number)))
        return f"{number:,.{digits}f}"
    if name in DECIMAL:
        own, reason = decimal_digits(quantity.value), _width_digits(quantity, 1)
        digits = max(2, own if reason is None else max(reason, min(own, reason + 1)))
        return format_digits(number, max(digits, decimal_digits(number)) if round(number, digits) == 0 else digits)
    own = percent_digits(quantity.value)
    digits = max(1, own, min(_width_digits(quantity, 100) or 0, own + MOST_MORE_DIGITS))
    if round(100 * number, digits) == 0:
        digits = max(digits, percent_digits(number))
    return f"{100 * number:.0f}" if number in (0, 1) else f"{100 * number:.{digits}f}"


def _width_digits(quantity: Known, scale: float) -> int | None:
    """Return digits after the point that the width of its interval gives reason for; None without one.

    Ends that differ by mere rounding error, such as those of a share that is wholly decided, are no interval.
    """
    if isinstance(quantity, Proved) or math.isclose(quantity.low, quantity.high, rel_tol=ROUNDING, abs_tol=ROUNDING**2):
        return None
    half = scale * (quantity.high - quantity.low) / 2
    return min(8, math.ceil(-math.log10(half))) if half < math.inf else None


def format_basis(quantity: Known) -> str:
    """Return what the number rests on, to be read after its kind: ``on 9,769 people``."""
    if isinstance(quantity, Proved):
        return quantity.how
    if isinstance(quantity, Observed):
        return f"on {format_count(quantity.n, 'person', 'people')}"
    return f"from {format_count(quantity.n, 'sampled individual', 'sampled individuals')}"


def show_quantity(quantity: Quantity, name: str, *, basis: str | None = None) -> ReportedNumber:
    """Return a quantity as a number of a document.

    Args:
        quantity: what is known.
        name: what it measures: decimals for gaps, ratios and scores, percent for all else.
        basis: what it was counted on, in words; by default as the quantity says.
    """
    if isinstance(quantity, Unknown):
        return ReportedNumber("-", kind="unknown", basis=quantity.reason)
    text, said = format_value(quantity, name), format_basis(quantity) if basis is None else basis
    if isinstance(quantity, Proved):
        return ReportedNumber(text, quantity.value, kind="proved", basis=said)
    return ReportedNumber(
        text,
        quantity.value,
        kind=quantity.kind,
        low=quantity.low,
        high=quantity.high,
        ends=format_ends(quantity, name),
        confidence=quantity.confidence,
        basis=said,
    )

"""Proved, observed, estimated and unknown numbers as distinct types, and their formatting."""

from __future__ import annotations

import math
from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from evenhand.core.document import ReportedNumber
from evenhand.core.result_part import ResultPart
from evenhand.core.text import decimal_digits, format_count, format_digits, format_level, percent_digits
from evenhand.stats.metric_specs import unit_of


class Proved(ResultPart):
    """A number proved from the model and the domain, without sampling.

    Attributes:
        value: The number.
        how: Method of the proof.
    """

    kind: Literal["proved"] = "proved"
    value: float
    how: str


class Observed(ResultPart):
    """A number observed on people, with an interval for the population that they represent.

    Attributes:
        value: Observed number.
        n: Number of people.
        low, high, confidence: Confidence interval, assuming independently sampled people.
        method: Name of the interval.
    """

    kind: Literal["observed"] = "observed"
    value: float
    n: int
    low: float
    high: float
    confidence: float
    method: str


class Estimated(ResultPart):
    """A number that describes a whole population, estimated from a random sample.

    Attributes:
        value: Estimate.
        low, high, confidence: Two-sided confidence interval.
        n: Sample size.
        population: Name of the population.
        method: Name of the interval.
    """

    kind: Literal["estimated"] = "estimated"
    value: float
    low: float
    high: float
    confidence: float
    n: int
    population: str
    method: str


class Descriptive(ResultPart):
    """A number that describes the data alone, without an interval for a population.

    Attributes:
        value: The number.
        n: Size of the data, such as the number of lists.
        random_low, random_high: Range of the number in random orders, which ignore the groups. None if it was not
            computed, or if the number is the same in every order.
        p: Share of random orders with a number at least as far from the mean.
    """

    kind: Literal["descriptive"] = "descriptive"
    value: float
    n: int
    random_low: float | None = None
    random_high: float | None = None
    p: float | None = None


class Unknown(ResultPart):
    """A missing number.

    Attributes:
        reason: Reason why there is no number, such as an empty group.
    """

    kind: Literal["unknown"] = "unknown"
    reason: str


Quantity: TypeAlias = Annotated[Proved | Observed | Estimated | Descriptive | Unknown, Field(discriminator="kind")]


def quantity_value(quantity: Quantity) -> float | None:
    """Return the value of a quantity, or None if it is unknown."""
    return None if isinstance(quantity, Unknown) else quantity.value


Sampled: TypeAlias = Observed | Estimated
"""A quantity with an interval."""

Known: TypeAlias = Proved | Sampled | Descriptive
"""A quantity with a value."""

MAX_EXTRA_DIGITS = 3
"""Maximum number of digits that a narrow interval adds to a percentage, as in 18.2089 %."""
ROUNDING = 1e-9
"""Relative difference below which both ends of an interval are considered equal."""


def format_value(quantity: Known, name: str) -> str:
    """Format a number with as many digits as its interval supports, and with a non-zero digit unless it is 0."""
    return _format_number(quantity.value, _count_digits(quantity, name), name) + _percent_sign(name)


def format_ends(quantity: Known, name: str) -> str:
    """Format both ends of an interval with the digits of the value, such as ``0.17 to 0.21``. Empty without an
    interval.
    """
    if not isinstance(quantity, Sampled):
        return ""
    digits = _count_digits(quantity, name)
    low, high = (_format_number(end, digits, name) for end in (quantity.low, quantity.high))
    return f"{low} to {high}{_percent_sign(name)}"


def _percent_sign(name: str) -> str:
    return " %" if unit_of(name) == "percent" else ""


def format_interval(quantity: Known, name: str) -> str:
    """Format an interval with its level, such as ``95 % interval 0.17 to 0.21``. Empty without an interval."""
    if not isinstance(quantity, Sampled):
        return ""
    return f"{format_level(quantity.confidence)} interval {format_ends(quantity, name)}"


def _format_number(number: float, digits: int, name: str) -> str:
    """Format the value or an end of a quantity without its unit. Only 0 and 1 are formatted without decimals."""
    scaled = 100 * number if unit_of(name) == "percent" else number
    if scaled != 0 and round(scaled, digits) == 0:
        scaled = 0.0  # without a sign
        return f"{scaled:.{digits}f}"
    if unit_of(name) == "target":
        return f"{number:,.{digits}f}"
    if unit_of(name) == "decimal":
        return format_digits(number, digits)
    return f"{scaled:.0f}" if number in (0, 1) else f"{scaled:.{digits}f}"


def _count_digits(quantity: Known, name: str) -> int:
    """Return the number of decimals of a value and its interval, large enough that the value is not shown as 0."""
    value = quantity.value
    if unit_of(name) == "target":
        width = _width_digits(quantity, 1)
        return min(8, max(0, width + 1 if width is not None else decimal_digits(value)))
    if unit_of(name) == "decimal":
        default, width = decimal_digits(value), _width_digits(quantity, 1)
        digits = max(2, default if width is None else max(width, min(default, width + 1)))
        return max(digits, default) if round(value, digits) == 0 else digits
    default = percent_digits(value)
    return max(1, default, min(_width_digits(quantity, 100) or 0, default + MAX_EXTRA_DIGITS))


def _width_digits(quantity: Known, scale: float) -> int | None:
    """Compute the number of decimals that the width of an interval supports.

    None if there is no interval, or if both ends are equal up to rounding, as for a completely decided share.
    """
    if not isinstance(quantity, Sampled) or math.isclose(
        quantity.low, quantity.high, rel_tol=ROUNDING, abs_tol=ROUNDING**2
    ):
        return None
    half = scale * (quantity.high - quantity.low) / 2
    return min(8, math.ceil(-math.log10(half))) if half < math.inf else None


COMBINED = "proofs and all draws, exact test of a weighted count"
"""Method of an interval that combines a sample with a proof."""
OFF_CENTRE = 0.2
"""Distance of an estimate from the middle of its interval, in widths, above which it is explained."""


def explain_position(quantity: Quantity) -> str:
    """Explain why an estimate is not in the middle of its interval. Empty if it is, or if the interval is not proved.

    Intervals that combine a sample with a proof end at the proved bounds.
    """
    if not isinstance(quantity, Estimated) or quantity.method != COMBINED:
        return ""
    width = quantity.high - quantity.low
    if abs(quantity.value - (quantity.low + quantity.high) / 2) <= OFF_CENTRE * width:
        return ""
    return "the interval ends at the proved bounds, so the estimate need not be in its middle"


def format_random_orders(quantity: Descriptive, name: str) -> str:
    """Format the range in random orders and the p-value; empty without them."""
    if quantity.random_low is None or quantity.random_high is None or quantity.p is None:
        return ""
    low, high = (Descriptive(value=end, n=quantity.n) for end in (quantity.random_low, quantity.random_high))
    digits = 4 if quantity.p < 0.01 else 2
    return f"random orders {format_value(low, name)} to {format_value(high, name)}, p = {quantity.p:.{digits}f}"


def format_basis(quantity: Known) -> str:
    """Describe the data or proof behind a number, as in ``on 9,769 people``."""
    if isinstance(quantity, Proved):
        return quantity.how
    if isinstance(quantity, Observed | Descriptive):
        return f"on {format_count(quantity.n, 'person', 'people')}"
    return f"from {format_count(quantity.n, 'sampled individual', 'sampled individuals')}"


def format_quantity(quantity: Quantity, name: str = "rate") -> str:
    """Format a number with its kind, sample size and interval as one phrase.

    >>> format_quantity(Observed(value=0.25, n=4, low=0.1, high=0.8, confidence=0.95, method="exact"))
    '25.0 % (observed on 4 people, 95 % interval 10.0 to 80.0 %)'
    """
    if isinstance(quantity, Unknown):
        return f"unknown ({quantity.reason})"
    if isinstance(quantity, Proved):
        return f"{format_value(quantity, name)} (proved)"
    parts = [f"{quantity.kind} {format_basis(quantity)}", format_interval(quantity, name)]
    return f"{format_value(quantity, name)} ({', '.join(filter(None, parts))})"


def show_quantity(quantity: Quantity, name: str, *, basis: str | None = None) -> ReportedNumber:
    """Convert a quantity to a number for a document.

    Args:
        quantity: Quantity.
        name: Name of the metric, which determines the format.
        basis: Description of the data behind the number. Default: that of ``format_basis``.
    """
    if isinstance(quantity, Unknown):
        return ReportedNumber("-", kind="unknown", basis=quantity.reason)
    text = format_value(quantity, name)
    basis = format_basis(quantity) if basis is None else basis
    if isinstance(quantity, Proved):
        return ReportedNumber(text, quantity.value, kind="proved", basis=basis)
    if isinstance(quantity, Descriptive):
        ends = format_random_orders(quantity, name)
        return ReportedNumber(text, quantity.value, kind="observed", ends=ends, basis=basis)
    return ReportedNumber(
        text,
        quantity.value,
        kind=quantity.kind,
        low=quantity.low,
        high=quantity.high,
        ends=format_ends(quantity, name),
        confidence=quantity.confidence,
        basis=basis,
    )

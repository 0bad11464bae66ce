"""Numbers that say what they are: proved, observed, estimated, or unknown. They are never mixed silently."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field


class Proved(BaseModel):
    """A number that follows by proof from the model and the domain; no sampling is in it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["proved"] = "proved"
    value: float
    how: str


class Observed(BaseModel):
    """A number counted on given people, with an interval for the people they stand for.

    Attributes:
        value: what was counted.
        n: on how many people.
        low, high, confidence: interval for the value among people like these, sampled independently.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["observed"] = "observed"
    value: float
    n: int
    low: float
    high: float
    confidence: float
    method: str


class Estimated(BaseModel):
    """A number about a whole population, estimated from a random sample of it.

    Attributes:
        value: the estimate.
        n: the size of the sample.
        low, high, confidence: the interval, two-sided.
        population: what was sampled.
        method: the interval's name.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["estimated"] = "estimated"
    value: float
    low: float
    high: float
    confidence: float
    n: int
    population: str
    method: str


class Unknown(BaseModel):
    """No number, and why: an empty group, a ratio to zero."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["unknown"] = "unknown"
    reason: str


Quantity: TypeAlias = Annotated[Proved | Observed | Estimated | Unknown, Field(discriminator="kind")]


def number(quantity: Proved | Observed | Estimated | Unknown) -> float | None:
    """The value itself, None if unknown: for thresholds and plots, after its kind was said."""
    return None if isinstance(quantity, Unknown) else quantity.value


def text(quantity: Proved | Observed | Estimated | Unknown, *, percent: bool = True) -> str:
    """One phrase with the number, its kind, its interval and its sample size."""
    if isinstance(quantity, Unknown):
        return f"unknown ({quantity.reason})"
    shown = _shown(quantity.value, percent)
    if isinstance(quantity, Proved):
        return f"{shown} (proved)"
    interval = f"{quantity.confidence:.0%} interval {_shown(quantity.low, percent)} to {_shown(quantity.high, percent)}"
    people = "people" if isinstance(quantity, Observed) else "sampled individuals"
    return f"{shown} ({quantity.kind} on {quantity.n:,} {people}, {interval})"


def _shown(value: float, percent: bool) -> str:
    if not percent:
        return f"{value:.3f}"
    scaled = 100 * value
    digits = 0 if scaled in (0.0, 100.0) else 1 if abs(scaled) >= 1 else 2
    return f"{scaled:.{digits}f} %"

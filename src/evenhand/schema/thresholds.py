"""Thresholds on scores: one for all rows, or one per value of an attribute."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from evenhand.core.text import suggest_name
from evenhand.core.typing import Booleans, Floats
from evenhand.errors import OptionError
from evenhand.schema.schema import Schema
from evenhand.schema.words import read_number

PERCENT = 100.0
"""Maximum score on a scale of percentages or points."""

MOST_VALUES = 100
"""Maximum number of values of an attribute with one threshold per value."""

FORM = "a number, and optionally one per group: `threshold=0.5`, `threshold=sex=Female:0.4`"


class Thresholds(BaseModel):
    """Score thresholds of the favourable decision.

    Attributes:
        default: Threshold of all values that are not in ``own``. None if each value of the attribute has one.
        attribute: Attribute with one threshold per value. None if there is a single threshold.
        own: Thresholds by value of the attribute.
        low_is_good: Whether to select scores at or below the threshold, as for risk scores, instead of at or above it.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    default: float | None = None
    attribute: str | None = None
    own: dict[str, float] = Field(default_factory=dict)
    low_is_good: bool = False

    @classmethod
    def parse(cls, thresholds: Any) -> Self:
        """Parse a number, a text such as ``"0.5"`` or ``"sex=Female:0.4"``, or a list of these.

        Raises:
            OptionError: A threshold is invalid or repeated, or the thresholds refer to more than one attribute.
        """
        if isinstance(thresholds, cls):
            return thresholds
        is_list = isinstance(thresholds, Sequence | np.ndarray) and not isinstance(thresholds, str)
        numbers: dict[tuple[str, str], float] = {}
        for item in thresholds if is_list else [thresholds]:
            group, _, number = str(item).rpartition(":")
            name, _, value = (part.strip() for part in group.partition("="))
            threshold = read_number(number)
            if not math.isfinite(threshold) or (group and not (name and value)):
                raise OptionError(f"expected {FORM}; got {item!r}", location="`threshold=`")
            if (name, value) in numbers:
                label = f"{name} {value}" if group else "all other values"
                earlier = numbers[name, value]
                raise OptionError(f"expected one threshold for {label}, got {earlier:g} and {threshold:g}")
            numbers[name, value] = threshold
        default = numbers.pop(("", ""), None)
        if default is None and not numbers:
            raise OptionError(f"expected {FORM}; got none")
        names = list(dict.fromkeys(name for name, _ in numbers))
        if len(names) > 1:
            raise OptionError(
                f"expected thresholds by one attribute, got {names[0]} and {names[1]}",
                hint="run one audit for each attribute",
            )
        own = {value: threshold for (_, value), threshold in numbers.items()}
        return cls(default=default, attribute=names[0] if names else None, own=own)

    @property
    def uses_protected(self) -> bool:
        """Whether the decision depends on the attribute as well as the score."""
        return len(self.values) > 1

    @property
    def values(self) -> tuple[float, ...]:
        """Distinct thresholds in ascending order."""
        return tuple(sorted({*self.own.values(), *([] if self.default is None else [self.default])}))

    def describe(self) -> str:
        """Format the thresholds: ``0.4 for sex Female, 0.5 for all others``."""
        parts = [f"{threshold:g} for {self.attribute} {value}" for value, threshold in self.own.items()]
        if self.default is not None:
            parts.append(f"{self.default:g} for all others" if parts else f"{self.default:g}")
        return ", ".join(parts)

    def select(self, scores: Floats, schema: Schema, individuals: Floats) -> Booleans:
        """Mark the scores that reach the threshold (or do not exceed it if low scores are good), shape (n,).

        Args:
            scores: Scores, shape (n,).
            schema: Schema of the individuals that passed ``check_schema``.
            individuals: Individuals, shape (n, attributes).
        """
        sign = -1 if self.low_is_good else 1
        default = sign * math.inf if self.default is None else self.default
        if self.attribute is None:
            return np.asarray(sign * scores >= sign * default)
        attribute = schema[self.attribute]
        entries, codes = np.unique(individuals[:, schema.position(self.attribute)], return_inverse=True)
        thresholds = np.array([self.own.get(attribute.text(entry), default) for entry in entries.tolist()])
        return np.asarray(sign * scores >= sign * thresholds[codes])

    def check_schema(self, schema: Schema) -> None:
        """Check that the schema has the attribute and its values, and that each value has a threshold.

        Raises:
            OptionError: The attribute or a value is unknown, or a value has no threshold.
        """
        if self.attribute is None:
            return
        if self.attribute not in schema.names:
            hint = f"{suggest_name(self.attribute, schema.names)}the attributes are: {', '.join(schema.names)}"
            raise OptionError(f"there is no attribute {self.attribute!r}", location="`threshold=`", hint=hint)
        attribute = schema[self.attribute]
        if attribute.size is None or attribute.size > MOST_VALUES:
            raise OptionError(
                f"expected an attribute with at most {MOST_VALUES} values, got {self.attribute!r}",
                location="`threshold=`",
                hint="make it ordinal with `edges: [...]` in the schema",
            )
        values = [attribute.text(entry) for entry in attribute.domain().tolist()]
        for value in self.own:
            if value not in values:
                hint = f"{suggest_name(value, values)}the values are: {', '.join(values)}"
                raise OptionError(f"{self.attribute} has no value {value!r}", location="`threshold=`", hint=hint)
        missing = [value for value in values if value not in self.own]
        if self.default is None and missing:
            raise OptionError(
                f"{self.attribute} {', '.join(missing)} has no threshold",
                location="`threshold=`",
                hint="add a default for all other values, such as `threshold=0.5`",
            )

    def check_scale(self, scores: Floats) -> None:
        """Check that the thresholds are on the scale of the scores, which are never rescaled silently.

        Raises:
            OptionError: Scores from 0 to 100 and a threshold below 1, or scores from 0 to 1 and a threshold above 1.
        """
        low, high = float(scores.min()), float(scores.max())
        hint = "give the threshold on the scale of the scores"
        for threshold in self.values:
            message = f"the scores are between {low:g} and {high:g}, and the threshold is {threshold:g}"
            if 0 < threshold < 1 and looks_like_points(scores):
                hint += f", such as `threshold={PERCENT * threshold:g}` on a scale of 100, or divide the scores by 100"
                raise OptionError(message, location="`threshold=`", hint=hint)
            if threshold > 1 and low >= 0 and high <= 1:
                message += f": {'every' if self.low_is_good else 'no'} person would be selected"
                hint += f", such as `threshold={threshold / PERCENT:g}`" if threshold <= PERCENT else ""
                raise OptionError(message, location="`threshold=`", hint=hint)


def looks_like_points(scores: Floats) -> bool:
    """Check whether scores look like percentages or points from 0 to 100 rather than probabilities."""
    return len(scores) > 0 and bool(scores.min() >= 0 and 1 < scores.max() <= PERCENT)


def describe_scale(scores: Floats) -> str:
    """Explain why scores are not probabilities, and how to convert percentages."""
    message = f"the scores are not probabilities: some are outside 0 to 1 (range: {scores.min():g} to {scores.max():g})"
    return f"{message}; if they are percentages, divide them by 100" if looks_like_points(scores) else message

"""Threshold of scores."""

from __future__ import annotations

import math
from typing import Any, Self

import numpy as np
from pydantic import BaseModel, ConfigDict

from evenhand.core.typing import Booleans, Floats
from evenhand.errors import OptionError
from evenhand.schema.table import read_number, unknown_codes

PERCENT = 100.0
"""Maximum score on a scale of percentages or points."""


class Threshold(BaseModel):
    """Score threshold of the favourable decision.

    Attributes:
        value: The threshold.
        low_is_good: Whether to select scores at or below the threshold, as for risk scores, instead of at or above it.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    value: float
    low_is_good: bool = False

    @classmethod
    def parse(cls, value: Any, *, low_is_good: bool = False) -> Self:
        """Parse a number, or its text.

        Raises:
            OptionError: The threshold is not a finite number.
        """
        number = read_number(value)
        if not math.isfinite(number):
            raise OptionError(f"expected a number such as `threshold=0.5`, got {value!r}", location="`threshold=`")
        return cls(value=number, low_is_good=low_is_good)

    def select(self, scores: Floats) -> Booleans:
        """Mark the scores (n,) that reach the threshold, or do not exceed it if low scores are good."""
        return np.asarray(scores <= self.value if self.low_is_good else scores >= self.value)

    def check_scale(self, scores: Floats) -> None:
        """Check that the threshold is on the scale of the scores, which are never rescaled silently.

        Raises:
            OptionError: Scores above 1 and a threshold below 1, or scores from 0 to 1 and a threshold above 1.
        """
        low, high, threshold = float(scores.min()), float(scores.max()), self.value
        message = f"the scores are between {low:g} and {high:g}, and the threshold is {threshold:g}"
        hint = "give the threshold on the scale of the scores"
        if 0 < threshold < 1 and low >= 0 and high > 1:
            if looks_like_points(scores):
                hint += f", such as `threshold={PERCENT * threshold:g}` on a scale of 100, or divide the scores by 100"
        elif threshold > 1 and low >= 0 and high <= 1:
            message += f": {'every' if self.low_is_good else 'no'} person would be selected"
            hint += f", such as `threshold={threshold / PERCENT:g}`" if threshold <= PERCENT else ""
        else:
            return
        raise OptionError(message, location="`threshold=`", hint=hint)


def looks_like_points(scores: Floats) -> bool:
    """Check whether scores look like percentages or points from 0 to 100 rather than probabilities."""
    return len(scores) > 0 and bool(scores.min() >= 0 and 1 < scores.max() <= PERCENT)


def find_codes(scores: Floats) -> list[float]:
    """List the codes for unknown values, such as -1, if they are the minority outside 0 to 1, or outside 0 to 100."""
    for highest in (1.0, PERCENT):
        outside = scores[(scores < 0) | (scores > highest)]
        codes = sorted(set(outside.tolist()))
        if 0 < len(outside) < len(scores) / 2 and len(unknown_codes(codes)) == len(codes):
            return codes
    return []


def describe_scale(scores: Floats) -> str:
    """Explain why scores are not probabilities, and how to convert percentages."""
    message = f"the scores are not probabilities: some are outside 0 to 1 (range: {scores.min():g} to {scores.max():g})"
    return f"{message}; if they are percentages, divide them by 100" if looks_like_points(scores) else message

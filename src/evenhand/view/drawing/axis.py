"""Axes: tick labels, and positions of values along an axis."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

MINUS = "\N{MINUS SIGN}"

NARROW_PERCENT = "\N{NARROW NO-BREAK SPACE}%"
"""Percent sign in pages and charts."""


@dataclass(frozen=True)
class Axis:
    """An axis from ``low`` to ``high``, inclusive.

    Attributes:
        low, high: its ends, low < high.
        ticks: positions of the ticks, each with its label.
    """

    low: float
    high: float
    ticks: tuple[tuple[float, str], ...]

    def at(self, value: float) -> float:
        """Compute the position of a value between ``low`` and ``high`` in percent, clipped to 0 and 100."""
        return min(100.0, max(0.0, 100 * (value - self.low) / (self.high - self.low)))


def spread(
    low: float, high: float, texts: Callable[[Sequence[float]], list[str]], *, about: int = 5, whole: bool = False
) -> Axis:
    """Build an axis with about ``about`` round ticks. If ``whole``, the axis ends at a tick."""
    step = _step(low, high, about)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    if whole and last * step < high:
        last += 1
        high = last * step
    values = [i * step for i in range(first, last + 1)]
    return Axis(low, high, tuple(zip(values, texts(values), strict=True)))


def percentages(values: Sequence[float]) -> list[str]:
    r"""Format shares in percent, all with the same number of digits.

    >>> percentages([0, 0.025, 0.05])
    ['0.0\u202f%', '2.5\u202f%', '5.0\u202f%']
    """
    digits = next((n for n in range(8) if all(abs(100 * value - round(100 * value, n)) < 1e-9 for value in values)), 8)
    return [f"{100 * value:.{digits}f}{NARROW_PERCENT}" for value in values]


def differences(values: Sequence[float]) -> list[str]:
    """Format differences, each with its sign; 0 has none.

    >>> differences([-10.0, 0.0, 0.5])
    ['−10', '0', '+0.5']
    """
    return ["0" if abs(value) < 1e-12 else f"{value:+.4g}".replace("-", MINUS) for value in values]


def _step(low: float, high: float, about: int) -> float:
    """Compute the distance between ticks: 1, 2 or 5 times a power of ten."""
    raw = (high - low) / about
    power = 10.0 ** math.floor(math.log10(raw))
    return power * (
        10
        if raw / power >= math.sqrt(50)
        else 5
        if raw / power >= math.sqrt(10)
        else 2
        if raw / power >= math.sqrt(2)
        else 1
    )

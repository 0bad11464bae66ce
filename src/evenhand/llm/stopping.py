"""Stopping rules: stop if the gaps are precise enough or decided, or if more questions would not help.

The precision rule depends on widths only, not on the gap itself, so that the ordinary interval remains valid (Chow &
Robbins, "On the asymptotic theory of fixed-width sequential confidence intervals for the mean", Annals of Mathematical
Statistics 1965). The decision rule depends on the gap, at a few sweeps fixed in advance, with intervals that hold
simultaneously at all looks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from evenhand.stats.level import bonferroni
from evenhand.stats.multiway import MultiwayMean
from evenhand.stats.sequential.looks import AlphaSpending

LOOKS = (1, 2, 3, 5, 8, 12, 20)
"""Sweeps after which the decision rule is evaluated, in addition to the last sweep."""
MIN_ANSWER_SHARE = 0.1
"""Share of the variance due to individual answers below which more sweeps hardly narrow an interval."""

Outcome = Literal["half-width", "names", "decided"]


class PrecisionRule:
    """Stop when the interval of each gap is narrow enough or no longer narrows, but not before the second sweep.

    Args:
        half_width: Required half-width of each interval.
        confidence: Simultaneous confidence level.
        min_sweeps: Number of sweeps before the first evaluation.
    """

    def __init__(self, half_width: float, confidence: float, min_sweeps: int = 2) -> None:
        self.half_width, self.confidence, self.min_sweeps, self.looks = half_width, confidence, max(2, min_sweeps), 0

    def stop(self, gaps: Sequence[MultiwayMean], sweep: int, max_sweeps: int) -> Outcome | None:
        """Return the reason to stop after a sweep, or None to continue."""
        if sweep < self.min_sweeps:
            return None
        self.looks += 1
        level = bonferroni(self.confidence, len(gaps))
        wide = [gap for gap in gaps if gap.half_width(level) > self.half_width]
        if not wide:
            return "half-width"
        return "names" if all(gap.variance.own < MIN_ANSWER_SHARE * gap.total for gap in wide) else None

    def levels(self, gaps: Sequence[MultiwayMean], sweep: int, max_sweeps: int) -> tuple[float, ...]:
        """Return the confidence level of the final interval of each gap."""
        return (bonferroni(self.confidence, len(gaps)),) * len(gaps)


class DecisionRule:
    """Stop when each gap is significantly larger or smaller than a threshold, with intervals that hold at all looks.

    The share f^2 of the error probability is spent (``AlphaSpending``), where f is the projected variance after the
    last sweep over the current variance. More sweeps reduce the variance of answers, but not that of templates and
    names.

    Args:
        threshold: Absolute gap that every gap is compared with.
        confidence: Simultaneous confidence level of all intervals at all looks.
        comparisons: Number of gaps.
    """

    def __init__(self, threshold: float, confidence: float, comparisons: int) -> None:
        self.threshold, self.looks = threshold, 0
        self._spending = [AlphaSpending(bonferroni(confidence, comparisons)) for _ in range(comparisons)]
        self._levels: tuple[float, ...] = ()
        self._sweep = 0

    def stop(self, gaps: Sequence[MultiwayMean], sweep: int, max_sweeps: int) -> Outcome | None:
        """Return the reason to stop after a sweep, or None to continue."""
        if sweep not in LOOKS and sweep != max_sweeps:
            return None
        levels = self.levels(gaps, sweep, max_sweeps)
        return "decided" if all(map(self._is_decided, gaps, levels)) else None

    def levels(self, gaps: Sequence[MultiwayMean], sweep: int, max_sweeps: int) -> tuple[float, ...]:
        """Compute the confidence level of each gap after this sweep. A new sweep counts as a look."""
        if sweep != self._sweep:
            self.looks += 1
            self._sweep = sweep
            shares = [project_variance(gap, sweep, max_sweeps) / gap.total for gap in gaps]
            looks = zip(self._spending, gaps, shares, strict=True)
            self._levels = tuple(spending.look(gap.total, share) for spending, gap, share in looks)
        return self._levels

    def _is_decided(self, gap: MultiwayMean, level: float) -> bool:
        low, high = gap.interval(level)
        size = self.threshold
        return low > size or high < -size or -size < low <= high < size


def project_variance(gap: MultiwayMean, sweep: int, max_sweeps: int) -> float:
    """Compute the expected variance of a gap after the last sweep."""
    return gap.total - gap.variance.own * (1 - sweep / max_sweeps)

"""When to stop asking: the gap is known well enough, or decided, or more questions would not help.

Precision looks at widths alone, never at the gap itself, so that the ordinary interval stays valid (Chow & Robbins, "On
the asymptotic theory of fixed-width sequential confidence intervals for the mean", Annals of Mathematical Statistics
1965). A decision looks at the gap, at a few sweeps fixed beforehand, with intervals that hold at all looks together.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from evenhand.stats.level import bonferroni
from evenhand.stats.multiway import MultiwayMean
from evenhand.stats.sequential.looks import AlphaSpending

LOOKS = (1, 2, 3, 5, 8, 12, 20)
"""Sweeps after which a decision is looked for; also after the last."""
LITTLE = 0.1
"""Where the answers' own part of the variance is below this, more sweeps cannot make an interval much narrower."""

Outcome = Literal["half-width", "names", "decided"]


class PrecisionRule:
    """Stop as soon as the interval of every gap is narrow enough, or no longer narrows; not before the second sweep.

    Args:
        half_width: what is wanted of every interval.
        confidence: of all intervals together.
        least: sweeps before it looks for the first time.
    """

    def __init__(self, half_width: float, confidence: float, least: int = 2) -> None:
        self.half_width, self.confidence, self.least, self.looks = half_width, confidence, max(2, least), 0

    def stop(self, gaps: Sequence[MultiwayMean], sweep: int, last: int) -> Outcome | None:
        """Return why to stop after a sweep; None: go on."""
        if sweep < self.least:
            return None
        self.looks += 1
        level = bonferroni(self.confidence, len(gaps))
        wide = [gap for gap in gaps if gap.half_width(level) > self.half_width]
        if not wide:
            return "half-width"
        return "names" if all(gap.variance.own < LITTLE * gap.total for gap in wide) else None

    def levels(self, gaps: Sequence[MultiwayMean], sweep: int, last: int) -> tuple[float, ...]:
        """Return the level at which the interval of each gap is built in the end."""
        return (bonferroni(self.confidence, len(gaps)),) * len(gaps)


class DecisionRule:
    """Stop as soon as every gap is known to be larger than the threshold, or smaller, with intervals for all looks.

    Of the probability of missing, f^2 is spent (``AlphaSpending``), where f is the variance projected to the last sweep
    over the variance now: what the answers add becomes smaller with every sweep, what templates and names add does not.

    Args:
        threshold: the size of gap that is decided about.
        confidence: of all intervals at all looks together.
        comparisons: how many gaps there are.
    """

    def __init__(self, threshold: float, confidence: float, comparisons: int) -> None:
        self.threshold, self.looks = threshold, 0
        self._spending = [AlphaSpending(bonferroni(confidence, comparisons)) for _ in range(comparisons)]
        self._levels: tuple[float, ...] = ()
        self._sweep = 0

    def stop(self, gaps: Sequence[MultiwayMean], sweep: int, last: int) -> Outcome | None:
        """Return why to stop after a sweep; None: go on."""
        if sweep not in LOOKS and sweep != last:
            return None
        levels = self.levels(gaps, sweep, last)
        return "decided" if all(map(self._is_decided, gaps, levels)) else None

    def levels(self, gaps: Sequence[MultiwayMean], sweep: int, last: int) -> tuple[float, ...]:
        """Return the level of each gap's interval at the look after this sweep, which is one more if it is new."""
        if sweep != self._sweep:
            self.looks += 1
            self._sweep = sweep
            shares = [project_variance(gap, sweep, last) / gap.total for gap in gaps]
            spent = zip(self._spending, gaps, shares, strict=True)
            self._levels = tuple(one.look(gap.total, share) for one, gap, share in spent)
        return self._levels

    def _is_decided(self, gap: MultiwayMean, level: float) -> bool:
        low, high = gap.interval(level)
        size = self.threshold
        return low > size or high < -size or -size < low <= high < size


def project_variance(gap: MultiwayMean, sweep: int, last: int) -> float:
    """Return the variance that a gap will have after the last sweep."""
    return gap.total - gap.variance.own * (1 - sweep / last)


class NarrowingAdvice(NamedTuple):
    """Of what more is needed for an interval of some width, and about how much; None where that alone never does it."""

    what: Literal["calls", "names", "templates", "nothing"]
    more: int | None


def advise(gap: MultiwayMean, names: int | None, half_width: float, confidence: float) -> NarrowingAdvice:
    """Return what would make an interval as narrow as wanted: the part of the variance that it takes least of.

    A part shrinks in proportion to what it is averaged over. More calls are asked for where they suffice; else names or
    templates, whichever add more to the variance, with calls in proportion.

    Args:
        gap: as estimated.
        names: of the smaller group; None where names are not sampled.
        half_width, confidence: what is wanted.
    """
    factor = (half_width / gap.half_width(confidence)) ** 2
    if factor >= 1:
        return NarrowingAdvice("nothing", 0)
    wanted, own, shared = factor * gap.total, gap.variance.own, gap.variance.shared
    fixed = gap.total - own
    if fixed < wanted:
        return NarrowingAdvice("calls", round(2 * gap.n * (own / (wanted - fixed) - 1)))
    by_name = names is not None and len(shared) > 1 and shared[1] > shared[0] + gap.floor
    part = shared[1] if by_name else shared[0] + gap.floor
    # With new names or templates come new answers, so that what they add becomes smaller too.
    rest = gap.total - part - own
    count = names if by_name and names is not None else gap.variance.clusters[0]
    what: Literal["names", "templates"] = "names" if by_name else "templates"
    return NarrowingAdvice(what, round(count * ((part + own) / (wanted - rest) - 1)) if wanted > rest else None)

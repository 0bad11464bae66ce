"""What changed on the same people: tests and intervals for two answers about each of them.

Both answers come from the same people, so what they share cancels, and a change can be clear where two separate
intervals overlap.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evenhand.errors import OptionError
from evenhand.stats.level import Floats, normal_quantile

HALVINGS = 60
"""Of an interval of length at most 2: the ends are as exact as floats are."""


def mcnemar(gained: int, lost: int) -> float:
    """The exact two-sided p of "as many change one way as the other".

    Under it the number of those who change one way is binomial with a half among all who change (McNemar, "Note on the
    sampling error of the difference between correlated proportions or percentages", Psychometrika 1947; exact: the
    sign test); twice the smaller tail, 1 at most.

    Args:
        gained, lost: people who change from no to yes, and from yes to no.
    """
    from scipy.special import bdtr

    changed = _count(gained) + _count(lost)
    return min(1.0, 2 * float(bdtr(min(gained, lost), changed, 0.5))) if changed else 1.0


def paired_difference(gained: int, lost: int, n: int, confidence: float = 0.95) -> tuple[float, float]:
    """Interval for the change of a share, ``(gained - lost) / n``, from before and after on the same n people.

    The score interval of Tango ("Equivalence test and confidence interval for the difference in proportions for the
    paired-sample design", Statistics in Medicine 1998): all d with ``|gained - lost - n d| <= z sqrt(n (2 q + d (1 -
    d)))``, q the likeliest share of those lost if the change is d. It keeps a width where nobody changed. At the high
    levels of many comparisons few changes make it too narrow; so it is made to reach 0 wherever McNemar's exact test
    does not reject at this level, and it excludes 0 only if that test does.

    Args:
        gained, lost: people who change from no to yes, and from yes to no.
        n: everybody.

    Raises:
        OptionError: the counts are none, or the confidence lies outside (0, 1).
    """
    z = normal_quantile(confidence)
    if not 0 <= _count(gained) + _count(lost) <= n:
        raise OptionError(f"{gained} gained and {lost} lost of {n} is no count")
    if n == 0:
        return -1.0, 1.0

    def inside(d: float) -> bool:
        linear = -gained - lost + (2 * n - gained + lost) * d
        root = math.sqrt(max(linear**2 + 8 * n * lost * d * (1 - d), 0.0))
        likeliest = (root - linear) / (4 * n)
        return abs(gained - lost - n * d) <= z * math.sqrt(max(n * (2 * likeliest + d * (1 - d)), 0.0))

    change = (gained - lost) / n
    low, high = _edge(inside, change, -1.0), _edge(inside, change, 1.0)
    if mcnemar(gained, lost) > 1 - confidence:
        low, high = min(low, 0.0), max(high, 0.0)
    return low, high


@dataclass(frozen=True, eq=False)
class PairedCells:
    """People in cells, each asked twice for a yes or no.

    Attributes:
        counts: how many said what, shape (cells, 2, 2): the first answer, then the second; 1 is yes.
    """

    counts: NDArray[np.int64]

    @classmethod
    def count(cls, cell: NDArray[np.int64], before: NDArray[np.bool_], after: NDArray[np.bool_],
              cells: int) -> PairedCells:  # fmt: skip
        """Count people by cell (n,), first and second answer (n,); those in a negative cell are left out."""
        here = cell >= 0
        code = 4 * cell[here] + 2 * before[here] + after[here]
        return cls(np.bincount(code, minlength=4 * cells).reshape(cells, 2, 2).astype(np.int64))

    @property
    def sizes(self) -> NDArray[np.int64]:
        """People of each cell, shape (cells,)."""
        return np.asarray(self.counts.sum(axis=(1, 2)))

    def shares(self) -> tuple[Floats, Floats]:
        """The share of yes in each cell, before and after; a half where nobody is, each of shape (cells,)."""
        return _shares(self.counts.astype(np.float64))


def _shares(counts: Floats) -> tuple[Floats, Floats]:
    n = counts.sum(axis=(1, 2))

    def share(yes: Floats) -> Floats:
        return np.divide(yes, n, out=np.full(len(n), 0.5), where=n > 0)

    return share(counts[:, 1, :].sum(axis=1)), share(counts[:, :, 1].sum(axis=1))


def contrast(
    cells: PairedCells, before: ArrayLike, after: ArrayLike, confidence: float = 0.95
) -> tuple[Floats, Floats]:
    """Intervals for weighted sums of cells' shares, ``sum(after p_after) - sum(before p_before)``.

    Cells are independent, the two answers in a cell are not. Wald's interval after ``z^2 / 8`` people were added to
    each of the four places of every cell that takes part: for one cell at 95 % it is that of Agresti & Min ("Simple
    improved confidence intervals for comparing matched proportions", Statistics in Medicine 2005), for two of unpaired
    people that of Agresti & Caffo ("Simple and effective confidence intervals for proportions and differences of
    proportions", The American Statistician 2000); made to contain the observed value.

    Args:
        cells: the counts.
        before, after: weights, shape (..., cells).

    Returns:
        Lower and upper ends, shape (...). Where a cell that takes part is empty nothing is claimed about it: it is
        counted as z^2 / 2 people, half of whom said yes.
    """
    w, v = np.broadcast_arrays(np.asarray(after, dtype=np.float64), np.asarray(before, dtype=np.float64))
    z = normal_quantile(confidence)
    first, second = cells.shares()
    observed = (w * second - v * first).sum(axis=-1)
    padded = cells.counts + z**2 / 8
    first, second = _shares(padded)
    n = padded.sum(axis=(1, 2))
    both = padded[:, 1, 1] / n
    spread = w**2 * second * (1 - second) + v**2 * first * (1 - first) - 2 * w * v * (both - first * second)
    centre = (w * second - v * first).sum(axis=-1)
    reach = z * np.sqrt(np.maximum((spread / n).sum(axis=-1), 0.0))
    return np.minimum(centre - reach, observed), np.maximum(centre + reach, observed)


def _edge(inside: Callable[[float], bool], start: float, end: float) -> float:
    """Where ``inside`` ends between a start where it holds and an end; the end itself if it holds all the way."""
    if inside(end):
        return end
    for _ in range(HALVINGS):
        middle = (start + end) / 2
        start, end = (middle, end) if inside(middle) else (start, middle)
    return end


def _count(number: int) -> int:
    if number < 0:
        raise OptionError(f"{number} people are no count")
    return int(number)

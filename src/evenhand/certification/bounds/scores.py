"""Prove models with two labels and no hidden layers from the distribution of the score.

Such a model predicts the second label where S + b_p > 0. The score S is a sum of one term per attribute, the same under
all joint values p of the hub, which add b_p. Bounds and boxes are therefore not needed:

    fair    S > r - min b  or  S < -r - max b,      unfair    r - max b < S < -r - min b

with r for rounding. In a latent class the terms are independent, and S has the same distribution in every orbit, so one
table per class gives all shares.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from evenhand.certification.query.cells import Cells
from evenhand.certification.query.orbits import OrbitQuestion
from evenhand.certification.query.question import Query
from evenhand.core.typing import Floats
from evenhand.models.additive.network import AdditiveNetwork

if TYPE_CHECKING:
    from evenhand.models.trees.ensemble import TreeEnsemble

LENGTH = 1 << 17
"""Length of a table."""
STEPS = LENGTH - 2
"""Number of grid steps, so that sums of rounded terms stay inside the table."""
MAX_CELLS = 2_000_000
"""Maximum number of cells of an attribute."""
TRANSFORM_ERROR = 1e-10
"""Bound on the error that one transform adds to any sum of table entries.

In the 2-norm, the error of a transform of length N is at most log2(N) * 8 u of its input (Higham, "Accuracy and
Stability of Numerical Algorithms", 2nd ed., theorem 24.2), here 2e-14. Masses of attributes have a norm of at most 1,
and no entry of their transforms is above 1, so the errors of a product of them add up; a sum of N entries has at most
sqrt(N) times the error of the norm, 7e-12.
"""
UNIT_ROUNDOFF = 2.0**-53


def needs_kernels(model: AdditiveNetwork | TreeEnsemble) -> bool:
    """Check whether proofs about a model's decisions need compiled kernels; distributions of scores do not."""
    return not (isinstance(model, AdditiveNetwork) and not model.layers and len(model.classes) == 2)


def has_one_score(query: Query) -> bool:
    """Check whether a single score determines the label."""
    few = int(query.counts.max(initial=1)) <= MAX_CELLS
    supported = query.least == 2 and query.demanded is None
    return not query.layers and len(query.pairs) == 1 and supported and few


def prove_scores(question: Query | OrbitQuestion) -> Floats:
    """Prove the fair and unfair mass of the population, or of each orbit that is not constant, shape (parts, 2)."""
    if isinstance(question, Query):
        return np.array([_prove_table(question, ScoreTable.of(question.cells))])
    tables: dict[int, ScoreTable] = {}
    proved = np.zeros((len(question.orbits), 2))
    for number, orbit in enumerate(question.orbits):
        if orbit.query.constant:
            continue
        for weight, name, of_class in zip(orbit.weights, orbit.numbers, orbit.classes, strict=True):
            if name not in tables:
                tables[name] = ScoreTable.of(of_class.cells)
            proved[number] += weight * np.array(_prove_table(orbit.query, tables[name]))
    return proved


def _prove_table(query: Query, table: ScoreTable) -> tuple[float, float]:
    """Prove the fair and unfair mass from a table of scores."""
    sizes = sum((cells.size() for cells in query.cells), np.zeros(1))
    # Distance of a margin from zero beyond which rounding cannot change its sign, anywhere in the domain.
    reach = float(query.slack.decision(query.slack.first(sizes))[0])
    lowest, highest = float(query.biases.min()), float(query.biases.max())
    fair = table.between(reach - lowest, np.inf) + table.between(-np.inf, -reach - highest)
    return min(1.0, fair), table.between(reach - highest, -reach - lowest)


@dataclass(frozen=True)
class ScoreTable:
    """Distribution of a sum of independent terms, each rounded down to a grid.

    With K the sum of the rounded terms, in steps h, every score is between ``least + K h`` and ``least + (K + width)
    h``.

    Attributes:
        least: Sum of the smallest terms.
        steps: Number of steps in a unit of the score, 1 / h.
        width: Maximum number of steps by which a score exceeds its position in the table.
        before: Mass of the sums below each grid point, shape (LENGTH + 1,).
        error: Bound on the error of a difference of two of these.
        size: Size of the summed numbers.
    """

    least: float
    steps: float
    width: float
    before: Floats
    error: float
    size: float

    @classmethod
    def of(cls, cells: Sequence[Cells]) -> ScoreTable:
        """Compute the distribution of the sum of the terms of independent attributes."""
        # Storing the terms of many numbers takes too much memory, so they are recomputed below.
        ends = [
            (low.min(), low.max() - low.min(), (high - low).max(), np.maximum(abs(low), abs(high)).max())
            for low, high in map(_terms_of, cells)
        ]
        lowest, span, reach, size = (float(sum(column)) for column in np.reshape(ends, (-1, 4)).T.tolist())
        # A step is slightly longer than span / STEPS, so that rounding moves no sum beyond the table. If all sums are
        # equal, nothing is rounded to the grid, and its steps can be as small as float64 allows.
        steps = STEPS / span * (1 - 1e-9) if span > 0 else 2.0**40
        spectrum = np.ones(LENGTH // 2 + 1, dtype=np.complex128)
        for each in cells:
            low, _ = _terms_of(each)
            weight = np.diff(each.before(np.arange(each.count + 1))) / each.total
            place = np.maximum(np.floor((low - low.min()) * steps), 0).astype(np.int64)
            spectrum *= np.fft.rfft(np.bincount(place, weights=weight), LENGTH)
        masses = np.fft.irfft(spectrum, LENGTH)
        return cls(
            least=lowest,
            steps=steps,
            width=len(cells) + steps * reach,
            before=np.concatenate([[0.0], np.cumsum(masses)]),
            error=TRANSFORM_ERROR * (len(cells) + 2),
            size=size,
        )

    def between(self, low: float, high: float) -> float:
        """Compute a lower bound on the probability that low < S < high."""
        # Bound on the rounding of sums of this size, multiplied by ``steps``, with a large margin.
        pad = 1e-3 + 64 * UNIT_ROUNDOFF * self.steps * (self.size + abs(self.least))
        begin, end = 0, LENGTH - 1
        if low > -np.inf:
            place = (low - self.least) * self.steps + pad + 64 * UNIT_ROUNDOFF * self.steps * abs(low)
            begin = int(np.clip(np.floor(place) + 1, 0, LENGTH))
        if high < np.inf:
            place = (high - self.least) * self.steps - self.width - pad - 64 * UNIT_ROUNDOFF * self.steps * abs(high)
            end = int(np.clip(np.ceil(place) - 1, -1, LENGTH - 1))
        if begin == 0 and end == LENGTH - 1:
            return 1.0
        return max(0.0, float(self.before[end + 1] - self.before[begin]) - self.error) if begin <= end else 0.0


def _terms_of(cells: Cells) -> tuple[Floats, Floats]:
    """Compute the smallest and largest term of each cell, each of shape (cells,)."""
    every = np.arange(cells.count)
    if cells.scale is None:
        return cells.rows[:, 0], cells.rows[:, 0]
    ends = cells.scale.low(every) * cells.rows[0, 0], cells.scale.high(every) * cells.rows[0, 0]
    return np.minimum(*ends), np.maximum(*ends)

"""Bands of a score or a number, as labels.

A score is the probability of the favourable label of a model with two labels. It is the sigmoid of a margin z, so it
exceeds an edge e exactly where z > log(e / (1 - e)). For a model that gives a number, z is the number itself. Band b
beats the lower band a where z lies above a cut between them, the middle one. So the band that beats all others is the
band of z, and every other band is beaten by some band.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from evenhand.certification.config import check_edges
from evenhand.certification.query.rounding import BINARY32_UNIT, log_odds, resolution_of
from evenhand.core.typing import Floats, Integers
from evenhand.errors import OptionError
from evenhand.schema.attribute import Value


@dataclass(frozen=True)
class ScoreBands:
    """Bands of the favourable label's probability, or of a number, the lowest first.

    Attributes:
        edges: Increasing edges between the bands. A score at an edge belongs to the upper band.
        favourable: Index of the favourable label.
        of_number: Whether the bands are of a number instead of a score.
    """

    edges: tuple[float, ...]
    favourable: int
    of_number: bool = False

    @classmethod
    def of(
        cls, edges: Sequence[float], classes: Sequence[Value], favourable: int, threshold: float | None = None
    ) -> ScoreBands:
        """Build the bands of a model's score.

        Raises:
            OptionError: the model has more than two labels, a threshold is given too, or the edges are
                invalid.
        """
        if len(classes) not in (0, 2):
            raise OptionError(
                f"bands require a number or two labels, but this model has {len(classes)} labels",
                hint="leave the bands out to compare its labels",
            )
        if threshold is not None:
            raise OptionError("a threshold cannot be combined with bands", hint="leave one of them out")
        check_edges(edges, of_scores=bool(classes))
        return cls(tuple(float(edge) for edge in edges), favourable, of_number=not classes)

    @property
    def sign(self) -> float:
        """Sign of the effect of the second label's margin on the score."""
        return 1.0 if self.of_number or self.favourable == 1 else -1.0

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Descriptions of the bands."""
        noun = "number" if self.of_number else "score"
        between = (f"{noun} {low:g} to {high:g}" for low, high in itertools.pairwise(self.edges))
        return (f"{noun} below {self.edges[0]:g}", *between, f"{noun} {self.edges[-1]:g} or more")

    @property
    def pairs(self) -> Integers:
        """Bands (a, b) of each margin, shape (margins, 2)."""
        return np.array(list(itertools.combinations(range(len(self.edges) + 1), 2)), dtype=np.int64)

    @cached_property
    def middles(self) -> Floats:
        """Score that separates each pair: the middle of the edges between them, shape (margins,)."""
        return np.array([self.edges[(a + b - 1) // 2] for a, b in self.pairs.tolist()])

    @property
    def cuts(self) -> Floats:
        """Margin at each of ``middles``, shape (margins,)."""
        if self.of_number:
            return self.middles
        return np.array([log_odds(float(edge)) for edge in self.middles])

    @property
    def resolution(self) -> float:
        """Distance from any cut beyond which a float32 score or number is on the margin's side of the edge."""
        if self.of_number:
            return 2 * BINARY32_UNIT * max(map(abs, self.edges))  # the edge rounded to float32
        # At 0.5, too, the score itself is compared, not the outputs. Doubled, because 1 - score adds one rounding.
        return 2 * max(resolution_of(edge if edge != 0.5 else float(np.nextafter(0.5, 1))) for edge in self.edges)

    def of_scores(self, scores: NDArray[np.floating]) -> Integers:
        """Compute the bands of scores, or numbers, shape (n,)."""
        edges = np.asarray(self.edges, dtype=scores.dtype)
        return np.asarray(np.searchsorted(edges, scores, side="right"), dtype=np.int64)

"""Bands of a score: the probability of the favourable label, cut at some scores, as labels of a model with two labels.
Bands of a number that a model gives are the same, with the number itself as the margin.

The score grows with one margin z: it is the sigmoid of z, so that it exceeds an edge e exactly where z > log(e / (1 -
e)). Band b beats the lower band a where z lies above a cut between them, the middle one. So the band that beats all
others is the one that z lies in; and a band that is beaten by any other is not.
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
        edges: where the bands meet, increasing; a score at an edge lies in the upper band.
        favourable: place of the favourable label among the two.
        of_number: whether a number is cut that the model gives, not a score.
    """

    edges: tuple[float, ...]
    favourable: int
    of_number: bool = False

    @classmethod
    def of(
        cls, edges: Sequence[float], classes: Sequence[Value], favourable: int, threshold: float | None = None
    ) -> ScoreBands:
        """Return the bands of a model's score.

        Raises:
            OptionError: the model has more than two labels, a threshold is asked for as well, or the edges make no
                sense.
        """
        if len(classes) not in (0, 2):
            raise OptionError(
                f"bands are of a number, or of the score of models with two labels, and this one has {len(classes)}",
                hint="leave the bands out: its labels are compared",
            )
        if threshold is not None:
            raise OptionError("a threshold cuts the score in two, and bands cut it too", hint="leave one of them out")
        check_edges(edges, of_scores=bool(classes))
        return cls(tuple(float(edge) for edge in edges), favourable, of_number=not classes)

    @property
    def sign(self) -> float:
        """By which sign of the model's margin, that of its second label, the score grows."""
        return 1.0 if self.of_number or self.favourable == 1 else -1.0

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The bands in words."""
        what = "number" if self.of_number else "score"
        between = (f"{what} {low:g} to {high:g}" for low, high in itertools.pairwise(self.edges))
        return (f"{what} below {self.edges[0]:g}", *between, f"{what} {self.edges[-1]:g} or more")

    @property
    def pairs(self) -> Integers:
        """Bands (a, b) of each margin, shape (margins, 2)."""
        return np.array(list(itertools.combinations(range(len(self.edges) + 1), 2)), dtype=np.int64)

    @cached_property
    def middles(self) -> Floats:
        """For each pair the score that tells the two apart, between the edges that lie between them, (margins,)."""
        return np.array([self.edges[(a + b - 1) // 2] for a, b in self.pairs.tolist()])

    @property
    def cuts(self) -> Floats:
        """The same on the margin, shape (margins,)."""
        if self.of_number:
            return self.middles
        return np.array([log_odds(float(edge)) for edge in self.middles])

    @property
    def resolution(self) -> float:
        """How far from any cut a margin must be for a float32 score, or number, to lie on its side of the edge."""
        if self.of_number:
            return 2 * BINARY32_UNIT * max(map(abs, self.edges))  # the edge rounded to float32
        # At a half too the score itself is compared, not the outputs. Twice, as 1 - score rounds once more.
        return 2 * max(resolution_of(edge if edge != 0.5 else float(np.nextafter(0.5, 1))) for edge in self.edges)

    def of_scores(self, scores: NDArray[np.floating]) -> Integers:
        """Return the bands of scores, or numbers, shape (n,)."""
        edges = np.asarray(self.edges, dtype=scores.dtype)
        return np.asarray(np.searchsorted(edges, scores, side="right"), dtype=np.int64)

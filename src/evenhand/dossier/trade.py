"""What credit and insurance ask of scores: standardised mean differences, and ratios at every cut-off."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from evenhand.core import ResultPart
from evenhand.dossier.tables import Category, Crossing
from evenhand.typing import Floats


class MeanScore(ResultPart):
    """A category's mean score; smd: its distance from the reference's in standard deviations of the whole table."""

    category: Category
    n: int
    mean: float | None
    smd: float | None


class RatioAtCut(ResultPart):
    """How many of a category reach a cut-off, and their rate over the reference's."""

    category: Category
    k: int
    ratio: float | None


class Quantile(ResultPart):
    """The best share of the people: the lowest score among them, how many have it or a better one, and who."""

    q: float
    cut: float
    selected: int
    rows: tuple[RatioAtCut, ...]


class ScoreComparisons(ResultPart):
    """The scores of every category against a declared reference."""

    by: tuple[str, ...]
    reference: Category
    rows: tuple[MeanScore, ...]
    quantiles: tuple[Quantile, ...]


def compare_scores(table: Crossing, scores: Floats, quantiles: Sequence[float], median: float) -> ScoreComparisons:
    """Return the scores of every category against the table's declared reference.

    ``smd = (mean - mean_r) / sd``, sd that of all people in the table (n - 1). Quantile q is cut at the score of the
    ``ceil(q N)``-th best of everybody with a score; who ties with it is in.

    Args:
        table: the cells, with a declared reference.
        scores: of the assessed people, shape (assessed,).
        quantiles: shares to be selected from the top.
        median: of the scores, from which they are measured so that sums lose no digits.
    """
    reference = table.reference
    if reference is None:
        raise ValueError("scores are compared with a declared reference")
    # Summed from the lowest score up: the order of people decides nothing, not even the last digit.
    known = np.flatnonzero(table.cells >= 0)
    known = known[np.argsort(scores[known])]
    cells, centred = table.cells[known], scores[known] - median
    sums = np.bincount(cells, weights=centred, minlength=len(table.n)).tolist()
    means = [total / n if n else None for total, n in zip(sums, table.n, strict=True)]
    sd = float(centred.std(ddof=1)) if len(centred) > 1 else 0.0
    base = means[reference]
    rows = [
        MeanScore(
            category=category,
            n=n,
            mean=None if mean is None else median + mean,
            smd=(mean - base) / sd if mean is not None and base is not None and sd else None,
        )
        for category, n, mean in zip(table.categories, table.n, means, strict=True)
    ]
    return ScoreComparisons(
        by=table.by,
        reference=table.categories[reference],
        rows=tuple(rows),
        quantiles=tuple(_cut_scores(table, scores, q, reference) for q in quantiles),
    )


def _cut_scores(table: Crossing, scores: Floats, q: float, reference: int) -> Quantile:
    # As the decimal fraction that was written: 0.1 of 140 are 14 people, and not the 15 of binary fractions.
    place = math.ceil(Fraction(str(q)) * len(scores))
    cut = float(np.partition(scores, len(scores) - place)[len(scores) - place])
    reached = scores >= cut
    k = table.count_rows(reached)
    k_r, n_r = k[reference], table.n[reference]
    rows = [
        RatioAtCut(category=category, k=k[i], ratio=k[i] * n_r / (n * k_r) if n and k_r else None)
        for i, (category, n) in enumerate(zip(table.categories, table.n, strict=True))
    ]
    return Quantile(q=q, cut=cut, selected=int(reached.sum()), rows=tuple(rows))

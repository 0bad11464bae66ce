"""Comparisons of scores for credit and insurance: standardised mean differences, and ratios at cut-offs."""

from __future__ import annotations

import numpy as np

from evenhand.core.result_part import ResultPart
from evenhand.core.typing import Booleans
from evenhand.dossier.people import AssessedScores, ScoreCut
from evenhand.dossier.tables import Category, Crossing


class MeanScore(ResultPart):
    """Mean score of a category, and its difference from the reference in standard deviations of the table (SMD)."""

    category: Category
    n: int
    mean: float | None
    smd: float | None


class RatioAtCut(ResultPart):
    """Number of people of a category who reach a cut-off, and the ratio of their rate to that of the reference."""

    category: Category
    k: int
    ratio: float | None


class Quantile(ResultPart):
    """Share of the people with the highest scores: cut-off, number of people who reach it, and their categories."""

    q: float
    cut: float
    selected: int
    rows: tuple[RatioAtCut, ...]


class ScoreComparisons(ResultPart):
    """Comparisons of the scores of all categories with a declared reference."""

    by: tuple[str, ...]
    reference: Category
    rows: tuple[MeanScore, ...]
    quantiles: tuple[Quantile, ...]


def compare_scores(table: Crossing, scores: AssessedScores, assessed: Booleans) -> ScoreComparisons:
    """Compare the scores of all categories with the declared reference of the table.

    ``smd = (mean - mean_r) / sd``, with the standard deviation of all people in the table (n - 1). The cut-off of
    quantile q is the ``ceil(q N)``-th highest of all scores; ties are included.

    Args:
        table: Table with a declared reference.
        scores: Scores of the people.
        assessed: Whether each entry has a score, shape (entries,).
    """
    reference = table.reference
    if reference is None:
        raise ValueError("expected a table with a declared reference")
    inside = table.cells >= 0
    kind, values = table.cells[inside], scores.scores[assessed][inside]
    order = np.lexsort((values, kind))  # so that the sums do not depend on the order of people
    sums = np.bincount(kind[order], weights=values[order], minlength=len(table.n)).tolist()
    means = {i: total / n for i, (total, n) in enumerate(zip(sums, table.n, strict=True)) if n}
    sd = float(np.std(np.sort(values), ddof=1)) if len(np.unique(values)) > 1 else 0.0
    rows = [
        MeanScore(
            category=category,
            n=table.n[i],
            mean=means.get(i),
            smd=(means[i] - means[reference]) / sd if i in means and reference in means and sd else None,
        )
        for i, category in enumerate(table.categories)
    ]
    return ScoreComparisons(
        by=table.by,
        reference=table.categories[reference],
        rows=tuple(rows),
        quantiles=tuple(_count_reached(table, cut, assessed, reference) for cut in scores.cuts),
    )


def _count_reached(table: Crossing, cut: ScoreCut, assessed: Booleans, reference: int) -> Quantile:
    reached = cut.reached[assessed]
    k = table.count_rows(reached)
    k_r, n_r = k[reference], table.n[reference]
    rows = [
        RatioAtCut(category=category, k=k[i], ratio=k[i] * n_r / (n * k_r) if n and k_r else None)
        for i, (category, n) in enumerate(zip(table.categories, table.n, strict=True))
    ]
    return Quantile(q=cut.q, cut=cut.cut, selected=int(table.counts[reached].sum()), rows=tuple(rows))

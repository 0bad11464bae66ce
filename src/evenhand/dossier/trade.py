"""What credit and insurance ask of scores: standardised mean differences, and ratios at every cut-off."""

from __future__ import annotations

import numpy as np

from evenhand.core.result_part import ResultPart
from evenhand.core.typing import Booleans
from evenhand.dossier.people import AssessedScores, ScoreCut
from evenhand.dossier.tables import Category, Crossing


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


def compare_scores(table: Crossing, scores: AssessedScores, assessed: Booleans) -> ScoreComparisons:
    """Return the scores of every category against the table's declared reference.

    ``smd = (mean - mean_r) / sd``, sd that of all people in the table (n - 1). Quantile q is cut at the score of the
    ``ceil(q N)``-th best of everybody with a score; who ties with it is in. Scores are added up as whole numbers, so
    that the order of people decides nothing, not even the last digit.

    Args:
        table: the cells, with a declared reference.
        scores: of the people.
        assessed: which entries have a score, shape (entries,).
    """
    reference = table.reference
    if reference is None:
        raise ValueError("scores are compared with a declared reference")
    inside = table.cells >= 0
    kind, values = table.cells[inside], scores.scores[assessed][inside]
    order = np.lexsort((values, kind))  # the order of the people does not change the sums
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

"""Result of an audit of rankings: attention and selection by group, order of pairs, and the gaps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from evenhand.core.document import Document
from evenhand.groups.breakdown import Breakdown, Group
from evenhand.groups.rankings.config import PositionWeights
from evenhand.groups.result import GroupedResult

if TYPE_CHECKING:
    import pandas as pd


class RankedGroup(Group):
    """Candidates of one group.

    Attributes:
        lists: Number of compared lists with a candidate of the group.
        metrics: ``relative_exposure`` (attention per candidate divided by that in random orders), ``exposure`` (this
            ratio times the mean attention) and ``above_rate`` (probability that a candidate is ranked above one of
            another group in the same list); with relevance also ``exposure_per_relevance`` (attention divided by
            attention in proportion to relevance). With few lists, each number has the range of its values in random
            orders. With more lists, it has an interval for similar lists, simultaneous over groups, pairs and k.
        rates: k -> ``representation_ratio`` (number of candidates in the first k positions, divided by that in random
            orders; its logarithm is the skew at k) and ``selection_rate`` (this ratio times the overall selection
            rate).
    """

    lists: int


class RankingBreakdown(Breakdown):
    """Groups by one protected attribute, or by several (their intersections).

    Attributes:
        groups: Groups. Sizes count the candidates in the compared lists.
        gaps: ``exposure_ratio``, ``selection_ratio`` (the smallest, then the ratio at
            each k), ``pairwise_parity_difference`` and, with relevance, ``disparate_treatment_ratio``.
        unknown: Number of candidates in the compared lists whose group is unknown. They occupy positions.
        lists: Number of compared lists, which have candidates of at least two groups.
        left_out, left_out_candidates: Number of other lists, and of their candidates.
        inference: Source of the uncertainty: many lists as a sample, or permutations of the groups within a few lists.
    """

    groups: tuple[RankedGroup, ...]
    lists: int
    left_out: int
    left_out_candidates: int
    inference: Literal["lists", "random orders"]


class RankingResult(GroupedResult):
    """Result of an audit of rankings.

    Attributes:
        people: Number of candidates.
        data: Name of the rankings.
        fingerprint: SHA-256 of the rankings.
        ranked_by: Column of ranks or scores.
        by_score: Whether this column holds scores, highest first.
        query, relevance: Columns of list names and of relevance; None without them.
        lists: Number of lists.
        unranked: Number of excluded rows without a rank or score.
        dropped: Number of excluded rows with a missing value.
        tied: Number of candidates who share positions with others of equal rank or score.
        gapped: Number of lists with gaps in the recorded ranks; the missing positions are empty.
        at: Numbers of positions that count as selected.
        position_weights: Attention of the positions.
        confidence: Confidence level of intervals and ranges.
        draws: Number of permutations for few lists.
    """

    chart = "rankings.plot_rankings"
    members = ("candidate", "candidates")
    kind: Literal["rankings"] = "rankings"
    breakdowns: tuple[RankingBreakdown, ...]
    data: str
    fingerprint: str
    ranked_by: str
    by_score: bool
    query: str | None
    relevance: str | None
    lists: int
    unranked: int
    dropped: int
    tied: int
    gapped: int
    at: tuple[int, ...]
    position_weights: PositionWeights
    confidence: float
    draws: int

    @property
    def too_few(self) -> str:
        """Description of a group that is too small for gaps."""
        return f"{super().too_few}, or too few lists"

    def document(self) -> Document:
        """Build a document with the gaps, the selection and attention of each group, and the method."""
        return self._write_document("evenhand.groups.wording.rankings")

    def to_frame(self) -> pd.DataFrame:
        """Build a data frame with one row per number of a group, and one per gap, with an empty group.

        Columns: by, group, label (k of a selection), metric, kind, value, n, low, high, random_low, random_high, p.
        """
        ends = ("low", "high", "random_low", "random_high", "p")
        return self._build_frame(("by", "group", "label", "metric", "kind", "value", "n", *ends), gaps=True)

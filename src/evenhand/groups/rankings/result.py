"""Result of an audit of rankings: attention and selection by group, order of pairs, and the gaps."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Literal, Self

from evenhand.core.document import Document
from evenhand.core.result import Result, ResultNumber
from evenhand.core.result_part import ResultPart
from evenhand.groups.breakdown import NamedGroup, list_counts
from evenhand.groups.rankings.config import PositionWeights
from evenhand.stats.metric_specs import LOWER_IS_WORSE
from evenhand.stats.quantity import Observed, Quantity, Unknown

if TYPE_CHECKING:
    import pandas as pd

Inference = Literal["lists", "even orders"]
"""Source of the uncertainty: many lists as a sample, or permutations of the groups within few lists."""

METHOD = "ratio of sums over lists, linearised, Student's t with lists added at both ends"
"""Name of the interval method."""


class RankedNumber(ResultPart):
    """A number of a group, or a gap between two groups, with its uncertainty.

    Attributes:
        name: Metric or gap. Metrics are ``relative_exposure`` (attention per candidate, divided by that in random
            orders), ``exposure`` (the same times the mean attention), ``representation_ratio`` (number of candidates in
            the first k positions, divided by that in random orders; its logarithm is the skew at k), ``selection_rate``
            (the same times the overall selection rate) and ``above_rate`` (probability that a candidate is ranked above
            one of another group in the same list); with relevance also ``exposure_per_relevance`` (attention divided by
            attention in proportion to relevance). Gaps are ``exposure_ratio``, ``selection_ratio``,
            ``pairwise_parity_difference`` and, with relevance, ``disparate_treatment_ratio``.
        at: k of a selection; None for other numbers.
        value: The number; None if it is unknown. Ratios of gaps are in [0, 1], and differences are >= 0.
        reason: Reason why it is unknown.
        low, high: Interval for similar lists; None with few lists. Intervals with the same ``name`` are simultaneous
            over all groups, pairs of groups and k. The interval of a gap covers the gap between the groups that truly
            differ most.
        even_low, even_high: With few lists, range of the number in random orders, which ignore the groups. For a gap,
            one end is the absence of a gap.
        p: p-value: share of random orders with a number at least as far from the mean.
        best, worst: Groups with the highest and the lowest number of a gap; empty for groups and unknown gaps.
    """

    name: str
    at: int | None = None
    value: float | None
    reason: str = ""
    low: float | None = None
    high: float | None = None
    even_low: float | None = None
    even_high: float | None = None
    p: float | None = None
    best: str = ""
    worst: str = ""

    def scaled(self, name: str, factor: float, highest: float = math.inf) -> Self:
        """Multiply the number and its ends by a factor.

        Args:
            name: Name of the product.
            factor: Factor.
            highest: Maximum of the product.
        """
        ends = {end: getattr(self, end) for end in ("value", "low", "high", "even_low", "even_high")}
        products = {end: min(factor * value, highest) for end, value in ends.items() if value is not None}
        return self.model_copy(update={"name": name, **products})


class RankedGroup(NamedGroup):
    """Candidates of one group.

    Attributes:
        values: Value of each attribute as spelled in the data.
        size: Number of candidates in the compared lists.
        lists: Number of these lists with a candidate of the group.
        small: Whether the group is too small for gaps.
        numbers: Metrics; those at k for each k in ascending order.
    """

    size: int
    lists: int
    small: bool
    numbers: tuple[RankedNumber, ...]

    def number(self, name: str, at: int | None = None) -> RankedNumber | None:
        """Return the metric with this name and k, or that of the first k if ``at`` is None; None if there is none."""
        return find_number(self.numbers, name, at)


class RankingBreakdown(ResultPart):
    """Groups by one protected attribute, or by several at once (their intersection).

    Attributes:
        by: Attributes.
        lists: Number of compared lists, which have candidates of at least two groups.
        left_out, left_out_candidates: Number of other lists, and of their candidates.
        unknown: Number of candidates in the compared lists whose group is unknown. They occupy positions.
        inference: Source of the uncertainty.
        groups: Groups.
        gaps: Gaps between the groups that are large enough.
    """

    by: tuple[str, ...]
    lists: int
    left_out: int
    left_out_candidates: int
    unknown: int
    inference: Inference
    groups: tuple[RankedGroup, ...]
    gaps: tuple[RankedNumber, ...]

    @property
    def not_assessable(self) -> dict[str, int]:
        """Groups that are too small for gaps, with their number of candidates."""
        return {group.label: group.size for group in self.groups if group.small}

    def gap(self, name: str, at: int | None = None) -> RankedNumber | None:
        """Return the gap with this name and k, or the gap of the first k if ``at`` is None; None if there is none."""
        return find_number(self.gaps, name, at)


def find_number(numbers: Iterable[RankedNumber], name: str, at: int | None) -> RankedNumber | None:
    """Return the number with this name and k, or that of the first k if ``at`` is None; None if there is none."""
    return next((number for number in numbers if number.name == name and at in (None, number.at)), None)


class RankingResult(Result):
    """Result of an audit of rankings.

    Attributes:
        data: Name of the rankings.
        fingerprint: SHA-256 of the rankings.
        ranked_by: Column of ranks or scores.
        by_score: Whether this column holds scores, highest first.
        query, relevance: Columns of list names and of relevance; None without them.
        lists, candidates: Number of lists and candidates.
        unranked: Number of excluded rows without a rank or score.
        dropped: Number of excluded rows with a missing value.
        tied: Number of candidates who share positions with others of equal rank or score.
        gapped: Number of lists with gaps in the recorded ranks; the missing positions are empty.
        at: Numbers of positions that count as selected.
        position_weights: Attention of the positions.
        confidence: Confidence level of intervals and ranges.
        min_group_size: Minimum number of candidates of a compared group.
        draws: Number of permutations for few lists.
        breakdowns: Groups by each protected attribute, then by all of them jointly.
    """

    chart = "rankings.plot_rankings"
    kind: Literal["rankings"] = "rankings"
    data: str
    fingerprint: str
    ranked_by: str
    by_score: bool
    query: str | None
    relevance: str | None
    lists: int
    candidates: int
    unranked: int
    dropped: int
    tied: int
    gapped: int
    at: tuple[int, ...]
    position_weights: PositionWeights
    confidence: float
    min_group_size: int
    draws: int
    breakdowns: tuple[RankingBreakdown, ...]

    def document(self) -> Document:
        """Build a document with the gaps, the selection and attention of each group, and the method."""
        return self._write_document("evenhand.groups.wording.rankings")

    def quantity(self, breakdown: RankingBreakdown, number: RankedNumber) -> Quantity | float:
        """Convert a number to an observed quantity, or to a float if it has no interval."""
        if number.value is None:
            return Unknown(reason=number.reason)
        if number.low is None or number.high is None:
            return number.value
        return Observed(
            value=number.value,
            n=breakdown.lists,
            low=number.low,
            high=number.high,
            confidence=self.confidence,
            method=METHOD,
        )

    def numbers(self) -> Iterator[ResultNumber]:
        """Yield the gaps; for selection, the largest over all k, with a simultaneous interval."""
        for breakdown in self.breakdowns:
            small = breakdown.not_assessable
            left_out = f"too few candidates or lists to compare {list_counts(small)}" if small else ""
            for name in dict.fromkeys(gap.name for gap in breakdown.gaps):
                gaps = [gap for gap in breakdown.gaps if gap.name == name]
                known = [(gap.value, gap) for gap in gaps if gap.value is not None]
                select = min if name in LOWER_IS_WORSE else max
                worst = select(known, key=lambda pair: pair[0])[1] if known else gaps[0]
                quantity = self.quantity(breakdown, worst)
                yield ResultNumber(name, "_x_".join(breakdown.by), "", quantity, left_out=left_out)

    def to_frame(self) -> pd.DataFrame:
        """Build a data frame with one row per number: by, group, name, at, value, low, high, even_low, even_high, p."""
        import pandas as pd

        rows = [
            {"by": "_x_".join(breakdown.by), "group": label} | number.model_dump(exclude={"reason", "best", "worst"})
            for breakdown in self.breakdowns
            for label, numbers in (*((group.label, group.numbers) for group in breakdown.groups), ("", breakdown.gaps))
            for number in numbers
        ]
        return pd.DataFrame(rows)

"""Result of an audit of rankings: attention and selection by group, order of pairs, and the gaps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from evenhand.core.document import Document
from evenhand.core.result import Result, ResultNumber
from evenhand.core.result_part import ResultPart
from evenhand.groups.breakdown import list_counts
from evenhand.groups.rankings.config import PositionWeights
from evenhand.stats.metric_specs import LOWER_IS_WORSE
from evenhand.stats.quantity import Observed, Quantity, Unknown, quantity_value

if TYPE_CHECKING:
    import pandas as pd

Inference = Literal["lists", "even orders"]
"""Source of the uncertainty: many lists as a sample, or permutations of the groups within few lists."""

METHOD = "ratio of sums over lists, linearised, Student's t with lists added at both ends"
"""Name of the intervals."""


class RankedNumber(ResultPart):
    """A metric of the lists, with its uncertainty.

    Attributes:
        value: The number; None if it is unknown.
        reason: Reason why it is unknown.
        low, high: Interval for similar lists; None with few lists.
        even: With few lists, the mean over orders that ignore the groups.
        even_low, even_high: Range of such orders. For a gap, one end is the absence of a gap.
        p: p-value: share of such orders with a number at least as far from the mean.
    """

    value: float | None
    reason: str = ""
    low: float | None = None
    high: float | None = None
    even: float | None = None
    even_low: float | None = None
    even_high: float | None = None
    p: float | None = None


class SelectionAt(ResultPart):
    """Selection of one group in the first k positions.

    Attributes:
        at: k.
        selected: Number of candidates of the group in these positions; the expected number if positions are shared.
        rate: Selection rate of the group, list by list: the ratio below times the overall selection rate. If all lists
            have the same length, it is the plain rate.
        representation: Share of the group in these positions.
        even_representation: Its share if the order ignored the groups: its share of the candidates, list by list.
        ratio: Representation divided by even representation; its logarithm is the skew at k.
    """

    at: int
    selected: float
    rate: RankedNumber
    representation: RankedNumber
    even_representation: float
    ratio: RankedNumber


class RankedGroup(ResultPart):
    """Candidates of one group.

    Attributes:
        values: Value of each attribute as spelled in the data.
        size: Number of candidates in the compared lists.
        lists: Number of these lists with a candidate of the group.
        small: Whether the group is too small for gaps.
        selection: Selection at each k, ascending.
        metrics: Metrics by name: ``exposure`` (mean attention of a candidate, list by list), ``exposure_share`` (share
            of the total attention), ``even_exposure_share`` (its share if the order ignored the groups),
            ``relative_exposure`` (their ratio) and ``above_rate`` (probability that a candidate is ranked above one of
            another group in the same list). With relevance also ``exposure_per_relevance`` (attention divided by
            attention in proportion to relevance), ``attention_minus_merit`` (share of attention minus share of
            relevance, averaged over lists), ``pairwise_accuracy`` (share of ordered pairs among those whose more
            relevant candidate is of this group and the other of another group) and ``accuracy_within`` (the same within
            this group).
    """

    values: dict[str, str]
    size: int
    lists: int
    small: bool
    selection: tuple[SelectionAt, ...]
    metrics: dict[str, RankedNumber]

    @property
    def label(self) -> str:
        """Values of the group, joined by commas."""
        return ", ".join(self.values.values())

    @property
    def description(self) -> str:
        """Values of the group with their attributes."""
        return " and ".join(f"{name} {value}" for name, value in self.values.items())


class RankingGap(ResultPart):
    """Gap between the highest and the lowest group in one measure.

    Attributes:
        name: ``exposure_ratio``, ``selection_ratio``, ``selection_difference`` or ``pairwise_parity_difference``; with
            relevance also ``disparate_treatment_ratio`` and ``pairwise_accuracy_difference``.
        at: k of a selection.
        number: The gap. Differences are >= 0 and ratios in [0, 1]. The interval covers the true gap between the groups
            that truly differ most, simultaneously over all pairs of groups and all k.
        best, worst: Groups; empty if nothing is compared.
        not_assessable: Groups that are too small, with their number of candidates.
    """

    name: str
    at: int | None = None
    number: RankedNumber
    best: str = ""
    worst: str = ""
    not_assessable: dict[str, int] = Field(default_factory=dict)


class PrefixTest(ResultPart):
    """Ranked group fairness test of one group: whether some prefix of a list has too few of its candidates.

    Attributes:
        group: Name of the group.
        places: Maximum length of the tested prefixes.
        tested: Number of tested lists.
        failed: Number of lists in which the group is under-represented at the level ``1 - confidence``. By chance, the
            same share of all lists fails.
        p: With few lists, the smallest p-value adjusted for lists and groups (Holm); None with many lists.
        first: Length of the first prefix of this list that fails.
        members, minimum: Number of members in this prefix, and the number required.
    """

    group: str
    places: int
    tested: int
    failed: int
    p: float | None = None
    first: int | None = None
    members: int | None = None
    minimum: int | None = None


class RankingBreakdown(ResultPart):
    """Groups by one protected attribute, or by several at once (their intersection).

    Attributes:
        by: Attributes.
        lists: Number of compared lists, which have candidates of at least two groups.
        left_out, left_out_candidates: Number of other lists, and of their candidates.
        unknown: Number of candidates in the compared lists whose group is unknown. They occupy positions.
        inference: Source of the uncertainty.
        groups: Groups.
        gaps: Gaps between the groups.
        prefix_tests: Tests of the groups that are large enough.
        not_tested: Reason if there are no tests.
    """

    by: tuple[str, ...]
    lists: int
    left_out: int
    left_out_candidates: int
    unknown: int
    inference: Inference
    groups: tuple[RankedGroup, ...]
    gaps: tuple[RankingGap, ...]
    prefix_tests: tuple[PrefixTest, ...] = ()
    not_tested: str = ""

    def gap(self, name: str, at: int | None = None) -> RankingGap | None:
        """Return the gap with this name and k, or the gap of the first k if ``at`` is None; None if there is none."""
        return next((gap for gap in self.gaps if gap.name == name and at in (None, gap.at)), None)


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
        position_weights, patience: Attention of the positions.
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
    patience: float
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
            for name in dict.fromkeys(gap.name for gap in breakdown.gaps):
                gaps = [gap for gap in breakdown.gaps if gap.name == name]
                quantities = [self.quantity(breakdown, gap.number) for gap in gaps]
                known = [quantity for quantity in quantities if not isinstance(quantity, Unknown)]
                select = min if name in LOWER_IS_WORSE else max
                worst = select(known, key=_plain_value) if known else quantities[0]
                small = next((gap.not_assessable for gap in reversed(gaps) if gap.not_assessable), {})
                left_out = f"too few candidates or lists to compare {list_counts(small)}" if small else ""
                yield ResultNumber(name, "_x_".join(breakdown.by), "", worst, left_out=left_out)

    def to_frame(self) -> pd.DataFrame:
        """Build a data frame with one row per number: by, group, name, at, value, low, high, even_low, even_high, p."""
        import pandas as pd

        rows: list[dict[str, object]] = []
        for breakdown in self.breakdowns:
            numbers: list[tuple[str, str, int | None, RankedNumber]] = []
            for group in breakdown.groups:
                for selection in group.selection:
                    numbers += [
                        (group.label, "selection_rate", selection.at, selection.rate),
                        (group.label, "representation", selection.at, selection.representation),
                        (group.label, "representation_ratio", selection.at, selection.ratio),
                    ]
                numbers += [(group.label, name, None, number) for name, number in group.metrics.items()]
            numbers += [("", gap.name, gap.at, gap.number) for gap in breakdown.gaps]
            rows += [
                {"by": "_x_".join(breakdown.by), "group": label, "name": name, "at": at}
                | number.model_dump(exclude={"reason", "even"})
                for label, name, at, number in numbers
            ]
        return pd.DataFrame(rows)


def _plain_value(quantity: Quantity | float) -> float:
    return quantity if isinstance(quantity, float) else quantity_value(quantity) or 0.0

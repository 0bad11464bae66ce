"""What an audit of rankings found: attention and selection by group, pairs in their order, and the gaps."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from evenhand.core.document import Document
from evenhand.core.result import Result, ResultNumber
from evenhand.core.result_part import ResultPart
from evenhand.core.text import list_some
from evenhand.groups.rankings.config import PositionWeights
from evenhand.stats.metric_specs import LOWER_IS_WORSE
from evenhand.stats.quantity import Observed, Quantity, Unknown, quantity_value

if TYPE_CHECKING:
    import pandas as pd

Inference = Literal["lists", "even orders"]
"""How sure a number is: from many lists, taken for a sample; or from orders of the lists that ignore the groups."""


class RankedNumber(ResultPart):
    """A number counted on the lists, and how sure it is.

    Attributes:
        value: what was counted; None where there is nothing to count, with the reason.
        reason: why there is no value.
        low, high: the ends of its interval, for lists like these; None where there are few lists.
        even: with few lists, the mean of orders that ignore the groups, and even_low, even_high: the range that such
            orders stay within; of a gap one end only, the other being that of no gap.
        p: with few lists, the share of such orders in which a number is as far from its mean as this one.
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
    """The places from the top down to the k-th, and one group.

    Attributes:
        at: k.
        selected: candidates of the group on these places; where places are shared, the expected number.
        rate: share of the group's candidates who have one, list by list: the ratio below times the share of all
            candidates who have one. Where all lists have as many candidates it is the plain share.
        representation: the group's share of these places.
        even_representation: the share that it would have if the order ignored the groups: its share of the candidates,
            list by list.
        ratio: representation divided by that; its logarithm is the skew at k.
    """

    at: int
    selected: float
    rate: RankedNumber
    representation: RankedNumber
    even_representation: float
    ratio: RankedNumber


class RankedGroup(ResultPart):
    """The candidates of one group.

    Attributes:
        values: attribute -> value in the data's own words.
        size: candidates in the lists that are compared; lists: how many of these have one.
        small: whether it is too small to be compared, and so in no gap.
        selection: by k, ascending.
        metrics: name -> number. ``exposure`` (mean attention of a candidate, list by list), ``exposure_share`` (part
            of all attention), ``even_exposure_share`` (part that it would have if the order ignored the groups),
            ``relative_exposure`` (the one divided by the other), ``above_rate`` (probability that a candidate stands
            above one of another group in the same list). With relevance ``exposure_per_relevance`` (attention divided
            by what it would be in proportion to relevance), ``attention_minus_merit`` (share of attention minus share
            of relevance, on average over lists), ``pairwise_accuracy`` (of pairs in which the more relevant candidate
            is of this group and the other of another one, the share in order) and ``accuracy_within`` (both are of
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
        """The group in words."""
        return ", ".join(self.values.values())


class RankingGap(ResultPart):
    """The distance between the best and the worst placed group under one measure.

    Attributes:
        name: ``exposure_ratio``, ``selection_ratio``, ``selection_difference``, ``pairwise_parity_difference``; with
            relevance ``disparate_treatment_ratio`` and ``pairwise_accuracy_difference``.
        at: k, of selection.
        number: the gap; differences are >= 0, ratios in [0, 1]. Its interval is for the true gap between the groups
            that are truly furthest apart, simultaneous over all pairs of groups and, of selection, all k.
        best, worst: labels of the groups; empty where nothing is compared.
        not_assessable: groups left out because they are too small, and how many candidates they have.
    """

    name: str
    at: int | None = None
    number: RankedNumber
    best: str = ""
    worst: str = ""
    not_assessable: dict[str, int] = Field(default_factory=dict)


class PrefixTest(ResultPart):
    """The ranked group fairness test of one group: whether some prefix of a list has too few of its candidates.

    Attributes:
        group: its label.
        places: the longest prefix that is tested; shorter lists to their end.
        tested, failed: lists, and those in which the group is under-represented at the level ``1 - confidence``, each
            list for itself; as many as that share of them fail by chance alone.
        p: of one list, or few: the smallest p-value, adjusted for the lists and the groups (Holm); None for many.
        first: with it, the first prefix at which that list fails, and members, minimum: what it has and would need.
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
        by: the attributes.
        lists: lists with candidates of at least two groups, which are compared; others are not.
        left_out: how many these others are, and left_out_candidates, how many candidates they have.
        unknown: candidates on the lists compared whose group is not known; they take places all the same.
        inference: how sure the numbers are.
        groups: the groups.
        gaps: between the groups.
        prefix_tests: of the groups that are large enough; not_tested says why there are none.
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
        """Return the gap of that name and k, if it could be computed; without k that of the first k."""
        return next((gap for gap in self.gaps if gap.name == name and at in (None, gap.at)), None)


class RankingResult(Result):
    """How candidates of different groups are placed in rankings.

    Attributes:
        data: what the rankings are called; fingerprint: SHA-256 of them.
        ranked_by: the column of ranks or scores; by_score: whether it holds scores, the highest first.
        query, relevance: the columns that name lists and relevance, if there are any.
        lists, candidates: how many there are.
        unranked: rows left out because they have no rank or score; dropped: because a value is missing.
        tied: candidates who share their places with others of equal rank or score.
        gapped: lists whose recorded ranks leave places out, which stay empty.
        at: places from the top that count as selected.
        position_weights, patience: the attention that a place gets.
        confidence: of the intervals and ranges; min_group_size: of groups that are compared.
        draws: permutations behind numbers of few lists; fewer where lists are long.
        breakdowns: by each protected attribute, then by all together.
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
        """Return the gaps, every group's selection and attention, and how it was done."""
        return self._write_document("evenhand.groups.rankings.wording")

    def quantity(self, breakdown: RankingBreakdown, number: RankedNumber) -> Quantity | float:
        """Return a number with its kind: observed with its interval; a plain number of few lists, which has none."""
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
        """Yield the gaps; of selection, that of the k where it is largest, whose interval holds for all k."""
        for breakdown in self.breakdowns:
            by = "_x_".join(breakdown.by)
            for name in dict.fromkeys(gap.name for gap in breakdown.gaps):
                gaps = [gap for gap in breakdown.gaps if gap.name == name]
                quantities = [self.quantity(breakdown, gap.number) for gap in gaps]
                known = [quantity for quantity in quantities if not isinstance(quantity, Unknown)]
                select = min if name in LOWER_IS_WORSE else max
                worst = select(known, key=_plain_value) if known else quantities[0]
                small = next((gap.not_assessable for gap in reversed(gaps) if gap.not_assessable), {})
                listed = list_some([f"{label} ({n})" for label, n in small.items()])
                left_out = f"too few candidates or lists to compare {listed}" if small else ""
                yield ResultNumber(name, by, "", worst, left_out=left_out)

    def to_frame(self) -> pd.DataFrame:
        """Return one row per number: by, group, name, at, value, low, high, even_low, even_high, p."""
        import pandas as pd

        rows: list[dict[str, object]] = []
        for breakdown in self.breakdowns:
            by = "_x_".join(breakdown.by)
            found: list[tuple[str, str, int | None, RankedNumber]] = []
            for group in breakdown.groups:
                for one in group.selection:
                    found += [
                        (group.label, "selection_rate", one.at, one.rate),
                        (group.label, "representation", one.at, one.representation),
                        (group.label, "representation_ratio", one.at, one.ratio),
                    ]
                found += [(group.label, name, None, number) for name, number in group.metrics.items()]
            found += [("", gap.name, gap.at, gap.number) for gap in breakdown.gaps]
            rows += [
                {"by": by, "group": label, "name": name, "at": at, **number.model_dump(exclude={"reason", "even"})}
                for label, name, at, number in found
            ]
        return pd.DataFrame(rows)


METHOD = "ratio of sums over lists, linearised, Student's t with lists added at both ends"
"""How intervals are called."""


def _plain_value(quantity: Quantity | float) -> float:
    return quantity if isinstance(quantity, float) else quantity_value(quantity) or 0.0

"""Results of group analyses: the groups with their metrics, and the gaps between them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field, computed_field

from evenhand.core.document import Document
from evenhand.core.result import Result, ResultNumber
from evenhand.core.result_part import ResultPart
from evenhand.groups.breakdown import Breakdown, Group, ProxyRates, list_counts
from evenhand.groups.config import SMALL
from evenhand.groups.kept import KeptDecisions
from evenhand.schema.thresholds import Threshold
from evenhand.stats.quantity import Observed, Quantity

if TYPE_CHECKING:
    import pandas as pd


class Curve(ResultPart):
    """A metric as a function of the threshold, with a band that is simultaneous over all thresholds.

    Attributes:
        name: ``accuracy``, ``selection_rate``, ``demographic_parity_difference`` or ``equal_opportunity_difference``.
        by: Protected attribute of a gap or a group; empty for all people.
        group: Group of a selection rate. Empty for all people and for gaps.
        values, low, high: Value and band at each threshold.
        n: Number of people.
        confidence, method: Confidence level of the band, and name of its method.
        not_assessable: Groups omitted from a gap, with their insufficient number of people.
    """

    name: str
    by: str = ""
    group: str = ""
    values: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    n: int
    confidence: float
    method: str
    not_assessable: dict[str, int] = Field(default_factory=dict)

    def at(self, place: int) -> Observed:
        """Return the number at one threshold, with the band as its interval."""
        return Observed(
            value=self.values[place],
            n=self.n,
            low=self.low[place],
            high=self.high[place],
            confidence=self.confidence,
            method=f"simultaneous over {len(self.values)} thresholds: {self.method}",
        )


class ThresholdCurves(ResultPart):
    """Metrics as functions of the threshold.

    Attributes:
        thresholds: Thresholds in ascending order. People are selected if their score is at least the threshold, or at
            most the threshold if ``low_is_good``.
        different: Number of distinct scores. If there are more scores than thresholds, the thresholds are quantiles of
            the scores.
        in_force: Threshold of the audit; None without one.
        low_is_good: Whether low scores are favourable.
        curves: ``selection_rate`` of all people and of each group, ``accuracy`` if true labels are known, and the gaps
            by each protected attribute.
    """

    thresholds: tuple[float, ...]
    different: int
    in_force: Threshold | None = None
    low_is_good: bool = False
    curves: tuple[Curve, ...]

    @property
    def applied(self) -> float | None:
        """Value of the threshold of the audit."""
        return None if self.in_force is None else self.in_force.value

    def curve(self, name: str, by: str = "", group: str = "") -> Curve | None:
        """Return one curve; None if it does not exist."""
        return next((curve for curve in self.curves if (curve.name, curve.by, curve.group) == (name, by, group)), None)

    @property
    def attributes(self) -> tuple[str, ...]:
        """Protected attributes with curves of gaps."""
        return tuple(dict.fromkeys(curve.by for curve in self.curves if curve.by and not curve.group))


class NumberOutcome(ResultPart):
    """Numeric decisions.

    Attributes:
        name: Column of the numbers.
        unit: Unit of the numbers; None if it is unknown.
    """

    name: str
    unit: str | None = None


class LabelSet(ResultPart):
    """Several labels or grades, each compared with all others.

    Attributes:
        target: Column of the labels.
        labels: All labels; grades worst first.
        ordered: Whether the labels are grades.
    """

    target: str
    labels: tuple[str, ...]
    ordered: bool

    @property
    def share(self) -> str:
        """Name of the main rate of a label."""
        return "at_least" if self.ordered else "label_share"


class GroupedResult(Result):
    """Metrics by group.

    Attributes:
        people: Number of people.
        weights: Source of the sample weights; None without weights.
        min_group_size: Minimum denominator of a compared metric.
        breakdowns: Groups by each protected attribute and, if there are several, by all of them jointly.
    """

    members: ClassVar[tuple[str, str]] = ("person", "people")
    """Singular and plural noun for the people."""

    people: int
    weights: str | None = None
    min_group_size: int = SMALL
    breakdowns: tuple[Breakdown, ...]

    @property
    def too_few(self) -> str:
        """Description of a group that is too small for gaps."""
        if self.weights is None:
            return f"fewer than {self.min_group_size} {self.members[1]}"
        return f"an effective size below {self.min_group_size} (weights)"

    def _small_groups_hidden(self) -> dict[str, Any]:
        reason = f"left out: {self.too_few}"
        return {"breakdowns": tuple(breakdown.without_small_groups(reason) for breakdown in self.breakdowns)}

    def numbers(self) -> Iterator[ResultNumber]:
        """Yield the metrics of each group, then the gaps.

        The attribute of a gap of one label includes the label.
        """
        for breakdown in self.breakdowns:
            for group in breakdown.groups:
                for label, name, quantity in group.numbers():
                    yield ResultNumber(name, breakdown.key, group.label, quantity, label, caution=group.caution(name))
        yield from self._gap_numbers(self.breakdowns)

    def _gap_numbers(self, breakdowns: Sequence[Breakdown]) -> Iterator[ResultNumber]:
        for breakdown in breakdowns:
            for gap in breakdown.gaps:
                attribute = f"{breakdown.key}.{gap.label}" if gap.label else breakdown.key
                note = f"{gap.best} and {gap.worst}" if gap.best and gap.worst else ""
                small = gap.not_assessable
                left_out = f"{self.too_few} to count in {list_counts(small)}" if small else ""
                yield ResultNumber(gap.name, attribute, "", gap.value, note, gap.caution, left_out)

    def _build_frame(self, columns: tuple[str, ...], *, gaps: bool = False) -> pd.DataFrame:
        """Build a data frame of the numbers of each group and, if requested, the gaps, whose group is empty."""
        import pandas as pd

        rows: list[list[Any]] = []
        for breakdown in self.breakdowns:
            numbers = [(group.label, group.size, *number) for group in breakdown.groups for number in group.numbers()]
            numbers += [("", 0, gap.label, gap.name, gap.value) for gap in breakdown.gaps if gaps]
            for group, size, label, name, quantity in numbers:
                place = {"by": " x ".join(breakdown.by), "group": group, "size": size, "label": label, "metric": name}
                cells = place | vars(quantity)
                rows.append([cells.get(column) for column in columns])
        return pd.DataFrame(rows, columns=columns)


class GroupMetrics(GroupedResult):
    """Group metrics of a model, or of recorded decisions.

    Attributes:
        favourable: Favourable label; for numbers ``higher`` or ``lower``.
        everyone: All people as one group. Further metrics for two labels: ``generalized_entropy_index`` and
            ``theil_index`` if there are true labels, and ``auc`` if there are scores as well.
        calibration: Calibration by each single attribute; empty without scores or true labels. The groups are the
            people of a group with scores in the same bin, one of ten, and with a true label: their ``mean_score`` and
            ``base_rate``. For numbers, the bins are those of the numeric decisions: ``mean`` and ``true_mean``.
        people_fingerprint: SHA-256 of the groups and true labels of all people, in the order of the data.
        kept: Decisions and scores of all people, for comparison with another audit. None unless requested.
        decided_by: Threshold that was applied to the scores; None if decisions were recorded or predicted.
        low_is_good: Whether low scores are favourable. If set, ``mean_score`` and calibration use 1 minus the score.
        thresholds: Metrics as functions of the threshold. None unless requested, or without scores.
        outcome: Numeric decisions; None for labels.
        proxies: Rates of groups whose membership is only known as a probability, such as race inferred from name and
            address.
        label_set: Labels, if each of them is compared with all others. If set, there are no metrics of a
            favourable label.
        grades: Metrics of each grade, if the labels are ordered and one is favourable.
    """

    chart = "groups.plot_groups"
    kind: Literal["groups"] = "groups"
    favourable: str
    everyone: Group
    calibration: tuple[Breakdown, ...] = ()
    people_fingerprint: str = ""
    kept: KeptDecisions | None = None
    decided_by: Threshold | None = None
    low_is_good: bool = False
    thresholds: ThresholdCurves | None = None
    outcome: NumberOutcome | None = None
    proxies: tuple[ProxyRates, ...] = ()
    label_set: LabelSet | None = None
    grades: GroupMetrics | None = None

    def numbers(self) -> Iterator[ResultNumber]:
        """Yield the metrics of all people and of each group, then the gaps between groups."""
        for name, quantity in self.overall.items():
            yield ResultNumber(name, "", "", quantity, caution=self.everyone.caution(name))
        yield from super().numbers()
        if self.grades is not None:
            yield from self.grades.numbers()
        for number, proxies in zip(self._gap_numbers(self.proxies), self.proxies, strict=True):
            yield number
            bounds = proxies.gaps[0].bounds or number.quantity
            yield number._replace(name="bounded_selection_rate_difference", quantity=bounds)

    @computed_field  # type: ignore[prop-decorator]  # pydantic's documented use
    @property
    def overall(self) -> dict[str, Quantity]:
        """Metrics of all people."""
        return self.everyone.metrics

    @property
    def labels(self) -> GroupMetrics | None:
        """Metrics of each label; None if one label is favourable and the labels are unordered."""
        return self.grades if self.label_set is None else self

    @property
    def target(self) -> str:
        """Column of the numbers or labels; empty if one label is favourable."""
        if self.outcome is not None:
            return self.outcome.name
        return "" if self.label_set is None else self.label_set.target

    def _small_groups_hidden(self) -> dict[str, Any]:
        calibration = [
            breakdown.model_copy(update={"groups": tuple(group for group in breakdown.groups if not group.small)})
            for breakdown in self.calibration
        ]
        return {**super()._small_groups_hidden(), "kept": None, "calibration": tuple(calibration)}

    def document(self) -> Document:
        """Build a document with the gaps between groups, then the metrics of each group."""
        return self._write_document("evenhand.groups.wording.groups")

    def to_frame(self) -> pd.DataFrame:
        """Build a data frame with one row per group, label (of several labels) and metric.

        Columns: by, group, size, label, metric, kind, value, low, high.
        """
        label = () if self.label_set is None else ("label",)
        return self._build_frame(("by", "group", "size", *label, "metric", "kind", "value", "low", "high"))

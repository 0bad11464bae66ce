"""How groups fare under a model: one row per group, gaps between the best and the worst treated."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel, ConfigDict

from evenhand.result import Result
from evenhand.stats import Quantity, number, text

if TYPE_CHECKING:
    import altair as alt
    import pandas as pd

SMALL = 30
"""Groups below this size are shown, greyed, and left out of the gaps."""

METRIC_NAMES = (
    "selection_rate",
    "base_rate",
    "true_positive_rate",
    "false_positive_rate",
    "accuracy",
    "precision",
    "mean_score",
    "calibration_gap",
)
"""What is measured of every group, see ``Group``."""

OVERALL_NAMES = (*METRIC_NAMES, "auc")
"""What is measured of everybody together."""

GAP_NAMES = (
    "demographic_parity_difference",
    "demographic_parity_ratio",
    "equal_opportunity_difference",
    "equalized_odds_difference",
    "accuracy_difference",
    "calibration_difference",
)
"""What is compared between groups, see ``Gap``."""


class Group(BaseModel):
    """Everybody with the same values of some protected attributes.

    Attributes:
        values: attribute -> value in the data's own words, e.g. ``{"sex": "Female"}``.
        size: people in it.
        small: whether it is below ``SMALL`` and therefore takes no part in the gaps.
        metrics: name -> number. Names: ``selection_rate`` (share given the favourable label), ``base_rate``
            (share whose true label is favourable), ``true_positive_rate``, ``false_positive_rate``, ``accuracy``
            (share for whom the model is right about favourable or not), ``precision``, ``mean_score`` (of the
            favourable label), ``calibration_gap`` (mean score - base rate).
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    values: dict[str, str]
    size: int
    small: bool
    metrics: dict[str, Quantity]

    @property
    def label(self) -> str:
        """The group in words."""
        return ", ".join(self.values.values())


class Gap(BaseModel):
    """The distance between the best and the worst treated group under one metric.

    Attributes:
        name: ``demographic_parity_difference``, ``demographic_parity_ratio`` (worst / best selection rate),
            ``equal_opportunity_difference`` (true positive rates), ``equalized_odds_difference`` (the larger of
            the true and false positive rate gaps), ``calibration_difference``, ``accuracy_difference``.
        metric: the groups' metric it is about.
        value: the gap; differences are >= 0, ratios in [0, 1]. Its interval is for the true gap between the groups that
            are truly furthest apart, whichever they are: with more than two groups it is simultaneous over all pairs.
        best, worst: labels of the groups with the highest and the lowest value here.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    metric: str
    value: Quantity
    best: str
    worst: str


class Breakdown(BaseModel):
    """Groups by one protected attribute, or by several at once (their intersection)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    by: tuple[str, ...]
    groups: tuple[Group, ...]
    gaps: tuple[Gap, ...]

    def gap(self, name: str) -> Gap | None:
        """The gap of that name, if it could be computed."""
        return next((gap for gap in self.gaps if gap.name == name), None)


class CalibrationBin(BaseModel):
    """People whose favourable score falls into one tenth: what was promised, what came true."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    by: str
    group: str
    n: int
    mean_score: float
    base_rate: Quantity


class GroupMetrics(Result):
    """Performance and group metrics of a model on people with known labels.

    Attributes:
        people: how many.
        overall: the metrics of ``Group`` for everybody, and ``auc`` where there are scores.
        breakdowns: one per protected attribute, then one for their intersection if there are several.
        calibration: reliability per group of each single protected attribute; empty for a label-only model.
    """

    kind: Literal["groups"] = "groups"
    people: int
    favourable: str
    overall: dict[str, Quantity]
    breakdowns: tuple[Breakdown, ...]
    calibration: tuple[CalibrationBin, ...] = ()

    def summary(self) -> str:
        """One line per breakdown: how far selection rates are apart, and the four-fifths rule."""
        lines = []
        for breakdown in self.breakdowns:
            difference, ratio = (
                breakdown.gap("demographic_parity_difference"),
                breakdown.gap("demographic_parity_ratio"),
            )
            name = " x ".join(breakdown.by)
            if difference is None or ratio is None:
                lines.append(f"{name:<20} group gap   not computable: fewer than two groups of {SMALL} people")
                continue
            value = number(ratio.value)
            rule = "ratio unknown" if value is None else f"{'met' if value >= 0.8 else 'not met'} ({value:.2f})"
            lines.append(
                f"{name:<20} group gap   {text(difference.value)}; {difference.best} above {difference.worst}; "
                f"four-fifths rule: {rule}"
            )
        return "\n".join(lines)

    def to_frame(self) -> pd.DataFrame:
        """One row per group and metric: by, group, size, metric, kind, value, low, high."""
        import pandas as pd

        rows = [
            {
                "by": " x ".join(breakdown.by),
                "group": group.label,
                "size": group.size,
                "metric": metric,
                "kind": quantity.kind,
                "value": number(quantity),
                "low": getattr(quantity, "low", None),
                "high": getattr(quantity, "high", None),
            }
            for breakdown in self.breakdowns
            for group in breakdown.groups
            for metric, quantity in group.metrics.items()
        ]
        return pd.DataFrame(rows)

    def plot(self) -> alt.TopLevelMixin:
        """Dots with intervals: selection rate, true and false positive rate of every group."""
        from evenhand.groups.plot import plot

        return plot(self)

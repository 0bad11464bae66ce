"""The answer of a frontier: a point per strength."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel, ConfigDict

from evenhand.result import Result
from evenhand.stats import Quantity, Unknown, number, text

if TYPE_CHECKING:
    import altair as alt
    import pandas as pd

    from evenhand.charts import Spec


class FrontierPoint(BaseModel):
    """One network.

    Attributes:
        strength: of the penalty; None: a given model, not trained here.
        accuracy: the share of people who are given their true label.
        auc: how well scores put people with the favourable label above the others.
        gap: the largest difference between two groups' shares of favourable decisions.
        flips: the share of people whose decision flips with the protected attributes, everything else unchanged.
        favoured: the share of people who are given the favourable label.
        on_frontier: whether no other strength is as accurate and has as small a gap, and is better in one of the two.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    strength: float | None
    accuracy: Quantity
    auc: Quantity
    gap: Quantity
    flips: Quantity
    favoured: Quantity
    on_frontier: bool = False

    @property
    def place(self) -> tuple[float, float]:
        """Accuracy and gap as they stand in the chart; an unknown gap counts as the widest."""
        gap = number(self.gap)
        return number(self.accuracy) or 0.0, 1.0 if gap is None else gap


class FrontierResult(Result):
    """What fairness costs by one method: accuracy beside unfairness, on people whom nobody learnt from.

    Attributes:
        method: how the networks were trained.
        data: how to call the data.
        compared_on: how to call other people, where such are measured on; None: some of ``data``, kept aside.
        favourable: the label a person would want.
        protected: names of the protected attributes; their joint values are the groups, small ones taken together.
        sees_protected: whether the networks were given them.
        train, test: how many people were learnt from and measured on.
        confidence: of every interval.
        points: one per strength, in the order they were trained.
        given: the model that they are compared with, if there is one.
        interrupted: whether somebody stopped it, or time was up, before all strengths were trained.
    """

    kind: Literal["frontier"] = "frontier"
    method: str
    data: str
    compared_on: str | None = None
    favourable: str
    protected: tuple[str, ...]
    sees_protected: bool
    train: int
    test: int
    confidence: float
    points: tuple[FrontierPoint, ...]
    given: FrontierPoint | None = None
    interrupted: bool = False

    def summary(self) -> str:
        """One line per strength, the frontier marked."""
        lines = [
            f"Accuracy and unfairness by {self.method}, {self.data}: {self.train:,} people learnt from, measured on "
            f"{self.test:,} {'others' if self.compared_on is None else f'people of {self.compared_on}'}",
            f"favourable: {self.favourable}; groups by {' x '.join(self.protected)}, "
            f"{'given to the networks' if self.sees_protected else 'not given to the networks'}; "
            f"intervals {self.confidence:.0%}".replace("%", " %"),
            "",
            f"  {'strength':>9}  {'accuracy':>8}  {'AUC':>6}  {'gap':>7}  {'interval':>17}  {'flips':>7}",
        ]
        for point in (*self.points, *((self.given,) if self.given is not None else ())):
            mark = "*" if point.on_frontier else " "
            name = "given" if point.strength is None else f"{point.strength:g}"
            lines.append(
                f"{mark} {name:>9}  {_short(point.accuracy):>8}  {_short(point.auc, percent=False):>6}  "
                f"{_short(point.gap):>7}  {_interval(point.gap):>17}  {_short(point.flips):>7}"
            )
        lines += [
            "",
            "* on the frontier: no other strength is as accurate with as small a gap and better in one of both",
        ]
        if self.interrupted:
            lines.append("Stopped early: not all strengths were trained.")
        return "\n".join(lines)

    def to_frame(self) -> pd.DataFrame:
        """One row per strength, the given model last."""
        import pandas as pd

        rows = []
        for point in (*self.points, *((self.given,) if self.given is not None else ())):
            row: dict[str, object] = {"strength": point.strength, "on_frontier": point.on_frontier}
            for name in ("accuracy", "auc", "gap", "flips", "favoured"):
                quantity: Quantity = getattr(point, name)
                row |= {
                    name: number(quantity),
                    f"{name}_low": getattr(quantity, "low", number(quantity)),
                    f"{name}_high": getattr(quantity, "high", number(quantity)),
                    f"{name}_words": text(quantity, percent=name != "auc"),
                }
            rows.append(row)
        return pd.DataFrame(rows)

    def plot(self) -> alt.TopLevelMixin:
        """Accuracy against the gap, labelled by strength, the frontier as a line."""
        from evenhand import charts

        return charts.altair(self.drawing())

    def drawing(self) -> Spec:
        """The same as a specification, for a page."""
        from evenhand.mitigate.training.frontier_plot import draw

        return draw(self)


def _short(quantity: Quantity, *, percent: bool = True) -> str:
    value = number(quantity)
    if value is None:
        return "unknown"
    return f"{100 * value:.1f} %" if percent else f"{value:.3f}"


def _interval(quantity: Quantity) -> str:
    low, high = getattr(quantity, "low", None), getattr(quantity, "high", None)
    if isinstance(quantity, Unknown) or low is None or high is None:
        return ""
    return f"{100 * low:.1f} to {100 * high:.1f} %"

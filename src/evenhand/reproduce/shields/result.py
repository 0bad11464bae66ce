"""What a reproduction holds: every run of every setting, from which all tables are counted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel, ConfigDict, Field

from evenhand.reproduce.shields.settings import PropertyName, Settings
from evenhand.result import Result

if TYPE_CHECKING:
    import altair as alt
    import pandas as pd


class Part(BaseModel):
    """A part of the result: immutable, and without fields that it does not know."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Trained(Part):
    """A classifier on an environment.

    Attributes:
        dataset, attribute, classifier: which.
        groups: names of the two groups.
        people, arriving: rows, and how many of them the classifier was not trained on: those arrive at the shield.
        label: share with label 1; group_a: share in the first group; gap: of label 1 between the groups.
        accepted: share of each group that is accepted.
        accuracy: share of right decisions on those who arrive; demographic_parity, equal_opportunity: gaps there.
        seconds: training took.
        note: where our data differ from the paper's.
    """

    dataset: str
    attribute: str
    classifier: str
    groups: tuple[str, str]
    people: int
    arriving: int
    label: float
    group_a: float
    gap: float
    accepted: tuple[float, float]
    accuracy: float
    demographic_parity: float
    equal_opportunity: float
    seconds: float
    note: str = ""


class Cell(Part):
    """The runs of one setting; tuples have one entry per run, or per period.

    Attributes:
        experiment: ``bounded`` (one horizon) or ``periodic``.
        dataset, attribute, classifier: whose decisions are shielded.
        property, kappa, empty_group: what is kept.
        shield, costs: how.
        horizon, periods: decisions in a period, periods in a run.
        bias, bias_unshielded: at the end of each run, with the shield and of the same recommendations without it.
        fair, fair_unshielded: whether it was fair at the end of every period, decided exactly.
        assumed: whether all held that the shield's guarantee rests on.
        interventions: decisions against the recommendation; cost: what they cost.
        right, right_unshielded: decisions that agree with the true label.
        fair_at, fair_at_unshielded: how many runs are fair at the end of each period.
        seconds: synthesis and simulation took.
    """

    experiment: Literal["bounded", "periodic"]
    dataset: str
    attribute: str
    classifier: str
    property: PropertyName
    kappa: str
    empty_group: str
    shield: str
    costs: str
    horizon: int
    periods: int
    bias: tuple[float, ...]
    bias_unshielded: tuple[float, ...]
    fair: tuple[bool, ...]
    fair_unshielded: tuple[bool, ...]
    assumed: tuple[bool, ...]
    interventions: tuple[int, ...]
    cost: tuple[float, ...]
    right: tuple[int, ...]
    right_unshielded: tuple[int, ...]
    fair_at: tuple[int, ...]
    fair_at_unshielded: tuple[int, ...]
    seconds: float

    def environment(self) -> str:
        """Data set and attribute."""
        return f"{self.dataset}, {self.attribute}"

    def runs(self) -> int:
        """How many."""
        return len(self.fair)

    def losses(self) -> list[float]:
        """Right decisions that the shield costs, in percent of those without it, per run (the paper's utility loss)."""
        return [
            100 * (alone - right) / alone if alone else 0.0
            for right, alone in zip(self.right, self.right_unshielded, strict=True)
        ]


class Reproduction(Result):
    """The experiments of a paper, run again.

    Attributes:
        paper: which.
        settings: what was to be run.
        environments: which, as ``data set, attribute``.
        classifiers: how those fare whose decisions are shielded.
        cells: the runs of every setting.
        wanted: how many settings there were to be.
        left_out: classifiers that were to be shielded and could not be trained, each with why.
        interrupted: whether somebody stopped it; what is here was complete before.
    """

    kind: Literal["reproduction"] = "reproduction"
    paper: Literal["shields"] = "shields"
    settings: Settings
    environments: tuple[str, ...]
    classifiers: tuple[Trained, ...]
    cells: tuple[Cell, ...]
    wanted: int
    left_out: dict[str, str] = Field(default_factory=dict)
    interrupted: bool = False

    def summary(self) -> str:
        """The tables, as text."""
        from evenhand.reproduce.shields.text import summary

        return summary(self)

    def to_frame(self) -> pd.DataFrame:
        """One row per setting: what it is, shares of fair runs, mean interventions, cost and utility loss."""
        from evenhand.reproduce.shields.tables import settings_frame

        return settings_frame(self)

    def plot(self) -> alt.TopLevelMixin:
        """Normalised bias with and without a shield, utility loss by environment, share of fair runs per period."""
        from evenhand.reproduce.shields.plot import plot

        return plot(self)

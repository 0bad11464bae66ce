"""What the mitigation tables are counted from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel, ConfigDict, Field

from evenhand.reproduce.mitigation.settings import Settings
from evenhand.reproduce.shields.result import Trained
from evenhand.result import Result

if TYPE_CHECKING:
    import altair as alt
    import pandas as pd


class Part(BaseModel):
    """A part of the result: immutable, and without fields that it does not know."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Counted(Part):
    """What a model decides about some people, in whole numbers.

    Attributes:
        people: how many.
        right: decisions that agree with the true label; None where nobody knows it (samples).
        inside: people in the subgroup.
        favourable, rest_favourable: favourable decisions in it, and among the others.
    """

    people: int
    right: int | None
    inside: int
    favourable: int
    rest_favourable: int

    @property
    def accuracy(self) -> float | None:
        """Share of right decisions."""
        return None if self.right is None else self.right / self.people

    @property
    def rate(self) -> float:
        """Share of favourable decisions in the subgroup; 0 where nobody is in it."""
        return self.favourable / self.inside if self.inside else 0.0

    @property
    def rest_rate(self) -> float:
        """The same among the others."""
        rest = self.people - self.inside
        return self.rest_favourable / rest if rest else 0.0

    @property
    def gap(self) -> float:
        """How far the rates lie apart; the published fairness score."""
        return abs(self.rate - self.rest_rate)


class Model(Part):
    """A network, as it was or mended.

    Attributes:
        method: ``given``, or what mended it.
        words: what was done.
        held_out: about the people kept aside.
        learnt_from: about those it learnt from.
        sampled: about nudged people around those, as the paper counts.
        notes: what else is to be known.
        seconds: it took.
    """

    method: str
    words: str
    held_out: Counted
    learnt_from: Counted
    sampled: Counted
    notes: tuple[str, ...] = ()
    seconds: float


class Mended(Part):
    """A data set, a network trained on it, its widest subgroup, and what the methods made of it.

    Attributes:
        case, dataset: the paper's name and ours.
        run: which, from 0.
        train, validation, test: people.
        subgroup: who is in the subgroup with the widest gap, in words; None where there is none large enough.
        stands_out: whether its gap stands out from chance.
        models: the given one first; it alone where there is no subgroup.
        left_out: methods that could not be used, each with why.
    """

    case: str
    dataset: str
    run: int
    train: int
    validation: int
    test: int
    subgroup: str | None
    stands_out: bool
    models: tuple[Model, ...]
    left_out: dict[str, str] = Field(default_factory=dict)

    @property
    def given(self) -> Model:
        """The network as it was."""
        return self.models[0]


class MitigationTables(Result):
    """The mitigation tables of two papers, made again.

    Attributes:
        settings: what was to be run.
        mended: one per data set and run of the table of subgroups.
        classifiers: one per environment, classifier and run of the table of classifiers.
        wanted: how many entries both were to have.
        left_out: classifiers that could not be trained, each with why.
        notes: where our data differ from the papers', by data set.
        interrupted: whether somebody stopped it; what is here was complete before.
    """

    kind: Literal["mitigation-tables"] = "mitigation-tables"
    settings: Settings
    mended: tuple[Mended, ...]
    classifiers: tuple[Trained, ...]
    wanted: int
    left_out: dict[str, str] = Field(default_factory=dict)
    notes: dict[str, str] = Field(default_factory=dict)
    interrupted: bool = False

    def summary(self) -> str:
        """Both tables, as text."""
        from evenhand.reproduce.mitigation.text import summary

        return summary(self)

    def to_frame(self) -> pd.DataFrame:
        """One row per model of the first table: accuracy and rates on everybody they were counted on."""
        from evenhand.reproduce.mitigation.tables import models_frame

        return models_frame(self)

    def plot(self) -> alt.TopLevelMixin:
        """Gaps before and after by data set and method; gaps and accuracy of the classifiers."""
        from evenhand.reproduce.mitigation.plot import plot

        return plot(self)

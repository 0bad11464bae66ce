"""How often a decision flips with a protected attribute, and for whom."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel, ConfigDict

from evenhand.result import Result
from evenhand.stats import Quantity, text

if TYPE_CHECKING:
    import altair as alt
    import pandas as pd


class Assignment(BaseModel):
    """What the model says to one assignment of the protected attributes, everything else unchanged."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    values: dict[str, str]
    label: str
    score: float


class Profile(BaseModel):
    """One person's unprotected part, with two protected assignments that the model decides differently.

    Attributes:
        unprotected: attribute -> value in the data's own words.
        worse, better: the assignments with the lowest and the highest favourable score among those that disagree.
        disagreeing: how many assignments get another label than the person's own.
        gap: difference of the two favourable scores.
        source: ``data`` (a person in the data) or ``population`` (drawn from the domain).
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    unprotected: dict[str, str]
    worse: Assignment
    better: Assignment
    disagreeing: int
    gap: float
    source: Literal["data", "population"]


class Rate(BaseModel):
    """The violation rate over one set of people.

    Attributes:
        over: ``data`` (everybody in the data) or ``population`` (individuals drawn from it).
        protected: the attributes that were changed, jointly.
        rate: share of people for whom at least one other assignment changes the label.
        flips: how many of them.
        n: of how many.
        queries: individuals that the model was asked about.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    over: Literal["data", "population"]
    population: str
    protected: tuple[str, ...]
    rate: Quantity
    flips: int
    n: int
    queries: int


class IndividualResult(Result):
    """Violation rates per protected attribute (and jointly), and the clearest examples.

    Attributes:
        rates: one per protected attribute and for all of them together, over the data and the population.
        examples: per entry of ``rates[*].protected``, the profiles with the widest score gap, data first.
        interrupted: whether somebody stopped it; what is here was found before.
    """

    kind: Literal["individual"] = "individual"
    rates: tuple[Rate, ...]
    examples: tuple[Profile, ...]
    interrupted: bool = False

    def rate(self, protected: tuple[str, ...], over: Literal["data", "population"]) -> Rate | None:
        """The rate for these protected attributes over data or population, if it was measured."""
        return next((rate for rate in self.rates if rate.protected == protected and rate.over == over), None)

    def summary(self) -> str:
        """One line per rate."""
        return "\n".join(
            f"{' x '.join(rate.protected):<20} flips for   {text(rate.rate)} of {rate.population}"
            for rate in self.rates
        )

    def to_frame(self) -> pd.DataFrame:
        """One row per example: unprotected attributes, then the protected values, labels and scores of the pair."""
        import pandas as pd

        return pd.DataFrame(
            [
                profile.unprotected
                | {f"{name} (worse)": value for name, value in profile.worse.values.items()}
                | {f"{name} (better)": value for name, value in profile.better.values.items()}
                | {"label (worse)": profile.worse.label, "label (better)": profile.better.label}
                | {"score (worse)": profile.worse.score, "score (better)": profile.better.score, "gap": profile.gap}
                | {"source": profile.source}
                for profile in self.examples
            ]
        )

    def plot(self) -> alt.TopLevelMixin:
        """Violation rates with their intervals."""
        from evenhand.individual.plot import plot

        return plot(self)

"""What a simulation found: how often runs are fair with and without the shield, and what that costs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict

from evenhand.result import Result
from evenhand.stats import Estimated, Quantity, Unknown

if TYPE_CHECKING:
    import altair as alt
    import pandas as pd

LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)
"""Of the quantiles over runs that are kept."""


class Part(BaseModel):
    """A part of the result: immutable, and without fields that it does not know."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Moment(Part):
    """The bias over runs after so many decisions; quantiles at ``LEVELS``.

    Attributes:
        decisions: taken in each run, all periods together.
        shielded, unshielded: quantiles of the bias with the shield, and of the recommendations alone.
        checked: whether the bias must be at most kappa at this moment.
        fair, fair_unshielded: shares of runs where it is.
    """

    decisions: int
    shielded: tuple[float, ...]
    unshielded: tuple[float, ...]
    checked: bool
    fair: float
    fair_unshielded: float


class Histogram(Part):
    """Runs by their bias at the end, divided by kappa (the bias itself where kappa is 0).

    Attributes:
        edges: of the classes, ascending; the last class holds everything above its lower edge.
        shielded, unshielded: runs in each class.
    """

    edges: tuple[float, ...]
    shielded: tuple[int, ...]
    unshielded: tuple[int, ...]


class SimulationResult(Result):
    """Many runs of one shield, each beside the same run without it.

    Attributes:
        property, kappa: what is kept; shield: the kind of shield; terminal: for a dynamic shield, how periods end.
        horizon, periods: decisions in a period, and periods in a run.
        source, order: who arrived, in which order.
        runs: how many.
        fair_share, fair_share_unshielded: share of runs that were fair at every check, with and without the shield.
        assumption_share: share of runs in which all held that the shield's guarantee rests on; None for a shield that
            guarantees nothing.
        assumption: the same in words.
        fair, fair_unshielded, assumed: these shares with exact intervals for runs like these.
        fair_when_assumed: share of fair runs among those in which the assumption held.
        interventions_mean, cost_mean: decisions against the recommendation and what they cost, per run.
        intervention_rate, cost: the share of decisions that went against the recommendation, and the cost per run, with
            their intervals.
        accuracy, accuracy_unshielded, utility_loss: share of decisions that agree with the true label, and how much of
            it the shield loses; unknown without real labels.
        bias, bias_unshielded: at the end of a run, the mean over runs.
        over_time: the bias in the course of a run, over the first ``watched`` runs.
        normalised: the distribution of the bias at the end.
        interrupted: whether somebody stopped it; the runs here were complete before.
    """

    kind: Literal["shield-simulation"] = "shield-simulation"
    property: str
    kappa: str
    shield: str
    terminal: str | None = None
    horizon: int
    periods: int
    groups: tuple[str, ...]
    source: str
    order: str
    runs: int
    fair_share: float
    fair_share_unshielded: float
    assumption_share: float | None
    assumption: str
    fair: Quantity
    fair_unshielded: Quantity
    assumed: Quantity
    fair_when_assumed: Quantity
    interventions_mean: float
    intervention_rate: Quantity
    cost_mean: float
    cost: Quantity
    accuracy: Quantity
    accuracy_unshielded: Quantity
    utility_loss: Quantity
    bias: Quantity
    bias_unshielded: Quantity
    watched: int
    over_time: tuple[Moment, ...]
    normalised: Histogram
    interrupted: bool = False

    def when(self) -> str:
        """When the bias was judged, in words."""
        number = self.periods
        at_end = sum(moment.checked for moment in self.over_time) == number
        ends = "at the end" if number == 1 else f"at the ends of all {number} periods"
        return ends if at_end else f"{ends} and at the times between that are checked"

    def summary(self) -> str:
        """The shares, then what the shield costs."""
        opening = (
            f"{self.runs:,} runs of {self.periods * self.horizon:,} decisions ({self.source}, order {self.order}): "
            f"{self.property} within {self.kappa}, {self.when()}"
        )
        answers = self.answers()
        width = max(len(answer.question) for answer in answers)
        number = max(len(answer.number) for answer in answers)
        rows = (f"{one.question:<{width}}  {one.number:>{number}}  {one.rests_on}" for one in answers)
        return "\n".join([opening, *rows])

    def answers(self) -> list[Answer]:
        """What people ask, each with a number and what it rests on."""
        found = [
            _share("fair with the shield", self.fair, "of runs"),
            _share("fair without", self.fair_unshielded, "of runs"),
            _share("assumption held", self.assumed, f"of runs: {self.assumption}"),
        ]
        if not isinstance(self.fair_when_assumed, Unknown) and self.assumption_share != 1:
            found.append(_share("fair where it held", self.fair_when_assumed, "of these runs"))
        found += [
            _share("interventions", self.intervention_rate, f"of decisions, {self.interventions_mean:.2f} in a run"),
            _plain("their cost", self.cost, "in a run"),
            _plain("bias at the end", self.bias, "on average"),
            _plain("bias without", self.bias_unshielded, "on average"),
        ]
        if not isinstance(self.utility_loss, Unknown):
            with_it, without = (
                percent(one.value) for one in (self.accuracy, self.accuracy_unshielded) if not isinstance(one, Unknown)
            )
            found.append(_share("accuracy lost", self.utility_loss, f"of decisions: {with_it} right, not {without}"))
        return found

    def to_frame(self) -> pd.DataFrame:
        """One row per moment that was watched: decisions, whether checked, shares of fair runs, bias quantiles."""
        import pandas as pd

        rows = []
        for moment in self.over_time:
            row = moment.model_dump(exclude={"shielded", "unshielded"})
            for name in ("shielded", "unshielded"):
                quantiles = getattr(moment, name)
                row |= {f"{name} {level:.0%}": value for level, value in zip(LEVELS, quantiles, strict=True)}
            rows.append(row)
        return pd.DataFrame(rows)

    def plot(self) -> alt.TopLevelMixin:
        """Bias over time with and without the shield, and the distribution of the normalised bias at the end."""
        from evenhand.shield.simulation_plot import plot

        return plot(self)


class Answer(NamedTuple):
    """A question with its number: of what it is, what kind of number, on what it rests."""

    question: str
    number: str
    of: str
    basis: str
    quantity: Quantity

    @property
    def rests_on(self) -> str:
        """All that stands beside the number."""
        if isinstance(self.quantity, Unknown):
            return self.of
        return f"{self.of} ({' '.join(filter(None, [self.quantity.kind, self.basis]))})"


def _share(question: str, quantity: Quantity, of: str) -> Answer:
    return _answer(question, quantity, of, percent)


def _plain(question: str, quantity: Quantity, of: str) -> Answer:
    return _answer(question, quantity, of, lambda value: f"{value:.3f}")


def _answer(question: str, quantity: Quantity, of: str, written: Callable[[float], str]) -> Answer:
    if isinstance(quantity, Unknown):
        return Answer(question, "unknown", quantity.reason, "", quantity)
    basis = ""
    if isinstance(quantity, Estimated):
        low, high = written(quantity.low), written(quantity.high)
        basis = f"on {quantity.n:,} runs, {100 * quantity.confidence:g} % interval {low} to {high}"
    return Answer(question, written(quantity.value), of, basis, quantity)


def percent(share: float) -> str:
    """A share in percent; a negative one keeps its sign."""
    from evenhand.charts import percent

    return f"-{percent(-share)}" if share < 0 else percent(share)

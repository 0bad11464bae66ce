"""For which share of everybody a model is proved to decide the same whatever the protected attributes say."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel, ConfigDict, Field

from evenhand.result import Result

if TYPE_CHECKING:
    import altair as alt
    import pandas as pd


class Estimate(BaseModel):
    """A two-sided confidence interval for the true unfair mass: proved masses plus a sample of what is undecided."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    unfair: float
    low: float
    high: float
    confidence: float
    n: int


class Counterexample(BaseModel):
    """A person of the domain, re-run on the model, whose label differs between two protected assignments.

    ``relaxed`` holds what else differs under the second one: values of relaxed attributes, within their tolerance.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    unprotected: dict[str, str]
    first: dict[str, str]
    second: dict[str, str]
    first_label: str
    second_label: str
    relaxed: dict[str, str] = Field(default_factory=dict)


class Moment(BaseModel):
    """What was proved after so many seconds."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    seconds: float
    boxes: int
    certified: float
    falsified: float


class Region(BaseModel):
    """Part of the domain, attribute -> range or values in words (none: all of it), with its mass in the population.

    ``falsified`` and ``undecided`` are the parts of that mass which are proved unfair, and still open.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    where: dict[str, str]
    mass: float
    falsified: float
    undecided: float


class Slice(BaseModel):
    """Everybody with one value, or a range of values, of one attribute.

    Attributes:
        attribute, values: who, in the data's own words.
        mass: their share of the population.
        estimate: which share of them is treated unfairly, from a sample of the whole population; with ``n`` 0 nobody of
            them was drawn, and nothing is known.
        undecided: about which share of them the proof left open: inside a box of the proof, open mass is taken to be
            spread as the population is.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    attribute: str
    values: str
    mass: float
    estimate: Estimate
    undecided: float


class Certificate(Result):
    """Shares of the population: certified + falsified + undecided = 1.

    Attributes:
        certified: proved lower bound on the mass of individuals treated fairly.
        falsified: proved lower bound on the mass treated unfairly.
        undecided: the rest.
        estimate: confidence interval for the true unfair mass.
        counterexamples: distinct, in the domain, re-verified.
        boxes: how many boxes were analysed.
        cpu_seconds: processor time of the whole run.
        method: ``linear`` (linear bounds, best first), ``interval`` (symbolic intervals, depth first), ``trees``
            (bounds over leaves), or ``enumeration`` where the domain was small enough to ask about everybody.
        population: what the masses are measured by.
        stopped_by: ``done``, ``time``, ``boxes``, ``target``, ``depth`` or ``interrupt``.
        protected: the attributes that were varied.
        where: the conditions that all shares are conditional on.
        threshold: with two labels, ``positive`` is given if its probability is greater than this; else None.
        positive: the label that the threshold is about.
        relaxed: by how many values these attributes may differ between the people compared.
        history: the course of the run.
        regions: where the unfair and the undecided lie, in coarse parts of the domain: proved.
        slices: the same by single attributes: estimated.
    """

    kind: Literal["certificate"] = "certificate"
    certified: float = Field(ge=0, le=1)
    falsified: float = Field(ge=0, le=1)
    undecided: float = Field(ge=0, le=1)
    estimate: Estimate
    counterexamples: tuple[Counterexample, ...]
    boxes: int
    cpu_seconds: float
    method: str
    population: str
    stopped_by: Literal["done", "time", "boxes", "target", "depth", "interrupt"]
    protected: tuple[str, ...]
    where: tuple[str, ...] = ()
    threshold: float | None = None
    positive: str | None = None
    relaxed: dict[str, int] = Field(default_factory=dict)
    history: tuple[Moment, ...] = ()
    regions: tuple[Region, ...] = ()
    slices: tuple[Slice, ...] = ()

    def summary(self) -> str:
        """Three proved shares, the estimate, and what stopped the run."""
        name = " x ".join(self.protected)
        asked = ""
        if self.relaxed:
            near = ", ".join(f"{attribute} by up to {width}" for attribute, width in self.relaxed.items())
            asked += f"{'':<20} also against people who differ in {near}\n"
        if self.threshold not in (None, 0.5):
            asked += f"{'':<20} {self.positive!r} is given if its probability is greater than {self.threshold:g}\n"
        return (
            f"{name:<20} provably same for {self.certified:.2%} of {self.population}; "
            f"provably different {self.falsified:.2%}; undecided {self.undecided:.2%}\n"
            f"{asked}"
            f"{'':<20} unfair share estimated {self.estimate.unfair:.3%} "
            f"({self.estimate.confidence:.0%} interval {self.estimate.low:.3%} to {self.estimate.high:.3%}); "
            f"{self.boxes:,} boxes in {self.seconds:.1f} s, stopped by {self.stopped_by}"
        )

    def to_frame(self) -> pd.DataFrame:
        """One row per share."""
        import pandas as pd

        return pd.DataFrame(
            {
                "share": ["certified", "falsified", "undecided"],
                "value": [self.certified, self.falsified, self.undecided],
            }
        )

    def plot(self) -> alt.TopLevelMixin:
        """What is proved and estimated, how the undecided share fell, and by attribute where the rest lies."""
        from evenhand.certify.plot import plot

        return plot(self)

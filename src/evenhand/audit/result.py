"""Everything that one audit found, and what it could not run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel, ConfigDict

from evenhand.certify.result import Certificate
from evenhand.groups.result import GroupMetrics
from evenhand.individual.result import IndividualResult
from evenhand.individual.search.result import SearchResult
from evenhand.result import Result
from evenhand.schema import Schema
from evenhand.subgroup import Finding, SubgroupResult

if TYPE_CHECKING:
    import altair as alt
    import pandas as pd


class ModelCard(BaseModel):
    """What was audited: name, type, labels, and whether it is a white box (if not, why not)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    type: str
    classes: tuple[str, ...]
    favourable: str
    label_only: bool
    white_box: bool
    why_not: str | None = None


class DataCard(BaseModel):
    """Who was in the data: aggregates only.

    Attributes:
        name: file or data set.
        people: rows used; dropped: rows left out for missing values.
        fingerprint: SHA-256 of the individuals and labels as read.
        counts: protected attribute -> value -> people.
        base_rate: share with the favourable true label.
        training_rows: whether the model is known to have been trained on these rows (None: unknown).
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    people: int
    dropped: int
    fingerprint: str
    counts: dict[str, dict[str, int]]
    base_rate: float
    training_rows: bool | None = None


class NotRun(BaseModel):
    """An analysis that could not be run, and the reason."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    what: str
    reason: str


class AuditResult(Result):
    """The audit of one model on one data set.

    Attributes:
        model, data: what was looked at.
        described: the schema by which the data was read.
        protected: attributes looked at.
        groups: performance and group metrics.
        subgroups: whom the protected attributes describe together and the model treats differently; None if not run.
        individual: violation rates and examples.
        searches: who was found by searching, one per protected attribute; how common flips are is in ``individual``.
        certificates: one per protected attribute (white boxes only), one for all of them jointly.
        not_run: what could not be run, with reasons.
        settings: the options that were in force.
        versions: libraries that took part.
        violation_rate: share of the people in the data whose label flips with the protected attributes together;
            None if the audit was interrupted before. (``individual`` has it with its interval.)
        interrupted: whether somebody stopped it; what is here was found before.
    """

    kind: Literal["audit"] = "audit"
    model: ModelCard
    data: DataCard
    described: Schema
    protected: tuple[str, ...]
    groups: GroupMetrics
    subgroups: SubgroupResult | None = None
    individual: IndividualResult
    searches: tuple[SearchResult, ...] = ()
    certificates: tuple[Certificate, ...]
    not_run: tuple[NotRun, ...]
    settings: dict[str, str | int | float | bool | None]
    versions: dict[str, str]
    violation_rate: float | None
    interrupted: bool = False

    @property
    def worst_subgroup(self) -> Finding | None:
        """The subgroup whose favourable rate is most certainly below that of the others; None if none is below."""
        findings = () if self.subgroups is None else self.subgroups.findings
        return next((finding for finding in findings if finding.gap < 0), None)

    def summary(self) -> str:
        """The first screen, in plain text."""
        parts = [self.groups.summary()]
        parts += [] if self.subgroups is None else [self.subgroups.summary()]
        parts += [self.individual.summary()]
        parts += [_found(one) for one in self.searches] + [one.summary() for one in self.certificates]
        parts += [f"not run: {item.what}: {item.reason}" for item in self.not_run]
        return "\n".join(part for part in parts if part)

    def to_frame(self) -> pd.DataFrame:
        """The group metrics as a table; ``individual.to_frame()`` and the certificates have their own."""
        return self.groups.to_frame()

    def plot(self) -> alt.TopLevelMixin:
        """Group metrics above violation rates."""
        from evenhand import charts
        from evenhand.groups.plot import draw as draw_groups
        from evenhand.individual.plot import draw as draw_flips

        parts = [draw_groups(self.groups), draw_flips(self.individual)]
        return charts.altair(charts.stack(parts, " ".join(part["description"] for part in parts)))


def _found(search: SearchResult) -> str:
    name = " x ".join(search.protected)
    return f"{name:<20} search found {search.profiles:,} profiles in {search.queries:,} questions (observed)"

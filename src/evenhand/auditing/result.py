"""Result of an audit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from evenhand.certification.certificate.result import Certificate
from evenhand.core.document import Document
from evenhand.core.result import Result, ResultNumber
from evenhand.core.result_part import ResultPart
from evenhand.groups.result import GroupMetrics
from evenhand.individual.changes import ChangeResult
from evenhand.individual.result import IndividualResult
from evenhand.individual.search.result import SearchResult
from evenhand.schema.schema import Schema
from evenhand.subgroups.result import SubgroupResult

if TYPE_CHECKING:
    import pandas as pd


SECTIONS = ("groups", "subgroups", "residual_subgroups", "individual", "changes")
"""Fields with results that have a section of their own in the report."""


class ModelCard(ResultPart):
    """Audited model, or recorded decisions.

    Attributes:
        name: Name in reports.
        type: Type of the model or of the decisions.
        classes: Labels. Empty for a numeric target.
        favourable: Favourable label or direction.
        label_only: Whether there are no scores.
        white_box: Whether the model can be certified.
        why_not: Reason if the model is not a white box.
        recorded: Whether recorded decisions were audited, without a model.
        caution: Caution about the predictions. Empty if there is none.
    """

    name: str
    type: str
    classes: tuple[str, ...]
    favourable: str
    label_only: bool
    white_box: bool
    why_not: str | None = None
    recorded: bool = False
    caution: str = ""


class DataCard(ResultPart):
    """Aggregates of the data.

    Attributes:
        name: File or data set.
        people: Number of people.
        dropped: Number of excluded rows, which have missing values or no recorded decision.
        fingerprint: SHA-256 of the individuals and labels as read.
        counts: Number of people by protected attribute and value.
        unknown: Number of people with an unknown value, by attribute that declares unknown values.
        base_rate: Share of favourable true labels among people with a true label. None without true labels.
        unlabelled: Number of people whose true label or number is unknown.
        held_out: Whether it is known that the model was not trained on these rows.
    """

    name: str
    people: int
    dropped: int
    fingerprint: str
    counts: dict[str, dict[str, int]]
    unknown: dict[str, int] = Field({})
    base_rate: float | None
    held_out: bool = False
    unlabelled: int = 0


class SkippedAnalysis(ResultPart):
    """Part of an audit that was not run, and the reason."""

    what: str
    reason: str


class AuditResult(Result):
    """Audit of a model on a data set, or of recorded decisions.

    Attributes:
        model, data: Descriptions of the model and of the data.
        described: Schema of the data.
        protected: Audited attributes.
        groups: Performance and group metrics.
        subgroups: Subgroups, defined by several protected attributes, that are treated differently; for numbers, those
            with a different mean. None if the search was not run.
        residual_subgroups: For numbers with true values, subgroups with a different mean residual.
        individual: Counterfactual flip rates and examples. None for recorded decisions and for numeric targets.
        changes: Changes of a number with the protected attributes. None for labels and for recorded numbers.
        searches: Searches for individuals, one per protected attribute. Their counts do not estimate how common flips
            are.
        certificates: Certificates of a white box, one per protected attribute, and one for all of them jointly.
        not_run: Parts that were not run, with the reasons.
        settings: Settings of the audit.
        versions: Versions of the libraries.
        flip_rate: Share of the people in the data with a plausible counterpart whose label flips with the protected
            attributes jointly; None if it was not measured, or no one has a counterpart. ``individual`` contains its
            interval.
        queries: Number of individuals for which a function, an estimator or an endpoint was queried.
        interrupted: Whether the audit was interrupted. It contains the parts completed before.
    """

    chart = "individual.plot_audit"
    kind: Literal["audit"] = "audit"
    model: ModelCard
    data: DataCard
    described: Schema
    protected: tuple[str, ...]
    groups: GroupMetrics
    subgroups: SubgroupResult | None = None
    residual_subgroups: SubgroupResult | None = None
    individual: IndividualResult | None = None
    changes: ChangeResult | None = None
    searches: tuple[SearchResult, ...] = ()
    certificates: tuple[Certificate, ...] = ()
    not_run: tuple[SkippedAnalysis, ...]
    settings: dict[str, str | int | float | bool | None]
    versions: dict[str, str]
    flip_rate: float | None = None
    queries: int = 0
    interrupted: bool = False

    @property
    def further(self) -> tuple[Result, ...]:
        """Results of the analyses that have no section of their own in the report, which contains their documents."""
        return tuple(part for name, part in self if isinstance(part, Result) and name not in SECTIONS)

    def numbers(self) -> Iterator[ResultNumber]:
        """Yield the numbers of all parts. With weights, numbers of groups and subgroups are weighted, but not flips."""
        yield from self.groups.numbers()
        for part in (self.individual, self.changes, *self.certificates, self.subgroups, *self.further):
            if part is not None:
                yield from part.numbers()
        if self.residual_subgroups is not None:
            worst = next(self.residual_subgroups.numbers())
            yield worst._replace(name="worst_subgroup_residual", caution=self.groups.everyone.caution())

    def document(self) -> Document:
        """Build the document of the audit: summary, results of each part, method and limits."""
        return self._write_document("evenhand.auditing.wording")

    def to_frame(self) -> pd.DataFrame:
        """Convert the group metrics to a data frame. ``individual`` and the certificates have separate data frames."""
        return self.groups.to_frame()

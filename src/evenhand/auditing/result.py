"""Everything that one audit found, and what it could not run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from evenhand.certification.certificate.result import Certificate
from evenhand.core.document import Document
from evenhand.core.result import Result, ResultNumber
from evenhand.core.result_part import ResultPart
from evenhand.groups.label_coverage import find_caution
from evenhand.groups.result import GroupMetrics
from evenhand.individual.changes import ChangeResult
from evenhand.individual.result import IndividualResult
from evenhand.individual.search.result import SearchResult
from evenhand.schema.schema import Schema
from evenhand.subgroups.result import Finding, SubgroupResult

if TYPE_CHECKING:
    import pandas as pd


class ModelCard(ResultPart):
    """What was audited: name, type, labels, whether it is a white box (if not, why not), how asked.

    ``recorded`` where there is no model, and decisions already made were audited.
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
    """Who was in the data: aggregates only.

    Attributes:
        name: file or data set.
        people: Number of rows used.
        dropped: Number of rows left out for missing values; of recorded decisions, for a missing decision.
        fingerprint: SHA-256 of the individuals and labels as read.
        counts: protected attribute -> value -> people.
        unknown: attribute that declares what stands for unknown -> people of unknown value.
        base_rate: Share of favourable true labels over people with a true label; None without any.
        unlabelled: Number of people used whose true label or number is unknown.
        training_rows: whether the model is known to have been trained on these rows (None: unknown).
    """

    name: str
    people: int
    dropped: int
    fingerprint: str
    counts: dict[str, dict[str, int]]
    unknown: dict[str, int] = Field({})
    base_rate: float | None
    training_rows: bool | None = None
    unlabelled: int = 0


class SkippedAnalysis(ResultPart):
    """An analysis that could not be run, and the reason."""

    what: str
    reason: str


class AuditResult(Result):
    """The audit of one model on one data set, or of decisions already made.

    Attributes:
        model, data: what was looked at.
        described: the schema by which the data was read.
        protected: attributes looked at.
        groups: performance and group metrics.
        subgroups: whom the protected attributes describe together and the model treats differently; of numbers, those
            whose mean departs from the others'; None if not run.
        residual_subgroups: the same by the mean of decided minus true numbers, where numbers are decided and the true
            ones are known.
        individual: counterfactual flip rates and examples; None for decisions already made.
        changes: of a number that is decided: by how much it changes with the protected attributes; else None.
        searches: who was found by searching, one per protected attribute; how common flips are is in ``individual``.
        certificates: one per protected attribute (white boxes only), one for all of them jointly.
        not_run: what could not be run, with reasons.
        settings: the options that were in force.
        versions: libraries that took part.
        counterfactual_flip_rate: share of the people in the data, of those with a plausible counterpart, whose label
            flips with the protected attributes together; None if the audit was interrupted before, or no one has one.
            (``individual`` has it with its interval.) Without rules in the schema it is the same as ``flip_rate``.
        flip_rate: as published: the same of all, where nothing but the protected attributes changes.
        queries: individuals (rows) that a function, an estimator or an endpoint was sent in all, from trying it on.
        interrupted: whether somebody stopped it; what is here was found before.
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
    counterfactual_flip_rate: float | None = None
    flip_rate: float | None = None
    queries: int = 0
    interrupted: bool = False

    @property
    def worst_subgroup(self) -> Finding | None:
        """The subgroup that is most clearly worse off than the others; None if none is.

        Of labels: the one whose favourable rate is most clearly below. Of numbers without a better
        direction: the one whose mean departs most clearly.
        """
        return None if self.subgroups is None else self.subgroups.widest

    def numbers(self) -> Iterator[ResultNumber]:
        """Yield the numbers of all parts. With weights, those of groups and subgroups are weighted; flips are not."""
        yield from self.groups.numbers()
        for part in (self.individual, self.changes, *self.certificates, self.subgroups):
            if part is not None:
                yield from part.numbers()
        if self.residual_subgroups is not None:
            worst = next(self.residual_subgroups.numbers())
            yield worst._replace(name="worst_subgroup_residual", caution=find_caution(self.groups.label_coverage))

    def document(self) -> Document:
        """Return the first screen from the parts' answers, then what each part found and how it was done."""
        words = "wording" if self.groups.outcome is None else "number_wording"
        return self._write_document(f"evenhand.auditing.{words}")

    def to_frame(self) -> pd.DataFrame:
        """Return the group metrics as a table; ``individual.to_frame()`` and the certificates have their own."""
        return self.groups.to_frame()

"""The record of a search for less discriminatory alternatives."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from evenhand.core.document import Document
from evenhand.core.result import Result
from evenhand.core.result_part import ResultPart
from evenhand.mitigation.alternatives.config import Family, GapName
from evenhand.mitigation.refutation.result import RefutationResult
from evenhand.mitigation.result import Change, ChangeVerdict

if TYPE_CHECKING:
    import pandas as pd


class AlternativeNumbers(ResultPart):
    """Numbers of one candidate on one set of people, as observed.

    Attributes:
        accuracy: share decided rightly.
        auc, ks: of the scores, between people whose true label is favourable and others: the area under the ROC
            curve, and the largest difference of the shares above any score; None where all labels are the same.
        gap: what was to be reduced.
        ratio: lowest selection rate divided by the highest; None where no one is selected.
        selection_rates: share of favourable decisions by group.
        smd: by group, the mean score minus that of the largest group, in standard deviations of all scores; None where
            all scores are the same.
    """

    accuracy: float
    auc: float | None
    ks: float | None
    gap: float
    ratio: float | None
    selection_rates: dict[str, float]
    smd: dict[str, float | None]


class AlternativeCandidate(ResultPart):
    """One candidate of the search.

    Attributes:
        number: 0 is the given model. method: its family. recipe: what was done. settings: its numbers by name.
        asks: attributes that it must be told to decide, besides what the model reads.
        by_lot: whether some people are decided by a fixed lot.
        validation: cross-fitted, on the validation people; test: on people never looked at.
        loss, margin: accuracy lost there, and what is added to it to be sure.
        feasible: whether loss and margin are within what is allowed; on_frontier: whether no other is as accurate with
            as small a gap, and better in one, on the validation people.
        accuracy_change, gap_change: on the people kept aside, minus the given model's, with intervals that hold
            together; only of candidates on the frontier.
        verdict: of the change of the gap.
    """

    number: int
    method: str
    recipe: str
    settings: dict[str, float]
    asks: tuple[str, ...] = ()
    by_lot: bool = False
    validation: AlternativeNumbers
    test: AlternativeNumbers
    loss: float
    margin: float
    feasible: bool
    on_frontier: bool
    accuracy_change: Change | None = None
    gap_change: Change | None = None
    verdict: ChangeVerdict = "not comparable"


class AlternativesResult(Result):
    """What a search for less discriminatory alternatives declared, tried, found and chose.

    Attributes:
        model: the given model, candidate 0. data, test_data: what the people are called; other people to compare on.
        favourable: the label that people want.
        against: what was to be reduced; protected: attributes whose joint values are the groups; groups: these.
        decide_without: attributes that no candidate but the given model is told when it decides.
        families: what was searched; space: the declared search space in words; fits: models fitted, folds included.
        validation, test: how many people candidates were trained and validated on, and were kept aside.
        accuracy_loss: what may be lost; baseline: the candidate that losses are counted from.
        rule: how one is chosen. confidence: with which all intervals hold together; critical: the standard errors that
            this takes.
        candidates: every one, the given model first.
        picked: whom the rule takes on the validation people; chosen: the candidate that takes the given model's place,
            None if none is better; reason: why this one, or why none.
        least_loss: the smallest loss that could be allowed so that a candidate with a smaller gap than the given
            model's is feasible; None if there is no such candidate.
        refutation: what is proved of all rules of a family, where that was asked too (``evenhand mitigate --refute``).
        queries: individuals that the given model was asked about where it is a black box.
        interrupted: whether somebody stopped it, or time was up. notes: what else a reader must know.
    """

    chart = "mitigation.draw_alternatives"
    kind: Literal["alternatives"] = "alternatives"
    model: str
    data: str
    test_data: str | None = None
    favourable: str
    against: GapName
    protected: tuple[str, ...]
    groups: tuple[str, ...]
    decide_without: tuple[str, ...] = ()
    families: tuple[Family, ...]
    space: tuple[str, ...]
    fits: int = Field(ge=0)
    validation: int
    test: int
    accuracy_loss: float
    baseline: int
    rule: str
    confidence: float
    critical: float
    candidates: tuple[AlternativeCandidate, ...]
    picked: int
    chosen: int | None
    reason: str
    least_loss: float | None
    refutation: RefutationResult | None = None
    queries: int = 0
    interrupted: bool = False
    notes: tuple[str, ...] = ()

    @property
    def frontier(self) -> tuple[AlternativeCandidate, ...]:
        """The given model, and the candidates that no other beats on the validation people."""
        return tuple(one for one in self.candidates if one.on_frontier or one.number == 0)

    @property
    def compared(self) -> tuple[AlternativeCandidate, ...]:
        """The given model, and the candidates with intervals: the frontier, and whom the rule takes."""
        return tuple(one for one in self.candidates if one.gap_change is not None or one.number == 0)

    def document(self) -> Document:
        """Return the choice, the frontier and every candidate."""
        return self._write_document("evenhand.mitigation.alternatives.wording")

    def to_frame(self) -> pd.DataFrame:
        """Return one row per candidate."""
        import pandas as pd

        rows = []
        for one in self.candidates:
            row: dict[str, object] = {"number": one.number, "method": one.method, "recipe": one.recipe}
            for part in ("validation", "test"):
                numbers: AlternativeNumbers = getattr(one, part)
                row |= {f"{part}_{name}": getattr(numbers, name) for name in ("accuracy", "auc", "ks", "gap", "ratio")}
            for name in ("accuracy_change", "gap_change"):
                change: Change | None = getattr(one, name)
                ends = (None, None, None) if change is None else (change.value, change.low, change.high)
                row |= dict(zip((name, f"{name}_low", f"{name}_high"), ends, strict=True))
            row |= {"loss": one.loss, "margin": one.margin, "feasible": one.feasible, "on_frontier": one.on_frontier}
            rows.append(row | {"verdict": one.verdict, "chosen": one.number == self.chosen})
        return pd.DataFrame(rows)

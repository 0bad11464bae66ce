"""Result of a search for less discriminatory alternatives."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from evenhand.core.document import Document
from evenhand.core.result_part import ResultPart
from evenhand.mitigation.config import Family, GapName
from evenhand.mitigation.result import Change, ChangeVerdict, change_columns
from evenhand.mitigation.study import ComparedResult

if TYPE_CHECKING:
    import pandas as pd


class AlternativeNumbers(ResultPart):
    """Numbers of a candidate for one set of people.

    Attributes:
        accuracy: Accuracy.
        auc, ks: Area under the ROC curve, and Kolmogorov-Smirnov distance between the scores of people with favourable
            and unfavourable true labels. None if all labels are equal.
        gap: Gap to reduce.
        ratio: Lowest selection rate divided by the highest. None if no one is selected.
        selection_rates: Selection rate of each group.
        smd: Standardised mean difference of the scores of each group from the largest group. None if all scores are
            equal.
    """

    accuracy: float
    auc: float | None
    ks: float | None
    gap: float
    ratio: float | None
    selection_rates: dict[str, float]
    smd: dict[str, float | None]


class AlternativeCandidate(ResultPart):
    """Candidate of the search.

    Attributes:
        number: Number. 0 is the original model.
        method: Family.
        recipe: Description.
        settings: Parameters by name.
        asks: Attributes that it uses in addition to the inputs of the model.
        validation: Cross-fitted numbers for the validation set.
        test: Numbers for the test set.
        loss, margin: Loss of accuracy in the validation set and its safety margin.
        feasible: Whether the loss plus its margin is within the allowed loss.
        on_frontier: Whether no other candidate is better in accuracy and gap in the validation set.
        accuracy_change, gap_change: Changes from the original model in the test set, with simultaneous intervals. Only
            for candidates on the frontier and the chosen one.
        verdict: Verdict on the change of the gap.
    """

    number: int
    method: str
    recipe: str
    settings: dict[str, float]
    asks: tuple[str, ...] = ()
    validation: AlternativeNumbers
    test: AlternativeNumbers
    loss: float
    margin: float
    feasible: bool
    on_frontier: bool
    accuracy_change: Change | None = None
    gap_change: Change | None = None
    verdict: ChangeVerdict = "not comparable"


class AlternativesResult(ComparedResult):
    """Record of a search for less discriminatory alternatives.

    Attributes:
        against: Gap to reduce.
        protected: Attributes whose joint values are the groups.
        groups: Groups.
        decide_without: Attributes that no candidate except the original model uses.
        families: Searched families.
        space: Description of the declared search space.
        fits: Number of fitted models, folds included.
        validation, test: Sizes of the validation set (including training people) and of the test set.
        baseline: Candidate from which losses are counted.
        rule: Rule by which the candidate was chosen.
        critical: Number of standard errors of all intervals.
        candidates: All candidates, starting with the original model.
        picked: Candidate chosen on the validation set.
        chosen: Candidate that replaces the original model. None if none is better.
        reason: Reason for the choice.
        least_loss: Smallest allowed loss at which a candidate with a smaller gap would be feasible. None if there is no
            such candidate.
    """

    chart = "mitigation.draw_alternatives"
    kind: Literal["alternatives"] = "alternatives"
    against: GapName
    protected: tuple[str, ...]
    groups: tuple[str, ...]
    decide_without: tuple[str, ...] = ()
    families: tuple[Family, ...]
    space: tuple[str, ...]
    fits: int = Field(ge=0)
    validation: int
    test: int
    baseline: int
    rule: str
    critical: float
    candidates: tuple[AlternativeCandidate, ...]
    picked: int
    chosen: int | None
    reason: str
    least_loss: float | None

    @property
    def frontier(self) -> tuple[AlternativeCandidate, ...]:
        """Original model and candidates on the frontier of the validation set."""
        return tuple(candidate for candidate in self.candidates if candidate.on_frontier or candidate.number == 0)

    @property
    def compared(self) -> tuple[AlternativeCandidate, ...]:
        """Original model and candidates with intervals."""
        return tuple(
            candidate for candidate in self.candidates if candidate.gap_change is not None or candidate.number == 0
        )

    def document(self) -> Document:
        """Build a document with the choice, the frontier and all candidates."""
        return self._write_document("evenhand.mitigation.alternatives.wording")

    def to_frame(self) -> pd.DataFrame:
        """Convert to a data frame, one row per candidate."""
        import pandas as pd

        rows = []
        for candidate in self.candidates:
            row: dict[str, object] = candidate.model_dump(include={"number", "method", "recipe"})
            for part, numbers in (("validation", candidate.validation), ("test", candidate.test)):
                row |= {f"{part}_{name}": getattr(numbers, name) for name in ("accuracy", "auc", "ks", "gap", "ratio")}
            row |= change_columns(candidate.accuracy_change, "accuracy_change", "accuracy_change_")
            row |= change_columns(candidate.gap_change, "gap_change", "gap_change_")
            row |= candidate.model_dump(include={"loss", "margin", "feasible", "on_frontier", "verdict"})
            rows.append(row | {"chosen": candidate.number == self.chosen})
        return pd.DataFrame(rows)

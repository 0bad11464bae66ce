"""Result of a mitigation: numbers before and after on the test set."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

from evenhand.core.document import Document
from evenhand.core.result_part import ResultPart
from evenhand.mitigation.candidate import Trial
from evenhand.mitigation.study import ComparedResult
from evenhand.stats.quantity import Quantity, quantity_value

if TYPE_CHECKING:
    import pandas as pd

ChangeVerdict: TypeAlias = Literal[
    "better",
    "worse",
    "within noise",
    "more is proved",
    "less is proved",
    "as much is proved",
    "open",
    "not comparable",
]
"""``better`` and ``worse``: the adjusted interval of the change excludes 0 (for proofs: the proved share of one model
excludes all possible values of the other). ``within noise``: it does not. ``more``, ``less`` and ``as much is
proved``: the proved shares, while the true shares may be equal or reversed. ``open``: the undecided share could reverse
the change. ``not comparable``: a number is unknown or does not concern the same people."""

Direction: TypeAlias = Literal["up", "down"]
"""Direction in which a number improves."""

ComparisonPart: TypeAlias = Literal["performance", "asked", "groups", "individuals", "subgroups", "proof"]
"""Topic of a number. ``asked`` are the metrics to reduce. The others, except ``performance``, show regressions."""

PART_TITLES: dict[ComparisonPart, str] = {
    "performance": "Performance",
    "asked": "Metrics to reduce",
    "groups": "Gaps between groups",
    "individuals": "Counterfactual flips",
    "subgroups": "Other subgroups",
    "proof": "Proved",
}
"""Titles of the topics, in order."""


class Change(ResultPart):
    """Difference between after and before, for the same people.

    Attributes:
        value: Difference.
        low, high: Interval at the confidence level.
        confidence: Confidence level of this interval, adjusted so that all intervals hold jointly (Bonferroni).
        p: Unadjusted p-value of a test of no change, if there is one.
        n: Number of people.
        method: Name of the interval.
    """

    value: float
    low: float
    high: float
    confidence: float
    p: float | None = None
    n: int
    method: str

    def verdict(self, better_if: Direction) -> ChangeVerdict:
        """Return better or worse if the interval excludes 0."""
        if self.low <= 0 <= self.high:
            return "within noise"
        return "better" if (self.low > 0) == (better_if == "up") else "worse"

    @property
    def points(self) -> str:
        """Value in percentage points, such as ``-1.2 (-3.0 to +0.6)``."""
        text = f"{100 * self.value:+.1f} ({100 * self.low:+.1f} to {100 * self.high:+.1f})"
        return text.replace("-", "\N{MINUS SIGN}")


def change_columns(change: Change | None, name: str = "change", prefix: str = "") -> dict[str, float | None]:
    """Convert a change to columns of a data frame: its value and the ends of its interval."""
    ends = (None, None, None) if change is None else (change.value, change.low, change.high)
    return dict(zip((name, f"{prefix}low", f"{prefix}high"), ends, strict=True))


class ComparisonLine(ResultPart):
    """Number before and after.

    Attributes:
        part: Topic.
        name: Name of the number: ``accuracy``, ``auc``, a gap of ``groups.GAP_NAMES``, ``flip_rate``,
            ``subgroup_gap``, ``certified``, ``falsified``, ``undecided``.
        of: Protected attributes, or description of the subgroup. Empty for all people.
        words: Description.
        before, after: Number of the original and of the new model.
        change: Difference. None for proofs and unknown numbers.
        better_if: Direction of improvement.
        verdict: Verdict on the change.
        note: Note.
    """

    part: ComparisonPart
    name: str
    of: str
    words: str
    before: Quantity
    after: Quantity
    change: Change | None = None
    better_if: Direction = "down"
    verdict: ChangeVerdict = "not comparable"
    note: str = ""

    @property
    def claims_change(self) -> bool:
        """Whether the verdict is better or worse."""
        return self.verdict in ("better", "worse")


class CandidateResult(ResultPart):
    """Comparison of one new model.

    Attributes:
        method: Name of the method.
        words: Description of the model.
        control: Whether it is only a control.
        lines: Numbers: performance first, then the metrics, then all others.
        trials: Trials on the validation set.
        rejected: Reason why the original model is kept. Empty if the new model is better, or is the control.
        interrupted: Whether an interrupt or the time limit ended the method or the comparison.
        notes: Notes.
    """

    method: str
    words: str
    control: bool = False
    rejected: str = ""
    lines: tuple[ComparisonLine, ...]
    trials: tuple[Trial, ...] = ()
    interrupted: bool = False
    notes: tuple[str, ...] = ()

    @property
    def regressions(self) -> list[ComparisonLine]:
        """Numbers that got worse, other than performance and the metrics."""
        return [line for line in self.lines if line.verdict == "worse" and line.part not in ("performance", "asked")]

    def line(self, name: str, of: str = "") -> ComparisonLine | None:
        """Return the first number with a name."""
        return next((line for line in self.lines if line.name == name and line.of == of), None)


class SplitSizes(ResultPart):
    """Sizes of the training, validation and test sets."""

    train: int
    validation: int
    test: int


class MitigationResult(ComparedResult):
    """Comparison of mitigated models with the original one on a test set.

    Attributes:
        people: Sizes of the three sets.
        harms: Descriptions of the metrics, in the order of ``Trial.harms``.
        sources: Sources of the findings.
        candidates: New models. The original model is kept unless the first is better.
        chosen: Method whose model is written. None if the original model is kept.
    """

    chart = "mitigation.plot_mitigation"
    kind: Literal["mitigation"] = "mitigation"
    people: SplitSizes
    harms: tuple[str, ...]
    sources: tuple[str, ...] = ()
    candidates: tuple[CandidateResult, ...]
    chosen: str | None

    def document(self) -> Document:
        """Build a document with the first candidate before and after, and then all candidates."""
        return self._write_document("evenhand.mitigation.wording")

    def to_frame(self) -> pd.DataFrame:
        """Convert to a data frame, one row per candidate and number."""
        import pandas as pd

        rows = [
            {
                "method": candidate.method,
                **line.model_dump(include={"part", "name", "of"}),
                "before": quantity_value(line.before),
                "after": quantity_value(line.after),
                **change_columns(line.change),
                "p": None if line.change is None else line.change.p,
                **line.model_dump(include={"better_if", "verdict"}),
            }
            for candidate in self.candidates
            for line in candidate.lines
        ]
        return pd.DataFrame(rows)

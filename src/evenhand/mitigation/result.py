"""What a mitigation changed: every number before and after on people kept aside, and what can be said of the change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

from evenhand.core.document import Document
from evenhand.core.result import Result
from evenhand.core.result_part import ResultPart
from evenhand.mitigation.candidate import Trial
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
"""``better`` and ``worse``: the interval of the change, adjusted over all lines of the candidate, excludes 0 (of
proofs: what is proved of one model excludes all that could be true of the other). ``within noise``: it does not.
``more``, ``less`` and ``as much is proved``: of proofs, whose true shares may be equal or the other way round.
``open``: what is undecided could turn it. ``not comparable``: there is no such number on one side, or not of the same
people."""

ComparisonPart: TypeAlias = Literal["performance", "asked", "groups", "individuals", "subgroups", "proof"]
"""What a line is about: ``asked`` are the findings that were to be mended, the others but ``performance`` are watched
so that harm which moved is seen."""

PART_TITLES: dict[ComparisonPart, str] = {
    "performance": "Performance",
    "asked": "What was to be reduced",
    "groups": "Gaps between groups",
    "individuals": "Decisions that flip",
    "subgroups": "Other subgroups",
    "proof": "Proved",
}
"""Parts of a comparison, in the order in which they are read."""


class Change(ResultPart):
    """After minus before, on the same people.

    Attributes:
        value: the change.
        low, high: its interval, with ``confidence``.
        confidence: of this interval alone: so high that all intervals of a candidate hold together with the result's
            (Bonferroni).
        p: of a test of no change, where there is one, not adjusted.
        n: on how many people.
        method: the interval's name.
    """

    value: float
    low: float
    high: float
    confidence: float
    p: float | None = None
    n: int
    method: str


PUBLISHED = ("flip_rate", "population_flip_rate")
"""Lines about flips as published: only the protected attribute changes."""


class ComparisonLine(ResultPart):
    """One number before and after.

    Attributes:
        part: what it is about.
        name: which number: ``accuracy``, ``auc``, a gap of ``groups.GAP_NAMES``, ``flip_rate`` (as
            published), where the schema has rules ``counterfactual_flip_rate`` (between plausible counterparts), both
            with ``population_`` before, ``subgroup_gap``, ``widest_gap``, ``certified``, ``falsified``,
            ``undecided``.
        of: the protected attributes, or the subgroup in words; empty for everybody.
        words: the line for a reader.
        before, after: the number under the given and under the new model.
        change: after minus before; None of proofs, and where a side is unknown.
        better_if: which way is better.
        verdict: what can be said of the change.
        note: what else a reader must know of this line.
    """

    part: ComparisonPart
    name: str
    of: str
    words: str
    before: Quantity
    after: Quantity
    change: Change | None
    better_if: Literal["up", "down"]
    verdict: ChangeVerdict
    note: str = ""

    @property
    def claims_change(self) -> bool:
        """Whether anything is said to be better or worse."""
        return self.verdict in ("better", "worse")


class Regression(ResultPart):
    """Harm that was not asked about and got worse.

    Attributes:
        where: ``subgroup`` or ``attribute``.
        words: whose harm, and by how much.
        line: position among the candidate's lines.
    """

    where: Literal["subgroup", "attribute"]
    words: str
    line: int


class CandidateResult(ResultPart):
    """One new model beside the given one.

    Attributes:
        method: its name.
        words: what was done.
        control: whether it is only there to compare with.
        lines: what was measured, performance first, then what was asked about, then what was watched.
        moved: regressions for other groups.
        trials: what was tried on the validation people.
        rejected: why the given model is kept in its place; empty: it is better, or the control.
        interrupted: whether somebody stopped it, or time was up.
        notes: what else a reader must know.
    """

    method: str
    words: str
    control: bool = False
    rejected: str = ""
    lines: tuple[ComparisonLine, ...]
    moved: tuple[Regression, ...] = ()
    trials: tuple[Trial, ...] = ()
    interrupted: bool = False
    notes: tuple[str, ...] = ()

    def line(self, name: str, of: str = "") -> ComparisonLine | None:
        """Return the first line of that name."""
        return next((line for line in self.lines if line.name == name and line.of == of), None)


class SplitSizes(ResultPart):
    """Sizes of the training, validation and test sets."""

    train: int
    validation: int
    test: int


class MitigationResult(Result):
    """What mitigations changed, on people whom no method looked at.

    Attributes:
        model: the given model.
        data: what the people are called.
        test_data: the name of the test set where it is another data set; None: some of ``data``, kept aside.
        favourable: the label that people want.
        people: how many are in each part.
        harms: what was to be mended, in words; ``Trial.harms`` are in this order.
        sources: where it was found.
        confidence: with which all intervals of a candidate hold together.
        accuracy_loss: accuracy that was allowed to be lost on the validation people.
        candidates: the new models; the given one is a candidate too, and is kept unless the first is better.
        chosen: the method whose model is written; None: nothing better was found, and the given model is kept.
        queries: individuals that the given model was asked about, each once where it is a black box; 0 for a model that
            is read from its file.
        interrupted: whether somebody stopped it, or time was up.
        notes: what else a reader must know.
    """

    chart = "mitigation.plot_mitigation"
    kind: Literal["mitigation"] = "mitigation"
    model: str
    data: str
    test_data: str | None = None
    favourable: str
    people: SplitSizes
    harms: tuple[str, ...]
    sources: tuple[str, ...] = ()
    confidence: float
    accuracy_loss: float
    candidates: tuple[CandidateResult, ...]
    chosen: str | None
    queries: int = 0
    interrupted: bool = False
    notes: tuple[str, ...] = ()

    def document(self) -> Document:
        """Return the new model before and after, then all candidates."""
        return self._write_document("evenhand.mitigation.wording")

    def to_frame(self) -> pd.DataFrame:
        """Return one row per candidate and line."""
        import pandas as pd

        rows = [
            {
                "method": candidate.method,
                "part": line.part,
                "name": line.name,
                "of": line.of,
                "before": quantity_value(line.before),
                "after": quantity_value(line.after),
                "change": None if line.change is None else line.change.value,
                "low": None if line.change is None else line.change.low,
                "high": None if line.change is None else line.change.high,
                "p": None if line.change is None else line.change.p,
                "better_if": line.better_if,
                "verdict": line.verdict,
            }
            for candidate in self.candidates
            for line in candidate.lines
        ]
        columns = [
            "method",
            "part",
            "name",
            "of",
            "before",
            "after",
            "change",
            "low",
            "high",
            "p",
            "better_if",
            "verdict",
        ]
        return pd.DataFrame(rows, columns=columns)

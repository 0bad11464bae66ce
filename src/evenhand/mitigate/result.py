"""What a mitigation changed: every number before and after on people kept aside, and what can be said of the change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict

from evenhand.mitigate.candidate import Trial
from evenhand.result import Result
from evenhand.stats import Quantity, Unknown, number

if TYPE_CHECKING:
    import altair as alt
    import pandas as pd

Verdict: TypeAlias = Literal[
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
people, or the given model knows the true labels of these by heart."""

Part: TypeAlias = Literal["performance", "asked", "groups", "individuals", "subgroups", "proof"]
"""What a line is about: ``asked`` are the findings that were to be mended, the others but ``performance`` are watched
so that harm which moved is seen."""


class Change(BaseModel):
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

    model_config = ConfigDict(frozen=True, extra="forbid")

    value: float
    low: float
    high: float
    confidence: float
    p: float | None = None
    n: int
    method: str


class Line(BaseModel):
    """One number before and after.

    Attributes:
        part: what it is about.
        name: which number: ``accuracy``, ``auc``, a gap of ``groups.GAP_NAMES``, ``violation_rate``,
            ``population_violation_rate``, ``subgroup_gap``, ``widest_gap``, ``certified``, ``falsified``,
            ``undecided``.
        of: the protected attributes, or the subgroup in words; empty for everybody.
        words: the line for a reader.
        before, after: the number under the given and under the new model.
        change: after minus before; None of proofs, and where a side is unknown.
        better_if: which way is better.
        verdict: what can be said of the change.
        note: what else a reader must know of this line.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    part: Part
    name: str
    of: str
    words: str
    before: Quantity
    after: Quantity
    change: Change | None
    better_if: Literal["up", "down"]
    verdict: Verdict
    note: str = ""

    @property
    def claims(self) -> bool:
        """Whether anything is said to be better or worse."""
        return self.verdict in ("better", "worse")


class Moved(BaseModel):
    """Harm that was not asked about and got worse.

    Attributes:
        where: ``subgroup`` or ``attribute``.
        words: whose harm, and by how much.
        line: position among the candidate's lines.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    where: Literal["subgroup", "attribute"]
    words: str
    line: int


class CandidateResult(BaseModel):
    """One new model beside the given one.

    Attributes:
        method: its name.
        words: what was done.
        control: whether it is only there to compare with.
        lines: what was measured, performance first, then what was asked about, then what was watched.
        moved: harm that moved elsewhere.
        trials: what was tried on the validation people.
        interrupted: whether somebody stopped it, or time was up.
        notes: what else a reader must know.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    method: str
    words: str
    control: bool = False
    lines: tuple[Line, ...]
    moved: tuple[Moved, ...] = ()
    trials: tuple[Trial, ...] = ()
    interrupted: bool = False
    notes: tuple[str, ...] = ()

    def line(self, name: str, of: str = "") -> Line | None:
        """The first line of that name."""
        return next((line for line in self.lines if line.name == name and line.of == of), None)


class Parts(BaseModel):
    """People learnt from, chosen on, and compared on."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    train: int
    validation: int
    test: int


class MitigationResult(Result):
    """What mitigations changed, on people whom no method looked at.

    Attributes:
        model: the given model.
        data: what the people are called.
        compared_on: what other people are called, where such are compared on; None: some of ``data``, kept aside.
        favourable: the label that people want.
        people: how many are in each part.
        harms: what was to be mended, in words; ``Trial.harms`` are in this order.
        sources: where it was found.
        confidence: with which all intervals of a candidate hold together.
        accuracy_loss: accuracy that was allowed to be lost on the validation people.
        candidates: the new models; the first is the one that is written.
        interrupted: whether somebody stopped it, or time was up.
        notes: what else a reader must know.
    """

    kind: Literal["mitigation"] = "mitigation"
    model: str
    data: str
    compared_on: str | None = None
    favourable: str
    people: Parts
    harms: tuple[str, ...]
    sources: tuple[str, ...] = ()
    confidence: float
    accuracy_loss: float
    candidates: tuple[CandidateResult, ...]
    interrupted: bool = False
    notes: tuple[str, ...] = ()

    def summary(self) -> str:
        """Per candidate: performance, what was asked about, and what got worse."""
        whom = f"people of {self.compared_on}" if self.compared_on is not None else "people kept aside"
        lines = [f"{self.model} before and after, on {self.people.test:,} {whom}"]
        for candidate in self.candidates:
            lines.append(f"{candidate.method}: {candidate.words}{' (control)' if candidate.control else ''}")
            for line in candidate.lines:
                if line.part in ("performance", "asked") or line.verdict == "worse":
                    before, after = (_short(quantity) for quantity in (line.before, line.after))
                    lines.append(f"  {line.words[:58]:<58} {before:>8} -> {after:>8}  {line.verdict}")
            lines += [f"  MOVED: {moved.words}" for moved in candidate.moved]
        return "\n".join(lines)

    def to_frame(self) -> pd.DataFrame:
        """One row per candidate and line."""
        import pandas as pd

        rows = [
            {
                "method": candidate.method,
                "part": line.part,
                "name": line.name,
                "of": line.of,
                "before": number(line.before),
                "after": number(line.after),
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
        columns = ["method", "part", "name", "of", "before", "after", "change", "low", "high", "p", "better_if",
                   "verdict"]  # fmt: skip
        return pd.DataFrame(rows, columns=columns)

    def plot(self) -> alt.TopLevelMixin:
        """Before and after of every line, a part of the picture per candidate."""
        from evenhand.mitigate.plot import plot

        return plot(self)


def _short(quantity: Quantity) -> str:
    return "unknown" if isinstance(quantity, Unknown) else f"{quantity.value:.4f}"

"""The result of a refutation, which is also the file that is checked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from evenhand.core.document import Document
from evenhand.core.result import Result
from evenhand.core.result_part import ResultPart
from evenhand.mitigation.refutation.config import RuleFamily

if TYPE_CHECKING:
    import pandas as pd


class CellCounts(ResultPart):
    """People who have the same features.

    Attributes:
        features: 1 for each feature that holds and 0 for others, in order.
        counts: by group, how many have another true label than the favourable one, and how many have that.
    """

    features: str
    counts: tuple[tuple[int, int], ...]


class WitnessRule(ResultPart):
    """The rule with the least gap that was found, counted on the people.

    Attributes:
        words: what it does. weights, threshold: of a rule with weights, which accepts whose weights add up to the
            threshold.
        tree: of a tree, in its questions' order: ``feature ? (holds) : (does not)``, with accept and refuse.
        decisions: by cell, with which probability it accepts: 0 or 1 but for the family ``any``.
        right: people decided rightly; expected, where some are decided by lot. accuracy: the same as a share.
        gap: largest difference of two groups' selection rates. selection_rates: by group.
    """

    words: str
    weights: tuple[float, ...] | None = None
    threshold: float | None = None
    tree: str | None = None
    decisions: tuple[float, ...]
    right: float
    accuracy: float
    gap: float
    selection_rates: dict[str, float]


class GivenStanding(ResultPart):
    """Accuracy and gap of the given model on the same people."""

    accuracy: float
    gap: float


class FloorBound(ResultPart):
    """What is proved of every decision on the features at one accuracy floor.

    Attributes:
        accuracy: the floor. bound: no decisions that reach it have a smaller gap. proof: the multipliers.
    """

    accuracy: float
    bound: float
    proof: str


class RefutationProof(ResultPart):
    """What proves the bound, for a check in exact arithmetic.

    Attributes:
        cuts: inequalities between decisions, each ``cell:factor`` for its cells.
        parts: the proof, each part before its halves: ``weight J AT`` is split into weights up to AT and above,
            ``cell C`` into refused and accepted; ``bound FLOOR; PAIRS; CUT:VALUE ...`` has its multipliers, in parts of
            10^12. No parts: all trees were looked at, or no decisions reach the floor.
        anything: the same for any decisions by the features.
    """

    cuts: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()
    anything: str = ""


class RefutationResult(Result):
    """The least gap of selection rates at an accuracy floor among all rules of a family, or a proved bound of it.

    Attributes:
        model: the given model, if there is one. data: what the people are called. target, favourable: what is decided.
        family, depth: the rules that the answer is about; questions of a tree. points: of a scorecard, at most.
        features, groups: name -> condition.
        people: Number of people. accuracy: Accuracy floor. need: Correct decisions that reach it: the smallest count
            with ``need / people >= accuracy``.
        cells: people with the same features.
        verdict: ``exact``: the witness has the least gap there is; ``bounded``: no rule has less than ``bound``;
            ``infeasible``: no rule of the family reaches the floor, which is proved; ``open``: none was found, and one
            may exist, with a gap of at least ``bound``.
        bound: no rule of the family that reaches the floor has a smaller gap on these people; None if infeasible.
        any_bound: the same of any decisions by the features, by lot too; None if not even these reach the floor.
        most_accurate: the largest accuracy that any decisions by the features reach.
        witness: the rule found. given: how the given model stands.
        curve: what is proved of any decisions at other floors.
        proof: what is checked.
        parts: into how many the search was split. stopped: whether a limit was reached. interrupted: whether somebody
            stopped it.
        notes: what else a reader must know.
    """

    chart = "refutation.draw_refutation"
    kind: Literal["refutation"] = "refutation"
    model: str | None = None
    data: str
    target: str
    favourable: str
    protected: tuple[str, ...] = ()
    family: RuleFamily
    depth: int | None = None
    points: int | None = None
    features: dict[str, str]
    groups: dict[str, str]
    people: int = Field(ge=1)
    accuracy: float
    need: int
    cells: tuple[CellCounts, ...]
    verdict: Literal["exact", "bounded", "infeasible", "open"]
    bound: float | None
    any_bound: float | None
    most_accurate: float
    witness: WitnessRule | None
    given: GivenStanding | None = None
    curve: tuple[FloorBound, ...] = ()
    proof: RefutationProof
    parts: int = 0
    stopped: bool = False
    interrupted: bool = False
    notes: tuple[str, ...] = ()

    def document(self) -> Document:
        """Return the statement that is proved, the witness, and what it rests on."""
        return self._write_document("evenhand.mitigation.refutation.wording")

    def to_frame(self) -> pd.DataFrame:
        """Return one row per cell: its features, its people, and how the witness decides."""
        import pandas as pd

        decisions = self.witness.decisions if self.witness is not None else (None,) * len(self.cells)
        rows = []
        for cell, decision in zip(self.cells, decisions, strict=True):
            row: dict[str, object] = {
                name: held == "1" for name, held in zip(self.features, cell.features, strict=True)
            }
            for group, (against, favourable) in zip(self.groups, cell.counts, strict=True):
                row |= {f"{group}: people": against + favourable, f"{group}: favourable": favourable}
            rows.append(row | {"accepted": decision})
        return pd.DataFrame(rows)

"""Result of a refutation, which is also the certificate file."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from evenhand.core.document import Document
from evenhand.core.result import Result
from evenhand.core.result_part import ResultPart
from evenhand.core.typing import Floats
from evenhand.mitigation.config import RuleFamily

if TYPE_CHECKING:
    import pandas as pd


class CellCounts(ResultPart):
    """People with equal features.

    Attributes:
        features: 1 for each feature that holds, otherwise 0, in order.
        counts: For each group, the numbers of unfavourable and favourable true labels.
    """

    features: str
    counts: tuple[tuple[int, int], ...]


class WitnessRule(ResultPart):
    """Rule with the smallest gap found, evaluated on the people.

    Attributes:
        words: Description.
        weights, threshold: Weights of the features, and minimum sum of an accepted person.
        tree: Tree as text: ``feature ? (if it holds) : (otherwise)``, with accept and refuse.
        decisions: Probability of acceptance in each cell: 0 or 1 except in the family ``any``.
        right: Number of correct decisions, expected if decisions are random.
        accuracy: Accuracy.
        gap: Largest difference between the selection rates of two groups.
        selection_rates: Selection rate of each group.
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
    """Accuracy and gap of the original model for the same people."""

    accuracy: float
    gap: float


class RefutationProof(ResultPart):
    """Proof of the bound, for a check in exact arithmetic.

    Attributes:
        cuts: Inequalities between decisions, each as ``cell:factor`` for its cells.
        parts: Parts of the proof; each precedes its halves. ``weight J 0`` is split into weights up to 0 and from 0,
            ``cell C`` into refused and accepted. ``bound FLOOR; PAIRS; CUT:VALUE ...`` has its multipliers in units of
            10^-12. Without parts, all trees were enumerated, or no decisions reach the floor.
        anything: Proof for all decisions based on the features.
    """

    cuts: tuple[str, ...] = ()
    parts: tuple[str, ...] = ()
    anything: str = ""


NO_RULE = 2.0
"""Bound of a family or part that contains no rule, larger than any gap."""


@dataclass(frozen=True, eq=False)
class FamilyBound:
    """Lower bound of the gap of a family, and its best rule.

    Attributes:
        bound: Lower bound of the gap. Above 1 if no rule reaches the floor.
        decisions: Probability of acceptance by the best rule in each cell, or None.
        rule: Fields of ``WitnessRule`` that describe it.
        proof: Proof of the bound.
        parts, stopped, interrupted: As in ``RefutationResult``.
    """

    bound: float = NO_RULE
    decisions: Floats | None = None
    rule: dict[str, Any] = field(default_factory=dict)
    proof: RefutationProof = field(default_factory=RefutationProof)
    parts: int = 0
    stopped: bool = False
    interrupted: bool = False


class RefutationResult(Result):
    """Smallest gap in selection rates at an accuracy floor in a family of rules, or a proved bound.

    Attributes:
        model: Name of the original model, if there is one.
        data: Name of the data.
        target, favourable: Target and favourable label.
        family, depth: Family of rules, and depth of trees.
        features, groups: Conditions by name.
        people: Number of people.
        accuracy: Accuracy floor.
        need: Number of correct decisions at the floor: the smallest count with ``need / people >= accuracy``.
        cells: People by features.
        verdict: ``exact``: the witness has the smallest possible gap; ``bounded``: no rule has a gap below ``bound``;
            ``infeasible``: no rule of the family reaches the floor, which is proved; ``open``: no rule was found, but
            one may exist, with a gap of at least ``bound``.
        bound: Lower bound of the gap of rules that reach the floor, for these people. None if infeasible.
        any_bound: Lower bound for all decisions based on the features, including randomised ones. None if these do not
            reach the floor.
        most_accurate: Largest accuracy of any decisions based on the features.
        witness: Best rule found.
        given: Accuracy and gap of the original model.
        proof: Proof.
        parts: Number of parts of the search.
        stopped: Whether a limit was reached.
        interrupted: Whether an interrupt ended the search.
        notes: Notes.
    """

    kind: Literal["refutation"] = "refutation"
    model: str | None = None
    data: str
    target: str
    favourable: str
    protected: tuple[str, ...] = ()
    family: RuleFamily
    depth: int | None = None
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
    proof: RefutationProof
    parts: int = 0
    stopped: bool = False
    interrupted: bool = False
    notes: tuple[str, ...] = ()

    def document(self) -> Document:
        """Build a document with the proved statement, the witness and the proof."""
        return self._write_document("evenhand.mitigation.refutation.wording")

    def to_frame(self) -> pd.DataFrame:
        """Convert to a data frame, one row per cell: its features, its people and the decision of the witness."""
        import pandas as pd

        decisions = self.witness.decisions if self.witness is not None else (None,) * len(self.cells)
        rows = []
        for cell, decision in zip(self.cells, decisions, strict=True):
            row: dict[str, object] = {name: bit == "1" for name, bit in zip(self.features, cell.features, strict=True)}
            for group, (unfavourable, favourable) in zip(self.groups, cell.counts, strict=True):
                row |= {f"{group}: people": unfavourable + favourable, f"{group}: favourable": favourable}
            rows.append(row | {"accepted": decision})
        return pd.DataFrame(rows)

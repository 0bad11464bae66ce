"""The assessment of recorded sequences as a result: verdicts, longest wait, frequencies, coverage."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from evenhand.core.document import Document
from evenhand.core.result import Result
from evenhand.core.result_part import ResultPart
from evenhand.core.text import format_percent
from evenhand.genai.assessment.prompts import PromptBias
from evenhand.stats.quantity import Observed, Quantity

if TYPE_CHECKING:
    import pandas as pd

VerdictValue = Literal["holds", "violated", "unknown"]
VerdictKind = Literal["eventual", "repeated", "paired", "k-way"]
NAMED_COMBINATIONS = 8
"""Deadlines of values that are named in a sentence."""


class ValueFinding(ResultPart):
    """How one value appears among the recognised items, which are numbered from 1.

    Attributes:
        value: the value; of several groups, their values joined by " + ".
        appearances: numbers of the items that show it.
        longest_wait: the most items from one appearance up to the next, from the start up to the first, or from the
            last to one past the end.
        smallest_beta: smallest with which the sequence is fair to this value; None if it never appears, or if the
            sequence is not longer than what it would take.
        beta: what was asked for.
        missed: numbers of the items at which it was due and did not come: while it stays away, one every beta items.
        frequency: its share of the recognised items.
    """

    value: str
    appearances: tuple[int, ...]
    longest_wait: int
    smallest_beta: int | None
    beta: int | None = None
    missed: tuple[int, ...] = ()
    frequency: Quantity

    @property
    def overdue(self) -> int | None:
        """The item since which it is overdue at the end of the sequence; None if it is not."""
        last = max(self.appearances, default=0)
        return next((number for number in self.missed if number > last), None)


class GroupFinding(ResultPart):
    """How the values of one group, or of several taken together, appear.

    Attributes:
        groups: the group or groups.
        items: numbers, from 1, of the recognised items in the sequence.
        unrecognised: how many items are not.
        outside: labels that are not among the values, with how many items show them; these do not count.
        fixed: how many items have no label because their prompts fixed the value.
        biased: how many items are left out because their prompts are not neutral.
        values: one finding per value.
        smallest_beta: the smallest equal beta with which the sequence is fair to all values; None if there is none.
        difference: the largest difference between the frequencies of two values.
        bound: what equal beta proves of that difference for an endless sequence that stays fair with it: the beta asked
            for if it is equal and holds, else the longest wait.
        bound_here: what it proves of the recorded items, which are finitely many.
    """

    groups: tuple[str, ...]
    items: tuple[int, ...]
    unrecognised: int
    outside: dict[str, int] = Field(default_factory=dict)
    fixed: int = 0
    biased: int = 0
    values: tuple[ValueFinding, ...]
    smallest_beta: int | None
    difference: Quantity
    bound: Quantity
    bound_here: Quantity

    @property
    def name(self) -> str:
        return " + ".join(self.groups)


class SpecificationVerdict(ResultPart):
    """Whether a specification holds of the recorded items.

    Attributes:
        name: of the specification in the configuration, if it stands in one.
        groups: of which groups.
        kind: eventual and repeated are about one group, paired about two, k-way about more.
        beta: within how many items each value must come, and come again; None: it only has to appear.
        values: those that beta is about, in its order.
        verdict: unknown: nothing was missed, but the sequence is not longer than every beta, so it shows nothing; or no
            item is recognised.
        at_fault: values that never appeared, or missed a deadline.
        why: one sentence.
    """

    name: str | None = None
    groups: tuple[str, ...]
    kind: VerdictKind
    beta: tuple[int, ...] | None
    values: tuple[str, ...] = ()
    verdict: VerdictValue
    at_fault: tuple[str, ...]
    why: str

    @property
    def specification(self) -> str:
        """What was asked, in words."""
        if self.beta is None:
            return f"every value of {' + '.join(self.groups)} appears"
        about = " + ".join(self.groups)
        if len(set(self.beta)) == 1:
            return f"every value of {about} appears within {self.beta[0]} items, again and again"
        each = [f"{value} within {beta}" for value, beta in zip(self.values, self.beta, strict=False)]
        more = f" and {len(self.beta) - NAMED_COMBINATIONS:,} more" if len(self.beta) > NAMED_COMBINATIONS else ""
        return f"every value of {about} appears, again and again: {', '.join(each[:NAMED_COMBINATIONS])}{more} items"


class MissingCombination(ResultPart):
    """A combination that no item shows."""

    groups: tuple[str, ...]
    values: tuple[str, ...]


class CoverageFinding(ResultPart):
    """Combinations of values seen.

    Attributes:
        ways: groups in a combination.
        total: combinations there are.
        share: of them, seen in the whole sequence.
        curve: the share seen among the first 1, 2, ... items.
        missing: combinations that no item shows.
    """

    ways: int
    total: int
    share: float
    curve: tuple[float, ...]
    missing: tuple[MissingCombination, ...]


class SequenceFinding(ResultPart):
    """One sequence: its items, its groups, verdicts, coverage (None for a single group), pictures if there are any.

    Attributes:
        name: of the sequence, with its condition if they are told apart.
        condition: the name of the condition in the configuration, if there is one.
        prompts: neutral: items whose prompt fixes the value of a group do not count for it (inherent fairness).
        items: how many there are.
        groups: every group, and those that are judged together.
        verdicts: one for every specification.
        coverage: of combinations of groups; None for a single group.
        files: of pictures and texts, if there are any.
    """

    name: str
    condition: str | None = None
    prompts: Literal["all", "neutral"] = "all"
    items: int
    groups: tuple[GroupFinding, ...]
    verdicts: tuple[SpecificationVerdict, ...]
    coverage: CoverageFinding | None
    files: tuple[str | None, ...] = ()


class GenaiAssessment(Result):
    """What recorded sequences of a generator show about conditional fairness.

    Attributes:
        source: where they come from.
        conditions: column -> value; what the items were asked for.
        confidence: of every interval.
        sequences: one finding per sequence.
        prompts: which prompts are biased; None if not requested.
        interrupted: whether somebody stopped the making of items.
    """

    chart = "assessment.plot_assessment"
    kind: Literal["genai-assessment"] = "genai-assessment"
    source: str
    conditions: dict[str, str]
    confidence: float
    sequences: Annotated[tuple[SequenceFinding, ...], Field(min_length=1)]
    prompts: PromptBias | None = None
    interrupted: bool = False

    def condition(self) -> str:
        """Return what the items were asked for, in words."""
        if set(self.conditions) == {"condition"}:
            return self.conditions["condition"]
        return " and ".join(f"{name} = {value}" for name, value in self.conditions.items()) or "all items"

    def document(self, folder: str | None = None) -> Document:
        """Return the verdicts, and per value the longest wait and the frequency.

        Args:
            folder: what the paths of pictures are relative to; without it no pictures are shown.
        """
        return self._write_document("evenhand.genai.assessment.wording", folder)

    def to_frame(self) -> pd.DataFrame:
        """Return one row per sequence, group and value."""
        import pandas as pd

        rows = []
        for sequence in self.sequences:
            for group in sequence.groups:
                for value in group.values:
                    row: dict[str, Any] = {"sequence": sequence.name, "prompts": sequence.prompts}
                    row |= {"group": group.name, "value": value.value}
                    row |= {"items": len(group.items), "appearances": len(value.appearances)}
                    row |= {"smallest_beta": value.smallest_beta, "longest_wait": value.longest_wait}
                    row |= {"beta": value.beta, "missed": len(value.missed)}
                    frequency = value.frequency
                    if isinstance(frequency, Observed):
                        row |= {"frequency": frequency.value, "low": frequency.low, "high": frequency.high}
                    rows.append(row)
        return pd.DataFrame(rows)


def format_coverage(coverage: CoverageFinding) -> str:
    """Return the share of combinations seen, in words."""
    kind = "pairs" if coverage.ways == 2 else f"combinations of {coverage.ways} groups"
    seen = coverage.total - len(coverage.missing)
    return f"{format_percent(coverage.share)} of the {kind} of values appear ({seen:,} of {coverage.total:,})"

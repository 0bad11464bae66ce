"""Result of the assessment of recorded sequences."""

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

NAMED_DEADLINES = 8
"""Maximum number of deadlines listed in a sentence."""


class ValueFinding(ResultPart):
    """Appearances of one value among the recognised items, which are numbered from 1.

    Attributes:
        value: Name of the value. Combined values are joined with `` + ``.
        appearances: Numbers of the items that show it.
        longest_wait: Longest distance between consecutive appearances, from the start to the first, or from the last to
            the item after the end.
        smallest_beta: Smallest beta for which the sequence is fair to the value. None if it never appears, or if the
            sequence is too short.
        beta: Deadline. None if there is none.
        missed: Numbers of the items by which it was due and did not appear: every beta items of its absence.
        frequency: Share of the recognised items.
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
        """Number of the item since which the value is overdue at the end of the sequence. None if it is not overdue."""
        latest = max(self.appearances, default=0)
        return next((number for number in self.missed if number > latest), None)


class GroupFinding(ResultPart):
    """Appearances of the values of one group, or of the combined values of several.

    Attributes:
        groups: Names of the groups.
        items: Numbers of the recognised items in the sequence, from 1.
        unrecognised: Number of items without a recognised value.
        outside: Number of items by label, for labels that are not values. They are not counted.
        fixed: Number of items without a label because their prompts fixed the value.
        biased: Number of items that are excluded because their prompts are not neutral.
        values: Finding for each value.
        smallest_beta: Smallest equal beta for which the sequence is fair to all values. None if there is none.
        difference: Largest difference between the frequencies of two values.
        bound: Bound on that difference in an endless sequence that remains fair for an equal beta: the required beta if
            it is equal and holds, otherwise the longest wait.
        bound_here: Bound on that difference in the recorded items.
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
    """Verdict on one specification.

    Attributes:
        name: Name of the specification in the configuration. None if there is none.
        groups: Groups of the specification.
        kind: ``eventual`` and ``repeated`` concern one group, ``paired`` two, ``k-way`` more.
        beta: Deadline of each value. None if values only have to appear.
        values: Names of the values, in the order of ``beta``.
        verdict: ``unknown`` if no item is recognised, or if nothing was missed but the sequence is not longer than the
            largest deadline.
        at_fault: Values that never appeared or missed a deadline.
        why: Explanation in one sentence.
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
        """Description of the specification."""
        about = f"every value of {' + '.join(self.groups)} appears"
        if self.beta is None:
            return about
        if len(set(self.beta)) == 1:
            return f"{about} within {self.beta[0]} items, repeatedly"
        each = [f"{value} within {beta}" for value, beta in zip(self.values, self.beta, strict=False)]
        more = f" and {len(each) - NAMED_DEADLINES:,} more" if len(each) > NAMED_DEADLINES else ""
        return f"{about} repeatedly: {', '.join(each[:NAMED_DEADLINES])}{more} items"


class MissingCombination(ResultPart):
    """Combination of values that no item shows."""

    groups: tuple[str, ...]
    values: tuple[str, ...]


class CoverageFinding(ResultPart):
    """Coverage of the combinations of values.

    Attributes:
        ways: Number of groups in a combination.
        total: Number of combinations.
        share: Share of combinations that appear in the sequence.
        curve: Share of combinations that appear among the first 1, 2, ... items.
        missing: Combinations that no item shows.
    """

    ways: int
    total: int
    share: float
    curve: tuple[float, ...]
    missing: tuple[MissingCombination, ...]


class SequenceFinding(ResultPart):
    """Findings for one sequence.

    Attributes:
        name: Name of the sequence, including its condition if there are several.
        condition: Name of the condition in the configuration. None if there is none.
        prompts: ``neutral`` if items are not counted for groups whose value their prompt fixes (inherent fairness).
        items: Number of items.
        groups: Finding for each group, and for groups that are assessed together.
        verdicts: Verdict on each specification.
        coverage: Coverage of combinations of groups. None for a single group.
        files: Files of the items. Empty if there are none.
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
    """Assessment of the conditional fairness of recorded sequences.

    Attributes:
        source: Origin of the sequences.
        conditions: Value by column that the items were requested for.
        confidence: Confidence level of each interval.
        sequences: Findings for each sequence.
        prompts: Bias of the prompts. None if it was not assessed.
        interrupted: Whether the generation of items was interrupted.
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
        """Describe the conditions of the items."""
        if set(self.conditions) == {"condition"}:
            return self.conditions["condition"]
        return " and ".join(f"{name} = {value}" for name, value in self.conditions.items()) or "all items"

    def document(self, folder: str | None = None) -> Document:
        """Describe the verdicts, and the longest wait and frequency of each value, with the items in the folder."""
        return self._write_document("evenhand.genai.assessment.wording", folder)

    def to_frame(self) -> pd.DataFrame:
        """Build a table with one row per sequence, group and value."""
        import pandas as pd

        return pd.DataFrame(
            [
                _value_row(sequence, group, value)
                for sequence in self.sequences
                for group in sequence.groups
                for value in group.values
            ]
        )


def _value_row(sequence: SequenceFinding, group: GroupFinding, value: ValueFinding) -> dict[str, Any]:
    frequency = value.frequency
    interval = {}
    if isinstance(frequency, Observed):
        interval = {"frequency": frequency.value, "low": frequency.low, "high": frequency.high}
    return {
        "sequence": sequence.name,
        "prompts": sequence.prompts,
        "group": group.name,
        "value": value.value,
        "items": len(group.items),
        "appearances": len(value.appearances),
        "smallest_beta": value.smallest_beta,
        "longest_wait": value.longest_wait,
        "beta": value.beta,
        "missed": len(value.missed),
        **interval,
    }


def format_coverage(coverage: CoverageFinding) -> str:
    """Describe the share of combinations that appear."""
    kind = "pairs" if coverage.ways == 2 else f"combinations of {coverage.ways} groups"
    covered = coverage.total - len(coverage.missing)
    return f"{format_percent(coverage.share)} of the {kind} of values appear ({covered:,} of {coverage.total:,})"

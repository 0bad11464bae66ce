"""The assessment of recorded sequences as a result: verdicts, least beta, frequencies, coverage."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from evenhand.charts import percent
from evenhand.genai.inherent import PromptBias
from evenhand.result import Result
from evenhand.stats import Observed, Quantity

if TYPE_CHECKING:
    import altair as alt
    import pandas as pd

Found = Literal["holds", "violated", "unknown"]
Kind = Literal["eventual", "repeated", "paired", "k-way"]
CONFIG = ConfigDict(frozen=True, extra="forbid")
NAMED = 8
"""Deadlines of values that are named in a sentence."""


class ValueFinding(BaseModel):
    """How one value appears among the recognised items, which are numbered from 1.

    Attributes:
        value: the value; of several groups, their values joined by " + ".
        appearances: numbers of the items that show it.
        longest_wait: the most items from one appearance up to the next, from the start up to the first, or from the
            last to one past the end.
        least_beta: the least beta with which the sequence is fair to this value; None if it never appears, or if the
            sequence is not longer than what it would take.
        beta: what was asked for.
        missed: numbers of the items at which it was due and did not come.
        frequency: its share of the recognised items.
    """

    model_config = CONFIG

    value: str
    appearances: tuple[int, ...]
    longest_wait: int
    least_beta: int | None
    beta: int | None = None
    missed: tuple[int, ...] = ()
    frequency: Quantity


class GroupFinding(BaseModel):
    """How the values of one group, or of several taken together, appear.

    Attributes:
        groups: the group or groups.
        items: numbers, from 1, of the recognised items in the sequence.
        unrecognised: how many items are not.
        biased: how many items are left out because their prompts are not neutral.
        values: one finding per value.
        least_beta: the least equal beta with which the sequence is fair to all values; None if there is none.
        difference: the largest difference between the frequencies of two values.
        bound: what equal beta proves of that difference for an endless sequence that stays fair with it: the beta asked
            for if it is equal and holds, else the least one.
        bound_here: what it proves of the recorded items, which are finitely many.
    """

    model_config = CONFIG

    groups: tuple[str, ...]
    items: tuple[int, ...]
    unrecognised: int
    biased: int = 0
    values: tuple[ValueFinding, ...]
    least_beta: int | None
    difference: Quantity
    bound: Quantity
    bound_here: Quantity

    @property
    def name(self) -> str:
        return " + ".join(self.groups)


class Verdict(BaseModel):
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

    model_config = CONFIG

    name: str | None = None
    groups: tuple[str, ...]
    kind: Kind
    beta: tuple[int, ...] | None
    values: tuple[str, ...] = ()
    verdict: Found
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
        more = f" and {len(self.beta) - NAMED:,} more" if len(self.beta) > NAMED else ""
        return f"every value of {about} appears, again and again: {', '.join(each[:NAMED])}{more} items"


class Missing(BaseModel):
    """A combination that no item shows."""

    model_config = CONFIG

    groups: tuple[str, ...]
    values: tuple[str, ...]


class CoverageFinding(BaseModel):
    """Combinations of values seen.

    Attributes:
        ways: groups in a combination.
        total: combinations there are.
        share: of them, seen in the whole sequence.
        curve: the share seen among the first 1, 2, ... items.
        missing: combinations that no item shows.
    """

    model_config = CONFIG

    ways: int
    total: int
    share: float
    curve: tuple[float, ...]
    missing: tuple[Missing, ...]


class SequenceFinding(BaseModel):
    """One sequence: its items, its groups, verdicts, coverage (None for a single group), pictures if there are any.

    Attributes:
        name: of the sequence, with its condition if they are told apart.
        condition: the name of the condition in the configuration, if there is one.
        prompts: neutral: items whose prompt fixes the value of a group do not count for it (inherent fairness).
    """

    model_config = CONFIG

    name: str
    condition: str | None = None
    prompts: Literal["all", "neutral"] = "all"
    items: int
    groups: tuple[GroupFinding, ...]
    verdicts: tuple[Verdict, ...]
    coverage: CoverageFinding | None
    files: tuple[str | None, ...] = ()


class GenaiAssessment(Result):
    """What recorded sequences of a generator show about conditional fairness.

    Attributes:
        source: where they come from.
        conditions: column -> value; what the items were asked for.
        confidence: of every interval.
        sequences: one finding per sequence.
        prompts: which prompts are biased; None if nobody asked.
        interrupted: whether somebody stopped the making of items.
    """

    kind: Literal["genai-assessment"] = "genai-assessment"
    source: str
    conditions: dict[str, str]
    confidence: float
    sequences: Annotated[tuple[SequenceFinding, ...], Field(min_length=1)]
    prompts: PromptBias | None = None
    interrupted: bool = False

    def condition(self) -> str:
        """What the items were asked for, in words."""
        if set(self.conditions) == {"condition"}:
            return self.conditions["condition"]
        return " and ".join(f"{name} = {value}" for name, value in self.conditions.items()) or "all items"

    def summary(self) -> str:
        """The verdicts, and per value the least beta and the frequency."""
        lines = [f"{self.source}, {self.condition()}"]
        for sequence in self.sequences:
            lines.append(f"{sequence.name}: {sequence.items:,} items")
            for group in sequence.groups:
                lines += [f"  {group.name} {line}" for line in (_said(value) for value in group.values)]
            lines += [f"  {one.verdict}: {one.specification} ({one.why})" for one in sequence.verdicts]
            if sequence.coverage is not None:
                lines.append(f"  {coverage_said(sequence.coverage)}")
        if self.prompts is not None:
            lines += [f"{one.verdict} for {one.group}: {one.prompt} ({one.why})" for one in self.prompts.findings]
            lines += [f"{one.group}: {one.why}" for one in self.prompts.dependence]
        return "\n".join(lines)

    def to_frame(self) -> pd.DataFrame:
        """One row per sequence, group and value."""
        import pandas as pd

        rows = []
        for sequence in self.sequences:
            for group in sequence.groups:
                for value in group.values:
                    row: dict[str, Any] = {"sequence": sequence.name, "prompts": sequence.prompts}
                    row |= {"group": group.name, "value": value.value}
                    row |= {"items": len(group.items), "appearances": len(value.appearances)}
                    row |= {"least_beta": value.least_beta, "longest_wait": value.longest_wait}
                    row |= {"beta": value.beta, "missed": len(value.missed)}
                    frequency = value.frequency
                    if isinstance(frequency, Observed):
                        row |= {"frequency": frequency.value, "low": frequency.low, "high": frequency.high}
                    rows.append(row)
        return pd.DataFrame(rows)

    def plot(self) -> alt.TopLevelMixin:
        """Timelines of the first sequence, the coverage of all sequences, and what every prompt shows."""
        from evenhand.genai.assessment_plot import plot

        return plot(self)


def frequency_said(quantity: Quantity) -> str:
    """A share of items with its interval."""
    if not isinstance(quantity, Observed):
        return "unknown"
    interval = f"{100 * quantity.confidence:g} % interval {percent(quantity.low)} to {percent(quantity.high)}"
    return f"{percent(quantity.value)} of {quantity.n:,} items ({interval})"


def coverage_said(coverage: CoverageFinding) -> str:
    """The share of combinations seen, in words."""
    kind = "pairs" if coverage.ways == 2 else f"combinations of {coverage.ways} groups"
    seen = coverage.total - len(coverage.missing)
    return f"{percent(coverage.share)} of the {kind} of values appear ({seen:,} of {coverage.total:,})"


def _said(value: ValueFinding) -> str:
    least = f"least beta {value.least_beta}" if value.least_beta is not None else "no beta"
    return f"{value.value}: {least}, {frequency_said(value.frequency)}"

"""Results of a language-model audit: gaps between groups, flips, refusals, confirmed findings and cost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from pydantic import Field

from evenhand.core.document import Document
from evenhand.core.result import Result, ResultNumber
from evenhand.core.result_part import ResultPart
from evenhand.llm.budget import ServiceUsage
from evenhand.stats.quantity import Estimated, Observed, Quantity, Unknown, quantity_value

if TYPE_CHECKING:
    import pandas as pd


MUCH_MISSING = 0.01
"""Share of questions without an answer above which worst-case bounds of the gaps are reported."""


StopReason: TypeAlias = Literal["half-width", "names", "decided", "sweeps", "calls", "budget", "time", "interrupt"]
"""Reason why an audit ended. ``budget`` is the limit on calls or money of the service."""


class ScenarioGap(ResultPart):
    """Gap in one scenario.

    Attributes:
        scenario: Value of the scenario column.
        gap: Gap over the templates of this scenario. Intervals hold simultaneously for all scenarios and comparisons.
        templates: Number of templates.
        p: p-value for the hypothesis of no gap, adjusted for all scenarios and comparisons. None if the gap is unknown.
    """

    scenario: str
    gap: Quantity
    templates: int
    p: float | None = None


class FlipShares(ResultPart):
    """Share of pairs of people from different groups whose answers differ, by cause. Each person is asked about once.

    Attributes:
        asked_once: Expected share of pairs with different answers; the sum of the other three shares.
        noise: Share due to noise, as for two identical questions.
        names: Additional share due to names of the same group.
        identity: Additional share due to the groups. The estimate is unbiased: it is 0 on average if all templates
            treat the groups equally.
    """

    asked_once: Quantity
    noise: Quantity
    names: Quantity
    identity: Quantity


class GroupPair(ResultPart):
    """Numbers about two groups.

    Attributes:
        group_1, group_0: Compared groups. Each gap is ``group_1`` minus ``group_0``.
    """

    group_1: str
    group_0: str

    @property
    def name(self) -> str:
        """Both groups, as in ``white woman against black woman``."""
        return f"{self.group_1} against {self.group_0}"


class GroupGap(GroupPair):
    """Comparison of two groups on the same templates.

    Attributes:
        names_1, names_0: Number of names of each group.
        templates, pairs: Number of templates, and of pairs of answers.
        gap: Mean difference over the population from which templates and names were sampled.
        gap_here: Mean difference for these templates and names. Its interval only includes the noise of answers.
        p: p-value for the hypothesis of no gap, adjusted for all comparisons. None if the gap is unknown.
        refusal_gap: Difference between the shares of refused questions.
        unreadable_gap: Difference between the shares of answers that could not be read or were cut off.
        flips: Pairs with different answers, by cause. None if the outcome is not a choice.
        scenarios: Gap in each scenario, in the order of the data.
    """

    names_1: int
    names_0: int
    templates: int
    pairs: int
    gap: Quantity
    gap_here: Quantity
    p: float | None = None
    refusal_gap: Quantity
    unreadable_gap: Quantity = Unknown(reason="not estimated")
    flips: FlipShares | None = None
    scenarios: tuple[ScenarioGap, ...] = ()

    def sides(self, gap: Quantity) -> tuple[str, str]:
        """Return the group with the larger and the group with the smaller value."""
        more = (quantity_value(gap) or 0.0) > 0
        return (self.group_1, self.group_0) if more else (self.group_0, self.group_1)


class GroupOutcome(ResultPart):
    """Answers about the people of one group.

    Attributes:
        group: Name of the group.
        names: Number of names.
        calls: Number of answers of any kind.
        mean: Favourable rate, or mean score, number or rank.
        refused, unreadable, cut_off: Shares of the answers.
        failed: Number of questions without an answer, which are excluded from all shares.
    """

    group: str
    names: int
    calls: int
    mean: Quantity
    refused: Quantity
    unreadable: Quantity
    cut_off: Quantity
    failed: int = 0


class AskedSide(ResultPart):
    """Question and answer about one person of an example pair.

    Attributes:
        group, name: Group and name of the person.
        prompt: Prompt, without the system prompt.
        answer: Text of the answer.
        label: Interpretation of the answer: a choice, a number, ``refused``, ``unreadable`` or ``cut off``.
    """

    group: str
    name: str
    prompt: str
    answer: str
    label: str


class ConfirmedTemplate(GroupPair):
    """Template that treats two groups differently, confirmed by fresh pairs.

    Attributes:
        template: Position of the row in the data, from 0.
        row: Values of the row.
        scenario: Scenario, or empty without scenarios.
        pairs: Number of fresh pairs.
        mean_1, mean_0: Mean outcome of each group in the fresh pairs.
        better_1, better_0: Number of pairs in which each group had the better outcome.
        p: p-value of the exact sign test, adjusted for all fresh tests.
        side_1, side_0: Pair with the largest difference.
    """

    template: int
    row: dict[str, Any] = Field(default_factory=dict)
    scenario: str = ""
    pairs: int
    mean_1: float
    mean_0: float
    better_1: int
    better_0: int
    p: float
    side_1: AskedSide
    side_0: AskedSide

    def without_row(self) -> ConfirmedTemplate:
        """Return a copy without the row, the prompts and the answers."""
        sides = {"side_1": self.side_1, "side_0": self.side_0}
        hidden = {name: side.model_copy(update={"prompt": "", "answer": ""}) for name, side in sides.items()}
        return self.model_copy(update={"row": {}, **hidden})

    @property
    def gap(self) -> float:
        """Mean outcome of group 1 minus that of group 0 among the fresh pairs."""
        return self.mean_1 - self.mean_0


class NameListCard(ResultPart):
    """Source of the names.

    Attributes:
        name: Name of the list.
        source, licence: Source and licence of the list.
        language: Language of the names.
        groups: Number of names of each group.
        warnings: Unintended differences between the groups.
    """

    name: str
    source: str = ""
    licence: str = ""
    language: str = ""
    groups: dict[str, int] = Field(default_factory=dict)
    warnings: tuple[str, ...] = ()


class LanguageModelResult(Result):
    """Result about a language model and its templates.

    Attributes:
        file, model, service: Model file, name of the model, and address of the service.
        data: Name of the data.
        templates, rows: Number of templates, and number of rows in the data.
    """

    file: str = ""
    model: str = ""
    service: str = ""
    data: str = ""
    templates: int
    rows: int


class LanguageModelAudit(LanguageModelResult):
    """Audit of a language model: its decisions about people of different groups with otherwise equal data.

    Attributes:
        outcome: Compared outcome: ``rate`` (share of favourable answers), ``score`` (probability of the favourable
            answer), ``number``, or ``rank`` (position in a ranking, scaled from 0 for the last to 1 for the first).
        favourable: Favourable answer. Empty for a number or a ranking.
        refused_as: Whether refused and unreadable answers count as unfavourable or are excluded.
        comparisons: Comparison of each pair of groups.
        groups: Answers about each group.
        noise: Share of repeated questions with different answers.
        template_findings: Templates confirmed by fresh questions, by decreasing gap.
        tested: Number of templates with fresh questions.
        sweeps: Number of completed sweeps.
        looks: Number of evaluations of the stopping rule.
        goal: Goal of the stopping rule.
        stopped_by: Reason why the audit ended.
        usage: Calls, tokens and cost.
        names: Name list, if there is one.
        cautions: Important warnings, such as failed questions.
        interrupted: Whether the audit was interrupted. It then contains the results of the completed sweeps.
        settings: Settings, including the plan of the model file.
        table: All answers, for comparison with another audit. Not part of the JSON.
    """

    chart = "llm.plot_language_audit"
    kind: Literal["llm"] = "llm"
    outcome: Literal["rate", "score", "number", "rank"] = "rate"
    favourable: str = ""
    refused_as: Literal["unfavourable", "excluded"] = "unfavourable"
    comparisons: tuple[GroupGap, ...]
    groups: tuple[GroupOutcome, ...]
    noise: Quantity
    template_findings: tuple[ConfirmedTemplate, ...] = ()
    tested: int = 0
    sweeps: int
    looks: int = 0
    goal: Literal["precision", "decision"] = "precision"
    stopped_by: StopReason
    usage: ServiceUsage = ServiceUsage()
    names: NameListCard | None = None
    cautions: tuple[str, ...] = ()
    interrupted: bool = False
    settings: dict[str, Any] = Field(default_factory=dict)
    table: Any = Field(default=None, exclude=True, repr=False)

    def __eq__(self, other: object) -> bool:
        """Compare two audits without their tables of answers, which are not part of the JSON."""
        return isinstance(other, LanguageModelAudit) and self.plain() == other.plain()

    __hash__ = None  # type: ignore[assignment]  # settings and table cannot be hashed

    def _records_hidden(self) -> dict[str, Any]:
        return {"template_findings": tuple(finding.without_row() for finding in self.template_findings)}

    @property
    def findings(self) -> int:
        """Number of confirmed templates."""
        return len(self.template_findings)

    @property
    def missing(self) -> float:
        """Share of the questions of the sweeps without an answer."""
        failed = sum(group.failed for group in self.groups)
        return failed / max(failed + sum(group.calls for group in self.groups), 1)

    @property
    def incomplete(self) -> bool:
        """Whether the share of questions without an answer requires worst-case bounds of the gaps."""
        return self.missing > MUCH_MISSING

    def document(self) -> Document:
        """Build the report: gaps, flips by cause, refusals, confirmed pairs, names and cost."""
        return self._write_document("evenhand.llm.wording")

    def numbers(self) -> Iterator[ResultNumber]:
        """Yield noise, findings, and the absolute gaps and identity flips of each pair of groups and their maximum."""
        yield ResultNumber("llm", "noise", "", self.noise)
        yield ResultNumber("llm", "findings", "", float(self.findings))
        for name in ("gap", "gap_here", "refusal_gap", "identity_flips"):
            sizes = {}
            for comparison in self.comparisons:
                if name != "identity_flips":
                    sizes[comparison.name] = _absolute(getattr(comparison, name))
                elif comparison.flips is not None:
                    sizes[comparison.name] = comparison.flips.identity
            for pair, size in sizes.items():
                yield ResultNumber("llm", f"{name}.{pair}", "", size)
            if sizes:
                yield ResultNumber("llm", name, "", _largest(list(sizes.values())))

    def to_frame(self) -> pd.DataFrame:
        """Return a data frame with one row per number and comparison."""
        import pandas as pd

        columns = ["group_1", "group_0", "scenario", "number", "value", "low", "high", "kind", "confidence"]
        return pd.DataFrame([row for gap in self.comparisons for row in _comparison_rows(gap)], columns=columns)


def _absolute(gap: Quantity) -> Quantity:
    """Return the absolute value of a gap; its lower end is 0 if the interval contains 0."""
    if not isinstance(gap, Estimated | Observed):
        return gap
    ends = sorted((abs(gap.low), abs(gap.high)))
    low = 0.0 if gap.low <= 0 <= gap.high else ends[0]
    return gap.model_copy(update={"value": abs(gap.value), "low": low, "high": ends[1]})


def _largest(numbers: Sequence[Quantity]) -> Quantity:
    """Return the largest value, lower end and upper end; unknown only if all numbers are unknown."""
    quantities = [number for number in numbers if isinstance(number, Estimated | Observed)]
    if not quantities:
        return numbers[0]
    ends = {name: max(getattr(quantity, name) for quantity in quantities) for name in ("value", "low", "high")}
    return quantities[0].model_copy(update=ends)


def _comparison_rows(comparison: GroupGap) -> list[tuple[object, ...]]:
    """List the numbers of a comparison as rows."""
    numbers: list[tuple[str, str, Quantity]] = [("", name, getattr(comparison, name)) for name in ("gap", "gap_here")]
    numbers += [(scenario.scenario, "gap", scenario.gap) for scenario in comparison.scenarios]
    numbers += [("", name, getattr(comparison, name)) for name in ("refusal_gap", "unreadable_gap")]
    if (flips := comparison.flips) is not None:
        numbers += [("", f"flips_{name}", getattr(flips, name)) for name in type(flips).model_fields]
    return [
        (
            comparison.group_1,
            comparison.group_0,
            scenario,
            name,
            quantity_value(number),
            *(getattr(number, end, None) for end in ("low", "high")),
            number.kind,
            getattr(number, "confidence", None),
        )
        for scenario, name, number in numbers
    ]

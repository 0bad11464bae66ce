"""What the audit of a language model found: gaps between groups, flips, refusals, confirmed pairs, and the price."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from evenhand.core.document import Document
from evenhand.core.result import Result, ResultNumber
from evenhand.core.result_part import ResultPart
from evenhand.stats.quantity import Estimated, Observed, Quantity, Unknown, quantity_value

if TYPE_CHECKING:
    import pandas as pd


MUCH_MISSING = 0.01
"""Share of questions without an answer above which gaps are bounded, whatever the answers would have been."""


class ScenarioGap(ResultPart):
    """The gap in one scenario.

    Attributes:
        scenario: the value of the column of scenarios.
        gap: as in ``GroupGap``, over the templates of this scenario; its interval holds for all scenarios and
            comparisons together.
        templates: how many there are.
        p: of no gap, adjusted for all scenarios and comparisons; None where the gap is unknown.
    """

    scenario: str
    gap: Quantity
    templates: int
    p: float | None = None


class FlipShares(ResultPart):
    """How often two people of different groups get different answers when each is asked about once, and why.

    Attributes:
        asked_once: the expected share of pairs with different answers; the sum of the other three.
        noise: the part that two identical questions have as well.
        names: the part that two names of the same group have beyond the noise.
        identity: the part that the groups themselves add; estimated without bias, so that it is 0 on average where the
            groups are treated alike in every template.
    """

    asked_once: Quantity
    noise: Quantity
    names: Quantity
    identity: Quantity


class Narrowing(ResultPart):
    """What would narrow the interval of a gap.

    Attributes:
        what: of what more is needed: more calls, more names per group, or more templates.
        more: about how many more; None where that cannot be told.
        shares: which part of the variance each sample has: ``answers``, ``templates``, ``names``, ``clusters``.
    """

    what: Literal["calls", "names", "templates", "clusters", "nothing"]
    more: int | None = None
    shares: dict[str, float] = Field(default_factory=dict)


class GroupGap(ResultPart):
    """Two groups compared: the same templates, with names of one group and of the other.

    Attributes:
        group_1, group_0: every gap is ``group_1`` minus ``group_0``.
        names_1, names_0: how many names of each were used.
        templates, pairs: templates asked about, and pairs of answers that count.
        gap: mean difference over the population that the templates and names are a sample of.
        gap_here: mean difference for these templates and names; its interval holds the noise of the answers alone.
        freedom: degrees of freedom of the gap's interval.
        p: of no gap, adjusted for the number of comparisons; None where the gap is unknown.
        refusal_gap: difference of the shares of refused questions.
        unreadable_gap: Difference of the shares of answers that could not be read or were cut off.
        flips: pairs with different answers, split by cause; None where the outcome is not a choice.
        scenarios: the gap in each scenario, in the order of the data.
        narrowing: what would narrow the gap's interval; None where it is unknown.
    """

    group_1: str
    group_0: str
    names_1: int
    names_0: int
    templates: int
    pairs: int
    gap: Quantity
    gap_here: Quantity
    freedom: float | None = None
    p: float | None = None
    refusal_gap: Quantity
    unreadable_gap: Quantity = Unknown(reason="not estimated")
    flips: FlipShares | None = None
    scenarios: tuple[ScenarioGap, ...] = ()
    narrowing: Narrowing | None = None

    @property
    def name(self) -> str:
        """The two groups, as in ``white woman against black woman``."""
        return f"{self.group_1} against {self.group_0}"

    def sides(self, gap: Quantity) -> tuple[str, str]:
        """Return the group with more and the one with less of what a gap is of."""
        more = (quantity_value(gap) or 0.0) > 0
        return (self.group_1, self.group_0) if more else (self.group_0, self.group_1)


class GroupOutcome(ResultPart):
    """What was answered about the people of one group.

    Attributes:
        group: its name.
        names: how many names of it were used.
        calls: questions that were answered about it, whatever the answer.
        mean: the favourable rate, the mean score, number or rank.
        refused, unreadable, cut_off: shares of the calls.
        failed: questions that the service never answered; they are in no share.
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
    """One side of a pair as an example: who was asked about, the prompt, and the answer.

    Attributes:
        group, name: who.
        prompt: the text as it was sent, without the system prompt.
        answer: what came back, as text.
        label: how it was read: a choice, a number, or ``refused``, ``unreadable``, ``cut off``.
    """

    group: str
    name: str
    prompt: str
    answer: str
    label: str


class ConfirmedTemplate(ResultPart):
    """A template in which the two groups are treated differently, confirmed by fresh pairs.

    Attributes:
        group_1, group_0: the groups compared.
        template: position of the row in the data, from 0; row: its values.
        scenario: its scenario; empty without any.
        pairs: fresh pairs that were asked.
        mean_1, mean_0: the mean outcome of each group among them.
        better_1, better_0: pairs in which group 1 and group 0 had the better outcome.
        p: of the exact sign test, adjusted for all templates that were asked about again.
        side_1, side_0: the pair of them with the widest difference.
    """

    group_1: str
    group_0: str
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
        """Return it without the row of the data, and what was asked and answered about it."""
        first, second = (one.model_copy(update={"prompt": "", "answer": ""}) for one in (self.side_1, self.side_0))
        return self.model_copy(update={"row": {}, "side_1": first, "side_0": second})

    @property
    def gap(self) -> float:
        """Mean outcome of group 1 minus that of group 0 among the fresh pairs."""
        return self.mean_1 - self.mean_0


class ConfirmedName(ResultPart):
    """A name that is treated differently from the others of its group, confirmed by fresh pairs.

    Attributes:
        name, group: whose.
        pairs: fresh pairs of this name and another of the group, in the same template.
        mean, others: the mean outcome of the name, and of the others.
        p: of the exact sign test, adjusted for all names that were asked about again.
    """

    name: str
    group: str
    pairs: int
    mean: float
    others: float
    p: float


class NameListCard(ResultPart):
    """Where the names come from.

    Attributes:
        name: of the list; source, licence: as it says; language: of its words.
        groups: group -> names in it.
        warnings: in which other ways than intended the groups differ.
    """

    name: str
    source: str = ""
    licence: str = ""
    language: str = ""
    groups: dict[str, int] = Field(default_factory=dict)
    warnings: tuple[str, ...] = ()


class ServiceUsage(ResultPart):
    """Calls to the service and their cost.

    Attributes:
        calls: Calls that were charged or may have been charged in this run.
        tokens_in, tokens_out: Tokens read and written by these calls, as the service counts them; the maximum of a call
            if the service did not report them.
        money: Cost of these tokens. None if the file has no prices.
        assumed: Calls whose tokens the service did not report, such as late answers. They are part of ``calls``.
        assumed_money: Maximum cost of these calls. It is part of ``money``.
        remembered: Answers from the file of answers, which cost nothing in this run.
        remembered_money: Cost of these answers, and of calls without an answer, in earlier runs.
        failed: Questions without an answer.
    """

    calls: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    money: float | None = None
    assumed: int = 0
    assumed_money: float | None = None
    remembered: int = 0
    remembered_money: float | None = None
    failed: int = 0


class LanguageModelAudit(Result):
    """What a language model decides about people of different groups, everything else being the same.

    Attributes:
        file, model, service: the model's file, what the service calls the model, and its address.
        data: what the templates are called.
        outcome: what is compared: the share of favourable answers (``rate``), a score (``score``: the probability of
            the favourable answer), a ``number``, or the place in a ranking scaled from 0, last, to 1, first (``rank``).
        favourable: the favourable answer; empty for a number or a ranking.
        refused_as: whether refused and unreadable answers count as unfavourable or are left out.
        templates, rows: rows of the data asked about, and rows there are.
        comparisons: one per pair of groups.
        groups: one per group.
        noise: share of identical questions that are answered differently when they are asked twice.
        template_findings, name_findings: what was confirmed by fresh questions, the widest gap first.
        tested: how many templates and names were asked about again.
        sweeps: sweeps that were finished; looks: how often the intervals were looked at to decide whether to stop.
        goal: what it was asked until.
        stopped_by: what ended it.
        usage: questions, tokens, money.
        names: the list of names or wordings; None where there is none.
        cautions: what a reader must know first, such as questions that failed.
        interrupted: whether somebody stopped it; what is here was found before.
        settings: what it was called with, the file's plan included.
        table: all answers, with which it is compared with another audit; not part of the JSON.
    """

    chart = "llm.plot_language_audit"
    kind: Literal["llm"] = "llm"
    file: str = ""
    model: str = ""
    service: str = ""
    data: str = ""
    outcome: Literal["rate", "score", "number", "rank"] = "rate"
    favourable: str = ""
    refused_as: Literal["unfavourable", "excluded"] = "unfavourable"
    templates: int
    rows: int
    comparisons: tuple[GroupGap, ...]
    groups: tuple[GroupOutcome, ...]
    noise: Quantity
    template_findings: tuple[ConfirmedTemplate, ...] = ()
    name_findings: tuple[ConfirmedName, ...] = ()
    tested: int = 0
    sweeps: int
    looks: int = 0
    goal: Literal["precision", "decision"] = "precision"
    stopped_by: Literal[
        "half-width",
        "names",
        "decided",
        "sweeps",
        "calls",
        "money",
        "budget",
        "time",
        "interrupt",
        "all asked",
        "batch",
    ]
    usage: ServiceUsage = ServiceUsage()
    names: NameListCard | None = None
    cautions: tuple[str, ...] = ()
    interrupted: bool = False
    settings: dict[str, Any] = Field(default_factory=dict)
    table: Any = Field(default=None, exclude=True, repr=False)

    def __eq__(self, other: object) -> bool:
        """Whether two results say the same; the table of all answers does not travel as JSON and does not count."""
        return isinstance(other, LanguageModelAudit) and self.plain() == other.plain()

    __hash__ = None  # type: ignore[assignment]  # settings and table cannot be hashed

    def _records_hidden(self) -> dict[str, Any]:
        return {"template_findings": tuple(one.without_row() for one in self.template_findings)}

    @property
    def findings(self) -> int:
        """How many templates and names were confirmed."""
        return len(self.template_findings) + len(self.name_findings)

    @property
    def missing(self) -> float:
        """Share of the questions of the sweeps that stayed without an answer."""
        failed = sum(one.failed for one in self.groups)
        return failed / max(failed + sum(one.calls for one in self.groups), 1)

    @property
    def incomplete(self) -> bool:
        """Whether so many questions stayed without an answer that gaps are bounded."""
        return self.missing > MUCH_MISSING

    def document(self) -> Document:
        """Return the gaps first, then flips by cause, refusals, confirmed pairs, the names and the price."""
        return self._write_document("evenhand.llm.wording")

    def numbers(self) -> Iterator[ResultNumber]:
        """Yield the sizes of gaps between groups, each pair's and the largest, flips by identity, noise, findings."""
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
        """Return one row per number: comparison, scenario, number, value, low, high, kind, confidence."""
        import pandas as pd

        columns = ["group_1", "group_0", "scenario", "number", "value", "low", "high", "kind", "confidence"]
        return pd.DataFrame([row for one in self.comparisons for row in _comparison_rows(one)], columns=columns)


def _absolute(gap: Quantity) -> Quantity:
    """Return the size of a gap, whichever group is better off; its low end is 0 where the interval holds 0."""
    if not isinstance(gap, Estimated | Observed):
        return gap
    ends = sorted((abs(gap.low), abs(gap.high)))
    least = 0.0 if gap.low <= 0 <= gap.high else ends[0]
    return gap.model_copy(update={"value": abs(gap.value), "low": least, "high": ends[1]})


def _largest(numbers: Sequence[Quantity]) -> Quantity:
    """Return the largest value with the largest ends; unknown only where all are."""
    known = [one for one in numbers if isinstance(one, Estimated | Observed)]
    if not known:
        return numbers[0]
    ends = {name: max(getattr(one, name) for one in known) for name in ("value", "low", "high")}
    return known[0].model_copy(update=ends)


def _comparison_rows(one: GroupGap) -> list[tuple[object, ...]]:
    """Return the rows of a comparison in the table of all numbers."""
    numbers: list[tuple[str, str, Quantity]] = [("", "gap", one.gap), ("", "gap_here", one.gap_here)]
    numbers += [(each.scenario, "gap", each.gap) for each in one.scenarios]
    numbers += [("", name, getattr(one, name)) for name in ("refusal_gap", "unreadable_gap")]
    if one.flips is not None:
        numbers += [("", f"flips_{name}", getattr(one.flips, name)) for name in type(one.flips).model_fields]
    return [
        (one.group_1, one.group_0, scenario, name, quantity_value(number), *_interval(number))
        for scenario, name, number in numbers
    ]


def _interval(number: Quantity) -> tuple[float | None, float | None, str, float | None]:
    """Return low, high, kind and confidence of a number; None where it has no interval."""
    if isinstance(number, Unknown):
        return None, None, "unknown", None
    low, high, confidence = (getattr(number, name, None) for name in ("low", "high", "confidence"))
    return low, high, number.kind, confidence

"""Which prompts fix what their items show, so that a generator can be judged on the others.

A prompt is biased for a concept group if it fixes the group's value: "a grandmother" leaves no choice of age or gender.
Inherent fairness asks of the items of neutral prompts what conditional fairness asks of all ("Conditional Fairness for
Generative AIs", Cheng et al.). What a prompt does is judged by its words, or estimated: the same prompt is answered
again and again, until it is plain whether one value comes with at least a stated probability, the bar.

Estimates may be looked at after every item (``evenhand.stats.rate_evidence``), so generating ends as soon as a verdict
stands, and the stated error holds all the same, for the verdicts of all prompts and groups together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict

from evenhand.errors import OptionError
from evenhand.genai.dependence import Dependence, dependence
from evenhand.genai.sequence import Recorded
from evenhand.stats import Estimated, Quantity, Unknown, rate_bounds, rate_evidence

if TYPE_CHECKING:
    from evenhand.genai.judge import Judge

How: TypeAlias = Literal["judged", "estimated"]
Bias: TypeAlias = Literal["biased", "neutral", "unknown"]
Labels: TypeAlias = Mapping[str, str | None]
"""What one item shows: concept group -> value, None where it is not recognised."""

METHOD = "betting, valid at any time"


@dataclass(frozen=True)
class Terms:
    """When a prompt counts as biased, and how sure that must be.

    Attributes:
        bar: biased is a prompt that shows one value at least so often; neutral, one that shows every value less often.
        error: that any verdict, of all prompts and groups, is wrong: with this probability at most.
        most: items per prompt at most.

    Raises:
        OptionError: a number out of range.
    """

    bar: float = 0.95
    error: float = 0.05
    most: int = 200

    def __post_init__(self) -> None:
        if not 0.5 <= self.bar < 1:
            raise OptionError(
                f"the bar is {self.bar:g}", mend="a prompt fixes a value that it shows 0.5 to 0.99 of the times"
            )
        if not 0 < self.error < 0.5:
            raise OptionError(f"the error is {self.error:g}", mend="say 0.05, for example")
        if self.most < 1:
            raise OptionError(f"{self.most} items per prompt show nothing", mend="allow 100 or more")


class PromptFinding(BaseModel):
    """What one prompt does to one concept group.

    Attributes:
        prompt: the prompt.
        group: the concept group.
        verdict: biased: it fixes the value. Unknown prompts count as not neutral.
        value: the value that it shows most often; None if no item is recognised.
        probability: of that value, or of whatever value is really the likeliest.
        shown: value -> how many items show it, of all that were looked at.
        unrecognised: items in which no value could be told.
        why: one sentence.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    prompt: str
    group: str
    verdict: Bias
    value: str | None
    probability: Quantity
    shown: dict[str, int]
    unrecognised: int
    why: str

    @property
    def items(self) -> int:
        """Recognised items."""
        return sum(self.shown.values())


class PromptBias(BaseModel):
    """Which prompts are biased for which concept groups, and whether prompts make a difference at all.

    Attributes:
        how: judged by the prompts' words, or estimated from their items.
        bar, error: the terms of estimates.
        findings: one per prompt and group.
        dependence: per group, how much its values depend on the prompt; where prompts are judged, on those that are
            neutral.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    how: How
    bar: float
    error: float
    findings: tuple[PromptFinding, ...]
    dependence: tuple[Dependence, ...]

    def neutral(self, prompt: str | None, group: str) -> bool:
        """Whether a prompt is known to leave the value of a group open."""
        return any(one.verdict == "neutral" for one in self.findings if (one.prompt, one.group) == (prompt, group))

    def fixed(self, prompt: str) -> frozenset[str]:
        """Groups whose value a prompt fixes, as a ``Judge`` says it."""
        return frozenset(one.group for one in self.findings if one.prompt == prompt and one.verdict == "biased")


class RepeatedPrompt:
    """One prompt and one concept group, item by item, until a verdict stands.

    The hypothesis that no value reaches the bar is bet against for every value, each with its part of the error; that
    a given value reaches it, with all of it, since a biased prompt is called neutral only if its own value fails. Both
    bets depend on the most frequent value alone.

    Args:
        values: of the group.
        bar: as in ``Terms``.
        error: that the verdict is wrong, at most.
    """

    def __init__(self, values: Sequence[str], bar: float, error: float) -> None:
        self._bar, self._above, self._below = bar, len(values) / error, 1 / error
        self.shown: Counter[str] = Counter(dict.fromkeys(values, 0))
        self.unrecognised = 0
        self.verdict: Bias = "unknown"
        self._taken: tuple[str, int, int] | None = None

    def add(self, value: str | None) -> None:
        """One more item; what comes after the verdict is counted, and changes it no more."""
        if value is None or value not in self.shown:
            self.unrecognised += 1
            return
        self.shown[value] += 1
        if self.verdict != "unknown":
            return
        count, n = max(self.shown.values()), self.shown.total()
        above, below = rate_evidence(count, n, self._bar)
        self.verdict = "biased" if above >= self._above else "neutral" if below >= self._below else "unknown"
        if self.verdict != "unknown":
            self._taken = (self.shown.most_common(1)[0][0], count, n)

    @property
    def value(self) -> str | None:
        """The value that comes most often; None if no item is recognised."""
        top, count = self.shown.most_common(1)[0]
        return top if count else None

    def probability(self, confidence: float) -> Quantity:
        """How likely the likeliest value is.

        Args:
            confidence: with which the intervals of all prompts and groups hold together.
        """
        n = sum(self.shown.values())
        if not n:
            return Unknown(reason="no item is recognised")
        count = max(self.shown.values())
        low, high = rate_bounds(count, n, self._above, self._below)
        if self._taken is not None:
            # The bounds hold at all times at once, so those that the verdict stood on hold still.
            then = rate_bounds(self._taken[1], self._taken[2], self._above, self._below)
            low, high = max(low, then[0]), min(high, then[1])
        return Estimated(
            value=count / n,
            low=low,
            high=high,
            confidence=confidence,
            n=n,
            population="items for this prompt",
            method=METHOD,
        )

    def why(self) -> str:
        """The verdict in a sentence."""
        if self.value is None:
            return "no item is recognised"
        if self._taken is None:
            n = self.shown.total()
            return f"{self.value} in {self.shown[self.value]:,} of {n:,} items: too few to tell"
        top, count, n = self._taken
        counted = f"{top} in {count:,} of the first {n:,} items"
        if self.verdict == "biased":
            return f"{counted}: it fixes the value"
        return f"{counted}: no value comes {100 * self._bar:g} % of the time"


def estimate(
    answered: Mapping[str, Iterable[Labels]],
    values: Mapping[str, Sequence[str]],
    *,
    terms: Terms | None = None,
    draw: Callable[[str], Labels] | None = None,
    progress: Callable[[str, float], None] | None = None,
) -> PromptBias:
    """Estimate which prompts fix the values of which groups, by repeated generation.

    Items of one prompt must be made independently of each other: a generator that remembers what it showed before, or
    that is told to vary, hides what its prompts do.

    Args:
        answered: prompt -> what its items showed so far, in the order in which they were made. At least one prompt.
        values: concept group -> its values.
        terms: when a prompt counts as biased, and how sure that must be.
        draw: makes one more item for a prompt and says what it shows; asked only while some group has no verdict.
            Without it, the items that are there must do.
        progress: called with what is being done and the share that is done.

    Raises:
        OptionError: there is no prompt or no group.
    """
    terms = terms or Terms()
    if not answered or not values:
        raise OptionError("there is no prompt to look at" if values else "there is no concept group")
    each = terms.error / (len(answered) * len(values))
    cells: dict[str, dict[str, RepeatedPrompt]] = {}
    for done, (prompt, labels) in enumerate(answered.items()):
        groups = {group: RepeatedPrompt(own, terms.bar, each) for group, own in values.items()}
        cells[prompt] = groups
        items = 0
        for item in labels:
            _add(groups, item)
            items += 1
        while draw is not None and items < terms.most and any(one.verdict == "unknown" for one in groups.values()):
            _add(groups, draw(prompt))
            items += 1
            if progress is not None:
                progress("repeating prompts", (done + items / terms.most) / len(answered))
    findings = [
        PromptFinding(
            prompt=prompt,
            group=group,
            verdict=one.verdict,
            value=one.value,
            probability=one.probability(1 - 2 * terms.error),
            shown=dict(one.shown),
            unrecognised=one.unrecognised,
            why=one.why(),
        )
        for prompt, groups in cells.items()
        for group, one in groups.items()
    ]
    return PromptBias(
        how="estimated",
        bar=terms.bar,
        error=terms.error,
        findings=tuple(findings),
        dependence=tuple(
            dependence(group, {one.prompt: one.shown for one in findings if one.group == group}, 1 - terms.error)
            for group in values
        ),
    )


def judged(
    answered: Mapping[str, Iterable[Labels]],
    values: Mapping[str, Sequence[str]],
    fixed: Mapping[str, Collection[str]],
    *,
    terms: Terms | None = None,
) -> PromptBias:
    """Prompts whose bias was judged by their words, with what their items showed.

    Args:
        answered: prompt -> what its items showed.
        values: concept group -> its values.
        fixed: prompt -> the groups whose value it fixes; see ``judge_prompts``.
        terms: of the intervals.

    Raises:
        OptionError: there is no prompt or no group.
    """
    counted = estimate(answered, values, terms=terms)
    findings = [
        one.model_copy(
            update={
                "verdict": "biased" if one.group in fixed[one.prompt] else "neutral",
                "why": f"its words fix the value of {one.group}"
                if one.group in fixed[one.prompt]
                else f"its words leave the value of {one.group} open",
            }
        )
        for one in counted.findings
    ]
    # What words fix says nothing about the generator: prompts are compared that leave the value open.
    compared = tuple(
        dependence(
            group,
            {one.prompt: one.shown for one in findings if one.group == group and one.verdict == "neutral"},
            1 - counted.error,
        )
        for group in values
    )
    return counted.model_copy(update={"how": "judged", "findings": tuple(findings), "dependence": compared})


def judge_prompts(judge: Judge, prompts: Iterable[str]) -> dict[str, frozenset[str]]:
    """Prompt -> the groups that a judge says it fixes; each prompt is asked about once."""
    return {prompt: judge.fixed(prompt) for prompt in dict.fromkeys(prompts)}


def answers(sequences: Iterable[Recorded]) -> dict[str, list[Labels]]:
    """Prompt -> what its items showed, in their order; items without a prompt are left out."""
    found: dict[str, list[Labels]] = {}
    for recorded in sequences:
        rows = zip(*recorded.labels.values(), strict=True)
        for prompt, row in zip(recorded.prompts, rows, strict=False):
            if prompt is not None:
                found.setdefault(prompt, []).append(dict(zip(recorded.labels, row, strict=True)))
    return found


def of_neutral_prompts(recorded: Recorded, bias: PromptBias) -> Recorded:
    """A sequence in which only items of neutral prompts count, group by group.

    A prompt may fix the age and leave the gender open: its item counts for gender and not for age.
    """
    labels, biased = {}, {}
    for group, column in recorded.labels.items():
        keep = [bias.neutral(prompt, group) for prompt in recorded.prompts]
        labels[group] = tuple(label if kept else None for label, kept in zip(column, keep, strict=True))
        biased[group] = frozenset(i for i, kept in enumerate(keep) if not kept)
    return Recorded(f"{recorded.name}, neutral prompts", labels, recorded.values, prompts=recorded.prompts,
                    biased=biased)  # fmt: skip


def _add(groups: Mapping[str, RepeatedPrompt], item: Labels) -> None:
    for group, one in groups.items():
        one.add(item.get(group))

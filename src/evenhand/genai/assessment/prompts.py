"""Which prompts fix what their items show, so that a generator can be judged on the others.

A prompt is biased for a concept group if it fixes the group's value: "a grandmother" leaves no choice of age or gender.
Inherent fairness asks of the items of neutral prompts what conditional fairness asks of all ("Conditional Fairness for
Generative AIs", Cheng et al.). What a prompt does is judged by its words, or estimated: the same prompt is answered
again and again, until it is plain whether one value comes with at least a stated probability, the bar.

Estimates may be looked at after every item (``evenhand.stats.betting_martingales``), so generating ends as soon as a
verdict stands, and the stated error holds all the same, for the verdicts of all prompts and groups together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from evenhand.core.result_part import ResultPart
from evenhand.core.text import format_percent
from evenhand.errors import OptionError
from evenhand.genai.assessment.sequences import RecordedSequence
from evenhand.genai.config import AssessmentConfig, BiasMethod
from evenhand.stats.level import bonferroni
from evenhand.stats.quantity import Estimated, Quantity, Unknown
from evenhand.stats.sequential.betting import betting_bounds, betting_martingales, sequential_rate

if TYPE_CHECKING:
    from evenhand.genai.judges import Judge


BiasVerdict: TypeAlias = Literal["biased", "neutral", "unknown"]
ItemLabels: TypeAlias = Mapping[str, str | None]
"""What one item shows: concept group -> value, None where it is not recognised."""

INTERVAL_METHOD = "betting, valid at any time"


class PromptFinding(ResultPart):
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

    prompt: str
    group: str
    verdict: BiasVerdict
    value: str | None
    probability: Quantity
    shown: dict[str, int]
    unrecognised: int
    why: str

    @property
    def items(self) -> int:
        """Recognised items."""
        return sum(self.shown.values())


class PromptBias(ResultPart):
    """Which prompts are biased for which concept groups, and whether prompts make a difference at all.

    Attributes:
        how: judged by the prompts' words, or estimated from their items.
        bar, error: the terms of estimates.
        findings: one per prompt and group.
        dependence: per group, how much its values depend on the prompt; where prompts are judged, on those that are
            neutral.
    """

    how: BiasMethod
    bar: float
    error: float
    findings: tuple[PromptFinding, ...]
    dependence: tuple[PromptDependence, ...]

    def neutral(self, prompt: str | None, group: str) -> bool:
        """Return whether a prompt is known to leave the value of a group open."""
        return any(one.verdict == "neutral" for one in self.findings if (one.prompt, one.group) == (prompt, group))

    def fixed_groups(self, prompt: str) -> frozenset[str]:
        """Return the groups whose value a prompt fixes, as a ``Judge`` says it."""
        return frozenset(one.group for one in self.findings if one.prompt == prompt and one.verdict == "biased")


class RepeatedPrompt:
    """One prompt and one concept group, item by item, until a verdict stands.

    The hypothesis that no value reaches the bar is bet against for every value, each with its part of the error; that
    a given value reaches it, with all of it, since a biased prompt is called neutral only if its own value fails. Both
    bets depend on the most frequent value alone.

    Args:
        values: of the group.
        bar: as in ``AssessmentConfig``.
        error: that the verdict is wrong, at most.
    """

    def __init__(self, values: Sequence[str], bar: float, error: float) -> None:
        self._bar, self._above, self._below = bar, len(values) / error, 1 / error
        self.shown: Counter[str] = Counter(dict.fromkeys(values, 0))
        self.unrecognised = 0
        self.verdict: BiasVerdict = "unknown"
        self._taken: tuple[str, int, int] | None = None

    def add(self, value: str | None) -> None:
        """Add an item; items after the verdict are counted but do not change it."""
        if value is None or value not in self.shown:
            self.unrecognised += 1
            return
        self.shown[value] += 1
        if self.verdict != "unknown":
            return
        count, n = max(self.shown.values()), self.shown.total()
        above, below = betting_martingales(count, n, self._bar)
        self.verdict = "biased" if above >= self._above else "neutral" if below >= self._below else "unknown"
        if self.verdict != "unknown":
            self._taken = (self.shown.most_common(1)[0][0], count, n)

    @property
    def value(self) -> str | None:
        """The value that comes most often; None if no item is recognised."""
        top, count = self.shown.most_common(1)[0]
        return top if count else None

    def probability(self, confidence: float) -> Quantity:
        """Return how likely the likeliest value is.

        Args:
            confidence: with which the intervals of all prompts and groups hold together.
        """
        n = sum(self.shown.values())
        if not n:
            return Unknown(reason="no item is recognised")
        count = max(self.shown.values())
        low, high = betting_bounds(count, n, self._above, self._below)
        if self._taken is not None:
            # The bounds hold at all times at once, so those that the verdict stood on hold still.
            then = betting_bounds(self._taken[1], self._taken[2], self._above, self._below)
            low, high = max(low, then[0]), min(high, then[1])
        return Estimated(
            value=count / n,
            low=low,
            high=high,
            confidence=confidence,
            n=n,
            population="items for this prompt",
            method=INTERVAL_METHOD,
        )

    def why(self) -> str:
        """Return the verdict in a sentence."""
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


def estimate_prompt_bias(
    answered: Mapping[str, Iterable[ItemLabels]],
    values: Mapping[str, Sequence[str]],
    *,
    terms: AssessmentConfig | None = None,
    draw: Callable[[str], ItemLabels] | None = None,
    progress: Callable[[str, float], None] | None = None,
) -> PromptBias:
    """Estimate which prompts fix the values of which groups, by repeated generation.

    Items of one prompt must be made independently of each other: a generator that remembers what it showed before, or
    that is told to vary, hides what its prompts do.

    Args:
        answered: prompt -> what its items showed so far, in the order in which they were made. At least one prompt.
        values: concept group -> its values.
        terms: from when on a prompt counts as biased, and how sure that must be: ``bar``, ``error``, ``repetitions``.
        draw: makes one more item for a prompt and says what it shows; asked only while some group has no verdict.
            Without it, the items that are there must do.
        progress: called with what is being done and the share that is done.

    Raises:
        OptionError: there is no prompt or no group.
    """
    terms = terms or AssessmentConfig()
    if not answered or not values:
        raise OptionError("there is no prompt to look at" if values else "there is no concept group")
    # Bonferroni: some verdict is wrong with probability ``error`` at most.
    each = terms.error / (len(answered) * len(values))
    cells: dict[str, dict[str, RepeatedPrompt]] = {}
    for done, (prompt, labels) in enumerate(answered.items()):
        groups = {group: RepeatedPrompt(own, terms.bar, each) for group, own in values.items()}
        cells[prompt] = groups
        items = 0
        for item in labels:
            _add_item(groups, item)
            items += 1
        while (
            draw is not None and items < terms.repetitions and any(one.verdict == "unknown" for one in groups.values())
        ):
            _add_item(groups, draw(prompt))
            items += 1
            if progress is not None:
                progress("repeating prompts", (done + items / terms.repetitions) / len(answered))
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
            measure_dependence(
                group, {one.prompt: one.shown for one in findings if one.group == group}, 1 - terms.error
            )
            for group in values
        ),
    )


def judge_prompt_bias(
    answered: Mapping[str, Iterable[ItemLabels]],
    values: Mapping[str, Sequence[str]],
    fixed: Mapping[str, Collection[str]],
    *,
    terms: AssessmentConfig | None = None,
) -> PromptBias:
    """Judge the bias of prompts by their words, beside what their items showed.

    Args:
        answered: prompt -> what its items showed.
        values: concept group -> its values.
        fixed: prompt -> the groups whose value it fixes; see ``ask_fixed_groups``.
        terms: of the intervals.

    Raises:
        OptionError: there is no prompt or no group.
    """
    counted = estimate_prompt_bias(answered, values, terms=terms)
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
        measure_dependence(
            group,
            {one.prompt: one.shown for one in findings if one.group == group and one.verdict == "neutral"},
            1 - counted.error,
        )
        for group in values
    )
    return counted.model_copy(update={"how": "judged", "findings": tuple(findings), "dependence": compared})


def ask_fixed_groups(judge: Judge, prompts: Iterable[str]) -> dict[str, frozenset[str]]:
    """Return the prompt -> the groups that a judge says it fixes; each prompt is asked about once."""
    return {prompt: judge.fixed_groups(prompt) for prompt in dict.fromkeys(prompts)}


def answers_by_prompt(sequences: Iterable[RecordedSequence]) -> dict[str, list[ItemLabels]]:
    """Return the prompt -> what its items showed, in their order; items without a prompt are left out."""
    found: dict[str, list[ItemLabels]] = {}
    for recorded in sequences:
        columns = (
            [label if label in recorded.values[group] else None for label in column]
            for group, column in recorded.labels.items()
        )
        rows = zip(*columns, strict=True)
        for prompt, row in zip(recorded.prompts, rows, strict=False):
            if prompt is not None:
                found.setdefault(prompt, []).append(dict(zip(recorded.labels, row, strict=True)))
    return found


def keep_neutral_prompts(recorded: RecordedSequence, bias: PromptBias) -> RecordedSequence:
    """Return a sequence in which only items of neutral prompts count, group by group.

    A prompt may fix the age and leave the gender open: its item counts for gender and not for age.
    """
    labels, biased = {}, {}
    for group, column in recorded.labels.items():
        keep = [bias.neutral(prompt, group) for prompt in recorded.prompts]
        labels[group] = tuple(label if kept else None for label, kept in zip(column, keep, strict=True))
        biased[group] = frozenset(i for i, kept in enumerate(keep) if not kept)
    return RecordedSequence(
        f"{recorded.name}, neutral prompts", labels, recorded.values, prompts=recorded.prompts, biased=biased
    )


def _add_item(groups: Mapping[str, RepeatedPrompt], item: ItemLabels) -> None:
    for group, one in groups.items():
        one.add(item.get(group))


# Whether what items show depends on the prompts, or is the generator's own way.

BiasSource: TypeAlias = Literal["prompts", "generator", "unknown"]


class PromptDependence(ResultPart):
    """How much the values of one concept group depend on the prompt.

    Attributes:
        group: the concept group.
        prompts: with at least one recognised item.
        value: the one whose share differs most between two prompts; None where nothing can be compared.
        difference: by how much.
        source: generator: one value comes more than half of the time whichever the prompt. Prompts: none does, and
            their shares do differ. Unknown: neither is shown.
        why: one sentence.
    """

    group: str
    prompts: int
    value: str | None
    difference: Quantity
    source: BiasSource
    why: str


class _ShareSpan(NamedTuple):
    """The difference of the shares of one value between prompts, its bounds, and the least that its share can be."""

    seen: float
    low: float
    high: float
    least: float


def measure_dependence(
    group: str, shown: Mapping[str, Mapping[str, int]], confidence: float = 0.95
) -> PromptDependence:
    """Compare the shares of every value between the prompts.

    The intervals are those of ``sequential_rate``, of all prompts and values together, so they hold whenever
    generating was stopped, as long as items of a prompt are made independently of each other.

    Args:
        group: the concept group.
        shown: prompt -> value -> recognised items that show it.
        confidence: of the interval of the difference.
    """
    counted = {prompt: counts for prompt, counts in shown.items() if sum(counts.values())}
    if len(counted) < 2:
        reason = f"there is {'only one' if counted else 'no'} prompt to compare"
        return PromptDependence(
            group=group,
            prompts=len(counted),
            value=None,
            difference=Unknown(reason=reason),
            source="unknown",
            why=reason,
        )
    values = list(next(iter(counted.values())))
    level = bonferroni(confidence, len(counted) * len(values))
    spans: dict[str, _ShareSpan] = {}
    for value in values:
        cells = [(counts[value], sum(counts.values())) for counts in counted.values()]
        shares = [k / n for k, n in cells]
        ends = [sequential_rate(k, n, level) for k, n in cells]
        lows, highs = zip(*ends, strict=True)
        spans[value] = _ShareSpan(
            max(shares) - min(shares), max(0.0, max(lows) - min(highs)), max(highs) - min(lows), min(lows)
        )
    # The value of the largest difference seen; the bounds are those of the largest difference that there is.
    value = max(spans, key=lambda one: spans[one].seen)
    low, high = max(span.low for span in spans.values()), max(span.high for span in spans.values())
    total = sum(sum(counts.values()) for counts in counted.values())
    difference = Estimated(
        value=spans[value].seen,
        low=low,
        high=min(1.0, high),
        confidence=confidence,
        n=total,
        population="items for these prompts",
        method="mixture likelihood ratio of every share, Bonferroni",
    )
    differ = f"two prompts differ by at least {format_percent(low)} in how often one value comes"
    source: BiasSource = "prompts" if low > 0 else "unknown"
    why = differ if low > 0 else "no difference between prompts is shown, and none is ruled out"
    usual = next((one for one in values if spans[one].least > 0.5), None)
    if usual is not None:
        source = "generator"
        least = format_percent(spans[usual].least)
        why = f"whichever prompt, {usual} comes more than half of the time (at least {least})"
        why += f"; {differ}" if low > 0 else ""
    return PromptDependence(
        group=group, prompts=len(counted), value=value, difference=difference, source=source, why=why
    )

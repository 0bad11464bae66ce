"""Bias of prompts: whether a prompt fixes the values that its items show.

A prompt is biased for a concept group if it fixes the value of the group: "a grandmother" leaves no choice of age or
gender. Inherent fairness applies the requirements of conditional fairness to the items of neutral prompts alone
(Cheng et al., "Conditional Fairness for Generative AIs"). The bias of a prompt is judged by its words, or estimated by
answering the prompt repeatedly until it is clear whether the probability of one value reaches a stated threshold, the
bar.

Estimates remain valid if they are inspected after every item (``evenhand.stats.sequential.betting``). Generation stops
as soon as a verdict is reached, and the stated error holds for the verdicts of all prompts and groups together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Literal, TypeAlias

from evenhand.core.result_part import ResultPart
from evenhand.core.typing import Progress
from evenhand.errors import OptionError
from evenhand.genai.assessment.sequences import RecordedSequence
from evenhand.genai.config import AssessmentConfig, BiasMethod
from evenhand.stats.quantity import Estimated, Quantity, Unknown
from evenhand.stats.sequential.betting import betting_bounds, betting_martingales

BiasVerdict: TypeAlias = Literal["biased", "neutral", "unknown"]

ItemLabels: TypeAlias = Mapping[str, str | None]
"""Value of each concept group. None if it is not recognised."""


class PromptFinding(ResultPart):
    """Bias of one prompt for one concept group.

    Attributes:
        prompt: The prompt.
        group: Name of the concept group.
        verdict: ``biased`` if the prompt fixes the value. Prompts with an unknown verdict are not counted as neutral.
        value: Most frequent value. None if no item is recognised.
        probability: Probability of the most probable value.
        shown: Number of items by value.
        unrecognised: Number of items without a recognised value.
        why: Explanation in one sentence.
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
        """Number of recognised items."""
        return sum(self.shown.values())


class PromptBias(ResultPart):
    """Bias of several prompts for several concept groups.

    Attributes:
        how: Whether prompts were judged by their words, or estimated from their items.
        bar, error: Settings of the estimates.
        findings: Results by prompt and group.
    """

    how: BiasMethod
    bar: float
    error: float
    findings: tuple[PromptFinding, ...]

    def neutral(self, prompt: str | None, group: str) -> bool:
        """Check whether a prompt is known to leave the value of a group open."""
        return any(
            finding.verdict == "neutral"
            for finding in self.findings
            if (finding.prompt, finding.group) == (prompt, group)
        )


class RepeatedPrompt:
    """Sequential test of one prompt and one concept group.

    The hypothesis that no value reaches the bar is tested for every value, each with its part of the error. The
    hypothesis that a given value reaches it is tested with the full error, since a biased prompt is called neutral only
    if its own value is rejected. Both tests depend only on the most frequent value.
    """

    def __init__(self, values: Sequence[str], bar: float, error: float) -> None:
        self._bar, self._above, self._below = bar, len(values) / error, 1 / error
        self.shown: Counter[str] = Counter(dict.fromkeys(values, 0))
        self.unrecognised = 0
        self.verdict: BiasVerdict = "unknown"
        self._decisive: tuple[str, int, int] | None = None

    def add(self, value: str | None) -> None:
        """Add an item. Items after the verdict are counted but do not change it."""
        if value is None or value not in self.shown:
            self.unrecognised += 1
            return
        self.shown[value] += 1
        if self._decisive is not None:
            return
        (top, count), n = self.shown.most_common(1)[0], self.shown.total()
        above, below = betting_martingales(count, n, self._bar)
        if above >= self._above or below >= self._below:
            self.verdict = "biased" if above >= self._above else "neutral"
            self._decisive = (top, count, n)

    @property
    def value(self) -> str | None:
        """Most frequent value. None if no item is recognised."""
        top, count = self.shown.most_common(1)[0]
        return top if count else None

    def probability(self, confidence: float) -> Quantity:
        """Estimate the probability of the most probable value, at a joint level of all prompts and groups."""
        n = self.shown.total()
        if not n:
            return Unknown(reason="no item is recognised")
        count = max(self.shown.values())
        low, high = betting_bounds(count, n, self._above, self._below)
        if self._decisive is not None:
            # The bounds hold at all times simultaneously, so those of the verdict remain valid.
            earlier = betting_bounds(*self._decisive[1:], self._above, self._below)
            low, high = max(low, earlier[0]), min(high, earlier[1])
        return Estimated(
            value=count / n,
            low=low,
            high=high,
            confidence=confidence,
            n=n,
            population="items for this prompt",
            method="betting, valid at any time",
        )

    def why(self) -> str:
        """Explain the verdict in one sentence."""
        if self.value is None:
            return "no item is recognised"
        if self._decisive is None:
            return f"{self.value} in {self.shown[self.value]:,} of {self.shown.total():,} items: too few to decide"
        top, count, n = self._decisive
        reason = (
            "it fixes the value" if self.verdict == "biased" else f"no value appears {100 * self._bar:g} % of the time"
        )
        return f"{top} in {count:,} of the first {n:,} items: {reason}"


def estimate_prompt_bias(
    answered: Mapping[str, Iterable[ItemLabels]],
    values: Mapping[str, Sequence[str]],
    *,
    fixed: Mapping[str, Collection[str]] | None = None,
    terms: AssessmentConfig | None = None,
    draw: Callable[[str], ItemLabels] | None = None,
    progress: Progress | None = None,
) -> PromptBias:
    """Estimate which values each prompt fixes, from repeated generation or from the words of the prompt.

    The items of one prompt must be generated independently of each other. A generator that remembers earlier items, or
    is instructed to vary them, hides the effect of its prompts.

    Args:
        answered: Labels of the items of each prompt, in the order of generation. At least one prompt.
        values: Values of each concept group.
        fixed: Groups whose value each prompt fixes according to a judge. If given, only probabilities are estimated.
        terms: Settings ``bar``, ``error`` and ``repetitions``.
        draw: Function that generates and classifies another item for a prompt. It is called until every group has a
            verdict. If None, only the existing items are used.
        progress: Function called with a description and the completed fraction.

    Raises:
        OptionError: There is no prompt or no group.
    """
    terms = terms or AssessmentConfig()
    if not answered or not values:
        raise OptionError("there is no prompt" if values else "there is no concept group")
    # Bonferroni: the probability that any verdict is wrong is at most ``error``.
    error = terms.error / (len(answered) * len(values))
    findings: list[PromptFinding] = []
    for finished, (prompt, items) in enumerate(answered.items()):
        tests = {group: RepeatedPrompt(own, terms.bar, error) for group, own in values.items()}
        count = 0
        for item in items:
            _add_item(tests, item)
            count += 1
        while (
            draw is not None and count < terms.repetitions and any(test.verdict == "unknown" for test in tests.values())
        ):
            _add_item(tests, draw(prompt))
            count += 1
            if progress is not None:
                progress("repeating prompts", (finished + count / terms.repetitions) / len(answered))
        for group, test in tests.items():
            verdict, why = test.verdict, test.why()
            if fixed is not None:
                biased = group in fixed[prompt]
                verdict = "biased" if biased else "neutral"
                why = f"its words {f'fix the value of {group}' if biased else f'leave the value of {group} open'}"
            findings.append(
                PromptFinding(
                    prompt=prompt,
                    group=group,
                    verdict=verdict,
                    value=test.value,
                    probability=test.probability(1 - 2 * terms.error),
                    shown=dict(test.shown),
                    unrecognised=test.unrecognised,
                    why=why,
                )
            )
    how: BiasMethod = "estimated" if fixed is None else "judged"
    return PromptBias(how=how, bar=terms.bar, error=terms.error, findings=tuple(findings))


def _add_item(tests: Mapping[str, RepeatedPrompt], item: ItemLabels) -> None:
    for group, test in tests.items():
        test.add(item.get(group))


def answers_by_prompt(sequences: Iterable[RecordedSequence]) -> dict[str, list[ItemLabels]]:
    """Collect the labels of the items of each prompt, in order. Items without a prompt are ignored."""
    answers: dict[str, list[ItemLabels]] = {}
    for recorded in sequences:
        columns = (
            [label if label in recorded.values[group] else None for label in column]
            for group, column in recorded.labels.items()
        )
        for prompt, row in zip(recorded.prompts, zip(*columns, strict=True), strict=False):
            if prompt is not None:
                answers.setdefault(prompt, []).append(dict(zip(recorded.labels, row, strict=True)))
    return answers


def keep_neutral_prompts(recorded: RecordedSequence, bias: PromptBias) -> RecordedSequence:
    """Remove the labels of items whose prompt is not neutral, separately for each group.

    A prompt may fix the age and leave the gender open. Its item then counts for gender, but not for age.
    """
    labels, biased = {}, {}
    for group, column in recorded.labels.items():
        neutral = [bias.neutral(prompt, group) for prompt in recorded.prompts]
        labels[group] = tuple(label if keep else None for label, keep in zip(column, neutral, strict=True))
        biased[group] = frozenset(i for i, keep in enumerate(neutral) if not keep)
    return replace(recorded, name=f"{recorded.name}, neutral prompts", labels=labels, files=(), biased=biased, fixed={})

"""What a published method is given and gives."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from evenhand.core.time_limit import NEVER, TimeLimit
from evenhand.core.typing import Booleans, Floats, Integers, Progress
from evenhand.errors import OptionError
from evenhand.models.scorer import BATCH_ROWS, Scorer
from evenhand.schema.people import People
from evenhand.subgroups.config import SubgroupConfig
from evenhand.subgroups.cuts import AttributeCut
from evenhand.subgroups.result import AttributeCells, Finding
from evenhand.subgroups.rules import Rules


class PublishedMethod(Protocol):
    """One search by a published method."""

    def __call__(
        self, scorer: Scorer, people: People, config: SubgroupConfig, progress: Progress, limit: TimeLimit
    ) -> dict[str, Any]:
        """Return everything of a ``SubgroupResult`` that depends on the method.

        Args:
            scorer, people, config, progress: as for ``find_subgroups``.
            limit: when time is up.

        Raises:
            OptionError: the method does not know an option that was set.
        """
        ...


def check_options(config: SubgroupConfig, *measures: str, deaf_to: Collection[str] = ()) -> None:
    """Refuse what a published method does not know, instead of ignoring it.

    Args:
        config: the options.
        measures: what the method can compare.
        deaf_to: options that must be left at their defaults, besides ``per``, ``judged`` and ``budget``, which no
            published method knows.
    """
    if config.measure not in measures:
        raise OptionError(
            f"the method {config.method!r} does not compare by {config.measure!r}",
            hint=f"one of: {', '.join(measures)}; or the method 'exact'",
        )
    default = SubgroupConfig()
    for name in ("per", "judged", "budget", *deaf_to):
        if getattr(config, name) != getattr(default, name):
            option = "judge" if name == "judged" else name.replace("_", "-")
            raise OptionError(
                f"the published method {config.method!r} has no option {option!r}",
                hint="leave it out, or use the method 'exact'",
            )


def sensitive_names(people: People, config: SubgroupConfig) -> tuple[str, ...]:
    """Return the names of the sensitive attributes."""
    return tuple(config.attributes or people.schema.protected)


def describe_cuts(cuts: Collection[AttributeCut]) -> tuple[AttributeCells, ...]:
    """Return the cuts as a result shows them."""
    return tuple(AttributeCells(name=cut.attribute, cells=cut.names, ordered=cut.ordered) for cut in cuts)


# Asking a model about samples until a normal margin is small enough: the loop that published methods share.

Draw: TypeAlias = Callable[[int, int, int, np.random.Generator], NDArray[Any]]
"""``draw(question, side, n, rng)``: n samples for one side of a question, to be asked about."""

Ask: TypeAlias = Callable[[NDArray[Any]], Booleans]
"""Which of the samples the model decides favourably."""

FEWEST_MORE = 32
"""Samples drawn at least whenever a question needs more; those after its stop are not used."""


@dataclass(frozen=True)
class SampledRates:
    """What was seen of each question by the time it stopped.

    Attributes:
        n: samples on each side, shape (questions,); 0 where the time ran out first.
        k: how many of them were decided favourably, shape (questions, sides).
        margins: the normal margin at the stop, summed over the sides, shape (questions,).
        asked: samples the model was asked about in all.
        cut_short: whether the time ran out or somebody interrupted.
    """

    n: Integers
    k: Integers
    margins: Floats
    asked: int
    cut_short: bool

    @cached_property
    def rates(self) -> Floats:
        """Share of the samples of each side that were decided favourably, shape (questions, sides)."""
        return np.asarray(self.k / np.maximum(self.n[:, None], 1))

    @cached_property
    def gaps(self) -> Floats:
        """Difference of the rates of the first two sides, shape (questions,)."""
        rates = self.rates
        return np.asarray(rates[:, 0] - rates[:, 1])


def describe_sampled(seen: SampledRates, which: int, rules: Rules, words: str, size: int, rest: int) -> Finding:
    """Return what was seen of one rule set as a finding: its interval is the gap and the summed margins around it."""
    (rate, rest_rate), gap, margin = seen.rates[which, :2].tolist(), float(seen.gaps[which]), float(seen.margins[which])
    low, high = max(gap - margin, -1.0), min(gap + margin, 1.0)
    return Finding(
        rules=rules,
        words=words,
        size=size,
        rest=rest,
        positives=None,
        rest_positives=None,
        rate=rate,
        rest_rate=rest_rate,
        gap=gap,
        low=low,
        high=high,
        plain_low=low,
        plain_high=high,
        z=None,
        adjusted_p=None,
        found=abs(gap) > margin,
        samples=int(seen.n[which]),
    )


def summed_margin(k: Integers, n: Integers, z: float) -> Floats:
    """``sum over sides of z sqrt(p (1 - p) / n)`` with p = k / n: k of shape (..., sides), n of shape (...)."""
    p = k / n[..., None]
    return np.asarray(z * np.sqrt(p * (1 - p) / n[..., None]).sum(axis=-1))


class StoppingRule(NamedTuple):
    """When a question has samples enough.

    Attributes:
        more_than: no question stops before it has more samples than this on each side.
        margin, z: it stops where ``sum over sides of z sqrt(p (1 - p) / n)`` is at most the margin, which comes after
            at most ``(z sides / (2 margin))**2`` samples, or ``more_than`` + 1.
    """

    more_than: int
    margin: float
    z: float


def sample_until_margin(
    questions: int,
    sides: int,
    draw: Draw,
    ask: Ask,
    *,
    rule: StoppingRule,
    seed: int,
    limit: TimeLimit = NEVER,
    progress: Callable[[float], None] | None = None,
) -> SampledRates:
    """Draw for every side of every question, one sample at a time, until the summed margin is at most ``margin``.

    A question stops at the very sample at which a loop of single draws would stop. The draws are made in blocks and the
    model is asked in batches, many questions in one; what lies behind a question's stop is thrown away. Every question
    has random numbers of its own, so its answer does not depend on the others.

    Args:
        questions: how many there are.
        sides: how many proportions each compares; 1 for the estimate of one proportion.
        draw, ask: where samples come from, and what is counted.
        rule: when to stop.
        seed: of all random numbers.
        limit: when time is up; questions that are still open then are left out.
        progress: called with the share of questions done.

    Raises:
        KeyboardInterrupt: somebody interrupted before any question stopped; later, what was seen is returned.
    """
    rngs: dict[int, np.random.Generator] = {}
    n, k = np.zeros(questions, dtype=np.int64), np.zeros((questions, sides), dtype=np.int64)
    margins = np.full(questions, np.inf)
    waiting, asked, cut_short = deque(range(questions)), 0, False
    wanted = np.full(questions, rule.more_than + 1)
    block: list[int] = []
    try:
        while waiting:
            if limit.passed():
                cut_short = True
                break
            block = _next_batch(waiting, wanted, sides)
            for question in block:
                rngs.setdefault(question, np.random.default_rng((seed, question)))
            # By question and then by side, each a run of as many samples.
            samples = [draw(q, side, int(wanted[q]), rngs[q]) for q in block for side in range(sides)]
            favourable = ask(np.concatenate(samples))
            asked += len(favourable)
            start, unfinished = 0, []
            for question in block:
                end = start + int(wanted[question]) * sides
                seen = favourable[start:end].reshape(sides, -1).T
                start = end
                counts = k[question] + np.cumsum(seen, axis=0)
                sizes = n[question] + np.arange(1, len(seen) + 1)
                reached = summed_margin(counts, sizes, rule.z)
                small = (sizes > rule.more_than) & (reached <= rule.margin)
                last = int(np.argmax(small)) if small.any() else len(seen) - 1
                n[question], k[question], margins[question] = sizes[last], counts[last], reached[last]
                if small.any():
                    del rngs[question]
                else:
                    # A margin falls with the root of the samples: so many in all should do.
                    enough = int(n[question] * (reached[last] / rule.margin) ** 2) + 1
                    wanted[question] = max(enough - int(n[question]), FEWEST_MORE)
                    unfinished.append(question)
            waiting.extendleft(reversed(unfinished))
            block = []
            if progress is not None:
                progress(1 - len(waiting) / questions)
    except KeyboardInterrupt:
        if len(waiting) + len(block) == questions:
            raise
        cut_short = True
    n[[*waiting, *block]] = 0
    return SampledRates(n, k, margins, asked, cut_short)


def _next_batch(waiting: deque[int], wanted: Integers, sides: int) -> list[int]:
    """Return the first questions taken out of those waiting, as many as fit into one batch; at least one."""
    block = [waiting.popleft()]
    rows = int(wanted[block[0]]) * sides
    while waiting and rows + int(wanted[waiting[0]]) * sides <= BATCH_ROWS:
        rows += int(wanted[waiting[0]]) * sides
        block.append(waiting.popleft())
    return block

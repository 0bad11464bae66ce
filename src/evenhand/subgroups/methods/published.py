"""Sampling loop of the published method, and its findings."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from evenhand.core.time_limit import NEVER, TimeLimit
from evenhand.core.typing import Booleans, Floats, Integers
from evenhand.models.scorer import BATCH_ROWS
from evenhand.subgroups.result import Finding
from evenhand.subgroups.rules import Rules, describe_rules

Draw: TypeAlias = Callable[[int, int, int, np.random.Generator], NDArray[Any]]
"""``draw(question, side, n, rng)``: n samples for one side of a question."""

Ask: TypeAlias = Callable[[NDArray[Any]], Booleans]
"""Function that determines which samples the model decides favourably."""

MIN_MORE = 32
"""Minimum number of additional samples per draw. Samples drawn after the stopping point of a question are not used."""


@dataclass(frozen=True)
class SampledRates:
    """Rates of each question at its stopping point.

    Attributes:
        n: Number of samples on each side, shape (questions,). 0 if the time limit came first.
        k: Number of favourable samples, shape (questions, sides).
        margins: Normal margin, summed over the sides, shape (questions,).
        queries: Total number of samples sent to the model.
        cut_short: Whether the time limit or an interrupt ended the sampling.
    """

    n: Integers
    k: Integers
    margins: Floats
    queries: int
    cut_short: bool

    @cached_property
    def rates(self) -> Floats:
        """Favourable rate of each side, shape (questions, sides)."""
        return np.asarray(self.k / np.maximum(self.n[:, None], 1))

    @cached_property
    def gaps(self) -> Floats:
        """Difference of the rates of the first two sides, shape (questions,)."""
        return np.asarray(self.rates[:, 0] - self.rates[:, 1])


def sampled_finding(
    rules: Rules,
    rates: tuple[float, float],
    margin: float,
    *,
    size: int,
    rest_size: int,
    samples: int,
    words: str | None = None,
) -> Finding:
    """Build a finding from sampled rates; its interval is the gap plus or minus the summed margins."""
    gap = rates[0] - rates[1]
    low, high = max(gap - margin, -1.0), min(gap + margin, 1.0)
    return Finding(
        rules=rules,
        words=describe_rules(rules) if words is None else words,
        size=size,
        rest=rest_size,
        rate=rates[0],
        rest_rate=rates[1],
        gap=gap,
        low=low,
        high=high,
        plain_low=low,
        plain_high=high,
        found=abs(gap) > margin,
        samples=samples,
    )


def summed_margin(k: Integers, n: Integers, z: float) -> Floats:
    """Compute ``sum over sides of z sqrt(p (1 - p) / n)`` with p = k / n; k (..., sides), n (...)."""
    p = k / n[..., None]
    return np.asarray(z * np.sqrt(p * (1 - p) / n[..., None]).sum(axis=-1))


class StoppingRule(NamedTuple):
    """Number of samples of a question.

    Attributes:
        more_than: No question stops before it has more samples than this on each side.
        margin, z: A question stops when ``sum over sides of z sqrt(p (1 - p) / n)`` is at most the margin, after at
            most ``(z sides / (2 margin))**2`` or ``more_than`` + 1 samples.
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
    """Sample all sides of every question until the summed margin is at most ``rule.margin``.

    Each question stops at the same sample as in a loop of single draws. Samples are drawn in blocks and sent to the
    model in batches of several questions; those after a question's stop are discarded. Each question has its own random
    numbers, independent of the other questions.

    Args:
        questions: Number of questions.
        sides: Number of proportions per question, 1 to estimate a single proportion.
        draw, ask: Functions that draw samples and send them to the model.
        rule: Stopping rule.
        seed: Seed of the random numbers.
        limit: Time limit, at which unfinished questions are left out.
        progress: Called with the share of finished questions.

    Raises:
        KeyboardInterrupt: Interrupted before any question was finished. Later interrupts return the finished questions.
    """
    rngs: dict[int, np.random.Generator] = {}
    n, k = np.zeros(questions, dtype=np.int64), np.zeros((questions, sides), dtype=np.int64)
    margins = np.full(questions, np.inf)
    waiting, queries, cut_short = deque(range(questions)), 0, False
    needed = np.full(questions, rule.more_than + 1)
    block: list[int] = []
    try:
        while waiting:
            if limit.passed():
                cut_short = True
                break
            block = _next_batch(waiting, needed, sides)
            for question in block:
                rngs.setdefault(question, np.random.default_rng((seed, question)))
            # Samples are ordered by question, then by side.
            samples = [draw(q, side, int(needed[q]), rngs[q]) for q in block for side in range(sides)]
            favourable = ask(np.concatenate(samples))
            queries += len(favourable)
            start, unfinished = 0, []
            for question in block:
                end = start + int(needed[question]) * sides
                favourable_draws = favourable[start:end].reshape(sides, -1).T
                start = end
                counts = k[question] + np.cumsum(favourable_draws, axis=0)
                sizes = n[question] + np.arange(1, len(favourable_draws) + 1)
                reached = summed_margin(counts, sizes, rule.z)
                small = (sizes > rule.more_than) & (reached <= rule.margin)
                stop = int(np.argmax(small)) if small.any() else len(favourable_draws) - 1
                n[question], k[question], margins[question] = sizes[stop], counts[stop], reached[stop]
                if small.any():
                    del rngs[question]
                else:
                    # The margin is inversely proportional to the root of the number of samples.
                    enough = int(n[question] * (reached[stop] / rule.margin) ** 2) + 1
                    needed[question] = max(enough - int(n[question]), MIN_MORE)
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
    return SampledRates(n, k, margins, queries, cut_short)


def _next_batch(waiting: deque[int], needed: Integers, sides: int) -> list[int]:
    """Remove the first waiting questions that fit into one batch, at least one."""
    block = [waiting.popleft()]
    rows = int(needed[block[0]]) * sides
    while waiting and rows + int(needed[waiting[0]]) * sides <= BATCH_ROWS:
        rows += int(needed[waiting[0]]) * sides
        block.append(waiting.popleft())
    return block

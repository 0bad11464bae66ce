"""Asking a model about samples until a normal margin is small enough: the loop that published methods share."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from evenhand.models.scorer import BATCH

Draw: TypeAlias = Callable[[int, int, int, np.random.Generator], NDArray[Any]]
"""``draw(question, side, n, rng)``: n samples for one side of a question, to be asked about."""

Ask: TypeAlias = Callable[[NDArray[Any]], NDArray[np.bool_]]
"""Which of the samples the model decides favourably."""

FEWEST_MORE = 32
"""Samples drawn at least whenever a question needs more; those after its stop are not used."""


@dataclass(frozen=True)
class Sampled:
    """What was seen of each question by the time it stopped.

    Attributes:
        n: samples on each side, shape (questions,); 0 where the time ran out first.
        k: how many of them were decided favourably, shape (questions, sides).
        margins: the normal margin at the stop, summed over the sides, shape (questions,).
        asked: samples the model was asked about in all.
        cut_short: whether the time ran out or somebody interrupted.
    """

    n: NDArray[np.int64]
    k: NDArray[np.int64]
    margins: NDArray[np.float64]
    asked: int
    cut_short: bool


def summed_margin(k: NDArray[np.int64], n: NDArray[np.int64], z: float) -> NDArray[np.float64]:
    """``sum over sides of z sqrt(p (1 - p) / n)`` with p = k / n: k of shape (..., sides), n of shape (...)."""
    p = k / n[..., None]
    return np.asarray(z * np.sqrt(p * (1 - p) / n[..., None]).sum(axis=-1))


def until_margin(
    questions: int,
    sides: int,
    draw: Draw,
    ask: Ask,
    *,
    more_than: int,
    margin: float,
    z: float,
    seed: int,
    deadline: float | None = None,
    progress: Callable[[float], None] | None = None,
) -> Sampled:
    """Draw for every side of every question, one sample at a time, until the summed margin is at most ``margin``.

    A question stops at the very sample at which a loop of single draws would stop. The draws are made in blocks and the
    model is asked in batches, many questions in one; what lies behind a question's stop is thrown away. Every question
    has random numbers of its own, so its answer does not depend on the others.

    Args:
        questions: how many there are.
        sides: how many proportions each compares; 1 for the estimate of one proportion.
        draw, ask: where samples come from, and what is counted.
        more_than: no question stops before it has more samples than this on each side.
        margin, z: when to stop. It comes after at most ``(z sides / (2 margin))**2`` samples, or ``more_than`` + 1.
        seed: of all random numbers.
        deadline: on the clock of ``time.perf_counter``; questions that are still open then are left out.
        progress: called with the share of questions done.

    Raises:
        KeyboardInterrupt: somebody interrupted before any question stopped; later, what was seen is returned.
    """
    rngs: dict[int, np.random.Generator] = {}
    n, k = np.zeros(questions, dtype=np.int64), np.zeros((questions, sides), dtype=np.int64)
    margins = np.full(questions, np.inf)
    waiting, asked, cut_short = deque(range(questions)), 0, False
    wanted = np.full(questions, more_than + 1)
    block: list[int] = []
    try:
        while waiting:
            if deadline is not None and time.perf_counter() > deadline:
                cut_short = True
                break
            block = _block(waiting, wanted, sides)
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
                reached = summed_margin(counts, sizes, z)
                small = (sizes > more_than) & (reached <= margin)
                last = int(np.argmax(small)) if small.any() else len(seen) - 1
                n[question], k[question], margins[question] = sizes[last], counts[last], reached[last]
                if small.any():
                    del rngs[question]
                else:
                    enough = int(n[question] * (reached[last] / margin) ** 2) + 1
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
    return Sampled(n, k, margins, asked, cut_short)


def _block(waiting: deque[int], wanted: NDArray[np.int64], sides: int) -> list[int]:
    """The first questions taken out of those waiting, as many as fit into one batch; at least one."""
    block = [waiting.popleft()]
    rows = int(wanted[block[0]]) * sides
    while waiting and rows + int(wanted[waiting[0]]) * sides <= BATCH:
        rows += int(wanted[waiting[0]]) * sides
        block.append(waiting.popleft())
    return block

"""Sequential test of whether differences between two answers are repeatable or noise of the model.

Two answers of a nondeterministic model can differ by chance. Each difference is therefore queried again, both
sides per round, until enough rounds reproduce it. Under the null hypothesis both sides have the same distribution of
answers, so that a round repeats a difference between the labels x and y with probability ``P(x) P(y) <= 1/4``, and a
difference between numbers in the same direction with probability at most 1/2.

The evidence against the null hypothesis is an e-process (Shafer, "Testing by betting", JRSS A 2021): a round that
repeats multiplies it by ``b / c``, any other by ``(1 - b) / (1 - c)``, where c is the bound above and b > c. It is
averaged over the bets b, so it also detects differences that repeat often, but not always. By Ville's inequality the
test remains valid when it is evaluated after every round. Over many differences the false discovery rate is controlled
by the e-BH procedure (Wang & Ramdas, "False discovery rate control with e-values", JRSS B 2022).

If all n differences repeat in each of r rounds, they are confirmed once ``c^r / n`` is small enough: k false
differences would all repeat with probability ``c^(k r)``, so the expected share of false differences is at most ``c^r /
n``. This keeps the cost low for deterministic models: 2 questions per difference if there are many.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from evenhand.core.time_limit import NEVER, TimeLimit
from evenhand.core.typing import Booleans, Floats, Integers

SAME_LABELS = 0.25
"""Largest probability that two answers from the same distribution repeat a pair of different labels."""

SAME_DIRECTION = 0.5
"""Largest probability that two answers from the same distribution differ in a given direction."""

BETS = np.array([0.9, 0.6])
"""Probabilities, under the alternative hypotheses, that a round repeats a real difference."""

ROUNDS = 15
"""Maximum number of rounds."""

USUAL_ROUNDS = 4
"""Number of rounds usually needed to confirm a difference that always repeats."""

GIVE_UP = 0.2
"""Evidence below which a difference is not queried again, after two rounds without repetition."""

ALL_REPEAT_SHARE = 0.2
"""Share of the error rate that is spent on confirming all differences at once."""

FEW = 20
"""Number of differences that are tested even if the time limit has passed."""


class Repetition(NamedTuple):
    """Result of the test of repeatability.

    Attributes:
        confirmed: Whether each difference is confirmed, shape (n,).
        tested: Number of tested differences, starting with the first. A budget or a time limit may exclude the others.
    """

    confirmed: Booleans
    tested: int


def confirm_repeats(
    repeat: Callable[[Integers], Booleans],
    n: int,
    *,
    chance: float = SAME_LABELS,
    confidence: float = 0.95,
    affordable: Callable[[], float] = lambda: np.inf,
    step: int = 65_536,
    limit: TimeLimit = NEVER,
) -> Repetition:
    """Test n differences again until each is confirmed or abandoned.

    Args:
        repeat: Query the differences at the given positions again and return whether each is reproduced.
        n: Number of differences, which are ordered from most to least important.
        chance: Largest probability that a round repeats a difference that is noise.
        confidence: 1 minus the false discovery rate.
        affordable: Return the number of differences that can be queried once each within the remaining budget.
        step: Number of differences queried between two checks of the time limit.
        limit: Time limit.
    """
    error, all_error = (1 - ALL_REPEAT_SHARE) * (1 - confidence), ALL_REPEAT_SHARE * (1 - confidence)
    wealth = np.ones((n, len(BETS)))
    confirmed = np.zeros(n, dtype=np.bool_)
    active, tested, all_repeat = np.arange(n), n, True
    for number in range(ROUNDS):
        left = max(0.0, affordable())
        missing = max(1, USUAL_ROUNDS - number)
        if all_repeat:
            rounds = (r for r in range(1, missing) if chance ** (number + r) <= all_error * min(tested, left / r))
            missing = next(rounds, missing)
        fitting = int(min(len(active), left / missing))
        if number and limit.passed():
            fitting = min(fitting, FEW)
        if fitting < len(active):
            tested = int(active[fitting])
            active = active[:fitting]
        asked = 0
        while asked < len(active) and not (asked and number == 0 and limit.passed()):
            part = active[asked : asked + step]
            repeats = repeat(part)
            wealth[part] *= np.where(repeats[:, None], BETS / chance, (1 - BETS) / (1 - chance))
            all_repeat &= bool(repeats.all())
            asked += len(part)
        if asked < len(active):
            tested = int(active[asked])
        if tested == 0:
            break
        if all_repeat and chance ** (number + 1) <= all_error * tested:
            confirmed[:tested] = True
            break
        evidence = wealth[:tested].mean(axis=1)
        confirmed[:tested] = _select_evident(evidence, error)
        active = np.flatnonzero(~confirmed[:tested] & (evidence >= GIVE_UP))
        if len(active) == 0:
            break
    confirmed[tested:] = False
    return Repetition(confirmed, tested)


def _select_evident(evidence: Floats, error: float) -> Booleans:
    """Mark the null hypotheses that the e-BH procedure rejects, shape (n,)."""
    n = len(evidence)
    order = np.argsort(-evidence, kind="stable")
    reached = np.flatnonzero(evidence[order] * np.arange(1, n + 1) >= n / error)
    selected = np.zeros(n, dtype=np.bool_)
    if len(reached):
        selected[order[: reached[-1] + 1]] = True
    return selected

"""Bets on blocks of decisions: evidence, valid at any time, that two groups fare differently, in constant memory.

A block of a comparison closes once it contains ``smallest`` events of each side. With means a and b of its sides, and
the harmonic mean h of its sizes, each stake s bets against a hypothesis,

    W_s <- (W_s + new capital) * (1 + min(1/L, s h) x),    x = a - b - d   for "a - b <= d",
                                                           x = r b - a     for "a >= r b",

where x >= -L, and in the other direction with a and b exchanged. As E[x | past] <= 0 under the hypothesis, W = sum(W_s)
less the capital paid in is a supermartingale (Waudby-Smith and Ramdas, JRSS B 2024). With a total capital of 1, W
ever reaches 1/a with probability a at most (Ville). Capital that is paid in later finds later changes (Shin, Ramdas and
Rinaldo, "E-detectors", 2023). The order of people must not depend on the outcomes in the open block; rates may change
together in any way.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from evenhand.core.kernels import compile_kernel
from evenhand.core.typing import Floats, Integers

STAKES = 0.4 * 2.0 ** -np.arange(6)
"""Stakes, divided by the harmonic mean size of a block. For a difference g in outcomes of variance v, the best stake is
g / 2v.
"""
PARTS = 1 / np.arange(1.0, 7.0) / (1 / np.arange(1.0, 7.0)).sum()
"""Share of the capital at each stake: more at the high stakes, which decide early."""
APART = 0.2
"""Maximum difference between the guesses of the two means. It limits the range of the deviations."""
MOST = 1e280
"""Maximum wealth: far above any threshold, so that products stay finite."""

OPEN_FIRST, OPEN_FIRST_SUM, OPEN_SECOND, OPEN_SECOND_SUM = 0, 1, 2, 3
BLOCKS, SUM_FIRST, SUM_SECOND, SQUARES_FIRST, PRODUCTS, SQUARES_SECOND = 4, 5, 6, 7, 8, 9
FIRST, FIRST_SUM, SECOND, SECOND_SUM = 10, 11, 12, 13
RECENT, RECENT_FIRST, RECENT_SECOND, RECENT_AT = 14, 15, 16, 17
PAID, ALARM, OTHER_ALARM = 18, 19, 20
FIELDS = 21
"""Columns of the state of a comparison."""


class BetPlan(NamedTuple):
    """Parameters of the bets on a measure, shared by all its comparisons.

    Attributes:
        ratio: Whether the hypotheses are about ratios.
        paired: Whether each event is one block with both sides.
        smallest: Minimum number of events of each side in a block.
        bound: The bound d or r.
        least: The bound L with x >= -L.
        threshold: Wealth that raises an alarm.
        start, further, payments: Capital at the start, capital paid in at each period, and number of these periods.
        period, half_life: Length of a period, and number of decisions after which a block counts half in the recent
            gap.
    """

    ratio: bool
    paired: bool
    smallest: int
    bound: float
    least: float
    threshold: float
    start: float
    further: float
    payments: int
    period: int
    half_life: float


def open_blocks(comparisons: int, plan: BetPlan) -> tuple[Floats, Floats]:
    """Build the state (comparisons, FIELDS) and the wealth (comparisons, 2, stakes) before the first event."""
    wealth = np.empty((comparisons, 2, len(STAKES)))
    wealth[:] = plan.start * PARTS
    return np.zeros((comparisons, FIELDS)), wealth


@compile_kernel()
def bet_on_blocks(
    state: Floats, wealth: Floats, sides: Integers, outcomes: Floats, clock: Integers, plan: BetPlan, begin: int
) -> int:
    """Add events in their order until one raises an alarm.

    Args:
        state, wealth: Changed in place.
        sides: Side of each event, (events, comparisons): 0 first, 1 second, -1 none.
        outcomes: Outcomes, (events, 1); in a paired measure label and score, (events, 2).
        clock: Number of decisions at each event.
        plan: Parameters of the bets.
        begin: Position of the first event.

    Returns:
        Position after the last added event. ``state`` holds the clock of a new alarm.
    """
    events, comparisons = len(sides), sides.shape[1]
    for i in range(begin, events):
        alarmed = False
        for k in range(comparisons):
            side = sides[i, k]
            if side < 0:
                continue
            row = state[k]
            if side == 0 or plan.paired:
                row[OPEN_FIRST] += 1
                row[OPEN_FIRST_SUM] += outcomes[i, 0]
            if side == 1 or plan.paired:
                row[OPEN_SECOND] += 1
                row[OPEN_SECOND_SUM] += outcomes[i, 1] if plan.paired else outcomes[i, 0]
            if min(row[OPEN_FIRST], row[OPEN_SECOND]) >= plan.smallest:
                alarmed |= _close_block(row, wealth[k], clock[i], plan)
        if alarmed:
            return i + 1
    return events


@compile_kernel(internal=True)
def _close_block(row: Floats, wealth: Floats, now: int, plan: BetPlan) -> bool:
    """Settle the bets on a block, and return whether it raises a new alarm."""
    size_a, size_b = row[OPEN_FIRST], row[OPEN_SECOND]
    a, b = row[OPEN_FIRST_SUM] / size_a, row[OPEN_SECOND_SUM] / size_b
    size = 2 * size_a * size_b / (size_a + size_b)
    # New capital depends on the clock alone, and is paid in before the block is settled.
    payments = min(now // plan.period, plan.payments)
    paid = (payments - row[PAID]) * plan.further
    row[PAID] = payments
    new = False
    for way in range(2):
        x = plan.bound * b - a if plan.ratio else a - b - plan.bound
        total = 0.0
        for s in range(len(STAKES)):
            grown = (wealth[way, s] + paid * PARTS[s]) * (1 + min(1 / plan.least, STAKES[s] * size) * x)
            wealth[way, s] = min(max(grown, 0.0), MOST)
            total += wealth[way, s]
        if total >= plan.threshold and row[ALARM + way] == 0:
            row[ALARM + way] = now
            new = True
        a, b = b, a
    # The guesses of the interval are the means before this block, moved together if they are far apart.
    guess_a = min(max((row[SUM_FIRST] + 0.5) / (row[BLOCKS] + 1), 0.0), 1.0)
    guess_b = min(max((row[SUM_SECOND] + 0.5) / (row[BLOCKS] + 1), 0.0), 1.0)
    excess = (abs(guess_a - guess_b) - APART) / 2
    if excess > 0:
        toward = excess if guess_a < guess_b else -excess
        guess_a, guess_b = guess_a + toward, guess_b - toward
    row[SQUARES_FIRST] += (a - guess_a) ** 2
    row[PRODUCTS] += (a - guess_a) * (b - guess_b)
    row[SQUARES_SECOND] += (b - guess_b) ** 2
    row[BLOCKS] += 1
    row[SUM_FIRST] += a
    row[SUM_SECOND] += b
    row[FIRST] += size_a
    row[FIRST_SUM] += row[OPEN_FIRST_SUM]
    row[SECOND] += size_b
    row[SECOND_SUM] += row[OPEN_SECOND_SUM]
    remaining = 0.5 ** ((now - row[RECENT_AT]) / plan.half_life)
    row[RECENT] = remaining * row[RECENT] + size
    row[RECENT_FIRST] = remaining * row[RECENT_FIRST] + size * a
    row[RECENT_SECOND] = remaining * row[RECENT_SECOND] + size * b
    row[RECENT_AT] = now
    row[OPEN_FIRST : OPEN_SECOND_SUM + 1] = 0
    return new

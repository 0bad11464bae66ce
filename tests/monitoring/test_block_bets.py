"""Bets on blocks: by hand, against a plain reference, as supermartingales by enumeration, and over whole runs."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenhand.monitoring import blocks
from evenhand.monitoring.blocks import BetPlan, bet_on_blocks, open_blocks


def plan(**changed):
    usual = {
        "ratio": False,
        "paired": False,
        "smallest": 2,
        "bound": 0.1,
        "least": 1.1,
        "threshold": math.inf,
        "start": 0.8,
        "further": 0.05,
        "payments": 4,
        "period": 2,
        "half_life": 100.0,
    }
    return BetPlan(**(usual | changed))


def bet(plan, sides, outcomes, clock=None):
    """State and wealth after all events of one comparison."""
    state, wealth = open_blocks(1, plan)
    sides = np.array(sides, dtype=np.int64).reshape(-1, 1)
    outcomes = np.array(outcomes, dtype=float).reshape(-1, 1)
    clock = np.arange(1, len(sides) + 1) if clock is None else np.array(clock)
    done = 0
    while done < len(sides):
        done = bet_on_blocks(state, wealth, sides, outcomes, clock, plan, done)
    return state[0], wealth[0]


def reference(plan, sides, outcomes):
    """The formulas of the module, one event at a time, in plain Python."""
    start = [plan.start * float(part) for part in blocks.PARTS]
    ways, paid, first, second = [list(start), list(start)], 0, [], []
    for now, (side, outcome) in enumerate(zip(sides, outcomes, strict=True), start=1):
        if side == 0:
            first.append(outcome)
        elif side == 1:
            second.append(outcome)
        if side < 0 or min(len(first), len(second)) < plan.smallest:
            continue
        means = (sum(first) / len(first), sum(second) / len(second))
        size = 2 / (1 / len(first) + 1 / len(second))
        due = min(now // plan.period, plan.payments)
        for way, (a, b) in enumerate((means, means[::-1])):
            x = plan.bound * b - a if plan.ratio else a - b - plan.bound
            for i, stake in enumerate(blocks.STAKES):
                capital = ways[way][i] + (due - paid) * plan.further * blocks.PARTS[i]
                ways[way][i] = max(capital * (1 + min(1 / plan.least, stake * size) * x), 0)
        paid, first, second = due, [], []
    return ways


def test_a_block_by_hand():
    # Means 1 and 1/2, sizes 2 and 2: x = 0.5 - 0.1 = 0.4; the harmonic mean is 2, two periods are over.
    state, wealth = bet(plan(), [0, 1, 0, 1], [1, 0, 1, 1])
    capital = 0.8 + 2 * 0.05
    expected = sum(
        capital * p * (1 + min(1 / 1.1, 2 * s) * 0.4) for p, s in zip(blocks.PARTS, blocks.STAKES, strict=True)
    )
    assert wealth[0].sum() == pytest.approx(expected)
    assert state[blocks.BLOCKS] == 1
    assert state[blocks.FIRST_SUM] == 2


@given(
    st.lists(st.tuples(st.sampled_from([-1, 0, 1]), st.integers(0, 1)), max_size=40), st.booleans(), st.integers(1, 4)
)
def test_bets_are_those_of_the_plain_formulas(events, ratio, smallest):
    one = plan(ratio=ratio, smallest=smallest, bound=0.8 if ratio else 0.1, least=1.0 if ratio else 1.1)
    sides, outcomes = [side for side, _ in events], [outcome for _, outcome in events]
    _, wealth = bet(one, sides, outcomes)
    assert wealth == pytest.approx(np.array(reference(one, sides, outcomes)))


@pytest.mark.parametrize("ratio", [False, True])
@pytest.mark.parametrize("smallest", [1, 2])
def test_wealth_is_a_supermartingale_for_all_outcomes_of_six_events(ratio, smallest):
    # At the edge of the hypothesis the expected wealth is the capital paid in so far, whoever comes in which order.
    bound = 0.5 if ratio else 0.2
    one = plan(ratio=ratio, smallest=smallest, bound=bound, least=1.0 if ratio else 1.2)
    rates = (0.3, 0.6) if ratio else (0.6, 0.4)
    for sides in itertools.product((0, 1), repeat=6):
        expected, capital = np.zeros(2), 0.0
        for outcomes in itertools.product((0, 1), repeat=6):
            chance = math.prod(rates[s] if y else 1 - rates[s] for s, y in zip(sides, outcomes, strict=True))
            state, wealth = bet(one, sides, outcomes)
            expected += chance * wealth.sum(axis=1)
            capital = 0.8 + 0.05 * state[blocks.PAID]
        # The first direction bets against the hypothesis that holds with equality, the second against one that is far.
        assert expected[0] == pytest.approx(capital)
        assert expected[1] <= capital + 1e-12


def test_the_bound_of_an_interval_is_a_supermartingale_for_all_outcomes_of_six_events():
    # exp(L (S - E S) - psi(L) V) with the guesses that the kernel makes, whose rates drift from event to event.
    rates = {0: (0.2, 0.5, 0.9, 0.4, 0.6, 0.8), 1: (0.7, 0.1, 0.3, 0.9, 0.2, 0.5)}
    one, width = plan(smallest=1), 1 + blocks.APART
    for sides in ((0, 1, 0, 1, 0, 1), (0, 0, 1, 1, 1, 0), (1, 0, 1, 1, 0, 0)):
        for rate in (0.1, 0.5, 0.9):
            psi, expected = -math.log1p(-rate) - rate, 0.0
            for outcomes in itertools.product((0, 1), repeat=6):
                chance, open_means, drift = 1.0, ([], []), 0.0
                for i, (side, outcome) in enumerate(zip(sides, outcomes, strict=True)):
                    p = rates[side][i]
                    chance *= p if outcome else 1 - p
                    open_means[side].append(p)
                    if min(map(len, open_means)):
                        drift += float(np.mean(open_means[0]) - np.mean(open_means[1]))
                        open_means = ([], [])
                state, _ = bet(one, sides, outcomes)
                surprise = state[blocks.SUM_FIRST] - state[blocks.SUM_SECOND] - drift
                squares = state[blocks.SQUARES_FIRST] - 2 * state[blocks.PRODUCTS] + state[blocks.SQUARES_SECOND]
                expected += chance * math.exp(rate * surprise / width - psi * squares / width**2)
            assert expected <= 1 + 1e-12


def test_an_alarm_stops_at_its_event_and_is_raised_once():
    one = plan(smallest=1, threshold=3.0)
    state, wealth = open_blocks(1, one)
    sides = np.array([[0], [1]] * 20)
    outcomes = np.array([[1.0], [0.0]] * 20)
    first = bet_on_blocks(state, wealth, sides, outcomes, np.arange(1, 41), one, 0)
    assert 0 < first < 40
    assert state[0, blocks.ALARM] == first
    assert bet_on_blocks(state, wealth, sides, outcomes, np.arange(1, 41), one, first) == 40
    assert state[0, blocks.ALARM] == first
    assert state[0, blocks.OTHER_ALARM] == 0


def test_wealth_stays_finite():
    _, wealth = bet(plan(smallest=1), [0, 1] * 5000, [1, 0] * 5000)
    assert np.isfinite(wealth).all()
    assert wealth[0].sum() >= 1e200


def test_over_whole_runs_alarms_are_false_no_more_often_than_is_said_and_real_gaps_are_found():
    one = plan(smallest=4, bound=0.0, least=1.0, threshold=2 / 0.05, period=100, payments=40, further=0.2 / 40)
    rng = np.random.default_rng(8)
    n, runs = 4000, 400

    def alarms(rates):
        found = 0
        for _ in range(runs):
            sides = (rng.random(n) >= 0.3).astype(int)
            state, _ = bet(one, sides, rng.random(n) < np.where(sides == 0, *rates))
            found += bool(state[blocks.ALARM] or state[blocks.OTHER_ALARM])
        return found / runs

    assert alarms((0.3, 0.3)) <= 0.05
    assert alarms((0.4, 0.3)) >= 0.95

"""How long a running shield takes: a decision, its label, and what a service does around it; medians."""

import random
import time

import pytest

from evenhand.shields import Shield, ShieldPolicy, read_plan, synthesize

BUDGET = 5.0
"""Microseconds that a decision may take in the median."""


def made(kind: str, horizon: int, costs: tuple[float, ...] = (1.0,)) -> ShieldPolicy:
    even = [1 / len(costs)] * len(costs)
    several = {"costs_if_rejected": even, "costs_if_accepted": even} if len(costs) > 1 else {}
    groups = {
        "a": {"rate": 0.3, "accept": 0.35, "label": 0.4, **several},
        "b": {"rate": 0.7, "accept": 0.6, "label": 0.6, **several},
    }
    return synthesize(
        read_plan({"property": kind, "kappa": "0.1", "horizon": horizon, "costs": list(costs), "groups": groups})
    )


def people(number: int, costs: tuple[float, ...]) -> list[tuple[str, int, float, str, int]]:
    rng = random.Random(1)
    return [
        (rng.choices("ab", (3, 7))[0], rng.randint(0, 1), rng.choice(costs), f"person {i}", rng.randint(0, 1))
        for i in range(number)
    ]


def median(times: list[int]) -> float:
    return sorted(times)[len(times) // 2] / 1000


CASES = {
    "demographic parity, T=100": ("demographic_parity", 100, (1.0,), 0),
    "demographic parity, T=400": ("demographic_parity", 400, (1.0,), 0),
    "demographic parity, T=100, 10 costs": ("demographic_parity", 100, tuple(i / 10 for i in range(1, 11)), 0),
    "equal opportunity, T=75": ("equal_opportunity", 75, (1.0,), 0),
    "equal opportunity, T=75, labels 3 late": ("equal_opportunity", 75, (1.0,), 3),
}


@pytest.mark.parametrize("case", CASES)
def test_decide(benchmark, case):
    """Each step of a run by itself, the clock's own time included; runs until there are some thousand decisions."""
    kind, horizon, costs, late = CASES[case]
    policy = made(kind, horizon, costs)
    arrivals = people(horizon, costs)
    labelled = kind == "equal_opportunity"
    clock = time.perf_counter_ns
    spent: dict[str, list[int]] = {"decide": [], "observe": [], "state": [], "load": [], "certificate": []}

    def run() -> None:
        shield, waiting = Shield(policy), []
        for group, recommendation, cost, key, label in arrivals:
            start = clock()
            shield.decide(group, recommendation, cost, id=key)
            spent["decide"].append(clock() - start)
            waiting.append((key, label))
            while labelled and len(waiting) > late:
                one = waiting.pop(0)
                start = clock()
                shield.observe(*one)
                spent["observe"].append(clock() - start)
            start = clock()
            shield.certificate()
            spent["certificate"].append(clock() - start)
        start = clock()
        state = shield.state()
        spent["state"].append(clock() - start)
        start = clock()
        shield.load(state)
        spent["load"].append(clock() - start)

    benchmark.pedantic(run, rounds=max(5, 4000 // horizon), warmup_rounds=1)
    found = {name: median(times) for name, times in spent.items() if times}
    benchmark.extra_info |= found
    print(f"\n{case}: " + ", ".join(f"{name} {value:.2f}" for name, value in found.items()) + " microseconds")
    if not late:
        assert found["decide"] < BUDGET


def test_open_labels(benchmark):
    """A decision and its certificate take as long with 3,000 open labels as with 100: the ratio of medians."""
    groups = {name: {"rate": 0.5, "accept": 0.4 + 0.2 * k, "label": 0.5} for k, name in enumerate("ab")}
    plan = {"property": "equal_opportunity", "kappa": "0.25", "horizon": 20, "kind": "static-fair", "groups": groups}
    policy = synthesize(read_plan(plan))
    clock = time.perf_counter_ns
    times: list[int] = []

    def run() -> None:
        shield = Shield(policy)
        for number in range(3000):
            start = clock()
            shield.decide("ab"[number % 2], number // 2 % 2, id=number)
            shield.certificate()
            times.append(clock() - start)

    benchmark.pedantic(run, rounds=3, warmup_rounds=1)
    few, many = (median([t for i, t in enumerate(times) if low <= i % 3000 < low + 100]) for low in (100, 2900))
    benchmark.extra_info |= {"100 open": few, "3,000 open": many}
    print(f"\n100 open labels {few:.1f}, 3,000 open labels {many:.1f} microseconds")
    assert many < 2 * few

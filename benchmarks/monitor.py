#!/usr/bin/env python3
"""How often a monitor is ever wrong, how long it takes to see a gap, and how fast it is.

    python benchmarks/monitor.py ever-wrong --runs 3000
    python benchmarks/monitor.py delays --runs 1000
    python benchmarks/monitor.py audits --runs 100
    python benchmarks/monitor.py pace

Times are processor seconds of this process.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import time
from collections.abc import Callable

import numpy as np

from evenhand.monitoring import Monitor, read_monitor_config, write_state
from evenhand.monitoring.comparisons import list_comparisons
from evenhand.monitoring.measure import NO_LABEL, Gaps, WatchedMeasure
from evenhand.stats.level import normal_quantile

EVENTS = 100_000
NAIVE = 300
"""Runs in which the z test takes part, of the first comparison."""
PAIR = {"by": ["sex"], "values": {"sex": ["f", "m"]}}
EIGHT = {
    "by": ["a", "b", "c"],
    "intersections": True,
    "values": {name: ["0", "1"] for name in "abc"},
}


def make_measure(groups: dict[str, object], *, tolerance: float, horizon: int = EVENTS) -> WatchedMeasure:
    """Return a measure of selection rates, which takes arrays: reading events is not what is measured."""
    config = read_monitor_config(
        {
            "groups": groups,
            "watch": [{"gap": "selection_rate", "tolerance": tolerance}],
            "false_alarms": {"horizon": horizon},
        }
    )
    values = list(config.groups.values.values())
    comparisons = list_comparisons(config.groups, values, np.empty((0, len(values)), dtype=np.int64))
    return WatchedMeasure(config, config.watch[0], comparisons, len(comparisons))


def run_until(measure: WatchedMeasure, codes: np.ndarray, outcomes: np.ndarray, looks: int = 0) -> tuple[float, bool]:
    """Return when the first alarm came, and whether an interval missed no difference at any of the looks."""
    n = len(codes)
    edges = np.unique(np.geomspace(10, n, looks).astype(int)) if looks else np.array([n])
    numbers = np.column_stack([outcomes, np.full(n, NO_LABEL), np.zeros(n)])
    alarms = measure.add(np.arange(1, n + 1), codes, numbers, edges.tolist())
    low, high = measure.history[..., Gaps._fields.index("low")], measure.history[..., Gaps._fields.index("high")]
    return min((alarm.decision for alarm in alarms), default=math.inf), bool(((low > 0) | (high < 0)).any())


def naive_alarm(first: np.ndarray, outcomes: np.ndarray) -> bool:
    """Return whether a z test of 5 % rejects at any moment after 100 decisions."""
    n = np.stack([first.cumsum(), (~first).cumsum()])
    k = np.stack([(outcomes * first).cumsum(), (outcomes * ~first).cumsum()])
    with np.errstate(invalid="ignore", divide="ignore"):
        pooled = k.sum(0) / n.sum(0)
        z = (k[0] / n[0] - k[1] / n[1]) / np.sqrt(pooled * (1 - pooled) * (1 / n[0] + 1 / n[1]))
    return bool((np.abs(z[100:]) > 1.96).any())


def ever_wrong(runs: int, seed: int) -> None:
    """Print how often there is a false alarm, or an interval that is wrong at one of 200 looks."""
    rng = np.random.default_rng(seed)
    for name, groups, share, rate in (
        ("shares .3/.7, rates .3", PAIR, 0.3, 0.3),
        ("shares .1/.9, rates .05", PAIR, 0.1, 0.05),
        ("8 intersections of 3 fields, rates .3", EIGHT, None, 0.3),
    ):
        alarms = wrong = naive = 0
        began, wanted = time.process_time(), runs if share is not None else math.ceil(runs / 3)
        for number in range(wanted):
            measure = make_measure(groups, tolerance=0.0)
            if share is None:
                codes = (rng.random((EVENTS, 3)) < (0.5, 0.4, 0.3)).astype(np.int64)
            else:
                codes = (rng.random((EVENTS, 1)) >= share).astype(np.int64)
            outcomes = (rng.random(EVENTS) < rate).astype(float)
            first, missed = run_until(measure, codes, outcomes, looks=100)
            alarms, wrong = alarms + (first < math.inf), wrong + missed
            naive += number < NAIVE and naive_alarm(codes[:, 0] == 0, outcomes)
        print(
            f"{name}: {wanted} runs of {EVENTS:,}: false alarm {alarms / wanted:.1%}, interval ever wrong "
            f"{wrong / wanted:.1%}, naive z {naive / min(wanted, NAIVE):.1%} ({time.process_time() - began:.0f} s)",
            flush=True,
        )


def fixed_size(gap: float, rate: float, share: float, power: float = 0.8) -> float:
    """Return the decisions of a z test of 5 % with this power, which looks once."""
    reach = normal_quantile(0.95) + normal_quantile(2 * power - 1)  # of the two-sided test, and of one side
    variance = (rate + gap) * (1 - rate - gap) / share + rate * (1 - rate) / (1 - share)
    return reach**2 * variance / gap**2


def delays(runs: int, seed: int) -> None:
    """Print after how many decisions a gap raises an alarm, from the start and after 50,000 fair decisions."""
    rng = np.random.default_rng(seed)
    for gap, events in ((0.02, 120_000), (0.05, 40_000), (0.1, 12_000)):
        found = []
        for _ in range(runs if gap > 0.02 else math.ceil(runs / 4)):
            codes = (rng.random((events, 1)) >= 0.3).astype(np.int64)
            outcomes = (rng.random(events) < np.where(codes[:, 0] == 0, 0.3 + gap, 0.3)).astype(float)
            found.append(run_until(make_measure(PAIR, tolerance=0.0), codes, outcomes)[0])
        fixed = fixed_size(gap, 0.3, 0.3)
        median, late = np.median(found), np.quantile(found, 0.9)
        print(f"gap {gap}: fixed size {fixed:,.0f}, median {median:,.0f} ({median / fixed:.2f}), 90 % {late:,.0f}")
    for gap in (0.05, 0.1):
        found, before = [], 50_000
        for _ in range(math.ceil(runs / 4)):
            events = before + 50_000
            codes = (rng.random((events, 1)) >= 0.3).astype(np.int64)
            shift = np.where((codes[:, 0] == 0) & (np.arange(events) >= before), gap, 0.0)
            outcomes = (rng.random(events) < 0.3 + shift).astype(float)
            first, _ = run_until(make_measure(PAIR, tolerance=0.0), codes, outcomes)
            if first > before:
                found.append(first - before)
        seen = f"median {np.median(found):,.0f}, 90 % {np.quantile(found, 0.9):,.0f}" if found else "only false alarms"
        print(f"change to {gap} after {before:,}: {seen}")


def audits(runs: int, seed: int) -> None:
    """Print how many labels it takes to see a gap of 10 points in base rates, with audits."""
    groups = {"by": ["sex"], "values": {"sex": ["f", "m"]}}
    for name, gap, labels in (
        ("gap of 10 points", 0.1, {"audited_with": 0.05}),
        ("no gap", 0.0, {"audited_with": 0.05}),
    ):
        used = []
        for run in range(runs):
            drawn = random.Random(1000 * seed + run)
            watch = [{"gap": "base_rate", "tolerance": 0.0}]
            monitor = Monitor({"groups": groups, "watch": watch, "labels": labels, "seed": run})
            batch: list[dict[str, object]] = []
            for i in range(40_000):
                first = drawn.random() < 0.5
                label = int(drawn.random() < 0.4 - gap * first)
                event = {"id": i, "sex": "f" if first else "m", "label": label}
                batch.append(event)
                if len(batch) == 500:
                    if monitor.add(batch).alarms:
                        break
                    batch.clear()
            used.append(monitor.labels if monitor.alarms else math.inf)
        found = np.isfinite(used).mean()
        print(f"{name}: alarms in {found:.0%} of {runs} runs, median {np.median(used):,.0f} labels", flush=True)


def pace(runs: int, seed: int) -> None:
    """Print events per processor second, lines of JSON included, and the memory of a group and measure."""
    del runs
    drawn = random.Random(seed)
    lines = [
        json.dumps({"id": i, "group": drawn.choice("abcdefgh"), "decision": int(drawn.random() < 0.3)})
        for i in range(EVENTS)
    ]
    config = {"groups": {"by": ["group"]}, "watch": [{"gap": "selection_rate", "tolerance": 0.02}]}
    Monitor(config).add(map(json.loads, lines[:2000]))  # compiles
    monitor = Monitor(config)
    began = time.process_time()
    for start in range(0, EVENTS, 1000):
        monitor.add(map(json.loads, lines[start : start + 1000]))
    seconds = time.process_time() - began
    kept = sum(one.nbytes for m in monitor.measures for one in (m.state, m.wealth, m.history))
    print(f"8 groups: {EVENTS / seconds:,.0f} events per CPU second, {kept / 8:,.0f} bytes per group and measure")
    began = time.process_time()
    for start in range(2000):
        monitor.add([json.loads(lines[start])])
    print(f"one event at a time: {2000 / (time.process_time() - began):,.0f} events per CPU second")
    print(f"state: {len(write_state(monitor)):,} bytes")


ACTIONS: dict[str, Callable[[int, int], None]] = {
    "ever-wrong": ever_wrong,
    "delays": delays,
    "audits": audits,
    "pace": pace,
}

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=ACTIONS)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    ACTIONS[given.what](given.runs, given.seed)

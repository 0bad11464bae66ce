"""How often the intervals of group metrics hold the true number: small groups, rare labels, skewed scores.

    python benchmarks/intervals.py                     10,000 samples of each cell; minutes
    python benchmarks/intervals.py --runs 1000         fewer
    python benchmarks/intervals.py --only means        some intervals only; what was measured before is kept

A cell is a base rate (1, 5, 20, 50 %), a size and a kind of scores. Scores are uniform, beta(0.5, 5) or of two values
(0.1 and 0.9); the true labels are drawn independently of them, or in proportion to them. For areas under the ROC curve
the scores of both classes are normal, powers of uniform numbers, or of two values, at a known area. Each row names the
cell with the least coverage at a nominal 95 %, and how many cells lie below 94 %. What intervals were before (Student's
t, Welch's, DeLong's on the logit scale) stands beside.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import json
import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table
from scipy.stats import beta, norm

from evenhand.core.typing import Booleans, Floats
from evenhand.stats import student_interval
from evenhand.stats.auc import auc
from evenhand.stats.mean import SampleMoments, adjusted_mean_interval, welch_interval
from evenhand.stats.proportion import mean_limits

RESULTS = Path(__file__).parent / "results" / "intervals.json"
BASE_RATES = (0.01, 0.05, 0.2, 0.5)
SIZES = (20, 35, 60, 100, 300, 1000, 2000)
SCORES = {"uniform": 0.5, "beta": 1 / 11, "two values": None}
BEFORE = 500
"""Samples whose area has the interval of before too: all pairs of people are compared for it."""
AREAS = (0.6, 0.8, 0.95, 0.99)


@dataclass(frozen=True)
class Cell:
    """Coverage of one cell, in shares: of today's interval and of the one before."""

    interval: str
    cell: str
    runs: int
    covered: float
    before: float


def main() -> None:
    """Simulate, print the worst cells, keep all of them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=10_000)
    parser.add_argument("--only", nargs="+", choices=["means", "differences", "auc"])
    given = parser.parse_args()
    kinds = {"means": simulate_means, "differences": simulate_differences, "auc": simulate_areas}
    kept = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    RESULTS.parent.mkdir(exist_ok=True)
    for name in given.only or kinds:
        kept[name] = [asdict(cell) for cell in kinds[name](given.runs)]
        RESULTS.write_text(json.dumps(kept, indent=1) + "\n")
    cells = [Cell(**cell) for name in kinds for cell in kept.get(name, ())]
    table = Table("interval", "cells", "below 94 %", "least", "where", "before: below 94 %", "least")
    for name, group in itertools.groupby(cells, key=lambda cell: cell.interval):
        own = list(group)
        least = min(own, key=lambda cell: cell.covered)
        table.add_row(
            name,
            str(len(own)),
            str(sum(cell.covered < 0.94 for cell in own)),
            f"{least.covered:.3f}",
            least.cell,
            str(sum(cell.before < 0.94 for cell in own)),
            f"{min(cell.before for cell in own):.3f}",
        )
    Console().print(table)


def draw(
    kind: str, base_rate: float, shape: tuple[int, int], rng: np.random.Generator, *, related: bool
) -> tuple[Floats, Booleans]:
    """Scores and true labels."""
    if kind == "uniform":
        scores = rng.random(shape)
    elif kind == "beta":
        scores = rng.beta(0.5, 5, shape)
    else:
        scores = np.where(rng.random(shape) < base_rate, 0.9, 0.1)
    chance = np.minimum(1.0, scores * base_rate / mean_score(kind, base_rate)) if related else base_rate
    return scores, rng.random(shape) < chance


def mean_score(kind: str, base_rate: float) -> float:
    """The mean of the scores of that kind."""
    known = SCORES[kind]
    return 0.1 + 0.8 * base_rate if known is None else known


@functools.cache
def mean_error(kind: str, base_rate: float, *, related: bool) -> float:
    """The mean of score minus label, over the quantiles of the scores."""
    if not related:
        return mean_score(kind, base_rate) - base_rate
    if kind == "two values":
        scores, weights = np.array([0.1, 0.9]), np.array([1 - base_rate, base_rate])
    else:
        middle = (np.arange(1_000_000) + 0.5) / 1_000_000
        scores, weights = middle if kind == "uniform" else beta.ppf(middle, 0.5, 5), np.full(1_000_000, 1e-6)
    return float(((scores - np.minimum(1.0, scores * base_rate / mean_score(kind, base_rate))) * weights).sum())


def cases() -> list[tuple[str, float, bool]]:
    """Every kind of scores and labels."""
    return list(itertools.product(SCORES, BASE_RATES, (False, True)))


def simulate_means(runs: int) -> Iterator[Cell]:
    """Mean score and mean error of a group."""
    found: dict[str, list[Cell]] = {"mean score": [], "calibration error": []}
    for kind, base_rate, related in track(cases(), "means"):
        truth = {
            "mean score": mean_score(kind, base_rate),
            "calibration error": mean_error(kind, base_rate, related=related),
        }
        for n in SIZES:
            rng = np.random.default_rng(n)
            scores, labels = draw(kind, base_rate, (runs, n), rng, related=related)
            for name, values, lower in (("mean score", scores, 0.0), ("calibration error", scores - labels, -1.0)):
                moments = SampleMoments(values.mean(axis=1), values.var(axis=1, ddof=1), n)
                now, before = (
                    covers(interval(*moments, lower=lower), truth[name])
                    for interval in (adjusted_mean_interval, student_interval)
                )
                where = f"{kind}, base rate {base_rate:.0%}, n {n}{', labels by scores' if related else ''}"
                found[name].append(Cell(name, where, runs, now, before))
    yield from itertools.chain.from_iterable(found.values())


def simulate_differences(runs: int) -> Iterator[Cell]:
    """Calibration error of two groups, the difference."""
    pairs = [(0.01, 0.01), (0.01, 0.05), (0.05, 0.05), (0.05, 0.5), (0.2, 0.2)]
    sizes = [(20, 20), (20, 300), (35, 35), (100, 100), (300, 1000)]
    for kind, rates, related in track(list(itertools.product(SCORES, pairs, (False, True))), "differences"):
        truth = abs(np.subtract(*(mean_error(kind, rate, related=related) for rate in rates)))
        for both in sizes:
            rng, now, before = np.random.default_rng(sum(both)), 0, 0
            samples = [
                (lambda scores, labels: scores - labels)(*draw(kind, rate, (runs, n), rng, related=related))
                for rate, n in zip(rates, both, strict=True)
            ]
            means, variances = (
                [f(sample) for sample in samples] for f in (lambda s: s.mean(1), lambda s: s.var(1, ddof=1))
            )
            for i in range(runs):
                mean, variance = ([column[i] for column in each] for each in (means, variances))
                low, high = mean_limits((mean, variance, list(both)), 0.95, lower=-1, upper=1).largest_difference()
                now += low - 1e-12 <= truth <= high + 1e-12
            welch = welch_interval(
                *(SampleMoments(*each) for each in zip(means, variances, both, strict=True)), lower=-1
            )
            signed = np.subtract(*(mean_error(kind, rate, related=related) for rate in rates))
            before = covers(welch, float(signed))
            where = f"{kind}, base rates {rates[0]:.0%} and {rates[1]:.0%}, n {both[0]} and {both[1]}"
            yield Cell(
                "difference of calibration errors",
                where + (", labels by scores" if related else ""),
                runs,
                now / runs,
                before,
            )


def simulate_areas(runs: int) -> Iterator[Cell]:
    """Areas under the ROC curve; samples without both classes are drawn again."""
    sizes = [n for n in SIZES if n <= 1000]
    for shape, base_rate, area in track(
        list(itertools.product(("normal", "powers", "two values"), BASE_RATES, AREAS)), "areas"
    ):
        for n in sizes:
            rng, now, before = np.random.default_rng(n), 0, 0
            for run in range(runs):
                scores, labels = draw_ranked(shape, base_rate, area, n, rng)
                found = auc(scores, labels)
                now += found.low <= area <= found.high
                if run < BEFORE:
                    before += covers(delong_logit(scores, labels), area) > 0
            where = f"{shape}, area {area}, base rate {base_rate:.0%}, n {n}"
            yield Cell("area under the ROC curve", where, runs, now / runs, before / min(runs, BEFORE))


def draw_ranked(shape: str, base_rate: float, area: float, n: int, rng: np.random.Generator) -> tuple[Floats, Booleans]:
    """Scores whose area under the ROC curve is known."""
    labels = rng.random(n) < base_rate
    while not 0 < labels.sum() < n:
        labels = rng.random(n) < base_rate
    if shape == "normal":
        return rng.normal(size=n) + norm.ppf(area) * math.sqrt(2) * labels, labels
    if shape == "powers":
        return rng.random(n) ** np.where(labels, (1 - area) / area, 1.0), labels
    return (rng.random(n) < np.where(labels, area, 1 - area)).astype(np.float64), labels


def delong_logit(scores: Floats, labels: Booleans) -> tuple[Floats, Floats]:
    """DeLong's interval on the logit scale; a point where it has no width."""
    above, below = scores[labels], scores[~labels]
    wins = (above[:, None] > below) + 0.5 * (above[:, None] == below)
    area = wins.mean()
    variance = sum(w.var(ddof=1) / len(w) for w in (wins.mean(axis=1), wins.mean(axis=0)) if len(w) > 1)
    if not 0 < area < 1:
        return area, area
    logit, reach = math.log(area / (1 - area)), 1.959964 * math.sqrt(variance) / (area * (1 - area))
    return 1 / (1 + np.exp(reach - logit)), 1 / (1 + np.exp(-reach - logit))


def covers(interval: tuple[Floats, Floats], truth: float) -> float:
    """The share of the intervals that hold the truth."""
    low, high = interval
    return float(np.mean((low - 1e-9 <= truth) & (truth <= high + 1e-9)))


if __name__ == "__main__":
    main()

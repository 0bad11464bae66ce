"""How often the excess of flips over a model's own noise is covered by its interval, and how often bias is claimed.

    python benchmarks/noise.py                  10,000 runs of each cell; a minute
    python benchmarks/noise.py --runs 1000      fewer

A cell is a kind of model, the number of protected values, how many people are asked again about themselves and how many
are compared in all. A model gives person i the favourable decision with probability p(i), drawn independently for each
answer; a biased model adds something for the first protected value. Each row names the cell with the least coverage of
the true excess at a nominal 95 %. Where there is no bias the true excess is 0: an interval that does not hold it claims
bias falsely.
"""

from __future__ import annotations

import argparse
import itertools
import json
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

from evenhand.core.typing import Booleans, Floats
from evenhand.stats.excess import FlipCounts, excess_over_noise

RESULTS = Path(__file__).parent / "results" / "noise.json"
KINDS = ("fair coin", "rare noise", "some people", "beta", "biased coin", "biased few", "always biased")
SIZES = ((20, 20), (50, 50), (50, 500), (300, 300), (300, 1000), (300, 16_000))
"""People who are asked again, and people who are compared in all."""
VALUES = (2, 3, 5)
TRUTH = 4_000_000
"""People over whom the true excess is averaged, without drawing answers."""


@dataclass(frozen=True)
class NoiseCell:
    """Coverage of one cell, with the true excess and the mean width of the intervals."""

    kind: str
    values: int
    sample: int
    people: int
    runs: int
    excess: float
    covered: float
    width: float


def draw_rates(kind: str, values: int, shape: tuple[int, ...], rng: np.random.Generator) -> Floats:
    """Return the probability of a favourable answer of each person under each protected value, (*shape, values)."""
    if kind in ("fair coin", "biased coin"):
        own = np.full(shape, 0.5 if kind == "fair coin" else 0.35)
    elif kind == "rare noise":
        own = np.where(rng.random(shape) < 0.5, 0.02, 0.98)
    elif kind in ("some people", "biased few"):
        own = np.where(rng.random(shape) < 0.1, 0.5, np.round(rng.random(shape)))
    else:
        own = rng.beta(0.5, 0.5, shape) if kind == "beta" else np.full(shape, 0.02)
    rates = np.repeat(own[..., None], values, axis=-1)
    if kind == "biased coin":
        rates[..., 0] += 0.3
    elif kind == "biased few":
        rates[..., 0] = np.where(rng.random(shape) < 0.05, 1 - own, own)
    elif kind == "always biased":
        rates[..., 0] = 0.98
    return rates


def true_excess(kind: str, values: int) -> float:
    """Return the share of differing answers between protected values minus that among answers to one row."""
    rates = draw_rates(kind, values, (TRUTH // values,), np.random.default_rng(1))
    alike = rates.prod(axis=-1) + (1 - rates).prod(axis=-1)
    own = (rates**values + (1 - rates) ** values).mean(axis=-1)
    return float((own - alike).mean())


def differ(answers: Booleans) -> Booleans:
    """Return whether the answers along the last axis are not all alike."""
    return np.asarray(answers.any(axis=-1) & ~answers.all(axis=-1))


def simulate(kind: str, values: int, size: tuple[int, int], runs: int) -> NoiseCell:
    """Draw people and answers, and count how often the interval holds the true excess."""
    sample, people = size
    rng = np.random.default_rng([KINDS.index(kind), values, sample, people])
    truth, covered, width, done = true_excess(kind, values), 0, 0.0, 0
    while done < runs:
        n = min(runs - done, max(1, 3_000_000 // (sample * values)))
        rates = draw_rates(kind, values, (n, sample), rng)
        answers = rng.random(rates.shape) < rates
        which = rng.integers(values, size=(n, sample, 1))
        chance = np.take_along_axis(rates, which, axis=-1)
        again = rng.random((n, sample, values - 1)) < chance
        flips = differ(answers)
        own = differ(np.concatenate([np.take_along_axis(answers, which, axis=-1), again], axis=-1))
        some = draw_rates(kind, values, (200_000,), rng)
        rate = 1 - (some.prod(axis=-1) + (1 - some).prod(axis=-1)).mean()
        others = rng.binomial(people - sample, rate, size=n)
        counts = FlipCounts(
            sample, flips.sum(axis=1), own.sum(axis=1), (flips & own).sum(axis=1), people - sample, others
        )
        _, (low, high) = excess_over_noise(counts)
        covered += int(((low <= truth) & (truth <= high)).sum())
        width += float((high - low).sum())
        done += n
    return NoiseCell(kind, values, sample, people, runs, truth, covered / runs, width / runs)


def main() -> None:
    """Simulate, print the worst cells, keep all of them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=10_000)
    runs = parser.parse_args().runs
    grid = list(itertools.product(KINDS, VALUES, SIZES))
    cells = [simulate(kind, values, size, runs) for kind, values, size in track(grid, "simulating")]
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps([asdict(cell) for cell in cells], indent=1) + "\n")
    table = Table("model", "cells", "below 94 %", "least coverage", "where", "true excess", "mean width, 300 of 16,000")
    for kind in KINDS:
        own = [cell for cell in cells if cell.kind == kind]
        least = min(own, key=lambda cell: cell.covered)
        largest = next(cell for cell in own if cell.values == 2 and cell.people == 16_000)
        table.add_row(
            kind,
            str(len(own)),
            str(sum(cell.covered < 0.94 for cell in own)),
            f"{least.covered:.3f}",
            f"{least.values} values, {least.sample} of {least.people:,}",
            f"{largest.excess:.3f}",
            f"{largest.width:.3f}",
        )
    Console().print(table)


if __name__ == "__main__":
    main()

"""How often the search for subgroups errs where people have weights: false findings, and intervals that miss.

    python benchmarks/subgroup_weights.py                 500 samples of each design; some minutes
    python benchmarks/subgroup_weights.py --runs 100      fewer

Samples are drawn from simulated populations of 6,000 people by sex (2), race (4) and age (5), whose true gaps are
known; each person's weight is one over the probability with which the design draws them. The designs: weights that
have nothing to do with anybody (``random``, and ``heavy``: lognormal); by group, so that small ones are drawn more
often; by the outcome, which is drawn three times as often or as rarely; and by both. Whatever is found in a population
without gaps is false. With a planted gap (25 points for one of eight sexes and races), the adjusted intervals have to
hold the gaps of all subgroups together, and the plain ones each.
"""

from __future__ import annotations

import os

os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}

import argparse
import json
import time
from pathlib import Path

import numpy as np
import pandas as pd

from evenhand.core.typing import Booleans, Floats, Integers
from evenhand.groups import DecisionRoles
from evenhand.schema import RecordedDecisions
from evenhand.subgroups import find_subgroups_of_decisions

RESULTS = Path(__file__).parent / "results" / "subgroup_weights.json"
NAMES = ["sex", "race", "age"]
LETTERS = np.array(list("abcde"))
"""Values of the attributes. Digits would be read as numbers, whose rules are ranges."""
DESIGNS = ("random", "heavy", "by group", "by outcome", "by group and outcome", "by group, against outcome")
PEOPLE, RATE, GAP = 6000, 0.3, 0.25


def drawn_with(design: str, codes: Integers, y: Booleans, rng: np.random.Generator) -> Floats:
    """Return the probability with which each person is drawn, shape (n,)."""
    n, small = len(y), codes[:, 1] >= 2
    chance = {
        "random": 0.05 + 0.6 * rng.beta(1, 3, n),
        "heavy": 0.3 * np.exp(-rng.normal(size=n)),
        "by group": np.where(small, 0.75, 0.12) * np.where(codes[:, 0] == 1, 1.0, 0.6),
        "by outcome": np.where(y, 0.45, 0.15) * (0.15 + 0.7 * rng.random(n)),
        "by group and outcome": np.where(small, 0.8, 0.15) * np.where(y, 1.0, 0.3) * (0.13 + 1.07 * rng.random(n)),
        "by group, against outcome": np.where(small, 0.8, 0.15) * np.where(y, 0.3, 1.0) * (0.13 + 1.07 * rng.random(n)),
    }
    return np.asarray(np.clip(chance[design], 0.005, 1.0))


def measure(design: str, runs: int, gap: float, seed: int = 0) -> dict[str, float | int | str]:
    """Draw samples by a design, and count searches that err."""
    rng, started = np.random.default_rng(seed), time.process_time()
    found, missed, plain, intervals, people = 0, 0, 0, 0, 0
    for _ in range(runs):
        codes = np.column_stack(
            [rng.integers(0, 2, PEOPLE), rng.choice(4, PEOPLE, p=[0.55, 0.25, 0.12, 0.08]), rng.integers(0, 5, PEOPLE)]
        )
        rate = RATE + gap * ((codes[:, 0] == 1) & (codes[:, 1] == 2))
        y = rng.random(PEOPLE) < rate
        chance = drawn_with(design, codes, y, rng)
        kept = rng.random(PEOPLE) < chance
        frame = pd.DataFrame(LETTERS[codes[kept]], columns=NAMES)
        frame = frame.assign(selected=y[kept].astype(int), wt=1 / chance[kept])
        decisions = DecisionRoles("selected", NAMES, weight="wt", favourable=1).read(frame)
        assert isinstance(decisions, RecordedDecisions)
        result = find_subgroups_of_decisions(decisions, margin=0.0, permutations=400, most=100_000 if gap else 1)
        people += int(kept.sum())
        found += result.found > 0
        wrong = False
        for one in result.findings if gap else ():
            inside = np.ones(PEOPLE, dtype=bool)
            for name, rule in one.rules.items():
                assert isinstance(rule, tuple)
                inside &= np.isin(LETTERS[codes[:, NAMES.index(name)]], list(rule))
            true = rate[inside].mean() - rate[~inside].mean()
            wrong |= not one.low <= true <= one.high
            plain += one.plain_low <= true <= one.plain_high
            intervals += 1
        missed += wrong
    row: dict[str, float | int | str] = {"design": design, "gap": gap, "runs": runs, "people": people // runs}
    row |= {"all hold": 1 - missed / runs, "each holds": plain / intervals} if gap else {"false findings": found / runs}
    return row | {"found": found / runs, "processor seconds": round(time.process_time() - started)}


def main() -> None:
    """Measure every design, and keep what was measured."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=500)
    rows = []
    for gap in (0.0, GAP):
        for design in DESIGNS:
            rows.append(measure(design, parser.parse_args().runs, gap))
            print(rows[-1], flush=True)
            RESULTS.parent.mkdir(exist_ok=True)
            RESULTS.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()

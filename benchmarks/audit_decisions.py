"""Processor time of an audit of a million recorded decisions by three attributes.

    python benchmarks/audit_decisions.py               a million rows, five audits after one to warm up
    python benchmarks/audit_decisions.py --rows 100000

Decisions, true labels and scores of random people with sex, race and an age band go through ``audit_predictions``:
rates, gaps and calibration by each attribute and all together, and the search for subgroups. Seconds are those of the
processor (``time.process_time``), all threads counted; the bound is 3 seconds for a million rows, warm.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path

import numpy as np
import pandas as pd
from rich.console import Console

import evenhand

RESULTS = Path(__file__).parent / "results" / "audit_decisions.json"
BOUND = 3.0


def make_decisions(rows: int) -> pd.DataFrame:
    """Return people who are decided about by a score that depends on the true label and a little on sex."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "sex": rng.choice(["Female", "Male"], rows),
            "race": rng.choice(["Asian", "Black", "Other", "White"], rows, p=[0.1, 0.2, 0.1, 0.6]),
            "age": rng.choice(["under 30", "30 to 49", "50 and over"], rows),
            "true": rng.integers(0, 2, rows),
        }
    )
    score = np.clip(0.3 + 0.3 * frame["true"] + 0.05 * (frame["sex"] == "Male") + rng.normal(0, 0.15, rows), 0, 1)
    return frame.assign(score=score, selected=(score > 0.5).astype(int))


def measure(frame: pd.DataFrame) -> float:
    """Return the processor seconds of one audit."""
    started = time.process_time()
    evenhand.audit_predictions(
        frame["selected"],
        y_true=frame["true"],
        y_score=frame["score"],
        sensitive_features=frame[["sex", "race", "age"]],
        favourable=1,
    )
    return time.process_time() - started


def main() -> None:
    """Measure, show and keep the figures."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--rows", type=int, default=1_000_000)
    options.add_argument("--runs", type=int, default=5)
    given = options.parse_args()
    frame = make_decisions(given.rows)
    first, *rest = [measure(frame) for _ in range(given.runs + 1)]
    found = {"rows": given.rows, "first": round(first, 2), "warm": round(statistics.median(rest), 2), "bound": BOUND}
    Console().print(f"{given.rows:,} rows: first {found['first']} s, then {found['warm']} s of the processor (median)")
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

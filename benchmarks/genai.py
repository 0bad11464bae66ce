"""What conditional fairness costs to enforce: seconds of admissions and of exact games.

    python benchmarks/genai.py                        less than a minute of one core

Admissions: the median of single calls for configurations of 1 and 10 specifications on 10 values each, in both modes,
with the completion of the item beside it. Games: processor seconds until a specification with short deadlines is known
to be feasible or not. What policies miss and change is reproduced by ``make reproduce PAPER=conditional-fairness``.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import sys
import time
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from evenhand.genai import Enforcer, GenerationConfig
from evenhand.genai.games.game import Game, solve_game

ROOT = Path(__file__).resolve().parent.parent
BARS = {"admission": 50e-6, "game": 2.0}
"""Seconds of one admission, and of one game."""

Row = dict[str, Any]

GAMES = (
    (3, 7, 20, 50),
    (2, 3, 800_000),
    (2, 2236, 1118),
    (3, 500, 500, 6),
    (2, 5, 9, 50, 50, 20),
    (6, 20, 235, 4, 14, 3),
    (3, 12, 12, 12, 12, 12, 6),
    (4, 26, 12, 10, 11, 9, 4),
    (12, 5, 7, 8, 9, 14, 9),
)


def admissions(specifications: int, mode: str, count: int) -> Row:
    """Seconds of single admissions, with 10 values and one group for every specification."""
    values = [f"value {k}" for k in range(10)]
    described = GenerationConfig.read(
        {
            "conditions": [{"name": "asked"}],
            "specifications": [
                {"condition": "asked", "group": f"group {i}", "values": values, "repeated": list(range(15, 35, 2))}
                for i in range(specifications)
            ],
        }
    )
    enforcer = Enforcer(described, mode="before" if mode == "before" else "after", in_flight=1)
    rng, clock = Random(0), time.perf_counter_ns
    admitted, completed = np.empty(count), np.empty(count)
    for i in range(count):
        started = clock()
        admission = enforcer.admit(("asked",))
        admitted[i] = clock() - started
        shown = {group: rng.choice(admission.must.get(group, values)) for group in described.values}
        started = clock()
        outcome = enforcer.complete(admission, shown)
        completed[i] = clock() - started
        while outcome.admission is not None:
            shown |= {group: rng.choice(asked) for group, asked in outcome.must.items()}
            outcome = enforcer.complete(outcome.admission, shown)
    row = {"specifications": specifications, "values": 10, "mode": mode, "admissions": count}
    for name, taken in (("admission", admitted), ("completion", completed)):
        row |= {name: float(np.median(taken)) / 1e9, f"{name}_p99": float(np.quantile(taken, 0.99)) / 1e9}
    return row


def game(deadlines: tuple[int, ...]) -> Row:
    """Processor seconds until the game of one specification is solved: the median of three."""
    taken = []
    for _ in range(3):
        started = time.process_time()
        region = solve_game(Game.single(deadlines))
        taken.append(time.process_time() - started)
    return {
        "deadlines": deadlines,
        "states": int(np.prod(deadlines)),
        "feasible": region.feasible,
        "decided": region.decided,
        "minimal": len(region.minimal()),
        "cpu": sorted(taken)[1],
    }


def bars(figures: Row) -> list[Row]:
    """What is asked for, and what was measured."""
    found: list[tuple[str, float, float]] = [
        ("admission, s", max(row["admission"] for row in figures["admissions"]), BARS["admission"]),
        ("exact game, CPU s", max(row["cpu"] for row in figures["games"]), BARS["game"]),
    ]
    return [{"what": what, "measured": is_, "at_most": most, "met": is_ <= most} for what, is_, most in found]


def table(title: str, heads: list[str], rows: list[list[str]]) -> Table:
    """Words to the left, figures to the right."""
    made = Table(title=title, title_justify="left")
    for i, head in enumerate(heads):
        made.add_column(head, justify="left" if i == 0 else "right")
    for row in rows:
        made.add_row(*row)
    return made


def tables(figures: Row) -> list[Table]:
    """All figures as they are shown."""
    micro = 1e6
    return [
        table(
            "Admission and completion, microseconds (median, 99 %)",
            ["specifications of 10 values", "mode", "admission", "", "completion", ""],
            [
                [str(row["specifications"]), row["mode"], *(f"{row[key] * micro:.1f}" for key in
                 ("admission", "admission_p99", "completion", "completion_p99"))]
                for row in figures["admissions"]
            ],
        ),
        table(
            "Exact games",
            ["deadlines", "states", "feasible", "minimal states", "CPU s"],
            [
                [str(row["deadlines"]), f"{row['states']:,}", "yes" if row["feasible"] else "no", f"{row['minimal']:,}",
                 f"{row['cpu']:.3f}"]
                for row in figures["games"]
            ],
        ),
        table(
            "What was asked for",
            ["what", "measured", "at most", "met"],
            [
                [row["what"], f"{row['measured']:,.6g}", f"{row['at_most']:,.6g}", "yes" if row["met"] else "NO"]
                for row in figures["bars"]
            ],
        ),
    ]  # fmt: skip


def main() -> None:
    """Measure, show, keep the figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--admissions", type=int, default=20_000, metavar="N", help="that are timed (default 20000)")
    parser.add_argument(
        "--json",
        default=str(ROOT / "benchmarks" / "results" / "genai.json"),
        metavar="FILE",
        help="where to keep the figures; - is standard output, alone (default benchmarks/results/genai.json)",
    )
    options = parser.parse_args()
    figures: Row = {
        "versions": {name: importlib.metadata.version(name) for name in ("evenhand", "numpy")},
        "admissions": [admissions(n, mode, options.admissions) for n in (1, 10) for mode in ("before", "after")],
        "games": [game(deadlines) for deadlines in GAMES],
    }
    figures["bars"] = bars(figures)
    if options.json == "-":
        print(json.dumps(figures, indent=1))
        return
    console = Console(width=None if sys.stdout.isatty() else 160)
    for shown in tables(figures):
        console.print(shown)
    target = Path(options.json)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(figures, indent=1) + "\n", "utf-8")
    print(f"The figures: {target}")


if __name__ == "__main__":
    main()

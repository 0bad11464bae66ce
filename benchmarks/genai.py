"""What conditional fairness costs to enforce: admission, exact games, and misses and interventions of four policies.

    python benchmarks/genai.py                        1,000,000 requests in each setting: half an hour of one core
    python benchmarks/genai.py --requests 20000       less than a minute

Admissions: the median of single calls for configurations of 1 and 10 specifications on 10 values each, in both modes,
with the completion of the item beside it. Games: processor seconds until a specification with short deadlines is known
to be feasible or not. Policies: deadlines missed by the definition, and requests whose prompt was changed, with nothing
enforced, by the published counters, and by both modes of the enforcer, on the same requests.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from evenhand.genai import Enforcer, GenerationConfig
from evenhand.genai.games.game import Game, solve_game
from evenhand.genai.simulation.result import POLICIES
from evenhand.genai.simulation.simulate import simulate_requests

ROOT = Path(__file__).resolve().parent.parent
BARS = {"admission": 50e-6, "game": 2.0, "missed": 0}
"""Seconds of one admission, seconds of one game, deadlines that the enforcer may miss."""

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


@dataclass(frozen=True)
class Setting:
    """What is asked for, what the generator likes, and how many requests are in flight, one simulation for each.

    Every condition holds for 80 % of the requests. Groups are taken from ``likes``, one after another.
    """

    name: str
    repeated: tuple[tuple[int, ...], ...]
    likes: tuple[tuple[float, ...], ...]
    in_flight: tuple[int, ...]
    about: tuple[tuple[int, tuple[int, ...]], ...] = ((0, (0,)),)

    def configuration(self) -> GenerationConfig:
        """As a file would describe it; ``about`` has the condition and the groups of each specification."""
        return GenerationConfig.read(
            {
                "conditions": [
                    {"name": f"condition {i}", "share": 0.8} for i in sorted({condition for condition, _ in self.about})
                ],
                "groups": {
                    f"group {g}": [f"value {g}.{k}" for k in range(len(likes))] for g, likes in enumerate(self.likes)
                },
                "specifications": [
                    {
                        "condition": f"condition {condition}",
                        "repeated": list(repeated),
                        **(
                            {"group": f"group {groups[0]}"}
                            if len(groups) == 1
                            else {"paired": [f"group {g}" for g in groups]}
                        ),
                    }
                    for (condition, groups), repeated in zip(self.about, self.repeated, strict=True)
                ],
                "simulation": {"generator": {f"group {g}": list(likes) for g, likes in enumerate(self.likes)}},
            }
        )


EVERY = (1, 4, 16, 64)
UNIFORM, SKEWED = ((0.2,) * 5,), ((0.7, 0.2, 0.06, 0.04),)
BINARY, THREE = (0.9, 0.1), (0.05, 0.85, 0.1)
SETTINGS = (
    Setting("equal", ((10,) * 5,), UNIFORM, EVERY),
    Setting("unequal", ((6, 8, 10, 12, 16),), UNIFORM, EVERY),
    Setting("short and long", ((3, 7, 20, 50),), SKEWED, EVERY),
    Setting("two conditions", ((8, 9, 10, 20), (12,) * 4), SKEWED, EVERY, ((0, (0,)), (1, (0,)))),
    Setting("two conditions, short", ((5, 5, 6), (5, 7, 5)), (THREE,), EVERY, ((0, (0,)), (1, (0,)))),
    Setting("three attributes", ((3, 4), (3, 5, 6), (4, 6, 8, 10)), (BINARY, THREE, *SKEWED), EVERY,
            ((0, (0,)), (0, (1,)), (1, (2,)))),
    Setting("pairs", ((6, 8, 10, 12, 14, 16),), (BINARY, THREE), EVERY, ((0, (0, 1)),)),
    Setting("pairs and one of them", ((12,) * 6, (8, 9)), (BINARY, THREE), EVERY, ((0, (0, 1)), (1, (0,)))),
)  # fmt: skip
"""Deadlines are equal, unequal, or shorter than the number of values, which takes an exact game."""


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


def policies(setting: Setting, in_flight: int, requests: int) -> list[Row]:
    """Misses, interventions and calls of every policy, on the same requests."""
    described = setting.configuration()
    rows = []
    for policy in POLICIES:
        started = time.process_time()
        found = simulate_requests(described, requests=requests, in_flight=in_flight, policy=policy, seed=1)
        rows.append(
            {
                "setting": setting.name,
                "deadlines": setting.repeated,
                "generator": setting.likes,
                "in_flight": in_flight,
                "policy": policy,
                "requests": found.requests,
                "missed": found.violations,
                "interventions": found.interventions,
                "calls": found.generator_calls,
                "cpu": time.process_time() - started,
            }
        )
    told = ", ".join(f"{row['policy']} {row['missed']:,} missed in {row['cpu']:.1f} s" for row in rows)
    print(f"{setting.name}, {in_flight} in flight: {told}", file=sys.stderr, flush=True)
    return rows


def bars(figures: Row) -> list[Row]:
    """What is asked for, and what was measured."""
    kept = [row for row in figures["policies"] if row["policy"] in ("before", "after")]
    own = [row for row in figures["policies"] if row["setting"] == "equal" and row["in_flight"] == 1]
    changed = {row["policy"]: row["interventions"] for row in own}
    found: list[tuple[str, float, float]] = [
        ("admission, s", max(row["admission"] for row in figures["admissions"]), BARS["admission"]),
        ("exact game, CPU s", max(row["cpu"] for row in figures["games"]), BARS["game"]),
    ]
    if kept:
        found += [
            ("deadlines missed by the enforcer", max(row["missed"] for row in kept), BARS["missed"]),
            ("interventions before, equal deadlines, 1 in flight", changed["before"], changed["published"]),
            ("interventions after, equal deadlines, 1 in flight", changed["after"], changed["published"]),
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
            "Policies",
            ["setting", "deadlines", "in flight", "policy", "missed", "interventions", "calls", "CPU s"],
            [
                [row["setting"], "; ".join(", ".join(map(str, beta)) for beta in row["deadlines"]),
                 str(row["in_flight"]), row["policy"], f"{row['missed']:,}",
                 f"{row['interventions'] / row['requests']:.4f}", f"{row['calls'] / row['requests']:.4f}",
                 f"{row['cpu']:.1f}"]
                for row in figures["policies"]
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
    parser.add_argument("--requests", type=int, default=1_000_000, metavar="N", help="per policy (default 1000000)")
    parser.add_argument("--admissions", type=int, default=20_000, metavar="N", help="that are timed (default 20000)")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="processes that simulate (default 1)")
    parser.add_argument("--only", metavar="TEXT", help="only settings whose name contains this")
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
    tasks = [
        (setting, in_flight, options.requests)
        for setting in SETTINGS
        if (options.only or "") in setting.name
        for in_flight in setting.in_flight
    ]
    with ProcessPoolExecutor(options.jobs) as pool:
        figures["policies"] = [row for rows in pool.map(policies, *zip(*tasks, strict=True)) for row in rows]
    figures["bars"] = bars(figures) if (options.only or "") in "equal" else []
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

"""What shields cost: seconds and memory of their synthesis by horizon, beside the published recursion in the same run.

    python benchmarks/shields.py                        a few minutes, 2 GB of memory
    python benchmarks/shields.py --longest 100          horizons up to 100 only
    python benchmarks/shields.py --longest 1000         the longest one too: minutes more

Four tables. Synthesis: the median of some runs after a first one that compiles or loads what is compiled, each shield
in a process of its own; memory is what the process needs beyond what it held before, at its peak, in millions of bytes.
The reference is the recursion as published (``reproductions``), compiled as well, all layers kept; where it would
take more than ``--reference`` states its figures are those of the longest measured horizon times the ratio of states,
and marked so. Decisions: nanoseconds of single calls of a running shield. Periods: what a dynamic shield plans again at
the start of each. Compilation: what only the first use on a machine pays.
"""

from __future__ import annotations

import os

# A matrix library that starts threads of its own would spend processor time that shields are charged for.
os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}

import argparse
import ctypes
import importlib.metadata
import json
import multiprocessing
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from fractions import Fraction
from math import comb
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from evenhand.shields import FairnessProperty, Inputs, Shield, ShieldPlan, ShieldPolicy, synthesize
from evenhand.shields.spec.properties import EmptyGroupRule
from evenhand.view.drawing.theme import DASHES, LIGHT, SERIES, Spec, finish_chart, mark_layer, to_svg

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from reproductions import shields_recursion

ROOT = Path(__file__).resolve().parent.parent
KAPPA = Fraction(1, 10)
MB = 1e6
SMALL = 6
"""Horizon of the first run, which compiles."""
PUBLISHED = {
    ("demographic_parity", 100): "1 s, 30 MB",
    ("equal_opportunity", 75): "1.5 s, 1.3 GB",
}
"""Cano and others, AAAI 2025: what their program takes (C++, on a workstation)."""

Row = dict[str, Any]


@dataclass(frozen=True)
class Case:
    """One shield to synthesise."""

    kept: str
    horizon: int
    costs: int = 1
    variant: str = "finite"
    groups: int = 2

    @property
    def labelled(self) -> bool:
        return self.kept == "equal_opportunity"

    @property
    def shown(self) -> str:
        short = {"demographic_parity": "DP", "disparate_impact": "DI", "equal_opportunity": "EqOpp"}[self.kept]
        extra = [] if self.variant == "finite" else [self.variant]
        extra += [f"{self.groups} groups"] if self.groups > 2 else []
        return ", ".join([short, *extra])


CASES = (
    *(Case("demographic_parity", horizon) for horizon in (50, 100, 200, 400, 1000)),
    *(Case("demographic_parity", horizon, costs=10) for horizon in (50, 100, 200)),
    Case("disparate_impact", 100),
    *(Case("equal_opportunity", horizon) for horizon in (50, 75, 100)),
    *(Case("equal_opportunity", horizon, costs=10) for horizon in (50, 75)),
    Case("demographic_parity", 100, variant="any time"),
    *(Case("demographic_parity", horizon, variant="feasible") for horizon in (100, 200, 400)),
    *(Case("demographic_parity", horizon, variant="separable", groups=4) for horizon in (100, 1000)),
)


def inputs(case: Case) -> Inputs:
    """Who comes; costs are equally likely."""
    rates = (0.3, 0.7) if case.groups == 2 else (1 / case.groups,) * case.groups
    accept = (0.35, 0.6) if case.groups == 2 else tuple(np.linspace(0.35, 0.6, case.groups).tolist())
    even = ((1 / case.costs,) * case.costs,) * 2
    return Inputs(
        groups=tuple("abcdefgh"[: case.groups]),
        rate=rates,
        accept=accept,
        label=tuple(np.linspace(0.4, 0.6, case.groups).tolist()) if case.labelled else None,
        costs=tuple((k + 1) / case.costs for k in range(case.costs)),
        weights=(even,) * case.groups,
    )


def plan(case: Case, horizon: int | None = None, **options: Any) -> ShieldPlan:
    """The problem, with the published convention that an empty group has rate 0."""
    return ShieldPlan(
        FairnessProperty(case.kept, KAPPA, EmptyGroupRule()), inputs(case), horizon or case.horizon, **options
    )


def synthesis(case: Case, horizon: int) -> Callable[[], ShieldPolicy]:
    """What is timed; building the plan is not."""
    if case.variant == "separable":
        from evenhand.shields.synthesis.separable import synthesize_separable

        asked = plan(case, horizon, kind="static-bw")
        return lambda: synthesize_separable(asked)
    options = {"feasible": {"kind": "feasible"}, "any time": {"checks": "anytime"}, "finite": {}}[case.variant]
    asked = plan(case, horizon, **options)
    return lambda: synthesize(asked)


def by_reference(case: Case, horizon: int) -> Callable[[], float]:
    """The published recursion for the same problem; its value is the expected cost."""
    return lambda: shields_recursion.solve(case.kept, KAPPA, horizon, inputs(case)).cost


WAYS: dict[str, Callable[[Case, int], Callable[[], Any]]] = {
    "ours": synthesis,
    "reference": by_reference,
}


def alone(function: Callable[..., Row], *arguments: Any) -> Row:
    """The answer of a process of its own, which shares no memory with this one."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(function, *arguments).result()


def measured(way: str, case: Case, seconds: float) -> Row:
    """Seconds and memory of one way, after a small run that compiles."""
    WAYS[way](case, SMALL)()
    work = WAYS[way](case, case.horizon)
    before = forget_peak()
    made = work()
    peak = peak_bytes() - before
    row = {"memory": peak, "cost": made}
    if isinstance(made, ShieldPolicy):
        row |= {
            "cost": made.expected_cost,
            "policy": made.bytes,
            "arrays": made.peak_bytes,
            "states": made.states,
            "form": made.actions.form,
        }
    del made
    walls: list[float] = []
    cpus: list[float] = []
    while not walls or (len(walls) < 9 and sum(walls) < seconds):
        wall, cpu = time.perf_counter(), time.process_time()
        work()
        walls.append(time.perf_counter() - wall)
        cpus.append(time.process_time() - cpu)
    return row | {"wall": statistics.median(walls), "cpu": statistics.median(cpus), "runs": len(walls)}


def forget_peak() -> int:
    """What this process holds now; from here on its peak counts."""
    if sys.platform == "linux":
        # Freed memory that the process has not given back would hide what is taken next.
        ctypes.CDLL(None).malloc_trim(0)
        Path("/proc/self/clear_refs").write_text("5", "ascii")
        return status("VmRSS")
    return peak_bytes()


def peak_bytes() -> int:
    """The most that this process held."""
    if sys.platform == "linux":
        return status("VmHWM")
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def status(name: str) -> int:
    """Bytes, as the kernel counts them."""
    lines = Path("/proc/self/status").read_text("ascii").splitlines()
    return 1024 * int(next(line for line in lines if line.startswith(name)).split()[1])


def states(case: Case) -> int:
    """Of the published recursion, all layers; for equal opportunity without those that wait for a label."""
    return comb(case.horizon + 5, 5) if case.labelled else comb(case.horizon + 4, 4)


def compared(row: Row, case: Case, most: int, known: dict[tuple[str, int], Row], seconds: float) -> Row:
    """A row with the reference's figures: measured, or scaled from the longest horizon that was."""
    key = (case.kept, case.costs)
    if case.variant != "finite":
        return row
    if states(case) <= most:
        found = alone(measured, "reference", case, seconds)
        known[key] = {"case": case, **found}
        row["reference"] = {key: found[key] for key in ("wall", "cpu", "memory", "cost")} | {"scaled_from": None}
        if not np.isclose(found["cost"], row["cost"], rtol=1e-4, atol=1e-4):
            sys.exit(f"{case} costs {row['cost']}, and by the reference {found['cost']}.")
    elif key in known:
        shorter = known[key]
        ratio = states(case) / states(shorter["case"])
        row["reference"] = {key: shorter[key] * ratio for key in ("wall", "cpu", "memory")} | {
            "scaled_from": shorter["case"].horizon
        }
    if "reference" in row:
        row["times_faster"] = row["reference"]["cpu"] / row["cpu"]
        row["times_smaller"] = row["reference"]["memory"] / max(row["memory"], row["policy"])
    return row


def decisions(case: Case, count: int) -> Row:
    """Nanoseconds of single decisions, and of single labels, by a shield that runs again and again to its horizon."""
    made = synthesis(case, case.horizon)()
    rng = np.random.default_rng(0)
    expected = inputs(case)
    groups = rng.choice(expected.groups, count, p=expected.rate).tolist()
    accept = dict(zip(expected.groups, expected.accept, strict=True))
    recommended = [int(draw < accept[group]) for draw, group in zip(rng.random(count), groups, strict=True)]
    costs = rng.choice(expected.costs, count).tolist()
    labels = rng.integers(0, 2, count).tolist()
    clock = time.perf_counter_ns
    taken, labelled = np.empty(count), []
    shield = Shield(made)
    for i in range(count):
        if i % case.horizon == 0:
            shield = Shield(made)
        given = (groups[i], recommended[i], costs[i], i if case.labelled else None)
        started = clock()
        shield.decide(*given)
        taken[i] = clock() - started
        if case.labelled:
            started = clock()
            shield.observe(i, labels[i])
            labelled.append(clock() - started)
    empty = np.empty(10_000)
    for i in range(len(empty)):
        started = clock()
        empty[i] = clock() - started
    row = {"median": float(np.median(taken)), "p99": float(np.quantile(taken, 0.99)), "clock": float(np.median(empty))}
    if labelled:
        row |= {"observe_median": float(np.median(labelled)), "observe_p99": float(np.quantile(labelled, 0.99))}
    return row | {"decisions": count}


def periods(case: Case, terminal: str, count: int) -> Row:
    """What a dynamic shield plans again, period by period: seconds each, and the states of one plan."""
    from evenhand.shields.policy.periodic import PeriodicShield

    asked = plan(case, kind="dynamic", terminal=terminal)
    synthesis(case, SMALL)()
    shield = PeriodicShield(asked)
    rng = np.random.default_rng(0)
    past = [0, 0, 0, 0]
    walls, cpus = [], []
    for _ in range(count):
        wall, cpu = time.perf_counter(), time.process_time()
        period = shield.begin(tuple(past))
        walls.append(time.perf_counter() - wall)
        cpus.append(time.process_time() - cpu)
        own = [0, 0, 0, 0]
        for t in range(case.horizon):
            g = int(rng.random() >= asked.inputs.rate[0])
            r = int(rng.random() < asked.inputs.accept[g])
            y = period.policy.decision(t, tuple(own), g, r, asked.inputs.costs[0])
            z = int(rng.random() < asked.inputs.label[g]) if asked.inputs.label else 1
            own[2 * g] += z
            own[2 * g + 1] += z * y
        past = [old + new for old, new in zip(past, own, strict=True)]
    return {
        "first_cpu": cpus[0],
        "median_cpu": statistics.median(cpus[1:]),
        "median_wall": statistics.median(walls[1:]),
        "most_cpu": max(cpus),
        "periods": count,
        "bytes": period.policy.bytes,
    }


FIRST = """
import time
from shields import Case, synthesis
for case in (Case("demographic_parity", 6), Case("demographic_parity", 6, 10), Case("equal_opportunity", 6)):
    started = time.process_time(); synthesis(case, 6)(); print(time.process_time() - started)
"""


def compilation() -> Row:
    """Seconds until a first small shield, without and with what was compiled before."""
    row: Row = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in ("compiled", "loaded"):
            done = subprocess.run(
                [sys.executable, "-c", FIRST],
                env=os.environ | {"NUMBA_CACHE_DIR": folder, "PYTHONPATH": str(ROOT / "benchmarks")},
                capture_output=True,
                text=True,
                check=True,
            )
            row[name] = [float(line) for line in done.stdout.split()]
    return row


BARS: tuple[tuple[str, Case, str, float], ...] = (
    ("DP, 100 decisions: seconds", Case("demographic_parity", 100), "cpu", 0.05),
    ("DP, 100 decisions: MB", Case("demographic_parity", 100), "memory", 5 * MB),
    ("DP, 400 decisions: seconds", Case("demographic_parity", 400), "cpu", 10.0),
    ("EqOpp, 75 decisions: seconds", Case("equal_opportunity", 75), "cpu", 1.0),
    ("EqOpp, 75 decisions: MB", Case("equal_opportunity", 75), "memory", 20 * MB),
)
"""What must be reached."""
DECISION_BAR = 5000.0
"""Nanoseconds of a decision, in the median."""


def bars(rows: list[Row], decided: list[Row]) -> list[Row]:
    """What was to be reached and what was."""
    found = [
        {"what": shown, "limit": limit, "found": row[key], "met": row[key] < limit}
        for shown, case, key, limit in BARS
        for row in rows
        if row["case"] == asdict(case)
    ]
    for row in decided:
        met = row["median"] < DECISION_BAR
        found.append(
            {"what": f"a decision, {row['shown']}: ns", "limit": DECISION_BAR, "found": row["median"], "met": met}
        )
    return found


def table(title: str, words: tuple[str, ...], numbers: tuple[str, ...]) -> Table:
    """An empty table."""
    made = Table(title=title)
    for heading in words:
        made.add_column(heading, no_wrap=True)
    for heading in numbers:
        made.add_column(heading, justify="right")
    return made


def synthesis_table(rows: list[Row]) -> Table:
    shown = table(
        "Synthesis",
        ("Shield",),
        (
            "Decisions",
            "Costs",
            "States",
            "CPU s",
            "Wall s",
            "Peak MB",
            "Policy MB",
            "Expected cost",
            "Reference CPU s",
            "Reference MB",
            "Faster",
            "Smaller",
            "Published",
        ),
    )
    for row in rows:
        other = row.get("reference")
        sign = "~" if other and other["scaled_from"] else ""
        shown.add_row(
            row["shown"],
            str(row["case"]["horizon"]),
            str(row["case"]["costs"]),
            f"{row['states']:,}",
            f"{row['cpu']:.3g}",
            f"{row['wall']:.3g}",
            f"{row['memory'] / MB:.1f}",
            f"{row['policy'] / MB:.2f}",
            f"{row['cost']:.4f}",
            f"{sign}{other['cpu']:.3g}" if other else "",
            f"{sign}{other['memory'] / MB:,.1f}" if other else "",
            f"{sign}{row['times_faster']:.1f} x" if other else "",
            f"{sign}{row['times_smaller']:.0f} x" if other else "",
            row["published"] or "",
        )
    shown.caption = "~ scaled by the number of states from the longest horizon that was measured"
    return shown


def decisions_table(rows: list[Row]) -> Table:
    shown = table(
        "Decisions of a running shield, microseconds each, the clock's own included",
        ("Shield",),
        (
            "Decisions",
            "Costs",
            "Median",
            "99 of 100 under",
            "Label, median",
            "Label, 99 of 100",
            "The clock alone",
        ),
    )
    for row in rows:
        observed = [f"{row[key] / 1000:.2f}" if key in row else "" for key in ("observe_median", "observe_p99")]
        shown.add_row(
            row["shown"],
            str(row["case"]["horizon"]),
            str(row["case"]["costs"]),
            f"{row['median'] / 1000:.2f}",
            f"{row['p99'] / 1000:.2f}",
            *observed,
            f"{row['clock'] / 1000:.2f}",
        )
    return shown


def periods_table(rows: list[Row]) -> Table:
    shown = table(
        "A new plan at the start of every period of a dynamic shield, CPU ms",
        ("Shield", "Ends"),
        (
            "Decisions in a period",
            "Periods",
            "First",
            "Later, median",
            "At most",
            "Policy MB",
        ),
    )
    for row in rows:
        shown.add_row(
            row["shown"],
            row["terminal"],
            str(row["case"]["horizon"]),
            str(row["periods"]),
            f"{1e3 * row['first_cpu']:.1f}",
            f"{1e3 * row['median_cpu']:.1f}",
            f"{1e3 * row['most_cpu']:.1f}",
            f"{row['bytes'] / MB:.2f}",
        )
    return shown


def bars_table(rows: list[Row]) -> Table:
    shown = table("To be reached", ("What",), ("Less than", "Found", ""))
    for row in rows:
        unit = MB if row["what"].endswith("MB") else 1
        shown.add_row(
            row["what"],
            f"{row['limit'] / unit:g}",
            f"{row['found'] / unit:.4g}",
            "yes" if row["met"] else "[red]NO[/red]",
        )
    return shown


def drawing(rows: list[Row]) -> Spec:
    """Seconds by horizon, ours and the reference's."""
    points = []
    for row in rows:
        if row["case"]["variant"] != "finite" or row["case"]["costs"] > 1 or row["case"]["kept"].startswith("disp"):
            continue
        for way, found in (("one layer in place", row), ("published recursion", row.get("reference"))):
            if found and not found.get("scaled_from"):
                points.append(
                    {"line": f"{row['shown']}, {way}", "horizon": row["case"]["horizon"], "cpu": found["cpu"]}
                )
    lines = list(dict.fromkeys(point["line"] for point in points))
    colours = [LIGHT[role] for role in SERIES[: len(lines)]]
    dashes = [list(dash) for dash in DASHES[: len(lines)]]
    return finish_chart(
        mark_layer(
            points,
            {"type": "line", "point": True},
            x={
                "field": "horizon",
                "type": "quantitative",
                "scale": {"type": "log"},
                "title": "decisions",
                "axis": {"values": [50, 75, 100, 200, 400, 1000]},
            },
            y={
                "field": "cpu",
                "type": "quantitative",
                "scale": {"type": "log"},
                "title": "processor seconds",
                "axis": {"tickCount": 5, "format": "~g"},
            },
            color={"field": "line", "type": "nominal", "scale": {"domain": lines, "range": colours}, "title": None},
            strokeDash={"field": "line", "type": "nominal", "scale": {"domain": lines, "range": dashes}, "title": None},
        )
        | {"width": 480, "height": 280},
        "Processor seconds of synthesis by horizon: one layer in place, and the published recursion.",
    )


def main() -> None:
    """Measure, show, keep the figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--longest", type=int, default=400, metavar="T", help="leave longer horizons out (default 400)")
    parser.add_argument(
        "--reference", type=float, default=1e8, metavar="N", help="states that the reference may take (default 1e8)"
    )
    parser.add_argument("--seconds", type=float, default=3.0, metavar="S", help="repeat each for so long (default 3)")
    parser.add_argument("--decisions", type=int, default=100_000, metavar="N", help="decisions that are timed each")
    parser.add_argument("--only", metavar="TEXT", help="only shields whose name contains this")
    parser.add_argument(
        "--json",
        default=str(ROOT / "benchmarks" / "results" / "shields.json"),
        metavar="FILE",
        help="where to keep the figures; - is standard output, alone (default benchmarks/results/shields.json)",
    )
    options = parser.parse_args()
    started = time.perf_counter()
    first = compilation()
    rows: list[Row] = []
    known: dict[tuple[str, int], Row] = {}
    for case in CASES:
        if (case.horizon > options.longest and case.variant != "separable") or (options.only or "") not in case.shown:
            continue
        print(f"{case.shown}, {case.horizon} decisions, {case.costs} costs ...", file=sys.stderr, flush=True)
        row = alone(measured, "ours", case, options.seconds)
        row |= {"case": asdict(case), "shown": case.shown}
        row["published"] = PUBLISHED.get((case.kept, case.horizon)) if case.variant == "finite" else None
        rows.append(compared(row, case, options.reference, known, options.seconds))
    print("decisions, periods ...", file=sys.stderr, flush=True)
    decided = [
        {"shown": case.shown, "case": asdict(case)} | alone(decisions, case, options.decisions)
        for case in (
            Case("demographic_parity", 100),
            Case("demographic_parity", 100, costs=10),
            Case("disparate_impact", 100),
            Case("equal_opportunity", 75),
        )
    ]
    again = [
        {"shown": case.shown, "case": asdict(case), "terminal": terminal} | alone(periods, case, terminal, 10)
        for case in (Case("demographic_parity", 50), Case("demographic_parity", 100), Case("equal_opportunity", 50))
        for terminal in ("exempt", "strict", "soft")
    ]
    figures = {
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "seconds": time.perf_counter() - started,
        "versions": {name: importlib.metadata.version(name) for name in ("evenhand", "numpy", "numba")},
        "compilation": first,
        "synthesis": rows,
        "decisions": decided,
        "periods": again,
        "bars": bars(rows, decided),
    }
    if options.json == "-":
        print(json.dumps(figures, indent=1))
        return
    console = Console(width=None if sys.stdout.isatty() else 180)
    for shown in (synthesis_table(rows), decisions_table(decided), periods_table(again), bars_table(figures["bars"])):
        console.print(shown)
    compiled, loaded = (", ".join(f"{each:.1f}" for each in first[name]) for name in ("compiled", "loaded"))
    print(f"A first small shield, CPU s (DP, DP with 10 costs, EqOpp): {compiled} compiled; {loaded} loaded")
    target = Path(options.json)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(figures, indent=1) + "\n", "utf-8")
    picture = target.with_suffix(".svg")
    picture.write_text(to_svg(drawing(rows), name="shields") + "\n", "utf-8")
    print(f"The figures: {target}; the plot: {picture}")


if __name__ == "__main__":
    main()

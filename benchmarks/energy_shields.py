"""Energy shields beside the other kinds: what each costs, and how often a run is unfair.

    python benchmarks/energy_shields.py                   two minutes on one core
    python benchmarks/energy_shields.py --picture FILE    and the picture of docs/explanation/shields.md#energy-shields

Two streams: Adult's women and men with a model that recommends 7.5 % and 25.2 %, and groups of 30 and 70 % in which 35
and 60 % are recommended. A hundred decisions, a bias of at most 0.1 at the end. The first table is exact. The others
are simulations with a fixed seed.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

from evenhand.shields import (
    FairnessProperty,
    Inputs,
    Nudging,
    PeriodicShield,
    ShieldPlan,
    ShieldPolicy,
    compare_shields,
    inspect_policy,
    long_run_bias,
    simulate_shield,
    synthesize,
)
from evenhand.view.charts.shields.comparison import draw_comparison
from evenhand.view.drawing.theme import to_svg

KEPT = FairnessProperty("demographic_parity", Fraction(1, 10))
STREAMS = {
    "adult": Inputs(("women", "men"), (0.331, 0.669), (0.075, 0.252)),
    "uneven": Inputs(("a", "b"), (0.3, 0.7), (0.35, 0.6)),
}
NUDGING = Nudging(free=0.05, full=0.1, power=2)
NOTHING = Nudging(first=100, filter=False)
"""No nudges at all within a hundred decisions: the stream without a shield."""

Row = dict[str, Any]


def exact_row(name: str, policy: ShieldPolicy) -> Row:
    """What a policy comes to over all runs of a hundred decisions."""
    found = inspect_policy(policy)
    return {"shield": name, "overrides": found.overrides, "unfair": found.ends[-1].chance}


def exact_table(inputs: Inputs) -> list[Row]:
    """No shield, `finite`, and nudges without and with the filter."""
    plain = ShieldPlan(KEPT, inputs, 100)
    rules = (("none", NOTHING), ("nudges", replace(NUDGING, filter=False)), ("nudges and filter", NUDGING))
    rows = [
        exact_row(name, PeriodicShield(replace(plain, kind="energy", nudging=nudging)).begin().policy)
        for name, nudging in rules
    ]
    return [*rows, exact_row("finite", synthesize(plain))]


def periods_table(inputs: Inputs) -> list[Row]:
    """Ten periods of 50 decisions in 60 runs: overrides in 100, time beyond kappa, runs with all ends fair."""
    plain = ShieldPlan(KEPT, inputs, 50)
    plans = [
        replace(plain, kind="dynamic"),
        replace(plain, kind="greedy"),
        replace(plain, kind="static-bw"),
        replace(plain, kind="energy", nudging=replace(NUDGING, filter=False)),
        replace(plain, kind="energy", nudging=NUDGING),
    ]
    result = compare_shields(plans, runs=60, periods=10)
    names = ["dynamic", "greedy", "static-bw", "nudges", "nudges and filter"]
    return [
        {"shield": name, "overrides": one.interventions_mean / 5, "beyond": one.time_beyond, "fair": one.fair_share}
        for name, one in zip(names, result.simulations, strict=True)
    ]


def limits(inputs: Inputs) -> list[Row]:
    """The bias after 40,000 decisions, mean of 60 runs, beside what it tends to; overrides per point of gap closed."""
    rows: list[Row] = []
    gap = abs(inputs.accept[0] - inputs.accept[1])
    for groups in ("both", "smaller"):
        nudging = Nudging(full=0.1, groups=groups, filter=False)
        plan = ShieldPlan(KEPT, inputs, 4000, kind="energy", nudging=nudging)
        found = simulate_shield(plan, runs=60, periods=10)
        closed = gap - getattr(found.bias, "value", 0.0)
        spent = getattr(found.intervention_rate, "value", 0.0)
        rows.append(
            {
                "nudge": groups,
                "formula": long_run_bias(plan),
                "measured": getattr(found.bias, "value", None),
                "overrides per point": spent / closed,
            }
        )
    return rows


def draw_kinds(path: Path) -> None:
    """Write the picture of the kinds on Adult's stream."""
    plain = ShieldPlan(KEPT, STREAMS["adult"], 100)
    plans = [plain, replace(plain, kind="energy", nudging=NUDGING), replace(plain, kind="greedy")]
    result = compare_shields(plans, runs=2000)
    path.write_text(to_svg(draw_comparison(result), name="kinds of shields"), encoding="utf-8")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--picture", type=Path, help="write the picture of the kinds here, and measure nothing")
    asked = parser.parse_args(arguments)
    if asked.picture is not None:
        draw_kinds(asked.picture)
        return
    found: Row = {}
    for name, inputs in STREAMS.items():
        found[name] = {"exact": exact_table(inputs), "periods": periods_table(inputs), "limits": limits(inputs)}
        print(json.dumps({name: found[name]}, indent=1), flush=True)


if __name__ == "__main__":
    main()

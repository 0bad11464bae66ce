"""How often the search for subgroups errs: false findings, missed gaps, intervals that miss.

    python benchmarks/subgroup_errors.py                  500 simulated models of each kind, 1,000 fair ones
    python benchmarks/subgroup_errors.py --runs 100       fewer
    python benchmarks/subgroup_errors.py german           some data sets only

Everything is simulated on the real people of Adult ("census"), German credit and COMPAS, so that the truth is known.

False findings: fair models, whose decisions do not depend on the sensitive attributes, given to the search itself
(``evenhand.subgroups.find_subgroups``, margin 0); half of them toss a coin at the data set's base rate for
everybody, half decide
by the attribute that tells most about the label, after its column was shuffled among the people. Whatever is found is
false. Planted gaps: of a fair model, one rule set drawn at random out of those looked at gets 5 points more; it counts
as found if its own adjusted interval excludes 0. Coverage: people resampled from the data, decided about at the rates
that their labels have in each cell of the sensitive attributes; the gaps among all people ever drawn are known, and the
adjusted intervals have to hold all of them together, the plain ones each. The published method: its intervals for fair
models like these, by its own sampling and stopping rule (samples are the people themselves, not moved), a tenth of the
runs.

The data is looked for in ``data`` of the folder that EVENHAND_SHARED names, else of ``shared`` beside this checkout; a
data set that is not there is left out.
"""

from __future__ import annotations

import os

# A matrix library that starts threads of its own would spend processor time on waiting.
os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}

import argparse
import json
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from evenhand import subgroups
from evenhand.errors import FetchError
from evenhand.schema import People, Schema
from evenhand.schema.attribute import Value
from evenhand.stats import clopper_pearson
from evenhand.stats.level import normal_quantile
from evenhand.stats.proportion import count_needed
from evenhand.subgroups.assessment import CandidateFamily, CandidateStatistics, assess_candidates, count_family
from evenhand.subgroups.config import SubgroupConfig
from evenhand.subgroups.family import RuleSetFamily, build_family, cut_attributes
from evenhand.subgroups.methods.published import StoppingRule, sample_until_margin
from evenhand.subgroups.tabulate import OccupiedCells, cells_of_rule_sets, find_occupied_cells, tabulate_people

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from reproductions.testsgd_people import CASES, load_people

ROOT = Path(__file__).resolve().parent.parent
SHARED = Path(os.environ.get("EVENHAND_SHARED", ROOT.parent / "shared"))
NAMES = ("census", "german", "compas")
PLANTED = "census"
"""The data set in which gaps are planted."""
GAP = 0.05
CONFIG = SubgroupConfig(margin=0.0)
"""What is simulated: the defaults, but that no real gap is too small to be found."""
FAIR = 2
"""Times as many fair models: 500 runs hardly tell 5 % from 6 %, their standard error is 1 %."""
PUBLISHED_MORE_THAN, PUBLISHED_MARGIN = 1000, 0.05
"""The published stopping rule."""

Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Place:
    """A data set to simulate on.

    Attributes:
        name: as the paper calls it.
        people: everybody.
        sensitive: attributes searched.
        codes: the cell of each person by each of them, shape (n, attributes).
        rules: the family over them.
        deserving: whose label is favourable, shape (n,).
        told: share of favourable labels among those with the same value of the most telling other attribute, (n,).
    """

    name: str
    people: People
    sensitive: tuple[str, ...]
    codes: Ints
    rules: RuleSetFamily
    deserving: Bools
    told: Floats


@dataclass
class Decisions:
    """A model whose decisions were made beforehand, one for each person in order."""

    schema: Schema
    given: Bools
    name: str = "simulated"
    label_only: bool = True
    favourable: int = 1

    @property
    def classes(self) -> tuple[Value, ...]:
        values = self.schema.target.values or ()
        wanted = self.schema.target.favourable
        return (*(value for value in values if value != wanted), wanted)

    def scores(self, individuals: Floats) -> Floats:
        return np.eye(2)[self.predict(individuals)]

    def predict(self, individuals: Floats) -> Ints:
        if len(individuals) != len(self.given):
            raise ValueError(f"{len(individuals)} people were asked about instead of all {len(self.given)} at once")
        return self.given.astype(np.int64)


def place(name: str) -> Place | None:
    """A data set ready to be simulated on; None where it is not here."""
    source = next(case for case in CASES if case.name == name)
    tables = SHARED / "data" / "tabular"
    try:
        people = load_people(source, data_home=tables if tables.is_dir() else None)
    except FetchError:
        return None
    cuts, codes = cut_attributes(people, source.sensitive, CONFIG.bins)
    others = [at for at, one in enumerate(people.schema.names) if one not in source.sensitive]
    told = max(
        (_told(people.individuals[:, at], people.favourable) for at in others), key=lambda rate: float(rate.var())
    )
    return Place(name, people, source.sensitive, codes, build_family(cuts), people.favourable, told)


def _told(entries: Floats, deserving: Bools) -> Floats:
    """The share of the deserving among those with the same value, of numbers in ten parts of equal size."""
    known = np.nan_to_num(entries, nan=-1.0)
    if len(np.unique(known)) > 10:
        known = np.searchsorted(np.quantile(known, np.linspace(0.1, 0.9, 9)), known)
    _, of = np.unique(known, return_inverse=True)
    return np.asarray((np.bincount(of, weights=deserving) / np.bincount(of))[of])


def fair(at: Place, run: int, rng: np.random.Generator) -> Bools:
    """The decisions of a fair model: every other one also looks at an attribute that is not sensitive."""
    rate = np.full(len(at.people), at.deserving.mean()) if run % 2 == 0 else rng.permutation(at.told)
    return np.asarray(rng.random(len(at.people)) < rate)


def look(at: Place, codes: Ints, given: Bools, rng: np.random.Generator) -> tuple[CandidateFamily, CandidateStatistics]:
    """What the search makes of decisions, for every rule set."""
    table = tabulate_people(codes, given.astype(np.float64), counted=True)
    lot = count_family(at.rules, table, max(count_needed(CONFIG.support, table.people), CONFIG.min_size))
    return lot, assess_candidates(lot, CONFIG, rng, margin=CONFIG.margin)


def false_findings(at: Place, runs: int, seed: int) -> Iterator[dict[str, Any]]:
    """Search fair models."""
    for run in range(runs):
        rng = np.random.default_rng((seed, run))
        model = Decisions(at.people.schema, fair(at, run, rng))
        found = subgroups.find_subgroups(model, at.people, CONFIG, attributes=at.sensitive, seed=run, most=1)
        yield {"tested": found.tested, "found": found.found, "critical": found.critical, "coin": run % 2 == 0}


def planted(at: Place, runs: int, seed: int) -> Iterator[dict[str, Any]]:
    """Search models that are fair but for one rule set."""
    rng = np.random.default_rng(seed)
    table = tabulate_people(at.codes, at.deserving.astype(np.float64), counted=True)
    lot = count_family(at.rules, table, max(count_needed(CONFIG.support, table.people), CONFIG.min_size))
    base = at.deserving.mean()
    for _ in range(runs):
        which = int(rng.integers(len(lot.chosen)))
        inside = cells_of_rule_sets(at.rules, table.cells, lot.chosen[[which]])[0][table.cells.of]
        given = rng.random(len(inside)) < base + GAP * inside
        again, standing = look(at, at.codes, given, rng)
        # The rule sets depend on who is in a cell, not on what is decided, so they are the same.
        assert (again.chosen == lot.chosen).all()
        top = int(np.argmax(np.abs(standing.z)))
        chosen = cells_of_rule_sets(at.rules, table.cells, again.chosen[[top]])[0][table.cells.of]
        yield {
            "size": int(inside.sum()),
            "found": bool(standing.found[which]),
            "anything": bool(standing.found.any()),
            "overlap": float((chosen & inside).sum() / (chosen | inside).sum()),
        }


def coverage(at: Place, runs: int, seed: int) -> Iterator[dict[str, Any]]:
    """Resample the people, and check whether the intervals cover the true gaps."""
    rng = np.random.default_rng(seed)
    cells = find_occupied_cells(at.codes)
    n = len(at.codes)
    rate = np.bincount(cells.of, weights=at.deserving) / cells.sizes
    for _ in range(runs):
        of = rng.integers(0, n, size=n)
        given = rng.random(n) < rate[cells.of[of]]
        lot, standing = look(at, at.codes[of], given, rng)
        gaps = _gaps(cells_of_rule_sets(at.rules, cells, lot.chosen), cells, rate)
        inside = (standing.low <= gaps) & (gaps <= standing.high)
        plain = (standing.plain_low <= gaps) & (gaps <= standing.plain_high)
        yield {
            "together": bool(inside.all()),
            "plain": float(plain.mean()),
            "plain_found": float(plain[standing.found].mean()) if standing.found.any() else None,
            "plain_top": bool(plain[int(np.argmax(abs(standing.groups.gap)))]),
        }


def _gaps(inside: Bools, cells: OccupiedCells, rate: Floats) -> Floats:
    """The true gap of each rule set, from the cells that it contains (rule sets, cells); 0 for those without a rest."""
    weight = cells.sizes.astype(np.float64)
    size, total = inside @ weight, inside @ (weight * rate)
    rest = weight.sum() - size
    gap = np.divide(total, size, out=np.zeros_like(size), where=size > 0)
    gap -= np.divide(weight @ rate - total, rest, out=np.zeros_like(size), where=rest > 0)
    return np.where((size > 0) & (rest > 0), gap, 0.0)


def published(at: Place, runs: int, seed: int) -> Iterator[dict[str, Any]]:
    """The published sampling and interval on fair models."""
    rng = np.random.default_rng(seed)
    n = len(at.codes)
    table = tabulate_people(at.codes, np.zeros(n), counted=True)
    lot = count_family(at.rules, table, count_needed(CONFIG.support, n))
    cells = cells_of_rule_sets(at.rules, table.cells, lot.chosen)
    ordered = np.argsort(table.cells.of, kind="stable")
    starts = np.concatenate([[0], np.cumsum(table.cells.sizes)])

    def pool(which: int, side: int) -> Ints:
        parts = np.flatnonzero(cells[which] != (side == 1))
        return np.concatenate([ordered[starts[part] : starts[part + 1]] for part in parts])

    def draw(which: int, side: int, pairs: int, own: np.random.Generator) -> Ints:
        people = pool(which, side)
        return np.asarray(people[own.integers(0, len(people), size=pairs)])

    for run in range(runs):
        given = fair(at, run, rng)
        seen = sample_until_margin(
            *(len(lot.chosen), 2, draw, given.__getitem__),
            rule=StoppingRule(PUBLISHED_MORE_THAN, PUBLISHED_MARGIN, normal_quantile(CONFIG.confidence)),
            seed=seed + run,
        )
        gaps = np.subtract(*(seen.k / seen.n[:, None]).T)
        wrong = int((abs(gaps) > seen.margins).sum())
        yield {"tested": len(gaps), "found": wrong, "top": float(abs(gaps).max()), "samples": seen.queries}


def measured(places: list[Place], runs: int, progress: Progress) -> list[dict[str, Any]]:
    """All simulations, one after the other; a row of figures each."""
    rows = []
    for at in places:
        few = max(20, runs // 10)
        tasks = [
            ("false findings", false_findings, FAIR * runs),
            ("coverage", coverage, runs),
            ("published", published, few),
        ]
        if at.name == PLANTED:
            tasks.insert(1, ("planted", planted, runs))
        for what, simulate, number in tasks:
            task = progress.add_task(f"{at.name}: {what}", total=number)
            started = time.process_time()
            outcomes = []
            for outcome in simulate(at, number, seed=len(what)):
                outcomes.append(outcome)
                progress.advance(task)
            seconds = time.process_time() - started
            rows.append({"data": at.name, "what": what, "runs": number, "seconds": seconds, **FIGURES[what](outcomes)})
    return rows


def _share(flags: list[bool]) -> dict[str, Any]:
    """A share of runs with its 95 % interval."""
    low, high = clopper_pearson(sum(flags), len(flags))
    return {"share": sum(flags) / len(flags), "low": float(low), "high": float(high)}


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)


FIGURES: dict[str, Any] = {
    "false findings": lambda outcomes: {
        **_share([one["found"] > 0 for one in outcomes]),
        "coin": _mean([one["found"] > 0 for one in outcomes if one["coin"]]),
        "told": _mean([one["found"] > 0 for one in outcomes if not one["coin"]]),
        "tested": _mean([one["tested"] for one in outcomes]),
        "critical": _mean([one["critical"] for one in outcomes]),
    },
    "planted": lambda outcomes: {
        **_share([one["found"] for one in outcomes]),
        "overlap": _mean([one["overlap"] for one in outcomes]),
        "smallest": min(one["size"] for one in outcomes),
        "smallest_tenth": _mean(
            [one["found"] for one in sorted(outcomes, key=lambda one: one["size"])[: max(1, len(outcomes) // 10)]]
        ),
    },
    "coverage": lambda outcomes: {
        **_share([one["together"] for one in outcomes]),
        "plain": _mean([one["plain"] for one in outcomes]),
        "plain_error": float(np.std([one["plain"] for one in outcomes]) / np.sqrt(len(outcomes))),
        "plain_found": _mean([one["plain_found"] for one in outcomes if one["plain_found"] is not None] or [np.nan]),
        "plain_top": _mean([one["plain_top"] for one in outcomes]),
    },
    "published": lambda outcomes: {
        **_share([one["found"] > 0 for one in outcomes]),
        "tested": _mean([one["tested"] for one in outcomes]),
        "found": _mean([one["found"] for one in outcomes]),
        "covered": 1 - sum(one["found"] for one in outcomes) / sum(one["tested"] for one in outcomes),
        "top": _mean([one["top"] for one in outcomes]),
    },
}


def show(console: Console, rows: list[dict[str, Any]]) -> None:
    """Tables of the figures."""

    def percent(number: float) -> str:
        return f"{number:.1%}".replace("%", " %")

    def interval(row: dict[str, Any]) -> str:
        return f"{percent(row['share'])} ({100 * row['low']:.1f} to {100 * row['high']:.1f})"

    table = Table(title="Fair models: runs in which anything is found (at most 6 %)")
    for heading in ("data", "runs", "rule sets", "critical z", "ours", "coin", "other attribute", "s/run"):
        table.add_column(heading, justify="left" if heading == "data" else "right")
    for row in (row for row in rows if row["what"] == "false findings"):
        table.add_row(
            *(row["data"], str(row["runs"]), f"{row['tested']:,.0f}", f"{row['critical']:.2f}", interval(row)),
            *(percent(row["coin"]), percent(row["told"]), f"{row['seconds'] / row['runs']:.2f}"),
        )
    console.print(table)
    table = Table(title="Fair models by the published sampling and interval")
    for heading in ("data", "runs", "rule sets", "runs with findings", "false findings", "largest gap", "covered"):
        table.add_column(heading, justify="left" if heading == "data" else "right")
    for row in (row for row in rows if row["what"] == "published"):
        table.add_row(
            *(row["data"], str(row["runs"]), f"{row['tested']:,.0f}", interval(row), f"{row['found']:,.1f}"),
            *(f"{row['top']:.3f}", percent(row["covered"])),
        )
    console.print(table)
    table = Table(title=f"A planted gap of {GAP} (at least 90 %)")
    for heading in ("data", "runs", "found", "in the smallest tenth", "smallest", "overlap of the first finding"):
        table.add_column(heading, justify="left" if heading == "data" else "right")
    for row in (row for row in rows if row["what"] == "planted"):
        table.add_row(
            *(row["data"], str(row["runs"]), interval(row), percent(row["smallest_tenth"]), f"{row['smallest']:,}"),
            percent(row["overlap"]),
        )
    console.print(table)
    table = Table(title="Coverage of intervals for the true gap (nominal 95 %, at least 94.5 %)")
    for heading in ("data", "runs", "adjusted, all together", "plain, each", "plain, of those found", "plain, largest"):
        table.add_column(heading, justify="left" if heading == "data" else "right")
    for row in (row for row in rows if row["what"] == "coverage"):
        table.add_row(
            *(row["data"], str(row["runs"]), interval(row)),
            f"{percent(row['plain'])} ± {100 * row['plain_error']:.1f}",
            *(percent(row["plain_found"]), percent(row["plain_top"])),
        )
    console.print(table)


def main() -> None:
    """Simulate, show, keep the figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("names", nargs="*", choices=[[], *NAMES], metavar="DATA", help=", ".join(NAMES))
    parser.add_argument(
        "--runs",
        type=int,
        default=500,
        metavar="N",
        help="simulations of each kind, twice as many of fair models (default 500)",
    )
    parser.add_argument(
        "--json",
        default=str(ROOT / "benchmarks" / "results" / "subgroup_errors.json"),
        metavar="FILE",
        help="where to keep the figures; - is standard output, alone (default benchmarks/results/subgroup_errors.json)",
    )
    options = parser.parse_args()
    console = Console(stderr=options.json == "-")
    places = [at for name in options.names or NAMES if (at := place(name))]
    for name in options.names or NAMES:
        if name not in [at.name for at in places]:
            console.print(f"Skipped: the data of {name} is not here.")
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(file=sys.stderr)) as progress:
        rows = measured(places, options.runs, progress)
    show(console, rows)
    figures = {"cores": len(os.sched_getaffinity(0)), "numpy": np.__version__, "rows": rows}
    text = json.dumps(figures, indent=1)
    if options.json == "-":
        print(text)
    else:
        path = Path(options.json)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n", "utf-8")


if __name__ == "__main__":
    main()

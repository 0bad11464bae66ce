"""How fast subgroups are searched, and what other tools answer about the same decisions, on real data.

    python benchmarks/subgroups.py                     every data set that is here; a minute, longer with other tools
    python benchmarks/subgroups.py census compas       some of them

Three tables. Speed: a network with six layers trained on a part of each data set, asked once about everybody; seconds
of that and of all after it, and rule sets per second end to end, of the processor. Peers: what other tools answer,
asked about the same people in the same cells. Fair models: the same decisions dealt out by chance, so that everything
found is false. Such networks by the published method, beside the published figures: ``make reproduce PAPER=testsgd``.

The data is looked for in ``data`` of the folder that EVENHAND_SHARED names, else of ``shared`` beside this checkout; a
data set that is not there is left out. Other tools are asked if they can be imported, in an environment of their own:

    python -m venv .venv-peers
    .venv-peers/bin/pip install -e . DivExplorer pysubgroup aif360 fairlearn
    .venv-peers/bin/python benchmarks/subgroups.py

How often false findings are reported, gaps missed and intervals wrong: ``benchmarks/subgroup_errors.py``.
"""

from __future__ import annotations

import os

# A matrix library that starts threads of its own would spend processor time on waiting.
os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}

import argparse
import importlib.metadata
import json
import statistics
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

import subgroup_peers
from evenhand import subgroups
from evenhand.errors import FetchError
from evenhand.mitigation.split import TrainingSet, split_people
from evenhand.models import Scorer, predict_labels
from evenhand.models.scorer import WrappedScorer
from evenhand.schema import People
from evenhand.subgroups.family import cut_attributes
from evenhand.subgroups.result import Finding, SubgroupResult

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from reproductions.testsgd_people import CASES, FULL, ExperimentCase, PublishedNetworkLearner, load_people

ROOT = Path(__file__).resolve().parent.parent
SHARED = Path(os.environ.get("EVENHAND_SHARED", ROOT.parent / "shared"))
SOURCES = {case.name: case for case in CASES}
LONGEST = 160
"""Letters of another tool's description that the table shows; all of it is among the figures."""
DEALT_OUT = "compas"
"""The data set whose decisions are dealt out by chance."""

Row = dict[str, Any]


@dataclass(frozen=True)
class Case:
    """People and a network of them: the data set's name and source, and the accuracy on people kept aside."""

    name: str
    source: ExperimentCase
    people: People
    model: Scorer
    accuracy: float


def case(name: str) -> Case | None:
    """A data set with a network trained on it; None where the data is not here."""
    tables = SHARED / "data" / "tabular"
    try:
        people = load_people(SOURCES[name], data_home=tables if tables.is_dir() else None)
    except FetchError:
        return None
    parts = split_people(people, seed=0)
    model = PublishedNetworkLearner(FULL).fit(TrainingSet.plain(parts.train), seed=0)
    right = (predict_labels(model, parts.test.individuals) == model.favourable) == parts.test.favourable
    return Case(name, SOURCES[name], people, model, float(right.mean()))


@dataclass
class Timed(WrappedScorer):
    """A model that keeps count of the seconds it takes."""

    model: Scorer
    wall: float = 0.0
    cpu: float = 0.0
    asked: int = 0

    def scores(self, individuals: NDArray[np.float64]) -> NDArray[np.float64]:
        return self._timed(self.model.scores, individuals)

    def predict(self, individuals: NDArray[np.float64]) -> NDArray[np.int64]:
        return self._timed(self.model.predict, individuals)

    def _timed(self, ask: Any, individuals: NDArray[np.float64]) -> Any:
        wall, cpu = time.perf_counter(), time.process_time()
        try:
            return ask(individuals)
        finally:
            self.wall += time.perf_counter() - wall
            self.cpu += time.process_time() - cpu
            self.asked += len(individuals)


def search(asked: Case, **options: Any) -> tuple[SubgroupResult, Row]:
    """One search, and its seconds: of the model, and of everything else."""
    model = Timed(asked.model)
    wall, cpu = time.perf_counter(), time.process_time()
    result = subgroups.find_subgroups(
        model, asked.people, attributes=asked.source.sensitive, depth=asked.source.depth, **options
    )
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return result, {
        "model_wall": model.wall,
        "model_cpu": model.cpu,
        "after_wall": wall - model.wall,
        "after_cpu": cpu - model.cpu,
        "wall": wall,
        "cpu": cpu,
        "asked": model.asked,
    }


def speed(asked: Case, repeats: int) -> Row:
    """Our search, and rule sets per second of the processor."""
    runs = [search(asked) for _ in range(repeats)]
    result = runs[0][0]
    seconds = {key: statistics.median(each[key] for _, each in runs) for key in runs[0][1]}
    return {
        "data": asked.name,
        "people": len(asked.people),
        "accuracy": asked.accuracy,
        "favourable": result.rate,
        **seconds,
        "rule_sets": result.rule_sets,
        "tested": result.tested,
        "found": result.found,
        "critical": result.critical,
        "top": shown(result.findings[0]) if result.findings else None,
        "rule_sets_per_second": result.rule_sets / seconds["cpu"],
        "tested_per_second": result.tested / seconds["cpu"],
    }


def shown(finding: Finding) -> Row:
    """What a table shows of a finding."""
    kept = ("words", "size", "rest", "rate", "rest_rate", "gap", "low", "high", "adjusted_p", "found")
    return {key: getattr(finding, key) for key in kept}


def table_of_cells(asked: Case) -> pd.DataFrame:
    """The sensitive attributes of everybody, in the cells that our rule sets are made of."""
    cuts, codes = cut_attributes(asked.people, asked.source.sensitive)
    columns = {one.attribute: np.array(one.names, dtype=object)[code] for one, code in zip(cuts, codes.T, strict=True)}
    return pd.DataFrame(columns, dtype=object)


def peers(asked: Case, ours: Row) -> list[Row]:
    """Every tool that is installed, on the same decisions."""
    decided = predict_labels(asked.model, asked.people.individuals) == asked.model.favourable
    cells = table_of_cells(asked)
    top = ours["top"] or {}
    rows: list[Row] = [
        {
            "tool": "Evenhand",
            "groups": "any values, any ranges",
            "evidence": "adjusted intervals, max-t",
            "cpu_seconds": ours["after_cpu"],
            "wall_seconds": ours["after_wall"],
            "looked_at": ours["tested"],
            "findings": ours["found"],
            "top": top.get("words"),
            **{key: top.get(key) for key in ("size", "rest", "rate", "rest_rate")},
        }
    ]
    depth = asked.source.depth or len(asked.source.sensitive)
    rows += [subgroup_peers.ask(peer, cells, decided, depth) for peer in subgroup_peers.installed()]
    return [{"data": asked.name} | row for row in rows]


@dataclass(frozen=True)
class Dealt:
    """A model that is fair by construction: it gives everybody an answer that was drawn for them beforehand."""

    model: Scorer
    answers: NDArray[np.int64]

    schema = property(lambda self: self.model.schema)
    classes = property(lambda self: self.model.classes)
    favourable = property(lambda self: self.model.favourable)
    label_only = True
    name = "answers dealt out by chance"

    def predict(self, individuals: NDArray[np.float64]) -> NDArray[np.int64]:
        return self.answers

    def scores(self, individuals: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.eye(len(self.classes))[self.answers]


def fair(asked: Case, models: int, slow: int) -> list[Row]:
    """False findings on fair models: the model's own decisions, each time permuted among the same people."""
    labels = predict_labels(asked.model, asked.people.individuals)
    cells = table_of_cells(asked)
    depth = asked.source.depth or len(asked.source.sensitive)
    counts: dict[str, list[int | None]] = {}
    rng = np.random.default_rng(0)
    for turn in range(models):
        dealt = rng.permutation(labels)
        model = Dealt(asked.model, dealt)
        result = subgroups.find_subgroups(model, asked.people, attributes=asked.source.sensitive, margin=0.0)
        counts.setdefault("Evenhand", []).append(result.found)
        for peer in subgroup_peers.installed():
            if peer.package != "fairlearn" or turn < slow:
                reply = subgroup_peers.ask(peer, cells, dealt == asked.model.favourable, depth)
                counts.setdefault(peer.shown, []).append(reply.get("findings"))
    rows = []
    for tool, found in counts.items():
        known = [each for each in found if each is not None]
        rows.append(
            {
                "tool": tool,
                "models": len(found),
                "with_findings": sum(each > 0 for each in known) if known else None,
                "mean": statistics.fmean(known) if known else None,
                "most": max(known) if known else None,
            }
        )
    return rows


def speed_table(rows: list[Row]) -> Table:
    """Seconds and rule sets."""
    table = columns(
        "Search for subgroups, everybody asked once; seconds are the processor's",
        ("Data",),
        (
            "People",
            "Model s",
            "After s",
            "After s (wall)",
            "Rule sets",
            "Tested",
            "Found",
            "Rule sets/s",
            "Tested/s",
        ),
    )
    for row in rows:
        table.add_row(
            row["data"],
            f"{row['people']:,}",
            f"{row['model_cpu']:.3f}",
            f"{row['after_cpu']:.3f}",
            f"{row['after_wall']:.3f}",
            f"{row['rule_sets']:,}",
            f"{row['tested']:,}",
            f"{row['found']:,}",
            f"{row['rule_sets_per_second']:,.0f}",
            f"{row['tested_per_second']:,.0f}",
        )
    return table


def top_table(rows: list[Row]) -> Table:
    """The first finding of each data set."""
    table = columns(
        "The clearest gap of each",
        ("Data", "Rule set"),
        ("People", "Rest", "Rate", "Rest's rate", "Gap", "Adjusted 95 % interval"),
    )
    for row in rows:
        if top := row["top"]:
            table.add_row(
                row["data"],
                top["words"],
                f"{top['size']:,}",
                f"{top['rest']:,}",
                f"{top['rate']:.1%}",
                f"{top['rest_rate']:.1%}",
                f"{top['gap']:+.3f}",
                f"{top['low']:+.3f} to {top['high']:+.3f}",
            )
    return table


def peers_table(rows: list[Row]) -> Table:
    """What each tool calls its best finding."""
    table = columns(
        "Other tools on the same decisions: what each reports first",
        ("Data", "Tool", "First finding"),
        ("People", "Rest", "Rate", "Rest's rate", "CPU s", "Looked at", "Findings"),
    )
    for row in rows:
        if "left_out" in row:
            table.add_row(row["data"], row["tool"], f"left out: {row['left_out']}")
            continue
        known = row["size"] is not None and row["rate"] is not None
        table.add_row(
            row["data"],
            row["tool"],
            brief(row["top"]),
            f"{row['size'] or 0:,}",
            f"{row['rest'] or 0:,}",
            f"{row['rate']:.1%}" if known else "",
            f"{row['rest_rate']:.1%}" if known and row["rest"] else "",
            f"{row['cpu_seconds']:.2f}",
            "" if row["looked_at"] is None else f"{row['looked_at']:,}",
            "its best" if row["findings"] is None else f"{row['findings']:,}",
        )
    return table


def brief(words: str | None) -> str:
    """A description that fits into a table."""
    return "none" if words is None else words if len(words) <= LONGEST else f"{words[:LONGEST]}..."


def fair_table(rows: list[Row]) -> Table:
    """False findings."""
    table = columns(
        "Fair models: everything found is false",
        ("Tool",),
        ("Models", "With findings", "Findings on average", "At most"),
    )
    for row in rows:
        if row["mean"] is None:
            table.add_row(row["tool"], str(row["models"]), "always gives its best", "", "")
        else:
            table.add_row(
                row["tool"], str(row["models"]), str(row["with_findings"]), f"{row['mean']:.1f}", str(row["most"])
            )
    return table


def columns(title: str, words: tuple[str, ...], numbers: tuple[str, ...]) -> Table:
    """An empty table."""
    table = Table(title=title)
    for heading in words:
        table.add_column(heading, overflow="fold")
    for heading in numbers:
        table.add_column(heading, justify="right")
    return table


def main() -> None:
    """Measure, show, keep the figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("names", nargs="*", metavar="DATA", help=f"data sets: {', '.join(SOURCES)}")
    parser.add_argument("--repeats", type=int, default=3, metavar="N", help="searches whose median is shown")
    parser.add_argument("--fair", type=int, default=20, metavar="N", help="fair models; 0 leaves them out")
    parser.add_argument("--slow", type=int, default=5, metavar="N", help="fair models for fairlearn's bootstraps")
    parser.add_argument("--no-peers", action="store_true", help="leave other tools out")
    parser.add_argument(
        "--json",
        default=str(ROOT / "benchmarks" / "results" / "subgroups.json"),
        metavar="FILE",
        help="where to keep the figures; - is standard output, alone (default benchmarks/results/subgroups.json)",
    )
    options = parser.parse_args()
    unknown = [name for name in options.names if name not in SOURCES]
    if unknown:
        sys.exit(f"There is no data set {', '.join(unknown)}. There are {', '.join(SOURCES)}.")
    if options.no_peers:
        subgroup_peers.installed = list
    elif subgroup_peers.absent():
        print(f"Not installed, left out: {', '.join(subgroup_peers.absent())}", file=sys.stderr)
    started = time.perf_counter()
    speeds: list[Row] = []
    others: list[Row] = []
    fairs: list[Row] = []
    for name in options.names or SOURCES:
        print(f"{name} ...", file=sys.stderr, flush=True)
        asked = case(name)
        if asked is None:
            print(f"{name}: no data here, left out", file=sys.stderr)
            continue
        search(asked)  # compiles, and is not counted
        speeds.append(speed(asked, options.repeats))
        if not options.no_peers:
            others += peers(asked, speeds[-1])
        if name == DEALT_OUT and options.fair:
            fairs = fair(asked, options.fair, options.slow)
    if not speeds:
        print("Skipped: none of the data is here (point EVENHAND_SHARED to the folder that holds data/tabular)")
        return
    figures = {
        "cores": len(os.sched_getaffinity(0)),
        "seconds": time.perf_counter() - started,
        "versions": {
            name: importlib.metadata.version(name)
            for name in ("evenhand", "numpy", "scikit-learn", *(p.version_of for p in subgroup_peers.installed()))
        },
        "speed": speeds,
        "peers": others,
        "fair": fairs,
    }
    if options.json == "-":
        print(json.dumps(figures, indent=1))
        return
    console = Console(width=None if sys.stdout.isatty() else 190)
    for table, rows in (
        (speed_table(speeds), speeds),
        (top_table(speeds), speeds),
        (peers_table(others), others),
        (fair_table(fairs), fairs),
    ):
        if rows:
            console.print(table)
    target = Path(options.json)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(figures, indent=1) + "\n", "utf-8")
    print(f"The figures: {target}")


if __name__ == "__main__":
    main()

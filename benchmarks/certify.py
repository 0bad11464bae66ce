"""How much of a domain each method of certification decides, at equal processor time, beside published figures.

    python benchmarks/certify.py                   every network
    python benchmarks/certify.py AC-5 --cap 90     one of them, with up to 90 seconds for each method

Both methods run one after the other on one thread. Each is given the processor time that the published tool took, at
least 2 seconds and at most ``--cap``; a method that has nothing left to do ends sooner. Compiling is not counted.
Memory is what a run needs beyond what its process held before. Individuals are not asked one by one, even where the
domain is small enough. The networks, their domains and what the published tool reached are looked for in
``data/certify`` of the folder that EVENHAND_SHARED names, else of ``shared`` beside this checkout.
"""

from __future__ import annotations

import os

# A matrix library that starts threads of its own would spend processor time that the methods are charged for.
os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}

import argparse
import importlib.metadata
import json
import multiprocessing
import resource
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from rich.console import Console
from rich.table import Table

from evenhand import certification
from evenhand.models.additive.network import AdditiveNetwork, network_from_dense
from evenhand.schema import Schema
from evenhand.stats.proportion import clopper_pearson

ROOT = Path(__file__).resolve().parent.parent
Method = Literal["interval", "linear"]
METHODS: tuple[Method, ...] = get_args(Method)
QUERIES = {"adult": ["sex"], "german": ["age"], "bank": ["age"], "compas": ["race", "sex", "age"]}
"""What is varied, by domain."""
LEAST_SECONDS = 2.0
SAMPLED = 400_000
"""People behind the sampled truth."""
CONFIDENCE = 0.999
"""Of the interval around it: dozens of runs are compared with one."""
EXACTLY = 1e-9
"""Two shares that differ by less are equal."""

Case = dict[str, Any]


def cases(folder: Path, wanted: list[str]) -> list[Case]:
    """What is asked of which network, and what is known about the answer."""
    domains = json.loads((folder / "domains.json").read_text("utf-8"))
    known = json.loads((folder / "expected.json").read_text("utf-8"))["networks"]
    names = [name for domain in QUERIES for name in domains[domain]["networks"]]
    missing = [name for name in wanted if name not in names]
    if missing:
        sys.exit(f"There is no network {', '.join(missing)}. There are {', '.join(names)}.")
    found = []
    for domain, queries in QUERIES.items():
        for name in domains[domain]["networks"]:
            for query in queries if not wanted or name in wanted else []:
                asked = next(each for each in domains[domain]["queries"] if each["id"] == query)
                protected = asked["protected"][0]["name"]
                measured = known[name]["fairquant_measured"]
                found.append(
                    {
                        "network": name,
                        "sizes": known[name]["sizes"],
                        "query": query,
                        "model": network(folder, name, domains[domain]["attributes"], protected),
                        "published": measured.get(query) or measured[f"{domain}/{query}"],
                        "truth": truth(known[name], query, asked["non_protected_points"]),
                    }
                )
    return found


def network(folder: Path, name: str, attributes: list[dict[str, Any]], protected: str) -> AdditiveNetwork:
    """A published network over whole numbers, label 1 where its logit is positive."""
    described = [
        {"name": each["name"], "kind": "integer", "lower": each["lower"], "upper": each["upper"],
         "protected": each["name"] == protected}
        for each in attributes
    ]  # fmt: skip
    target = {"name": "label", "values": ["0", "1"], "favourable": "1"}
    with np.load(folder / f"{name}.npz") as arrays:
        layers = [(arrays[f"W{i}"], arrays[f"b{i}"]) for i in range(len(arrays.files) // 2)]
    return network_from_dense(Schema.parse({"target": target, "attributes": described}), layers, name=name)


def truth(known: dict[str, Any], query: str, points: int) -> dict[str, float]:
    """The unfair share: exact where everybody was asked, else an interval around what a sample showed."""
    if "exact_unfair_of_624" in known:
        share = known["exact_unfair_of_624"][query] / points
        return {"unfair": share, "low": share - EXACTLY, "high": share + EXACTLY}
    share = known["sampled_truth"][query]["unfair_pct"] / 100
    low, high = clopper_pearson(round(share * SAMPLED), SAMPLED, CONFIDENCE)
    return {"unfair": share, "low": float(low), "high": float(high)}


def prove(model: AdditiveNetwork, method: Method, seconds: float) -> dict[str, Any]:
    """One certificate and its cost, in a process of its own."""
    # Other work on the machine must not take anything from either method: their clock is the processor's.
    wall, time.perf_counter = time.perf_counter, time.process_time
    started, held = wall(), peak_mib()
    result = certification.certify(model, method=method, time_limit=seconds, enumeration=False, jobs=1)
    return {
        "certified": result.certified,
        "falsified": result.falsified,
        "undecided": result.undecided,
        "estimate": [result.estimate.low, result.estimate.high],
        "boxes": result.boxes,
        "cpu_seconds": result.cpu_seconds,
        "wall_seconds": wall() - started,
        "memory_mib": peak_mib() - held,
        "stopped_by": result.stopped_by,
    }


def peak_mib() -> float:
    """The most memory this process ever held."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**20


def measure(case: Case, methods: list[Method], cap: float) -> dict[str, Any]:
    """Both methods on one case, each in a copy of this process, so that neither pays for the other."""
    published, expected = case["published"], case["truth"]
    seconds = max(LEAST_SECONDS, min(cap, published["user_cpu_s"]))
    row = {
        "network": case["network"],
        "sizes": case["sizes"],
        "query": case["query"],
        "seconds": seconds,
        "truth": expected,
        "published": {
            "undecided": published["undecided_pct"] / 100,
            "certified": published["certified_pct"] / 100,
            "falsified": published["falsified_pct"] / 100,
            "boxes": published["boxes"],
            "cpu_seconds": published["user_cpu_s"],
            "wall_seconds": published["wall_s"],
            "memory_mib": published["peak_rss_mib"],
        },
    }
    for method in methods:
        certification.certify(case["model"], method=method, max_boxes=500, samples=100, enumeration=False, jobs=1)
        with ProcessPoolExecutor(1, multiprocessing.get_context("fork")) as pool:
            found = pool.submit(prove, case["model"], method, seconds).result()
        found["contradicts_truth"] = found["falsified"] > expected["high"] or found["certified"] > 1 - expected["low"]
        row[method] = found
    if set(methods) == set(METHODS):
        row["ratio"] = ratio(row["interval"]["undecided"], row["linear"]["undecided"])
    return row


def ratio(undecided: float, by_linear: float) -> float | None:
    """How many times as much is undecided as by the linear method; None where that decides everything."""
    return undecided / by_linear if by_linear > EXACTLY else None


def table(rows: list[dict[str, Any]], methods: list[Method]) -> Table:
    """The published tool's line and each method's, network by network."""
    shown = Table(title="Undecided share of the domain at equal processor time")
    for heading in ("Network", "Method"):
        shown.add_column(heading, no_wrap=True)
    numbers = ("Undecided", "x linear", "Certified", "Falsified", "Boxes", "CPU s", "Wall s", "MiB")
    for heading in numbers:
        shown.add_column(heading, justify="right", no_wrap=True)
    for heading in ("Stopped by", "Truth"):
        shown.add_column(heading, no_wrap=True)
    for row in rows:
        low, high = row["truth"]["low"], row["truth"]["high"]
        for method in ("published", *methods):
            it = row[method]
            times = ratio(it["undecided"], row["linear"]["undecided"]) if "linear" in row else None
            first = method == "published"
            held = {None: f"unfair {low:.3%} to {high:.3%}", False: "agrees", True: "[red]CONTRADICTS[/red]"}
            shown.add_row(
                f"{row['network']} {row['query']}" if first else "",
                method,
                f"{it['undecided']:.3%}",
                "" if times is None else f"{times:.2f}",
                f"{it['certified']:.3%}",
                f"{it['falsified']:.3%}",
                f"{it['boxes']:,}",
                f"{it['cpu_seconds']:.2f}",
                f"{it['wall_seconds']:.2f}",
                f"{it['memory_mib']:.0f}" if it["memory_mib"] else "",
                it.get("stopped_by", ""),
                held[it.get("contradicts_truth")],
            )
        shown.add_section()
    return shown


def main() -> None:
    """Measure, show, keep the figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument(
        "names", nargs="*", metavar="NETWORK", help="networks to run, such as AC-1; all of them unless named"
    )
    parser.add_argument("--cap", type=float, default=20.0, metavar="S", help="CPU seconds per run at most (default 20)")
    parser.add_argument("--method", choices=METHODS, help="run this method only")
    parser.add_argument(
        "--json",
        default=str(ROOT / "benchmarks" / "results" / "certify.json"),
        metavar="FILE",
        help="where to keep the figures; - is standard output, alone (default benchmarks/results/certify.json)",
    )
    options = parser.parse_args()
    folder = Path(os.environ.get("EVENHAND_SHARED", ROOT.parent / "shared")) / "data" / "certify"
    if not (folder / "expected.json").exists():
        print(
            f"Skipped: no published networks in {folder} (point EVENHAND_SHARED to the folder that holds data/certify)"
        )
        return
    methods = [options.method] if options.method else list(METHODS)
    rows = []
    for case in cases(folder, options.names):
        print(f"{case['network']} {case['query']} ...", file=sys.stderr, flush=True)
        rows.append(measure(case, methods, options.cap))
    figures = {
        "cores": len(os.sched_getaffinity(0)),
        "cap": options.cap,
        "versions": {name: importlib.metadata.version(name) for name in ("evenhand", "numpy", "numba")},
        "rows": rows,
    }
    if options.json == "-":
        print(json.dumps(figures, indent=1))
        return
    Console(width=None if sys.stdout.isatty() else 160).print(table(rows, methods))
    Path(options.json).parent.mkdir(parents=True, exist_ok=True)
    Path(options.json).write_text(json.dumps(figures, indent=1) + "\n", "utf-8")
    print(f"The figures: {options.json}")


if __name__ == "__main__":
    main()

"""What each method of the search for individual discrimination finds on published networks, at equal query budgets.

    python benchmarks/individual.py                       a selection, 2 seeds, small budgets: half an hour or more
    python benchmarks/individual.py --full                every network, 5 seeds, and 1000 x 1000: hours
    python benchmarks/individual.py adult german          some networks only

Every search is kept in ``benchmarks/results/individual.jsonl`` when it ends, so that a run that was stopped goes on,
and networks can be measured one at a time; the tables are made from what is kept. A search is measured again once the
search's own code has changed.

Three tables. Equal budgets: MAFT carries out its plan as published (50 x 50 seeds x local moves; full: 100 x 100), and
every method may ask the model as many questions: once among people who could exist (2-way occurrence in the data, the
default) and, published methods, once as published, where anything goes and only a part of the finds could exist.
Methods with local moves are tried with both published numbers of them, 100 and 1000, and the better one is shown. Their
own settings: the published programs' 100 x 100 and 1000 x 1000 beside what those programs measured. Gradients: the
cosine similarity of the zero-order estimate with the true gradient by the step h, in double and in single precision.
Medians over the seeds, and the spread from the least to the largest. Seconds are the processor's, with the verification
of every profile. The networks are looked for in ``data/testing`` of the folder that EVENHAND_SHARED names, else of
``shared`` beside this checkout.
"""

from __future__ import annotations

import os

# A matrix library that starts threads of its own would spend processor time on waiting.
os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}

import argparse
import hashlib
import importlib.metadata
import json
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

from evenhand.individual.search.analysis import search
from evenhand.individual.search.findings import FindingCollector
from evenhand.individual.search.methods import METHODS
from evenhand.individual.search.methods.gradient import estimate_slopes
from evenhand.individual.search.oracle import Oracle
from evenhand.individual.search.space import ProfileSpace
from evenhand.models.additive.network import AdditiveNetwork, LineTerm, network_from_dense
from evenhand.schema import People, Schema
from evenhand.view import drawing as charts

ROOT = Path(__file__).resolve().parent.parent
WALKING = (
    "maft", "maft-inf", "eidig", "eidig-inf", "adf", "aequitas", "aequitas-semi-directed", "aequitas-random",
)  # fmt: skip
"""Published methods that are tried with every published number of local moves."""
PUBLISHED = (*WALKING, "sg", "themis", "genetic", "random")
"""Methods that are also run as published, without regard to who could exist."""
WHITE_BOX = ("eidig", "eidig-inf", "adf")
"""Methods that read the model's gradients, which costs one question each here."""
LOCALS = (100, 1000)
"""Published numbers of local moves."""
OWN = ("maft", "eidig", "adf", "aequitas", "sg")
"""Methods with measured figures of the published programs."""
QUICK = ("adult", "bank", "german", "diabetes", "adult_EIDIG_5_retrained", "bank_EIDIG_INF_retrained",
         "german_ADF_retrained")  # fmt: skip
RANDOM_STARTS = 10
"""Searches of AEQUITAS by its own settings: from how many profiles it walks is chance."""
NOTES = {"measured": "", "attempts": " (seconds by its attempts)", "numpy": " (with our network in place of Keras)"}
"""Where the published programs' seconds come from."""
SEARCH = ROOT / "src" / "evenhand" / "individual" / "search"
KEPT = ROOT / "benchmarks" / "results" / "individual.jsonl"
"""Every search that was measured, a line each."""
STEPS = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0)
PAIRS = 2000
"""Pairs of profiles behind the diversity."""
LONG = ("C-a",)
"""Benchmarks with published figures at 1000 x 1000."""

Floats = NDArray[np.float64]
Case = dict[str, Any]


def cases(folder: Path, wanted: list[str]) -> list[Case]:
    """Every network with every attribute that its benchmarks protect."""
    networks = json.loads((folder / "models.json").read_text("utf-8"))
    domains = json.loads((folder / "domains.json").read_text("utf-8"))
    missing = [name for name in wanted if name not in networks]
    if missing:
        sys.exit(f"There is no network {', '.join(missing)}. There are {', '.join(networks)}.")
    found = []
    for name, described in networks.items():
        domain = domains[described["dataset"]]
        for benchmark, protected in domain["benchmarks"].items() if not wanted or name in wanted else []:
            people, seeds = population(folder, described["dataset"], domain, protected)
            found.append(
                {
                    "network": name,
                    "benchmark": benchmark,
                    "people": people,
                    "seeds": seeds,
                    "model": network(folder / described["file"], people.schema, name),
                    "retrained": name.endswith("retrained"),
                }
            )
    return found


def population(
    folder: Path, dataset: str, domain: dict[str, Any], protected: list[int]
) -> tuple[People, dict[int, Floats]]:
    """The people a network was trained with, and the published seeds by their number."""
    names = domain["attributes"] or [f"x{i}" for i in range(len(domain["bounds"]))]
    attributes = [
        {"name": name, "kind": "integer", "lower": low, "upper": high, "protected": i in protected}
        for i, (name, (low, high)) in enumerate(zip(names, domain["bounds"], strict=True))
    ]
    target = {"name": "label", "values": ["0", "1"], "favourable": "1"}
    path, seeds = folder / "data" / f"{dataset}.npz", {}
    if path.exists():
        with np.load(path) as arrays:
            rows = arrays["X_train"].astype(np.float64)
            seeds = {n: arrays[f"seeds_{n}"].astype(np.float64) for n in (100, 1000)}
    else:
        # No training data: the inputs with known answers stand for the people.
        with np.load(folder / "models" / f"{dataset}_check.npz") as arrays:
            rows = arrays["X"].astype(np.float64)
    schema = Schema.parse({"target": target, "attributes": attributes})
    return People(schema, rows, None, np.arange(len(rows)), 0, None), seeds


def network(path: Path, schema: Schema, name: str) -> AdditiveNetwork:
    """A published network over whole numbers, label 1 where its logit is positive."""
    with np.load(path) as arrays:
        layers = [(arrays[f"W{i}"], arrays[f"b{i}"]) for i in range(len(arrays.files) // 2)]
    return network_from_dense(schema, layers, name=name)


class Measurements:
    """Searches that were measured before, by what was searched, with which settings and which code."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path = path
        sources = b"".join(each.read_bytes() for each in sorted(SEARCH.rglob("*.py")))
        self._code = hashlib.sha256(sources).hexdigest()[:16]
        self._known: dict[str, dict[str, Any]] = {}
        for line in path.read_text("utf-8").splitlines() if path.exists() else ():
            kept = json.loads(line)
            self._known[kept["key"]] = kept["measured"]

    def measure(self, case: Case, method: str, seed: int, **settings: Any) -> dict[str, Any]:
        """One search, if it is not known yet."""
        named = {name: len(value) if isinstance(value, np.ndarray) else value for name, value in settings.items()}
        about = [self._code, case["network"], case["benchmark"], method, seed, sorted(named.items())]
        about.append(isinstance(settings.get("seeds"), np.ndarray))
        key = json.dumps(about)
        if key not in self._known:
            self._known[key] = measure(case, method, seed, **settings)
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"key": key, "measured": self._known[key]}) + "\n")
        return self._known[key]


def measure(case: Case, method: str, seed: int, **settings: Any) -> dict[str, Any]:
    """One search."""
    started = time.process_time()
    result = search(case["model"], case["people"], method=method, seed=seed, samples=0, most_examples=0, **settings)
    seconds = time.process_time() - started
    found = result.table.found
    assignments = len(result.table.assignments)
    return {
        "profiles": result.profiles,
        "valid": result.valid,
        "given": result.given,
        "queries": result.queries,
        "success": result.profiles * assignments / result.queries if result.queries else 0.0,
        "seconds": seconds,
        "per_second": result.profiles / seconds,
        "diversity": diversity(found.unprotected, np.random.default_rng(seed)),
        "stopped_by": result.stopped_by,
    }


def diversity(profiles: Floats, rng: np.random.Generator) -> float:
    """In how many attributes two of the profiles differ on average."""
    if len(profiles) < 2:
        return 0.0
    one, two = rng.integers(0, len(profiles), size=(2, PAIRS))
    apart = one != two
    return float((profiles[one] != profiles[two])[apart].sum(axis=1).mean())


def over_seeds(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Median, least and largest of every number."""
    numbers = [key for key, value in runs[0].items() if isinstance(value, int | float)]
    return {
        key: {
            "median": statistics.median(each[key] for each in runs),
            "least": min(each[key] for each in runs),
            "largest": max(each[key] for each in runs),
        }
        for key in numbers
    }


def equal_budgets(kept: Measurements, case: Case, methods: list[str], size: int, seeds: int) -> list[dict[str, Any]]:
    """MAFT as published, then every method with as many questions, each with the better of its published settings."""
    plan: dict[str, Any] = {"seeds": size, "local": size, "allow_infeasible": True}
    runs = [kept.measure(case, "maft", seed, **plan) for seed in range(seeds)]
    budget = round(statistics.median(each["queries"] for each in runs))
    rows = []
    rest = [(method, True) for method in methods if method in PUBLISHED]
    for method, allow_infeasible in [(method, False) for method in methods] + rest:
        tried = []
        for local in LOCALS if method in WALKING else LOCALS[:1]:
            settings = {"budget": budget, "local": local, "allow_infeasible": allow_infeasible}
            runs = [kept.measure(case, method, seed, **settings) for seed in range(seeds)]
            tried.append(summed(case, method, runs, budget, allow_infeasible=allow_infeasible) | {"local": local})
        rows.append(max(tried, key=lambda row: row["profiles" if allow_infeasible else "valid"]["median"]))
    return rows


def summed(
    case: Case, method: str, runs: list[dict[str, Any]], budget: int, *, allow_infeasible: bool
) -> dict[str, Any]:
    """What several searches found, and what was searched."""
    return {
        "network": case["network"],
        "benchmark": case["benchmark"],
        "method": method,
        "allow_infeasible": allow_infeasible,
        "budget": budget,
        "runs": runs,
        **over_seeds(runs),
    }


def own_settings(
    kept: Measurements, case: Case, methods: list[str], known: dict[str, Any], size: int, seeds: int
) -> list[dict[str, Any]]:
    """The published programs' own seeds and plans, beside what they measured; anything goes, as there."""
    rows = []
    for method in methods:
        published = [
            each for each in known["effectiveness"] + known["keras_runs"]
            if (each["bench"], each["method"], each["g"], each["l"])
            == (case["benchmark"], method.upper(), size, size)
        ]  # fmt: skip
        if not published or size not in case["seeds"]:
            continue
        theirs = published[0]
        # The plan of SG is a number of profiles asked about: as many as the published program came to.
        local = theirs["gen_unique"] // size if method == "sg" else size
        plan = {"seeds": case["seeds"][size], "local": local, "allow_infeasible": True}
        several = max(seeds, RANDOM_STARTS) if method == "aequitas" else seeds
        runs = [kept.measure(case, method, seed, **plan) for seed in range(several)]
        same = (theirs["bench"], theirs["method"])
        quality: dict[str, Any] = next((each for each in known["quality"] if (each["bench"], each["set"]) == same), {})
        share = quality.get("pair_valid") if size == 100 else None
        seconds, how = published_seconds(known, theirs)
        row = {
            "benchmark": case["benchmark"],
            "method": method,
            "size": size,
            "runs": runs,
            **over_seeds(runs),
            "published": {
                "profiles": theirs["uniq_profiles"],
                "valid": None if share is None else round(theirs["uniq_profiles"] * share),
                "queries": theirs.get("rows"),
                "success": theirs["success"],
                "seconds": seconds,
                "seconds_from": how,
                "per_second": theirs["uniq_profiles"] / seconds,
                "diversity": quality.get("mean_pair_hamming"),
            },
        }
        row["times_as_fast"] = row["per_second"]["median"] / row["published"]["per_second"]
        rows.append(row)
    return rows


def published_seconds(known: dict[str, Any], run_: dict[str, Any]) -> tuple[float, str]:
    """Processor seconds of the published program with its own model: measured, by its attempts, or without Keras."""
    for each in known["keras_runs"]:
        if each.get("cpu") and all(each[key] == run_[key] for key in ("bench", "method", "g", "l")):
            return each["cpu"], "measured"
    for each in known["keras_cost"]:
        if all(each[key] == run_[key] for key in ("bench", "method")):
            return each["cpu_ms_per_attempt"] * run_["attempts"] / 1000, "attempts"
    return run_["shim_cpu"], "numpy"


def gradients(case: Case, known: dict[str, Any]) -> list[dict[str, Any]]:
    """Cosine similarity of estimated with true gradients at the seeds, by step."""
    space = ProfileSpace(case["people"], allow_infeasible=True)
    individuals = case["seeds"].get(1000, case["people"].individuals)[:1000]
    profiles, which = space.split(individuals)
    oracle = Oracle(case["model"], space, FindingCollector(space, 2))
    true = oracle.gradient(profiles, which)
    scores = oracle.scores_at(profiles, which)
    published = known["gradient_similarity"].get(case["benchmark"], {})
    return [
        {
            "network": case["network"],
            "benchmark": case["benchmark"],
            "h": h,
            "double": cosine(estimate_slopes(oracle, h)(profiles, which, scores), true),
            "single": cosine(single(case["model"], space, individuals, scores, h), true),
            "published": published.get(f"grad_h{h}"),
        }
        for h in STEPS
    ]


def single(model: AdditiveNetwork, space: ProfileSpace, individuals: Floats, scores: Floats, h: float) -> Floats:
    """Forward differences of the predicted label's probability in single precision, shape (n, U)."""
    weights = [
        np.stack([part.slope for part in model.parts if isinstance(part, LineTerm)]),
        *(layer.weights for layer in model.layers),
    ]
    biases = [model.bias, *(layer.bias for layer in model.layers)]

    def probability(rows: Floats) -> NDArray[np.float32]:
        values = rows.astype(np.float32)
        for i, (matrix, bias) in enumerate(zip(weights, biases, strict=True)):
            values = np.maximum(values, np.float32(0)) if i else values
            values = values @ matrix.astype(np.float32) + bias.astype(np.float32)
        return np.asarray(1 / (1 + np.exp(np.clip(-values[:, 0], -80, 80))), dtype=np.float32)

    sign = np.where(np.argmax(scores, axis=1) == 1, 1.0, -1.0)
    here = probability(individuals)
    rises = []
    for column in space.columns:
        moved = individuals.copy()
        moved[:, column] += h
        rises.append(sign * (probability(moved) - here) / np.float32(h))
    return np.stack(rises, axis=1).astype(np.float64)


def cosine(one: Floats, two: Floats) -> float:
    """Mean cosine similarity of rows, those without a true gradient left out; an estimate of zero counts as 0."""
    norm = np.linalg.norm(two, axis=1)
    one, two, norm = one[norm > 0], two[norm > 0], norm[norm > 0]
    other = np.linalg.norm(one, axis=1)
    products = (one * two).sum(axis=1) / np.where(other > 0, other, 1.0) / norm
    return float(products.mean())


def compare_with_published(rows: list[dict[str, Any]]) -> None:
    """Note how many times a published method's valid profiles each method has, by median, where the same may be found.

    Beside MAFT: the published black box, and the published method of any kind, that have most.
    """
    for row in rows:
        same = [
            each for each in rows
            if (each["network"], each["benchmark"]) == (row["network"], row["benchmark"])
            and each["allow_infeasible"] == row["allow_infeasible"] and each["method"] in PUBLISHED
        ]  # fmt: skip
        for name, others in (
            ("times_maft", [each for each in same if each["method"] == "maft"]),
            ("times_black_box", [each for each in same if each["method"] not in WHITE_BOX]),
            ("times_best", same),
        ):
            most = max((each["valid"]["median"] for each in others), default=0)
            row[name] = row["valid"]["median"] / most if most else None


def spread(of: dict[str, float], form: str = ",.0f") -> str:
    """A median with its spread."""
    shown = f"{of['median']:{form}}"
    same = of["least"] == of["largest"]
    return shown if same else f"{shown} ({of['least']:{form}} to {of['largest']:{form}})"


def budgets_table(rows: list[dict[str, Any]]) -> Table:
    """Equal budgets, network by network, the method with most valid profiles first."""
    shown = columns("Equal query budgets; x: times the valid profiles of a published method", ("Network", "Method"), (
        "Local", "Queries", "Profiles", "Valid", "x MAFT", "x best black box", "x best", "Success", "CPU s", "per s",
        "Diversity",
    ))  # fmt: skip
    names = list(dict.fromkeys((row["network"], row["benchmark"]) for row in rows))
    for network_, benchmark in names:
        mine = [row for row in rows if (row["network"], row["benchmark"]) == (network_, benchmark)]
        for i, row in enumerate(sorted(mine, key=lambda row: -row["valid"]["median"])):
            shown.add_row(
                f"{network_} {benchmark}" if i == 0 else "",
                row["method"] + (", as published" if row["allow_infeasible"] else ""),
                str(row["local"]) if row["method"] in WALKING else "",
                f"{row['queries']['median']:,.0f}",
                spread(row["profiles"]),
                spread(row["valid"]),
                times(row["times_maft"]),
                times(row["times_black_box"]),
                times(row["times_best"]),
                f"{row['success']['median']:.1%}",
                f"{row['seconds']['median']:.2f}",
                f"{row['per_second']['median']:,.0f}",
                f"{row['diversity']['median']:.1f}",
            )
        shown.add_section()
    return shown


def times(value: float | None) -> str:
    """A ratio, if there is one."""
    return "" if value is None else f"{value:,.1f}"


def settings_table(rows: list[dict[str, Any]]) -> Table:
    """The published programs' settings: their figures, then ours."""
    shown = columns("The published settings (seeds x local moves)", ("Benchmark", "Method"), (
        "Queries", "Profiles", "Valid", "Success", "CPU s", "per CPU s", "x as fast", "Diversity"
    ))  # fmt: skip
    for row in rows:
        theirs = row["published"]
        shown.add_row(
            f"{row['benchmark']} {row['size']} x {row['size']}",
            f"{row['method']}, published program" + NOTES[theirs["seconds_from"]],
            "" if theirs["queries"] is None else f"{theirs['queries']:,}",
            f"{theirs['profiles']:,}",
            "" if theirs["valid"] is None else f"{theirs['valid']:,}",
            f"{theirs['success']:.1%}",
            f"{theirs['seconds']:.2f}",
            f"{theirs['per_second']:,.0f}",
            "",
            "" if theirs["diversity"] is None else f"{theirs['diversity']:.1f}",
        )
        shown.add_row(
            "",
            f"{row['method']}, here",
            f"{row['queries']['median']:,.0f}",
            spread(row["profiles"]),
            spread(row["valid"]),
            f"{row['success']['median']:.1%}",
            f"{row['seconds']['median']:.2f}",
            f"{row['per_second']['median']:,.0f}",
            f"{row['times_as_fast']:,.0f}",
            f"{row['diversity']['median']:.1f}",
        )
        shown.add_section()
    return shown


def gradients_table(rows: list[dict[str, Any]]) -> Table:
    """Similarities, one line per network, one column per step."""
    shown = columns("Cosine similarity of estimated and true gradient, by step h", ("Network", "Arithmetic"), tuple(
        f"{h:g}" for h in STEPS
    ))  # fmt: skip
    for name in dict.fromkeys((row["network"], row["benchmark"]) for row in rows):
        mine = [row for row in rows if (row["network"], row["benchmark"]) == name]
        for i, kind in enumerate(("double", "single", "published")):
            values = ["" if row[kind] is None else f"{row[kind]:.4f}" for row in mine]
            if any(values):
                shown.add_row(" ".join(name) if i == 0 else "", kind, *values)
        shown.add_section()
    return shown


def columns(title: str, words: tuple[str, ...], numbers: tuple[str, ...]) -> Table:
    """An empty table."""
    shown = Table(title=title)
    for heading in words:
        shown.add_column(heading, no_wrap=True)
    for heading in numbers:
        shown.add_column(heading, justify="right", no_wrap=True)
    return shown


def drawing(rows: list[dict[str, Any]], similar: list[dict[str, Any]]) -> charts.Spec:
    """Valid profiles by method and network at equal budgets; below it, the gradients' similarity by step."""
    names = ["frontier", "genetic", "neighbours", "aequitas", "maft"]
    points = [
        {
            "case": f"{row['network']} {row['benchmark']}",
            "method": row["method"],
            "valid": max(row["valid"]["median"], 0.5),
            "rank": names.index(row["method"]),
        }
        for row in rows
        if row["method"] in names and not row["allow_infeasible"]
    ]
    colours = [charts.LIGHT[role] for role in charts.SERIES]
    colour = {"field": "method", "type": "nominal", "scale": {"domain": names, "range": colours}, "title": None}
    shapes = ["circle", "square", "triangle-up", "diamond", "cross"]
    budget = charts.finish_chart(
        charts.mark_layer(
            points,
            {"type": "point", "size": 60, "filled": True, "opacity": 1},
            y={"field": "case", "type": "nominal", "title": None, "sort": None,
               "axis": {"grid": True, "labelLimit": 320}},
            x={"field": "valid", "type": "quantitative", "scale": {"type": "log"}, "title": "valid profiles, median",
               "axis": {"tickCount": 4}},
            color=colour,
            shape={"field": "method", "type": "nominal", "scale": {"domain": names, "range": shapes}, "title": None},
        ) | {"width": 480, "height": {"step": 18}, "title": "Valid profiles at equal query budgets"},
        "Valid distinct profiles that each method finds with the same number of queries, by network.",
    )  # fmt: skip
    kinds = {"double": "double precision", "single": "single precision"}
    lines = [
        {"h": h, "kind": shown, "similarity": statistics.fmean(row[kind] for row in similar if row["h"] == h)}
        for kind, shown in kinds.items()
        for h in STEPS
        if any(row["h"] == h for row in similar)
    ]
    scale = {"domain": list(kinds.values()), "range": colours[:2]}
    gradient = charts.finish_chart(
        charts.mark_layer(
            lines,
            {"type": "line", "point": True},
            x={"field": "h", "type": "quantitative", "scale": {"type": "log"}, "title": "step h",
               "axis": {"format": "~e", "tickCount": 7}},
            y={"field": "similarity", "type": "quantitative", "title": "cosine similarity, mean over networks",
               "scale": {"domain": [0, 1]}},
            color={"field": "kind", "type": "nominal", "scale": scale, "title": None},
        ) | {"width": 480, "height": 220, "title": "Estimated and true gradient"},
        "Cosine similarity of the zero-order estimate with the true gradient, by step and arithmetic.",
    )  # fmt: skip
    parts = [part for part, data in ((budget, points), (gradient, lines)) if data]
    whole = charts.stack_charts(
        parts, "Search for individual discrimination: what methods find, and how good gradients are."
    )
    return whole | {"resolve": {"scale": {"color": "independent", "shape": "independent"}}}


def main() -> None:
    """Measure, show, keep the figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("names", nargs="*", metavar="NETWORK", help="networks to search, such as adult")
    parser.add_argument("--full", action="store_true", help="every network, 5 seeds, larger budgets, 1000 x 1000 too")
    parser.add_argument("--size", type=int, metavar="N", help="MAFT's seeds and local moves (default 50; full: 100)")
    parser.add_argument("--seeds", type=int, metavar="N", help="searches per method (default 2; full: 5)")
    parser.add_argument("--method", choices=sorted(METHODS), action="append", help="run these methods only")
    parser.add_argument(
        "--json",
        default=str(ROOT / "benchmarks" / "results" / "individual.json"),
        metavar="FILE",
        help="where to keep the figures; - is standard output, alone (default benchmarks/results/individual.json)",
    )
    options = parser.parse_args()
    folder = Path(os.environ.get("EVENHAND_SHARED", ROOT.parent / "shared")) / "data" / "testing"
    if not (folder / "expected.json").exists():
        print(
            f"Skipped: no published networks in {folder} (point EVENHAND_SHARED to the folder that holds data/testing)"
        )
        return
    started = time.perf_counter()
    known = json.loads((folder / "expected.json").read_text("utf-8"))
    size = options.size or (100 if options.full else 50)
    seeds = options.seeds or (5 if options.full else 2)
    methods = options.method or sorted(METHODS)
    kept = Measurements(KEPT)
    rows, own, similar = [], [], []
    for case in cases(folder, options.names or ([] if options.full else list(QUICK))):
        print(f"{case['network']} {case['benchmark']} ...", file=sys.stderr, flush=True)
        rows += equal_budgets(kept, case, methods, size, seeds)
        if not case["retrained"]:
            similar += gradients(case, known)
            mine = [method for method in OWN if method in methods]
            for published in (100, 1000) if options.full and case["benchmark"] in LONG else (100,):
                own += own_settings(kept, case, mine, known, published, seeds)
    compare_with_published(rows)
    figures = {
        "cores": len(os.sched_getaffinity(0)),
        "seconds": time.perf_counter() - started,
        "size": size,
        "seeds": seeds,
        "versions": {name: importlib.metadata.version(name) for name in ("evenhand", "numpy")},
        "equal_budgets": rows,
        "own_settings": own,
        "gradients": similar,
    }
    if options.json == "-":
        print(json.dumps(figures, indent=1))
        return
    console = Console(width=None if sys.stdout.isatty() else 220)
    for table, lines in (
        (budgets_table(rows), rows), (settings_table(own), own), (gradients_table(similar), similar)
    ):  # fmt: skip
        if lines:
            console.print(table)
    target = Path(options.json)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(figures, indent=1) + "\n", "utf-8")
    picture = target.with_suffix(".svg")
    picture.write_text(charts.to_svg(drawing(rows, similar), name="individual") + "\n", "utf-8")
    print(f"The figures: {target}; the plot: {picture}")


if __name__ == "__main__":
    main()

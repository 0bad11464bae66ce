"""FairQuant (Kim, Wang and Wang, ICSE 2025): how much of a domain is certified for 32 networks, and an example."""

from __future__ import annotations

import csv
import itertools
import time
import zipfile
from collections.abc import Iterator
from functools import cache, partial
from pathlib import Path
from typing import Literal

import numpy as np

from evenhand.certification import CertifyConfig, certify
from evenhand.core.typing import Floats
from evenhand.datasets import data_home
from evenhand.errors import DataError
from evenhand.models import AdditiveNetwork
from evenhand.models.additive.network import network_from_dense
from evenhand.schema import Schema
from reproductions.common import (
    DATA,
    FOLDER,
    Context,
    Figure,
    Found,
    Own,
    Paper,
    Piece,
    Values,
    compare,
    judge,
    read_published,
)

PUBLISHED = read_published("fairquant")
EXAMPLE = PUBLISHED["example"]
BUNDLED = DATA / "fairquant" / "networks.npz"
ARTIFACT = "https://github.com/briankim113/FairQuant-Artifact"

_ROWS = (FOLDER / "published" / "fairquant.csv").read_text("utf-8").splitlines()
NETWORKS = {row["name"]: row for row in csv.DictReader(_ROWS)}
"""Rows of Tables I and II. ``fairify_...`` are of Fairify, the others of FairQuant; a time is seconds (s), minutes (m),
``T/O`` for out of time, ``M/O`` for out of memory. We measured the published tool (its C source, ``gcc -O3``, one
thread, two-core machine): ``tool_seconds`` on the published domain, ``meant_...`` on the Bank domain that was meant."""

SHARES = {"certified": "higher", "falsified": "higher", "undecided": "lower"}
"""Share of the domain -> which way is better."""

PRINTED = 0.011
"""Percentage points: published shares have two digits, and are cut off, not rounded."""

TIMEOUT = 1800.0
"""Seconds after which the published runs end."""

LEAST_SECONDS, MOST_SECONDS = 2.0, 60.0
"""Seconds of linear bounds: as many as the published tool took, within these."""

QUICK_SECONDS = 1.5

Layers = list[tuple[Floats, Floats]]


# The networks and their domains: most are bundled, the others are looked for in the data folder.


def family_of(name: str) -> str:
    """Return the data set of a network, as its name begins: ``AC`` of ``AC-1``."""
    return name.split("-")[0]


def load_network(name: str, home: Path | None = None, *, faulty_bank: bool = False) -> AdditiveNetwork:
    """Return a network on its domain; the favourable label is where its value is above 0.

    Args:
        name: of the network.
        home: the folder of data that are not bundled; None: the usual one.
        faulty_bank: of a Bank network, take the bounds that the published runs used: those of the columns in another
            order (job first, age last) than the network's inputs, so that its age, 0 or 1, is compared at 0 and 10.

    Raises:
        DataError: the network is not here, or its file is not such a network.
    """
    domain = PUBLISHED["domains"][family_of(name)]
    layers = read_layers(name, home)
    bounds = dict(domain["bounds"])
    if faulty_bank:
        bounds = dict(zip(bounds, PUBLISHED["bank_as_published"], strict=True))
        # Only the ends of the protected input's bounds are compared: they become 0 and 1.
        first = layers[0][0].copy()
        first[0] *= bounds["age"][1]
        layers[0], bounds["age"] = (first, layers[0][1]), (0, 1)
    return network_from_dense(_build_schema(bounds, domain["protected"]), layers, name=name)


def _build_schema(bounds: dict[str, tuple[int, int]], protected: str) -> Schema:
    attributes = [
        {"name": one, "kind": "integer", "lower": lower, "upper": upper, "protected": one == protected}
        for one, (lower, upper) in bounds.items()
    ]
    target = {"name": "label", "values": ["0", "1"], "favourable": "1"}
    return Schema.parse({"target": target, "attributes": attributes})


def read_layers(name: str, home: Path | None = None) -> Layers:
    """Return weights (inputs, outputs) and bias of every layer, in double precision.

    Raises:
        DataError: the network is not here, or its file is not such a network.
    """
    if name in _read_bundled():
        return list(_read_bundled()[name])
    folder = data_home(home)
    path = next((one for one in (folder / f"{name}.npz", folder / "fairquant" / f"{name}.npz") if one.is_file()), None)
    if path is None:
        raise DataError(
            "the network is neither bundled nor in the data folder",
            hint=f"{ARTIFACT} has it in models: save its arrays W0, b0, W1, b1, ... as NAME.npz in that folder",
        )
    try:
        with np.load(path) as arrays:
            layers = _layers_of(dict(arrays.items()))
    except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
        raise DataError(f"expected a network in arrays W0, b0, W1, b1, ...: {error}", location=str(path)) from None
    inputs = PUBLISHED["inputs"][family_of(name)]
    if not layers or layers[0][0].shape[:1] != (inputs,) or layers[-1][0].shape[1:] != (1,):
        raise DataError(
            f"expected a network of {inputs} inputs and one output, weights by (inputs, outputs)", location=str(path)
        )
    return layers


@cache
def _read_bundled() -> dict[str, Layers]:
    found: dict[str, dict[str, Floats]] = {}
    with np.load(BUNDLED) as arrays:
        for key in arrays.files:
            name, part = key.split(".")
            found.setdefault(name, {})[part] = arrays[key]
    return {name: _layers_of(parts) for name, parts in found.items()}


def _layers_of(arrays: dict[str, Floats]) -> Layers:
    return [(arrays[f"W{i}"].astype(np.float64), arrays[f"b{i}"].astype(np.float64)) for i in range(len(arrays) // 2)]


# The work.


def certify_network(name: str, context: Context) -> Values:
    """Certify a network by both methods; a Bank network on the published bounds, and on those that were meant.

    Raises:
        DataError: the network is not here.
    """
    network, row = family_of(name), NETWORKS[name]
    tool = {"as published": float(row["tool_seconds"] or LEAST_SECONDS)}
    if row["meant_seconds"]:
        tool["as meant"] = float(row["meant_seconds"])
    found: Values = {}
    for domain, seconds in tool.items():
        faulty = network == "BM" and domain == "as published"
        model = load_network(name, context.data_home, faulty_bank=faulty)
        limits = {"interval": TIMEOUT, "linear": min(max(seconds, LEAST_SECONDS), MOST_SECONDS)}
        found[f"{domain}, interval"] = prove(
            model, "interval", QUICK_SECONDS if context.quick else limits["interval"], context.seed
        )
        found[f"{domain}, linear"] = prove(
            model, "linear", QUICK_SECONDS if context.quick else limits["linear"], context.seed
        )
    return found


def prove(network: AdditiveNetwork, method: Literal["interval", "linear"], seconds: float, seed: int) -> Values:
    """Return what a method proves in so many seconds on one thread, compiling not counted.

    By linear bounds, Evenhand's method, everybody is asked where the domain is small enough.

    Raises:
        KeyboardInterrupt: somebody stopped it; what was proved by then is no figure to compare.
    """
    config = CertifyConfig(method=method, enumeration=method == "linear", jobs=1, seed=seed)
    if seconds > 1:
        certify(network, config, samples=100, max_boxes=500)
        certify(network, config, samples=100, time_limit=0.1)
    started = time.process_time()
    result = certify(network, config, time_limit=seconds)
    if result.stopped_by == "interrupt":
        raise KeyboardInterrupt
    return {
        "certified": result.certified,
        "falsified": result.falsified,
        "undecided": result.undecided,
        "unfair": [result.estimate.low, result.estimate.high],
        "counterexamples": len(result.counterexamples),
        "cpu_seconds": round(time.process_time() - started, 2),
        "stopped_by": result.stopped_by,
    }


def measure_sizes(context: Context) -> Values:
    """Return the inputs, hidden layers and hidden neurons of every network that is here."""
    found: Values = {}
    for name in NETWORKS:
        try:
            layers = read_layers(name, context.data_home)
        except DataError:
            continue
        hidden = [len(bias) for _, bias in layers[:-1]]
        found[name] = {"inputs": len(layers[0][0]), "hidden layers": len(hidden), "hidden neurons": sum(hidden)}
    return found


# The running example: a network of two hidden neurons that hires, section V-B and Figures 2 and 3.


HIDDEN, OUTPUT = np.array(EXAMPLE["hidden"]), np.array(EXAMPLE["output"])
"""Weights of interview score, gender and experience to h1 and h2, and of those to the output; there are no biases."""


def bound_symbolically(gender: int) -> dict[str, tuple[float, float]]:
    """Bound h1, h2 and the output over all people of a gender by symbolic intervals (Wang and others 2018).

    For a node z in [l, u] with l < 0 < u, relu(z) is between u z / (u - l) and u (z - l) / (u - l).
    """
    lower, upper = (np.array([*(bound[i] for bound in EXAMPLE["bounds"].values()), 1.0]) for i in (0, 1))
    lower[1] = upper[1] = gender

    def bound(function: Floats, *, up: bool) -> float:
        """Bound a function of three slopes and a constant."""
        ends = (upper, lower) if up else (lower, upper)
        return float(np.where(function > 0, function * ends[0], function * ends[1]).sum())

    found, least, most = {}, np.zeros(4), np.zeros(4)
    for node, weight in enumerate(OUTPUT[:, 0]):
        function = np.append(HIDDEN[:, node], 0.0)
        low, high = bound(function, up=False), bound(function, up=True)
        found[f"h{node + 1}, gender {gender}"] = (low, high)
        factor = 1.0 if low >= 0 else high / (high - low)
        below = factor * function
        above = below - np.array([0.0, 0.0, 0.0, factor * min(low, 0.0)])
        least += weight * (below if weight > 0 else above)
        most += weight * (above if weight > 0 else below)
    found[f"output, gender {gender}"] = (bound(least, up=False), bound(most, up=True))
    return found


def ask_everybody() -> dict[str, tuple[float, float]]:
    """Return the smallest and largest value of each node before its activation, over all people."""
    found: dict[str, tuple[float, float]] = {}
    scores, _, experience = (range(lower, upper + 1) for lower, upper in EXAMPLE["bounds"].values())
    for gender in (0, 1):
        people = np.array([(score, gender, years) for score, years in itertools.product(scores, experience)], float)
        hidden = people @ HIDDEN
        output = (np.maximum(hidden, 0) @ OUTPUT)[:, 0]
        for name, values in (("h1", hidden[:, 0]), ("h2", hidden[:, 1]), ("output", output)):
            found[f"{name}, gender {gender}"] = (float(values.min()), float(values.max()))
    return found


def run_example(context: Context) -> Values:
    """Bound every node, and certify each partition of the published tree as one box."""
    layers = [(HIDDEN, np.zeros(2)), (OUTPUT, np.zeros(1))]
    network = network_from_dense(_build_schema(EXAMPLE["bounds"], "gender"), layers, name="example")
    certified: Values = {}
    for name, partition in EXAMPLE["partitions"].items():
        lowest, highest = partition["scores"]
        share = 20 * (highest - lowest + 1)
        where = (f"interview >= {lowest}", f"interview <= {highest}")
        certified[name] = {
            method: share
            * certify(network, method=method, where=where, enumeration=False, max_boxes=1, samples=1, jobs=1).certified
            for method in ("interval", "linear")
        }
    return {
        "symbolic": {**bound_symbolically(0), **bound_symbolically(1)},
        "exact": ask_everybody(),
        "certified": certified,
    }


# The tables.

MISSING = "Not run: the network is neither bundled nor in the data folder, or its piece of the work was not done."
SPLIT_ON = (
    "The published tool gives a box up once one of its ten probe points discriminates, and most of these lie outside "
    "the box; ours splits it further."
)
LOOKED_INSIDE = "Ours looks in the middle of boxes and in a sample, inside the domain only."
TIME_UP = "The time was up before all boxes were looked at."
SLACK = "Ours leaves room for rounding in float32, so that a few boxes more stay undecided."
MACHINE = "Seconds of another machine; ours are processor seconds of one thread, measured."
COUNTED = (
    "Published are boxes in which a probe discriminates, on or off the domain; ours are distinct people of the domain, "
    "asked again, 100 at most."
)
NOT_RUN = "Fairify was not run, as it asks an SMT solver for 30 minutes; its published figure stands beside ours."
WRONG_ORDER = (
    "The published runs took the bounds of the columns in another order than the network's inputs. For the intended "
    "Bank domain there is no published figure; the published tool, run by us, takes its place."
)
ACCURACY = "Taken from the paper on Fairify, whose split of the data is not published."


def compare_intervals(found: Found) -> Iterator[Figure]:
    """Compare Figure 2: between which values the nodes of the running example are."""
    done = found.get("example")
    for end, measure in enumerate(("at least", "at most")):
        for node, bounds in EXAMPLE["intervals"].items():
            ours = default = None
            if done is not None:
                ours = Own(round(done["symbolic"][node][end], 6), "proved")
                default = Own(round(done["exact"][node][end], 6), "proved", basis="by asking all")
            yield compare(node, measure, bounds[end], ours, default=default, within=0.005)


def compare_partitions(found: Found) -> Iterator[Figure]:
    """Compare Figure 3: how much each partition of the running example certifies as one box."""
    done = found.get("example")
    for name, partition in EXAMPLE["partitions"].items():
        ours = default = None
        if done is not None:
            ours, default = (Own(round(done["certified"][name][one], 6), "proved") for one in ("interval", "linear"))
        measure = "certified without a further split"
        yield compare(name, measure, partition["certified"], ours, default=default, within=1e-6, unit="%")


def compare_sizes(found: Found) -> Iterator[Figure]:
    """Compare Table I with the networks that are here."""
    sizes = found.get("sizes", {})
    for measure, column in (("inputs", ""), ("hidden layers", "layers"), ("hidden neurons", "neurons")):
        for name, row in NETWORKS.items():
            published = int(row[column]) if column else PUBLISHED["inputs"][family_of(name)]
            own = Own(sizes[name][measure], "measured") if name in sizes else None
            yield compare(name, measure, published, own, missing=MISSING)
    for name, row in NETWORKS.items():
        yield Figure(name, "accuracy", float(row["accuracy"]), unit="%", note=ACCURACY)


def compare_networks(found: Found) -> Iterator[Figure]:
    """Compare Table II: what is certified, falsified and undecided, and how long it took."""
    for measure in SHARES:
        yield from (_compare_share(name, measure, found) for name in NETWORKS)
    yield from (_compare_finding(name, found) for name in NETWORKS)
    for name, row in NETWORKS.items():
        ours, default = _own(name, found, "counterexamples", "observed")
        note = COUNTED if ours else MISSING
        yield Figure(name, "counterexamples", int(row["counterexamples"]), ours, default, note=note)
    yield from (_show_time(name, found) for name in NETWORKS)
    yield from _compare_times(found)
    yield from _check_proofs(found)
    for measure in SHARES:
        for name, row in NETWORKS.items():
            if row["meant_seconds"]:
                ours, default = _own_shares(name, found, measure, "as meant")
                printed = f"{row[f'meant_{measure}']} (the tool, run by us)"
                named, note = f"{measure}, on the Bank domain that was meant", WRONG_ORDER if ours else MISSING
                yield Figure(name, named, None, ours, default, unit="%", printed=printed, note=note)
    for measure, better in SHARES.items():
        for name, row in NETWORKS.items():
            ours, default = _own_shares(name, found, measure)
            published = float(row[f"fairify_{measure}"])
            verdict = judge(published, ours.value, better=better, within=PRINTED) if ours else "not compared"
            named, note = f"{measure}, by Fairify", NOT_RUN if ours else MISSING
            yield Figure(name, named, published, ours, default, verdict, unit="%", note=note)
    for name, row in NETWORKS.items():
        yield Figure(name, "counterexamples, by Fairify", int(row["fairify_counterexamples"]), note=NOT_RUN)
    for name in NETWORKS:
        yield _show_fairify_time(name, "time, by Fairify")


def compare_drawing(found: Found) -> Iterator[Figure]:
    """Compare Figure 5: time and undecided share of the networks on which both tools finished."""
    places = {name: at for at, name in enumerate(NETWORKS, 1) if _seconds(NETWORKS[name]["fairify_time"]) is not None}
    for name, at in places.items():
        yield _show_time(name, found, row="FairQuant", at=float(at))
        yield _show_fairify_time(name, "time", row="Fairify", at=float(at))
    for name, at in places.items():
        yield _compare_share(name, "undecided", found, row="FairQuant", at=float(at))
        published = float(NETWORKS[name]["fairify_undecided"])
        yield Figure("Fairify", "undecided", published, unit="%", at=float(at), note=NOT_RUN)


def _seconds(printed: str) -> float | None:
    """Return a printed time in seconds; None without one."""
    scale = {"s": 1.0, "m": 60.0}.get(printed[-1])
    return None if scale is None else scale * float(printed[:-1])


def _own(
    name: str, found: Found, key: str, kind: Literal["observed", "measured"], domain: str = "as published"
) -> tuple[Own | None, Own | None]:
    """Return a figure by symbolic intervals and by the default method; None where it was not run."""
    runs = [found.get(name, {}).get(f"{domain}, {method}") for method in ("interval", "linear")]
    if runs[0] is None or runs[1] is None:
        return None, None
    return Own(runs[0][key], kind), Own(runs[1][key], kind)


def _own_shares(
    name: str, found: Found, measure: str, domain: str = "as published"
) -> tuple[Own, Own] | tuple[None, None]:
    runs = [found.get(name, {}).get(f"{domain}, {method}") for method in ("interval", "linear")]
    if runs[0] is None or runs[1] is None:
        return None, None
    return _proved(runs[0], measure), _proved(runs[1], measure)


def _proved(run: Values, measure: str) -> Own:
    stopped = {"time": "time limit reached", "depth": "20 splits"}.get(run["stopped_by"], "complete")
    return Own(round(100 * run[measure], 4), "proved", basis=f"{run['cpu_seconds']:g} CPU s, {stopped}")


def _compare_share(name: str, measure: str, found: Found, *, row: str = "", at: float | None = None) -> Figure:
    published = float(NETWORKS[name][measure])
    ours, default = _own_shares(name, found, measure)
    verdict, note = judge(published, ours.value, better=SHARES[measure], within=PRINTED) if ours else "not compared", ""
    if ours is None:
        note = MISSING
    elif verdict == "better":
        note = SPLIT_ON
    elif verdict == "differs":
        note = TIME_UP if "time" in ours.basis else SLACK
    return Figure(row or name, measure, published, ours, default, verdict, unit="%", note=note, at=at)


def _compare_finding(name: str, found: Found) -> Figure:
    """Compare whether a counterexample was found by either method."""
    counts = _own(name, found, "counterexamples", "observed")
    published = float(int(NETWORKS[name]["counterexamples"]) > 0)
    measure = "a counterexample was found (1) or not (0)"
    if counts[0] is None or counts[1] is None:
        return Figure(name, measure, published, note=MISSING)
    ours, default = (Own(float(one.value > 0), "observed") for one in counts if one)
    verdict = judge(published, max(ours.value, default.value))
    return Figure(name, measure, published, ours, default, verdict, note="" if verdict == "agrees" else LOOKED_INSIDE)


def _show_time(name: str, found: Found, *, row: str = "", at: float | None = None) -> Figure:
    ours, default = _own(name, found, "cpu_seconds", "measured")
    printed = NETWORKS[name]["time"]
    note = MACHINE if ours else MISSING
    return Figure(row or name, "time", _seconds(printed), ours, default, unit="s", printed=printed, note=note, at=at)


def _show_fairify_time(name: str, measure: str, *, row: str = "", at: float | None = None) -> Figure:
    printed = NETWORKS[name]["fairify_time"]
    return Figure(row or name, measure, _seconds(printed), unit="s", printed=printed, note=NOT_RUN, at=at)


def _compare_times(found: Found) -> Iterator[Figure]:
    """Yield whether the published method takes long where it is published to take long: Spearman's correlation."""
    pairs = [
        (_seconds(row["time"]), ours.value)
        for name, row in NETWORKS.items()
        if row["tool_seconds"] and (ours := _own(name, found, "cpu_seconds", "measured")[0])
    ]
    if len(pairs) < 5:
        return
    ranks = [np.argsort(np.argsort(column)) for column in np.array(pairs, dtype=float).T]
    # Spearman's rank correlation: 1 - 6 sum(d^2) / (n (n^2 - 1)), d being the differences of ranks.
    squares = float(((ranks[0] - ranks[1]) ** 2).sum())
    correlation = 1 - 6 * squares / (len(pairs) * (len(pairs) ** 2 - 1))
    yield Figure(
        f"{len(pairs)} networks",
        "rank correlation of our times with the published ones",
        ours=Own(round(correlation, 3), "measured"),
        verdict="agrees" if correlation > 0.8 else "differs",
        note="Above 0.8, the same networks take long.",
    )


def _check_proofs(found: Found) -> Iterator[Figure]:
    """Yield in how many runs a proved share is more than the other method's estimate from a sample allows."""
    pairs = [
        (one[f"{domain}, {own}"], one[f"{domain}, {other}"])
        for one in found.values()
        for domain in ("as published", "as meant")
        if f"{domain}, interval" in one
        for own, other in (("interval", "linear"), ("linear", "interval"))
    ]
    if pairs:
        many = sum(
            (run["falsified"] > other["unfair"][1]) + (run["certified"] > 1 - other["unfair"][0])
            for run, other in pairs
        )
        measure = "proved shares that contradict the estimate which the other method makes from a sample"
        note = "a proof must never contradict it; each estimate holds with 99 % confidence"
        own = Own(many, "observed", basis=f"in {len(pairs)} runs")
        yield Figure("all networks", measure, ours=own, verdict="differs" if many else "not compared", note=note)


PAPER = Paper(
    name="fairquant",
    pieces=(
        Piece("example", ("Figure 2", "Figure 3"), run_example),
        Piece("sizes", ("Table I",), measure_sizes),
        *(Piece(name, ("Table II", "Figure 5"), partial(certify_network, name)) for name in NETWORKS),
    ),
    comparisons={
        "Figure 2": compare_intervals,
        "Figure 3": compare_partitions,
        "Table I": compare_sizes,
        "Table II": compare_networks,
        "Figure 5": compare_drawing,
    },
)

"""How near MAFT's estimates come to true gradients, in what they are used for, and what both cost."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

import numpy as np

from evenhand.errors import OptionError
from evenhand.individual import search
from evenhand.typing import Booleans, Floats, Integers, Progress
from reproductions.comparison import PieceContext, Values
from reproductions.maft.benchmarks import (
    FILES,
    FairnessBenchmark,
    load_benchmark,
    load_network,
    load_tested,
    read_checkout,
    read_domains,
)

EPSILON = 1e-6
SEEDS = 1000


def measure_slopes(name: str, context: PieceContext, progress: Progress) -> Values:
    """Compare estimated with true gradients, directions and probabilities of a benchmark's people, and time them.

    Args:
        name: of the benchmark.
        context: quick: a fifth of the people.
        progress: told after each part.
    """
    bench = load_benchmark(name, data_home=context.data_home)
    rows = bench.space.seeds(SEEDS // 5 if context.quick else SEEDS, np.random.default_rng([context.seed, 5]))
    true, estimated = bench.network.gradient(rows), bench.network.estimate(rows, 1.0)
    profiles, which = bench.space.split(rows)
    own = _own_estimate(bench)
    columns = bench.space.columns
    near = cosines(estimated, true)
    found: Values = {
        "people": len(rows),
        "gradients": _summarize(near),
        "own gradients": _summarize(cosines(own(profiles, which), true[:, columns])),
    }
    progress("directions", 0.3)
    partner, discriminates = _find_partners(bench, profiles, which)
    pairs = {
        "true": _pair(lambda at, under: bench.network.gradient(bench.space.rows_as(at, under))[:, columns]),
        "estimated": _pair(lambda at, under: bench.network.estimate(bench.space.rows_as(at, under), 1.0)[:, columns]),
        "own": _pair(own),
    }
    on = ~discriminates
    both = {kind: pair(profiles, which, partner) for kind, pair in pairs.items()}
    directions = {kind: direct(slopes[:, on]) for kind, slopes in both.items()}
    weights = {kind: weigh(slopes) for kind, slopes in both.items()}
    found |= {
        "undecided": int(on.sum()),
        "directions": _summarize(cosines(directions["estimated"], directions["true"])),
        "own directions": _summarize(cosines(directions["own"], directions["true"])),
        "probabilities": _summarize(cosines(weights["estimated"], weights["true"])),
        "own probabilities": _summarize(cosines(weights["own"], weights["true"])),
        "plane": compare_in_plane(true, estimated, -bench.network.gradient(rows, loss=True)),
    }
    progress("times", 0.5)
    return found | {"seconds": _time_slopes(bench, rows, profiles, which, partner)}


def cosines(one: Floats, other: Floats) -> Floats:
    """Return the cosine similarity of rows (n, d), shape (n,): 1 where both are zero, 0 where one is."""
    norms = np.linalg.norm(one, axis=1), np.linalg.norm(other, axis=1)
    product = norms[0] * norms[1]
    similar = (one * other).sum(axis=1) / np.where(product > 0, product, 1.0)
    return np.where((norms[0] == 0) & (norms[1] == 0), 1.0, similar)


def direct(slopes: Floats) -> Floats:
    """Return the first global move of pairs, (n, d): against the slopes (2, n, d) where both have one sign."""
    signs = np.sign(slopes)
    return np.where(signs[0] == signs[1], -signs[0], 0.0)


def weigh(slopes: Floats) -> Floats:
    """Return the probability of each attribute in the local phase, (n, d), from slopes (2, n, d)."""
    weights = 1 / (np.abs(slopes).sum(axis=0) + EPSILON)
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def compare_in_plane(true: Floats, estimated: Floats, loss: Floats) -> Values:
    """Return how far estimates and slopes of the loss are from true gradients in the plane of their first components.

    Args:
        true, estimated, loss: shape (n, d).

    Returns:
        the plane's share of the variance, and mean distances as a share of the true gradients' mean distance from
        their middle.
    """
    points = np.concatenate([true, estimated, loss])
    _, sizes, axes = np.linalg.svd(points - points.mean(axis=0), full_matrices=False)
    one, two, three = (part @ axes[:2].T for part in (true, estimated, loss))
    spread = float(np.linalg.norm(one - one.mean(axis=0), axis=1).mean()) or 1.0
    return {
        "variance": float((sizes[:2] ** 2).sum() / (sizes**2).sum()),
        "MAFT": float(np.linalg.norm(two - one, axis=1).mean()) / spread,
        "ADF": float(np.linalg.norm(three - one, axis=1).mean()) / spread,
    }


def _summarize(similar: Floats) -> Values:
    quarter, half = np.quantile(similar, [0.25, 0.5]) if len(similar) else (0.0, 0.0)
    return {
        "mean": float(similar.mean()) if len(similar) else 0.0,
        "variance": float(similar.var(ddof=1)) if len(similar) > 1 else 0.0,
        "n": len(similar),
        "quarter": float(quarter),
        "half": float(half),
    }


def _own_estimate(bench: FairnessBenchmark) -> Callable[[Floats, Integers], Floats]:
    oracle = search.Oracle(bench.model, bench.space, search.FindingCollector(bench.space, 2))
    slopes = search.estimate_slopes(oracle, 1.0)
    return lambda at, under: slopes(at, under, oracle.scores_at(at, under))


def _pair(slopes: Callable[[Floats, Integers], Floats]) -> Callable[[Floats, Integers, Integers], Floats]:
    return lambda at, one, other: np.stack([slopes(at, one), slopes(at, other)])


def _find_partners(bench: FairnessBenchmark, profiles: Floats, which: Integers) -> tuple[Integers, Booleans]:
    """Return the assignment whose probability is farthest from one's own, and who is decided differently."""
    everyone = np.arange(len(profiles))
    scores = np.stack(
        [
            bench.network.probability(bench.space.rows_as(profiles, np.full(len(profiles), other)))
            for other in range(len(bench.space.assignments))
        ],
        axis=1,
    ).astype(np.float64)
    apart = np.abs(scores - scores[everyone, which][:, None])
    apart[everyone, which] = -1.0
    labels = scores > 0.5
    partner = np.asarray(np.argmax(apart, axis=1), dtype=np.int64)
    return partner, np.asarray(labels.any(axis=1) & ~labels.all(axis=1))


def _time_slopes(
    bench: FairnessBenchmark, rows: Floats, profiles: Floats, which: Integers, partner: Integers
) -> dict[str, float]:
    """Return processor seconds, person by person as the programs go, and of our own slopes for all at once."""
    network, columns = bench.network, bench.space.columns
    ways: dict[str, Callable[[Floats], Floats]] = {
        "ADF": partial(network.gradient, loss=True),
        "EIDIG": network.gradient,
        "MAFT": partial(network.estimate, h=1.0),
        "MAFT one by one": partial(network.estimate_one_by_one, h=1.0),
    }
    found = {}
    for name, way in ways.items():
        started = time.process_time()
        for row in rows:
            way(row[None])
        found[name] = time.process_time() - started
    for name, use in (("directions", direct), ("probabilities", weigh)):
        for method in ("EIDIG", "MAFT"):
            started = time.process_time()
            for i in range(len(rows)):
                at = bench.space.rows_as(np.repeat(profiles[i : i + 1], 2, axis=0), np.array([which[i], partner[i]]))
                use(np.stack([ways[method](at[:1]), ways[method](at[1:])])[:, :, columns])
            found[f"{name}, {method}"] = time.process_time() - started
    started = time.process_time()
    _own_estimate(bench)(profiles, which)
    return found | {"own": time.process_time() - started}


def measure_networks(context: PieceContext, progress: Progress) -> Values:
    """Measure the accuracy of the networks, and find out which methods do with a model's labels alone."""
    found: Values = {"data sets": {}, "agnostic": {}}
    for dataset, domain in read_domains().items():
        tested = load_tested(dataset)
        right = None if tested is None else int((load_network(dataset).decides(tested[0]) == (tested[1] == 1)).sum())
        found["data sets"][dataset] = {
            "individuals": domain["individuals"],
            "attributes": len(domain["bounds"]),
            "right": right,
            "tested": 0 if tested is None else len(tested[1]),
        }
    bench = load_benchmark("G-g")
    for method in sorted(search.METHODS):
        try:
            search.search(
                lambda rows: bench.network.decides(np.asarray(rows, dtype=np.float64)).astype(np.int64),
                bench.source,
                method=method,
                budget=500,
                local=10,
                seed=context.seed,
                samples=0,
                most_examples=0,
            )
            found["agnostic"][method] = True
        except OptionError:
            found["agnostic"][method] = False
    progress("", 1.0)
    return found


def measure_checkout(context: PieceContext, progress: Progress) -> Values:
    """Measure the accuracy of networks in a checkout of the authors' repository."""
    found: Values = {}
    for dataset in FILES:
        one = read_checkout(dataset, context.data_home)
        found[dataset] = {
            "individuals": one.count,
            "attributes": len(one.names),
            "right": int((one.network.decides(one.tested.astype(np.float64)) == (one.labels == 1)).sum()),
            "tested": len(one.labels),
        }
    return found

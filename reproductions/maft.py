"""MAFT (Wang and others, ICSE 2024): searches for individual discrimination along estimated gradients."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from threadpoolctl import threadpool_limits

from evenhand.core.typing import Booleans, Floats, Integers
from evenhand.errors import OptionError
from evenhand.individual import search
from evenhand.individual.search.methods.choice import METHODS, find_method
from evenhand.individual.search.methods.gradient import (
    SlopePlan,
    estimate_slopes,
    move_along_boundary,
    move_to_boundary,
)
from evenhand.individual.search.oracle import ModelAnswers, Oracle
from evenhand.stats.level import student_quantile
from reproductions.common import (
    Context,
    Figure,
    Found,
    Kind,
    Own,
    Paper,
    Piece,
    Values,
    Verdict,
    claim,
    compare,
    read_published,
)
from reproductions.maft_networks import (
    BENCHMARKS,
    BUNDLED,
    CHECKED_OUT,
    FILES,
    JOINT,
    RETRAINED,
    FairnessBenchmark,
    load_benchmark,
    load_network,
    load_tested,
    read_checkout,
    read_domains,
)

PUBLISHED = read_published("maft")
LOGGED = PUBLISHED["logged"]


# The published searches, counted as their programs count, and Evenhand's own beside them.

STEPS = tuple(10.0**power for power in range(-10, 2))
"""Perturbation sizes h of MAFT in figure 3."""

SG_PROFILES = 12
"""Profiles that SG asks about for each seed: as many as its program came to with a hundred seeds on C-a."""

MOVES = 10
DECAY = 0.5
UPDATE = 5
"""Global moves, share of former slopes that is kept, and successes between new weights: section 4.1 of the paper."""


@dataclass(frozen=True)
class SearchEffort:
    """How much is searched.

    Attributes:
        rounds: searches, each from seeds of its own.
        seeds: people to start from.
        local: moves around each profile found.
    """

    rounds: int
    seeds: int
    local: int


HYPER = SearchEffort(5, 100, 100)
"""For figure 3, half of the published rounds."""

WHOLE = SearchEffort(3, 1000, 1000)
"""Published for figure 4."""

LONG = ("AEQUITAS", "ADF", "EIDIG", "MAFT")
"""Methods of figure 4."""


class CountingOracle(Oracle):
    """Counts what programs count besides distinct profiles: tries, and how many of them discriminate.

    Attributes:
        tried: profiles that were asked about, again or not.
        flipped: how many of the tries found a profile that discriminates, known or not.
        own: the assignments that the profiles of the next questions come with; None: not known.
        arrived: profiles that discriminate, with the assignment that a program has them with.
    """

    def __init__(self, bench: FairnessBenchmark) -> None:
        super().__init__(bench.model, bench.space)
        self.tried = self.flipped = 0
        self.own: Integers | None = None
        self.arrived: list[tuple[Integers, Integers]] = []

    def ask(self, unprotected: Floats, which: Integers | None = None) -> ModelAnswers:
        """Query profiles as every oracle does, and count them."""
        answers = super().ask(unprotected, which)
        self.tried += len(unprotected)
        self.flipped += int(answers.flips.sum())
        if self.own is not None and len(self.own) == len(unprotected):
            self.arrived.append((self.space.keys(unprotected[answers.flips]), self.own[answers.flips]))
        return answers

    def count_instances(self) -> int:
        """Return how many distinct individuals discriminate, protected values included."""
        keys, own = (np.concatenate(part) for part in zip(*self.arrived, strict=True))
        return sum(len(np.unique(keys[own == which])) for which in range(len(self.space.assignments)))


def run_search(
    bench: FairnessBenchmark, method: str, seeds: Floats, rng: np.random.Generator, *, local: int, h: float = 1.0
) -> Values:
    """Run a published method over all of the domain, and count what it finds.

    Args:
        bench: what is searched.
        method: ``AEQUITAS``, ``SG``, ``ADF``, ``EIDIG`` or ``MAFT``, whose slopes are those of its program.
        seeds: people to start from, (n, attributes).
        rng: draws moves.
        local: moves around each profile found.
        h: of MAFT.

    Returns:
        instances (distinct individuals, as programs count), profiles (distinct unprotected parts), plausible profiles
        (None where the people are not known), tries, tries that found something, questions, processor seconds.
    """
    oracle = CountingOracle(bench)
    started = time.process_time()
    if method in ("AEQUITAS", "SG"):
        moves = SG_PROFILES if method == "SG" else local
        find_method(method.lower())(oracle, seeds, rng, search.SearchConfig(local=moves))
    else:
        with threadpool_limits(1):  # sums must not depend on how many cores are free
            _search_along_slopes(oracle, bench, method, seeds, rng, local, h)
    seconds = time.process_time() - started
    found = oracle.findings.reportable()
    return {
        "instances": oracle.count_instances() if oracle.arrived else len(found),
        "profiles": len(found),
        "plausible": int(found.valid.sum()) if bench.with_people else None,
        "tried": oracle.tried,
        "flipped": oracle.flipped,
        "queries": oracle.queries,
        "seconds": seconds,
    }


def _search_along_slopes(
    oracle: CountingOracle,
    bench: FairnessBenchmark,
    method: str,
    seeds: Floats,
    rng: np.random.Generator,
    local: int,
    h: float,
) -> None:
    profiles, which = bench.space.split(seeds)
    columns, inputs = bench.space.columns, len(bench.space.schema.attributes)

    def estimate(oracle: Oracle, at: Floats, under: Integers, scores: Floats) -> Floats:
        oracle.ledger.charge(len(at) * inputs)
        return bench.network.estimate(bench.space.rows_as(at, under), h)[:, columns]

    plans = {
        "ADF": SlopePlan(lambda oracle, at, under, scores: -oracle.gradient(at, under, loss=True), 0.0, 1),
        "EIDIG": SlopePlan(lambda oracle, at, under, scores: oracle.gradient(at, under), DECAY, UPDATE),
        "MAFT": SlopePlan(estimate, DECAY, UPDATE),
    }
    starts, under = move_to_boundary(oracle, profiles, which, rng, MOVES, plans[method])
    if len(starts) == 0 or local == 0:
        return
    oracle.arrived.append((bench.space.keys(starts), under))
    oracle.own = under
    move_along_boundary(oracle, starts, under, rng, local, plans[method])
    # The local phase asks about where it starts once more, which no program counts.
    oracle.tried -= len(starts)
    oracle.flipped -= len(starts)


def run_default(bench: FairnessBenchmark, budget: int, seed: int, *, quick: bool) -> Values:
    """Run Evenhand's own search, which reports plausible profiles alone, with as many questions as another had.

    There is a most, since it finds several times as many with each question, and all of them are read at the end.
    """
    budget = min(budget, QUICK_MOST if quick else MOST_QUESTIONS.get(bench.name[0], USUAL_MOST))
    started = time.process_time()
    found = search.search(bench.model, bench.source, budget=budget, seed=seed, samples=0, most_examples=0)
    return {
        "profiles": found.profiles,
        "plausible": found.valid,
        "queries": found.queries,
        "seconds": time.process_time() - started,
    }


def measure_steps(name: str, context: Context) -> Values:
    """Search a benchmark with every method and every h of figure 3.

    Args:
        name: of the benchmark.
        context: quick: one round, and every other h.
    """
    bench = load_benchmark(name, data_home=context.data_home)
    effort = SearchEffort(1, 100, 100) if context.quick else HYPER
    steps = (1e-10, 1e-6, 1e-4, 1.0, 10.0) if context.quick else STEPS
    settings = [("AEQUITAS", 1.0), ("SG", 1.0), ("ADF", 1.0), ("EIDIG", 1.0), *(("MAFT", h) for h in steps)]
    runs: dict[str, list[Values]] = {}
    for turn in range(effort.rounds):
        seeds = bench.space.seeds(effort.seeds, np.random.default_rng([context.seed, turn]))
        for i, (method, h) in enumerate(settings):
            if method == "SG" and turn >= FEW_ROUNDS:
                continue
            rng = np.random.default_rng([context.seed, turn, i])
            label = f"MAFT {h:g}" if method == "MAFT" else method
            runs.setdefault(label, []).append(run_search(bench, method, seeds, rng, local=effort.local, h=h))
        if turn < FEW_ROUNDS:
            runs.setdefault("default", []).append(
                run_default(bench, runs["MAFT 1"][-1]["queries"], context.seed + turn, quick=context.quick)
            )
    return {"runs": runs, "seeds": len(seeds), "local": effort.local}


MOST_QUESTIONS = {"M": 50_000}
USUAL_MOST = 100_000
QUICK_MOST = 20_000
"""Questions of Evenhand's own search where the published methods have millions; by data set."""

FEW_ROUNDS = 2
"""Rounds of SG, whose trees take most of the time, and of Evenhand's own search, which finds ten times as many."""


def measure_numbers(name: str, context: Context) -> Values:
    """Search a benchmark at length with the methods of figure 4; quick: one round of 200 seeds and 200 moves."""
    bench = load_benchmark(name, data_home=context.data_home)
    effort = SearchEffort(1, 200, 200) if context.quick else WHOLE
    if name.startswith("M") and not context.quick:
        effort = SearchEffort(2, 1000, 300)  # 137 inputs make slopes cost eleven times as much as on the census
    return _search_in_rounds(bench, effort, 1, context)


def measure_joint(name: str, context: Context) -> Values:
    """Search with two protected attributes, by the methods of figure 4."""
    return _search_in_rounds(load_benchmark(name), SearchEffort(1 if context.quick else 3, 100, 100), 2, context)


def _search_in_rounds(bench: FairnessBenchmark, effort: SearchEffort, stream: int, context: Context) -> Values:
    """Search with each method, and by Evenhand's own with as many questions as MAFT; a stream of random numbers."""
    runs: dict[str, list[Values]] = {}
    for turn in range(effort.rounds):
        seeds = bench.space.seeds(effort.seeds, np.random.default_rng([context.seed, turn, stream]))
        for i, method in enumerate(LONG):
            rng = np.random.default_rng([context.seed, turn, i, stream])
            runs.setdefault(method, []).append(run_search(bench, method, seeds, rng, local=effort.local))
        runs.setdefault("default", []).append(
            run_default(bench, runs["MAFT"][-1]["queries"], context.seed + turn, quick=context.quick)
        )
    return {"runs": runs, "seeds": len(seeds), "local": effort.local}


def measure_retrained(name: str, context: Context) -> Values:
    """Search networks that were trained again with what a method found, by MAFT and by Evenhand's own search."""
    rounds = 1 if context.quick else 2
    found: dict[str, dict[str, list[Values]]] = {}
    for retrained in ("", *RETRAINED):
        bench = load_benchmark(name, retrained=retrained)
        runs: dict[str, list[Values]] = {"MAFT": [], "default": []}
        for turn in range(rounds):
            seeds = bench.space.seeds(100, np.random.default_rng([context.seed, turn, 3]))
            rng = np.random.default_rng([context.seed, turn, 4])
            runs["MAFT"].append(run_search(bench, "MAFT", seeds, rng, local=100))
            runs["default"].append(
                run_default(bench, runs["MAFT"][-1]["queries"], context.seed + turn, quick=context.quick)
            )
        found[retrained or "original"] = runs
    return found


def measure_budgets(name: str, context: Context) -> Values:
    """Search among plausible people with every method there is, with the questions of MAFT at 50 seeds and 50 moves.

    Methods that move around what they find are tried with 100 and with 1,000 moves; the better one counts.
    """
    bench = load_benchmark(name)
    rounds = 1 if context.quick else 2
    budget = search.search(
        bench.model, bench.source, method="maft", seeds=50, local=50, allow_infeasible=True, samples=0, most_examples=0
    ).queries
    found: dict[str, list[int]] = {}
    for method in sorted(METHODS):
        tried = [
            [_count_plausible(bench, method, budget, local, context.seed + turn) for turn in range(rounds)]
            for local in ((100, 1000) if method.startswith(WALKING) else (100,))
        ]
        found[method] = max(tried, key=lambda counts: float(np.median(counts)))
    return {"budget": budget, "plausible": found}


WALKING = ("maft", "eidig", "adf", "aequitas")
"""Methods with a number of local moves."""


def _count_plausible(bench: FairnessBenchmark, method: str, budget: int, local: int, seed: int) -> int:
    found = search.search(
        bench.model, bench.source, method=method, budget=budget, local=local, seed=seed, samples=0, most_examples=0
    )
    return int(found.profiles)


# How near estimates come to true gradients, in what they are used for, and what both cost.

EPSILON = 1e-6
SEEDS = 1000


def measure_slopes(name: str, context: Context) -> Values:
    """Compare estimated with true gradients, directions and probabilities of a benchmark's people, and time them.

    Args:
        name: of the benchmark.
        context: quick: a fifth of the people.
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
    oracle = Oracle(bench.model, bench.space)
    return lambda at, under: estimate_slopes(oracle, at, under, oracle.scores_at(at, under))


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


def measure_networks(context: Context) -> Values:
    """Measure the accuracy of the networks, and find out which methods do with a model's labels alone."""
    found: Values = {"data sets": {}, "agnostic": {}}
    for dataset, domain in read_domains().items():
        tested = load_tested(dataset)
        right = None if tested is None else int((load_network(dataset).decides(tested[0]) == (tested[1] == 1)).sum())
        found["data sets"][dataset] = {
            "individuals": domain["individuals"],
            "features": len(domain["bounds"]),
            "right": right,
            "tested": 0 if tested is None else len(tested[1]),
        }
    bench = load_benchmark("G-g")
    for method in sorted(METHODS):
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
    return found


def measure_checkout(context: Context) -> Values:
    """Measure the accuracy of networks in a checkout of the authors' repository."""
    found: Values = {}
    for dataset in FILES:
        one = read_checkout(dataset, context.data_home)
        found[dataset] = {
            "individuals": one.count,
            "features": len(one.names),
            "right": int((one.network.decides(one.tested.astype(np.float64)) == (one.labels == 1)).sum()),
            "tested": len(one.labels),
        }
    return found


# Figures of ours.

NOT_HERE = "network and people are not bundled: a checkout of the authors' repository brings them"
NOT_PASSED_ON = "its people stand under a data use agreement, and are not bundled"
DRAWN = "the paper draws it and prints no number"
RERUN = "a run of the authors' program, not a published figure"
PLAUSIBLE = "plausible profiles, with as many questions"
TOGETHER = (
    "the programs ask the network row by row; here all walks move together in one call, so the number of calls, which "
    "costs most there, costs almost nothing"
)
COUNTED = (
    "the program also moves protected attributes, and counts every protected value that it arrives with; here each "
    "profile counts once"
)
OTHER_SEEDS = "seeds are drawn from other clusters, and the last global move is asked about here"
OWN_METHODS = ("frontier", "random")
"""Methods that no paper published."""


def half_width(values: Sequence[float]) -> float:
    """Return half the 95 % interval of a mean by Student's t."""
    n = len(values)
    return float(student_quantile(0.95, n - 1)) * float(np.std(values, ddof=1)) / math.sqrt(n) if n > 1 else 0.0


def average(values: Sequence[float], basis: str = "") -> Own:
    """Return the mean of some counts or shares, with its interval, cut at 0, where there are two runs or more."""
    mean, half = float(np.mean(values)), half_width(values)
    runs = f"{len(values)} run{'s' * (len(values) > 1)}"
    low, high = (round(max(mean - half, 0.0), 4), round(mean + half, 4)) if half else (None, None)
    return Own(round(mean, 4), "observed", low, high, f"{basis}, {runs}" if basis else f"in {runs}")


def plain(value: float, kind: Kind = "observed", basis: str = "") -> Own:
    """Return a number of ours without an interval."""
    return Own(round(value, 4), kind, basis=basis)


def pieces_of(found: Found, kind: str) -> dict[str, Values]:
    """Return what pieces of one kind found, by their benchmark."""
    return {name.removeprefix(f"{kind}-"): one for name, one in found.items() if name.startswith(f"{kind}-")}


def _absent_rows(found: Mapping[str, Values], measure: str, method: str = "") -> Iterator[Figure]:
    """Yield a row for each benchmark that needs a checkout of the authors' repository and was not run."""
    for name in CHECKED_OUT:
        if name not in found:
            yield Figure(f"{name}, {method}" if method else name, measure, note=NOT_HERE)


def _column(runs: Sequence[Values], name: str) -> list[float]:
    return [float(run[name]) for run in runs]


def _measure_of(run: Values, measure: str) -> float:
    if measure == "success":
        return 100 * float(run["instances"]) / float(run["tried"])
    if measure == "speed":
        return float(run["instances"]) / max(float(run["seconds"]), 1e-3)
    return float(run[measure])


def _mean_of(runs: Sequence[Values], measure: str) -> float:
    return float(np.mean([_measure_of(run, measure) for run in runs]))


# Tables 1 and 2.


def compare_features(found: Found) -> Iterator[Figure]:
    """Compare table 1: what each method needs, and whether its authors call it effective and efficient."""
    agnostic = found.get("networks", {}).get("agnostic", {})
    for method, theirs in PUBLISHED["methods"].items() if agnostic else ():
        ours, default = (Own(float(agnostic[one]), "observed") for one in (method.lower(), "frontier"))
        measure, note = "does with a model's labels alone (1: yes, 0: no)", "it ran with labels alone"
        yield compare(method, measure, float(theirs["agnostic"]), ours, default=default, note=note)
    for method, theirs in PUBLISHED["methods"].items():
        note = "a judgement: figures 3 and 4 and equal budgets have the numbers"
        yield Figure(method, "effective and efficient (1: yes, 0: no)", float(theirs["efficient"]), note=note)


def compare_networks(found: Found) -> Iterator[Figure]:
    """Compare table 2: individuals, features, accuracy of the networks."""
    done = found.get("networks", {}).get("data sets", {}) | found.get("checkout", {})
    for key, theirs in PUBLISHED["data_sets"].items():
        ours, name = done.get(key), theirs["name"]
        missing = NOT_HERE if key in ("heart", "students") else NOT_PASSED_ON
        for measure in ("individuals", "features"):
            count = None if ours is None or ours[measure] is None else Own(ours[measure], "observed")
            note = f"the data set has {count.value:,}, and the paper prints {theirs[measure]:,}" if count else ""
            yield compare(name, measure, theirs[measure], count, note=note, missing=missing)
        yield _compare_accuracy(name, theirs["accuracy"], ours, missing)


def _compare_accuracy(name: str, theirs: float, ours: Values | None, missing: str) -> Figure:
    own = None
    if ours is not None and ours["tested"]:
        share = ours["right"] / ours["tested"]
        half = 1.96 * math.sqrt(share * (1 - share) / ours["tested"])
        value, low, high = (round(100 * one, 2) for one in (share, share - half, share + half))
        own = Own(value, "observed", low, high, f"on {ours['tested']:,} people")
    return compare(name, "accuracy", theirs, own, missing=missing, unit="%")


# Figure 3.


def compare_steps(found: Found) -> Iterator[Figure]:
    """Compare figure 3: what each h finds, how fast, and how often."""
    done = pieces_of(found, "steps")
    if not done:
        return
    sizes = sorted({float(name.split()[1]) for piece in done.values() for name in piece["runs"] if name[:4] == "MAFT"})
    others = ("AEQUITAS", "SG", "ADF", "EIDIG")
    rows: list[tuple[str, str, float | None]] = [(method, method, None) for method in others]
    rows += [("MAFT", f"MAFT {h:g}", round(float(np.log10(h)), 1)) for h in sizes]
    basis = f"mean of {len(done)} benchmarks"
    for row, label, at in rows:
        own = average(_by_round(done, label, "instances"), basis)
        yield Figure(row, "instances found", ours=own, note=DRAWN, at=at)
    for row, label, at in rows:
        own = average(_by_round(done, label, "success"), basis)
        yield Figure(row, "success, instances per try", ours=own, unit="%", note=DRAWN, at=at)
    default = average(_by_round(done, "default", "profiles"), PLAUSIBLE)
    yield Figure("Evenhand's own search", "instances found", default=default, note=DRAWN)
    yield from _check_step_claims(done, sizes)
    for name, counts in PUBLISHED["program"].items():
        for method, profiles in counts.items() if name in done else ():
            runs = done[name]["runs"]
            other = average(_column(runs["default"], "profiles"), PLAUSIBLE) if method == "MAFT" else None
            ours = average(_column(runs["MAFT 1" if method == "MAFT" else method], "profiles"))
            measure = "profiles, beside a run of the authors' program"
            yield Figure(f"{name}, {method}", measure, profiles, ours, other, note=RERUN)


def _by_round(done: Mapping[str, Values], label: str, measure: str) -> list[float]:
    """Return means over the benchmarks, one for each round."""
    runs = [piece["runs"][label] for piece in done.values()]
    return [_mean_of([one[turn] for one in runs], measure) for turn in range(min(map(len, runs)))]


def _check_step_claims(done: Mapping[str, Values], sizes: list[float]) -> Iterator[Figure]:
    """Compare what section 4.2.1 says in words and ratios."""

    def mean(label: str, what: str) -> float:
        return float(np.mean(_by_round(done, label, what)))

    measure = "statements of the text"
    notes = {
        "instances": "the paper's SG goes on to as many tries as the other methods have; here it ends after 12 for "
        "each seed, where its program ran out of paths on the census",
        "speed": "SG spends its time on fitting trees, MAFT on calls of the network, which are shared here",
    }
    for what, note in notes.items():
        theirs = PUBLISHED["sg_ratios"][what]
        ours = plain(mean("MAFT 1", what) / mean("SG", what), "measured" if what == "speed" else "observed")
        row, within = f"{what} of MAFT to SG", 0.1 * theirs
        yield compare(row, measure, round(theirs, 2), ours, better="higher", within=within, note=note)
    for h in sizes:
        if h < 2 * PUBLISHED["small_step"]:
            ours = plain(mean(f"MAFT {h:g}", "instances") / mean("ADF", "instances"))
            row = f"instances of MAFT, h = {h:g}, to ADF"
            note = (
                "single precision still tells such a step from none where an entry is small: ADF, which uses no "
                "momentum, finds no more"
            )
            yield claim(row, measure, "below 1", ours, holds=ours.value < 1, note=note)
    large = [
        [float(run["instances"]) for piece in done.values() for run in piece["runs"][f"MAFT {h:g}"]]
        for h in sizes
        if h > 2e-5
    ]
    chance = plain(equal_means_p_value(large), basis="analysis of variance over benchmarks and rounds")
    row, note = "p of no difference between h from 1e-4 to 10", "h changes what is found by more than benchmarks differ"
    yield claim(row, measure, "above 0.05", chance, holds=chance.value > 0.05, note=note)
    ours = plain(mean("EIDIG", "success") / mean("ADF", "success"))
    note = "weights that are five successes old serve as well as new ones on these networks"
    yield claim("success of EIDIG to ADF", measure, "slightly below 1", ours, holds=0.8 < ours.value < 1, note=note)
    ours, note = (
        plain(mean("MAFT 10", "success") / mean("MAFT 1", "success")),
        "the wider step still points along the slope",
    )
    yield claim("success of MAFT, h = 10, to h = 1", measure, "below 1", ours, holds=ours.value < 1, note=note)


# Figure 4.


def compare_numbers(found: Found) -> Iterator[Figure]:
    """Compare figure 4: instances, and instances a second, of a long search."""
    done = pieces_of(found, "numbers")
    for name, piece in done.items():
        yield from (_compare_count(name, method, piece) for method in LONG)
    yield from _absent_rows(done, "instances", "MAFT")
    if done:
        yield from _compare_ratios(done)
        yield from _compare_logged_speeds(done)
        yield from _compare_means(done)
        for name, piece in done.items():
            yield from _show_hidden_counts(name, piece)


def _compare_count(name: str, method: str, piece: Values) -> Figure:
    theirs = [float(count) for count, _ in LOGGED.get(name, {}).get(method, ())]
    default, own = None, piece["runs"]["default"]
    if method == "MAFT":
        asked = round(float(np.mean(_column(own, "queries"))))
        default = average(_column(own, "profiles"), f"plausible profiles, with {asked:,} questions")
    basis = f"{piece['seeds']:,} seeds x {piece['local']:,} moves"
    ours = average(_column(piece["runs"][method], "instances"), basis)
    row, published = f"{name}, {method}", round(float(np.mean(theirs)), 1) if theirs else None
    if published is None or piece["local"] < WHOLE.local:
        note = "fewer seeds and moves than published" if theirs else DRAWN
        return Figure(row, "instances", published, ours, default, note=note)
    note, within = (
        COUNTED if method == "AEQUITAS" else OTHER_SEEDS,
        max(half_width(theirs), 0.05 * float(np.mean(theirs))),
    )
    return compare(row, "instances", published, ours, default=default, better="higher", within=within, note=note)


def _compare_ratios(done: Mapping[str, Values]) -> Iterator[Figure]:
    """Compare the ratios of section 4.2.2: of means over the benchmarks."""
    for other, ratios in PUBLISHED["long_ratios"].items():
        for what, theirs in ratios.items():
            one, two = (
                _mean_of([run for piece in done.values() for run in piece["runs"][method]], what)
                for method in ("MAFT", other)
            )
            note = TOGETHER if what == "speed" else f"over {len(done)} benchmarks, not 14"
            if other == "AEQUITAS" and what == "instances":
                note = (
                    "the authors' own log gives a ratio of 30 on six benchmarks; the paper does not say how it "
                    "averages over 14"
                )
            ours = plain(one / two, "measured" if what == "speed" else "observed")
            row, within = f"MAFT to {other}", 0.1 * theirs
            yield compare(row, f"{what}, ratio of means", theirs, ours, better="higher", within=within, note=note)


def _compare_logged_speeds(done: Mapping[str, Values]) -> Iterator[Figure]:
    for name in BENCHMARKS:
        if name in done and name in LOGGED:
            logged, mine = (
                [
                    float(np.mean([count / seconds for count, seconds in LOGGED[name][one]]))
                    for one in ("MAFT", "AEQUITAS")
                ],
                [_mean_of(done[name]["runs"][one], "speed") for one in ("MAFT", "AEQUITAS")],
            )
            theirs, ours = logged[0] / logged[1], plain(mine[0] / mine[1], "measured")
            measure, within = "speed of MAFT to AEQUITAS, by the authors' log", 0.1 * theirs
            yield compare(name, measure, round(theirs, 2), ours, better="higher", within=within, note=TOGETHER)


def _compare_means(done: Mapping[str, Values]) -> Iterator[Figure]:
    """Compare the t-tests of section 4.2.2, between means of the benchmarks."""
    pairs = [("ADF", "EIDIG", "instances"), ("ADF", "MAFT", "instances"), ("EIDIG", "MAFT", "instances")]
    for one, two, what in [*pairs, ("EIDIG", "MAFT", "speed")] if len(done) > 1 else []:
        means = [[_mean_of(piece["runs"][method], what) for piece in done.values()] for method in (one, two)]
        chance = plain(equal_means_p_value(means), basis=f"on {len(done)} benchmarks")
        row, measure = f"{one} and {two}, {what}", "p of no difference, t-test"
        yield claim(row, measure, "above 0.05", chance, holds=chance.value > 0.05, note=TOGETHER)


def _show_hidden_counts(name: str, piece: Values) -> Iterator[Figure]:
    """Yield what an instance count hides: repeats, people who cannot be, and questions."""
    note = "the paper does not say"
    runs, own = piece["runs"]["MAFT"], piece["runs"]["default"]
    if again := [100 * (1 - run["profiles"] / run["flipped"]) for run in runs if run["flipped"]]:
        measure = "repeats among the tries of MAFT that discriminate"
        yield Figure(name, measure, ours=average(again), unit="%", note=note)
    ours, default = (average([run["queries"] / max(run["profiles"], 1) for run in one]) for one in (runs, own))
    yield Figure(name, "questions for each distinct profile", None, ours, default, note=note)
    if runs[0]["plausible"] is not None:
        shares = [100 * run["plausible"] / max(run["profiles"], 1) for run in runs]
        ours = average(shares, "every two values occur together in the data")
        default, measure = (
            Own(100.0, "observed", basis="others are not reported"),
            "plausible among the distinct profiles of MAFT",
        )
        yield Figure(name, measure, None, ours, default, unit="%", note=note)


# Figures 5 to 11.

LARGE = 0.8
"""Section 4.2.3: the average gradient similarity across most benchmarks is above it."""


def compare_similarity(kind: str, found: Found) -> Iterator[Figure]:
    """Compare figure 5, 7 or 9: the cosine similarity of what is derived from estimates and from true gradients."""
    done, measure = pieces_of(found, "slopes"), "mean cosine similarity"
    for name, piece in done.items():
        theirs = PUBLISHED["similarities"].get(name, {}).get(kind)
        ours, default = _mean_similarity(piece[kind]), _mean_similarity(piece[f"own {kind}"])
        yield Figure(name, measure, theirs, ours, default, note=DRAWN if theirs is None else RERUN)
    yield from _absent_rows(done, measure)
    if done:
        many = plain(sum(piece[kind]["mean"] > LARGE for piece in done.values()), basis=f"of {len(done)}")
        row, note = (
            "benchmarks with a mean above 0.8",
            "the networks of the benchmarks that are left out are not counted",
        )
        yield claim(row, "statement of the text", "the majority", many, holds=2 * many.value > len(done), note=note)


def _mean_similarity(summary: Values) -> Own:
    mean, half = summary["mean"], 1.96 * math.sqrt(summary["variance"] / max(summary["n"], 1))
    low, high = round(mean - half, 4), round(min(mean + half, 1.0), 4)
    return Own(round(mean, 4), "estimated", low, high, f"on {summary['n']:,} people")


def _ratio_of_seconds(done: Mapping[str, Values], one: str, other: str) -> float:
    return float(np.mean([piece["seconds"][one] / piece["seconds"][other] for piece in done.values()]))


def compare_gradient_times(found: Found) -> Iterator[Figure]:
    """Compare figure 6: seconds for the gradients, as ratios within one run."""
    done = pieces_of(found, "slopes")
    if not done:
        return
    measure = "ratios of seconds"
    loss, estimated, single = (
        plain(_ratio_of_seconds(done, one, other), "measured")
        for one, other in (("ADF", "EIDIG"), ("MAFT", "EIDIG"), ("MAFT one by one", "MAFT"))
    )
    note = "with backpropagation written out, the loss costs one division more, and no further graph"
    yield claim("ADF to EIDIG", measure, "noticeably above 1", loss, holds=loss.value > 1.1, note=note)
    default = plain(_ratio_of_seconds(done, "own", "EIDIG"), "measured", "all people at once")
    holds, note = (
        1 <= estimated.value < 3,
        "the network is so small that the number of calls counts, not what they compute",
    )
    yield claim("MAFT to EIDIG", measure, "slightly above 1", estimated, holds=holds, note=note, default=default)
    holds, note = single.value > 1, "calls cost as much as rows"
    yield claim("MAFT one by one to MAFT", measure, "above 1", single, holds=holds, note=note)
    each = {name: piece["seconds"]["MAFT one by one"] / piece["seconds"]["MAFT"] for name, piece in done.items()}
    most = max(each, key=lambda name: each[name])
    row, own = "benchmark where one by one costs most more", plain(each[most], "measured", f"on {most}")
    yield claim(row, measure, "MEPS15", own, holds=most.startswith("M"), note="inputs are not what counts")
    longest = plain(max(1000 * one["seconds"]["MAFT"] / one["people"] for one in done.values()), "measured")
    row, holds, note = "1,000 gradients of MAFT, at most", longest.value < 10, "this machine is slower"
    yield claim(row, "seconds", "below 10", longest, holds=holds, note=note, unit="s")


def compare_use_times(use: str, found: Found) -> Iterator[Figure]:
    """Compare figure 8 or 10: how much estimates cost in what they are used for."""
    if done := pieces_of(found, "slopes"):
        alone = _ratio_of_seconds(done, "MAFT", "EIDIG")
        within = _ratio_of_seconds(done, f"{use}, MAFT", f"{use}, EIDIG")
        own = plain(within, "measured", f"{alone:.2f} for the gradients alone")
        row = "MAFT to EIDIG, less than for the gradients alone"
        note = "what surrounds the gradients costs next to nothing here, so the difference stays as it is"
        yield claim(row, "ratios of seconds", "further decreases", own, holds=within <= alone, note=note)


def compare_plane(found: Found) -> Iterator[Figure]:
    """Compare figure 11: gradients in the plane of their first two components."""
    done, measure = pieces_of(found, "slopes"), "mean distance from EIDIG's gradients, MAFT"
    for name, piece in done.items():
        plane = piece["plane"]
        basis = f"ADF {plane['ADF']:.2f}; {100 * plane['variance']:.0f} % of the variance"
        own, holds = plain(plane["MAFT"], basis=basis), plane["MAFT"] < plane["ADF"]
        note = "the estimate with h = 1 is off by more than the loss's slope, which points the other way"
        yield claim(name, measure, "closer than ADF", own, holds=holds, note=note)
    yield from _absent_rows(done, measure)


# Retraining, joint attributes, and equal budgets.


def show_retrained(found: Found) -> Iterator[Figure]:
    """Show what is found in networks that were trained again; the paper leaves that to EIDIG's."""
    for name, piece in pieces_of(found, "retrained").items():
        for network, runs in piece.items():
            said = "the original network" if network == "original" else f"retrained with {network.replace('_', '-')}"
            ours, default = (
                average(_column(runs["MAFT"], "profiles")),
                average(_column(runs["default"], "profiles"), PLAUSIBLE),
            )
            note = "the paper leaves retraining to those of ADF and EIDIG"
            yield Figure(f"{name}, {said}", "distinct profiles", None, ours, default, note=note)


def compare_joint(found: Found) -> Iterator[Figure]:
    """Compare what section 4.3 says of two protected attributes at once."""
    for name, piece in pieces_of(found, "joint").items():
        mean = {method: float(np.mean(_column(piece["runs"][method], "instances"))) for method in LONG}
        default = average(_column(piece["runs"]["default"], "profiles"), PLAUSIBLE)
        counts = ", ".join(f"{method} {count:,.0f}" for method, count in mean.items())
        yield claim(
            name,
            "instances of MAFT, more than others'",
            "superior",
            plain(mean["MAFT"], basis="100 seeds x 100 moves"),
            holds=mean["MAFT"] > max(mean[method] for method in LONG if method != "MAFT"),
            note=f"EIDIG or ADF, which see true gradients, find more of these: {counts}",
            default=default,
        )


def compare_budgets(found: Found) -> Iterator[Figure]:
    """Compare all methods at equal numbers of questions, among plausible people."""
    for name, piece in pieces_of(found, "budgets").items():
        counts = piece["plausible"]
        most = {method: float(np.median(several)) for method, several in counts.items() if method not in OWN_METHODS}
        best = max(most, key=lambda method: most[method])
        for method in sorted(counts):
            row, measure = f"{name}, {method}", "plausible profiles"
            own = average(counts[method], f"with {piece['budget']:,} questions")
            if method == "frontier":
                verdict: Verdict = "better" if own.value > most[best] else "not compared"
                note = f"{own.value / max(most[best], 1.0):.1f} times those of {best}, the best published method"
                yield Figure(row, measure, default=own, verdict=verdict, note=note)
            else:
                yield Figure(row, measure, ours=own, note="budgets differ between the methods of the paper")


KNOWN = tuple(name for name in BUNDLED if not name.startswith("M"))
FEW = ("M-r", "M-g")
"""Benchmarks that a quick run leaves out, since M-a is like them."""

SLOPES = ("Figure 5", "Figure 6", "Figure 7", "Figure 8", "Figure 9", "Figure 10", "Figure 11")

PAPER = Paper(
    name="maft",
    pieces=(
        Piece("networks", ("Table 1", "Table 2"), measure_networks),
        Piece("checkout", ("Table 2",), measure_checkout),
        *(Piece(f"steps-{one}", ("Figure 3",), partial(measure_steps, one), one not in FEW) for one in BENCHMARKS),
        *(Piece(f"numbers-{one}", ("Figure 4",), partial(measure_numbers, one), one not in FEW) for one in BENCHMARKS),
        *(Piece(f"slopes-{one}", SLOPES, partial(measure_slopes, one)) for one in BENCHMARKS),
        *(
            Piece(f"retrained-{one}", ("Section 4.1",), partial(measure_retrained, one), quick=False)
            for one in BENCHMARKS
            if one[0] in "BCG"
        ),
        *(Piece(f"joint-{one}", ("Section 4.3",), partial(measure_joint, one)) for one in JOINT),
        *(Piece(f"budgets-{one}", ("Equal budgets",), partial(measure_budgets, one), quick=False) for one in KNOWN),
    ),
    comparisons={
        "Table 1": compare_features,
        "Table 2": compare_networks,
        "Figure 3": compare_steps,
        "Figure 4": compare_numbers,
        "Figure 5": partial(compare_similarity, "gradients"),
        "Figure 6": compare_gradient_times,
        "Figure 7": partial(compare_similarity, "directions"),
        "Figure 8": partial(compare_use_times, "directions"),
        "Figure 9": partial(compare_similarity, "probabilities"),
        "Figure 10": partial(compare_use_times, "probabilities"),
        "Figure 11": compare_plane,
        "Section 4.1": show_retrained,
        "Section 4.3": compare_joint,
        "Equal budgets": compare_budgets,
    },
)


def equal_means_p_value(groups: Sequence[Sequence[float]]) -> float:
    """Return the p-value of the hypothesis that all groups have one mean: one-way analysis of variance.

    ``F = (between / (k - 1)) / (within / (n - k))`` of the sums of squares of k groups and n values (Fisher,
    *Statistical Methods for Research Workers*, 1925), which assumes independent, nearly normal values of one variance;
    of two groups it is Student's two-sided t-test.

    Args:
        groups: two or more, with more values in all than groups.
    """
    from scipy.special import fdtrc

    means = [float(np.mean(group)) for group in groups]
    sizes = [len(group) for group in groups]
    n, k = sum(sizes), len(groups)
    middle = sum(size * mean for size, mean in zip(sizes, means, strict=True)) / n
    between = sum(size * (mean - middle) ** 2 for size, mean in zip(sizes, means, strict=True))
    within = sum(float(np.sum((np.asarray(group) - mean) ** 2)) for group, mean in zip(groups, means, strict=True))
    if within == 0:
        return 1.0 if between == 0 else 0.0
    return float(fdtrc(k - 1, n - k, (between / (k - 1)) / (within / (n - k))))

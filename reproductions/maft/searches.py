"""The published searches, counted as their programs count, and Evenhand's own beside them."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from evenhand.individual import search
from evenhand.typing import Floats, Integers, Progress
from reproductions.comparison import PieceContext, Values
from reproductions.maft.benchmarks import RETRAINED, FairnessBenchmark, load_benchmark

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


class CountingOracle(search.Oracle):
    """Counts what programs count besides distinct profiles: tries, and how many of them discriminate.

    Attributes:
        tried: profiles that were asked about, again or not.
        flipped: how many of the tries found a profile that discriminates, known or not.
        own: the assignments that the profiles of the next questions come with; None: not known.
        arrived: profiles that discriminate, with the assignment that a program has them with.
    """

    def __init__(self, bench: FairnessBenchmark) -> None:
        super().__init__(bench.model, bench.space, search.FindingCollector(bench.space, 2))
        self.tried = self.flipped = 0
        self.own: Integers | None = None
        self.arrived: list[tuple[Integers, Integers]] = []

    def ask(self, unprotected: Floats) -> search.ModelAnswers:
        """As every oracle does, and count."""
        answers = super().ask(unprotected)
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
        search.load_method(method.lower())(oracle, seeds, rng, search.MethodOptions(local=moves))
    else:
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

    def estimate(at: Floats, under: Integers, scores: Floats) -> Floats:
        oracle.ledger.charge(len(at) * inputs)
        return bench.network.estimate(bench.space.rows_as(at, under), h)[:, columns]

    plans = {
        "ADF": search.SlopePlan(lambda at, under, scores: -oracle.gradient(at, under, loss=True), 1, 0.0, 1),
        "EIDIG": search.SlopePlan(lambda at, under, scores: oracle.gradient(at, under), 1, DECAY, UPDATE),
        "MAFT": search.SlopePlan(estimate, inputs, DECAY, UPDATE),
    }
    starts, under = search.move_to_boundary(oracle, profiles, which, rng, MOVES, plans[method])
    if len(starts) == 0 or local == 0:
        return
    oracle.arrived.append((bench.space.keys(starts), under))
    oracle.own = under
    search.move_along_boundary(oracle, starts, under, rng, local, plans[method])
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


def measure_steps(name: str, context: PieceContext, progress: Progress) -> Values:
    """Search a benchmark with every method and every h of figure 3.

    Args:
        name: of the benchmark.
        context: quick: one round, and every other h.
        progress: told after every round.
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
        progress(f"round {turn + 1}", (turn + 1) / effort.rounds)
    return {"runs": runs, "seeds": len(seeds), "local": effort.local}


MOST_QUESTIONS = {"M": 50_000}
USUAL_MOST = 100_000
QUICK_MOST = 20_000
"""Questions of Evenhand's own search where the published methods have millions; by data set."""

FEW_ROUNDS = 2
"""Rounds of SG, whose trees take most of the time, and of Evenhand's own search, which finds ten times as many."""


def measure_numbers(name: str, context: PieceContext, progress: Progress) -> Values:
    """Search a benchmark at length with the methods of figure 4, and with Evenhand's own.

    Args:
        name: of the benchmark.
        context: quick: one round of 200 seeds and 200 moves.
        progress: told after every round.
    """
    bench = load_benchmark(name, data_home=context.data_home)
    effort = SearchEffort(1, 200, 200) if context.quick else WHOLE
    if name.startswith("M") and not context.quick:
        effort = SearchEffort(2, 1000, 300)  # 137 inputs make slopes cost eleven times as much as on the census
    runs: dict[str, list[Values]] = {}
    for turn in range(effort.rounds):
        seeds = bench.space.seeds(effort.seeds, np.random.default_rng([context.seed, turn, 1]))
        for i, method in enumerate(("AEQUITAS", "ADF", "EIDIG", "MAFT")):
            rng = np.random.default_rng([context.seed, turn, i, 1])
            runs.setdefault(method, []).append(run_search(bench, method, seeds, rng, local=effort.local))
            progress(f"round {turn + 1}, {method}", (turn + (i + 1) / 5) / effort.rounds)
        runs.setdefault("default", []).append(
            run_default(bench, runs["MAFT"][-1]["queries"], context.seed + turn, quick=context.quick)
        )
    return {"runs": runs, "seeds": len(seeds), "local": effort.local}


def measure_joint(name: str, context: PieceContext, progress: Progress) -> Values:
    """Search with two protected attributes, by the methods of figure 4."""
    bench = load_benchmark(name)
    rounds = 1 if context.quick else 3
    runs: dict[str, list[Values]] = {}
    for turn in range(rounds):
        seeds = bench.space.seeds(100, np.random.default_rng([context.seed, turn, 2]))
        for i, method in enumerate(("AEQUITAS", "ADF", "EIDIG", "MAFT")):
            rng = np.random.default_rng([context.seed, turn, i, 2])
            runs.setdefault(method, []).append(run_search(bench, method, seeds, rng, local=100))
        runs.setdefault("default", []).append(
            run_default(bench, runs["MAFT"][-1]["queries"], context.seed + turn, quick=context.quick)
        )
        progress(f"round {turn + 1}", (turn + 1) / rounds)
    return {"runs": runs}


def measure_retrained(name: str, context: PieceContext, progress: Progress) -> Values:
    """Search networks that were trained again with what a method found, by MAFT and by Evenhand's own search."""
    rounds = 1 if context.quick else 2
    found: dict[str, dict[str, list[Values]]] = {}
    for done, retrained in enumerate(("", *RETRAINED)):
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
        progress(retrained, (done + 1) / (len(RETRAINED) + 1))
    return found


def measure_budgets(name: str, context: PieceContext, progress: Progress) -> Values:
    """Search among plausible people with every method there is, with the questions of MAFT at 50 seeds and 50 moves.

    Methods that move around what they find are tried with 100 and with 1,000 moves; the better one counts.
    """
    bench = load_benchmark(name)
    rounds = 1 if context.quick else 2
    budget = search.search(
        bench.model, bench.source, method="maft", seeds=50, local=50, allow_infeasible=True, samples=0, most_examples=0
    ).queries
    found: dict[str, list[int]] = {}
    for done, method in enumerate(sorted(search.METHODS)):
        tried = [
            [_count_plausible(bench, method, budget, local, context.seed + turn) for turn in range(rounds)]
            for local in ((100, 1000) if method.startswith(WALKING) else (100,))
        ]
        found[method] = max(tried, key=lambda counts: float(np.median(counts)))
        progress(method, (done + 1) / len(search.METHODS))
    return {"budget": budget, "plausible": found}


WALKING = ("maft", "eidig", "adf", "aequitas")
"""Methods with a number of local moves."""


def _count_plausible(bench: FairnessBenchmark, method: str, budget: int, local: int, seed: int) -> int:
    found = search.search(
        bench.model, bench.source, method=method, budget=budget, local=local, seed=seed, samples=0, most_examples=0
    )
    return int(found.profiles)

"""What the statistics of audited language models promise, simulated by the code that audits them.

    python benchmarks/language_models.py                     everything, 1,000 runs of each setting; an hour
    python benchmarks/language_models.py --only gap gates    some studies; what was measured before is kept
    python benchmarks/language_models.py --seconds 300       goes on for so long; called again, it goes on from there

A simulated model says yes with a chance that depends on template, group, name and both together (logits, normal),
and each answer is drawn from it. Templates and names are drawn from their populations in every run, where the truth is
known by quadrature. Sums of every setting are kept in a JSON file, so that runs can be added.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from evenhand.core.typing import Floats
from evenhand.llm import LanguageModelConfig
from evenhand.llm.asking import AskingPlan, ask_sweeps, tabulate
from evenhand.llm.design import CHOICE, REFUSED, Design, Interviewer, Outcomes, QuestionBatch
from evenhand.llm.estimates import AnswerTable, estimate_flips, estimate_gap, estimate_gap_here
from evenhand.llm.stopping import LOOKS, DecisionRule
from evenhand.stats import Observed, bonferroni
from evenhand.stats.multiway import multiway_mean

RESULTS = Path(__file__).parent / "results" / "language_models.json"
TRUTH = 400_000
"""Draws for truths that have no quadrature."""
NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(40)
Measured = dict[str, float]


@dataclass(frozen=True)
class World:
    """How a simulated model answers: logits are sums of these effects, normal with the standard deviations given.

    Attributes:
        templates, names: sizes of the samples; names of each group.
        base: logit of a favourable answer; effect: what each group loses against the one before.
        template, slope, name, cell: deviations of templates, of templates' effects, of names, of names in templates.
        jobs, job: how many jobs the templates fall into, and the deviation of the effect between them.
        refuse: chances of a refusal by group; excluded: whether refusals are left out.
        seeds: whether the model honours seeds; certain: whether answers are probabilities.
        ranks: whether it ranks candidates; place: what the last place loses against the first.
    """

    templates: int = 70
    names: tuple[int, ...] = (40, 40)
    base: float = -0.5
    effect: float = 0.0
    template: float = 1.2
    slope: float = 0.25
    name: float = 0.15
    cell: float = 0.2
    jobs: int = 0
    job: float = 0.0
    refuse: tuple[float, ...] = ()
    excluded: bool = True
    seeds: bool = False
    certain: bool = False
    ranks: bool = False
    place: float = 0.0

    @property
    def groups(self) -> int:
        return len(self.names)

    def shift(self, group: int) -> float:
        """Return what the effect adds to the logit of a group, each as much less than the one before."""
        return self.effect * (0.5 - group)


def sigmoid(x: Floats) -> Floats:
    return np.asarray(1 / (1 + np.exp(-x)))


class SimulatedModel:
    """Templates and people drawn from a world, and what is answered about them.

    Attributes:
        chance: of a favourable answer, or for rankings the logit, shape (templates, groups, names).
        cluster: the job of each template; None without jobs.
    """

    def __init__(self, world: World, rng: np.random.Generator) -> None:
        self.world, self.rng, self.names, self.ranks = world, rng, world.names, world.ranks
        self.templates, groups, most = world.templates, world.groups, max(world.names)
        self.cluster = np.arange(self.templates) % world.jobs if world.jobs else None
        logit = np.tile(
            np.array([world.base + world.shift(g) for g in range(groups)])[None, :, None], (self.templates, 1, most)
        )
        if not self.ranks:
            logit += world.template * rng.normal(size=(self.templates, 1, 1))
        logit += world.slope * rng.normal(size=(self.templates, groups, 1)) / np.sqrt(2)
        logit += world.name * rng.normal(size=(1, groups, most)) + world.cell * rng.normal(size=logit.shape)
        if self.cluster is not None:
            logit += world.job * rng.normal(size=(world.jobs, groups))[self.cluster][:, :, None] / np.sqrt(2)
        self.logit = logit
        self.records = world.template * rng.normal(size=(self.templates, groups))

    @property
    def chance(self) -> Floats:
        return sigmoid(self.logit)

    def ask(self, batch: QuestionBatch) -> Outcomes:
        """Answer, each question afresh; with honoured seeds the seed says how the dice fall."""
        logit = self.logit[batch.template[:, None], batch.group, batch.name]
        if self.ranks:
            worth = logit + self.records[batch.template[:, None], batch.record]
            worth -= self.world.place * np.linspace(0, 1, worth.shape[1])
            worth += self.rng.gumbel(size=worth.shape)
            rank = (-worth).argsort(axis=1).argsort(axis=1)
            return Outcomes(1 - rank / (worth.shape[1] - 1), np.full(len(worth), CHOICE))
        chance = sigmoid(logit)
        dice = batch.seed[:, None] / 2**31 if self.world.seeds else self.rng.random(chance.shape)
        value = chance if self.world.certain else (dice < chance).astype(np.float64)
        kind = np.full(len(value), CHOICE)
        if self.world.refuse:
            refused = self.rng.random(len(value)) < np.asarray(self.world.refuse)[batch.group[:, 0]]
            value, kind = np.where(refused[:, None], np.nan, value), np.where(refused, REFUSED, CHOICE)
        return Outcomes(value, kind)


@cache
def true_rate(world: World, group: int) -> float:
    """Return the favourable rate of a group over the population, refusals as the world says."""
    spread = world.template**2 + (world.slope**2 + world.job**2) / 2 + world.name**2 + world.cell**2
    rate = float(sigmoid(world.base + world.shift(group) + np.sqrt(spread) * NODES) @ WEIGHTS / WEIGHTS.sum())
    kept = 1.0 if world.excluded or not world.refuse else 1 - world.refuse[group]
    return rate * kept


@cache
def true_gap(world: World, one: int = 0, other: int = 1) -> float:
    """Return the gap over the population; of a ranking by drawing many of its templates with one name each."""
    if not world.ranks:
        return true_rate(world, one) - true_rate(world, other)
    rng, total, parts = np.random.default_rng(9), 0.0, 20
    for _ in range(parts if world.effect else 0):
        many = SimulatedModel(replace(world, templates=TRUTH // parts, names=(1,) * world.groups, cell=1e-9), rng)
        extra = np.sqrt(world.name**2 + world.cell**2)
        many.logit = many.logit + extra * rng.normal(size=many.logit.shape)
        value = ask_fixed(many, 1).value[:, :, 0]
        total += float((value[:, one] - value[:, other]).mean()) / parts
    return total


@cache
def true_parts(world: World) -> tuple[float, float, float]:
    """Return flips asked once, noise and identity over the population, by drawing many templates."""
    rng = np.random.default_rng(8)
    scene = world.template * rng.normal(size=(TRUTH, 1)) + world.base
    own = np.sqrt(world.name**2 + world.cell**2) * NODES
    share = WEIGHTS / WEIGHTS.sum()
    mean, noise = [], 0.0
    for group in (0, 1):
        logit = scene + world.shift(group) + world.slope * rng.normal(size=(TRUTH, 1)) / np.sqrt(2)
        chance = np.concatenate([sigmoid(part + own) @ share for part in np.array_split(logit, 40)])
        square = np.concatenate([sigmoid(part + own) ** 2 @ share for part in np.array_split(logit, 40)])
        noise += float((chance - square).mean())
        mean.append(chance)
    identity = float(((mean[0] - mean[1]) ** 2).mean())
    return float((mean[0] + mean[1] - 2 * mean[0] * mean[1]).mean()), noise, identity


def ask_fixed(model: SimulatedModel, sweeps: int, *, again: bool = False, seed: int = 0) -> AnswerTable:
    """Ask a fixed number of sweeps."""
    design = Design(model.templates, model.names, seed)
    interviewer = Interviewer(model, excluded=model.world.excluded)
    trials = [design.sweep(number) for number in range(sweeps)]
    repeated = interviewer.ask(design.again(trials[0])) if again else None
    return tabulate([(one, interviewer.ask(one)) for one in trials], repeated, model.names)


def covers(interval: tuple[float, float], truth: float) -> float:
    return float(interval[0] <= truth <= interval[1])


NOISY = World()
"""Chances between 8 % and 80 % mostly; 0.27 logits are about 5 points."""
SURE = World(base=-1.0, template=4.0, slope=0.4, name=0.3, cell=0.3)
"""Nearly deterministic: most answers are the same each time."""
RARE = World(base=-3.0, template=0.8)
STRONG = World(name=1.0, cell=0.5)
"""Names with strong effects of their own."""


def gap_settings() -> dict[str, tuple[World, int]]:
    """Return the worlds and sweeps in which the interval of the gap is simulated."""
    few: dict[str, Any] = {"names": (10, 10)}
    small: dict[str, Any] = {"templates": 20, "names": (20, 20)}
    return {
        "noisy, 1 pair": (NOISY, 1),
        "noisy, 2 pairs": (NOISY, 2),
        "noisy, 5 pairs": (NOISY, 5),
        "noisy, 20 pairs": (NOISY, 20),
        "noisy, effect, 10 pairs": (replace(NOISY, effect=0.27), 10),
        "noisy, 20 templates, 20 names, 10 pairs": (replace(NOISY, **small), 10),
        "noisy, 20 templates, 20 names, effect": (replace(NOISY, effect=0.3, **small), 20),
        "noisy, 10 names, 10 pairs": (replace(NOISY, **few), 10),
        "noisy, 10 names, effect, 20 pairs": (replace(NOISY, effect=0.27, **few), 20),
        "strong names, 40 names, 10 pairs": (STRONG, 10),
        "strong names, 20 names, 10 pairs": (replace(STRONG, names=(20, 20)), 10),
        "strong names, 10 names, 10 pairs": (replace(STRONG, **few), 10),
        "strong names, 10 names, 20 templates": (replace(STRONG, templates=20, **few), 10),
        "strong names, 10 names, effect": (replace(STRONG, effect=0.3, **few), 20),
        "refusals 5 %, 10 pairs": (replace(NOISY, refuse=(0.05, 0.05)), 10),
        "refusals 2 and 10 %, effect": (replace(NOISY, refuse=(0.02, 0.1), effect=0.27), 10),
        "refusals 2 and 10 %, unfavourable": (replace(NOISY, refuse=(0.02, 0.1), excluded=False), 10),
        "rare yes, 5 pairs": (RARE, 5),
        "rare yes, effect, 20 templates": (replace(RARE, effect=0.8, **small), 10),
        "nearly deterministic, 5 pairs": (SURE, 5),
        "nearly deterministic, effect": (replace(SURE, effect=0.6, templates=40, names=(20, 20)), 10),
        "probabilities, 2 pairs": (replace(NOISY, certain=True), 2),
        "seeds honoured, 10 pairs": (replace(NOISY, seeds=True, effect=0.27), 10),
        "40 against 10 names": (replace(NOISY, names=(40, 10)), 10),
    }


def measure_gap(world: World, sweeps: int, rng: np.random.Generator) -> Measured:
    """Coverage of the gap and of the gap here, beside intervals that leave something out."""
    model, truth = SimulatedModel(world, rng), true_gap(world)
    table = ask_fixed(model, sweeps, again=not world.certain, seed=int(rng.integers(2**31)))
    pairs = table._replace(cluster=model.cluster).pair((0, 1))
    gap = estimate_gap(pairs)
    assert gap is not None
    difference = pairs.difference
    known = ~np.isnan(difference)
    row = np.broadcast_to(np.arange(world.templates)[:, None], known.shape)[known]
    templates = multiway_mean(difference[known], [[row]])
    alone = multiway_mean(difference[known], [[np.arange(known.sum())]])
    sides = [side[~np.isnan(side)] for side in (pairs.first, pairs.second)]
    spread = float(np.sqrt(sum(side.var(ddof=1) / len(side) for side in sides)))
    here = estimate_gap_here(pairs, 0.95)
    assert isinstance(here, Observed)
    chance = model.chance * (1 if world.excluded or not world.refuse else 1 - np.array(world.refuse)[:, None])
    one, other = (chance[np.arange(world.templates)[:, None], g, table.name[:, g]] for g in (0, 1))
    return {
        "covered": covers(gap.interval(0.95), truth),
        "width": gap.half_width(0.95),
        "bias": gap.mean - truth,
        "here": covers((here.low, here.high), float((one - other)[known].mean())),
        "width here": (here.high - here.low) / 2,
        "templates only": covers(templates.interval(0.95), truth),
        "pairs independent": covers(alone.interval(0.95), truth),
        "calls independent": float(abs(gap.mean - truth) <= 1.96 * spread),
        "truth": truth,
    }


def flip_settings() -> dict[str, tuple[World, int]]:
    """Return the worlds and sweeps in which flips are split."""
    coin = World(base=float(np.log(0.2 / 0.8)), template=0, slope=0, name=0, cell=0)
    return {
        "coin of 20 %, 5 pairs": (coin, 5),
        "coin of 20 %, 20 pairs": (coin, 20),
        "noisy without slopes, 5 pairs": (replace(NOISY, slope=0), 5),
        "noisy without slopes, 20 pairs": (replace(NOISY, slope=0), 20),
        "strong names without slopes": (replace(STRONG, slope=0), 10),
        "strong names without slopes, 10 names": (replace(STRONG, slope=0, names=(10, 10)), 10),
        "noisy, 5 pairs": (NOISY, 5),
        "noisy, effect, 20 pairs": (replace(NOISY, effect=0.27), 20),
        "opposite by template, 20 pairs": (replace(NOISY, slope=1.2), 20),
        "strong names, effect, 10 names": (replace(STRONG, effect=0.3, names=(10, 10)), 10),
        "nearly deterministic, 10 pairs": (SURE, 10),
        "rare yes, effect, 10 pairs": (replace(RARE, effect=0.8), 10),
        "probabilities, 5 pairs": (replace(NOISY, certain=True, slope=0.8), 5),
        "seeds honoured, 10 pairs": (replace(NOISY, seeds=True, slope=0.8), 10),
        "20 templates, slopes, 10 pairs": (replace(NOISY, templates=20, names=(20, 20), slope=1.0), 10),
    }


def measure_flips(world: World, sweeps: int, rng: np.random.Generator) -> Measured:
    """Coverage of the parts of flips, and how often an identity part is claimed."""
    model = SimulatedModel(world, rng)
    table = ask_fixed(model, sweeps, again=not world.certain, seed=int(rng.integers(2**31)))
    found = estimate_flips(table.pair((0, 1)), 0.95)
    once, noise, identity = true_parts(world)
    truth = {"once": once, "noise": noise, "names": once - noise - identity, "identity": identity}
    parts = [part for part in (found.asked_once, found.noise, found.names, found.identity) if part.kind == "estimated"]
    shown = parts[-1]
    measured: Measured = {"shown": float(shown.low > 0)}
    for (name, true), part in zip(truth.items(), parts, strict=True):
        measured[name] = covers((part.low - 1e-9, part.high + 1e-9), true)
        measured[f"mean {name}"], measured[f"true {name}"] = part.value, true
    measured["width"] = (shown.high - shown.low) / 2
    return measured


def power_settings() -> dict[str, tuple[World, int]]:
    """Return worlds with a gap of 5 points and the sweeps after which it is to be found."""
    worlds = {
        "noisy": replace(NOISY, effect=solve_effect(NOISY, 0.05)),
        "sure": replace(SURE, effect=solve_effect(SURE, 0.05)),
    }
    rows = {
        "noisy": {"certain": (1,), "seeds": (5,), "": (20, 30)},
        "sure": {"certain": (4,), "seeds": (14,), "": (20, 40)},
    }
    return {
        f"{name}, {kind or 'answers'}, {2 * world.templates * sweeps:,} calls": (
            replace(world, certain=kind == "certain", seeds=kind == "seeds"),
            sweeps,
        )
        for name, world in worlds.items()
        for kind, many in rows[name].items()
        for sweeps in many
    }


def solve_effect(world: World, gap: float) -> float:
    """Return the effect that makes a gap, by halving."""
    low, high = 0.0, 10.0
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if true_gap(replace(world, effect=middle)) < gap else (low, middle)
    return high


def measure_power(world: World, sweeps: int, rng: np.random.Generator) -> Measured:
    """How often the interval lies above 0."""
    gap = estimate_gap(ask_fixed(SimulatedModel(world, rng), sweeps, seed=int(rng.integers(2**31))).pair((0, 1)))
    assert gap is not None
    return {"found": float(gap.interval(0.95)[0] > 0), "covered": covers(gap.interval(0.95), true_gap(world))}


def gate_settings() -> dict[str, tuple[World, int]]:
    """Return worlds without a gap, and with gaps of 6 and 10 points, and the most sweeps."""
    few = replace(NOISY, names=(20, 20))
    return {
        "no gap, noisy": (NOISY, 20),
        "no gap, 20 names": (few, 20),
        "no gap, strong names": (STRONG, 20),
        "no gap, slopes": (replace(NOISY, slope=1.0), 20),
        "no gap, nearly deterministic": (SURE, 20),
        "gap of 10 points": (replace(NOISY, effect=solve_effect(NOISY, 0.1)), 20),
        "gap of 6 points": (replace(NOISY, effect=solve_effect(NOISY, 0.06)), 20),
    }


def measure_gates(world: World, sweeps: int, rng: np.random.Generator) -> Measured:
    """How often a gap is claimed, and after how many calls, by several rules that look again and again."""
    table = ask_fixed(SimulatedModel(world, rng), sweeps, seed=int(rng.integers(2**31)))
    rule = DecisionRule(0.0, 0.95, 1)
    claimed: dict[str, int] = {}
    for sweep in range(1, sweeps + 1):
        part = AnswerTable(table.value[:, :, :sweep], table.kind[:, :, :sweep], table.name[:, :, :sweep], world.names)
        pairs = part.pair((0, 1))
        gap = estimate_gap(pairs)
        assert gap is not None
        low, high = gap.interval(0.95)
        if sweep in LOOKS:
            difference = pairs.difference.ravel()
            alone = multiway_mean(difference, [[np.arange(len(difference))]])
            if low > 0 or high < 0:
                claimed.setdefault("our interval at each look", sweep)
            if not covers(alone.interval(0.95), 0.0):
                claimed.setdefault("pairs independent at each look", sweep)
            if rule.stop([gap], sweep, sweeps):
                claimed.setdefault("alpha spending", sweep)
        if sweep == sweeps and (low > 0 or high < 0):
            claimed["fixed size"] = sweep
    names = ("fixed size", "our interval at each look", "pairs independent at each look", "alpha spending")
    measured: Measured = {}
    for name in names:
        measured[name] = float(name in claimed)
        measured[f"calls, {name}"] = 2.0 * world.templates * claimed.get(name, sweeps)
    return measured


def precision_settings() -> dict[str, tuple[World, float]]:
    """Return worlds and half-widths aimed at."""
    return {
        "noisy, 5 points": (replace(NOISY, effect=0.27), 0.05),
        "noisy, 4 points": (replace(NOISY, effect=0.27), 0.04),
        "strong names, 6 points": (STRONG, 0.06),
        "nearly deterministic, 5 points": (replace(SURE, effect=0.6), 0.05),
        "20 templates, 20 names, 8 points": (replace(NOISY, templates=20, names=(20, 20)), 0.08),
    }


def measure_precision(world: World, half_width: float, rng: np.random.Generator) -> Measured:
    """Coverage where asking stops by itself, and how often the width is met."""
    seed = int(rng.integers(2**31))
    config = LanguageModelConfig(half_width=half_width, calls=10_000, sweeps=30, findings=0, seed=seed)
    asked = ask_sweeps(SimulatedModel(world, rng), AskingPlan([(0, 1)]), config)
    gap = estimate_gap(asked.table.pair((0, 1)))
    assert gap is not None
    return {
        "covered": covers(gap.interval(0.95), true_gap(world)),
        "met": float(gap.half_width(0.95) <= half_width),
        "bias": gap.mean - true_gap(world),
        "calls": float(asked.calls),
        "stopped by names": float(asked.stopped_by == "names"),
    }


def finding_settings() -> dict[str, tuple[World, str]]:
    """Return worlds in which no template differs but those that are planted."""
    plain = replace(NOISY, slope=0.0, name=0.2, cell=0.0)
    return {
        "five of 70 templates": (plain, "templates"),
        "no template": (plain, "no templates"),
    }


def measure_findings(world: World, planted: str, rng: np.random.Generator) -> Measured:
    """How many of what is planted is confirmed, and how often anything else is."""
    model = SimulatedModel(world, rng)
    if planted == "templates":
        model.logit[:5, 0] += np.array([2.5, -2.5, 2.5, -2.5, 2.5])[:, None]
    config = LanguageModelConfig(half_width=1e-6, calls=10_000, sweeps=6, seed=int(rng.integers(2**31)), findings=8)
    asked = ask_sweeps(model, AskingPlan([(0, 1)], twice=False), config)
    confirmed = [one.suspect for one in asked.templates if one.p <= 0.05]
    true = {((0, 1), t) for t in range(5)} if planted == "templates" else set()
    hits = sum((one.groups, one.number) in true for one in confirmed)
    return {
        "confirmed": hits / max(len(true), 1),
        "any false": float(hits < len(confirmed)),
        "calls": float(asked.calls),
    }


def further_settings() -> dict[str, tuple[World, int]]:
    """Return worlds with several groups, rankings, jobs as a third sample."""
    ranking = World(ranks=True, template=1.0, slope=0.3, name=0.3, cell=0.3, place=0.8)
    return {
        "three groups, 10 pairs": (replace(NOISY, names=(40, 40, 40)), 10),
        "three groups, effect, 10 names": (replace(NOISY, names=(10, 10, 10), effect=0.27), 10),
        "four groups, strong names": (replace(STRONG, names=(20, 20, 20, 20)), 10),
        "ranking of 2, 5 rounds": (replace(ranking, names=(40, 40)), 5),
        "ranking of 2, effect, 10 names": (replace(ranking, names=(10, 10), effect=0.4), 5),
        "ranking of 3, 5 rounds": (replace(ranking, names=(40, 40, 40)), 5),
        "ranking of 3, effect, 20 names": (replace(ranking, names=(20, 20, 20), effect=0.4), 3),
        "14 jobs, 10 pairs": (replace(NOISY, jobs=14, job=0.8), 10),
        "7 jobs, 10 pairs": (replace(NOISY, jobs=7, job=0.8), 10),
        "7 jobs that do not matter": (replace(NOISY, jobs=7), 10),
        "20 jobs, effect, strong names": (replace(STRONG, jobs=20, job=0.8, effect=0.3, templates=60), 10),
    }


def measure_further(world: World, sweeps: int, rng: np.random.Generator) -> Measured:
    """Coverage of all gaps together, by Bonferroni, and with jobs as clusters or not."""
    model = SimulatedModel(world, rng)
    table = ask_fixed(model, sweeps, seed=int(rng.integers(2**31)))
    comparisons = [(one, 1) for one in (0, 2, 3) if one < world.groups]
    level = bonferroni(0.95, len(comparisons))
    held, plain, widths = [], [], []
    for one in comparisons:
        gap, alone = (estimate_gap(table._replace(cluster=cluster).pair(one)) for cluster in (model.cluster, None))
        assert gap is not None
        assert alone is not None
        truth = true_gap(world, *one)
        held.append(covers(gap.interval(level), truth))
        plain.append(covers(alone.interval(level), truth))
        widths.append(gap.half_width(level))
    return {"covered": min(held), "without clusters": min(plain), "width": float(np.mean(widths))}


STUDIES: dict[str, tuple[Callable[[], Mapping[str, tuple[World, Any]]], Callable[..., Measured]]] = {
    "gap": (gap_settings, measure_gap),
    "flips": (flip_settings, measure_flips),
    "power": (power_settings, measure_power),
    "gates": (gate_settings, measure_gates),
    "precision": (precision_settings, measure_precision),
    "findings": (finding_settings, measure_findings),
    "further": (further_settings, measure_further),
}


def simulate(study: str, runs: int, until: float, kept: dict[str, dict[str, Measured]]) -> bool:
    """Add runs to every setting of a study until each has so many; return whether all have."""
    settings, measure = STUDIES[study]
    for place, (name, (world, given)) in enumerate(settings().items()):
        sums = kept.setdefault(study, {}).setdefault(name, {})
        while (done := int(sums.get("runs", 0))) < runs:
            if time.process_time() > until:
                return False
            rng = np.random.default_rng([list(STUDIES).index(study), place, done])
            for key, value in measure(world, given, rng).items():
                sums[key] = sums.get(key, 0.0) + value
            sums["runs"] = done + 1
    return True


def show(study: str, kept: dict[str, Measured]) -> Table:
    """Return the means of every setting."""
    columns = [key for key in next(iter(kept.values()), {}) if key != "runs"]
    table = Table(study, "runs", *columns)
    for name, sums in kept.items():
        runs = sums["runs"]
        table.add_row(name, f"{runs:.0f}", *(_shorten(sums.get(key, 0.0) / runs) for key in columns))
    return table


def _shorten(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 10 else f"{value:.3f}"


def main() -> None:
    """Simulate, keep the sums, print the means."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--only", nargs="+", choices=STUDIES, default=list(STUDIES))
    parser.add_argument("--seconds", type=float, default=float("inf"), help="of processor time")
    parser.add_argument("--out", type=Path, default=RESULTS)
    given = parser.parse_args()
    kept = json.loads(given.out.read_text()) if given.out.exists() else {}
    given.out.parent.mkdir(exist_ok=True, parents=True)
    for study in given.only:
        complete = simulate(study, given.runs, time.process_time() + given.seconds, kept)
        given.out.write_text(json.dumps(kept, indent=1) + "\n")
        Console(width=200).print(show(study, kept[study]))
        if not complete:
            print(f"{study}: stopped after {given.seconds:g} s; the same command goes on")


if __name__ == "__main__":
    main()

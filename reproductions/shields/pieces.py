"""The paper's experiments in pieces: a classifier in an environment, periodic shields, and what synthesis takes."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from evenhand.shields import (
    ArrivalSource,
    EmptyGroupRule,
    FairnessProperty,
    Inputs,
    PlanKind,
    ShieldPlan,
    TerminalKind,
    WelfareBounds,
    simulate_runs,
    synthesize,
)
from evenhand.typing import Integers, Progress
from reproductions.comparison import PieceContext, Values
from reproductions.shields import classifiers, environments, recursion
from reproductions.shields.classifiers import TrainedClassifier, describe_classifier

PropertyName: TypeAlias = Literal["demographic_parity", "equal_opportunity"]
PROPERTIES: tuple[PropertyName, ...] = ("demographic_parity", "equal_opportunity")

ACCURATE = "ERM"
"""The classifier that is trained for accuracy alone."""

COST_BINS = 10
"""Bins of a classifier's confidence, where that is the cost."""

FINITE, STATIC_FAIR, STATIC_BW, DYNAMIC, DYNAMIC_STRICT = (
    "FinHzn", "Static-Fair", "Static-BW", "Dynamic", "Dynamic (strict)",
)  # fmt: skip
KINDS: dict[str, tuple[PlanKind, TerminalKind]] = {
    FINITE: ("finite", "strict"),
    STATIC_FAIR: ("static-fair", "strict"),
    STATIC_BW: ("static-bw", "strict"),
    DYNAMIC: ("dynamic", "exempt"),
    DYNAMIC_STRICT: ("dynamic", "strict"),
}
"""Name of a shield in the paper -> its kind, and what the ends of its periods are worth. Strict ends are ours."""

PERIODIC = (STATIC_FAIR, STATIC_BW, DYNAMIC, DYNAMIC_STRICT)


class Method(NamedTuple):
    """What a shield expects and how it counts empty groups.

    Attributes:
        paired: whether the classifier's confidence is the cost, distributed as on all its people; else every
            intervention costs 1 and any recommendation is expected as often.
        empty_group: the convention.
    """

    paired: bool
    empty_group: str


METHODS = {
    "published": Method(paired=False, empty_group="zero"),
    "default": Method(paired=True, empty_group="min_count=5"),
}
"""The published settings, and those that Evenhand advises for a classifier that gives scores."""


@dataclass(frozen=True)
class ShieldExperimentSettings:
    """What is run; the published settings unless told otherwise, but for half as many periodic runs.

    Attributes:
        kappas: thresholds of the bias, as decimals.
        horizon, labelled_horizon: decisions of a run with a bounded horizon, by property.
        runs: of every setting with a bounded horizon.
        period: decisions in a period; periods: of a run; periodic_runs: of every periodic setting.
        layers: sizes of the classifiers' hidden layers.
        timed, timed_labelled: horizons for which synthesis is timed, by property.
    """

    kappas: tuple[str, ...] = ("0.05", "0.1", "0.15", "0.2")
    horizon: int = 100
    labelled_horizon: int = 75
    runs: int = 50
    period: int = 50
    periods: int = 10
    periodic_runs: int = 5
    layers: tuple[int, ...] = classifiers.LAYERS
    timed: tuple[int, ...] = (25, 50, 75, 100)
    timed_labelled: tuple[int, ...] = (15, 30, 45, 60, 75)


PUBLISHED = ShieldExperimentSettings()
QUICK = replace(PUBLISHED, kappas=("0.1",), runs=20, periodic_runs=2, timed=(25, 50, 100), timed_labelled=(15, 30))
"""Same classifiers, horizons and periods; one threshold and fewer runs."""


def choose_settings(context: PieceContext) -> ShieldExperimentSettings:
    """Return the published settings, or those of a quick run."""
    return QUICK if context.quick else PUBLISHED


def run_classifier(environment: str, name: str, context: PieceContext, progress: Progress) -> Values:
    """Train a classifier, describe it, and shield it up to a bounded horizon by both methods.

    The one that is trained for accuracy alone is shielded over periods too, by every periodic shield, as published.
    """
    settings = choose_settings(context)
    classifier, described = _train(environment, name, settings, context)
    todo = [(kept, kappa, FINITE, method) for kept, kappa, method in product(PROPERTIES, settings.kappas, METHODS)]
    if name == ACCURATE:
        todo += [(*one, "published") for one in product(PROPERTIES, settings.kappas, PERIODIC)]
    cells = []
    for i, (kept, kappa, shield, method) in enumerate(todo):
        progress(f"{shield}, {kept}, {kappa}", i / len(todo))
        cells.append(run_setting(classifier, kept, kappa, shield, method, settings, context.seed))
    return {"classifier": described, "cells": cells}


def run_setting(
    classifier: TrainedClassifier,
    kept: PropertyName,
    kappa: str,
    shield: str,
    method: str,
    settings: ShieldExperimentSettings,
    seed: int,
) -> Values:
    """Synthesise one shield and run it; all shields of one property and threshold meet the same arrivals.

    Returns:
        what it was, and of every run: bias divided by the threshold, whether it was fair, whether its assumption held,
        interventions, and utility loss: right decisions that the shield costs, in percent of those without it.
    """
    started = time.process_time()
    people = classifier.sample
    bounded = shield == FINITE
    plan = _shield_plan(classifier, kept, kappa, shield, METHODS[method], settings)
    drawn = np.random.SeedSequence(
        [
            seed,
            environments.ENVIRONMENTS.index(people.environment),
            list(classifiers.CLASSIFIERS).index(classifier.name),
            PROPERTIES.index(kept),
            int(1000 * float(kappa)),
            int(bounded),
        ]
    )
    done = simulate_runs(
        plan,
        _draw_arrivals(classifier, paired=METHODS[method].paired),
        runs=settings.runs if bounded else settings.periodic_runs,
        periods=1 if bounded else settings.periods,
        seed=int(drawn.generate_state(1)[0]),
    )
    if done.interrupted:
        raise KeyboardInterrupt
    runs = done.runs
    ends = [done.moments.index(plan.horizon * (period + 1)) for period in range(done.periods)]
    alone = np.maximum(runs.right_unshielded, 1)
    return {
        "environment": people.environment.name,
        "classifier": classifier.name,
        "property": kept,
        "kappa": kappa,
        "shield": shield,
        "method": method,
        "bias": np.round(runs.bias / float(kappa), 4).tolist(),
        "bias_unshielded": np.round(runs.bias_unshielded / float(kappa), 4).tolist(),
        "fair": runs.fair.astype(int).tolist(),
        "fair_unshielded": runs.fair_unshielded.astype(int).tolist(),
        "assumed": runs.assumed.astype(int).tolist(),
        "interventions": runs.interventions.tolist(),
        "loss": np.round(100 * (runs.right_unshielded - runs.right) / alone, 4).tolist(),
        "fair_at": runs.fair_at[0, ends].tolist(),
        "fair_at_unshielded": runs.fair_at[1, ends].tolist(),
        "cpu": round(time.process_time() - started, 4),
    }


def time_synthesis(kept: PropertyName, context: PieceContext, progress: Progress) -> Values:
    """Return processor seconds and bytes of the published recursion and of Evenhand's synthesis, by horizon.

    Bytes are those of the arrays that each needs at once, at most.
    """
    settings = choose_settings(context)
    horizons = settings.timed if kept == "demographic_parity" else settings.timed_labelled
    kappa = Fraction(1, 10)
    expected = Inputs(
        groups=("a", "b"), rate=(0.3, 0.7), accept=(0.5, 0.5),
        label=None if kept == "demographic_parity" else (0.5, 0.5),
    )  # fmt: skip
    found = []
    for i, horizon in enumerate((6, *horizons)):  # the first of each compiles
        progress(f"{kept}, {horizon} decisions", i / (len(horizons) + 1))
        plan = ShieldPlan(property=FairnessProperty(kept, kappa), inputs=expected, horizon=horizon)
        started = time.process_time()
        published = recursion.solve(kept, kappa, horizon, expected)
        between = time.process_time()
        own = synthesize(plan)
        ended = time.process_time()
        found.append(
            {
                "horizon": horizon,
                "cpu": between - started,
                "bytes": published.bytes,
                "cost": published.cost,
                "own_cpu": ended - between,
                "own_bytes": own.peak_bytes,
                "own_cost": own.expected_cost,
            }
        )
    return {"horizons": found[1:]}


def _train(
    environment: str, name: str, settings: ShieldExperimentSettings, context: PieceContext
) -> tuple[TrainedClassifier, Values]:
    """Return a classifier, and how it fares; that needs the data, and for four of five PyTorch."""
    classifiers.available_classifiers([name])
    one = next(each for each in environments.ENVIRONMENTS if each.name == environment)
    started = time.perf_counter()
    data = environments.load_dataset(one.dataset, data_home=context.data_home)
    people = environments.sample_environment(one, data, seed=context.seed)
    classifier = classifiers.train_classifier(name, people, layers=settings.layers, seed=context.seed)
    return classifier, describe_classifier(classifier, time.perf_counter() - started).model_dump(mode="json")


def _shield_plan(
    classifier: TrainedClassifier,
    kept: PropertyName,
    kappa: str,
    shield: str,
    method: Method,
    settings: ShieldExperimentSettings,
) -> ShieldPlan:
    kind, terminal = KINDS[shield]
    fairness = FairnessProperty(kept, Fraction(kappa), EmptyGroupRule.parse(method.empty_group))
    bounds = None
    if kind == "static-bw":
        around = WelfareBounds.gap(fairness.kappa, round(float(classifier.sample.label.mean()), 3))
        bounds = (around.lower, around.upper)
    longest = settings.horizon if kept == "demographic_parity" else settings.labelled_horizon
    return ShieldPlan(
        property=fairness,
        inputs=_expected_inputs(classifier, paired=method.paired),
        horizon=longest if kind == "finite" else settings.period,
        kind=kind,
        terminal=terminal,
        bounds=bounds,
    )


def _expected_inputs(classifier: TrainedClassifier, *, paired: bool) -> Inputs:
    """Return who is expected: with constant costs nothing but the groups' shares, else the classifier's answers to all.

    Labels are expected as often as recommendations to accept, as in the authors' code.
    """
    people = classifier.sample
    groups = people.environment.groups
    if not paired:
        return Inputs(groups=groups, rate=people.rates, accept=(0.5, 0.5), label=(0.5, 0.5))
    decided = classifier.recommendation
    place = _confidence_bin(classifier.scores)
    accept, weights = [], []
    for g in (0, 1):
        accept.append(float(decided[people.group == g].mean()))
        rows = []
        for r in (0, 1):
            counts = np.bincount(place[(people.group == g) & (decided == r)], minlength=COST_BINS)
            share = counts / counts.sum() if counts.sum() else np.full(COST_BINS, 1 / COST_BINS)
            rows.append(tuple(share.tolist()))
        weights.append((rows[0], rows[1]))
    return Inputs(
        groups=groups,
        rate=people.rates,
        accept=(accept[0], accept[1]),
        label=(accept[0], accept[1]),
        costs=tuple(_bin_centres().tolist()),
        weights=tuple(weights),
    )


def _draw_arrivals(classifier: TrainedClassifier, *, paired: bool) -> ArrivalSource:
    """Return the people the classifier was not trained on, drawn with replacement, with what it recommends."""
    people = classifier.sample
    rows = people.arriving
    return ArrivalSource(
        name=people.environment.name,
        groups=people.environment.groups,
        group=people.group[rows],
        recommendation=classifier.recommendation[rows],
        cost=_bin_centres()[_confidence_bin(classifier.scores[rows])] if paired else np.ones(len(rows)),
        label=people.label[rows],
        weight=None,
        real=True,
    )


def _confidence_bin(scores: classifiers.Scores) -> Integers:
    """Return the bin of the confidence, which is the distance of a score from a half."""
    return np.minimum((np.abs(scores - 0.5) * 2 * COST_BINS).astype(np.int64), COST_BINS - 1)


def _bin_centres() -> classifiers.Scores:
    return (np.arange(COST_BINS) + 0.5) / (2 * COST_BINS)

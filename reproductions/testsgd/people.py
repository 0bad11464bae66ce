"""Networks trained on people: searched as published and by counting, and mended."""

from __future__ import annotations

import json
import time
from typing import Any

import numpy as np

from evenhand import subgroups
from evenhand.errors import OptionError
from evenhand.mitigation import TrainingSet, split_people
from evenhand.models import Scorer
from evenhand.schema import People
from evenhand.stats import largest_difference_of_proportions
from evenhand.subgroups import Finding, Perturbation, Range, RefusedRuleSet, Rules, SubgroupResult
from evenhand.typing import Progress
from reproductions.comparison import PieceContext, Values
from reproductions.mitigation.record import CASES, QUICK, ExperimentCase, MitigationExperimentSettings, load_people
from reproductions.mitigation.subgroups import (
    MethodInterrupted,
    PublishedNetworkLearner,
    count_decisions,
    count_perturbed,
    mitigate_widest,
)
from reproductions.testsgd.published import SUBGROUPS, THRESHOLDS

LOWEST = 0.01
"""Support threshold at which the data sets of Table 6 are searched; higher ones leave some of these rule sets."""

EVERY = 10**6
"""Findings of a published method that are kept: all."""

TOP = 3
"""Rule sets per data set that the paper prints."""

PARTS = {"crime": 5}
"""Parts of equal width that a number is cut into, where the published 10 give more rule sets than can be sampled."""

QUICK_PARTS = {"census": 5, "compas": 5, "crime": 5}
QUICK_DEPTH = {"crime": 1}

COMBINATIONS = "too many"
"""What stands in place of THEMIS's score where it cannot be computed."""


def search_completely(scorer: Scorer, people: People, **settings: Any) -> SubgroupResult:
    """Search for subgroups as ``find_subgroups`` does; a search that somebody stopped is no part of a table.

    Raises:
        KeyboardInterrupt: somebody stopped it.
    """
    found = subgroups.find_subgroups(scorer, people, **settings)
    if found.interrupted:
        raise KeyboardInterrupt
    return found


def find_case(name: str) -> ExperimentCase:
    """Return a data set of the paper by its short name."""
    return next(case for case in CASES if case.name == name)


def settings_of(context: PieceContext) -> MitigationExperimentSettings:
    """Return how networks are trained, with the published effort or a quick one."""
    return QUICK if context.quick else MitigationExperimentSettings()


def search_people(name: str, run: int, context: PieceContext, progress: Progress) -> Values:
    """Train a network, judge the published rule sets on it, and in the first run search as each publication does.

    Raises:
        FetchError: the data set is not here and cannot be fetched.
    """
    case, settings = find_case(name), settings_of(context)
    people, own = load_people(case, data_home=context.data_home), context.seed + run
    parts = split_people(people, seed=own)
    progress("training the network", 0.0)
    network = PublishedNetworkLearner(settings).fit(TrainingSet.plain(parts.train), seed=own)
    none = np.zeros(len(people), dtype=bool)
    held, trained = (count_decisions(network, part, none[: len(part)]) for part in (parts.test, parts.train))
    values: Values = {
        "people": len(people),
        "held_out": [held.right, held.people],
        "training": [trained.right, trained.people],
        "note": case.note,
    }
    conditions = [one.rules for one in SUBGROUPS[name]]
    if run == 0:
        values["sampled"], top = _search_sampled(case, network, people, context, progress)
        values["themis"], values["linear"] = _ask_themis(case, network, people, own), _ask_linear(case, network, people)
        conditions += [write_condition(one.rules) for one in top]
    progress("counting every rule set", 0.9)
    started = time.process_time()
    counted = search_completely(
        network, people, attributes=case.sensitive, depth=case.depth, support=settings.support,
        permutations=settings.permutations, judged=tuple(conditions), seed=own,
    )  # fmt: skip
    values["counted"] = {
        "seconds": time.process_time() - started,
        "rule_sets": counted.rule_sets,
        "tested": counted.tested,
        "found": counted.found,
        "widest": _describe_widest(counted),
    }
    judged = [_describe_judged(one) for one in counted.judged]
    nudge = Perturbation(people.schema, case.sensitive)
    for described, one in zip(judged, counted.judged, strict=True):
        inside = subgroups.find_members(people, one.rules)
        around = count_perturbed(network, people, inside, nudge, settings.samples, own)
        described["sampled"] = [around.inside, around.favourable, around.people - around.inside, around.rest_favourable]
    values["published"], values["own"] = judged[:TOP], judged[TOP:]
    return values


def _search_sampled(
    case: ExperimentCase, network: Scorer, people: People, context: PieceContext, progress: Progress
) -> tuple[Values, list[Finding]]:
    """Return the published search in numbers, and its first findings at the published support threshold."""
    bins = (QUICK_PARTS if context.quick else PARTS).get(case.name, 10)
    depth = QUICK_DEPTH.get(case.name, case.depth) if context.quick else case.depth
    support = LOWEST if case.name in THRESHOLDS else 0.05
    started = time.process_time()
    found = search_completely(
        network, people, method="sampled", attributes=case.sensitive, depth=depth, bins=bins, support=support,
        most=EVERY, seed=context.seed, progress=lambda what, share: progress(what, 0.1 + 0.6 * share),
    )  # fmt: skip
    seconds = time.process_time() - started
    thresholds: dict[str, Any] = {}
    for percent in sorted({*THRESHOLDS.get(case.name, {}), 5}):
        left = [one for one in found.findings if one.size >= percent / 100 * len(people)]
        thresholds[str(percent)] = {
            "rule_sets": len(left),
            "samples": sum(2 * (one.samples or 0) for one in left),
            "found": sum(one.found for one in left),
            "top": [_describe_finding(one) for one in left[:TOP]],
        }
    every = sum(2 * (one.samples or 0) for one in found.findings)
    frequent = [one for one in found.findings if one.size >= 0.05 * len(people)]
    share = thresholds["5"]["samples"] / max(every, 1)
    return {
        "seconds": seconds * share,
        "bins": bins,
        "depth": depth,
        "thresholds": thresholds,
    }, frequent[:TOP]


def _ask_themis(case: ExperimentCase, network: Scorer, people: People, seed: int) -> Values:
    try:
        found = search_completely(
            network, people, method="themis", attributes=case.sensitive, most=EVERY, seed=seed
        )  # fmt: skip
    except OptionError as error:
        return {COMBINATIONS: error.message}
    worst = found.findings[0]
    # The best combination is what every other one is compared with; it has no finding of its own.
    n = np.array([one.samples or 1 for one in found.findings])
    k = np.rint(n * np.array([one.rate for one in found.findings])).astype(np.int64)
    best = worst.rest_rate
    low, high = largest_difference_of_proportions(
        np.append(k, round(best * int(n.max()))), np.append(n, int(n.max())), found.confidence**0.5
    )
    return {
        "score": -worst.gap,
        "low": low,
        "high": high,
        "combinations": found.tested,
        "worst": worst.words,
        "best": worst.versus.words() if worst.versus else "",
        "size": worst.size,
        "rest": worst.rest,
    }


def _ask_linear(case: ExperimentCase, network: Scorer, people: People) -> Values:
    found = search_completely(network, people, method="linear", attributes=case.sensitive)
    return _describe_finding(found.findings[0])


def _describe_finding(one: Finding) -> Values:
    return {
        "words": one.words,
        "size": one.size,
        "rest": one.rest,
        "rate": one.rate,
        "rest_rate": one.rest_rate,
        "gap": one.gap,
        "low": one.low,
        "high": one.high,
        "p": one.adjusted_p,
        "found": one.found,
    }


def _describe_judged(one: Finding | RefusedRuleSet) -> Values:
    if isinstance(one, RefusedRuleSet):
        return {"words": one.words, "size": one.size, "rest": one.rest, "refused": one.reason}
    return _describe_finding(one)


def _describe_widest(found: SubgroupResult) -> Values | None:
    """Return the widest of the significant gaps that no other explains; None where nothing is significant."""
    own = [one for one in found.findings if one.found and one.under is None]
    return _describe_finding(max(own, key=lambda one: abs(one.gap))) if own else None


def write_condition(rules: Rules) -> str:
    """Return rules as a condition that can be asked about.

    >>> write_condition({"sex": ("Male",), "age": Range(low=40.0, high=59.0)})
    'sex in {"Male"} and age >= 40 and age <= 59'
    """
    parts = []
    for name, rule in rules.items():
        if isinstance(rule, Range):
            parts += [f"{name} >= {rule.low:.10g}"] if rule.low is not None else []
            parts += [f"{name} {'<=' if rule.closed else '<'} {rule.high:.10g}"] if rule.high is not None else []
        else:
            parts.append(f"{name} in {{{', '.join(json.dumps(value) for value in rule)}}}")
    return " and ".join(parts)


def mend_people(name: str, run: int, context: PieceContext, progress: Progress) -> Values:
    """Train a network, and retrain it as published on the subgroup with the widest gap.

    Raises:
        FetchError: the data set is not here and cannot be fetched.
        KeyboardInterrupt: somebody stopped it.
    """
    case = find_case(name)
    people = load_people(case, data_home=context.data_home)
    settings = settings_of(context).model_copy(update={"methods": ("retrain",)})
    try:
        mended = mitigate_widest(case, people, settings, run=run, seed=context.seed, progress=progress)
    except MethodInterrupted:
        raise KeyboardInterrupt from None
    return mended.model_dump(mode="json")

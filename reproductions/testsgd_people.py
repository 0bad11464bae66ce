"""TestSGD on people: networks of the published size, searched as published and by counting, and retrained.

Source: Zhang and others: TestSGD, ACM TOSEM 2023, section 5 ("Experiment Subjects").
"""

from __future__ import annotations

import json
import math
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from evenhand import datasets, subgroups
from evenhand.core.interrupts import InterruptGuard
from evenhand.core.typing import Booleans
from evenhand.errors import ModelError, OptionError
from evenhand.mitigation import Findings, MitigationConfig
from evenhand.mitigation.candidate import MitigationTask
from evenhand.mitigation.methods.registry import load_methods
from evenhand.mitigation.metrics import SubgroupGapMetric
from evenhand.mitigation.split import TrainingSet, split_people
from evenhand.mitigation.training.encoding import FeatureEncoding
from evenhand.models import Scorer, predict_labels
from evenhand.schema import People, Schema, encode
from evenhand.subgroups import Finding, Range, SubgroupResult
from evenhand.subgroups.perturbation import Perturbation
from evenhand.subgroups.result import RefusedRuleSet
from evenhand.subgroups.rules import Rules
from reproductions.common import Context, Values, read_published
from reproductions.testsgd_themis import score_groups

PUBLISHED = read_published("testsgd")


@dataclass(frozen=True)
class ExperimentCase:
    """A data set.

    Attributes:
        name: in the paper, in short.
        dataset: among ours.
        sensitive: attributes that rule sets are made of.
        scored: whether the label is COMPAS's own score in place of the data set's.
        shares: whether the sensitive attributes are shares of a community's people, read as numbers.
        depth: rules per rule set at most; None: one per sensitive attribute.
        note: where our data differ from the paper's.
    """

    name: str
    dataset: str
    sensitive: tuple[str, ...]
    scored: bool = False
    shares: bool = False
    depth: int | None = None
    note: str = ""


CASES: tuple[ExperimentCase, ...] = (
    ExperimentCase("census", "adult", ("sex", "race", "age"), note="everybody in the census table, 48,842 people"),
    ExperimentCase("bank", "bank", ("age",)),
    ExperimentCase("german", "german", ("sex", "age"), note="all 1,000 people of German Credit; the paper has 600"),
    ExperimentCase(
        "compas",
        "compas",
        ("sex", "race", "age"),
        scored=True,
        note="the label is whether COMPAS's score is not high; 6,172 people are left by ProPublica's filter, the paper "
        "has more than 7,000",
    ),
    ExperimentCase("law", "law-school", ("gender", "race1"), note="attributes known at admission only"),
    ExperimentCase(
        "crime",
        "communities-crime",
        (
            "racepctblack",
            "racePctWhite",
            "racePctAsian",
            "racePctHisp",
            "agePct12t21",
            "agePct12t29",
            "agePct16t24",
            "agePct65up",
            "MalePctDivorce",
            "FemalePctDiv",
        ),
        shares=True,
        depth=2,
        note="the favourable label is little crime; rule sets of two attributes at most, as those published",
    ),
)
"""The data sets of people, with their sensitive attributes and where ours differ from the paper's."""


def load_people(case: ExperimentCase, *, data_home: str | Path | None = None) -> People:
    """Return everybody in the data set, with the paper's sensitive attributes protected.

    Shares of a community's people cannot be: a number with a fraction makes no groups.
    """
    data = datasets.load_dataset(case.dataset, data_home=data_home)
    frame, described = data.frame, data.schema.model_dump()
    if case.scored:
        frame = frame.assign(high_risk=(frame["score_text"] == "High").map({True: "yes", False: "no"}))
        described["target"] = {"name": "high_risk", "favourable": "no", "values": ["yes", "no"]}
    described["attributes"] = [_protect_attribute(case, one) for one in described["attributes"]]
    return encode(Schema.parse(described), frame)


def _protect_attribute(case: ExperimentCase, described: dict[str, object]) -> dict[str, object]:
    sensitive = described["name"] in case.sensitive
    if sensitive and case.shares:
        return {"name": described["name"], "kind": "real", "lower": 0.0, "upper": 1.0}
    return {**described, "protected": sensitive}


@dataclass(frozen=True)
class Effort:
    """How networks are trained and counted.

    Attributes:
        epochs: how often a network sees everybody it learns from.
        permutations: of the search for subgroups.
        hidden: units of the hidden layers: with the decision six layers, as published.
        least_steps: but at least so many steps, where people are few.
        batch_size: people per step.
        support: share of the people that a rule set holds at least, as published.
        samples: people inside and outside, slightly changed, for rates as the paper counts them.
    """

    epochs: int = 20
    permutations: int = 1000
    hidden: tuple[int, ...] = (64, 32, 16, 8, 4)
    least_steps: int = 1500
    batch_size: int = 128
    support: float = 0.05
    samples: int = 5000


FULL, QUICK = Effort(), Effort(epochs=5, permutations=200)


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


STARTS = 10
"""Times that a network is begun with other first weights, if it gives everybody one label: four units at the end of six
layers die easily."""


@dataclass(frozen=True)
class PublishedNetworkLearner:
    """A dense network of the published size, trained from the beginning."""

    settings: Effort

    takes_weights: ClassVar[bool] = False

    @property
    def name(self) -> str:
        """What is trained and how."""
        return f"a network of {len(self.settings.hidden) + 1} layers"

    @property
    def endings(self) -> tuple[str, ...]:
        """None: its networks are measured, not kept."""
        return ()

    def fit(self, lesson: TrainingSet, *, seed: int) -> Scorer:
        """Return the network that learns from a lesson: scikit-learn's, so that it needs no extra."""
        import warnings

        from sklearn.exceptions import ConvergenceWarning
        from sklearn.neural_network import MLPClassifier
        from threadpoolctl import threadpool_limits

        settings, target = self.settings, lesson.people.schema.target
        individuals, values = lesson.individuals, target.values or ()
        favourable = values.index(target.favourable)
        # Scaled by the real people alone: what is added must not move everybody else.
        encoding = FeatureEncoding.fit_to_people(lesson.people.schema, lesson.people.individuals)
        batch = min(settings.batch_size, len(individuals))
        features = encoding.features(individuals)
        with warnings.catch_warnings(), threadpool_limits(1):  # sums must not depend on how many cores there are
            warnings.simplefilter("ignore", ConvergenceWarning)  # the number of steps is fixed
            for start in range(STARTS):
                network = MLPClassifier(
                    hidden_layer_sizes=settings.hidden,
                    batch_size=batch,
                    max_iter=max(settings.epochs, math.ceil(settings.least_steps * batch / len(individuals))),
                    random_state=(seed + 1009 * start) % 2**32,
                    tol=0.0,
                    n_iter_no_change=10**6,
                )
                with InterruptGuard():
                    network.fit(features, lesson.all_labels == favourable)
                if len(np.unique(network.predict(features))) > 1:
                    break
        layers = [
            (np.asarray(weights, dtype=np.float64), np.asarray(bias, dtype=np.float64))
            for weights, bias in zip(network.coefs_, network.intercepts_, strict=True)
        ]
        classes = (values[1 - favourable], values[favourable])
        return encoding.additive(layers, classes, 1, self.name)

    def save(self, scorer: Scorer, path: Path) -> tuple[Path, ...]:
        """Write nothing: its networks are not stored."""
        raise ModelError("the networks of a reproduction are not kept", location=str(path))


@dataclass(frozen=True)
class Counts:
    """What a model decides about some people, in whole numbers.

    Attributes:
        people: how many.
        right: decisions that agree with the true label; None if it is not known (samples).
        inside: people in the subgroup.
        favourable, rest_favourable: favourable decisions in it, and among the others.
    """

    people: int
    right: int | None
    inside: int
    favourable: int
    rest_favourable: int


def count_decisions(scorer: Scorer, people: People, inside: Booleans) -> Counts:
    """Return a model's decisions about people, and which of them are in a subgroup."""
    favourable = predict_labels(scorer, people.individuals) == scorer.favourable
    return Counts(
        people=len(people),
        right=int((favourable == people.favourable).sum()),
        inside=int(inside.sum()),
        favourable=int(favourable[inside].sum()),
        rest_favourable=int(favourable[~inside].sum()),
    )


def count_perturbed(
    scorer: Scorer, people: People, inside: Booleans, nudge: Perturbation, samples: int, seed: int
) -> Counts:
    """Return what it decides about people nudged in one attribute that is not sensitive, so many on either side.

    Source: TestSGD, section 4.3. The samples depend on the people and the seed alone, so that models can be compared.
    """
    rng = np.random.default_rng([seed, 4])
    counts = []
    for side in (np.flatnonzero(inside), np.flatnonzero(~inside)):
        drawn = side[rng.integers(0, len(side), size=samples)] if len(side) else side
        nudged = nudge(people.individuals[drawn], rng)
        counts.append((len(drawn), int((predict_labels(scorer, nudged) == scorer.favourable).sum())))
    (n, favourable), (rest, rest_favourable) = counts
    return Counts(people=n + rest, right=None, inside=n, favourable=favourable, rest_favourable=rest_favourable)


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


def search_people(name: str, run: int, context: Context) -> Values:
    """Train a network, judge the published rule sets on it, and in the first run search as each publication does.

    Raises:
        FetchError: the data set is not here and cannot be fetched.
    """
    case, settings = find_case(name), QUICK if context.quick else FULL
    people, own = load_people(case, data_home=context.data_home), context.seed + run
    parts = split_people(people, seed=own)
    network = PublishedNetworkLearner(settings).fit(TrainingSet.plain(parts.train), seed=own)
    none = np.zeros(len(people), dtype=bool)
    held, trained = (count_decisions(network, part, none[: len(part)]) for part in (parts.test, parts.train))
    values: Values = {
        "people": len(people),
        "held_out": [held.right, held.people],
        "training": [trained.right, trained.people],
        "note": case.note,
    }
    conditions = [one["rules"] for one in PUBLISHED["subgroups"][name]]
    if run == 0:
        values["sampled"], top = _search_sampled(case, network, people, context)
        values["themis"] = _ask_themis(case, network, people, own)
        conditions += [write_condition(one.rules) for one in top]
    started = time.process_time()
    counted = search_completely(
        network,
        people,
        attributes=case.sensitive,
        depth=case.depth,
        support=settings.support,
        permutations=settings.permutations,
        judged=tuple(conditions),
        seed=own,
    )
    values["counted"] = {
        "seconds": time.process_time() - started,
        "rule_sets": counted.rule_sets,
        "tested": counted.tested,
        "found": counted.found,
        "widest": _describe_widest(counted),
    }
    judged = [describe_finding(one) for one in counted.judged]
    nudge = Perturbation(people.schema, case.sensitive)
    for described, one in zip(judged, counted.judged, strict=True):
        inside = subgroups.find_members(people, one.rules)
        around = count_perturbed(network, people, inside, nudge, settings.samples, own)
        described["sampled"] = [around.inside, around.favourable, around.people - around.inside, around.rest_favourable]
    values["published"], values["own"] = judged[:TOP], judged[TOP:]
    return values


def _search_sampled(
    case: ExperimentCase, network: Scorer, people: People, context: Context
) -> tuple[Values, list[Finding]]:
    """Return the published search in numbers, and its first findings at the published support threshold."""
    bins = (QUICK_PARTS if context.quick else PARTS).get(case.name, 10)
    depth = QUICK_DEPTH.get(case.name, case.depth) if context.quick else case.depth
    support = LOWEST if case.name in PUBLISHED["thresholds"] else 0.05
    started = time.process_time()
    found = search_completely(
        network,
        people,
        method="sampled",
        attributes=case.sensitive,
        depth=depth,
        bins=bins,
        support=support,
        most=EVERY,
        seed=context.seed,
    )
    seconds = time.process_time() - started
    thresholds: dict[str, Any] = {}
    for percent in sorted({*PUBLISHED["thresholds"].get(case.name, {}), 5}):
        left = [one for one in found.findings if one.size >= percent / 100 * len(people)]
        thresholds[str(percent)] = {
            "rule_sets": len(left),
            "samples": sum(2 * (one.samples or 0) for one in left),
            "found": sum(one.found for one in left),
            "top": [describe_finding(one) for one in left[:TOP]],
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
        score = score_groups(network, people, case.sensitive, seed=seed)
    except OptionError as error:
        return {COMBINATIONS: error.message}
    return {name: value for name, value in score.items() if name != "rates"}


def describe_finding(one: Finding | RefusedRuleSet) -> Values:
    """Return a rule set in numbers, or why it was refused."""
    described: Values = {"words": one.words, "size": one.size, "rest": one.rest}
    if isinstance(one, RefusedRuleSet):
        return described | {"refused": one.reason}
    names = ("rate", "rest_rate", "gap", "low", "high", "found")
    return described | {name: getattr(one, name) for name in names}


def _describe_widest(found: SubgroupResult) -> Values | None:
    """Return the widest of the significant gaps that no other explains; None where nothing is significant."""
    own = [one for one in found.findings if one.found and one.under is None]
    return describe_finding(max(own, key=lambda one: abs(one.gap))) if own else None


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


def mend_people(name: str, context: Context) -> Values:
    """Train a network, and retrain it as published on the subgroup with the widest gap.

    The people who are kept aside are neither trained on nor searched nor chosen on.

    Raises:
        FetchError: the data set is not here and cannot be fetched.
        KeyboardInterrupt: somebody stopped it.
    """
    case, settings, seed = find_case(name), QUICK if context.quick else FULL, context.seed
    people = load_people(case, data_home=context.data_home)
    parts, learner = split_people(people, seed=seed), PublishedNetworkLearner(settings)
    given = learner.fit(TrainingSet.plain(parts.train), seed=seed)
    known = people.at(np.flatnonzero(~np.isin(people.rows, parts.test.rows)))
    found = search_completely(
        given,
        known,
        attributes=case.sensitive,
        support=settings.support,
        depth=case.depth,
        permutations=settings.permutations,
        seed=seed,
    )
    significant = Findings.read([found], people.schema).subgroups
    if not found.findings:
        return {"models": []}
    # Without a significant gap, the widest one that was tested is used, as published.
    widest = max(found.findings, key=lambda one: (one.rules in significant[:1], abs(one.gap)))
    harm, nudge = SubgroupGapMetric(widest.rules), Perturbation(people.schema, case.sensitive)
    task = MitigationTask(
        given=given,
        learner=learner,
        split=parts,
        findings=Findings(subgroups=(widest.rules,)),
        harms=(harm,),
        config=MitigationConfig(methods=("retrain",), rounds=0, seed=seed),
        progress=lambda what, share: None,
        plain=given,
    )
    made = load_methods(["retrain"])["retrain"](task)
    if made.interrupted:
        raise KeyboardInterrupt
    inside = harm.inside(parts.train)
    return {
        "subgroup": widest.words,
        "significant": bool(significant),
        "models": [
            {
                "words": words,
                "held_out": asdict(count_decisions(scorer, parts.test, harm.inside(parts.test))),
                "sampled": asdict(count_perturbed(scorer, parts.train, inside, nudge, settings.samples, seed)),
            }
            for scorer, words in ((given, "as it was"), (made.scorer, made.words))
        ],
    }

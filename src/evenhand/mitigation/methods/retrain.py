"""Retraining on findings.

References:
    Zhang and others, "TestSGD: interpretable testing of neural networks against subtle group discrimination"
    (TOSEM 2023), section 5, adds increasing numbers of samples with the opposite label. Zhang, Zhang, Zhang, "Efficient
    white-box fairness testing through gradient search" (ISSTA 2021), relabels individual instances by majority.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from evenhand.core.typing import Booleans, Floats, Integers
from evenhand.errors import DataError
from evenhand.individual import search
from evenhand.individual.flips import Variants, find_flips, merge_by_unprotected
from evenhand.mitigation.candidate import Candidate, MitigationTask, TrialLog
from evenhand.mitigation.config import MitigationConfig
from evenhand.mitigation.findings import Findings, FoundProfiles, profiles_from_table
from evenhand.mitigation.learners.dense import DenseLearner, TrainedNetwork
from evenhand.mitigation.learners.learner import Learner
from evenhand.mitigation.metrics import FlipMetric, SubgroupGapMetric
from evenhand.mitigation.split import TrainingSet, class_positions
from evenhand.models.scorer import BATCH_ROWS, Scorer, predict_labels, split_batches
from evenhand.population.independent import carry_rows
from evenhand.schema.people import People
from evenhand.schema.schema import Schema
from evenhand.subgroups.perturbation import Perturbation
from evenhand.subgroups.rules import Rules

MIN_QUERIES = 20_000
"""Minimum number of queries of each search for more profiles."""

QUERIES_PER_INSTANCE = 4
"""Number of queries per instance that may be added, if this exceeds ``MIN_QUERIES``."""

MAX_ROWS = 200_000
"""Maximum number of rows of the training set and of profiles that are tested for flips."""

PATIENCE = 3
"""Number of consecutive training runs without improvement after which a round ends. It does not apply to subgroups,
whose gap varies by chance between training runs.
"""

HALVINGS = 2
"""Number of times that the intervals around the best amount are halved. The first amount may be too large for small
data."""

Instances = tuple[Floats, Integers]
"""Added instances and their labels, as in ``TrainingSet``."""


def forecast_queries(findings: Findings, schema: Schema, config: MitigationConfig, people: int) -> int:
    """Bound the number of queries to the original model for retraining with people and findings.

    The queries are for the profiles of the findings and of further searches under every assignment (a search queries
    at least two of each) and for the neighbours of subgroups.
    """
    limit = _instance_limit(config, people)
    rows = 0
    for profile_set in findings.profiles:
        unit = len(schema.assignments(profile_set.protected))
        rows += unit * len(profile_set.individuals)
        if config.rounds:
            rows += (config.rounds + 1) * min(MAX_ROWS, unit * _search_budget(limit) // 2)
    amounts = [*doubling_amounts(config.start, limit), *([limit] * 2 * HALVINGS)]
    samples = sum(max(DRAWS * amount, MIN_DRAWS) for amount in amounts)
    return rows + samples * len(findings.subgroups[: config.subgroups])


def _instance_limit(config: MitigationConfig, people: int) -> int:
    return max(1, int(config.share * people))


def _search_budget(limit: int) -> int:
    """Compute the number of queries of a search for profiles that adds at most ``limit`` instances."""
    return max(MIN_QUERIES, QUERIES_PER_INSTANCE * limit)


def count_instances(parts: Sequence[Instances]) -> int:
    """Count the instances of all parts."""
    return sum(len(labels) for _, labels in parts)


def cut_instances(parts: Sequence[Instances], limit: int) -> list[Instances]:
    """Keep at most ``limit`` instances, taking the first of each part in equal shares."""
    total = max(limit, count_instances(parts), 1)
    sizes = [len(labels) * max(0, limit) // total for _, labels in parts]
    return [(rows[:n], labels[:n]) for (rows, labels), n in zip(parts, sizes, strict=True)]


def doubling_amounts(start: int, limit: int) -> Iterator[int]:
    """Yield ``start``, its successive doublings, and ``limit``."""
    while start < limit:
        yield start
        start *= 2
    yield limit


def retrain(task: MitigationTask) -> Candidate:
    """Train a model of the same kind on the training set and on instances of the findings.

    Raises:
        DataError: There are no findings.
    """
    assert task.learner is not None, "the learner of a model that is retrained is required"
    if not task.findings:
        raise DataError(
            "expected findings, got no profiles and no significant subgroups",
            hint="search or audit the model first, and pass the result: `findings=FILE`",
        )
    return _Retraining(task, task.learner).candidate()


class _Retraining:
    def __init__(self, task: MitigationTask, learner: Learner) -> None:
        self._task, self._learner = task, learner
        self._train = task.split.train
        self._most = _instance_limit(task.config, len(self._train))
        self._subgroups = task.findings.subgroups[: task.config.subgroups]
        self._log: TrialLog[Scorer] = TrialLog(task)
        self._added: list[list[Instances]] = []

    def candidate(self) -> Candidate:
        """Run all rounds. An interrupt or the time limit keeps the best model."""
        self._try([], self._learner, self._task.plain)
        interrupted = False
        try:
            for number in range(self._task.config.rounds + 1):
                best = self._log.best()
                # A retrained model can decide differently from the original one, so its own errors are added.
                profile_sets = self._task.findings.profiles
                flips = [self._flips(self._log.models[best], profile_set, number) for profile_set in profile_sets]
                if not count_instances(flips) and not self._subgroups:
                    break
                if not self._run_round(number, flips, best):
                    interrupted = True
                    break
        except KeyboardInterrupt:
            interrupted = True
        best = self._log.best()
        model, learner = self._log.models[best], self._learner
        added = round(self._log.trials[best].value)
        return Candidate(
            method="retrain",
            words=f"{learner.name}, with {added:,} instances added" if added else learner.name,
            scorer=model,
            save=lambda path: learner.save(model, path),
            trials=self._log.mark_chosen(best),
            interrupted=interrupted,
            notes=tuple(self._log.notes(best, "The model retrained without added instances")),
        )

    def _run_round(self, number: int, flips: Sequence[Instances], best: int) -> bool:
        """Add ever more instances to the best training set, then refine the number. Return False if time is up."""
        model = self._log.models[best] if number else self._task.given
        base, learner = self._added[best], self._learner
        if number and isinstance(learner, DenseLearner) and isinstance(model, TrainedNetwork):
            learner = replace(learner, layers=model.dense)
        harm = {0: self._remaining_harm(best)}

        def add(parts: list[Instances]) -> float:
            amount = count_instances(parts)
            self._try([*cut_instances(base, self._most - amount), *parts], learner)
            harm[amount] = self._remaining_harm(-1)
            return harm[amount]

        idle = 0
        # Adding few instances compared with those already added changes the model only by chance.
        for n in doubling_amounts(max(self._task.config.start, count_instances(base) // 4), self._most):
            if self._task.is_late:
                return False
            parts = self._pick_instances(model, flips, n, number)
            if count_instances(parts) in harm or (idle == PATIENCE and not self._subgroups):
                break
            lowest = min(harm.values())
            idle = 0 if add(parts) < lowest else idle + 1
        for _ in range(HALVINGS):
            amounts = sorted(harm)
            at = amounts.index(min(amounts, key=harm.__getitem__))
            for low, high in itertools.pairwise(amounts[max(0, at - 1) : at + 2]):
                if self._task.is_late:
                    return False
                parts = self._pick_instances(model, flips, (low + high) // 2, number)
                if low < count_instances(parts) < high:
                    add(parts)
        return True

    def _flips(self, model: Scorer, profile_set: FoundProfiles, number: int) -> Instances:
        """Select, for each profile, one instance that the model decides against the majority, with the majority label.

        Profiles are taken in turn from the findings, the training set and a new search. Without further rounds, only
        the findings are used.
        """
        task, protected = self._task, profile_set.protected
        unit = len(self._train.schema.assignments(protected))
        rng = np.random.default_rng([task.config.seed, 31, number])
        sources = [] if number else [profile_set.individuals]
        if task.config.rounds:
            self._report_progress(f"searching for decisions that flip with {' x '.join(protected)}")
            sample = self._train.at(rng.permutation(len(self._train))[: max(1, MAX_ROWS // unit)])
            sources.append(sample.individuals[FlipMetric(protected).flips(model, sample)])
            deadline = task.deadline
            result = search.search(
                model,
                self._train,
                protected=protected,
                budget=_search_budget(self._most),
                time_limit=None if deadline is None else max(deadline - time.perf_counter(), 0.01),
                samples=0,
                most_examples=0,
                seed=task.config.seed + number,
            )
            if result.interrupted:
                raise KeyboardInterrupt
            sources.append(rng.permutation(profiles_from_table(result.table).individuals))
        width = len(self._train.schema.attributes)
        turns = np.argsort(np.concatenate([np.arange(len(rows)) for rows in sources]), kind="stable")
        profiles = np.concatenate([rows[:, :width] for rows in sources])[turns[: max(1, MAX_ROWS // unit)]]
        # Profiles have no passthrough columns, so each receives those of a random row of the training set.
        profiles = carry_rows(self._train.schema, profiles, self._train.rows, rng)
        added, labels = relabel_profiles(task.given, profiles, protected)
        predicted = class_positions(model, self._train.schema)[predict_labels(model, added)].reshape(-1, unit)
        order = np.where(predicted != labels.reshape(-1, unit), rng.random(predicted.shape), 2.0)
        selected = find_flips(predicted) & (order < 2).any(axis=1)
        rows = (np.flatnonzero(selected) * unit + np.argmin(order[selected], axis=1))[: self._most]
        return added[rows], labels[rows]

    def _pick_instances(self, model: Scorer, flips: Sequence[Instances], n: int, number: int) -> list[Instances]:
        """Pick about n instances, equally many for each set of protected attributes and each subgroup.

        For subgroups, the first round adds samples as published. Later rounds add samples that narrow the gap.
        """
        each = max(1, n // (len(flips) + len(self._subgroups)))
        parts = [(rows[:each], labels[:each]) for rows, labels in flips]
        for i, rules in enumerate(self._subgroups):
            rng = np.random.default_rng([self._task.config.seed, 37, i, number])
            sample = sample_levelling if number else sample_opposite
            parts.append(sample(model, self._train, rules, each, rng=rng))
        return parts

    def _try(self, parts: list[Instances], learner: Learner, trained: Scorer | None = None) -> None:
        """Train a model, then measure and record it."""
        people, task = self._train, self._task
        added = np.concatenate([np.empty((0, people.individuals.shape[1])), *(rows for rows, _ in parts)])
        labels = np.concatenate([np.empty(0, dtype=np.int64), *(labels for _, labels in parts)])
        self._report_progress(f"training with {len(labels):,} instances added")
        model = trained or learner.fit(TrainingSet(people, added, labels), seed=task.config.seed)
        self._log.record("added", len(labels), model)
        self._added.append(parts)

    def _remaining_harm(self, trial: int) -> float:
        """Return the remaining share of the metrics, or infinity if the trial loses too much accuracy."""
        return self._log.remaining_harm(trial) if self._log.is_affordable(trial) else math.inf

    def _report_progress(self, action: str) -> None:
        steps = (self._task.config.rounds + 1) * len(list(doubling_amounts(self._task.config.start, self._most)))
        self._task.progress(f"retrain: {action}", min(1.0, len(self._log.trials) / (steps + 1)))


DRAWS = 20
"""Number of perturbed people drawn per instance, since most get the same decision as the rest of the subgroup."""

MIN_DRAWS = 2000
"""Minimum number of perturbed people drawn."""

COPIES = 5
"""Number of perturbations of each person near the threshold. Fewer perturbations require more distant people."""


def relabel_profiles(model: Scorer, individuals: Floats, protected: Sequence[str]) -> Instances:
    """Assign each profile, under every protected assignment, the label that the model gives to most of them.

    A tie goes to the label with the higher mean score. Profiles that agree on all unprotected attributes are merged. If
    the schema has rules, a profile consists of plausible counterparts: profiles without counterparts are omitted, and
    an implausible assignment is replaced by a copy of a plausible one, which has no vote.

    Args:
        model: Model that decides about the profiles.
        individuals: Profiles, shape (n, attributes). Their protected entries do not matter.
        protected: Attributes that vary jointly.

    Returns:
        Instances, profile by profile, shape (profiles * assignments, attributes), and their labels as positions in the
        values of the target.

    References:
        Zhang, Zhang, Zhang, "Efficient white-box fairness testing through gradient search" (ISSTA 2021), relabels a
        single instance by majority. Here all counterparts get the label, so that none of them flips.
    """
    schema = model.schema
    added, votes = _find_orbits(schema, individuals, protected)
    n, m = votes.shape
    added = added.reshape(n * m, -1) if n else individuals[:0]
    scores = _class_scores(model, added).reshape(n, m, len(model.classes))
    counts = (predict_labels(model, added).reshape(n, m, 1) == np.arange(len(model.classes))) & votes[:, :, None]
    means = (scores * votes[:, :, None]).sum(axis=1) / np.maximum(votes.sum(axis=1), 1)[:, None]
    # A mean score is at most 1 and a vote counts 2, so scores only break ties between votes.
    majority = np.argmax(2 * counts.sum(axis=1) + means, axis=1)
    return added, np.repeat(class_positions(model, schema)[majority], m)


def _find_orbits(schema: Schema, individuals: Floats, protected: Sequence[str]) -> tuple[Floats, Booleans]:
    """Build distinct profiles under every assignment, shape (n, m, attributes), and the mask of votes (n, m)."""
    columns, assignments = schema.positions(protected), schema.assignments(protected)
    if len(individuals) == 0:
        return np.empty((0, len(assignments), individuals.shape[1])), np.empty((0, len(assignments)), dtype=np.bool_)
    if not schema.constrains_people:
        profiles = merge_by_unprotected(individuals, columns).individuals
        variants = Variants.of(schema, protected, profiles)
        return variants.counterparts, variants.plausible
    variants = Variants.of(schema, protected, individuals[schema.obeys_rules(individuals)])
    indices = merge_by_unprotected(variants.representatives, []).first
    variants = variants[indices[variants.plausible[indices].sum(axis=1) > 1]]
    copies = variants.representatives[:, None, :]
    return np.where(variants.plausible[:, :, None], variants.counterparts, copies), variants.plausible


def sample_opposite(model: Scorer, train: People, rules: Rules, n: int, *, rng: np.random.Generator) -> Instances:
    """Sample people similar to a subgroup, with the decision that the subgroup rarely gets.

    Members of the subgroup are perturbed in one unprotected attribute that does not define the subgroup. If the
    subgroup is favoured less often than other people, favoured samples are kept; otherwise rejected ones. If there are
    too few, the samples closest to the threshold get the opposite label.

    Args:
        model: Model that decides.
        train: Training set.
        rules: Rules of the subgroup.
        n: Number of samples. Fewer are returned if perturbation gives fewer distinct people.
        rng: Random number generator.

    Returns:
        Distinct instances, shape (at most n, attributes), and their labels as positions in the values of the target.

    References:
        Zhang and others, TestSGD (TOSEM 2023), section 5, RQ3. Changing labels closest to the threshold is massaging:
        Kamiran, Calders, "Data preprocessing techniques for classification without discrimination" (KAIS 2012).
    """
    metric = SubgroupGapMetric(rules)
    inside = np.flatnonzero(metric.inside(train))
    if len(inside) == 0 or n < 1:
        return train.individuals[:0].copy(), np.empty(0, dtype=np.int64)
    perturb = Perturbation(train.schema, {*rules, *train.schema.protected})
    seeds = train.individuals[inside[rng.integers(0, len(inside), size=max(DRAWS * n, MIN_DRAWS))]]
    samples = rng.permutation(np.unique(perturb(seeds, rng), axis=0))
    scores = _class_scores(model, samples)
    favour = metric.signed_gap(model, train) <= 0
    opposite = (predict_labels(model, samples) == model.favourable) == favour
    # Samples with the opposite decision come first, in random order, then those closest to it.
    distance = np.where(opposite, 0.0, np.abs(scores[:, model.favourable] - 0.5))
    rows = np.lexsort((distance, ~opposite))[:n]
    labels = np.full(len(rows), model.favourable) if favour else _likeliest_refusal(model, scores)[rows]
    return samples[rows], class_positions(model, train.schema)[labels]


def sample_levelling(model: Scorer, train: People, rules: Rules, n: int, *, rng: np.random.Generator) -> Instances:
    """Sample people on both sides of a gap who are close to the threshold, with the label that narrows the gap.

    If the subgroup is favoured more often, these are favoured members and rejected non-members; otherwise the reverse.
    Each of the people closest to the threshold is perturbed several times, as in ``sample_opposite``. A changed
    decision narrows the gap more on the smaller side. Distances are therefore multiplied by the size of the side, so
    that few labels change.

    Args:
        model, train, rules, n, rng: As in ``sample_opposite``.

    Returns:
        Distinct instances, closest first, shape (at most n, attributes), and their labels as positions in the values of
        the target. None if the subgroup is empty or contains everyone.

    References:
        Kamiran, Calders, "Data preprocessing techniques for classification without discrimination" (KAIS 2012),
        massaging, which changes the labels of the original people. Weighting by size is our addition.
    """
    metric = SubgroupGapMetric(rules)
    inside = metric.inside(train)
    if not inside.any() or inside.all() or n < 1:
        return train.individuals[:0].copy(), np.empty(0, dtype=np.int64)
    scores = _class_scores(model, train.individuals)
    excess = inside == (metric.signed_gap(model, train) > 0)
    rows = np.flatnonzero((predict_labels(model, train.individuals) == model.favourable) == excess)
    sizes = np.where(inside, inside.sum(), len(train) - inside.sum())
    distance = np.abs(scores[:, model.favourable] - 0.5) * sizes
    rows = rng.permutation(rows)
    rows = np.repeat(rows[np.argsort(distance[rows], kind="stable")][:n], COPIES)
    samples = Perturbation(train.schema, {*rules, *train.schema.protected})(train.individuals[rows], rng)
    distinct = np.sort(np.unique(samples, axis=0, return_index=True)[1])[:n]
    labels = np.where(excess, _likeliest_refusal(model, scores), model.favourable)[rows[distinct]]
    return samples[distinct], class_positions(model, train.schema)[labels]


def _likeliest_refusal(model: Scorer, scores: Floats) -> Integers:
    """Find the unfavourable label with the highest score, shape (n,)."""
    refused = np.delete(np.arange(len(model.classes)), model.favourable)
    return np.asarray(refused[np.argmax(scores[:, refused], axis=1)])


def _class_scores(model: Scorer, individuals: Floats) -> Floats:
    """Compute the scores of all classes in batches, shape (n, classes)."""
    parts = list(map(model.scores, split_batches(individuals, BATCH_ROWS)))
    return np.concatenate(parts) if parts else np.empty((0, len(model.classes)))

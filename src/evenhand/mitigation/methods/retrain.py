"""Retraining on what was found: grow what is added, search the new model again, keep the best by the validation part.

Sources: Zhang and others, "TestSGD: interpretable testing of neural networks against subtle group discrimination"
(TOSEM 2023), section 5: samples with the opposite label, more and more of them; Zhang, Zhang, Zhang, "Efficient
white-box fairness testing through gradient search" (ISSTA 2021): individual instances relabelled by majority.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from evenhand.core.typing import Booleans, Floats, Integers
from evenhand.errors import DataError, ModelError
from evenhand.individual import search
from evenhand.individual.flips import Variants, find_flips, merge_by_unprotected
from evenhand.mitigation.candidate import Candidate, MitigationTask, TrialLog
from evenhand.mitigation.findings import FoundProfiles, FoundSubgroup, profiles_from_table
from evenhand.mitigation.learners.learner import Learner, ResumableLearner
from evenhand.mitigation.metrics import FlipMetric, SubgroupGapMetric
from evenhand.mitigation.split import TrainingSet, class_positions
from evenhand.models.scorer import BATCH_ROWS, Scorer, predict_labels
from evenhand.population.independent import carry_rows
from evenhand.schema.people import People
from evenhand.schema.schema import Schema
from evenhand.subgroups.perturbation import Perturbation
from evenhand.subgroups.rules import Rules

SEARCHED = 20_000
"""Individuals that each search for more profiles may ask a model about, at least."""

QUESTIONS = 4
"""But so many for each instance that may be added: a profile costs a question for every protected assignment."""

ASKED = 200_000
"""Individuals that a model is asked about to see whose decision flips among the training set."""

IDLE = 3
"""So many amounts in a row that leave more harm than a smaller one end a round: what is added tips the scales.

Not where a subgroup is mended: its gap changes by chance with every training, and few instances change it less.
"""


HALVED = 2
"""How often the amounts next to a round's best are halved: with few people, even the start may be too much."""


def searched_rows(most: int) -> int:
    """Return how many individuals a search for more profiles may ask a new model about, to add ``most`` instances."""
    return max(SEARCHED, QUESTIONS * most)


def relabelled_rows(rounds: int, unit: int, most: int) -> int:
    """Return how many individuals the given model is asked about at most, besides real people and profiles given.

    They are the profiles of these searches, each under ``unit`` assignments, of which two were asked about at least.
    """
    return (rounds + 1) * min(ASKED, unit * searched_rows(most) // 2) if rounds else 0


def sampled_rows(start: int, most: int) -> int:
    """Return how many individuals like those of a subgroup the given model is asked about at most, in all trials."""
    amounts = [*doubling_amounts(start, most), *([most] * 2 * HALVED)]
    return sum(max(DRAWN * amount, LEAST_DRAWN) for amount in amounts)


@dataclass(frozen=True, eq=False)
class AddedInstances:
    """Instances of one origin, as in ``TrainingSet``."""

    added: Floats
    labels: Integers


def count_instances(pieces: Sequence[AddedInstances]) -> int:
    """Return how many instances there are."""
    return sum(len(piece.labels) for piece in pieces)


def cut_instances(pieces: Sequence[AddedInstances], most: int) -> list[AddedInstances]:
    """Return the same share of every piece, the first of each, ``most`` in all at most."""
    kept = [len(piece.labels) * max(0, most) // max(most, count_instances(pieces), 1) for piece in pieces]
    return [AddedInstances(piece.added[:n], piece.labels[:n]) for piece, n in zip(pieces, kept, strict=True)]


def retrain(task: MitigationTask) -> Candidate:
    """Train the given model's kind again, on people and on instances of what was found.

    Raises:
        DataError: there is nothing to learn from.
        ModelError: it is not known how to train such a model.
    """
    if task.learner is None:
        raise ModelError(
            "it is not known how to train this model again",
            location=task.given.name,
            hint="say how: `fit=module:function`",
        )
    if not task.findings:
        raise DataError(
            "there is nothing to learn from: no profile and no significant subgroup was found",
            hint="search or audit the model first, and give what was found: `findings=FILE`",
        )
    return _Retraining(task).candidate()


def doubling_amounts(start: int, most: int) -> Iterator[int]:
    """Yield how much is added: the start, doubled again and again, the most at last."""
    while start < most:
        yield start
        start *= 2
    yield most


def take_in_turns(sources: Sequence[Floats]) -> Floats:
    """Return the rows of several arrays, one of each in turn as long as it has any."""
    turn = np.concatenate([np.arange(len(one)) for one in sources])
    return np.asarray(np.concatenate(sources)[np.argsort(turn, kind="stable")])


class _Retraining:
    def __init__(self, task: MitigationTask) -> None:
        self._task = task
        assert task.learner is not None
        self._learner = task.learner
        self._train = task.split.train
        self._most = max(1, int(task.config.share * len(self._train)))
        self._subgroups: tuple[FoundSubgroup, ...] = task.findings.subgroups[: task.config.subgroups]
        self._log: TrialLog[Scorer] = TrialLog(task)
        self._added: list[list[AddedInstances]] = []

    def candidate(self) -> Candidate:
        """Try everything; what is best by then if somebody stops it or time is up."""
        self._try([], self._learner, self._task.plain)
        interrupted = False
        try:
            interrupted = not self._grow_rounds()
        except KeyboardInterrupt:
            interrupted = True
        best = self._log.best()
        chosen, learner = self._log.models[best], self._learner
        return Candidate(
            method="retrain",
            words=self._words(best),
            scorer=chosen,
            save=lambda path: learner.save(chosen, path),
            trials=self._log.mark_chosen(best),
            interrupted=interrupted,
            notes=self._notes(best),
        )

    def _grow_rounds(self) -> bool:
        """Return the rounds; False if time was up."""
        for round_ in range(self._task.config.rounds + 1):
            best = self._log.best()
            # A retrained model may decide otherwise than the given one: what it gets wrong itself is added.
            flips = [self._flips(self._log.models[best], one, round_) for one in self._task.findings.profiles]
            if not any(len(one.labels) for one in flips) and not self._subgroups:
                return True
            if not self._round(round_, flips, best):
                return False
        return True

    def _round(self, round_: int, flips: Sequence[AddedInstances], best: int) -> bool:
        """Try adding more and more to the best model's training set, then amounts between; False if time was up."""
        model = self._log.models[best] if round_ else self._task.given
        base, learner = self._added[best], self._next_learner(model) if round_ else self._learner
        left = {0: self._remaining_harm(best)}
        idle = 0
        # What is few beside what was learnt from already changes nothing but by chance.
        for n in doubling_amounts(max(self._task.config.start, count_instances(base) // 4), self._most):
            if self._task.is_late:
                return False
            pieces = self._pick_instances(model, flips, n, round_)
            fresh = count_instances(pieces)
            if fresh in left or (idle == IDLE and not self._subgroups):
                break
            self._try([*cut_instances(base, self._most - fresh), *pieces], learner)
            idle = 0 if self._remaining_harm(-1) < min(left.values()) else idle + 1
            left[fresh] = self._remaining_harm(-1)
        for _ in range(HALVED):
            grown = sorted(left)
            at = grown.index(min(grown, key=left.__getitem__))
            for low, high in itertools.pairwise(grown[max(0, at - 1) : at + 2]):
                if self._task.is_late:
                    return False
                pieces = self._pick_instances(model, flips, (low + high) // 2, round_)
                between = count_instances(pieces)
                if low < between < high:
                    self._try([*cut_instances(base, self._most - between), *pieces], learner)
                    left[between] = self._remaining_harm(-1)
        return True

    def _flips(self, model: Scorer, found: FoundProfiles, round_: int) -> AddedInstances:
        """Instances that a model decides otherwise than most of their profile, one of each, with the label of most.

        The profiles are, in turns: those found before, the training set, those that a search finds; where no round
        is wanted only those found before.
        """
        task, protected = self._task, found.protected
        unit = len(self._train.schema.assignments(protected))
        rng = np.random.default_rng([task.config.seed, 31, round_])
        sources = [] if round_ else [found.individuals]
        if task.config.rounds:
            self._report_progress(f"searching for decisions that flip with {' x '.join(protected)}")
            few = self._train.at(rng.permutation(len(self._train))[: max(1, ASKED // unit)])
            sources.append(few.individuals[FlipMetric(protected).flips(model, few)])
            sources.append(rng.permutation(self._search_again(model, protected, round_)))
        width = len(self._train.schema.attributes)
        profiles = take_in_turns([rows[:, :width] for rows in sources])[: max(1, ASKED // unit)]
        # Profiles say nothing of columns that are in no domain: each gets those of somebody who is learnt from.
        profiles = carry_rows(self._train.schema, profiles, self._train.rows, rng)
        added, labels = relabel_profiles(task.given, profiles, protected)
        decided = class_positions(model, self._train.schema)[predict_labels(model, added)].reshape(-1, unit)
        drawn = np.where(decided != labels.reshape(-1, unit), rng.random(decided.shape), 2.0)
        kept = find_flips(decided) & (drawn < 2).any(axis=1)
        rows = np.flatnonzero(kept) * unit + np.argmin(drawn[kept], axis=1)
        return AddedInstances(added[rows[: self._most]], labels[rows[: self._most]])

    def _search_again(self, model: Scorer, protected: tuple[str, ...], round_: int) -> Floats:
        left = None if self._task.deadline is None else max(self._task.deadline - time.perf_counter(), 0.01)
        seen = search.search(
            model,
            self._train,
            protected=protected,
            budget=searched_rows(self._most),
            time_limit=left,
            samples=0,
            most_examples=0,
            seed=self._task.config.seed + round_,
        )
        if seen.interrupted:
            raise KeyboardInterrupt
        return profiles_from_table(seen.table).individuals

    def _next_learner(self, model: Scorer) -> Learner:
        """How the next round trains: from the best model's weights where there are any, so that rounds add up."""
        return self._learner.resume_from(model) if isinstance(self._learner, ResumableLearner) else self._learner

    def _pick_instances(
        self, model: Scorer, flips: Sequence[AddedInstances], n: int, round_: int
    ) -> list[AddedInstances]:
        """About n instances, as many for every set of protected attributes and every subgroup.

        For subgroups the first round adds what was published, those after it what narrows the gap that is left.
        """
        each = max(1, n // (len(flips) + len(self._subgroups)))
        pieces = [AddedInstances(one.added[:each], one.labels[:each]) for one in flips]
        for number, subgroup in enumerate(self._subgroups):
            rng = np.random.default_rng([self._task.config.seed, 37, number, round_])
            drawn = sample_levelling if round_ else sample_opposite
            pieces.append(AddedInstances(*drawn(model, self._train, subgroup.rules, each, rng=rng)))
        return pieces

    def _try(self, pieces: list[AddedInstances], learner: Learner, trained: Scorer | None = None) -> None:
        """Train and measure."""
        people, task = self._train, self._task
        added = np.concatenate([np.empty((0, people.individuals.shape[1])), *(piece.added for piece in pieces)])
        labels = np.concatenate([np.empty(0, dtype=np.int64), *(piece.labels for piece in pieces)])
        self._report_progress(f"training with {len(labels):,} instances added")
        model = trained or learner.fit(TrainingSet(people, added, labels), seed=task.config.seed)
        self._log.record("added", len(labels), model)
        self._added.append(pieces)

    def _remaining_harm(self, trial: int) -> float:
        """Return what a trial leaves of the harms; infinite where it costs too much."""
        return self._log.remaining_harm(trial) if self._log.is_affordable(trial) else math.inf

    def _report_progress(self, what: str) -> None:
        steps = (self._task.config.rounds + 1) * len(list(doubling_amounts(self._task.config.start, self._most)))
        self._task.progress(f"retrain: {what}", min(1.0, len(self._log.trials) / (steps + 1)))

    def _words(self, best: int) -> str:
        added = round(self._log.trials[best].value)
        return f"{self._learner.name}, with {added:,} instances added" if added else f"{self._learner.name}"

    def _notes(self, best: int) -> tuple[str, ...]:
        loss = self._task.config.accuracy_loss
        plain = self._log.trials[0].accuracy
        notes = []
        if plain < self._log.given - loss:
            notes.append(
                f"Retrained with nothing added, the model is right about {plain:.1%} of the validation people, the "
                f"given one about {self._log.given:.1%}: it knew them, or had another training set. What may be lost "
                "is counted from the retrained model.".replace("%", " %")
            )
        if best == 0 and len(self._log.trials) > 1:
            notes.append(f"Nothing that was added helped within {loss:.1%} of accuracy.".replace("%", " %"))
        return tuple(notes)


# What is added to the training set: profiles relabelled by majority, samples that narrow a subgroup's gap.


DRAWN = 20
"""Nudged people that the model is asked about for each one wanted: most of them are decided like the others."""

LEAST_DRAWN = 2000
"""But at least so many, so that a few wanted are still chosen from many."""

COPIES = 5
"""Different nudges of each person near the threshold: fewer reach further from it, more move it less surely."""


def relabel_profiles(given: Scorer, individuals: Floats, protected: Sequence[str]) -> tuple[Floats, Integers]:
    """Return every profile under every protected assignment, all with the label that most of them are given.

    A tie goes to the label with the higher mean score. Profiles that agree on everything unprotected are one profile.
    Where the schema has rules, a profile is everybody who is a plausible counterpart of the others: profiles without
    one are left out, and an assignment that makes no plausible person has a copy of another one, which has no vote.

    Args:
        given: the model that decides about them.
        individuals: the profiles, shape (n, attributes); their protected entries do not matter.
        protected: attributes whose joint values are the assignments.

    Returns:
        Instances, profile by profile, shape (profiles * assignments, attributes), and their labels as positions in the
        target's values.

    Source: Zhang, Zhang, Zhang, "Efficient white-box fairness testing through gradient search" (ISSTA 2021) relabels
    by majority the one instance found; here the profile's whole orbit gets the label, so that nothing is left to flip.
    """
    schema = given.schema
    added, compared = _find_orbits(schema, individuals, protected)
    n, m = compared.shape
    added = added.reshape(n * m, -1) if n else individuals[:0]
    scores = _class_scores(given, added).reshape(n, m, len(given.classes))
    votes = (predict_labels(given, added).reshape(n, m, 1) == np.arange(len(given.classes))) & compared[:, :, None]
    means = (scores * compared[:, :, None]).sum(axis=1) / np.maximum(compared.sum(axis=1), 1)[:, None]
    # A mean score is at most 1 and a vote counts 2: scores decide between equal votes only.
    majority = np.argmax(2 * votes.sum(axis=1) + means, axis=1)
    return added, np.repeat(class_positions(given, schema)[majority], m)


def _find_orbits(schema: Schema, individuals: Floats, protected: Sequence[str]) -> tuple[Floats, Booleans]:
    """Return distinct profiles under every assignment, shape (n, m, attributes), and who of these has a vote (n, m)."""
    columns, assignments = schema.positions(protected), schema.assignments(protected)
    if len(individuals) == 0:
        return np.empty((0, len(assignments), individuals.shape[1])), np.empty((0, len(assignments)), dtype=np.bool_)
    if not schema.constrains_people:
        profiles = merge_by_unprotected(individuals, columns).individuals
        variants = Variants.of(schema, protected, profiles)
        return variants.published, variants.plausible
    obeying = individuals[schema.obeys_rules(individuals)]
    variants = Variants.of(schema, protected, obeying)
    first = merge_by_unprotected(variants.representatives, []).first
    variants = variants[first[variants.plausible[first].sum(axis=1) > 1]]
    copies = variants.representatives[:, None, :]
    return np.where(variants.plausible[:, :, None], variants.counterparts, copies), variants.plausible


def sample_opposite(
    given: Scorer, train: People, rules: Rules, n: int, *, rng: np.random.Generator
) -> tuple[Floats, Integers]:
    """Return people like those of a subgroup, but decided otherwise than the subgroup mostly is.

    People of the subgroup are nudged in one unprotected attribute that the subgroup is not described by. Kept are
    those whom the model gives the favourable label, if the subgroup is given it more rarely than everybody else; those
    whom it refuses it, if more often. Where these are too few, the others nearest to the threshold are given the
    opposite label.

    Args:
        given: the model.
        train: people to learn from.
        rules: who is in the subgroup.
        n: how many are wanted; fewer come only where nudging makes fewer different people.
        rng: draws them.

    Returns:
        Instances, all different, shape (at most n, attributes), and their labels as positions in the target's values.

    Source: Zhang and others, "TestSGD: interpretable testing of neural networks against subtle group discrimination"
    (TOSEM 2023), section 5, RQ3; labels changed nearest to the threshold: Kamiran, Calders, "Data preprocessing
    techniques for classification without discrimination" (KAIS 2012), massaging.
    """
    harm = SubgroupGapMetric(rules)
    inside = np.flatnonzero(harm.inside(train))
    if len(inside) == 0 or n < 1:
        return train.individuals[:0].copy(), np.empty(0, dtype=np.int64)
    nudge = Perturbation(train.schema, {*rules, *train.schema.protected})
    seeds = train.individuals[inside[rng.integers(0, len(inside), size=max(DRAWN * n, LEAST_DRAWN))]]
    nudged = rng.permutation(np.unique(nudge(seeds, rng), axis=0))
    scores = _class_scores(given, nudged)
    favour = harm.signed_gap(given, train) <= 0
    already = (predict_labels(given, nudged) == given.favourable) == favour
    # Those decided otherwise first, in random order; then those whose decision is closest to it.
    distance = np.where(already, 0.0, np.abs(scores[:, given.favourable] - 0.5))
    chosen = np.lexsort((distance, ~already))[:n]
    refused = np.delete(np.arange(len(given.classes)), given.favourable)
    labels = given.favourable if favour else refused[np.argmax(scores[:, refused], axis=1)][chosen]
    return nudged[chosen], class_positions(given, train.schema)[np.broadcast_to(labels, len(chosen))]


def sample_levelling(
    given: Scorer, train: People, rules: Rules, n: int, *, rng: np.random.Generator
) -> tuple[Floats, Integers]:
    """Return people on both sides of a gap who are decided almost the other way, with the label that narrows it.

    Of those to whom the model gives what their side has too much of (favourable decisions inside the subgroup and
    refusals outside it, or the reverse), the nearest to the threshold, each with several nudges as in ``opposite``.
    One decision changed closes a larger part of the gap on the smaller side, so that distances there count less: by
    the side's size, which is what costs the least accuracy.

    Args:
        given, train, rules, n, rng: as in ``opposite``.

    Returns:
        Instances, all different, the nearest first, shape (at most n, attributes), and their labels as positions in
        the target's values. None if no one is inside or no one outside.

    Source: Kamiran, Calders, "Data preprocessing techniques for classification without discrimination" (KAIS 2012),
    massaging, which changes the labels of the real people; the weight by a side's size is ours.
    """
    harm = SubgroupGapMetric(rules)
    inside = harm.inside(train)
    if not inside.any() or inside.all() or n < 1:
        return train.individuals[:0].copy(), np.empty(0, dtype=np.int64)
    scores = _class_scores(given, train.individuals)
    favoured = inside == (harm.signed_gap(given, train) > 0)
    too_much = np.flatnonzero((predict_labels(given, train.individuals) == given.favourable) == favoured)
    sizes = np.where(inside, inside.sum(), len(train) - inside.sum())
    distance = np.abs(scores[:, given.favourable] - 0.5) * sizes
    chosen = rng.permutation(too_much)
    chosen = np.repeat(chosen[np.argsort(distance[chosen], kind="stable")][:n], COPIES)
    nudged = Perturbation(train.schema, {*rules, *train.schema.protected})(train.individuals[chosen], rng)
    first = np.sort(np.unique(nudged, axis=0, return_index=True)[1])[:n]
    refused = np.delete(np.arange(len(given.classes)), given.favourable)
    refusal = refused[np.argmax(scores[:, refused], axis=1)]
    labels = np.where(favoured, refusal, given.favourable)[chosen[first]]
    return nudged[first], class_positions(given, train.schema)[labels]


def _class_scores(given: Scorer, individuals: Floats) -> Floats:
    """As ``favourable_score``, for every class."""
    parts = [given.scores(individuals[i : i + BATCH_ROWS]) for i in range(0, len(individuals), BATCH_ROWS)]
    return np.concatenate(parts) if parts else np.empty((0, len(given.classes)))

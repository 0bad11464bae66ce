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
from numpy.typing import NDArray

from evenhand.errors import DataError, ModelError
from evenhand.individual import search
from evenhand.individual.flips import disagree
from evenhand.mitigate.candidate import Candidate, Situation, Trial
from evenhand.mitigate.choice import ROUNDING, accuracy, bar, pick, remaining, sizes
from evenhand.mitigate.findings import FoundProfiles, FoundSubgroup, from_table
from evenhand.mitigate.harms import FlipHarm
from evenhand.mitigate.learners import Learner, Resuming
from evenhand.mitigate.lesson import Lesson, positions
from evenhand.mitigate.samples import levelled, opposite, relabelled
from evenhand.models import Scorer, predict

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

SEARCHED = 20_000
"""Individuals that each search for more profiles may ask a model about, at least."""

QUESTIONS = 4
"""But so many for each instance that may be added: a profile costs a question for every protected assignment."""

ASKED = 200_000
"""Individuals that a model is asked about to see whose decision flips among the people learnt from."""

IDLE = 3
"""So many amounts in a row that leave more harm than a smaller one end a round: what is added tips the scales.

Not where a subgroup is mended: its gap changes by chance with every training, and few instances change it less.
"""


HALVED = 2
"""How often the amounts next to a round's best are halved: with few people, even the start may be too much."""


@dataclass(frozen=True, eq=False)
class Piece:
    """Instances of one origin, as in ``Lesson``."""

    added: Floats
    labels: Ints


def size(pieces: Sequence[Piece]) -> int:
    """How many instances there are."""
    return sum(len(piece.labels) for piece in pieces)


def cut(pieces: Sequence[Piece], most: int) -> list[Piece]:
    """The same share of every piece, the first of each, ``most`` in all at most."""
    kept = [len(piece.labels) * max(0, most) // max(most, size(pieces), 1) for piece in pieces]
    return [Piece(piece.added[:n], piece.labels[:n]) for piece, n in zip(pieces, kept, strict=True)]


def retrain(situation: Situation) -> Candidate:
    """Train the given model's kind again, on people and on instances of what was found.

    Raises:
        DataError: there is nothing to learn from.
        ModelError: nobody knows how to train such a model.
    """
    if situation.learner is None:
        raise ModelError(
            "nobody knows how to train this model again",
            where=situation.given.name,
            mend="say how: --fit module:function",
        )
    if not situation.findings:
        raise DataError(
            "there is nothing to learn from: no profile and no subgroup that stands out was found",
            mend="search first: evenhand search, evenhand subgroups or evenhand audit, then --from FILE",
        )
    return _Retraining(situation).candidate()


def amounts(start: int, most: int) -> Iterator[int]:
    """How much is added: the start, doubled again and again, the most at last."""
    while start < most:
        yield start
        start *= 2
    yield most


def in_turns(sources: Sequence[Floats]) -> Floats:
    """Rows of several arrays, one of each in turn as long as it has any."""
    turn = np.concatenate([np.arange(len(one)) for one in sources])
    return np.asarray(np.concatenate(sources)[np.argsort(turn, kind="stable")])


class _Retraining:
    def __init__(self, situation: Situation) -> None:
        self._it = situation
        assert situation.learner is not None
        self._learner = situation.learner
        self._train = situation.split.train
        self._most = max(1, int(situation.config.share * len(self._train)))
        self._subgroups: tuple[FoundSubgroup, ...] = situation.findings.subgroups[: situation.config.subgroups]
        self._trials: list[Trial] = []
        self._models: list[Scorer] = []
        self._lessons: list[list[Piece]] = []
        self._before = sizes(situation.given, situation.split.validation, situation.harms)
        self._given = accuracy(situation.given, situation.split.validation)

    def candidate(self) -> Candidate:
        """Try everything; what is best by then if somebody stops it or time is up."""
        self._try([], self._learner, self._it.plain)
        interrupted = False
        try:
            interrupted = not self._grow()
        except KeyboardInterrupt:
            interrupted = True
        best = self._best()
        chosen, learner = self._models[best], self._learner
        trials = tuple(trial.model_copy(update={"chosen": i == best}) for i, trial in enumerate(self._trials))
        return Candidate(
            method="retrain",
            words=self._words(best),
            scorer=chosen,
            save=lambda path: learner.save(chosen, path),
            trials=trials,
            interrupted=interrupted,
            notes=self._notes(best),
        )

    def _grow(self) -> bool:
        """The rounds; False if time was up."""
        for round_ in range(self._it.config.rounds + 1):
            best = self._best()
            # A model trained anew may decide otherwise than the given one: what it gets wrong itself is added.
            flips = [self._flips(self._models[best], one, round_) for one in self._it.findings.profiles]
            if not any(len(one.labels) for one in flips) and not self._subgroups:
                return True
            if not self._round(round_, flips, best):
                return False
        return True

    def _round(self, round_: int, flips: Sequence[Piece], best: int) -> bool:
        """More and more added to what the best model learnt from, then amounts between; False if time was up."""
        model = self._models[best] if round_ else self._it.given
        base, learner = self._lessons[best], self._onward(model) if round_ else self._learner
        left = {0: self._left(best)}
        idle = 0
        # What is few beside what was learnt from already changes nothing but by chance.
        for n in amounts(max(self._it.config.start, size(base) // 4), self._most):
            if self._late():
                return False
            pieces = self._pieces(model, flips, n, round_)
            fresh = size(pieces)
            if fresh in left or (idle == IDLE and not self._subgroups):
                break
            self._try([*cut(base, self._most - fresh), *pieces], learner)
            idle = 0 if self._left(-1) < min(left.values()) else idle + 1
            left[fresh] = self._left(-1)
        for _ in range(HALVED):
            grown = sorted(left)
            at = grown.index(min(grown, key=left.__getitem__))
            for low, high in itertools.pairwise(grown[max(0, at - 1) : at + 2]):
                if self._late():
                    return False
                pieces = self._pieces(model, flips, (low + high) // 2, round_)
                between = size(pieces)
                if low < between < high:
                    self._try([*cut(base, self._most - between), *pieces], learner)
                    left[between] = self._left(-1)
        return True

    def _flips(self, model: Scorer, found: FoundProfiles, round_: int) -> Piece:
        """Instances that a model decides otherwise than most of their profile, one of each, with the label of most.

        The profiles are, in turns: those found before, people learnt from, those that a search finds; where no round
        is wanted only those found before.
        """
        it, protected = self._it, found.protected
        unit = len(self._train.schema.assignments(protected))
        rng = np.random.default_rng([it.config.seed, 31, round_])
        sources = [] if round_ else [found.individuals]
        if it.config.rounds:
            self._say(f"searching for decisions that flip with {' x '.join(protected)}")
            few = self._train.at(rng.permutation(len(self._train))[: max(1, ASKED // unit)])
            sources.append(few.individuals[FlipHarm(protected).flips(model, few)])
            sources.append(rng.permutation(self._searched(model, protected, round_)))
        added, labels = relabelled(it.given, in_turns(sources)[: max(1, ASKED // unit)], protected)
        decided = positions(model, self._train.schema)[predict(model, added)].reshape(-1, unit)
        drawn = np.where(decided != labels.reshape(-1, unit), rng.random(decided.shape), 2.0)
        kept = disagree(decided) & (drawn < 2).any(axis=1)
        rows = np.flatnonzero(kept) * unit + np.argmin(drawn[kept], axis=1)
        return Piece(added[rows[: self._most]], labels[rows[: self._most]])

    def _searched(self, model: Scorer, protected: tuple[str, ...], round_: int) -> Floats:
        left = None if self._it.deadline is None else max(self._it.deadline - time.perf_counter(), 0.01)
        seen = search.run(
            model,
            self._train,
            protected=protected,
            budget=max(SEARCHED, QUESTIONS * self._most),
            time_limit=left,
            samples=0,
            most_examples=0,
            seed=self._it.config.seed + round_,
        )
        if seen.interrupted:
            raise KeyboardInterrupt
        return from_table(seen.table).individuals

    def _onward(self, model: Scorer) -> Learner:
        """How the next round trains: from the best model's weights where there are any, so that rounds add up."""
        return self._learner.onward(model) if isinstance(self._learner, Resuming) else self._learner

    def _pieces(self, model: Scorer, flips: Sequence[Piece], n: int, round_: int) -> list[Piece]:
        """About n instances, as many for every set of protected attributes and every subgroup.

        For subgroups the first round adds what was published, those after it what narrows the gap that is left.
        """
        each = max(1, n // (len(flips) + len(self._subgroups)))
        pieces = [Piece(one.added[:each], one.labels[:each]) for one in flips]
        for number, subgroup in enumerate(self._subgroups):
            rng = np.random.default_rng([self._it.config.seed, 37, number, round_])
            drawn = levelled if round_ else opposite
            pieces.append(Piece(*drawn(model, self._train, subgroup.rules, each, rng=rng)))
        return pieces

    def _try(self, pieces: list[Piece], learner: Learner, trained: Scorer | None = None) -> None:
        """Train and measure."""
        people, it = self._train, self._it
        added = np.concatenate([np.empty((0, people.individuals.shape[1])), *(piece.added for piece in pieces)])
        labels = np.concatenate([np.empty(0, dtype=np.int64), *(piece.labels for piece in pieces)])
        self._say(f"training with {len(labels):,} instances added")
        model = trained or learner.fit(Lesson(people, added, labels), seed=it.config.seed)
        validation = it.split.validation
        trial = Trial(
            setting="added",
            value=len(labels),
            accuracy=accuracy(model, validation),
            harms=sizes(model, validation, it.harms),
        )
        self._trials.append(trial)
        self._models.append(model)
        self._lessons.append(pieces)

    def _best(self) -> int:
        return pick(self._trials, self._before, self._bar, len(self._it.split.validation))

    @property
    def _bar(self) -> float:
        return bar(self._given, self._trials[0].accuracy, self._it.config.accuracy_loss)

    def _left(self, trial: int) -> float:
        """What a trial leaves of the harms; infinite where it costs too much."""
        one = self._trials[trial]
        if one.accuracy < self._bar - ROUNDING:
            return math.inf
        return remaining(one.harms, self._before, len(self._it.split.validation))

    def _late(self) -> bool:
        return self._it.deadline is not None and time.perf_counter() > self._it.deadline

    def _say(self, what: str) -> None:
        steps = (self._it.config.rounds + 1) * len(list(amounts(self._it.config.start, self._most)))
        self._it.progress(f"retrain: {what}", min(1.0, len(self._trials) / (steps + 1)))

    def _words(self, best: int) -> str:
        added = round(self._trials[best].value)
        return f"{self._learner.name}, with {added:,} instances added" if added else f"{self._learner.name}"

    def _notes(self, best: int) -> tuple[str, ...]:
        loss = self._it.config.accuracy_loss
        plain = self._trials[0].accuracy
        notes = []
        if plain < self._given - loss:
            notes.append(
                f"Trained anew with nothing added, the model is right about {plain:.1%} of the validation people, the "
                f"given one about {self._given:.1%}: it knew them, or had learnt from others. What may be lost is "
                "counted from the model trained anew.".replace("%", " %")
            )
        if best == 0 and len(self._trials) > 1:
            notes.append(f"Nothing that was added helped within {loss:.1%} of accuracy.".replace("%", " %"))
        return tuple(notes)

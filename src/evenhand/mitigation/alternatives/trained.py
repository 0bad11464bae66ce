"""The methods of ``mitigate`` as candidates of a search: trained without each fold in turn, then on all."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from evenhand.errors import OptionError
from evenhand.mitigation.alternatives.config import FAMILIES, TOLD, AlternativesConfig
from evenhand.mitigation.alternatives.rules import RuleInputs
from evenhand.mitigation.alternatives.sources import FOLDS, CrossFitting, ScoreSource, ask_source, assign_folds
from evenhand.mitigation.analysis import select_metrics
from evenhand.mitigation.candidate import Candidate, MitigationTask
from evenhand.mitigation.config import MitigationConfig
from evenhand.mitigation.findings import Findings
from evenhand.mitigation.known_people import drop_test_profiles
from evenhand.mitigation.methods.randomized import RandomizedClassifier
from evenhand.mitigation.methods.registry import FROM_FINDINGS, Method, load_methods
from evenhand.mitigation.split import TrainingSet, split_people
from evenhand.mitigation.training.blind import BlindModel, fix_columns, most_frequent_row
from evenhand.models import Scorer, predict_labels
from evenhand.schema import People
from evenhand.typing import Progress


@dataclass(frozen=True, eq=False)
class MethodTrainer:
    """Trains models by methods, each without the people of a fold in turn.

    Attributes:
        fitting: whom to learn from, and the given model. config: the search's. aside: whom no method may learn from.
        methods: by name. deadline: by ``time.perf_counter()``, None if there is none.
    """

    fitting: CrossFitting
    config: AlternativesConfig
    aside: People
    methods: dict[str, Method]
    deadline: float | None

    @classmethod
    def of(
        cls, fitting: CrossFitting, config: AlternativesConfig, aside: People, deadline: float | None
    ) -> MethodTrainer:
        """Look up the methods among the families.

        Raises:
            OptionError: one learns from what was found, and nothing is given.
            MissingExtraError: a library that one needs is not installed.
        """
        wanted = [one for one in config.methods if one not in FAMILIES]
        needy = [one for one in wanted if one in FROM_FINDINGS]
        if needy and not config.findings:
            raise OptionError(
                f"{needy[0]} learns from what was found, and nothing is given",
                location="`findings=`",
                hint="give what a search, subgroups or an audit found, or leave this method out",
            )
        protected = fitting.people.schema.protected
        told = [one for one in wanted if one in TOLD and set(config.decide_without) & set(protected)]
        return cls(fitting, config, aside, load_methods(one for one in wanted if one not in told), deadline)

    def train(self, name: str, progress: Progress) -> tuple[ScoreSource, int]:
        """Return what a method makes of all people, with cross-fitted answers, and how many models that took.

        Raises:
            EvenhandError: the method cannot do it.
            KeyboardInterrupt: it was interrupted, or time was up.
        """
        fitting, people = self.fitting, self.fitting.people
        fold = assign_folds(fitting.group, people.favourable, seed=fitting.seed)
        score, accepted, fits = np.empty(len(people)), np.empty(len(people), dtype=np.bool_), 0
        for number in range(FOLDS):
            out = np.flatnonzero(fold == number)
            made = self._make(name, people.at(np.flatnonzero(fold != number)), people.at(out), number, progress)
            known = ask_source(self._hide(made.scorer), people.individuals[out], fitting.lot[out])
            score[out], accepted[out] = known.score, known.accepted
            fits += max(1, len(made.trials))
        made = self._make(name, people, self.aside, FOLDS, progress)
        scorer = self._hide(made.scorer)
        known = RuleInputs(score, accepted, None, None, fitting.lot)
        told = name in TOLD or self._reads_protected(scorer)
        by_lot = isinstance(made.scorer, RandomizedClassifier)
        source = ScoreSource(name, None, scorer, known, words=made.words, asks_group=told, by_lot=by_lot)
        return source, fits + max(1, len(made.trials))

    def _make(self, name: str, known: People, apart: People, number: int, progress: Progress) -> Candidate:
        """Return what a method makes of some people; those apart are the test set, which it does not look at."""
        config = MitigationConfig(
            methods=(name,),
            findings=self.config.findings,
            fit=self.config.fit,
            certify_effort=0,
            accuracy_loss=self.config.accuracy_loss,
            seed=self.config.seed,
        )
        parts = split_people(known, seed=self.config.seed, test=apart)
        found, _ = drop_test_profiles(Findings.read(config.findings, known.schema), parts)
        learner = self.fitting.learner
        needs_plain = name in FROM_FINDINGS and learner is not None
        task = MitigationTask(
            given=self.fitting.given,
            learner=learner,
            split=parts,
            findings=found,
            harms=select_metrics(found, known.schema, config),
            config=config,
            deadline=self.deadline,
            progress=_within(progress, name, number),
            plain=learner.fit(TrainingSet.plain(parts.train), seed=config.seed) if needs_plain and learner else None,
        )
        made = self.methods[name](task)
        if made.interrupted or (self.deadline is not None and time.perf_counter() > self.deadline):
            raise KeyboardInterrupt
        return made

    def _hide(self, scorer: Scorer) -> Scorer:
        """Return a model that is asked about everybody as if they had the same values of what it must not be told."""
        hidden = tuple(scorer.schema.positions(self.config.decide_without))
        if not hidden:
            return scorer
        return BlindModel(scorer, hidden, most_frequent_row(self.fitting.people.individuals[:, list(hidden)]))

    def _reads_protected(self, scorer: Scorer) -> bool:
        """Return whether some people kept aside would be decided otherwise with the same protected values for all."""
        rows, columns = self.aside.individuals, scorer.schema.positions(scorer.schema.protected)
        alike = fix_columns(rows, columns, most_frequent_row(rows[:, list(columns)]))
        return bool((predict_labels(scorer, rows) != predict_labels(scorer, alike)).any())


def _within(progress: Progress, name: str, number: int) -> Callable[[str, float], None]:
    """Return progress that says which method and which part of it."""
    return lambda what, share: progress(f"{name}, part {number + 1} of {FOLDS + 1}: {what}", 0.7)

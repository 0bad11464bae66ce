"""Fairness-aware training of networks as mitigation methods. The strength is chosen on the validation set."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from evenhand.errors import LimitError
from evenhand.mitigation.candidate import Candidate, MitigationTask, TrialLog
from evenhand.mitigation.learners.learner import label_values
from evenhand.mitigation.metrics import SubgroupGapMetric
from evenhand.mitigation.split import TrainingSet
from evenhand.mitigation.training.blind import find_protected
from evenhand.mitigation.training.network import can_start_from, write_network
from evenhand.mitigation.training.recipes import RECIPES
from evenhand.models.additive.network import AdditiveNetwork

if TYPE_CHECKING:
    from evenhand.mitigation.training.fair_classifier import FairClassifier

REPORT_STEPS = 10
"""Number of training steps between two progress reports."""

SMALL: dict[str, Any] = {"hidden": (32, 32), "steps": 300}
"""Parameters of a small network, which is easier to certify."""

CONTINUED_RATE = 0.005
"""Initial learning rate for further training of the original network."""

MAX_REFINEMENTS = 3
"""Maximum number of strengths tried between the strongest affordable one and the next."""

WEAKER = 10.0
"""Divisor of the weakest strength, for the lower end of the refinement if even the weakest loses too much accuracy."""


def make_method(method: str) -> Callable[[MitigationTask], Candidate]:
    """Create the mitigation method that trains networks with a loss.

    The strength is taken from the configuration; by default, it is the one with the smallest metrics on the
    validation set within the allowed loss of accuracy. Strength 0 is tried first, and is kept if no other strength is
    better. Further strengths are tried between the strongest affordable one and the next, halving the logarithm of
    their ratio.
    """
    return lambda task: _StrengthSweep(method, task).candidate()


class _StrengthSweep:
    def __init__(self, method: str, task: MitigationTask) -> None:
        self._method, self._task, self._recipe = method, task, RECIPES[method]
        sweep = self._recipe.loss().sweep
        if sweep != (0.0,):
            fixed = task.config.strength
            sweep = (0.0, *sweep) if fixed is None else (fixed,)
        self._strengths = sweep
        self._log: TrialLog[AdditiveNetwork] = TrialLog(task)
        self._refinements = MAX_REFINEMENTS if len(sweep) > 1 else 0

    def candidate(self) -> Candidate:
        """Train with all strengths. An interrupt or the time limit keeps the best network."""
        log, recipe = self._log, self._recipe
        interrupted = not self._try_strengths()
        best = log.best()
        if recipe.by_person:
            # In a small sample, several networks may leave no flips. Then the one with the strongest penalty is chosen.
            harm = [log.remaining_harm(i) for i in range(len(log.trials))]
            equal = [i for i in range(len(harm)) if log.is_affordable(i) and harm[i] <= harm[best]]
            best = max(equal, key=lambda i: log.trials[i].value, default=best)
        network, strength = log.models[best], log.trials[best].value
        protected = ", ".join(self._task.split.train.schema.protected)
        unseen = [f"The network does not get {protected}."] if protected and not recipe.sees_protected else []
        return Candidate(
            method=self._method,
            words=recipe.words + (f", strength {strength:g}" if strength else ""),
            scorer=network,
            save=lambda path: write_network(network, path),
            trials=log.mark_chosen(best),
            interrupted=interrupted,
            notes=(*unseen, *log.notes(best, "The network trained only for accuracy")),
        )

    def _try_strengths(self) -> bool:
        """Try all strengths and some between them. Return False after an interrupt or the time limit."""
        if not all(self._try(strength) for strength in self._strengths):
            return False
        for _ in range(self._refinements):
            between = self._refined_strength()
            if between is None:
                break
            if not self._try(between):
                return False
        return True

    def _try(self, strength: float) -> bool:
        """Train and measure a network. Return False if training was interrupted."""
        if self._log.trials and self._task.is_late:
            return False
        model = self._train(strength)
        # An interrupted network is not a trial of its strength, unless it is the only network.
        if model.interrupted_:
            if self._log.trials:
                return False
            if not model.history_:  # not a single step was completed
                if not self._task.is_late:
                    raise KeyboardInterrupt
                raise LimitError(
                    f"the time limit was reached before {self._method} completed a step",
                    hint="raise the limit: `time_limit=SECONDS`",
                )
        self._log.record("strength", strength, model.network_)
        return not model.interrupted_

    def _refined_strength(self) -> float | None:
        """Compute a strength between the strongest affordable one and the next. None if nothing can improve."""
        log = self._log
        if log.remaining_harm(log.best()) == 0:
            return None
        low = max(trial.value for i, trial in enumerate(log.trials) if log.is_affordable(i))
        high = min((trial.value for trial in log.trials if trial.value > low), default=None)
        if high is None:
            return None
        between = float(f"{math.sqrt(max(low, high / WEAKER) * high):.3g}")
        return between if low < between < high else None

    def _train(self, strength: float) -> FairClassifier:
        from evenhand.mitigation.training.fair_classifier import FairClassifier

        task, people, recipe = self._task, self._task.split.train, self._recipe
        model = FairClassifier(
            self._method,
            strength=strength,
            schema=people.schema,
            sees_protected=recipe.sees_protected,
            seed=task.config.seed,
        )
        if recipe.by_person:
            model.set_params(protected=find_protected(task), **(self._start_parameters() or SMALL))
        elif recipe.rate is not None:
            model.set_params(**self._start_parameters())
        trials = len(self._log.trials)
        # Subgroups of the findings are compared as groups. By default, those of the protected attributes are.
        gaps = [metric for metric in task.harms if isinstance(metric, SubgroupGapMetric)] if recipe.by_group else []
        inside = [metric.inside(people) for metric in gaps]
        groups = np.unique(np.stack(inside, axis=1), axis=0, return_inverse=True)[1].reshape(-1) if gaps else None

        def report(step: int) -> None:
            if step % REPORT_STEPS == 0:
                share = (trials + step / model.steps) / (len(self._strengths) + self._refinements)
                task.progress(f"{self._method}: training with strength {strength:g}", share)

        return model.fit(
            people.individuals,
            label_values(TrainingSet.plain(people)),
            sensitive_features=groups,
            deadline=task.deadline,
            each=report,
        )

    def _start_parameters(self) -> dict[str, Any]:
        """Return the parameters for further training of the original network, or none if this is impossible."""
        model = self._task.given
        if isinstance(model, AdditiveNetwork) and can_start_from(model):
            return {"start": model, "steps": self._recipe.steps, "learning_rate": self._recipe.rate or CONTINUED_RATE}
        return {}

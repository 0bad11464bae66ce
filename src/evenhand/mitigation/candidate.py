"""What a method starts from, and what it comes back with."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar

import numpy as np

from evenhand.core.result_part import ResultPart
from evenhand.core.typing import Progress
from evenhand.mitigation.config import MitigationConfig
from evenhand.mitigation.learners.learner import Learner
from evenhand.mitigation.metrics import FairnessMetric
from evenhand.mitigation.split import Split, class_positions
from evenhand.models.scorer import Scorer, predict_labels
from evenhand.schema.people import People

if TYPE_CHECKING:
    from evenhand.mitigation.findings import Findings


Model = TypeVar("Model", bound=Scorer)


class Trial(ResultPart):
    """One model that was trained on the way, and what it did to the validation part.

    Attributes:
        setting: what was varied, e.g. ``added`` or ``strength``.
        value: its value.
        accuracy: on the validation part.
        harms: what each harm measured there, in the order of the task's.
        chosen: whether it became the candidate.
    """

    setting: str
    value: float
    accuracy: float
    harms: tuple[float, ...]
    chosen: bool = False


@dataclass(frozen=True, eq=False)
class MitigationTask:
    """What a method starts from.

    Attributes:
        given: the model as it is.
        learner: how models of its kind are trained; None if unknown.
        split: the people; a method never looks at ``split.test``.
        findings: what was found, to learn from.
        harms: the same, to be measured; the first ones count first.
        config: the settings.
        progress: called as work goes on.
        deadline: by ``time.perf_counter()``, when to come back with the best so far; None: no limit.
        plain: what the learner makes of the training set alone; None: not trained yet.
    """

    given: Scorer
    learner: Learner | None
    split: Split
    findings: Findings
    harms: tuple[FairnessMetric, ...]
    config: MitigationConfig
    progress: Progress
    deadline: float | None = None
    plain: Scorer | None = None

    @property
    def is_late(self) -> bool:
        """Whether the deadline has passed."""
        return self.deadline is not None and time.perf_counter() > self.deadline


@dataclass(frozen=True, eq=False)
class Candidate:
    """A model that a method came back with.

    Attributes:
        method: its name.
        words: what was done, for a reader: ``retrained with 400 instances added``.
        scorer: the new model.
        save: writes it to a file; the files written.
        trials: what was tried on the way.
        control: whether it is only there to compare with.
        interrupted: whether somebody stopped it, or time was up; it is the best so far.
        notes: what else a reader must know.
    """

    method: str
    words: str
    scorer: Scorer
    save: Callable[[Path], tuple[Path, ...]]
    trials: tuple[Trial, ...] = ()
    control: bool = False
    interrupted: bool = False
    notes: tuple[str, ...] = ()


# Which trial becomes the candidate: the least harm among those that cost little accuracy.

ROUNDING = 1e-9
"""An accuracy that is lower than wanted by no more than this is what was wanted."""


def accuracy(scorer: Scorer, people: People) -> float:
    """Return the share of people who are given their true label."""
    given = class_positions(scorer, people.schema)[predict_labels(scorer, people.individuals)]
    return float((given == people.labels).mean())


def measure_all(scorer: Scorer, people: People, harms: Sequence[FairnessMetric]) -> tuple[float, ...]:
    """Return what every harm measures."""
    return tuple(harm.size(scorer, people) for harm in harms)


def remaining_share(after: Sequence[float], before: Sequence[float], people: int) -> float:
    """Return the mean share of the harms that is left.

    Args:
        after, before: what each harm measured, shares of ``people``.
        people: a harm that no one suffered before counts as if one of these had.
    """
    shares = [a / max(b, 1 / people) for a, b in zip(after, before, strict=True)]
    return float(np.mean(shares)) if shares else 0.0


def accuracy_bar(given: float, plain: float, loss: float) -> float:
    """Return the accuracy that a trial must reach.

    The loss is counted from the given model. If retraining with nothing added does not come that near, the
    given model knew these people or had learnt from others; then it is counted from the retrained model.

    Args:
        given, plain: accuracies of the given model and of one retrained with nothing added.
        loss: what may be lost.
    """
    return (given if plain >= given - loss else plain) - loss


def pick_trial(trials: Sequence[Trial], before: Sequence[float], least: float, people: int) -> int:
    """The trial that leaves the least harm among those that reach an accuracy, of equals the one with least added.

    Args:
        trials: the first is the model retrained with nothing added; it is taken if none reaches the accuracy.
        before: what each harm measured on the given model.
        least: see ``accuracy_bar``.
        people: how many they were measured on.
    """
    fit = [i for i, trial in enumerate(trials) if trial.accuracy >= least - ROUNDING]
    if not fit:
        return 0
    return min(fit, key=lambda i: (remaining_share(trials[i].harms, before, people), trials[i].value, i))


class TrialLog(Generic[Model]):
    """The models that a method tried, measured on the validation part; the first is trained with nothing changed.

    Attributes:
        given: the accuracy of the given model.
        trials, models: in the order tried.
    """

    def __init__(self, task: MitigationTask) -> None:
        self._validation, self._harms = task.split.validation, task.harms
        self._loss = task.config.accuracy_loss
        self._before = measure_all(task.given, self._validation, self._harms)
        self.given = accuracy(task.given, self._validation)
        self.trials: list[Trial] = []
        self.models: list[Model] = []

    def record(self, setting: str, value: float, model: Model) -> None:
        """Measure a model and keep it."""
        harms = measure_all(model, self._validation, self._harms)
        right = accuracy(model, self._validation)
        self.trials.append(Trial(setting=setting, value=value, accuracy=right, harms=harms))
        self.models.append(model)

    @property
    def bar(self) -> float:
        """The accuracy that a trial must reach: see ``accuracy_bar``."""
        return accuracy_bar(self.given, self.trials[0].accuracy, self._loss)

    def is_affordable(self, trial: int) -> bool:
        """Return whether a trial reaches the bar."""
        return self.trials[trial].accuracy >= self.bar - ROUNDING

    def remaining_harm(self, trial: int) -> float:
        """Return the share of the harms that a trial leaves, whatever it costs."""
        return remaining_share(self.trials[trial].harms, self._before, len(self._validation))

    def best(self) -> int:
        """Return which trial becomes the candidate: see ``pick_trial``."""
        return pick_trial(self.trials, self._before, self.bar, len(self._validation))

    def mark_chosen(self, chosen: int) -> tuple[Trial, ...]:
        """Return the trials, one of them marked as chosen."""
        return tuple(trial.model_copy(update={"chosen": i == chosen}) for i, trial in enumerate(self.trials))

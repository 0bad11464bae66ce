"""Tasks and candidates of mitigation methods, and the choice among trials on the validation set."""

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

ROUNDING = 1e-9
"""Tolerance for comparisons between accuracies."""


class Trial(ResultPart):
    """Model trained by a method, measured on the validation set.

    Attributes:
        setting: Varied parameter, such as ``added`` or ``strength``.
        value: Its value.
        accuracy: Accuracy.
        harms: Value of each metric of the task.
        chosen: Whether it became the candidate.
    """

    setting: str
    value: float
    accuracy: float
    harms: tuple[float, ...]
    chosen: bool = False


@dataclass(frozen=True, eq=False)
class MitigationTask:
    """Input of a mitigation method.

    Attributes:
        given: Original model.
        learner: Learner for the same kind of model, or None.
        split: People. Methods do not use ``split.test``.
        findings: Findings to train on.
        harms: Metrics to reduce.
        config: Settings.
        progress: Progress callback.
        deadline: Time by ``time.perf_counter()`` at which to return the best candidate. None for no limit.
        plain: Model trained only on the training set, or None.
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
    """Mitigated model.

    Attributes:
        method: Name of the method.
        words: Description, such as ``retrained with 400 instances added``.
        scorer: Model.
        save: Function that writes the model to a file and returns all written files.
        trials: Trials of the method.
        control: Whether it is only a control for the comparison.
        interrupted: Whether an interrupt or the time limit ended the method.
        notes: Notes.
    """

    method: str
    words: str
    scorer: Scorer
    save: Callable[[Path], tuple[Path, ...]]
    trials: tuple[Trial, ...] = ()
    control: bool = False
    interrupted: bool = False
    notes: tuple[str, ...] = ()


def accuracy(scorer: Scorer, people: People) -> float:
    """Compute the accuracy of a model."""
    labels = class_positions(scorer, people.schema)[predict_labels(scorer, people.individuals)]
    return float((labels == people.labels).mean())


def measure_all(scorer: Scorer, people: People, metrics: Sequence[FairnessMetric]) -> tuple[float, ...]:
    """Compute all metrics of a model."""
    return tuple(metric.size(scorer, people) for metric in metrics)


@dataclass(frozen=True)
class Incumbent:
    """Original model on the validation set, which trials and candidates must beat.

    Attributes:
        accuracy: Accuracy.
        harms: Metrics. None if the query budget is too small.
        accuracy_loss: Allowed loss of accuracy. Infinite if the strength was set explicitly.
        people: Size of the validation set.
    """

    accuracy: float
    harms: tuple[float, ...] | None
    accuracy_loss: float
    people: int

    def remaining_share(self, harms: Sequence[float]) -> float:
        """Average the ratios of metrics to those of the original model, each at least that of one person."""
        assert self.harms is not None, "trials are compared with the metrics of the original model"
        ratios = [value / max(base, 1 / self.people) for value, base in zip(harms, self.harms, strict=True)]
        return float(np.mean(ratios)) if ratios else 0.0

    def required_accuracy(self, plain: float) -> float:
        """Compute the accuracy that a trial must reach.

        The loss is measured from the original model. If retraining without changes (accuracy ``plain``) loses more than
        that, the original model was trained on these people or on other data, and the loss is measured from the
        retrained model.
        """
        return (self.accuracy if plain >= self.accuracy - self.accuracy_loss else plain) - self.accuracy_loss


class TrialLog(Generic[Model]):
    """Trials of a method. The first is trained without changes.

    Attributes:
        original: Original model on the validation set.
        trials, models: Trials and their models, in order.
    """

    def __init__(self, task: MitigationTask) -> None:
        self._validation, self._metrics = task.split.validation, task.harms
        self.original = Incumbent(
            accuracy(task.given, self._validation),
            measure_all(task.given, self._validation, self._metrics),
            task.config.accuracy_loss,
            len(self._validation),
        )
        self.trials: list[Trial] = []
        self.models: list[Model] = []

    def record(self, setting: str, value: float, model: Model) -> None:
        """Measure a model on the validation set and record it."""
        values = measure_all(model, self._validation, self._metrics)
        share = accuracy(model, self._validation)
        self.trials.append(Trial(setting=setting, value=value, accuracy=share, harms=values))
        self.models.append(model)

    def is_affordable(self, trial: int) -> bool:
        """Check whether a trial has the required accuracy."""
        required = self.original.required_accuracy(self.trials[0].accuracy)
        return self.trials[trial].accuracy >= required - ROUNDING

    def remaining_harm(self, trial: int) -> float:
        """Compute the remaining share of the metrics, regardless of accuracy."""
        return self.original.remaining_share(self.trials[trial].harms)

    def best(self) -> int:
        """Select the trial with the smallest metrics among those with the required accuracy.

        Ties go to the lowest value. If no trial has the required accuracy, the first is selected.
        """
        affordable = filter(self.is_affordable, range(len(self.trials)))
        return min(affordable, key=lambda i: (self.remaining_harm(i), self.trials[i].value, i), default=0)

    def mark_chosen(self, chosen: int) -> tuple[Trial, ...]:
        """Return all trials, one of them marked as chosen."""
        return tuple(trial.model_copy(update={"chosen": i == chosen}) for i, trial in enumerate(self.trials))

    def notes(self, best: int, plain: str) -> list[str]:
        """Build the notes on losses that are not measured from the original model, or if no trial helped.

        Args:
            best: Trial that becomes the candidate.
            plain: Description of the first trial.
        """
        first, original, notes = self.trials[0], self.original, []
        if first.value == 0 and first.accuracy < original.accuracy - original.accuracy_loss:
            notes.append(
                f"{plain} has an accuracy of {100 * first.accuracy:.1f} % on the validation set, and the original "
                f"model of {100 * original.accuracy:.1f} %. The original model was trained on these people or on other "
                "data, or is of a better kind. The loss of accuracy is measured from the retrained model."
            )
        if best == 0 and len(self.trials) > 1:
            notes.append(
                f"No trial reduced the metrics within a loss of {100 * original.accuracy_loss:.1f} % of accuracy."
            )
        return notes

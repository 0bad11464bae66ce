"""Decision between the original model and a new one.

The validation set decides, as for all other choices. The test set only has a veto: a model is not written if the
comparison on the test set finds it worse.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from evenhand.core.text import format_percent
from evenhand.errors import BudgetError
from evenhand.mitigation.candidate import (
    ROUNDING,
    MitigationTask,
    accuracy,
    measure_all,
    remaining_share,
    required_accuracy,
)
from evenhand.mitigation.result import CandidateResult
from evenhand.models.scorer import Scorer


@dataclass(frozen=True)
class Incumbent:
    """Original model, the candidate that new models must beat.

    Attributes:
        accuracy: Accuracy on the validation set.
        harms: Metrics on the validation set. None if the query budget is too small.
        plain: Accuracy of the model retrained without changes, if there is one.
        accuracy_loss: Allowed loss of accuracy. Infinite if the strength was set explicitly.
        people: Size of the validation set.
    """

    accuracy: float
    harms: tuple[float, ...] | None
    plain: float | None
    accuracy_loss: float
    people: int

    @classmethod
    def of(cls, task: MitigationTask, share: float, control: Scorer | None) -> Incumbent:
        """Measure the metrics of the original model, and the accuracy of the control."""
        people = task.split.validation
        try:
            harms = measure_all(task.given, people, task.harms)
        except BudgetError:
            harms = None
        plain = None if control is None else accuracy(control, people)
        loss = math.inf if task.config.strength is not None else task.config.accuracy_loss
        return cls(share, harms, plain, loss, len(people))

    def judge(self, candidate: CandidateResult) -> CandidateResult:
        """Add the reason for keeping the original model, if there is one."""
        if candidate.control:
            return candidate
        reason = self._validation_reason(candidate) or self._objection(candidate)
        return candidate.model_copy(update={"rejected": reason})

    def _required_accuracy(self, candidate: CandidateResult) -> float:
        """Compute the accuracy on the validation set that a candidate must reach."""
        plain = self.accuracy if self.plain is None else self.plain
        unweighted = (trial.accuracy for trial in candidate.trials if (trial.setting, trial.value) == ("strength", 0))
        return required_accuracy(self.accuracy, next(unweighted, plain), self.accuracy_loss)

    def _validation_reason(self, candidate: CandidateResult) -> str:
        chosen = next((trial for trial in candidate.trials if trial.chosen), None)
        if chosen is None or self.harms is None:
            return ""
        new, original = (remaining_share(harms, self.harms, self.people) for harms in (chosen.harms, self.harms))
        if new >= original - ROUNDING:
            return "it does not reduce the metrics on the validation set"
        required = self._required_accuracy(candidate)
        if chosen.accuracy < required - ROUNDING:
            return (
                f"its accuracy on the validation set is {format_percent(chosen.accuracy)}, less than the "
                f"{format_percent(required)} required by the allowed loss of accuracy"
            )
        return ""

    def _objection(self, candidate: CandidateResult) -> str:
        """Return the reason from the test set for keeping the original model. Empty if there is none."""
        metrics = [line for line in candidate.lines if line.part == "asked"]
        worse = [line.words for line in metrics if line.verdict == "worse"]
        if worse:
            return f"on the test set it is worse in a metric to reduce: {', '.join(worse)}"
        allowed = self.accuracy - self._required_accuracy(candidate)
        share = candidate.line("accuracy")
        if share is not None and share.change is not None and share.change.high < -allowed:
            return (
                f"on the test set it loses significantly more accuracy than allowed: {100 * -share.change.value:.1f} "
                f"points, {100 * -share.change.high:.1f} at least"
            )
        costs = [line.words for line in candidate.lines if line.part == "performance" and line.verdict == "worse"]
        if costs and not any(line.verdict == "better" for line in metrics):
            return f"on the test set it is worse in {' and '.join(costs)}, and significantly better in no metric"
        return ""

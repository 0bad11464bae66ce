"""Whether a new model takes the given one's place: the given model is a candidate as well, the one that costs nothing.

The validation set decides, as it decides everything else. The test set can only object: a model is not written that
the comparison itself calls worse.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from evenhand.errors import BudgetError
from evenhand.mitigation.candidate import (
    ROUNDING,
    MitigationTask,
    accuracy,
    accuracy_bar,
    measure_all,
    remaining_share,
)
from evenhand.mitigation.result import CandidateResult
from evenhand.models import Scorer
from evenhand.text import format_percent


@dataclass(frozen=True)
class Incumbent:
    """The given model as candidate 0.

    Attributes:
        accuracy: on the validation set.
        harms: what each harm measures there; None where a budget does not pay for it.
        plain: accuracy there of its kind retrained with nothing added; None where there is no such model.
        accuracy_loss: accuracy that may be lost; infinite where the strength was fixed, which accepts its price.
        people: size of the validation set.
    """

    accuracy: float
    harms: tuple[float, ...] | None
    plain: float | None
    accuracy_loss: float
    people: int

    @classmethod
    def of(cls, task: MitigationTask, right: float, control: Scorer | None) -> Incumbent:
        """Measure the given model, of which it is known how often it is right, and the control where there is one."""
        people = task.split.validation
        try:
            harms = measure_all(task.given, people, task.harms)
        except BudgetError:
            harms = None
        plain = None if control is None else accuracy(control, people)
        loss = math.inf if task.config.strength is not None else task.config.accuracy_loss
        return cls(right, harms, plain, loss, len(people))

    def judge(self, candidate: CandidateResult) -> CandidateResult:
        """Return a compared candidate with the reason why the given model is kept, where it is."""
        if candidate.control:
            return candidate
        reason = self._validation_reason(candidate) or self._objection(candidate)
        return candidate.model_copy(update={"rejected": reason})

    def _required_accuracy(self, candidate: CandidateResult) -> float:
        """Return the accuracy on the validation set that a candidate must reach: see ``accuracy_bar``."""
        alone = [trial.accuracy for trial in candidate.trials if (trial.setting, trial.value) == ("strength", 0)]
        plain = alone[0] if alone else self.accuracy if self.plain is None else self.plain
        return accuracy_bar(self.accuracy, plain, self.accuracy_loss)

    def _validation_reason(self, candidate: CandidateResult) -> str:
        chosen = next((trial for trial in candidate.trials if trial.chosen), None)
        if chosen is None or self.harms is None:
            return ""
        left, given = (remaining_share(harms, self.harms, self.people) for harms in (chosen.harms, self.harms))
        if left >= given - ROUNDING:
            return "on the validation set it leaves no less of what was to be reduced than the given model"
        required = self._required_accuracy(candidate)
        if chosen.accuracy < required - ROUNDING:
            return (
                f"on the validation set it is right about {format_percent(chosen.accuracy)}, less than the "
                f"{format_percent(required)} that the allowed loss of accuracy leaves"
            )
        return ""

    def _objection(self, candidate: CandidateResult) -> str:
        """Return what the comparison on the test set says against a candidate."""
        asked = [line for line in candidate.lines if line.part == "asked"]
        worse = [line.words for line in asked if line.verdict == "worse"]
        if worse:
            return f"on the test set it is worse in what was to be reduced: {', '.join(worse)}"
        allowed = self.accuracy - self._required_accuracy(candidate)
        right = candidate.line("accuracy")
        if right is not None and right.change is not None and right.change.high < -allowed:
            return (
                f"on the test set it clearly loses more accuracy than allowed: {100 * -right.change.value:.1f} points, "
                f"{100 * -right.change.high:.1f} at least"
            )
        costs = [line.words for line in candidate.lines if line.part == "performance" and line.verdict == "worse"]
        if costs and not any(line.verdict == "better" for line in asked):
            return (
                f"on the test set it is worse in {' and '.join(costs)}, and better beyond noise in nothing that was to "
                "be reduced"
            )
        return ""

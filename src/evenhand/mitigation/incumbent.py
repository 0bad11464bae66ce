"""Decision between the original model and a new one.

The validation set decides, as for all other choices. The test set only has a veto: a model is not written if the
comparison on the test set finds it worse.
"""

from __future__ import annotations

from evenhand.core.text import format_percent
from evenhand.mitigation.candidate import ROUNDING, Incumbent
from evenhand.mitigation.result import CandidateResult


def judge_candidate(incumbent: Incumbent, plain: float | None, candidate: CandidateResult) -> CandidateResult:
    """Add the reason for keeping the original model, if there is one.

    Args:
        incumbent: Original model.
        plain: Accuracy of the model retrained without changes, if there is one.
        candidate: Comparison of the new model.
    """
    if candidate.control:
        return candidate
    # Strength 0 of a network is its own control.
    controls = [trial.accuracy for trial in candidate.trials if (trial.setting, trial.value) == ("strength", 0)]
    controls += [incumbent.accuracy if plain is None else plain]
    required = incumbent.required_accuracy(controls[0])
    reason = _find_reason(incumbent, required, candidate) or _find_objection(incumbent.accuracy - required, candidate)
    return candidate.model_copy(update={"rejected": reason})


def _find_reason(incumbent: Incumbent, required: float, candidate: CandidateResult) -> str:
    """Find the reason on the validation set for keeping the original model. Empty if there is none."""
    chosen = next((trial for trial in candidate.trials if trial.chosen), None)
    if chosen is None or incumbent.harms is None:
        return ""
    new, original = map(incumbent.remaining_share, (chosen.harms, incumbent.harms))
    if new >= original - ROUNDING:
        return "it does not reduce the metrics on the validation set"
    if chosen.accuracy < required - ROUNDING:
        return (
            f"its accuracy on the validation set is {format_percent(chosen.accuracy)}, less than the "
            f"{format_percent(required)} required by the allowed loss of accuracy"
        )
    return ""


def _find_objection(allowed: float, candidate: CandidateResult) -> str:
    """Find the reason on the test set for keeping the original model. Empty if there is none."""
    metrics = [line for line in candidate.lines if line.part == "asked"]
    worse = [line.words for line in metrics if line.verdict == "worse"]
    if worse:
        return f"on the test set it is worse in a metric to reduce: {', '.join(worse)}"
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

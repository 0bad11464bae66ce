"""Which of two models is to be used: the given one, unless the new one is better by every measure that decides."""

import math

import pytest

from evenhand.mitigation import CandidateResult
from evenhand.mitigation.analysis import judge_candidate
from evenhand.mitigation.candidate import Incumbent, Trial
from evenhand.mitigation.result import Change, ComparisonLine
from evenhand.stats.proportion import observed_rate

GIVEN = Incumbent(accuracy=0.80, harms=(0.10,), accuracy_loss=0.01, people=1000)


def line(part, name, change, verdict):
    rate = observed_rate(80, 100)
    moved = Change(value=change, low=change - 0.01, high=change + 0.01, confidence=0.99, n=100, method="made up")
    sides = {"before": rate, "after": rate, "better_if": "up", "change": moved}
    return ComparisonLine(part=part, name=name, of="", words=name, verdict=verdict, **sides)


def candidate(trial, *lines, control=False):
    return CandidateResult(method="retrain", words="retrained", lines=lines, trials=trial, control=control)


def tried(accuracy, harm, setting="added", value=50.0):
    return (Trial(setting=setting, value=value, accuracy=accuracy, harms=(harm,), chosen=True),)


BETTER = tried(0.795, 0.05)
ASKED_BETTER = line("asked", "flip_rate", -0.05, "better")
WITHIN_NOISE = line("asked", "flip_rate", -0.001, "within noise")


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        (candidate(BETTER, ASKED_BETTER), ""),
        (candidate(BETTER, WITHIN_NOISE), ""),
        (candidate(tried(0.80, 0.10)), "does not reduce the metrics"),
        (candidate(tried(0.80, 0.12)), "does not reduce the metrics"),
        (candidate(tried(0.78, 0.05)), "less than the 79.0"),
        (candidate(BETTER, line("asked", "flip_rate", 0.05, "worse")), "worse in a metric to reduce: flip_rate"),
        (candidate(BETTER, ASKED_BETTER, line("performance", "accuracy", -0.04, "worse")), "4.0 points, 3.0 at least"),
        (candidate(BETTER, WITHIN_NOISE, line("performance", "auc", -0.02, "worse")), "worse in auc"),
        (candidate(BETTER, ASKED_BETTER, line("performance", "auc", -0.02, "worse")), ""),
        (candidate(tried(0.5, 0.5), control=True), ""),
        (candidate((), ASKED_BETTER), ""),
    ],
)
def test_the_given_model_is_kept_for_a_reason(made, reason):
    rejected = judge_candidate(GIVEN, None, made).rejected
    assert (reason in rejected) if reason else rejected == ""


def test_the_loss_is_measured_from_the_control_if_the_original_was_trained_on_these_people():
    original = Incumbent(accuracy=1.0, harms=(0.10,), accuracy_loss=0.01, people=1000)
    lost = line("performance", "accuracy", -0.20, "worse")
    assert judge_candidate(original, 0.80, candidate(BETTER, ASKED_BETTER, lost)).rejected == ""
    # A network's strength 0 is its own control.
    control = Trial(setting="strength", value=0, accuracy=0.9, harms=(0.1,))
    assert "less than the 89.0" in judge_candidate(original, 0.80, candidate((control, *BETTER), ASKED_BETTER)).rejected


def test_a_fixed_strength_accepts_any_loss():
    fixed = Incumbent(accuracy=0.8, harms=(0.10,), accuracy_loss=math.inf, people=1000)
    lost = line("performance", "accuracy", -0.20, "worse")
    assert judge_candidate(fixed, None, candidate(tried(0.6, 0.0), ASKED_BETTER, lost)).rejected == ""

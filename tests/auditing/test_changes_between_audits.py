"""Changes of scores, of numbers that are decided, of own metrics and of proofs, each against its definition."""

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

import evenhand
from evenhand.auditing import AuditResult, compare_audits
from evenhand.errors import OptionError
from evenhand.stats import auc_difference, bonferroni
from evenhand.stats.distribution import number_moments, skewed_mean_interval
from evenhand.stats.proportion import stretch_interval

RNG = np.random.default_rng(5)
N = 300
SEX = np.array(["F", "M"] * (N // 2))
TRUTH = RNG.random(N) < np.where(SEX == "F", 0.4, 0.6)
FIRST = np.clip(0.5 * TRUTH + 0.5 * RNG.random(N), 0, 1)
SECOND = np.clip(FIRST - 0.1 * (SEX == "F") + RNG.normal(0, 0.05, N), 0, 1)


def audit_scores(scores, keep=True, **settings):
    return evenhand.audit_predictions(
        (scores > 0.5).astype(int),
        y_true=TRUTH.astype(int),
        y_score=scores,
        sensitive_features={"sex": SEX},
        favourable=1,
        keep_decisions=keep,
        time_limit=1e-9,
        **settings,
    )


def audit_numbers(numbers, truth=None, keep=True, sex=SEX, **settings):
    return evenhand.audit_predictions(
        numbers,
        y_true=truth,
        sensitive_features={"sex": sex},
        keep_decisions=keep,
        time_limit=1e-9,
        unit=settings.pop("unit", "EUR"),
        kind="number",
        **settings,
    )


def mean_interval(values, level):
    moments = number_moments(values, np.zeros(len(values), dtype=int), 1)
    return tuple(float(end[0]) for end in skewed_mean_interval(moments, level, reach=float(np.ptp(values))))


def test_paired_areas_and_calibration_are_those_of_the_people_themselves():
    found = compare_audits(audit_scores(FIRST), AuditResult.from_json(audit_scores(SECOND).to_json()))
    level = bonferroni(0.95, found.comparisons)
    area = found.line("auc")
    assert area.pairing == "paired"
    assert area.change.value == pytest.approx(roc_auc_score(TRUTH, SECOND) - roc_auc_score(TRUTH, FIRST))
    by_hand = auc_difference(FIRST, SECOND, TRUTH, level)
    assert (area.change.low, area.change.high) == pytest.approx((by_hand.low, by_hand.high))
    women = SEX == "F"
    line = found.line("calibration_gap", "sex", "F")
    change = (SECOND - FIRST)[women]
    assert line.change.value == pytest.approx(change.mean())
    assert line.verdict == "lower"
    assert (line.change.low, line.change.high) == pytest.approx(mean_interval(change, level))
    # The gap is that of women against men both times: one contrast, at the level that its first step leaves over.
    gap = found.line("calibration_difference", "sex")
    error = [[(scores - TRUTH)[sex == SEX].mean() for sex in "FM"] for scores in (FIRST, SECOND)]
    assert gap.change.value == pytest.approx(np.ptp(error[1]) - np.ptp(error[0]))
    assert gap.change.low <= gap.change.value <= gap.change.high
    assert "equalized odds difference" in " ".join(found.left_out)


def test_areas_of_other_people_are_squared_and_added_and_without_decisions_any_dependence_is_allowed():
    kept, other = audit_scores(FIRST), audit_scores(SECOND, keep=False)
    found = compare_audits(kept, other)
    line, half = found.line("auc"), bonferroni(bonferroni(0.95, found.comparisons), 2)
    (low1, high1), (low2, high2) = (stretch_interval(one.groups.overall["auc"], half) for one in (kept, other))
    assert (line.change.low, line.change.high) == pytest.approx((low2 - high1, high2 - low1))
    turned = evenhand.audit_predictions(
        (SECOND[::-1] > 0.5).astype(int),
        y_true=TRUTH[::-1].astype(int),
        y_score=SECOND[::-1],
        time_limit=1e-9,
        sensitive_features={"sex": SEX[::-1]},
        favourable=1,
        keep_decisions=True,
    )
    apart = compare_audits(kept, turned).line("auc")
    assert apart.pairing == "unpaired"
    assert apart.change.high - apart.change.low < line.change.high - line.change.low


@pytest.mark.parametrize("known", [True, False])
def test_paired_means_of_numbers_are_those_of_people_counted_one_by_one(known):
    rng, n = np.random.default_rng(known), 100
    sex = np.array(["F", "M", *rng.choice(["F", "M"], n - 2)])
    truth = rng.lognormal(size=n).round(3)
    both = truth + rng.normal(size=(2, n)).round(3)
    found = compare_audits(*(audit_numbers(one, truth if known else None, sex=sex) for one in both))
    assert found.pairing == "paired"
    assert found.unit == "EUR"
    level = bonferroni(0.95, found.comparisons)
    kinds = {"mean": both, "mean_residual": both - truth, "mean_absolute_error": np.abs(both - truth)}
    gaps = {
        "mean_difference": "mean",
        "residual_difference": "mean_residual",
        "absolute_error_difference": "mean_absolute_error",
    }
    assert {line.name for line in found.lines} <= kinds.keys() | gaps.keys()
    assert (found.line("mean_residual") is not None) == known
    for line in found.lines:
        numbers = kinds[gaps.get(line.name, line.name)]
        if line.name in gaps:
            means = [[one[sex == label].mean() for label in "FM"] for one in numbers]
            assert line.change.value == pytest.approx(np.ptp(means[1]) - np.ptp(means[0]))
            assert line.change.low <= line.change.value <= line.change.high
            continue
        inside = np.ones(n, bool) if not line.group else sex == line.group
        change = (numbers[1] - numbers[0])[inside]
        assert line.change.value == pytest.approx(change.mean())
        assert (line.change.low, line.change.high) == pytest.approx(mean_interval(change, level), abs=1e-9)


def test_a_raise_that_is_the_same_for_everybody_is_certain():
    numbers = RNG.lognormal(5, 1, N)
    found = compare_audits(audit_numbers(numbers), audit_numbers(numbers + 10))
    line = found.line("mean")
    assert (line.change.value, line.verdict) == (pytest.approx(10), "higher")
    assert line.change.high - line.change.low < 1e-6
    assert found.line("mean_difference", "sex").verdict == "no clear change"
    shown = found.to_markdown()
    assert "in EUR" in shown
    assert "10 % quantile" in " ".join(found.left_out)


def test_numbers_of_other_people_and_units():
    numbers = RNG.lognormal(5, 0.3, N)
    before, after = audit_numbers(numbers), audit_numbers(numbers[::-1] * 1.5, sex=SEX[::-1])
    found = compare_audits(before, after)
    assert found.line("mean").pairing == "unpaired"
    assert found.line("mean").verdict == "higher"
    with pytest.raises(OptionError, match=r"in EUR in one audit and .* in USD in the other"):
        compare_audits(before, audit_numbers(numbers, unit="USD"))
    with pytest.raises(OptionError, match="a label in the other"):
        compare_audits(before, audit_scores(FIRST))


def test_metrics_of_several_labels_are_not_compared_as_own_metrics():
    grades = np.where(SECOND > 0.6, "a", np.where(SECOND > 0.3, "b", "c"))
    audits = [
        evenhand.audit_predictions(TRUTH.astype(str), labels, {"sex": SEX}, kind="labels")
        for labels in (grades, grades[::-1])
    ]
    with pytest.raises(OptionError, match="no number in common"):
        compare_audits(*audits)


def test_own_metrics_are_bounded_by_both_their_intervals():
    metrics = {"f1": lambda y_true, y_pred: 2 * (y_true & y_pred).sum() / (y_true.sum() + y_pred.sum())}
    before, after = (audit_scores(scores, metrics=metrics) for scores in (FIRST, SECOND))
    found = compare_audits(before, after)
    line, gap = found.line("f1"), found.line("f1_difference", "sex")
    half = bonferroni(bonferroni(0.95, found.comparisons), 2)
    (low1, high1), (low2, high2) = (stretch_interval(one.groups.overall["f1"], half) for one in (before, after))
    assert (line.change.low, line.change.high) == pytest.approx((low2 - high1, high2 - low1))
    assert gap.pairing == "same people"
    values = [one.groups.breakdowns[0].gap("f1_difference").value.value for one in (before, after)]
    assert gap.change.value == pytest.approx(values[1] - values[0])
    assert "f1 difference by sex" in found.to_markdown()


def test_stretched_to_another_level_an_interval_is_that_of_normal_quantiles():
    one = evenhand.stats.Observed(value=1.0, n=5, low=0.0, high=3.0, confidence=0.95, method="m")
    assert stretch_interval(one, 0.95) == pytest.approx((0.0, 3.0))
    low, high = stretch_interval(one, 0.99)
    assert (1 - low, high - 1) == pytest.approx((2.5758293 / 1.9599640, 2 * 2.5758293 / 1.9599640))


@pytest.fixture(scope="module")
def proved():
    """Two linear models on the same people, and the first one once more, proved for another population."""
    rng = np.random.default_rng(1)
    people = pd.DataFrame({"age": rng.integers(20, 60, 200), "sex": rng.integers(0, 2, 200)})
    hired = (people["age"] + 15 * people["sex"] + rng.normal(0, 5, 200) > 45).astype(int)
    with_sex = LogisticRegression(max_iter=2000).fit(people, hired)
    without = LogisticRegression(max_iter=2000).fit(people.assign(sex=0), hired)
    asked = {"protected": ["sex"], "max_boxes": 10_000, "searched": 0, "samples": 200}
    return [
        evenhand.audit(with_sex, people, hired, **asked),
        evenhand.audit(without, people, hired, **asked),
        evenhand.audit(with_sex, people, hired, population="uniform", **asked),
    ]


def test_proved_shares_change_exactly(proved):
    before, after, uniform = proved
    found = compare_audits(before, after)
    first, second = before.certificates[0], after.certificates[0]
    for name, verdict in (("certified", "better"), ("falsified", "better")):
        line = found.line(name, "sex")
        assert line.change.kind == "proved"
        assert line.change.value == getattr(second, name) - getattr(first, name)
        assert line.verdict == verdict
    assert second.certified + 1e-9 > 1
    assert found.comparisons == sum(line.change.kind == "observed" for line in found.lines)
    assert compare_audits(after, before).line("falsified", "sex").verdict == "worse"
    assert compare_audits(before, before).line("certified", "sex").verdict == "no clear change"
    # More was proved of the same model: that is no merit of the model.
    more = first.model_copy(update={"certified": first.certified - 0.1, "undecided": first.undecided + 0.1})
    less_proved = before.model_copy(update={"certificates": (more,)})
    assert compare_audits(less_proved, before).line("certified", "sex").verdict == "higher"
    other = compare_audits(before, uniform)
    assert other.line("certified", "sex") is None
    assert "proof by sex: the simulated populations differ" in other.left_out

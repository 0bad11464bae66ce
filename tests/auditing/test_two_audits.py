"""Comparisons of two audits, and tolerances of changes within one."""

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import roc_auc_score

import evenhand
from evenhand.auditing import AuditResult, compare_audits, parse_gate
from evenhand.auditing.gates.conditions import measure_values
from evenhand.errors import DataError, OptionError
from evenhand.stats import auc_difference, bonferroni, difference_interval, paired_difference
from evenhand.stats.distribution import number_moments, skewed_mean_interval
from evenhand.stats.proportion import smallest_ratio_of_proportions, stretch_interval
from support import scaled

LENIENT = {"min_group_size": 1}


def audit(decided, sex, truth=None, *, keep=True, **settings):
    return evenhand.audit_predictions(
        decided, y_true=truth, sensitive_features={"sex": sex}, keep_decisions=keep, favourable=1, **settings
    )


SEX = ["F"] * 100 + ["M"] * 100
TRUTH = ([1] * 50 + [0] * 50) * 2
BEFORE = [1] * 20 + [0] * 80 + [1] * 60 + [0] * 40
AFTER = [1] * 40 + [0] * 60 + [1] * 55 + [0] * 45


def test_a_comparison_by_hand():
    found = compare_audits(audit(BEFORE, SEX, TRUTH), audit(AFTER, SEX, TRUTH))
    assert found.pairing == "paired"
    line = found.line("selection_rate", "sex", "F")
    assert (line.before.value, line.after.value) == (0.2, 0.4)
    assert line.change.value == pytest.approx(0.2)
    # 2 of everybody, 3 gaps and a ratio, 2 for each of 2 groups: 10 changes. 20 of 100 women gained, none lost.
    assert found.comparisons == 10
    assert (line.change.low, line.change.high) == pytest.approx(paired_difference(20, 0, 100, bonferroni(0.95, 10)))
    assert line.verdict == "higher"
    gap = found.line("demographic_parity_difference", "sex")
    assert gap.change.value == pytest.approx(0.15 - 0.4)
    assert gap.verdict == "better"
    ratio = found.line("demographic_parity_ratio", "sex")
    assert ratio.change.value == pytest.approx(40 / 55 - 20 / 60)
    both = bonferroni(bonferroni(0.95, 10), 2)
    (low1, high1), (low2, high2) = (
        smallest_ratio_of_proportions(np.array(k), np.array([100, 100]), both) for k in ([20, 60], [40, 55])
    )
    assert (ratio.change.low, ratio.change.high) == pytest.approx((low2 - high1, high2 - low1))
    assert (ratio.pairing, ratio.verdict) == ("same people", "no clear change" if low2 <= high1 else "better")
    # Right decisions: of women 20 + 50 before, 40 + 50 after; of men 50 + 40 before, 50 + 45 after.
    accuracy = found.line("accuracy")
    assert (accuracy.before.value, accuracy.after.value) == (0.8, 0.925)
    assert (accuracy.change.low, accuracy.change.high) == pytest.approx(
        paired_difference(25, 0, 200, bonferroni(0.95, 10))
    )
    assert found.count("worse") == 0
    assert AuditResult.from_json(audit(BEFORE, SEX).to_json()).groups.kept is not None
    assert type(found).from_json(found.to_json()) == found


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=scaled(40), deadline=None)
def test_paired_counts_are_those_of_people_counted_one_by_one(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(20, 90))
    frame = pd.DataFrame({"sex": rng.choice(["F", "M"], n), "race": rng.choice(["A", "B", "C"], n)})
    truth, first, second = [0, 1, *rng.integers(0, 2, n - 2)], *rng.integers(0, 2, (2, n))
    truth = np.array(truth)
    options = {"y_true": truth, "sensitive_features": frame, "favourable": 1, "keep_decisions": True, **LENIENT}
    both = [evenhand.audit_predictions(decided, **options) for decided in (first, second)]
    found = compare_audits(*both)
    assert found.pairing == "paired"
    level = bonferroni(0.95, found.comparisons)
    for line in found.lines:
        if line.name in (
            "demographic_parity_ratio",
            "demographic_parity_difference",
            "equal_opportunity_difference",
            "accuracy_difference",
        ):
            continue
        chosen = np.ones(n, dtype=bool) if not line.by else (frame[line.by] == line.group).to_numpy()
        one, other = (first == truth, second == truth) if line.name == "accuracy" else (first == 1, second == 1)
        if line.name == "true_positive_rate":
            chosen = chosen & (truth == 1)
        gained, lost = (other & ~one & chosen).sum(), (one & ~other & chosen).sum()
        if line.change.kind == "unknown":
            assert not chosen.any()
            continue
        assert line.change.value == pytest.approx((gained - lost) / chosen.sum())
        expected = paired_difference(int(gained), int(lost), int(chosen.sum()), level)
        assert (line.change.low, line.change.high) == pytest.approx(
            (min(expected[0], line.change.value), max(expected[1], line.change.value))
        )


def test_other_people_are_compared_as_two_samples():
    before, after = audit(BEFORE, SEX), audit(AFTER[::-1], SEX[::-1])
    found = compare_audits(before, after)
    assert found.pairing == "unpaired"
    line = found.line("selection_rate", "sex", "F")
    level = bonferroni(0.95, found.comparisons)
    assert (line.change.low, line.change.high) == pytest.approx(difference_interval(40, 100, 20, 100, level))


def test_the_same_people_without_their_decisions_are_not_paired_and_told_so():
    kept = compare_audits(audit(BEFORE, SEX), audit(AFTER, SEX))
    found = compare_audits(audit(BEFORE, SEX, keep=False), audit(AFTER, SEX))
    assert found.pairing == "same people"
    wide, short = (one.line("selection_rate", "sex", "F").change for one in (found, kept))
    assert wide.low < short.low < short.high < wide.high


def test_what_is_kept_holds_no_attribute_of_a_single_person():
    one, turned = audit(BEFORE, SEX), audit(BEFORE[100:] + BEFORE[:100], SEX[100:] + SEX[:100])
    assert one.groups.kept == turned.groups.kept  # the order within a cell alone is kept
    assert one.groups.people_fingerprint != turned.groups.people_fingerprint
    assert audit(BEFORE, SEX, keep=False).groups.kept is None


def test_nothing_changed():
    same = audit(BEFORE, SEX, TRUTH)
    found = compare_audits(same, same)
    assert {line.verdict for line in found.lines} == {"no clear change"}
    assert all(line.change.value == 0 for line in found.lines)


def test_what_only_one_audit_has_is_named():
    more = evenhand.audit_predictions(
        AFTER, sensitive_features={"sex": SEX, "race": ["A", "B"] * 100}, favourable=1, keep_decisions=True
    )
    found = compare_audits(audit(BEFORE, SEX, TRUTH), more)
    assert "accuracy: only one audit has true labels" in found.left_out
    assert "race: only in the second audit" in found.left_out
    small = audit(AFTER[:100] + AFTER[100:110], SEX[:100] + SEX[100:110])
    found = compare_audits(audit(BEFORE, SEX), small)
    assert "sex M: too few people" in found.left_out
    gap = found.line("demographic_parity_difference", "sex")
    assert gap.verdict == "not comparable"
    assert gap.change.kind == "unknown"


def test_what_cannot_be_compared_is_refused():
    with pytest.raises(OptionError, match="favourable label"):
        compare_audits(
            audit(BEFORE, SEX), evenhand.audit_predictions(AFTER, sensitive_features={"sex": SEX}, favourable=0)
        )
    weighted = evenhand.audit_predictions(AFTER, sensitive_features={"sex": SEX}, sample_weight=[1, 2] * 100)
    with pytest.raises(OptionError, match="weights"):
        compare_audits(weighted, weighted)
    broken = audit(BEFORE, SEX)
    kept = broken.groups.kept.model_copy(update={"selected": "AAAA"})
    broken = broken.model_copy(update={"groups": broken.groups.model_copy(update={"kept": kept})})
    with pytest.raises(DataError, match="of 200 people"):
        compare_audits(broken, audit(AFTER, SEX))
    with pytest.raises(DataError, match="no such file"):
        evenhand.compare("nowhere/report.json", "nowhere/report.json")


def test_gates_are_about_changes():
    found = compare_audits(audit(AFTER, SEX, TRUTH), audit(BEFORE, SEX, TRUTH))
    assert measure_values(found)["worse"][""] == found.count("worse") > 0
    assert parse_gate("worse > 0").holds(found)
    assert parse_gate("accuracy < -0.1").holds(found)
    assert parse_gate("demographic_parity_difference.sex.low > 0.1").holds(found)
    assert not parse_gate("demographic_parity_difference.sex > 0.3 or better > 0").holds(found)
    with pytest.raises(OptionError, match="no number called 'certified'"):
        parse_gate("certified < 1").holds(found)


def simulate(paired, rng):
    """Return two audits' decisions about 400 people, or 400 each, whose true changes are known."""
    rates = {"F": (0.3, 0.36), "M": (0.5, 0.45)}
    sides = []
    sex = np.repeat(["F", "M"], [150, 250])
    first, second = (np.array([rates[one][side] for one in sex]) for side in (0, 1))
    u = rng.random(400)
    v = np.where(rng.random(400) < 0.8, u, rng.random(400)) if paired else rng.random(400)
    sides = [(u < first).astype(int), (v < second).astype(int)]
    return sex, sides


@pytest.mark.slow
@pytest.mark.parametrize("paired", [True, False])
def test_all_intervals_together_cover_the_true_changes(paired):
    truth = {"F": 0.06, "M": -0.05, "gap": (0.45 - 0.36) - (0.5 - 0.3), "": (150 * 0.06 - 250 * 0.05) / 400}
    rng, hits, runs, settings = np.random.default_rng(7), 0, scaled(300), {"time_limit": 1e-9}
    for _ in range(runs):
        sex, sides = simulate(paired, rng)
        order = slice(None) if paired else slice(None, None, -1)
        both = [
            audit(sides[0].tolist(), sex.tolist(), **settings),
            audit(sides[1][order].tolist(), sex[order].tolist(), **settings),
        ]
        found = compare_audits(*both, confidence=0.9)
        assert found.pairing == ("paired" if paired else "unpaired")
        hits += all(
            line.change.low
            <= truth["gap" if line.name == "demographic_parity_difference" else line.group]
            <= line.change.high
            for line in found.lines
        )
    assert hits / runs >= 0.9 - 3.1 * math.sqrt(0.09 / runs)


RNG = np.random.default_rng(5)
N = 300
CHANGE_SEX = np.array(["F", "M"] * (N // 2))
CHANGE_TRUTH = RNG.random(N) < np.where(CHANGE_SEX == "F", 0.4, 0.6)
FIRST = np.clip(0.5 * CHANGE_TRUTH + 0.5 * RNG.random(N), 0, 1)
SECOND = np.clip(FIRST - 0.1 * (CHANGE_SEX == "F") + RNG.normal(0, 0.05, N), 0, 1)


def audit_scores(scores, keep=True, **settings):
    options = {"sensitive_features": {"sex": CHANGE_SEX}, "favourable": 1, "keep_decisions": keep, "time_limit": 1e-9}
    decided, truth = (scores > 0.5).astype(int), CHANGE_TRUTH.astype(int)
    return evenhand.audit_predictions(decided, y_true=truth, y_score=scores, **options, **settings)


def audit_numbers(numbers, truth=None, keep=True, sex=CHANGE_SEX, **settings):
    options = {"sensitive_features": {"sex": sex}, "keep_decisions": keep, "time_limit": 1e-9, "kind": "number"}
    unit = settings.pop("unit", "EUR")
    return evenhand.audit_predictions(numbers, y_true=truth, unit=unit, **options, **settings)


def mean_interval(values, level):
    moments = number_moments(values, np.zeros(len(values), dtype=int), 1)
    return tuple(float(end[0]) for end in skewed_mean_interval(moments, level, reach=float(np.ptp(values))))


def test_paired_areas_and_calibration_are_those_of_the_people_themselves():
    found = compare_audits(audit_scores(FIRST), AuditResult.from_json(audit_scores(SECOND).to_json()))
    level = bonferroni(0.95, found.comparisons)
    area = found.line("auc")
    assert area.pairing == "paired"
    assert area.change.value == pytest.approx(roc_auc_score(CHANGE_TRUTH, SECOND) - roc_auc_score(CHANGE_TRUTH, FIRST))
    by_hand = auc_difference(FIRST, SECOND, CHANGE_TRUTH, level)
    assert (area.change.low, area.change.high) == pytest.approx((by_hand.low, by_hand.high))
    women = CHANGE_SEX == "F"
    line = found.line("calibration_gap", "sex", "F")
    change = (SECOND - FIRST)[women]
    assert line.change.value == pytest.approx(change.mean())
    assert line.verdict == "lower"
    assert (line.change.low, line.change.high) == pytest.approx(mean_interval(change, level))
    # The gap is that of women against men both times: one contrast, at the level that its first step leaves over.
    gap = found.line("calibration_difference", "sex")
    error = [[(scores - CHANGE_TRUTH)[sex == CHANGE_SEX].mean() for sex in "FM"] for scores in (FIRST, SECOND)]
    assert gap.change.value == pytest.approx(np.ptp(error[1]) - np.ptp(error[0]))
    assert gap.change.low <= gap.change.value <= gap.change.high
    assert "equalized odds difference" in " ".join(found.left_out)


def test_areas_of_other_people_are_squared_and_added_and_without_decisions_any_dependence_is_allowed():
    kept, other = audit_scores(FIRST), audit_scores(SECOND, keep=False)
    found = compare_audits(kept, other)
    line, half = found.line("auc"), bonferroni(bonferroni(0.95, found.comparisons), 2)
    (low1, high1), (low2, high2) = (stretch_interval(one.groups.overall["auc"], half) for one in (kept, other))
    assert (line.change.low, line.change.high) == pytest.approx((low2 - high1, high2 - low1))
    options = {"sensitive_features": {"sex": CHANGE_SEX[::-1]}, "favourable": 1, "keep_decisions": True}
    scores, truth = SECOND[::-1], CHANGE_TRUTH[::-1].astype(int)
    decided = (scores > 0.5).astype(int)
    turned = evenhand.audit_predictions(decided, y_true=truth, y_score=scores, time_limit=1e-9, **options)
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
    assert "10 % quantile" in " ".join(found.left_out)


def test_numbers_of_other_people_and_units():
    numbers = RNG.lognormal(5, 0.3, N)
    before, after = audit_numbers(numbers), audit_numbers(numbers[::-1] * 1.5, sex=CHANGE_SEX[::-1])
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
        evenhand.audit_predictions(CHANGE_TRUTH.astype(str), labels, {"sex": CHANGE_SEX}, kind="labels")
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


@pytest.fixture(scope="module")
def table() -> tuple[LinearRegression, pd.DataFrame, pd.Series]:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.integers(20, 60, 300), "male": rng.integers(0, 2, 300)})
    premium = 5.0 * frame["age"] + 30.0 * frame["male"]
    return LinearRegression().fit(frame, premium), frame, premium


def test_a_tolerance_counts_and_proves(table: tuple[LinearRegression, pd.DataFrame, pd.Series]) -> None:
    model, frame, premium = table
    found = evenhand.audit(model, frame, premium, protected=["male"], tolerance=20.0, samples=500)
    assert found.changes is not None
    values = measure_values(found)
    assert values["largest_change"]["male"] == pytest.approx(30.0)
    assert values["mean_change"]["male"] == pytest.approx(30.0)
    assert values["falsified"]["male"].value == 1.0
    assert parse_gate("flip_rate.male > 0.9 and falsified > 0.9").holds(found)


def test_without_a_tolerance_nothing_is_proved_and_that_is_said(
    table: tuple[LinearRegression, pd.DataFrame, pd.Series],
) -> None:
    model, frame, premium = table
    found = evenhand.audit(model, frame, premium, protected=["male"], samples=500)
    assert not found.certificates
    assert any("no tolerance was set" in item.reason for item in found.not_run)
    assert found.changes is not None
    assert found.changes.changes[0].largest == pytest.approx(30.0)

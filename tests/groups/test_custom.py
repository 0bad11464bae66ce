"""Metrics of one's own by group, and the inequality of benefits: by hand, beside other libraries, coverage."""

import math

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import f1_score, roc_auc_score

import evenhand
from evenhand.errors import OptionError
from evenhand.stats import Unknown, student_interval
from evenhand.stats.bootstrap import expanded_percentiles
from evenhand.stats.inequality import decision_inequality, generalized_entropy


def cost(y_true, y_pred, sample_weight=None):
    """Five for a person who is wrongly selected, one for a person who is wrongly not."""
    return np.average(5 * ((y_true == 0) & (y_pred == 1)) + ((y_true == 1) & (y_pred == 0)), weights=sample_weight)


def people(n=400, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"sex": rng.choice(["F", "M"], n), "true": rng.integers(0, 2, n), "score": rng.random(n)})
    return frame.assign(selected=((frame["score"] + 0.4 * frame["true"]) > 0.7).astype(int))


def audit(frame, metrics, **settings):
    return evenhand.audit_predictions(
        frame["selected"],
        y_true=frame.get("true"),
        y_score=frame.get("score"),
        sensitive_features=frame[["sex"]],
        favourable=1,
        metrics=metrics,
        **settings,
    )


@pytest.mark.slow
def test_each_metric_is_that_of_the_group():
    frame = people()
    result = audit(frame, {"cost": cost, "f1": f1_score, "own_auc": roc_auc_score}).groups
    for group in result.breakdowns[0].groups:
        own = frame[frame["sex"] == group.label]
        assert group.metrics["cost"].value == pytest.approx(cost(own["true"], own["selected"]))
        assert group.metrics["f1"].value == pytest.approx(f1_score(own["true"], own["selected"]))
        assert group.metrics["own_auc"].value == pytest.approx(roc_auc_score(own["true"], own["score"]))
    women, men = (group.metrics["cost"] for group in result.breakdowns[0].groups)
    gap = result.breakdowns[0].gap("cost_difference").value
    assert gap.value == pytest.approx(abs(women.value - men.value))
    apart = women.value - men.value
    ends = (
        apart - math.hypot(women.value - women.low, men.high - men.value),
        apart + math.hypot(women.high - women.value, men.value - men.low),
    )
    assert gap.high == pytest.approx(max(abs(end) for end in ends))
    assert gap.low == pytest.approx(max(0.0, ends[0], -ends[1]))
    assert result.overall["own_auc"].value == pytest.approx(result.overall["auc"].value)


def test_the_same_seed_gives_the_same_interval_and_the_page_has_it():
    frame = people()
    ours, again = audit(frame, {"cost": cost}, seed=1), audit(frame, {"cost": cost}, seed=1)
    assert ours.groups.overall["cost"] == again.groups.overall["cost"]
    assert "cost: highest minus lowest" in ours.to_markdown()
    assert ours.settings["metrics"] == "cost"


def test_labels_go_to_the_parameter_of_their_name():
    frame = people()
    swapped = audit(frame, {"cost": lambda y_pred, y_true: cost(y_true, y_pred)}).groups
    assert swapped.overall["cost"].value == pytest.approx(cost(frame["true"], frame["selected"]))


def test_with_weights_and_a_reference():
    frame = people().assign(weight=np.random.default_rng(1).gamma(2.0, size=400))
    result = audit(frame, {"cost": cost}, sample_weight=frame["weight"], reference={"sex": "M"}).groups
    value = cost(frame["true"], frame["selected"], frame["weight"])
    assert result.overall["cost"].value == pytest.approx(value)
    women, men = (group.metrics["cost"].value for group in result.breakdowns[0].groups)
    gap = result.breakdowns[0].gap("cost_difference")
    assert gap.by_group["F"].value == pytest.approx(women - men)
    assert gap.reference == "M"


@pytest.mark.parametrize(
    ("metrics", "frame", "words"),
    [
        ({"accuracy": cost}, people(), "expected a new name"),
        ({"my cost": cost}, people(), "expected a new name"),
        ({"demographic_parity": cost}, people(), "expected a new name"),
        ({"cost": 3}, people(), "expected a function"),
        ({"cost": lambda y_true: 0.0}, people(), "function of two positional arguments, y_true and y_pred"),
        ({"cost": lambda *, y_true, y_pred: 0.0}, people(), "function of two positional arguments"),
        ({"cost": cost}, people().drop(columns="true"), "needs y_true"),
        ({"area": roc_auc_score}, people().drop(columns="score"), "needs y_score"),
        (
            {"cost": lambda y_true, y_pred: 0.0},
            people().assign(weight=1.5),
            "and of sample_weight because people have weights",
        ),
    ],
)
def test_what_is_no_metric_is_refused(metrics, frame, words):
    weights = {"sample_weight": frame["weight"]} if "weight" in frame else {}
    with pytest.raises(OptionError, match=words):
        audit(frame, metrics, **weights)


def test_where_a_metric_is_not_defined_is_said():
    frame = people()
    frame.loc[frame["sex"] == "F", "true"] = 1

    def ratio(y_true, y_pred):
        if (y_true == 1).all():
            raise ValueError("no one has the other label")
        return float(y_pred[y_true == 0].mean())

    breakdown = audit(frame, {"ratio": ratio}).groups.breakdowns[0]
    women = breakdown.groups[0].metrics["ratio"]
    assert isinstance(women, Unknown)
    assert "no one has the other label" in women.reason
    assert breakdown.gap("ratio_difference").not_assessable == {"F": int((frame["sex"] == "F").sum())}


def test_percentiles_of_a_mean_are_students_interval():
    """Draws of a mean are normal; the ends are those of Student's t, up to what 200,000 draws leave open."""
    values = np.random.default_rng(0).normal(size=12)
    spread = values.std() / np.sqrt(12)  # of the bootstrap: with divisor n
    draws = values.mean() + spread * np.random.default_rng(1).normal(size=200_000)
    expected = student_interval(values.mean(), values.var(ddof=1), 12, lower=-9, upper=9)
    assert expanded_percentiles(draws, 12) == pytest.approx([float(end) for end in expected], abs=0.01)


def test_inequality_by_hand():
    """One person without benefit, two with 1 and one with 2: the mean is 1, and half the variance is 1/4."""
    assert generalized_entropy(np.array([1, 2, 1]), 2) == pytest.approx(0.25)
    assert generalized_entropy(np.array([1, 2, 1]), 1) == pytest.approx(2 * math.log(2) / 4)
    assert generalized_entropy(np.array([0, 3, 0]), 2) == 0


def frame_of_aif360():
    rng = np.random.default_rng(5)
    frame = pd.DataFrame({"sex": rng.integers(0, 2, 500), "y": rng.integers(0, 2, 500)})
    chance = np.where(frame["y"] == 1, 0.7, 0.25 + 0.1 * frame["sex"])
    return frame.assign(decided=(rng.random(500) < chance).astype(int))


def figures(frame):
    result = evenhand.audit_predictions(
        frame["decided"],
        y_true=frame["y"],
        sensitive_features=frame[["sex"]],
        favourable=1,
        reference={"sex": "1"},
        min_group_size=1,
    ).groups
    overall, breakdown = result.overall, result.breakdowns[0]

    def against(name):
        return breakdown.gap(name).by_group["0"].value

    return {
        "statistical_parity_difference": against("demographic_parity_difference"),
        "disparate_impact": against("demographic_parity_ratio"),
        "equal_opportunity_difference": against("equal_opportunity_difference"),
        "false_discovery_rate_difference": against("false_discovery_difference"),
        "false_omission_rate_difference": against("false_omission_difference"),
        "generalized_entropy_index": overall["generalized_entropy_index"].value,
        "theil_index": overall["theil_index"].value,
        "false_discovery_rate": overall["false_discovery_rate"].value,
        "false_omission_rate": overall["false_omission_rate"].value,
    }


def test_the_figures_are_those_that_aif360_gave():
    """What ``aif360.metrics.ClassificationMetric`` (0.6.1) says of these decisions, privileged: sex 1."""
    assert figures(frame_of_aif360()) == pytest.approx(
        {
            "statistical_parity_difference": -0.045763610936972565,
            "disparate_impact": 0.9096362597600457,
            "equal_opportunity_difference": 0.050091074681238634,
            "false_discovery_rate_difference": -0.044922144136695596,
            "false_omission_rate_difference": -0.10477053140096618,
            "generalized_entropy_index": 0.1469888787857593,
            "theil_index": 0.20531193970638317,
            "false_discovery_rate": 0.2821576763485477,
            "false_omission_rate": 0.28957528957528955,
        }
    )


@pytest.mark.full
@pytest.mark.parametrize("alpha", [1.0, 2.0])
def test_intervals_of_inequality_hold(alpha):
    """Benefits with known shares; errors from none to two fifths, of 100 people and of 1,000."""
    rng, runs, held = np.random.default_rng(0), 500, []
    for n in (100, 1000):
        for wrong in [(0.0, 0.05), (0.05, 0.05), (0.2, 0.01), (0.4, 0.2)]:
            shares = np.array([wrong[0], 1 - sum(wrong), wrong[1]])
            true = generalized_entropy(shares, alpha)
            found = [decision_inequality(counts, n, alpha) for counts in rng.multinomial(n, shares, size=runs)]
            held.append(np.mean([one.low <= true <= one.high for one in found]))
    assert min(held) >= 0.93 - 3 * np.sqrt(0.95 * 0.05 / runs)


@pytest.mark.slow
def test_bootstrap_intervals_hold():
    """The cost of decisions of known quality in two groups: .6 and .3 on average, .3 apart."""
    rng, runs, inside, apart = np.random.default_rng(0), 80, 0, 0
    for run in range(runs):
        sex = np.repeat(["F", "M"], [80, 200])
        kind = np.concatenate([rng.choice(3, 80, p=[0.1, 0.8, 0.1]), rng.choice(3, 200, p=[0.05, 0.9, 0.05])])
        frame = pd.DataFrame({"sex": sex, "true": kind == 0, "selected": kind == 2}).astype(
            {"true": int, "selected": int}
        )
        result = audit(frame, {"cost": cost}, seed=run).groups.breakdowns[0]
        women = result.groups[0].metrics["cost"]
        inside += women.low <= 0.6 <= women.high
        gap = result.gap("cost_difference").value
        apart += gap.low <= 0.3 <= gap.high
    noise = 3 * np.sqrt(0.95 * 0.05 / runs)
    assert min(inside, apart) / runs >= 0.93 - noise


@pytest.mark.parametrize("answer", [lambda t, y: None, lambda t, y: {}["x"], lambda t, y: [1.0], lambda t, y: "0.5"])
def test_a_metric_that_fails_is_named(answer):
    with pytest.raises(OptionError, match=r"own: (TypeError|KeyError)"):
        audit(people(), {"own": answer})


def test_a_metric_may_be_undefined_without_a_reason():
    def undefined(y_true, y_pred):
        raise ValueError

    assert isinstance(audit(people(), {"own": undefined}).groups.overall["own"], Unknown)

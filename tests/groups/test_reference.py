"""Groups against a reference: every distance, the furthest of them, and intervals that hold together."""

import numpy as np
import pandas as pd
import pytest

import evenhand
from evenhand.errors import OptionError
from evenhand.groups.estimators import estimate_mean, estimate_rate
from evenhand.groups.gaps import GroupComparison, compare_groups
from evenhand.stats import Unknown, difference_interval, ratio_interval

SELECTED = {"a": (30, 100), "b": (50, 100), "c": (66, 120)}


def people(selected=SELECTED, **columns):
    rows = [(group, int(i < k)) for group, (k, n) in selected.items() for i in range(n)]
    return pd.DataFrame(rows, columns=["group", "selected"]).assign(**columns)


def audit(frame, by=("group",), **settings):
    true = frame.get("true")
    return evenhand.audit_predictions(
        frame["selected"], y_true=true, sensitive_features=frame[list(by)], favourable=1, **settings
    )


def gap(result, name="demographic_parity_difference"):
    return result.groups.breakdowns[0].gap(name)


def test_distances_from_the_middle_group_by_hand():
    """Selection rates .30, .50 and .55, compared with the group of .50."""
    result = audit(people(), reference={"group": "b"})
    found, ratio = gap(result), gap(result, "demographic_parity_ratio")
    assert {label: one.value for label, one in found.by_group.items()} == pytest.approx({"a": -0.2, "c": 0.05})
    assert {label: one.n for label, one in found.by_group.items()} == {"a": 200, "c": 220}
    assert found.value.value == pytest.approx(0.2)
    assert (found.reference, found.best, found.worst) == ("b", "b", "a")
    assert {label: one.value for label, one in ratio.by_group.items()} == pytest.approx({"a": 0.6, "c": 1.1})
    assert ratio.value.value == pytest.approx(0.6)
    assert found.value.low == pytest.approx(-found.by_group["a"].high)
    assert found.value.high == pytest.approx(-found.by_group["a"].low)


def test_two_groups_have_the_plain_intervals():
    ours = people({"a": (30, 100), "b": (50, 100)})
    found = gap(audit(ours, reference=["group=b"])).by_group["a"]
    assert (found.low, found.high) == pytest.approx(tuple(map(float, difference_interval(30, 100, 50, 100))))
    ratio = gap(audit(ours, reference=["group=b"]), "demographic_parity_ratio").value
    assert (ratio.low, ratio.high) == pytest.approx(tuple(map(float, ratio_interval(30, 100, 50, 100))))
    assert gap(audit(ours, reference=["group=b"])).value == gap(audit(ours)).value


def test_an_intersection_is_compared_with_the_intersection_of_references():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"group": rng.choice(["a", "b"], 800), "sex": rng.choice(["F", "M"], 800)})
    frame["selected"] = rng.integers(0, 2, 800)
    both = audit(frame, ("group", "sex"), reference={"group": "a", "sex": "M"}).groups.breakdowns[2]
    assert both.gap("demographic_parity_difference").reference == "a, M"
    assert len(both.gap("demographic_parity_difference").by_group) == 3
    one = audit(frame, ("group", "sex"), reference={"sex": "M"}).groups.breakdowns
    references = [part.gap("demographic_parity_difference").reference for part in one]
    assert references == ["", "M", ""]


def test_a_reference_too_small_leaves_nothing_to_compare():
    found = gap(audit(people({"a": (30, 100), "b": (5, 10), "c": (60, 120)}), reference={"group": "b"}))
    assert isinstance(found.value, Unknown)
    assert "the reference group b" in found.value.reason


@pytest.mark.parametrize(
    ("reference", "words"),
    [
        ({"group": "A"}, "no group 'A' by group(.|\n)*did you mean 'a'"),
        ({"grup": "a"}, "ATTRIBUTE=GROUP"),
        (["a"], "ATTRIBUTE=GROUP"),
        (["group=a", "group=b"], "one reference for group"),
    ],
)
def test_what_is_no_reference_is_refused(reference, words):
    with pytest.raises(OptionError, match=words):
        audit(people(), reference=reference)


def test_gates_and_words_are_about_the_reference():
    from evenhand.auditing import parse_gate

    plain, compared = audit(people()), audit(people(), reference={"group": "b"})
    gate = parse_gate("demographic_parity_difference.group > 0.22")
    assert gate.holds(plain)  # .25 between a and c
    assert not gate.holds(compared)  # .20 between a and b
    page = str(compared)
    assert "against the reference b" in page


@pytest.mark.full
def test_intervals_hold_together():
    """Five groups with known rates: all four distances from the first lie in their intervals."""
    rng = np.random.default_rng(0)
    p, n, runs = np.array([0.4, 0.1, 0.35, 0.5, 0.02]), np.array([200, 40, 90, 400, 60]), 2000
    comparison = GroupComparison("abcde", 0.95, 1, reference=0)
    inside = ratios = means = 0

    def covers(estimator, truth, **options):
        distances = compare_groups("gap", estimator, comparison, **options).by_group.values()
        return all(distance.low <= true <= distance.high for distance, true in zip(distances, truth, strict=True))

    for _ in range(runs):
        k = rng.binomial(n, p)
        rate, share = estimate_rate("selection_rate", n, n, k), k / n
        inside += covers(rate, p[1:] - p[0])
        ratios += covers(rate, p[1:] / p[0], ratio=True)
        means += covers(
            estimate_mean("mean_score", n, n, (share, share * (1 - share) * n / (n - 1)), (0.0, 1.0)), p[1:] - p[0]
        )
    noise = 3 * np.sqrt(0.95 * 0.05 / runs)
    assert min(inside, ratios, means) / runs >= 0.95 - noise

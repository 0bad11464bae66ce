"""Numbers by group: by hand, against plain loops, and as a guarantee that the intervals hold."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenhand.groups import DecisionRoles, GroupMetrics, measure_groups
from evenhand.models import Subject
from evenhand.models.scorer import ask_numbers
from evenhand.schema.decisions import RecordedNumbers
from evenhand.schema.people import ColumnRoles
from evenhand.stats import Unknown
from evenhand.stats.metric_specs import NUMBER_GAP_TITLES, unit_of
from evenhand.view import render_markdown


def measured(frame, target=None, **settings):
    return measure_groups(DecisionRoles("premium", ["sex"], target).read(frame), **settings)


HAND = pd.DataFrame(
    {"sex": ["F"] * 4 + ["M"] * 4, "premium": [10.0, 20, 30, 40, 30, 40, 50, 80], "claim": [20.0] * 4 + [40.0] * 4}
)


def test_by_hand():
    read = DecisionRoles("premium", ["sex"], "claim", favourable="lower").read(HAND)
    result = measure_groups(read, min_group_size=4)
    women, men = result.breakdowns[0].groups
    value = {name: quantity.value for name, quantity in women.metrics.items() if not isinstance(quantity, Unknown)}
    assert value == {"mean": 25.0, "true_mean": 20.0, "mean_residual": 5.0, "mean_absolute_error": 10.0}
    assert men.metrics["mean_residual"].value == 10.0
    gaps = {gap.name: gap for gap in result.breakdowns[0].gaps}
    assert (gaps["mean_difference"].value.value, gaps["mean_difference"].best) == (25.0, "M")
    assert gaps["residual_difference"].value.value == 5.0
    assert isinstance(gaps["median_difference"].value, Unknown)
    assert set(gaps) == set(NUMBER_GAP_TITLES)
    assert result.favourable == "lower"


@given(st.integers(0, 2**32 - 1))
def test_against_plain_loops(seed):
    rng = np.random.default_rng(seed)
    n = 120
    frame = pd.DataFrame({"sex": rng.choice(["F", "M", "X"], n), "premium": np.round(rng.gamma(2, 10, n), 1)})
    frame["claim"] = frame["premium"] + rng.normal(0, 3, n)
    result = measured(frame, "claim", min_group_size=10)
    parts = dict(list(frame.groupby("sex")))
    for group in result.breakdowns[0].groups:
        part = parts[group.label]
        residual = part["premium"] - part["claim"]
        assert group.size == len(part)
        assert group.metrics["mean"].value == pytest.approx(part["premium"].mean())
        assert group.metrics["mean_residual"].value == pytest.approx(residual.mean())
        assert group.metrics["mean_absolute_error"].value == pytest.approx(residual.abs().mean())
        median = group.metrics["median"]
        if not isinstance(median, Unknown):
            assert median.value == part["premium"].quantile(0.5, interpolation="lower")
    large = [part["premium"] for part in parts.values() if len(part) >= 10]
    means = [part.mean() for part in large]
    assert result.breakdowns[0].gap("mean_difference").value.value == pytest.approx(max(means) - min(means))


def test_relabelled_groups_and_moved_numbers_change_what_they_should():
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"sex": rng.choice(["F", "M"], 300), "premium": rng.gamma(2, 10, 300)})
    one = measured(frame).breakdowns[0]
    swapped = measured(frame.assign(sex=frame["sex"].map({"F": "M", "M": "F"}))).breakdowns[0]
    moved = measured(frame.assign(premium=1000 + 2 * frame["premium"])).breakdowns[0]
    for name in ("mean_difference", "median_difference"):
        assert swapped.gap(name).value.value == pytest.approx(one.gap(name).value.value)
        assert (swapped.gap(name).best, swapped.gap(name).worst) == (one.gap(name).worst, one.gap(name).best)
        for end in ("value", "low", "high"):
            twice = 2 * getattr(one.gap(name).value, end)
            assert getattr(moved.gap(name).value, end) == pytest.approx(twice)


@pytest.mark.slow
def test_the_gaps_of_unequal_groups_are_covered():
    rng = np.random.default_rng(2)
    hits = {"mean_difference": 0, "median_difference": 0, "quantile_90_difference": 0}
    truth = {"mean_difference": 10.0, "median_difference": 10.0, "quantile_90_difference": 10.0}
    runs = 150
    for _ in range(runs):
        sex = np.repeat(["F", "M"], [60, 140])
        frame = pd.DataFrame({"sex": sex, "premium": rng.gamma(2, 10, 200) + 10 * (sex == "M")})
        breakdown = measured(frame).breakdowns[0]
        for name in hits:
            value = breakdown.gap(name).value
            hits[name] += value.low <= truth[name] <= value.high
    assert all(count >= 0.90 * runs for count in hits.values()), hits


def test_a_regressor_is_measured_and_the_result_comes_back():
    rng = np.random.default_rng(6)
    people = pd.DataFrame({"sex": rng.choice(["F", "M"], 400), "age": rng.integers(18, 80, 400)})
    people["claim"] = 100.0 + people["age"] + rng.normal(0, 5, 400)
    read = ColumnRoles(target="claim", protected=["sex"]).read(people)

    def premium(frame):
        return 100.0 + frame["age"] + 12 * (frame["sex"] == "M")

    numbers = ask_numbers(Subject(premium, read).regressor, read.individuals)
    result = measure_groups(RecordedNumbers(read, numbers))
    residual = result.breakdowns[0].gap("residual_difference")
    assert residual.value.low < 12 < residual.value.high
    assert (residual.best, residual.worst) == ("M", "F")
    assert sum(group.size for group in result.calibration[0].groups) == 400
    assert GroupMetrics.from_json(result.to_json()) == result
    shown = render_markdown(result.document())
    assert "The mean claim of people with sex M is" in shown
    units = {gap.name: unit_of(gap.name) for gap in result.breakdowns[0].gaps}
    assert set(units.values()) == {"target"}


def test_people_of_unknown_value_are_in_no_group():
    rng = np.random.default_rng(8)
    frame = pd.DataFrame({"sex": rng.choice(["F", "M", "?"], 300), "premium": rng.gamma(2, 10, 300)})
    read = DecisionRoles("premium", ["sex"], accept_proposals=True).read(frame)
    breakdown = measure_groups(read).breakdowns[0]
    assert {group.label: group.size for group in breakdown.groups} == {
        name: int((frame["sex"] == name).sum()) for name in ("F", "M")
    }
    assert breakdown.unknown == int((frame["sex"] == "?").sum())


@pytest.mark.parametrize(("code", "noted"), [(999999, True), (-999, True), (121, False)])
def test_codes_of_unknown_numbers_are_noted(code, noted):
    premium = np.where(np.arange(60) % 10 == 0, code, 100 + np.arange(60) % 23)
    frame = pd.DataFrame({"sex": ["F", "M"] * 30, "premium": premium})
    people = DecisionRoles("premium", protected=["sex"]).read(frame).people
    assert any(str(code) in note for note in people.reading.notes) is noted

"""The pytest plug-in, in test runs of its own: a condition that holds fails the test, and says why."""

pytest_plugins = ["pytester"]

SUITE = """
import numpy as np
import pandas as pd
import pytest

people = pd.DataFrame({"sex": ["f", "m"] * 100, "points": np.arange(200) // 2})
labels = (people.points > 49).astype(int).rename("hired")

def model(frame):
    return (frame.points > 49).astype(int)

def unfair(frame):
    return ((frame.points > 49) & (frame.sex == "m")).astype(int)

pytestmark = pytest.mark.evenhand(protected=["sex"], fail_on=["flip_rate.sex > 0.01"], seed=0)

def test_fair(evenhand_audit):
    assert evenhand_audit(model, people, labels).protected == ("sex",)

def test_unfair(evenhand_audit):
    evenhand_audit(unfair, people, labels)

def test_condition_of_the_call(evenhand_audit):
    evenhand_audit(model, people, labels, fail_on=["accuracy > 0.9"])

@pytest.mark.evenhand(fail_on=["equal_opportunity_difference > 0.5"], min_group_size=500)
def test_not_assessable(evenhand_audit):
    evenhand_audit(model, people, labels)

@pytest.mark.evenhand(fail_on=["equal_opportunity_difference > 0.5"], min_group_size=500, allow_unassessable=True)
def test_unassessable_is_allowed(evenhand_audit):
    evenhand_audit(model, people, labels)
"""


def test_conditions_fail_tests(pytester):
    pytester.makepyfile(SUITE)
    run = pytester.runpytest_inprocess("-p", "no:cacheprovider", "-rA", "--strict-markers")
    run.assert_outcomes(passed=2, failed=3)
    text = run.stdout.str()
    assert "this holds: flip_rate.sex > 0.01 (flip_rate.sex = 0.5)" in text
    assert "this holds: accuracy > 0.9 (accuracy = 1)" in text
    assert "not assessable in equal_opportunity_difference > 0.5" in text
    assert "Traceback" not in text

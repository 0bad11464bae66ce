from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from evenhand.errors import OptionError
from evenhand.shields import FairnessProperty, Inputs, ShieldPlan

INPUTS = Inputs(("a", "b"), (0.3, 0.7), (0.35, 0.6), (0.4, 0.6))
PLAN = ShieldPlan(FairnessProperty("equal_opportunity", Fraction(1, 10)), INPUTS, 100)


def test_times_are_ascending_and_end_at_the_horizon() -> None:
    assert replace(PLAN, checks=(6, 3)).times == (3, 6, 100)
    assert replace(PLAN, checks=(6, 100)).times == (6, 100)
    assert replace(PLAN, horizon=3, checks="anytime").times == (1, 2, 3)


def test_a_plan_goes_on_from_other_counters() -> None:
    later = PLAN.continue_from((1, 1, 5, 2), horizon=3)
    assert (later.start, later.horizon, later.property) == ((1, 1, 5, 2), 3, PLAN.property)
    assert PLAN.continue_from((1, 1, 5, 2)).horizon == 100


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"horizon": 0}, "whole number of at least 1"),
        ({"horizon": 2.5}, "whole number of at least 1"),
        ({"horizon": True}, "whole number of at least 1"),
        ({"kind": "infinite"}, "unknown kind"),
        ({"checks": "sometimes"}, "unknown checks"),
        ({"checks": (101,)}, "between 1 and 100"),
        ({"terminal": "kind"}, "unknown terminal"),
        ({"bounds": (Fraction(1, 10), Fraction(2, 5))}, "welfare bounds"),
        ({"bounds": (Fraction(1, 5), Fraction(1, 10))}, "welfare bounds"),
        ({"start": (1, 2, 0, 0)}, "counters at the start"),
        ({"start": (1, 1)}, "counters at the start"),
        ({"start": (10**10, 0, 0, 0)}, "64 bits"),
        ({"inputs": replace(INPUTS, label=None)}, "share of label 1"),
    ],
)
def test_a_plan_that_makes_no_sense_is_refused(change: dict[str, Any], said: str) -> None:
    with pytest.raises(OptionError, match=said):
        replace(PLAN, **change)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"groups": ("a",)}, "two or more groups"),
        ({"groups": ("a", "a")}, "two or more groups"),
        ({"rate": (0.3, 0.3)}, "add up to"),
        ({"rate": (1.0,)}, "values for 2 groups"),
        ({"accept": (0.5, 1.5)}, "expected a probability"),
        ({"label": (0.5, float("nan"))}, "expected a probability"),
        ({"costs": ()}, "nonnegative"),
        ({"costs": (-1.0,)}, "nonnegative"),
        ({"costs": (float("inf"),)}, "nonnegative"),
        ({"costs": (1.0, 0.5), "weights": ()}, "not ascending"),
        ({"weights": (((1.0,), (1.0,)),)}, "one weight per group"),
        ({"weights": (((0.5,), (1.0,)), ((1.0,), (1.0,)))}, "add up to 1"),
    ],
)
def test_inputs_that_make_no_sense_are_refused(change: dict[str, Any], said: str) -> None:
    with pytest.raises(OptionError, match=said):
        replace(INPUTS, **change)


def test_weights_are_on_the_first_cost_unless_given() -> None:
    inputs = Inputs(("a", "b"), (0.3, 0.7), (0.35, 0.6), costs=(0.1, 1.0))
    assert inputs.weights == (((1.0, 0.0), (1.0, 0.0)),) * 2
    assert inputs.position("b") == inputs.position(1) == 1

"""Numbers as people read them: never so few digits that they say something else."""

from __future__ import annotations

import doctest
import math

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from evenhand.core import text
from evenhand.core.text import (
    format_against,
    format_duration,
    format_percent,
    list_some,
    percent_at_least,
    percent_at_most,
)
from evenhand.stats import Estimated, Observed, Proved
from evenhand.stats.quantity import COMBINED, explain_position, format_basis, format_ends, format_interval, format_value
from evenhand.view.drawing import axis

SHARES = st.floats(0, 1) | st.floats(1e-9, 1e-3) | st.floats(1e-9, 1e-3).map(lambda x: 1 - x)


def read(text: str) -> float:
    assert text.endswith(" %")
    return float(text.removesuffix(" %")) / 100


@pytest.mark.parametrize("module", [axis, text])
def test_the_examples_in_the_text_hold(module):
    tested = doctest.testmod(module)
    assert tested.failed == 0
    assert tested.attempted


@given(SHARES)
def test_percent_is_close_and_reaches_the_ends_only_there(share):
    assume(share == 0 or share > 1e-8)
    assume(share == 1 or share < 1 - 1e-8)
    shown = read(format_percent(share))
    assert abs(shown - share) <= 0.0005 + 1e-12
    assert (shown == 0) == (share == 0)
    assert (shown == 1) == (share == 1)


@given(SHARES)
def test_proved_bounds_are_rounded_to_the_safe_side(share):
    low, high = read(percent_at_least(share)), read(percent_at_most(share))
    assert low <= share + 1e-10
    assert high >= share - 1e-10
    assert high - low <= 0.0011


@pytest.mark.parametrize(
    ("share", "least", "most"),
    [
        (0.9611, "96.1 %", "96.2 %"),
        (0.961, "96.1 %", "96.1 %"),
        (0.999963, "99.9963 %", "99.9963 %"),
        (0.00417, "0.41 %", "0.42 %"),
        (0.0, "0 %", "0 %"),
        (1.0, "100 %", "100 %"),
    ],
)
def test_proved_bounds_by_hand(share, least, most):
    assert (percent_at_least(share), percent_at_most(share)) == (least, most)


def observed(value: float, low: float, high: float) -> Observed:
    return Observed(value=value, n=1200, low=low, high=high, confidence=0.95, method="m")


@pytest.mark.parametrize(
    ("name", "quantity", "value", "ends"),
    [
        ("demographic_parity_difference", observed(0.1849, 0.1671, 0.2031), "0.18", "0.17 to 0.20"),
        ("auc", observed(0.8914, 0.8844, 0.8981), "0.891", "0.884 to 0.898"),
        ("calibration_gap", observed(-0.00042, -0.0063, 0.0061), "-0.0004", "-0.0063 to 0.0061"),
        ("demographic_parity_ratio", observed(0.31, 0.0, math.inf), "0.31", "0 to without limit"),
        ("demographic_parity_difference", observed(0.0, 0.0, 0.05), "0", "0 to 0.05"),
        ("demographic_parity_ratio", observed(0.00013, 0.00001, 0.2), "0.00013", "0.00001 to 0.20000"),
        ("selection_rate", observed(0.2061, 0.1981, 0.2142), "20.6 %", "19.8 to 21.4 %"),
        ("selection_rate", observed(0.01003, 0.0083, 0.0121), "1.0 %", "0.8 to 1.2 %"),
        ("selection_rate", observed(0.00005, 0.000001, 0.00028), "0.0050 %", "0.0001 to 0.0280 %"),
        ("selection_rate", observed(0.0, 0.0, 0.00037), "0 %", "0 to 0.04 %"),
        ("selection_rate", observed(1.0, 0.97, 1.0), "100 %", "97.0 to 100 %"),
        ("selection_rate", observed(0.02, 0.0004, 0.1), "2.0 %", "0.0 to 10.0 %"),
        ("demographic_parity_difference", observed(0.11, 0.0031, 0.22), "0.11", "0.00 to 0.22"),
        ("demographic_parity_ratio", observed(0.0512, 0.000027, 0.254), "0.05", "0.00 to 0.25"),
        ("calibration_gap", observed(0.18, -0.0042, 0.37), "0.18", "0.00 to 0.37"),
        ("rate", observed(0.1820889147, 0.18208891469, 0.18208891471), "18.2 %", "18.2 to 18.2 %"),
        ("rate", observed(0.1820889147, 0.18208, 0.18209), "18.2089 %", "18.2080 to 18.2090 %"),
        ("auc", observed(0.8123456789, 0.8123456789, 0.8123456789 + 1e-15), "0.81", "0.81 to 0.81"),
        ("mean", observed(1234.56789, 1234.56789, 1234.56789 + 1e-12), "1,234.57", "1,234.57 to 1,234.57"),
    ],
)
def test_a_number_and_its_interval_have_fitting_digits(name, quantity, value, ends):
    assert format_value(quantity, name) == value
    assert format_ends(quantity, name) == ends
    assert format_interval(quantity, name) == f"95 % interval {ends}"


@pytest.mark.parametrize(
    ("value", "low", "high", "method", "explained"),
    [
        (0.0732, 0.0727, 0.0732, COMBINED, True),
        (0.0730, 0.0727, 0.0732, COMBINED, False),
        (0.0732, 0.0727, 0.0732, "exact", False),
    ],
)
def test_an_estimate_at_an_end_of_its_interval_is_explained(value, low, high, method, explained):
    estimate = Estimated(value=value, low=low, high=high, confidence=0.95, n=9, population="p", method=method)
    assert bool(explain_position(estimate)) == explained
    assert not explain_position(observed(value, low, high))


def test_kinds_in_words():
    assert format_basis(observed(0.2, 0.1, 0.3)) == "on 1,200 people"
    estimated = Estimated(value=0.2, low=0.1, high=0.3, confidence=0.999, n=1, population="everyone", method="m")
    assert format_basis(estimated) == "from 1 sampled individual"
    assert format_interval(estimated, "rate") == "99.9 % interval 10.0 to 30.0 %"
    assert format_basis(Proved(value=0.5, how="by counting")) == "by counting"
    assert format_interval(Proved(value=0.5, how="by counting"), "rate") == ""


@pytest.mark.parametrize(
    ("value", "shown"), [(0.79, "0.79"), (0.7999, "0.7999"), (0.8, "0.80"), (0.8001, "0.80"), (0.795, "0.795")]
)
def test_a_ratio_is_shown_on_its_side_of_the_threshold(value, shown):
    assert format_against(value, 0.8) == shown


@given(st.floats(0, 1.2))
def test_a_ratio_never_crosses_the_threshold_by_rounding(value):
    assume(abs(value - 0.8) > 1e-7)
    assert (float(format_against(value, 0.8)) < 0.8) == (value < 0.8)


@pytest.mark.parametrize(
    ("seconds", "shown"), [(0.04, "0.0 s"), (41.72, "41.7 s"), (185.2, "3 min 5 s"), (7384, "123 min 4 s")]
)
def test_durations(seconds, shown):
    assert format_duration(seconds) == shown


def test_lists_say_how_many_are_left_out():
    assert list_some(["a", "b"]) == "a, b"
    assert list_some([str(i) for i in range(15)], limit=3) == "0, 1, 2 and 12 more"

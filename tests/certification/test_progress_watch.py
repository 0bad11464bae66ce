"""Proving ends where another second of work decides too little."""

from __future__ import annotations

import pytest

from evenhand.certification.query.proved_mass import ProgressWatch


def stalls(least: float | None, course: list[tuple[float, float]]) -> list[bool]:
    watch = ProgressWatch(least, 1000)
    return [watch.stalled(undecided, round(1000 * now)) for now, undecided in course]


def test_a_quarter_of_a_second_without_progress_is_noticed() -> None:
    assert stalls(0.01, [(0.0, 0.5), (0.1, 0.5), (0.2, 0.5), (0.25, 0.5)]) == [False, False, False, True]


def test_nothing_is_said_before_a_quarter_of_a_second_has_passed() -> None:
    assert stalls(0.01, [(0.0, 0.5), (0.24, 0.5)]) == [False, False]


def test_winning_back_what_smaller_boxes_lost_is_no_progress() -> None:
    assert stalls(0.01, [(0.0, 0.2), (0.2, 0.4), (0.5, 0.3)]) == [False, False, True]
    assert stalls(0.01, [(0.0, 0.2), (0.2, 0.4), (0.5, 0.1)]) == [False, False, False]


def test_seconds_are_numbers_of_boxes() -> None:
    for rate in (10, 1000):
        watch = ProgressWatch(0.01, rate)
        assert [watch.stalled(0.5, boxes) for boxes in (0, rate // 5, rate // 2)] == [False, False, True]


def test_enough_progress_goes_on() -> None:
    assert not any(stalls(0.01, [(0.25 * k, 0.5 - 0.01 * k) for k in range(40)]))


@pytest.mark.parametrize("fast", [True, False])
def test_the_last_second_counts_and_not_the_run(fast: bool) -> None:
    """A run that began fast ends when it slows down, whatever it decided before."""
    course = [(0.0, 0.9), (1.0, 0.2), (2.0, 0.2 - (0.05 if fast else 0.001))]
    assert stalls(0.01, course)[-1] is not fast


def test_a_long_round_is_judged_by_its_rate() -> None:
    """Half a percent in five seconds is a thousandth in each."""
    assert stalls(0.0005, [(0.0, 0.5), (5.0, 0.495)]) == [False, False]
    assert stalls(0.0005, [(0.0, 0.5), (5.0, 0.499)]) == [False, True]


def test_without_a_bound_nothing_stalls() -> None:
    assert not any(stalls(None, [(float(k), 0.5) for k in range(10)]))


def test_nothing_stalls_before_anything_is_decided() -> None:
    assert stalls(0.01, [(0.0, 1.0), (5.0, 1.0), (9.0, 0.995), (9.5, 0.6), (10.6, 0.6)]) == [False] * 4 + [True]

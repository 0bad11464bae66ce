"""Proving ends where another second of work decides too little."""

from __future__ import annotations

import pytest

from evenhand.certification.query.proved_mass import ProgressWatch

COURSES: dict[str, tuple[float | None, list[tuple[float, float]], list[int]]] = {
    "a quarter of a second without progress": (0.01, [(0.0, 0.5), (0.1, 0.5), (0.2, 0.5), (0.25, 0.5)], [3]),
    "too early to tell": (0.01, [(0.0, 0.5), (0.24, 0.5)], []),
    "only wins back what smaller boxes lost": (0.01, [(0.0, 0.2), (0.2, 0.4), (0.5, 0.3)], [2]),
    "wins back more": (0.01, [(0.0, 0.2), (0.2, 0.4), (0.5, 0.1)], []),
    "steady progress": (0.01, [(0.25 * k, 0.5 - 0.01 * k) for k in range(40)], []),
    "slows down after a fast start": (0.01, [(0.0, 0.9), (1.0, 0.2), (2.0, 0.199)], [2]),
    "stays fast": (0.01, [(0.0, 0.9), (1.0, 0.2), (2.0, 0.15)], []),
    "half a percent in five seconds": (0.0005, [(0.0, 0.5), (5.0, 0.495)], []),
    "a thousandth in five seconds": (0.0005, [(0.0, 0.5), (5.0, 0.499)], [1]),
    "no bound": (None, [(float(k), 0.5) for k in range(10)], []),
    "nothing decided yet": (0.01, [(0.0, 1.0), (5.0, 1.0), (9.0, 0.995), (9.5, 0.6), (10.6, 0.6)], [4]),
}
"""Least progress of a second; seconds and undecided mass of each report; reports that find the run stalled."""


def stalled_reports(least: float | None, course: list[tuple[float, float]], rate: int) -> list[int]:
    watch = ProgressWatch(least, rate)
    return [at for at, (now, undecided) in enumerate(course) if watch.stalled(undecided, round(rate * now))]


@pytest.mark.parametrize(("least", "course", "stalled"), COURSES.values(), ids=COURSES)
def test_a_run_stalls_where_a_second_decides_too_little(least, course, stalled):
    assert stalled_reports(least, course, 1000) == stalled


def test_seconds_are_numbers_of_boxes():
    for rate in (10, 1000):
        assert stalled_reports(0.01, [(0.0, 0.5), (0.2, 0.5), (0.5, 0.5)], rate) == [2]

"""Time limits: when they pass, and whether they decided the course of a run."""

import pytest

from evenhand.core.time_limit import NEVER, TimeLimit, check_time
from evenhand.errors import LimitError


@pytest.fixture
def seconds(monkeypatch):
    """The reading of the clock, in a list."""
    reading = [100.0]
    monkeypatch.setattr("evenhand.core.time_limit.RUNNING_SECONDS", lambda: reading[0])
    return reading


def test_passes_after_its_seconds(seconds):
    limit = TimeLimit(5)
    seconds[0] += 4
    assert not limit.passed()
    assert limit.clock.passed(5, ahead=1)
    seconds[0] += 1
    assert limit.passed()


def test_says_whether_it_decided_the_course_of_a_run(seconds):
    limit, read = TimeLimit(5), TimeLimit(5)
    limit.passed()
    assert not limit.decided
    assert read.left() == 5.0
    assert read.decided
    seconds[0] += 5
    limit.passed()
    assert limit.decided


def test_a_share_begins_now_and_is_a_part_of_what_is_left(seconds):
    limit = TimeLimit(10)
    seconds[0] += 4
    part = limit.share(0.5)
    assert part.moment == 7.0
    seconds[0] += 3
    assert part.passed()
    assert limit.decided


def test_no_limit_never_passes_and_decides_nothing(seconds):
    seconds[0] += 1e9
    assert not NEVER.passed()
    assert NEVER.left() is None
    assert NEVER.share(0.5) is NEVER
    assert not NEVER.decided


def test_preparations_end_at_an_enforced_limit(seconds):
    check_time()
    with TimeLimit(0).enforced(), pytest.raises(LimitError):
        check_time()
    check_time()

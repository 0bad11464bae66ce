"""Limits of time are recorded and repeated: a clock that says once more what it said."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenhand.core import Config, Work, WorkClock, read_work, setting
from evenhand.errors import DataError, OptionError


class Settings(Config):
    """Settings of an analysis."""

    time_limit: float | None = setting(None, "seconds")
    seed: int = setting(0, "seed")


@given(st.lists(st.one_of(st.booleans(), st.none()), max_size=60))
def test_what_a_clock_said_is_said_once_more(answers):
    def run(clock):
        timer = WorkClock.start(clock, Settings())
        said = [timer.now() if one is None else timer.decide(lambda one=one: one) for one in answers]
        return said, timer.work()

    said, work = run(None)
    again, repeated = run(WorkClock(Work.model_validate_json(work.model_dump_json())))
    assert again == said
    assert repeated == work
    assert work.repeatable == (not any(one is None or one for one in answers))
    assert sum(work.checks) == sum(one is not None for one in answers)


def test_checks_are_counted_by_hand():
    timer = WorkClock.start(None, Settings())
    for reached in (False, False, True, False, True, True):
        timer.decide(lambda reached=reached: reached)
    assert timer.work().checks == (2, 1, 1, 2)
    first = WorkClock.start(None, Settings())
    first.decide(lambda: True)
    assert first.work().checks == (0, 1)


def test_a_moment_passes():
    timer = WorkClock.start(None, Settings())
    assert not timer.passed(None)
    assert timer.passed(0.0)
    assert not timer.passed(3600.0)
    assert timer.passed(3600.0, ahead=3601.0)
    assert timer.work().checks == (0, 1, 1, 1)


def test_limits_can_be_those_of_another_clock():
    seconds = [100.0]
    timer = WorkClock.start(WorkClock(seconds=lambda: seconds[0]), Settings())
    seconds[0] += 5
    assert timer.passed(4)
    assert not timer.passed(6)
    assert not timer.from_now().passed(1)


def test_a_part_of_an_analysis_shares_the_record_and_the_outermost_reports_it():
    whole = WorkClock.start(None, Settings(seed=1))
    part = WorkClock.start(whole, Settings(seed=2))
    part.now()
    assert part.work() is None
    assert len(whole.work().readings) == 1
    assert whole.work().settings == {"time_limit": None, "seed": 1}


def test_other_settings_and_a_longer_run_are_refused():
    timer = WorkClock.start(None, Settings(seed=1))
    timer.passed(3600.0)
    with pytest.raises(OptionError, match="had seed 1, not 2"):
        WorkClock.start(WorkClock(timer.work()), Settings(seed=2))
    again = WorkClock.start(WorkClock(timer.work()), Settings(seed=1))
    assert not again.passed(0.0)
    with pytest.raises(DataError, match="ends before this run does"):
        again.passed(0.0)


def test_work_is_read_from_a_result(tmp_path):
    timer = WorkClock.start(None, Settings())
    timer.now()
    path = tmp_path / "result.json"
    path.write_text(json.dumps({"kind": "any", "work": timer.work().model_dump(mode="json")}))
    assert read_work(path) == timer.work()
    for text in ("", "[]", "{}", '{"work": null}', '{"work": {"settings": 1}}'):
        path.write_text(text)
        with pytest.raises(DataError):
            read_work(path)
    with pytest.raises(DataError, match="cannot be read"):
        read_work(tmp_path / "none.json")

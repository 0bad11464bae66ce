"""Independent calls on workers: every part once, also when workers are lost, and errors as they are."""

import os
import signal
from pathlib import Path

import joblib
import pytest

from evenhand.core import parallel
from evenhand.errors import DataError, OptionError


def square(part):
    return part * part


def fail(part):
    raise DataError(f"part {part} is damaged")


def die_where_marked(part):
    """Return a square; the process that has the marked part first is killed."""
    number, mark = part
    if number == 3 and Path(mark).exists():
        Path(mark).unlink()
        os.kill(os.getpid(), signal.SIGKILL)
    return number * number


def die_elsewhere(part):
    """Return a square in the given process; others are killed."""
    number, process = part
    if os.getpid() != process:
        os.kill(os.getpid(), signal.SIGKILL)
    return number * number


@pytest.mark.parametrize("backend", ["sequential", "threading"])
def test_runs_every_part_once(backend):
    with joblib.parallel_config(backend=backend):
        assert sorted(parallel.run_parts(square, range(20), 3)) == [(n, n * n) for n in range(20)]
    assert list(parallel.run_parts(square, [], 2)) == []


def test_errors_of_a_call_are_raised():
    with pytest.raises(DataError, match="part 0 is damaged"):
        list(parallel.run_parts(fail, range(2), 1))


def test_workers_of_another_version_are_refused():
    with pytest.raises(OptionError, match=r"expected Evenhand 0\.0 on all workers"):
        parallel._run_part("0.0", square, 0, 1)


@pytest.mark.parametrize("workers", [0, -2, True, 1.5, "2"])
def test_refuses_other_numbers_of_workers(workers):
    with pytest.raises(OptionError, match="expected a positive number of worker processes"):
        parallel.count_workers(workers)


@pytest.mark.slow
def test_parts_of_a_killed_worker_run_again(tmp_path):
    mark = tmp_path / "mark"
    mark.touch()
    found = dict(parallel.run_parts(die_where_marked, [(n, str(mark)) for n in range(8)], 2))
    assert found == {n: n * n for n in range(8)}
    assert not mark.exists()


@pytest.mark.slow
def test_parts_that_end_every_worker_run_in_this_process():
    found = dict(parallel.run_parts(die_elsewhere, [(n, os.getpid()) for n in range(3)], 2))
    assert found == {n: n * n for n in range(3)}

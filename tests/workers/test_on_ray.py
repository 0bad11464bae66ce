"""The same units on a real Ray with two processors: one worker is killed, one stopped; one unit ends its workers."""

from __future__ import annotations

import os
from importlib.util import find_spec

import pytest
from test_units import Squares

from evenhand.workers import MOST_LOSSES, Worker, WorkerPool, executors, pools, run_units

if find_spec("ray") is None:
    pytest.skip("Ray is not installed: pip install ray", allow_module_level=True)

import ray

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(scope="module")
def executor():
    paths = os.pathsep.join([os.path.dirname(__file__), os.environ.get("PYTHONPATH", "")])
    ray.init(
        num_cpus=2,
        include_dashboard=False,
        log_to_driver=False,
        object_store_memory=200_000_000,
        runtime_env={"env_vars": {"PYTHONPATH": paths}},
    )
    yield executors._RayExecutor(ray)
    ray.shutdown()


def test_results_are_the_same_whether_workers_are_lost_or_hang(executor, tmp_path, monkeypatch):
    monkeypatch.setattr(pools, "LEAST_LEASE", 3.0)
    found = {}
    task = Squares(str(tmp_path), {5: 1, 7: 99}, stopped=(9,))
    ended = run_units(task, range(16), WorkerPool([Worker(executor)] * 2), found.__setitem__)
    assert found == {unit: unit * unit for unit in range(16) if unit != 7}
    assert ended.given_up == [7]
    assert len(list(tmp_path.glob("7-*"))) == MOST_LOSSES

"""The same units on a real Dask scheduler with two worker processes: one is killed, one stopped, the scheduler ends."""

from __future__ import annotations

import logging

import pytest
from test_units import Squares

from evenhand.errors import FetchError, OptionError
from evenhand.workers import Workforce, open_pool, pools

dask = pytest.importorskip("dask", reason="needs the extra dask")
distributed = pytest.importorskip("distributed", reason="needs the extra dask")

pytestmark = pytest.mark.full


@pytest.fixture(scope="module")
def cluster():
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": ":0", "host": "127.0.0.1"}
    with distributed.LocalCluster(**options, silence_logs=logging.CRITICAL) as cluster:
        yield cluster


@pytest.fixture
def address(cluster):
    return cluster.scheduler_address.replace("tcp://", "dask://")


def test_a_scheduler_that_is_not_there_is_refused():
    with pytest.raises(OptionError, match="no Dask scheduler answers"), open_pool("dask://127.0.0.1:1"):
        pass


def test_results_are_the_same_whether_workers_are_lost_or_hang(address, tmp_path, monkeypatch):
    monkeypatch.setattr(pools, "LEAST_LEASE", 1.0)
    found, ended = Workforce(address).compute(Squares(str(tmp_path), {5: 1}, stopped=(9,)), 16)
    assert found == {unit: unit * unit for unit in range(16)}
    assert ended.given_up == []


@pytest.mark.slow
def test_a_scheduler_that_ends_ends_the_work_with_an_error(cluster, address):
    with dask.config.set({"distributed.comm.timeouts.connect": "1s"}), open_pool(address) as pool:
        cluster.close()
        with pytest.raises(FetchError, match="does not answer any more"):
            pool.call(abs, -1)

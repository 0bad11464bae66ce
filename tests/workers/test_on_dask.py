"""The same units on a real Dask scheduler with two worker processes, one of which is killed."""

from __future__ import annotations

import pytest
from test_units import Squares

from evenhand.errors import OptionError
from evenhand.workers import Workforce, open_pool

distributed = pytest.importorskip("distributed", reason="needs the extra dask")

pytestmark = pytest.mark.full


@pytest.fixture(scope="module")
def scheduler():
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None, "host": "127.0.0.1"}
    with distributed.LocalCluster(**options, silence_logs=True) as cluster:
        yield cluster.scheduler_address.replace("tcp://", "dask://")


def test_a_cluster_gives_the_same_results_and_a_lost_worker_costs_a_second_try(scheduler, tmp_path):
    found, ended = Workforce(scheduler).compute(Squares(str(tmp_path), {5: 1}), 12)
    assert found == {unit: unit * unit for unit in range(12)}
    assert ended.given_up == []


def test_a_scheduler_that_is_not_there_is_refused():
    with pytest.raises(OptionError, match="no Dask scheduler answers"), open_pool("dask://127.0.0.1:1"):
        pass

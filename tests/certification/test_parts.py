"""Certificates in parts: sound, and the same for any number of workers, whatever backend and whichever is lost."""

from __future__ import annotations

import os
import signal
from functools import partial
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pytest
from cases import random_case, real_network, true_shares
from hypothesis import given, settings
from hypothesis import strategies as st
from test_repeating import forest
from test_tree_certificates import random_model
from test_tree_certificates import true_shares as true_tree_shares

from evenhand import certification, checker
from evenhand.certification import parts
from evenhand.certification.bounds.frontier import BoxFrontier, cell_record, frontier_of, pack_cells
from evenhand.certification.query.proved_mass import SearchLimits
from evenhand.errors import OptionError
from evenhand.models import AdditiveNetwork, TreeEnsemble
from support import scaled

OF_THE_RUN = ("seconds", "cpu_seconds", "history")


@pytest.fixture(autouse=True)
def many_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut small runs into several parts, too."""
    monkeypatch.setattr(parts, "PART_SECONDS", 0.005)
    monkeypatch.setattr(parts, "BOXES_DEALT", 32)


def certify(
    model: AdditiveNetwork | TreeEnsemble, workers: int | None, *, boxes: int | None = 2_000, **options: Any
) -> dict[str, Any]:
    """Return the fields of a certificate that do not depend on the machine."""
    result = certification.certify(model, max_boxes=boxes, enumeration=False, samples=100, workers=workers, **options)
    return {name: value for name, value in result.model_dump().items() if name not in OF_THE_RUN}


def large_network() -> AdditiveNetwork:
    return real_network("AC-1", "sex")


def large_trees() -> TreeEnsemble:
    trees = forest()
    assert isinstance(trees, TreeEnsemble)
    return trees


@given(st.lists(st.floats(0, 1, width=32), max_size=40), st.integers(1, 9))
def test_dealt_parts_are_disjoint_and_hold_every_box(undecided, number):
    cells = np.arange(len(undecided))[:, None]
    record = cell_record(np.array([max(2, len(undecided))]))
    boxes = frontier_of(pack_cells(cells, cells, record), np.ones(len(undecided)), np.array(undecided))
    dealt = parts.deal_boxes(boxes, number)
    assert len(dealt) == number
    assert max(map(len, dealt)) - min(map(len, dealt)) <= 1
    rejoined = BoxFrontier.concatenate(dealt)
    assert sorted(rejoined.lo[:, 0].tolist()) == list(range(len(undecided)))
    assert sorted(rejoined.open.tolist()) == sorted(boxes.open.tolist())


def test_the_number_of_parts_follows_from_the_limits_alone(monkeypatch):
    monkeypatch.setattr(parts, "PART_SECONDS", 2.0)
    limits = {"target_undecided": None, "boxes_per_second": 1000.0}
    assert parts.count_parts(SearchLimits(None, 100, **limits)) == 1
    assert parts.count_parts(SearchLimits(None, 20_000, **limits)) == 16
    assert parts.count_parts(SearchLimits(None, 10**9, **limits)) == parts.MAX_PARTS
    assert parts.count_parts(SearchLimits(8.0, 20_000, **limits)) == 4
    assert parts.count_parts(SearchLimits(None, None, **limits)) == parts.MAX_PARTS


@given(st.integers(0, 10_000), st.booleans(), st.sampled_from([7, 20, 300, 5_000]), st.sampled_from([None, 1e-3]))
@settings(max_examples=scaled(120), deadline=None)
def test_parts_are_proved_soundly(seed, trees, boxes, progress):
    if trees:
        model, population = random_model(seed)
        fair, unfair, _ = true_tree_shares(model, population)
    else:
        case = random_case(seed)
        model, population = case.network, case.population
        fair, unfair = true_shares(case)
    result = certify(model, 1, boxes=boxes, population=population, min_progress=None if trees else progress)
    assert result["certified"] <= fair + 1e-9 * trees
    assert result["falsified"] <= unfair + 1e-9 * trees
    assert result["certified"] + result["falsified"] + result["undecided"] == pytest.approx(1.0)


@pytest.mark.parametrize("model", [large_network, large_trees])
def test_any_number_of_workers_gives_the_same_certificate(model, tmp_path, monkeypatch):
    box, cut = model(), []
    deal = parts.deal_boxes
    monkeypatch.setattr(parts, "deal_boxes", lambda boxes, number: cut.append(number) or deal(boxes, number))
    one = certify(box, 1, certificate=tmp_path / "1")
    assert cut[0] > 4
    for workers in (2, 4):
        with joblib.parallel_config(backend="threading"):
            assert certify(box, workers, certificate=tmp_path / str(workers)) == one
        assert (tmp_path / str(workers)).read_bytes() == (tmp_path / "1").read_bytes()
    assert checker.check_certificate(tmp_path / "1", box, sample=None).verdict == "confirmed"


def test_a_target_is_reached_in_parts_together():
    result = certify(large_network(), 1, boxes=None, target_undecided=0.2)
    assert result["undecided"] <= 0.2
    assert result["stopped_by"] in ("target", "done")


def test_an_interrupt_keeps_the_parts_that_are_done(monkeypatch):
    network, done, refine = large_network(), [], parts.refine_part

    def interrupted(part: Any) -> Any:
        if len(done) == 2:
            done.append(part)
            raise KeyboardInterrupt
        done.append(part)
        return refine(part)

    whole = certify(network, 1)
    monkeypatch.setattr(parts, "refine_part", interrupted)
    result = certify(network, 1)
    assert result["stopped_by"] == "interrupt"
    assert 0 < result["certified"] <= whole["certified"]
    assert result["certified"] + result["falsified"] + result["undecided"] == pytest.approx(1.0)


def test_a_time_limit_ends_all_parts():
    network = real_network("AC-1", "sex")
    certify(network, 1, boxes=100)
    result = certification.certify(network, time_limit=2.0, enumeration=False, samples=100, workers=1)
    assert result.stopped_by == "time"
    assert result.time_limited
    assert result.undecided > 0


@pytest.mark.parametrize("workers", [0, -2, True])
def test_other_numbers_of_workers_are_refused(workers):
    with pytest.raises(OptionError, match="expected a positive number of worker processes"):
        certify(large_network(), workers)


def die_once(mark: Path, part: parts.Part) -> parts.PartResult:
    """Refine a part, on a worker that is killed the first time."""
    if mark.exists() and os.getpid() != int(mark.read_text()):
        mark.unlink()
        os.kill(os.getpid(), signal.SIGKILL)
    return parts.refine_part(part)


@pytest.mark.slow
@pytest.mark.parametrize("model", [large_network, large_trees])
def test_processes_of_which_one_is_killed_give_the_same_certificate(model, tmp_path, monkeypatch):
    box, mark = model(), tmp_path / "mark"
    one = certify(box, 1)
    mark.write_text(str(os.getpid()))
    run_parts = parts.run_parts
    monkeypatch.setattr(
        parts, "run_parts", lambda call, todo, workers: run_parts(partial(die_once, mark), todo, workers)
    )
    assert certify(box, 2) == one
    assert not mark.exists()


@pytest.mark.slow
@pytest.mark.parametrize("model", [large_network, large_trees])
def test_a_dask_cluster_gives_the_same_certificate(model):
    distributed = pytest.importorskip("distributed", reason="needs the extra dask")
    box = model()
    one = certify(box, 1)
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": ":0", "host": "127.0.0.1"}
    with (
        distributed.LocalCluster(**options, silence_logs=50) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
        joblib.parallel_config(backend="dask", client=client),
    ):
        assert certify(box, -1) == one

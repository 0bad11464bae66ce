"""Searches whose questions workers answer: the result of one process, whatever their number, and what is refused."""

import json

import joblib
import numpy as np
import pandas as pd
import pytest

from evenhand.errors import OptionError
from evenhand.individual.search import search
from evenhand.models import parallel
from evenhand.schema.people import ColumnRoles


def forest(frame):
    """A model that a worker can import, with steps as trees have them."""
    steps = np.floor(frame["income"].to_numpy(dtype=float) / 7) + np.floor(frame["age"].to_numpy(dtype=float) / 9)
    chance = 1 / (1 + np.exp(-(steps - 9 + (frame["sex"] == "M").to_numpy())))
    return np.column_stack([1 - chance, chance])


def people(n=200):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"sex": rng.choice(["F", "M"], n), "age": rng.integers(18, 70, n)})
    frame["income"] = rng.integers(0, 60, n)
    frame["hired"] = rng.integers(0, 2, n)
    return ColumnRoles(target="hired", protected=["sex"]).read(frame)


def found_by(model=forest, workers=None, **settings):
    settings = {"budget": 2_000, "samples": 100, "seed": 3} | settings
    found = json.loads(search(model, people(), workers=workers, **settings).to_json())
    return {name: value for name, value in found.items() if name != "seconds"}


@pytest.mark.parametrize("method", ["frontier", "aequitas"])
@pytest.mark.parametrize("workers", [1, 3])
def test_the_result_is_that_of_one_process_however_many_workers_answer(monkeypatch, method, workers):
    monkeypatch.setattr(parallel, "PIECE_ROWS", 100)
    alone = found_by(method=method)
    assert alone["profiles"] > 0
    with joblib.parallel_config(backend="threading"):
        for _ in range(2):  # together more rows than the budget of one search, by the same copy
            assert found_by(method=method, workers=workers) == alone


@pytest.mark.full
def test_processes_answer_with_a_copy_of_the_model():
    assert found_by(workers=2) == found_by()


def test_what_workers_cannot_answer_is_refused():
    with pytest.raises(OptionError, match="cannot be sent to workers") as error:
        found_by(lambda frame: forest(frame), 1)
    assert "a module that workers can import" in error.value.hint
    packed = np.frombuffer(b"cnowhere_to_be_imported\nforest\n.", dtype=np.uint8)
    with pytest.raises(OptionError, match="a worker cannot load the model"):
        parallel._answer_rows("key", packed, np.zeros((1, 3)))
    for workers in (0, -2, True):
        with pytest.raises(OptionError, match="expected a positive number of worker processes"):
            found_by(workers=workers)

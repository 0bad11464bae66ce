"""A certificate that a clock had a say in is repeated, to the last leaf of its JSON, by the work that it records."""

import json

import numpy as np
import pytest
from cases import real_network

from evenhand.certification import Certificate, certify
from evenhand.core import Work, WorkClock
from evenhand.errors import OptionError
from evenhand.models import load_model
from evenhand.schema import Schema
from support import leaves_but_clocks


def leaves(found: Certificate) -> dict[str, object]:
    return leaves_but_clocks(json.loads(found.to_json()))


def repeat(network, found, **settings):
    work = Work.model_validate(json.loads(found.to_json())["work"])
    return certify(network, clock=WorkClock(work), **settings)


@pytest.mark.parametrize(
    "settings",
    [
        {"time_limit": 1.0},
        {"time_limit": 0.6, "device": "numpy"},
        {"time_limit": 2.0, "min_progress": 1e-9},
    ],
)
def test_a_network_under_a_limit_of_time_is_proved_again_as_it_was(settings):
    network = real_network("AC-1", "sex")
    found = certify(network, enumeration=False, **settings)
    assert found.stopped_by == "time"
    assert not found.work.repeatable
    assert "A time limit was used" in found.provenance
    # Other numbers of threads, and a busier machine, change nothing.
    again = repeat(network, found, enumeration=False, jobs=1, **settings)
    assert leaves(again) == leaves(found)


def test_symbolic_intervals_cut_short_are_repeated():
    network, settings = real_network("AC-1", "sex"), {"method": "interval", "time_limit": 600.0, "enumeration": False}
    whole = certify(network, **settings)
    # As a slower machine would have recorded it: the third look at the clock comes too late.
    slow = whole.work.model_copy(update={"checks": (2, 1000), "threads": 2})
    found = certify(network, clock=WorkClock(slow), **settings)
    assert found.stopped_by == "time"
    assert found.boxes < whole.boxes
    assert leaves(repeat(network, found, **settings)) == leaves(found)


FOREST = Schema.parse(
    {
        "target": {"name": "t", "favourable": 1, "values": [0, 1]},
        "attributes": [
            {"name": "sex", "kind": "categorical", "values": [0, 1], "protected": True, "encoding": "code"},
            *({"name": f"x{i}", "kind": "integer", "lower": 0, "upper": 99} for i in range(8)),
        ],
    }
)


def forest():
    from sklearn.ensemble import RandomForestClassifier

    from evenhand.models import extract_white_box

    rng = np.random.default_rng(0)
    x = np.column_stack([rng.integers(0, 2, 600), rng.integers(0, 100, (600, 8))]).astype(float)
    y = (x[:, 1:].sum(axis=1) + 25 * x[:, 0] + rng.normal(0, 40, 600) > 410).astype(int)
    model = RandomForestClassifier(n_estimators=12, max_depth=7, random_state=0, n_jobs=1).fit(x, y)
    return extract_white_box(load_model(model, FOREST))


def test_trees_under_a_limit_of_time_are_proved_again_as_they_were():
    trees = forest()
    found = certify(trees, time_limit=1.0, enumeration=False)
    assert found.stopped_by == "time"
    again = repeat(trees, found, time_limit=1.0, enumeration=False)
    assert leaves(again) == leaves(found)


def test_trees_that_stop_after_so_many_boxes_need_no_clock():
    trees = forest()
    first, second = (certify(trees, max_boxes=3000, enumeration=False, jobs=2) for _ in range(2))
    assert first.work.repeatable
    assert leaves(first) == leaves(second)


@pytest.mark.parametrize("settings", [{"max_boxes": 4000}, {"target_undecided": 0.4}, {"max_boxes": 2000, "jobs": 1}])
def test_a_budget_of_boxes_is_repeatable_by_the_seed(settings):
    network = real_network("AC-1", "sex")
    found = certify(network, enumeration=False, **settings)
    assert found.work.repeatable
    assert found.work.readings == found.work.checks == ()
    assert "not repeatable" not in found.provenance
    assert leaves(certify(network, enumeration=False, **settings)) == leaves(found)


def test_work_of_another_question_is_refused():
    network = real_network("AC-1", "sex")
    found = certify(network, enumeration=False, time_limit=0.5, seed=1)
    with pytest.raises(OptionError, match="had seed 1, not 2"):
        repeat(network, found, enumeration=False, time_limit=0.5, seed=2)

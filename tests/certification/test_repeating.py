"""Certificates under a time limit say so, and all others are repeated by their seed."""

import json

import numpy as np
import pytest
from cases import integer, real_network

from evenhand.certification import Certificate, certify
from evenhand.models import load_model
from evenhand.schema import Schema
from support import leaves_but_clocks


def leaves(found: Certificate) -> dict[str, object]:
    return leaves_but_clocks(json.loads(found.to_json()))


FOREST = Schema.parse(
    {
        "target": {"name": "t", "favourable": 1, "values": [0, 1]},
        "attributes": [
            {"name": "sex", "kind": "categorical", "values": [0, 1], "protected": True, "encoding": "code"},
            *(integer(f"x{i}", 0, 99) for i in range(8)),
        ],
    }
)


def forest():
    from sklearn.ensemble import RandomForestClassifier

    from evenhand.models.white_box import extract_white_box

    rng = np.random.default_rng(0)
    x = np.column_stack([rng.integers(0, 2, 600), rng.integers(0, 100, (600, 8))]).astype(float)
    y = (x[:, 1:].sum(axis=1) + 25 * x[:, 0] + rng.normal(0, 40, 600) > 410).astype(int)
    model = RandomForestClassifier(n_estimators=12, max_depth=7, random_state=0, n_jobs=1).fit(x, y)
    return extract_white_box(load_model(model, FOREST))


@pytest.mark.parametrize(
    ("model", "settings"),
    [
        ("AC-1", {"time_limit": 1.0}),
        ("AC-1", {"time_limit": 2.0, "min_progress": 1e-9}),
        ("AC-5", {"time_limit": 1.0, "method": "interval"}),
        ("forest", {"time_limit": 1.0}),
    ],
)
def test_a_certificate_under_a_time_limit_depends_on_the_machine(model, settings):
    found = certify(forest() if model == "forest" else real_network(model, "sex"), enumeration=False, **settings)
    assert found.stopped_by == "time"
    assert found.time_limited
    assert "A time limit was used" in found.provenance
    assert found.boxes > 0
    assert found.certified + found.falsified + found.undecided == pytest.approx(1.0)


def test_trees_that_stop_after_so_many_boxes_are_repeated_by_the_seed():
    trees = forest()
    first, second = (certify(trees, max_boxes=3000, enumeration=False, jobs=2) for _ in range(2))
    assert not first.time_limited
    assert leaves(first) == leaves(second)


@pytest.mark.parametrize("settings", [{"max_boxes": 4000}, {"target_undecided": 0.4}, {"max_boxes": 2000, "jobs": 1}])
def test_a_budget_of_boxes_is_repeated_by_the_seed(settings):
    network = real_network("AC-1", "sex")
    found = certify(network, enumeration=False, **settings)
    assert not found.time_limited
    assert "time limit" not in found.provenance
    assert leaves(certify(network, enumeration=False, **settings)) == leaves(found)

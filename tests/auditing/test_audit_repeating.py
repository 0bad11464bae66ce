"""An audit without a time limit is repeated by its seed, to the last leaf of its JSON."""

import json

import numpy as np
import pytest

from evenhand.auditing import AuditConfig, audit
from evenhand.models import Subject
from evenhand.models.additive.network import network_from_dense
from evenhand.schema import People, Schema
from support import leaves_but_clocks

SCHEMA = Schema.parse(
    {
        "target": {"name": "hired", "favourable": 1, "values": [0, 1]},
        "attributes": [
            {"name": "sex", "kind": "categorical", "values": [0, 1], "protected": True, "encoding": "code"},
            *({"name": f"x{i}", "kind": "integer", "lower": 0, "upper": 60} for i in range(9)),
        ],
    }
)


@pytest.fixture(scope="module")
def subject():
    rng = np.random.default_rng(0)
    rows = np.column_stack([rng.integers(0, 2, 300), rng.integers(0, 61, (300, 9))]).astype(float)
    layers = [(rng.normal(size=(10, 16)) / 30, rng.normal(size=16)), (rng.normal(size=(16, 1)), np.zeros(1))]
    middle = np.median(network_from_dense(SCHEMA, layers).logits(rows))
    layers[-1][1][0] -= middle
    network = network_from_dense(SCHEMA, layers)
    labels = (network.logits(rows)[:, 0] + rng.normal(0, 0.2, 300) > 0).astype(np.int64)
    return Subject(network, People(SCHEMA, rows, labels, np.arange(300), None))


def leaves(found):
    return leaves_but_clocks(json.loads(found.to_json()))


@pytest.mark.full
def test_an_audit_limited_by_boxes_is_repeated_by_its_seed(subject):
    config = AuditConfig(max_boxes=3000, samples=2000, searched=500)
    first, second = audit(subject, config), audit(subject, config)
    assert not first.time_limited
    assert [found.stopped_by for found in first.certificates] == ["boxes"]
    assert leaves(first) == leaves(second)

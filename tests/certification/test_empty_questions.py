"""Questions in which every attribute is varied, so that no other attribute is left to refine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenhand import checker
from evenhand.certification import certify
from evenhand.models.additive.network import network_from_dense
from evenhand.schema import Schema
from support import scaled

LINK = {"when": "sex", "move": "rel", "rows": [{"f": "wife", "m": "husband"}]}
RULES = ["rel == wife -> sex == f", "rel == husband -> sex == m"]
SETTINGS: list[dict[str, Any]] = [
    {},
    {"enumeration": False},
    {"enumeration": False, "method": "interval"},
    {"time_limit": 5.0, "enumeration": False},
]


def people(*protected: str, number: bool = False, **more: Any) -> Schema:
    return Schema.parse(
        {
            "target": {"name": "y", "kind": "number"}
            if number
            else {"name": "hired", "favourable": "yes", "values": ["no", "yes"]},
            "attributes": [
                {"name": "sex", "kind": "categorical", "values": ["f", "m"], "encoding": "one-hot"},
                {"name": "rel", "kind": "categorical", "values": ["wife", "husband", "none"], "encoding": "one-hot"},
            ],
            **more,
        }
    ).with_protected(protected)


def score(weights: np.ndarray, sex: int, rel: int) -> float:
    return float(weights[sex] + weights[2 + rel])


@settings(max_examples=scaled(40), deadline=None)
@given(
    weights=st.lists(st.sampled_from([-1.0, -0.5, 0.25, 0.5, 2.0]), min_size=5, max_size=5),
    options=st.sampled_from(SETTINGS),
    rules=st.booleans(),
)
def test_a_hub_of_all_attributes_is_enumerated(weights: list[float], options: dict[str, Any], rules: bool) -> None:
    numbers = np.array(weights)
    schema = people("sex", links=[LINK], **({"rules": RULES} if rules else {}))
    layers = [(numbers[:, None], np.array([0.1]))]
    network = network_from_dense(schema, layers, classes=("no", "yes"), favourable=1)
    # Each has one counterpart; without rules there are a female husband and a male wife too, who have none.
    pairs = [((0, 0), (1, 1)), ((0, 2), (1, 2))]
    unfair = [(score(numbers, *one) + 0.1 > 0) != (score(numbers, *other) + 0.1 > 0) for one, other in pairs]
    people_in_pair = 1 / 2 if rules else 1 / 3
    found = certify(network, max_boxes=1, **options)
    assert found.falsified == pytest.approx(sum(unfair) * people_in_pair, abs=1e-9)
    assert found.certified == pytest.approx((2 - sum(unfair)) * people_in_pair, abs=1e-9)
    assert bool(found.counterexamples) == any(unfair)


@pytest.mark.parametrize("options", SETTINGS)
@pytest.mark.parametrize(("scale", "unfair"), [(1.0, 1.0), (0.0, 0.0)])
def test_every_attribute_is_protected(options: dict[str, Any], scale: float, unfair: float, tmp_path: Path) -> None:
    weights = scale * np.array([1.0, -1.0, 0.5, -0.5, 0.25])
    network = network_from_dense(people("sex", "rel"), [(weights[:, None], np.array([0.1]))], favourable=1)
    found = certify(network, certificate=tmp_path / "c.cert", **options)
    assert (found.certified, found.falsified, found.undecided) == (1 - unfair, unfair, 0.0)
    assert checker.check_certificate(tmp_path / "c.cert", network, sample=None).verdict == "confirmed"


def test_every_attribute_is_protected_and_a_number_is_predicted() -> None:
    weights = np.array([1.0, -1.0, 0.5, -0.5, 0.25])
    network = network_from_dense(people("sex", "rel", number=True), [(weights[:, None], np.array([0.1]))], classes=())
    for tolerance, unfair in ((2.5, 1.0), (3.5, 0.0)):  # the largest change is from 1.5 to -1.5
        found = certify(network, tolerance=tolerance, enumeration=False)
        assert (found.certified, found.falsified) == (1 - unfair, unfair)

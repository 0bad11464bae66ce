"""All engines answer the same question: sound by asking everybody, and with workers the same as without."""

from __future__ import annotations

import itertools
from functools import cache
from typing import Any

import numpy as np
import pytest
from cases import everybody, integer

from evenhand.certification import Certificate, certify
from evenhand.certification.bounds.compiled.engine import CompiledBounder
from evenhand.certification.bounds.compiled.problem import compiled_problem_of
from evenhand.certification.query.question import query_of
from evenhand.models import AdditiveNetwork
from evenhand.models.additive.network import network_from_dense
from evenhand.schema import Schema

NARROW, WIDE, SIZES, GROUPS = 12, 260, (6, 5), 3
"""Units of narrow and of wide layers; values of the attributes that are not protected; protected values."""
QUESTIONS: dict[str, dict[str, Any]] = {
    "labels": {},
    "threshold": {"threshold": 0.4},
    "bands": {"bands": (0.45, 0.55)},
    "outcomes of bands": {"bands": (0.45, 0.55), "outcomes": 3},
    "outcomes": {"outcomes": 3},
    "tolerance": {"tolerance": 0.15},
    "conditions": {"where": ("a0 >= 2",)},
}
SHARES = ("certified", "falsified", "undecided", "outcomes", "regions", "boxes", "counterexamples")


@cache
def network_of(question: str, widths: tuple[int, ...], seed: int) -> AdditiveNetwork:
    """A network of which the first units matter, and all others a little."""
    rng = np.random.default_rng(seed)
    labels = 3 if question == "outcomes" else 2
    target: dict[str, Any] = {"name": "y", "kind": "number"}
    if question != "tolerance":
        target = {"name": "y", "favourable": "l1", "values": [f"l{k}" for k in range(labels)]}
    attributes = [integer(f"a{i}", 0, size - 1) for i, size in enumerate(SIZES)]
    attributes.append(integer("p", 0, GROUPS - 1, protected=True))
    outputs = labels if labels > 2 else 1
    sizes = [len(attributes), *widths, outputs]
    layers = []
    for k, (a, b) in enumerate(itertools.pairwise(sizes)):
        weights, units = rng.normal(size=(a, b)) * 1e-4, slice(0, 6)
        weights[units, units] += rng.normal(size=weights[units, units].shape) / (3 if k == 0 else 1)
        layers.append((weights, rng.normal(size=b) * 0.1))
    classes = () if question == "tolerance" else tuple(target["values"])
    return network_from_dense(Schema.parse({"target": target, "attributes": attributes}), layers, classes=classes)


def true_shares(question: str, network: AdditiveNetwork) -> dict[int, float]:
    """Share of people who are treated unfairly, by the number of different outcomes that makes it so."""
    options = QUESTIONS[question]
    edges = options.get("bands", (options.get("threshold", 0.5),))

    def answer(rows: np.ndarray) -> np.ndarray:
        if question in ("tolerance", "outcomes"):
            return network.logits(rows)[:, 0] if question == "tolerance" else network.predict(rows)
        return np.searchsorted(edges, network.scores(rows)[:, 1], side="right")

    allowed = {"a0": lambda age: age >= 2} if "where" in options else {}
    answers = everybody(network, None, answer, allowed)[2]
    if "tolerance" in options:
        return {2: float((np.ptp(answers, axis=0) > options["tolerance"]).mean())}
    different = np.array([len(set(column)) for column in answers.T])
    return {least: float((different >= least).mean()) for least in range(2, options.get("outcomes", 2) + 1)}


def prove(question: str, network: AdditiveNetwork, **more: Any) -> Certificate:
    return certify(network, enumeration=False, max_boxes=120, jobs=1, samples=50, **QUESTIONS[question], **more)


def check_shares(found: Certificate, truth: dict[int, float]) -> None:
    assert found.falsified <= truth[2] + 1e-9
    assert found.certified <= 1 - truth[2] + 1e-9
    assert found.certified + found.falsified + found.undecided == pytest.approx(1)
    for outcome in found.outcomes:
        assert outcome.proved <= truth[outcome.least] + 1e-9
        assert outcome.possible >= truth[outcome.least] - 1e-9


@pytest.mark.parametrize("question", QUESTIONS)
def test_wide_networks_are_bounded_soundly_with_and_without_workers(question: str) -> None:
    network = network_of(question, (WIDE,) * 2, 1)
    alone = prove(question, network)
    check_shares(alone, true_shares(question, network))
    assert alone.certified + alone.falsified > 0.5
    with_workers = prove(question, network, workers=1)
    check_shares(with_workers, true_shares(question, network))
    assert with_workers.certified + with_workers.falsified > 0.5


def test_a_prediction_that_falls_for_everybody_is_not_certified() -> None:
    """The prediction is -p: it changes by 1 or 2 for everybody."""
    for width in (NARROW, WIDE):
        base = network_of("tolerance", (width,) * 2, 0)
        layers = [np.zeros((len(SIZES) + 1, width)), np.zeros((width, width)), np.zeros((width, 1))]
        layers[0][-1, 0], layers[1][0, 0], layers[2][0, 0] = 1.0, 1.0, -1.0
        network = network_from_dense(base.schema, [(one, np.zeros(one.shape[1])) for one in layers], classes=())
        for tolerance, falsified in ((1.5, 1.0), (2.5, 0.0)):
            for workers in (None, 1):
                found = certify(network, tolerance=tolerance, enumeration=False, max_boxes=60, workers=workers)
                assert (found.certified, found.falsified) == pytest.approx((1 - falsified, falsified), abs=1e-9)


def test_ten_thousand_units() -> None:
    """Weights are stored in the shape of the layers, not as squares of the widest one."""
    rng = np.random.default_rng(0)
    schema = network_of("labels", (NARROW,), 0).schema
    layers = [
        (rng.normal(size=(3, 10_000)) / 5, rng.normal(size=10_000)),
        (rng.normal(size=(10_000, 1)) / 100, np.zeros(1)),
    ]
    network = network_from_dense(schema, layers)
    assert compiled_problem_of(query_of(network)).network.weights.nbytes == 80_000
    found = certify(network, enumeration=False, max_boxes=200, jobs=1, samples=50)
    check_shares(found, true_shares("labels", network))
    assert found.certified + found.falsified > 0.5


def test_first_calls_of_wide_networks_are_short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Boxes of wide networks take long, so a call within a time limit bounds few of them before the speed is known."""
    limits: list[float] = []
    expand = CompiledBounder.expand

    def record(self: CompiledBounder, boxes: Any, threshold: float, limit: float = np.inf, **options: Any) -> Any:
        limits.append(limit)
        return expand(self, boxes, threshold, limit, **options)

    monkeypatch.setattr(CompiledBounder, "expand", record)
    certify(network_of("labels", (2 * WIDE,) * 2, 0), enumeration=False, time_limit=1, jobs=1, samples=50)
    assert all(limit <= 64 for limit in limits if limit < np.inf)
    assert min(limits) <= 64

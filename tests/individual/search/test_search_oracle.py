"""Asking within a budget, never twice; gradients; answers that survive a kill."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from search_cases import DOMAIN, SCHEMA, BlackBox, LabelOnly, flipping, network, people

from evenhand.core.time_limit import TimeLimit
from evenhand.individual.search.findings import FindingCollector
from evenhand.individual.search.gradients import ProfileNetwork
from evenhand.individual.search.oracle import BudgetExhausted, Oracle
from evenhand.individual.search.space import ProfileSpace
from evenhand.models import AdditiveNetwork, QuestionLedger
from evenhand.models.additive.network import AffineLayer, LineTerm, StepTerm, TableTerm, network_from_dense
from evenhand.schema import Schema
from support import scaled


def oracle(model, space=None, budget=None, **more) -> Oracle:
    space = space or ProfileSpace(SCHEMA)
    more["ledger"] = QuestionLedger(budget)
    return Oracle(model, space, **more)


@pytest.mark.parametrize("kind", [lambda model: model, BlackBox, LabelOnly])
def test_answers_are_the_model_s(kind):
    model = network(1)
    asked = oracle(kind(model))
    answers = asked.ask(DOMAIN)
    rows = asked.space.rows(DOMAIN)
    labels = model.predict(rows).reshape(-1, 2)
    assert (answers.labels == labels).all()
    expected = np.eye(2)[model.predict(rows)] if kind is LabelOnly else model.scores(rows)
    assert answers.scores.reshape(-1, 2) == pytest.approx(expected, abs=1e-12)
    assert (answers.flips == (labels[:, 0] != labels[:, 1])).all()
    assert len(asked.findings) == answers.flips.sum() > 0


@given(st.lists(st.lists(st.integers(0, len(DOMAIN) - 1), max_size=30), max_size=6))
def test_nobody_is_asked_about_twice(batches):
    model = LabelOnly(network(1))
    asked = oracle(model)
    for batch in batches:
        answers = asked.ask(DOMAIN[batch])
        assert (answers.labels == network(1).predict(asked.space.rows(DOMAIN[batch])).reshape(-1, 2)).all()
    different = len({which for batch in batches for which in batch})
    assert asked.queries == model.asked == 2 * different


@given(st.integers(0, 100), st.integers(1, 60))
def test_a_budget_is_never_exceeded_and_what_it_pays_for_is_found(budget, size):
    model = LabelOnly(network(1))
    asked = oracle(model, budget=budget)

    def ask_everybody() -> None:
        for at in range(0, len(DOMAIN), size):
            asked.ask(DOMAIN[at : at + size])

    with pytest.raises(BudgetExhausted):
        ask_everybody()
    paid = DOMAIN[: budget // 2]
    assert model.asked == asked.queries == 2 * len(paid)
    assert {tuple(row) for row in asked.findings.reportable().unprotected.tolist()} == flipping(
        network(1), asked.space
    ) & {tuple(row) for row in paid.tolist()}


def test_what_could_not_be_paid_is_asked_later():
    asked = oracle(LabelOnly(network(1)), budget=5)
    with pytest.raises(BudgetExhausted):
        asked.ask(DOMAIN[:4])
    asked.ledger.budget = None
    assert (asked.ask(DOMAIN[:4]).labels == network(1).predict(asked.space.rows(DOMAIN[:4])).reshape(-1, 2)).all()


def test_models_are_asked_in_large_batches():
    model = LabelOnly(network(1))
    asked = oracle(model)
    rng = np.random.default_rng(0)
    asked.ask(DOMAIN[rng.integers(0, len(DOMAIN), size=50_000)])
    assert model.calls == 1
    with pytest.raises(BudgetExhausted):
        oracle(model, limit=TimeLimit(-1.0)).ask(DOMAIN)
    assert model.calls == 1


def test_a_cache_that_is_full_changes_no_answer(monkeypatch):
    monkeypatch.setattr("evenhand.individual.search.oracle.MAX_CACHED_SCORES", 0)
    model = LabelOnly(network(1))
    asked = oracle(model)
    everybody = np.concatenate([DOMAIN] * 4)
    answers = asked.ask(everybody)
    assert (answers.labels == network(1).predict(asked.space.rows(everybody)).reshape(-1, 2)).all()
    assert asked.queries == model.asked == 2 * len(everybody)
    assert len(asked.findings) == len({tuple(row) for row in everybody[answers.flips].tolist()})


SMOOTH = Schema.parse(
    {
        "target": {"name": "t", "favourable": 1, "values": [0, 1, 2]},
        "attributes": [
            {"name": "x", "kind": "real", "lower": -2, "upper": 2},
            {"name": "sex", "kind": "categorical", "values": ["f", "m"], "protected": True},
            {"name": "y", "kind": "real", "lower": 0, "upper": 4, "encoding": {"offset": 2, "scale": 0.5}},
            {"name": "n", "kind": "integer", "lower": 0, "upper": 9},
        ],
    }
)


@settings(max_examples=scaled(25))
@given(st.integers(0, 2**32 - 1), st.sampled_from([1, 2, 3]))
def test_gradients_agree_with_differences(seed, outputs):
    rng = np.random.default_rng(seed)
    sizes = [SMOOTH.width, 6, 4, outputs]
    layers = [(rng.normal(size=(a, b)), rng.normal(size=b)) for a, b in itertools.pairwise(sizes)]
    classes = (0, 1) if outputs < 3 else (0, 1, 2)
    inside = ProfileNetwork(network_from_dense(SMOOTH, layers, classes=classes), ProfileSpace(SMOOTH))
    rows = np.column_stack([rng.uniform(-1.9, 1.9, 20), rng.uniform(0.1, 3.9, 20), rng.integers(1, 9, 20)])
    which = rng.integers(0, 2, 20)
    before = inside.reply(rows, which[:, None]).scores
    predicted = before.argmax(axis=1)
    n = np.arange(20)
    for loss in (False, True):
        gradient = inside.gradient(rows, which, loss=loss)
        for column in range(3):
            h = 1e-6
            step = np.eye(3)[column] * h
            up = inside.reply(rows + step, which[:, None]).scores[n, predicted]
            down = inside.reply(rows - step, which[:, None]).scores[n, predicted]
            difference = (-np.log(up) + np.log(down) if loss else up - down) / (2 * h)
            kink = np.abs(up + down - 2 * before[n, predicted]) > 1e-9  # a ReLU opens just here
            assert gradient[~kink, column] == pytest.approx(difference[~kink], rel=1e-3, abs=1e-5)


def test_gradients_along_tables_and_bins_are_differences_of_moves():
    schema = Schema.parse(
        {
            "target": {"name": "t", "favourable": 1, "values": [0, 1]},
            "attributes": [
                {"name": "job", "kind": "categorical", "values": ["a", "b", "c", "d"]},
                {"name": "age", "kind": "integer", "lower": 10, "upper": 14},
                {"name": "pay", "kind": "real", "lower": 0, "upper": 100},
                {"name": "sex", "kind": "categorical", "values": ["f", "m"], "protected": True},
            ],
        }
    )
    parts = (
        TableTerm(np.array([[0.0], [3.0], [4.0], [0.0]]), 0.0),
        LineTerm(np.array([0.25]), np.array([0.0])),
        StepTerm(np.array([50.0]), np.array([[0.0], [1.0]])),
        TableTerm(np.array([[0.0], [0.0]]), 0.0),
    )
    model = AdditiveNetwork(
        schema, parts, np.array([1.0]), (AffineLayer(np.array([[2.0]]), np.array([0.0])),), (0, 1), 1
    )
    inside = ProfileNetwork(model, ProfileSpace(schema))
    rows = np.array([[0.0, 10, 49.5], [1.0, 12, 50.5], [3.0, 14, 20.0]])
    which = np.zeros(3, dtype=np.int64)
    scores = inside.reply(rows, which[:, None]).scores
    slope = inside.gradient(rows, which, loss=False) / (scores[:, :1] * scores[:, 1:])
    # Twice: of a, b, d by one or two positions; a quarter; half the jump over the bin's edge within +- 1.
    assert slope == pytest.approx(np.array([[6.0, 0.5, 1.0], [4.0, 0.5, 1.0], [-8.0, 0.5, 0.0]]))


def test_the_inside_answers_as_the_network():
    for outputs in (1, 2):
        model = network(4, outputs=outputs)
        space = ProfileSpace(SCHEMA)
        reply = ProfileNetwork(model, space).reply(DOMAIN, np.tile([0, 1], (len(DOMAIN), 1)))
        assert reply.scores == pytest.approx(model.scores(space.rows(DOMAIN)), abs=1e-12)
        assert (reply.labels == model.predict(space.rows(DOMAIN))).all()


def test_findings_are_counted_once():
    space = ProfileSpace(people(30, 0))
    findings = FindingCollector(space, network(0))
    rows = space.people[:3]
    labels = np.array([[0, 1], [1, 1], [1, 0]])
    scores = np.zeros((3, 2, 2))
    assert findings.add(rows, labels, scores).tolist() == [True, False, True]
    findings.add(rows[::-1], labels[::-1], scores)
    outside = np.array([[9.0, 0, 0, 0]])
    findings.add(outside, labels[:1], scores[:1])
    found = findings.reportable()
    assert found.unprotected.tolist() == rows[[0, 2]].tolist()

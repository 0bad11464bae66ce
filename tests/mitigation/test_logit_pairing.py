"""Counterfactual logit pairing: the penalty by hand, and what it does to decisions that flip."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from support import small_schema

torch = pytest.importorskip("torch", reason="needs the extra torch")

from evenhand.errors import OptionError
from evenhand.mitigation import FairClassifier
from evenhand.mitigation.metrics import FlipMetric
from evenhand.mitigation.training.encoding import FeatureEncoding
from evenhand.mitigation.training.losses.counterfactual import LogitPairing, draw_assignments, draw_people
from evenhand.mitigation.training.losses.loss import TrainingBatch, TrainingTask
from evenhand.mitigation.training.network import TrainableNetwork
from evenhand.schema import People, Schema


def loans(ages: int = 1) -> Schema:
    return small_schema([0, 1], target="loan", sex="f m", age=(0, ages), income=(0, 20)).with_protected(["sex", "age"])


def applicants(schema: Schema, n: int = 600, seed: int = 0) -> tuple[Any, Any]:
    """Whoever earns enough gets a loan, and men need to earn less."""
    rng = np.random.default_rng(seed)
    rows = np.column_stack([rng.integers(0, int(a.last) + 1, n) for a in schema.attributes]).astype(float)
    wanted = rows[:, 2] + 4 * rows[:, 0] + rng.normal(size=n)
    return rows, (wanted > 11).astype(int)


def asked(schema: Schema, layers: Any, n: int = 40) -> tuple[LogitPairing, TrainableNetwork, TrainingBatch]:
    rows, labels = applicants(schema, n)
    encoding = FeatureEncoding.fit_to_people(schema, rows)
    network, generator = TrainableNetwork.of(encoding, layers(encoding.width)), torch.Generator().manual_seed(0)
    pairing = LogitPairing()
    assert pairing.prepare(TrainingTask(schema, schema.protected, encoding, 1, generator, 1), network) == []
    individuals, groups = torch.from_numpy(rows), torch.zeros(n, dtype=torch.int64)
    batch = TrainingBatch(individuals, network.encode(individuals), torch.from_numpy(labels).float(), groups, 0)
    return pairing, network, batch


def test_every_pair_of_assignments_counts() -> None:
    rng = np.random.default_rng(1)
    drawn: list[Any] = []

    def layers(width: int) -> Any:
        drawn[:] = [(rng.normal(size=(width, 4)), rng.normal(size=4)), (rng.normal(size=(4, 1)), rng.normal(size=1))]
        return drawn

    schema = loans()
    pairing, network, batch = asked(schema, layers)
    made = network.encoding.additive(drawn, (0, 1), 1, "network")
    logits = []
    for assignment in schema.assignments(schema.protected):
        rows = batch.individuals.numpy().copy()
        rows[:, :2] = assignment
        logits.append(made.logits(rows)[:, 0])
    expected = np.mean([(a - b) ** 2 for a, b in itertools.combinations(logits, 2)])
    assert pairing.logit_spread(network, batch.individuals).item() == pytest.approx(expected, rel=1e-4)


def test_people_who_are_not_in_the_data_count_too() -> None:
    # Nobody in the data earns anything; the network favours men by what they earn above the mean.
    def layers(width: int) -> Any:
        weight = np.zeros((width, 1))
        weight[1], weight[-1] = 100.0, 1.0
        return [(weight, np.array([-100.0])), (np.ones((1, 1)), np.zeros(1))]

    pairing, network, batch = asked(loans(), layers)
    individuals = batch.individuals.clone()
    individuals[:, 2] = 0
    poor = TrainingBatch(individuals, network.encode(individuals), batch.labels, batch.groups, 0)
    assert pairing.logit_spread(network, individuals).item() == 0
    assert pairing.penalty(network, poor, network.logits(poor.features)).item() > 0


def test_fewer_decisions_flip() -> None:
    schema = loans(ages=30)  # too many assignments to take all of them at every step
    rows, labels = applicants(schema)
    people = People(schema, rows, labels.astype(np.int64), np.arange(len(rows)), None)
    settings = {"schema": schema, "hidden": (8,), "steps": 150, "seed": 3}
    plain = FairClassifier("erm", **settings).fit(rows, labels).network_
    made = FairClassifier("logit-pairing", strength=3.0, **settings).fit(rows, labels).network_
    harm = FlipMetric(("sex", "age"))
    assert harm.size(plain, people) > 0.15
    assert harm.size(made, people) < 0.2 * harm.size(plain, people)
    assert (made.predict(rows) == labels).mean() > 0.75


def test_needs_somebody_to_compare() -> None:
    schema = loans()
    rows, labels = applicants(schema)
    with pytest.raises(OptionError, match="no attribute is protected"):
        FairClassifier("logit-pairing", schema=schema, protected=(), hidden=(4,), steps=2).fit(rows, labels)


def test_drawn_people_and_assignments_are_distinct_and_in_the_domain() -> None:
    schema, generator = loans(ages=2), torch.Generator().manual_seed(0)
    people = draw_people(schema, torch.from_numpy(applicants(schema, 50)[0]), 300, generator)
    assert schema.contains(people.numpy()).all()
    drawn = draw_assignments(schema, schema.protected, 200, 4, generator)
    assert drawn.shape == (200, 4, 2)
    assert all(len({tuple(row) for row in person.tolist()}) == 4 for person in drawn)
    assert {tuple(row) for row in drawn.flatten(0, 1).tolist()} == {
        tuple(row) for row in schema.assignments(schema.protected).tolist()
    }
    assert draw_assignments(schema, ["sex"], 5, 4, generator).shape == (5, 2, 1)

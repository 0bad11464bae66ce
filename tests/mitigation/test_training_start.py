"""Training on from a given network: nothing changes until something is learnt."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support import small_schema

pytest.importorskip("torch", reason="needs the extra torch")

import itertools

from evenhand import models
from evenhand.errors import OptionError
from evenhand.mitigation import FairClassifier
from evenhand.mitigation.training.network import start_from_network, write_network
from evenhand.models import AdditiveNetwork
from evenhand.models.additive.network import (
    AffineLayer,
    LineTerm,
    StepTerm,
    network_fingerprint,
    network_from_dense,
)
from evenhand.schema import Schema


def mixed_schema(favourable: int = 1) -> Schema:
    """A number, a category as a code, one by columns, an ordinal attribute; what is protected among them."""
    return small_schema(
        [0, 1],
        favourable=favourable,
        age={"kind": "integer", "lower": 18, "upper": 90, "encoding": {"offset": 40, "scale": 10}},
        job={"kind": "categorical", "values": ["a", "b", "c", "d"], "encoding": "code"},
        town={"kind": "categorical", "values": ["x", "y", "z"], "encoding": "one-hot"},
        grade={"kind": "ordinal", "values": [1, 2, 3], "encoding": [0.0, 1.0, 4.0]},
        sex={"kind": "categorical", "values": ["f", "m"], "encoding": "code", "protected": True},
    )


def crowd(schema: Schema, n: int = 300, seed: int = 0) -> np.ndarray[Any, np.dtype[np.float64]]:
    rng = np.random.default_rng(seed)
    return np.column_stack([rng.integers(int(a.first), int(a.last) + 1, n) for a in schema.attributes]).astype(float)


def some_network(schema: Schema, outputs: int = 1, seed: int = 0) -> AdditiveNetwork:
    rng = np.random.default_rng(seed)
    sizes = (schema.width, 6, 5, outputs)
    layers = [(rng.normal(size=(a, b)), rng.normal(size=b)) for a, b in itertools.pairwise(sizes)]
    values = schema.target.values or ()
    return network_from_dense(schema, layers, classes=values, favourable=values.index(schema.target.favourable))


@pytest.mark.parametrize("outputs", [1, 2])
@pytest.mark.parametrize("favourable", [0, 1])
def test_begins_as_the_given_network(outputs: int, favourable: int) -> None:
    schema = mixed_schema(favourable)
    given, people = some_network(schema, outputs), crowd(schema)
    encoding, layers = start_from_network(given, schema, people)
    units = encoding.features(people).astype(np.float64) @ layers[0][0] + layers[0][1]
    for weight, bias in layers[1:]:
        units = np.maximum(units, 0) @ weight + bias
    assert units.shape == (len(people), 1)
    expected = given.scores(people)[:, given.favourable]
    assert np.allclose(1 / (1 + np.exp(-units[:, 0])), expected, atol=1e-5)
    # And as a network over individuals.
    made = encoding.additive(layers, (1 - favourable, favourable), 1, "made")
    assert np.allclose(made.scores(people)[:, 1], expected, atol=1e-9)


def test_trained_on_and_written_like_the_given_one(tmp_path: Path) -> None:
    schema = mixed_schema()
    given, people = some_network(schema), crowd(schema)
    labels = given.predict(people)
    learner = FairClassifier("logit-pairing", strength=0.1, schema=schema, start=given, steps=30, learning_rate=0.003)
    made = learner.fit(people, labels).network_
    assert made.hidden == given.hidden
    assert (made.predict(people) == labels).mean() > 0.8
    assert not np.allclose(made.logits(people), given.logits(people))
    # The category that was one number still is, so that the file needs no other schema than the given one's.
    written = write_network(made, tmp_path / "new.npz")
    assert written == (tmp_path / "new.npz",)
    assert np.allclose(models.load_model(written[0], schema).scores(people), made.scores(people))
    again = FairClassifier("logit-pairing", strength=0.1, schema=schema, start=given, steps=30, learning_rate=0.003)
    assert network_fingerprint(again.fit(people, labels).network_) == network_fingerprint(made)


def test_refuses_what_it_cannot_train_on() -> None:
    schema = mixed_schema()
    people = crowd(schema)
    other = small_schema([0, 1], x=(0.0, 1.0))
    line = AdditiveNetwork(other, (LineTerm(np.ones(1), np.zeros(1)),), np.zeros(1), (), (0, 1), 1)
    with pytest.raises(OptionError, match="different attributes"):
        start_from_network(line, schema, people)
    steps, last = StepTerm(np.array([0.5]), np.ones((2, 1))), AffineLayer(np.ones((1, 1)), np.zeros(1))
    bins = AdditiveNetwork(other, (steps,), np.zeros(1), (last,), (0, 1), 1)
    with pytest.raises(OptionError, match="enter linearly"):
        start_from_network(bins, other, np.array([[0.1], [0.9]]))
    table = some_network(schema)
    with pytest.raises(OptionError, match="cannot be combined"):
        FairClassifier(schema=schema, start=table, sees_protected=False).fit(people, table.predict(people))

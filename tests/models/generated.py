"""Made-up schemas, networks and people, for tests that read a model from the inside."""

import itertools

import numpy as np
from hypothesis import strategies as st

from evenhand.population import uniform_population
from evenhand.schema import Schema
from support import small_schema

LABELS = ["no", "yes", "later"]
SINGLE = 1e-5
"""Scores of a float32 model and of its float64 network may differ by this much."""


def five_inputs(values):
    """A schema of five attributes that is five inputs of a network."""
    debt = {"kind": "integer", "lower": -9000, "upper": 90000, "encoding": {"offset": 9, "scale": 7e3}}
    attributes = {"age": (0, 60), "income": (-4.0, 4.0), "debt": debt, "town": "a b c d", "sex": "f m *"}
    return small_schema(values, target="t", favourable="yes", **attributes)


BINARY, THREE = five_inputs("no yes"), five_inputs("no yes later")


def sample(schema, n=3000, seed=0):
    return uniform_population(schema).sample(n, np.random.default_rng(seed))


def damage(data, content):
    """Cut off the end of a file or change some of its bytes."""
    damaged = bytearray(content[: data.draw(st.integers(0, len(content)))] if data.draw(st.booleans()) else content)
    places = st.tuples(st.integers(0, len(content) - 1), st.integers(0, 255))
    for place, value in data.draw(st.lists(places, max_size=5)):
        if place < len(damaged):
            damaged[place] = value
    return bytes(damaged)


@st.composite
def schemas(draw, *, labels=(2, 3), plain=True):
    """One to five attributes of any kind and encoding; ``plain=False`` leaves the encodings out."""
    makers = [_categorical, _ordinal, _integer, _wide, _real]
    chosen = draw(st.lists(st.sampled_from(makers), min_size=1, max_size=5))
    attributes = [maker(draw, f"a{i}", plain) for i, maker in enumerate(chosen)]
    values = LABELS[: draw(st.sampled_from(labels))]
    return Schema.parse({"target": {"name": "t", "favourable": "yes", "values": values}, "attributes": attributes})


def _categorical(draw, name, plain):
    size = draw(st.integers(2, 6))
    entry = {"name": name, "kind": "categorical", "values": [f"w{i}" for i in range(size)]}
    if plain:
        numbers = [float(i * i) - 2 for i in range(size)]
        entry["encoding"] = draw(st.sampled_from(["code", "one-hot", numbers]))
    return entry


def _ordinal(draw, name, plain):
    return {"name": name, "kind": "ordinal", "values": ["low", "middle", "high"]}


def _integer(draw, name, plain):
    lower = draw(st.integers(-20, 20))
    return {"name": name, "kind": "integer", "lower": lower, "upper": lower + draw(st.integers(0, 40))}


def _wide(draw, name, plain):
    entry = {"name": name, "kind": "integer", "lower": -2000, "upper": 90_001}
    return entry | ({"encoding": {"offset": 40_000, "scale": 25_000}} if plain else {})


def _real(draw, name, plain):
    entry = {"name": name, "kind": "real", "lower": -3.5, "upper": 12.25}
    return entry | ({"encoding": {"offset": 2.5, "scale": 3}} if plain and draw(st.booleans()) else {})


widths = st.lists(st.integers(1, 7), max_size=3)
seeds = st.integers(0, 2**32 - 1)


def dense(inputs, hidden, outputs, seed):
    """Random float32 layers [(weights (inputs, units), bias (units,)), ...] of a sensible size."""
    rng = np.random.default_rng(seed)
    sizes = [inputs, *hidden, outputs]
    return [
        ((rng.normal(size=(a, b)) / np.sqrt(a)).astype(np.float32), rng.normal(size=b).astype(np.float32))
        for a, b in itertools.pairwise(sizes)
    ]


def forward(x, layers):
    """The slow obvious forward pass, in float64: logits."""
    for i, (weights, bias) in enumerate(layers):
        x = (np.maximum(x, 0) if i else x) @ weights.astype(np.float64) + bias
    return x


def probabilities(logits):
    """Sigmoid of one logit, softmax of several, shape (n, classes)."""
    if logits.shape[1] == 1:
        logits = np.hstack([np.zeros_like(logits), logits])
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def outputs_for(schema):
    """How many outputs a network for this schema has: one for two labels, one each for more."""
    return 1 if len(schema.target.values) == 2 else len(schema.target.values)


def same_labels(network, people, scores, tolerance):
    """Whether the network decides as the scores do, wherever the two best scores are further apart than a tolerance."""
    best = np.sort(scores, axis=1)
    clear = best[:, -1] - best[:, -2] > tolerance
    return bool((network.predict(people) == np.argmax(scores, axis=1))[clear].all()) and clear.mean() > 0.5

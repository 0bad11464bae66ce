"""Bands of a number that a model gives: proofs against asking about everybody, and a case by hand."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.ensemble import GradientBoostingRegressor, RandomForestRegressor
from sklearn.linear_model import LinearRegression
from sklearn.neural_network import MLPRegressor

from evenhand.certification import certify
from evenhand.errors import OptionError
from evenhand.models import load_regressor, load_white_box
from evenhand.models.additive.network import network_from_dense
from evenhand.population import uniform_population
from evenhand.schema import Schema
from support import scaled

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # few steps

ESTIMATORS = [
    LinearRegression(),
    MLPRegressor(hidden_layer_sizes=(4,), max_iter=40, random_state=0),
    RandomForestRegressor(3, max_depth=4, random_state=0),
    GradientBoostingRegressor(n_estimators=8, random_state=0),
]


def priced(age, debt, groups):
    attributes = [
        {"name": "age", "kind": "integer", "lower": 0, "upper": age},
        {"name": "debt", "kind": "integer", "lower": -5, "upper": debt},
        {"name": "sex", "kind": "categorical", "values": list("abcd")[:groups], "protected": True, "encoding": "code"},
    ]
    return Schema.parse({"target": {"name": "price", "kind": "number"}, "attributes": attributes})


def compare_with_everybody(seed, *, enumeration):
    """Certify bands of a random regressor, and count who gets how many of them by asking about everybody."""
    rng = np.random.default_rng(seed)
    schema = priced(int(rng.integers(5, 30)), int(rng.integers(0, 20)), int(rng.integers(2, 5)))
    people = uniform_population(schema).sample(150, rng)
    merit = 3 * people[:, 0] + 2 * np.abs(people[:, 1]) + 8 * rng.normal() * people[:, 2] + rng.normal(0, 3, 150)
    model = ESTIMATORS[seed % len(ESTIMATORS)].fit(people, merit)
    # Some edges are numbers that the model gives.
    edges = sorted({*np.round(rng.choice(merit, 2), 2).tolist(), float(model.predict(people[:1])[0])})
    box = load_white_box(load_regressor(model, schema), schema)
    groups = schema["sex"].size
    found = certify(
        box, bands=edges, outcomes=groups, enumeration=enumeration, max_boxes=300, counterexamples=1, samples=1
    )
    ranges = [np.arange(attribute.first, attribute.last + 1) for attribute in schema.attributes[:2]]
    grid = np.array(list(itertools.product(*ranges)))
    numbers = np.stack([model.predict(np.column_stack([grid, np.full(len(grid), sex)])) for sex in range(groups)])
    different = np.array([len(set(bands)) for bands in np.searchsorted(edges, numbers, side="right").T])
    shares = {2: (1 - found.certified, found.falsified)}
    shares |= {one.least: (one.possible, one.proved) for one in found.outcomes}
    for least, (possible, proved) in shares.items():
        assert proved - 1e-9 <= (different >= least).mean() <= possible + 1e-9
    return found


@settings(max_examples=scaled(40), deadline=None)
@given(seed=st.integers(0, 10_000))
def test_enumerated_bands_bracket_what_everybody_gets(seed):
    found = compare_with_everybody(seed, enumeration=True)
    assert found.certified + found.falsified > 0.5  # all but those whose number is an edge


@pytest.mark.full
@settings(max_examples=scaled(15), deadline=None)
@given(seed=st.integers(0, 10_000))
def test_proved_bands_bracket_what_everybody_gets(seed):
    compare_with_everybody(seed, enumeration=False)


def test_bands_by_hand(tmp_path):
    """The price is age + 10 * sex: between 10 and 15 from below, 20 from below where age lies between 10 and 19."""
    schema = priced(29, 0, 2)
    network = network_from_dense(schema, [(np.array([[1.0], [0.0], [10.0]]), np.array([0.0]))])
    found = certify(network, bands=(20.0,), max_boxes=50)
    assert (found.falsified, found.certified) == pytest.approx((9 / 30, 19 / 30), abs=1 / 30 + 1e-9)
    pair = found.counterexamples[0]
    assert {pair.first_label, pair.second_label} == {"number below 20", "number 20 or more"}
    with pytest.raises(OptionError, match="holds bands of a score, not of a number"):
        certify(network, bands=(20.0,), certificate=tmp_path / "made.evenhand")
    with pytest.raises(OptionError, match="finite numbers in increasing order"):
        certify(network, bands=(20.0, 10.0))

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenhand import population
from evenhand.errors import OptionError
from evenhand.schema import People, Schema

SCHEMA = Schema.parse(
    {
        "target": {"name": "y", "favourable": 1, "values": [0, 1]},
        "attributes": [
            {"name": "age", "kind": "integer", "lower": 18, "upper": 22},
            {"name": "sex", "kind": "categorical", "values": ["f", "m"], "protected": True},
            {"name": "debt", "kind": "real", "lower": -1, "upper": 3, "missing": "keep"},
        ],
    }
)


def people(individuals: np.ndarray) -> People:
    return People(SCHEMA, individuals, None, np.arange(len(individuals)), 0, None)


@given(st.integers(0, 2**32 - 1))
def test_samples_lie_in_the_domain(seed):
    rng = np.random.default_rng(seed)
    uniform = population.uniform_population(SCHEMA)
    drawn = uniform.sample(200, rng)
    assert SCHEMA.contains(drawn).all()
    assert SCHEMA.contains(population.product_of_marginals(people(drawn[:5])).sample(200, rng)).all()


def test_marginals_are_the_frequencies_and_ignore_missing_values():
    rows = np.array([[18, 0, np.nan], [18, 1, 0.0], [19, 1, 0.1], [22, 1, 3.0]])
    product = population.product_of_marginals(people(rows))
    assert product.marginals[0].masses.tolist() == [0.5, 0.25, 0, 0, 0.25]
    assert product.marginals[1].masses.tolist() == [0.25, 0.75]
    assert product.marginals[2].masses.sum() == pytest.approx(1)
    assert product.marginals[2].masses[-1] == pytest.approx(1 / 3)
    drawn = product.sample(40_000, np.random.default_rng(0))
    counts = np.bincount(drawn[:, 0].astype(int), minlength=23)[18:] / 40_000
    assert np.abs(counts - [0.5, 0.25, 0, 0, 0.25]).max() < 0.01  # > 4 standard errors
    assert not np.isin(drawn[:, 0], [20, 21]).any()


def test_smoothing_leaves_nobody_out():
    product = population.product_of_marginals(people(np.array([[18, 0, 0.0]])), smoothing=1.0)
    assert (product.marginals[0].masses > 0).all()


def test_an_attribute_never_seen_has_no_distribution():
    with pytest.raises(OptionError, match="'debt' has no value"):
        population.product_of_marginals(people(np.array([[18, 0, np.nan]])))


def test_the_data_itself():
    rows = np.array([[18, 0, 0.0], [22, 1, 3.0]])
    drawn = population.DataPopulation(people(rows)).sample(100, np.random.default_rng(0))
    assert {tuple(row) for row in drawn} == {tuple(row) for row in rows}

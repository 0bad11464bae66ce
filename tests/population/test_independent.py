import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenhand import population
from evenhand.errors import OptionError
from evenhand.population.independent import Marginal, estimate_marginal
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
    return People(SCHEMA, individuals, None, np.arange(len(individuals)), None)


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


def test_an_attribute_never_seen_has_no_distribution():
    with pytest.raises(OptionError, match="'debt' has no value"):
        population.product_of_marginals(people(np.array([[18, 0, np.nan]])))


def test_the_data_itself():
    rows = np.array([[18, 0, 0.0], [22, 1, 3.0]])
    drawn = population.DataPopulation(people(rows)).sample(100, np.random.default_rng(0))
    assert {tuple(row) for row in drawn} == {tuple(row) for row in rows}


WIDE = SCHEMA.model_copy(
    update={
        "attributes": (
            SCHEMA["age"].model_copy(update={"upper": 1e9}),
            *SCHEMA.attributes[1:],
        )
    }
)
AGES = np.array([18.0, 18, 19, 22, 1e9])


def wide_and_narrow():
    """The distribution of the same ages, over a domain that is listed and over one with a cell for each value."""
    listed = estimate_marginal(WIDE["age"], AGES)
    cells = np.zeros(6)
    cells[[0, 1, 4, 5]] = [0.4, 0.2, 0.2, 0.2]
    names = np.array([18, 19, 20, 21, 22, 1e9])
    return listed, Marginal(SCHEMA["age"].model_copy(update={"upper": 23}), cells), names


def test_a_wide_domain_is_listed_where_anybody_is():
    listed, _, _ = wide_and_narrow()
    assert listed.held_values().tolist() == [18, 19, 22, 1e9]
    assert listed.masses.tolist() == [0.4, 0.2, 0.2, 0.2]
    assert listed.masses_of(np.array([17.0, 18, 20, 22, 1e9])).tolist() == [0, 0.4, 0, 0.2, 0.2]
    found = listed.mass_between(np.array([18.0, 19, 20, 23]), np.array([18.0, 22, 21, 1e9]))
    assert found == pytest.approx([0.4, 0.4, 0, 0.2])
    older = listed.restrict(19, 1e6)
    assert older.held_values().tolist() == [19, 22]
    assert older.masses == pytest.approx([0.5, 0.5])


def test_a_wide_domain_draws_the_same_people():
    listed, dense, names = wide_and_narrow()
    one, other = (marginal.sample(500, np.random.default_rng(0)) for marginal in (listed, dense))
    assert one.tolist() == names[(other - 18).astype(int)].tolist()
    starts, ends = np.full(50, 19.0), np.full(50, 22.0)
    drawn = [marginal.draw_between(starts, ends, np.random.default_rng(1)).tolist() for marginal in (listed, dense)]
    assert drawn[0] == drawn[1]
    assert set(drawn[0]) == {19, 22}


def test_a_domain_of_a_billion_costs_no_memory():
    rows = np.column_stack([AGES, np.zeros(5), np.zeros(5)])
    tracemalloc.start()
    uniform = population.uniform_population(WIDE)
    product = population.product_of_marginals(People(WIDE, rows, None, np.arange(5), None))
    drawn = [one.sample(1000, np.random.default_rng(0)) for one in (uniform, product)]
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2e6
    assert all(WIDE.contains(rows).all() for rows in drawn)
    assert drawn[0][:, 0].mean() == pytest.approx(5e8, rel=0.1)
    assert set(drawn[1][:, 0]) == set(AGES)

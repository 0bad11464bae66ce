"""An age of a billion: shares are those of a narrow domain, and nothing is as large as the domain."""

import tracemalloc

import numpy as np
import pytest
from cases import integer, prove, schema_of

from evenhand.certification.query.cells import cells_of
from evenhand.checker import check_certificate
from evenhand.checker.question import AskedQuestion
from evenhand.errors import OptionError
from evenhand.models.additive.network import LineTerm, StepTerm, network_from_dense
from evenhand.population import fit_mixture, independent, product_of_marginals
from evenhand.schema import People

AGES = np.array([20.0, 25, 25, 31, 40, 40, 47, 60])


def network_and_people(oldest, rules=()):
    """Accepted where age + 8 sex + 3 job is above 40."""
    schema = schema_of([integer("age", 18, oldest), integer("job", 0, 3), integer("sex", 0, 1, protected=True)])
    network = network_from_dense(schema, [(np.array([[1.0], [3.0], [8.0]]), np.array([-40.5]))])
    rows = np.array([[age, job, sex] for age in AGES for job in range(4) for sex in (0, 1)])
    rows[0, 0] = oldest
    return network, People(schema, rows, None, np.arange(len(rows)), None)


def shares(population, network, **options):
    found = prove(network, population=population, **options)
    return found.certified, found.falsified, found.undecided


@pytest.mark.parametrize("fitted", [product_of_marginals, fit_mixture])
@pytest.mark.parametrize("where", [(), ("age != 25",), ("age >= 25",)])
def test_shares_are_those_of_a_narrow_domain(monkeypatch, fitted, where):
    network, people = network_and_people(99)
    dense = shares(fitted(people), network, where=where)
    monkeypatch.setattr(independent, "MAX_DENSE", 10)
    listed = fitted(people)
    assert shares(listed, network, where=where) == pytest.approx(dense, abs=1e-9)
    assert sum(dense) == pytest.approx(1)
    assert dense[1] > 0.05


@pytest.mark.parametrize("fitted", [product_of_marginals, fit_mixture])
def test_a_billion_ages_cost_no_memory(fitted):
    network, people = network_and_people(1e9)
    tracemalloc.start()
    found = prove(network, population=fitted(people))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 5e7
    assert found.certified + found.falsified + found.undecided == pytest.approx(1)


def test_the_certificate_of_a_wide_domain_is_confirmed(monkeypatch, tmp_path):
    monkeypatch.setattr(independent, "MAX_DENSE", 10)
    network, people = network_and_people(99)
    population = product_of_marginals(people)
    truth = np.mean([40.5 - 8 < age + 3 * job < 40.5 for age in people.individuals[:, 0] for job in range(4)])
    file = tmp_path / "wide.cert"
    found = prove(network, population=population, certificate=file)
    assert found.falsified == pytest.approx(truth, abs=1e-9)
    assert check_certificate(file, network, AskedQuestion(population=population)).verdict == "confirmed"
    with pytest.raises(OptionError, match="no one in the population has a value of 'age'"):
        prove(network, population=population, where=["age in {21, 22}"])


def test_bins_of_a_wide_domain_weigh_as_many_people():
    _, people = network_and_people(1e9)
    marginal = product_of_marginals(people).marginals[0]
    part = StepTerm(np.array([25.0, 41.0]), np.eye(3))
    cells = cells_of(marginal.attribute, 0, part, marginal)
    below = np.mean(people.individuals[:, 0] < 25)
    assert cells.count == 3
    assert np.diff(cells.cumulative)[0] / cells.total == pytest.approx(below)
    line = cells_of(marginal.attribute, 0, LineTerm(np.ones(1), np.zeros(1)), marginal)
    assert line.entries.tolist() == sorted({*AGES, 1e9})

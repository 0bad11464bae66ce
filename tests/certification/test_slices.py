"""By attribute, where the unfair and the undecided lie: against the truth by asking about everybody."""

import numpy as np
import pytest
from cases import integer, prove, random_case, schema_of

from evenhand.certification.query.enumeration import decode_points, enumerate_domain
from evenhand.certification.query.question import query_of
from evenhand.models.additive.network import network_from_dense
from evenhand.view.charts.certification import informative_attributes


def scholarship(*, weight=1.0, slope=1.0):
    """Yes if slope * age + weight * sex > 39.5, whatever the town: sex decides at 39 only, if it has its weight."""
    town = {"name": "town", "kind": "categorical", "values": ["Ulm", "Bonn", "Kiel"]}
    sex = {"name": "sex", "kind": "categorical", "values": ["f", "m"], "protected": True}
    schema = schema_of([integer("age", 0, 79), town, sex])
    weights = np.array([[slope, 0.0], [0.0, 0.0], [weight, 0.0]])
    return network_from_dense(schema, [(weights, np.array([0.0, 0.0])), (np.array([[1.0], [0.0]]), np.array([-39.5]))])


@pytest.mark.parametrize("method", ["linear", "interval", "enumeration"])
def test_a_flip_at_one_age_is_shown_there_and_nowhere_else(method):
    options = {"method": "linear" if method == "enumeration" else method, "enumeration": method == "enumeration"}
    certificate = prove(scholarship(), max_boxes=2000, **options)
    assert certificate.method == method
    ages = {one.values: one for one in certificate.slices if one.attribute == "age"}
    assert list(ages)[:2] == ["0 to 9", "10 to 19"]
    assert len(ages) == 8
    assert [words for words, one in ages.items() if one.estimate.unfair > 0] == ["30 to 39"]
    held = ages["30 to 39"]
    assert held.mass == pytest.approx(1 / 8)
    assert held.estimate.low <= 0.1 <= held.estimate.high
    towns = [one for one in certificate.slices if one.attribute == "town"]
    assert [one.values for one in towns] == ["Ulm", "Bonn", "Kiel"]
    assert all(one.estimate.low <= 1 / 80 <= one.estimate.high for one in towns)
    assert informative_attributes(certificate)[0] == "age"


def test_what_was_left_open_is_shared_out_where_it_is():
    certificate = prove(scholarship(), max_boxes=3, enumeration=False)
    assert certificate.undecided > 0
    for name in ("age", "town"):
        slices = [one for one in certificate.slices if one.attribute == name]
        assert sum(one.mass * one.undecided for one in slices) == pytest.approx(certificate.undecided)
    # Three boxes are enough to decide half of the ages as a whole.
    assert min(one.undecided for one in certificate.slices if one.attribute == "age") == 0


def test_nothing_is_drawn_where_nothing_differs():
    certificate = prove(scholarship(weight=0.0), enumeration=False)
    assert certificate.certified == 1
    assert informative_attributes(certificate) == []
    certificate.plot()


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("real", [False, True])
def test_slices_cover_everybody_and_agree_with_the_truth(seed, real):
    case = random_case(seed, real=real)
    certificate = prove(case.network, population=case.population, max_boxes=200, samples=4000, confidence=1 - 1e-6)
    query = query_of(case.network, None, case.population)
    names = [cells.attribute.name for cells in query.cells]
    unfair = None
    if query.enumerable and query.points < 10_000:
        status, mass = enumerate_domain(query), query.point_masses()
        points = decode_points(query, np.arange(query.points))
        unfair = float(mass[status == 2].sum()) if not (status == 0).any() else None
    for i, name in enumerate(names):
        slices = [one for one in certificate.slices if one.attribute == name]
        if not slices:
            assert query.constant
            continue
        assert sum(one.mass for one in slices) == pytest.approx(1)
        assert sum(one.estimate.n for one in slices) == 4000
        assert len({one.values for one in slices}) == len(slices)
        assert all(one.estimate.low <= one.estimate.unfair <= one.estimate.high for one in slices)
        if unfair is None:
            continue
        # Few cells stand each for themselves, in the order of their values.
        cells = query.cells[i]
        for one in slices:
            own = [c for c in range(cells.count) if cells.words(c, c) == one.values]
            if len(own) == 1:
                here = points[:, i] == own[0]
                truth = float(mass[here & (status == 2)].sum() / mass[here].sum())
                assert one.estimate.low - 1e-9 <= truth <= one.estimate.high + 1e-9

"""Masses that are added up: the parts of a proof are the whole, or there is no result."""

from __future__ import annotations

import numpy as np
import pytest
from cases import worked_example

from evenhand.certification.query.boxes import Boxes, BoxSplitter, whole_domain
from evenhand.certification.query.proved_mass import ProvedMass
from evenhand.certification.query.question import Query, query_of


@pytest.fixture
def query() -> Query:
    return query_of(worked_example())


def halves(query: Query) -> tuple[Boxes, Boxes]:
    parts = BoxSplitter(query).split_boxes(whole_domain(query), np.zeros(1, dtype=np.int64))
    return parts[:1], parts[1:]


def test_all_parts_make_the_whole(query: Query) -> None:
    first, second = halves(query)
    for fair in (True, False):
        mass = ProvedMass(query, 0.0)
        mass.prove(first, fair=fair)
        mass.prove(second, fair=fair)
        assert mass.shares() == ((1.0, 0.0, 0.0) if fair else (0.0, 1.0, 0.0))
    mass = ProvedMass(query, 0.0)
    mass.prove(first, fair=True)
    mass.add_undecided(second)
    assert mass.shares() == pytest.approx((first.mass[0], 0.0, second.mass[0]), abs=1e-9)


@pytest.mark.parametrize("fair", [True, False])
@pytest.mark.parametrize("larger", [True, False])
def test_forgotten_parts_are_an_error(query: Query, fair: bool, larger: bool) -> None:
    part = sorted(halves(query), key=lambda half: float(half.mass[0]))[int(larger)]
    mass = ProvedMass(query, 0.0)
    mass.prove(part, fair=fair)
    with pytest.raises(RuntimeError, match="add up"):
        mass.shares()


def test_parts_that_are_counted_twice_are_an_error(query: Query) -> None:
    mass = ProvedMass(query, 0.0)
    for _ in range(2):
        mass.prove(whole_domain(query), fair=True)
    with pytest.raises(RuntimeError, match="add up"):
        mass.shares()

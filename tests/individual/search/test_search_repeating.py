"""A search that a time limit cut short is repeated, to the last leaf of its JSON, by the work that it records."""

import json

import pytest
from search_cases import BlackBox, network, people

from evenhand.core import Work, WorkClock
from evenhand.individual import search
from support import leaves_but_clocks


def leaves(found):
    return leaves_but_clocks(json.loads(found.to_json()))


@pytest.mark.parametrize("kind", [lambda model: model, BlackBox])
@pytest.mark.parametrize("method", ["frontier", "maft"])
@pytest.mark.parametrize("before", [0, 2, 7])
def test_a_search_cut_short_is_repeated(kind, method, before):
    settings = {"method": method, "time_limit": 60.0, "budget": 4000, "samples": 50, "seed": 4}
    model, data = kind(network(3)), people(60, 1)
    whole = search.search(model, data, **settings)
    # As a slower machine would have recorded it: once the limit is reached it is looked at a few times more.
    slow = Work(settings=whole.work.settings, checks=(before, 9))
    found = search.search(model, data, clock=WorkClock(slow), **settings)
    assert found.stopped_by == "time"
    assert found.work.checks[0] == before
    assert found.queries < whole.queries
    again = search.search(model, data, clock=WorkClock(found.work), **settings)
    assert leaves(again) == leaves(found)
    assert not again.work.repeatable
    assert "A time limit was used" in again.provenance


def test_a_search_within_its_limit_is_repeatable_by_its_seed():
    first, second = (search.search(network(3), people(60, 1), time_limit=600.0, samples=50) for _ in range(2))
    assert first.work.repeatable
    assert first.work.checks[0] > 0
    assert "not repeatable" not in first.provenance
    assert leaves(first) == leaves(second)

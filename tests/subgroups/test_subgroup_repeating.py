"""A search for subgroups that a time limit cut short is repeated, to the last leaf of its JSON, by its work."""

import json

import numpy as np
import pytest
from deciders import Decider, people

from evenhand.core import Work, WorkClock
from evenhand.subgroups import find_subgroups
from support import leaves_but_clocks


def leaves(found):
    return leaves_but_clocks(json.loads(found.to_json()))


def decide(rows):
    return rows[:, 1] + rows[:, 2] * rows[:, 0] > np.median(rows[:, 1])


@pytest.mark.parametrize(
    "settings",
    [
        {"permutations": 4000},
        {"method": "sampled", "margin": 0.1},
    ],
)
def test_a_search_cut_short_is_repeated(settings):
    settings = settings | {"time_limit": 600.0, "seed": 4}
    model, data = Decider(decide), people(400)
    whole = find_subgroups(model, data, **settings)
    # As a slower machine would have recorded it, for which time was up at the last look at the clock.
    looks = whole.work.checks[0] - 1
    slow = Work(settings=whole.work.settings, checks=(looks, 100))
    found = find_subgroups(model, data, clock=WorkClock(slow), **settings)
    assert found.interrupted
    assert found.work.checks == (looks, 1)
    assert leaves(found) != leaves(whole)
    again = find_subgroups(model, data, clock=WorkClock(found.work), **settings)
    assert leaves(again) == leaves(found)
    assert not found.work.repeatable


def test_a_search_that_no_limit_cut_short_is_repeatable_by_its_seed():
    first, second = (find_subgroups(Decider(decide), people(400), time_limit=600.0) for _ in range(2))
    assert first.work.repeatable
    assert leaves(first) == leaves(second)

"""Real people: the bundled Adult and German data."""

import numpy as np
import pytest

from evenhand import datasets
from evenhand.schema import encode
from evenhand.subgroups import SubgroupConfig, exact
from evenhand.subgroups.exact import MeasuredOutcomes


def outcome(values):
    return lambda *_: MeasuredOutcomes(np.arange(len(values)), np.asarray(values, dtype=np.float64), True)


@pytest.mark.parametrize("rate", [0.7, 0.03])
def test_fair_models_on_german_people(rate):
    """5 % of 40 fair models may have a finding. More than 7 would occur once in a thousand such tests."""
    data = datasets.load_dataset("german")
    people = encode(data.schema, data.frame)
    rng = np.random.default_rng(1)
    alarms = 0
    for seed in range(40):
        config = SubgroupConfig(attributes=("sex", "age"), permutations=99, seed=seed, most=1, margin=0.0)
        alarms += exact.search_exactly(people, outcome(rng.random(len(people)) < rate), config).found > 0
    assert alarms <= 7

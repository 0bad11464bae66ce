from __future__ import annotations

import numpy as np
import pytest

from evenhand import datasets, models, schema
from evenhand.errors import DataError, OptionError
from evenhand.shields.simulation.streams import estimate_inputs, estimate_inputs_from_data

GROUP = [0, 0, 0, 0, 1, 1, 1, 1, 1, 1]
ACCEPT = [1, 0, 0, 0, 1, 1, 1, 0, 0, 0]
LABEL = [1, 1, 0, 0, 0, 0, 0, 0, 0, 1]
COST = [0.0, 0.1, 0.4, 0.4, 0.05, 0.1, 0.4, 0.2, 0.4, 0.35]


def test_shares_are_counted() -> None:
    inputs = estimate_inputs(("a", "b"), GROUP, ACCEPT, label=LABEL)
    assert inputs.rate == (0.4, 0.6)
    assert inputs.accept == (0.25, 0.5)
    assert inputs.label == (0.5, pytest.approx(1 / 6))
    assert inputs.costs == (1.0,)


def test_a_bin_stands_for_its_largest_cost() -> None:
    # Four bins of width 0.1: {0, 0.05}, {0.1, 0.1}, {0.2}, {0.35, 0.4}.
    inputs = estimate_inputs(("a", "b"), GROUP, ACCEPT, cost=COST, bins=4)
    assert inputs.costs == (0.05, 0.1, 0.2, 0.4)
    assert inputs.weights[0] == ((0.0, pytest.approx(1 / 3), 0.0, pytest.approx(2 / 3)), (1.0, 0.0, 0.0, 0.0))
    assert inputs.weights[1][1] == (pytest.approx(1 / 3), pytest.approx(1 / 3), 0.0, pytest.approx(1 / 3))
    joint = inputs.joint()
    assert joint.sum() == pytest.approx(1)
    assert joint[1, 1].sum() == pytest.approx(0.3)


def test_a_recommendation_that_never_came_has_some_costs() -> None:
    inputs = estimate_inputs(("a", "b"), [0, 1], [1, 0], cost=[0.5, 1.0], bins=2)
    assert inputs.weights[0] == ((0.5, 0.5), (1.0, 0.0))


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"group": [0] * 10}, "no one is in group 'b'"),
        ({"group": [0] * 9 + [2]}, "between 0 and 1"),
        ({"recommendation": [2] * 10}, "0 or 1"),
        ({"recommendation": [1]}, "values for"),
        ({"label": [0.5] * 10}, "0 or 1"),
        ({"cost": [np.nan] * 10}, "finite"),
    ],
)
def test_arrays_that_make_no_sense(changed: dict[str, object], said: str) -> None:
    given = {"group": GROUP, "recommendation": ACCEPT, "label": LABEL, "cost": COST} | changed
    with pytest.raises(DataError, match=said):
        estimate_inputs(("a", "b"), given.pop("group"), given.pop("recommendation"), **given)
    with pytest.raises(OptionError, match="bins"):
        estimate_inputs(("a", "b"), GROUP, ACCEPT, bins=0)


def test_real_people_and_a_model() -> None:
    data = datasets.load_dataset("german")
    people = schema.encode(data.schema, data.frame)
    model = models.load_model(lambda frame: (frame["credit_amount"] <= 3000).astype(float), people.schema)
    inputs = estimate_inputs_from_data(people, model, "sex", cost=1.0)
    position = people.schema.positions(["sex"])[0]
    sexes = people.schema.attributes[position].values
    assert sexes is not None
    assert inputs.groups == tuple(str(value) for value in sexes)
    amount = people.individuals[:, people.schema.positions(["credit_amount"])[0]]
    for code, accept in enumerate(inputs.accept):
        assert accept == pytest.approx((amount[people.individuals[:, position] == code] <= 3000).mean())

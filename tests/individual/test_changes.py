"""Individual effects on a number: by hand, against one person at a time, and on a real model."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenhand.individual import ChangeResult, measure_changes
from evenhand.models import load_regressor
from evenhand.population import uniform_population
from evenhand.schema import People, Schema
from evenhand.schema.people import ColumnRoles
from support import scaled


def people_of(frame: pd.DataFrame) -> People:
    return ColumnRoles(target="premium", protected=["sex"]).read(frame)


def example() -> tuple[People, ChangeResult]:
    """Ten people; men pay 10 more up to age 4 and 60 more from age 5 on."""
    frame = pd.DataFrame({"age": range(10), "sex": ["f", "m"] * 5})
    frame["premium"] = 100.0 + frame["age"]
    people = people_of(frame.loc[frame.index.repeat(2)].reset_index(drop=True).assign(premium=np.arange(20.0)))

    def premium(rows: pd.DataFrame) -> np.ndarray:
        age = rows["age"].to_numpy()
        return 100.0 + age + (rows["sex"] == "m").to_numpy() * np.where(age < 5, 10.0, 60.0)

    model = load_regressor(premium, people.schema, like=people.frame)
    return people, measure_changes(model, people, uniform_population(people.schema), protected=("sex",), tolerance=50)


def test_by_hand() -> None:
    _, found = example()
    data, drawn = found.changes
    assert (data.n, data.without, data.largest, data.mean) == (20, 0, 60.0, 35.0)
    assert getattr(data.rate, "value", None) == 0.5
    assert data.quantiles["10"] == 10.0
    assert data.quantiles["90"] == 60.0
    assert data.means == pytest.approx({"f": 104.5, "m": 139.5})
    assert getattr(drawn.rate, "value", 0.0) == pytest.approx(0.5, abs=0.02)
    worst = found.examples[0]
    assert worst.gap == worst.better.score - worst.worse.score == 60.0
    assert (worst.worse.values, worst.better.values) == ({"sex": "f"}, {"sex": "m"})
    assert ChangeResult.from_json(found.to_json()) == found


@given(st.integers(0, 10**6))
@settings(max_examples=scaled(20), deadline=None)
def test_it_is_what_one_person_at_a_time_says(seed: int) -> None:
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame({"a": rng.integers(0, 4, 30), "b": rng.choice(["x", "y", "z"], 30)})
    frame = frame.assign(sex=rng.choice(["f", "m", "d"], 30), premium=rng.normal(size=30))
    people = people_of(frame)
    table = {key: rng.normal() for key in itertools.product(range(4), "xyz", "fmd")}

    def premium(rows: pd.DataFrame) -> np.ndarray:
        return np.array([table[key] for key in zip(rows["a"], rows["b"], rows["sex"], strict=True)])

    model = load_regressor(premium, people.schema, like=people.frame)
    found = measure_changes(
        model, people, uniform_population(people.schema), protected=("sex",), tolerance=0.5, samples=10
    ).changes[0]
    wanted = [np.ptp([table[a, b, sex] for sex in "fmd"]) for a, b in zip(frame["a"], frame["b"], strict=True)]
    assert found.largest == pytest.approx(max(wanted))
    assert found.mean == pytest.approx(np.mean(wanted))
    assert getattr(found.rate, "value", None) == pytest.approx(np.mean(np.array(wanted) > 0.5))


LINKED = Schema.parse(
    {
        "target": {"name": "premium", "kind": "number"},
        "attributes": [
            {"name": "grade", "kind": "integer", "lower": 0, "upper": 2},
            {"name": "sex", "kind": "categorical", "values": ["f", "m"], "protected": True},
            {"name": "role", "kind": "categorical", "values": ["child", "husband", "wife", "widow"]},
        ],
        "rules": ["role == husband -> sex == m", "role in {wife, widow} -> sex == f", "role == husband -> grade > 0"],
        "links": [{"when": "sex", "move": "role", "rows": [{"m": "husband", "f": "wife"}]}],
    }
)
CHILD, HUSBAND, WIFE, WIDOW = range(4)


def counterpart(grade: int, sex: int, role: int) -> tuple[int, int, int] | None:
    """The same person of the other sex, a husband for a wife; None if such a person, or this one, breaks a rule."""

    def exists(grade: int, sex: int, role: int) -> bool:
        return (role == HUSBAND) <= (sex == 1 and grade > 0) and (role in (WIFE, WIDOW)) <= (sex == 0)

    other = grade, 1 - sex, {HUSBAND: WIFE, WIFE: HUSBAND}.get(role, role)
    return other if exists(grade, sex, role) and exists(*other) else None


@given(st.lists(st.integers(0, 100), min_size=24, max_size=24))
@settings(max_examples=scaled(20), deadline=None)
def test_people_are_compared_with_counterparts_whose_linked_attributes_move(numbers: list[int]) -> None:
    kinds = list(itertools.product(range(3), range(2), range(4)))
    table = dict(zip(kinds, map(float, numbers), strict=True))
    individuals = np.array(kinds, dtype=np.float64)
    people = People(LINKED, individuals, None, np.arange(24), None, np.zeros(24))

    class Table:
        schema, name = LINKED, "table"

        def predict_numbers(self, asked: np.ndarray) -> np.ndarray:
            # A row has three entries, as the keys do, which its type cannot say.
            return np.array([table[tuple(row)] for row in asked.astype(int).tolist()])  # type: ignore[index]  # three entries

    pairs = [(kind, other) for kind in kinds if (other := counterpart(*kind)) is not None]
    wanted = [abs(table[kind] - table[other]) for kind, other in pairs]
    population = uniform_population(LINKED.without_rules())
    about = {"protected": ("sex",), "samples": 10}
    found = measure_changes(Table(), people, population, **about, tolerance=30.0).changes[0]
    assert (found.n, found.without) == (len(pairs), 24 - len(pairs))
    assert found.mean == pytest.approx(np.mean(wanted))
    assert getattr(found.rate, "value", None) == pytest.approx(np.mean(np.array(wanted) > 30))
    # As published nothing but the sex changes, even where no such person can exist.
    published = measure_changes(Table(), people, population, **about, as_published=True).changes[0]
    assert published.n == 24
    assert published.mean == pytest.approx(np.mean([abs(table[g, 0, r] - table[g, 1, r]) for g, _, r in kinds]))


# Noise: changes count only if they repeat.

AGES = np.random.default_rng(0).integers(18, 71, 300)


def price_changes(price: Callable[[pd.DataFrame], np.ndarray], **settings: float) -> ChangeResult:
    sexes = np.random.default_rng(1).choice(["f", "m"], 300)
    people = people_of(pd.DataFrame({"age": AGES, "sex": sexes, "premium": 100.0 * AGES}))
    population = uniform_population(people.schema)
    model = load_regressor(price, people.schema)
    return measure_changes(model, people, population, protected=("sex",), samples=500, **settings)


@pytest.mark.parametrize("chance", [0.003, 0.05, 1.0])
@pytest.mark.parametrize("tolerance", [0.0, 5.0])
def test_noise_of_a_number_is_no_change(chance: float, tolerance: float) -> None:
    rng = np.random.default_rng(1)

    def price(frame: pd.DataFrame) -> np.ndarray:
        return 100.0 + np.where(rng.random(len(frame)) < chance, rng.normal(0, 20, len(frame)), 0)

    result = price_changes(price, tolerance=tolerance)
    for change in result.changes:
        assert change.rate.value <= 0.01
        assert change.repeats.noise > 0
        assert change.repeats.differed == change.repeats.tested
    assert len(result.examples) <= 0.02 * result.changes[0].repeats.differed


def test_a_real_change_is_found_behind_noise_and_is_not_exaggerated() -> None:
    rng = np.random.default_rng(1)

    def price(frame: pd.DataFrame) -> np.ndarray:
        return 100.0 + 50 * (frame["sex"] == "m") * (frame["age"] > 40) + rng.normal(0, 5, len(frame))

    result = price_changes(price, tolerance=20.0)
    data = result.changes[0]
    older = np.mean(AGES > 40)
    assert data.rate.value == pytest.approx(older, abs=0.05)
    assert data.largest < 65
    assert data.quantiles["75"] == pytest.approx(50, abs=8)
    assert all(one.better.values["sex"] == "m" for one in result.examples)


def test_a_number_that_repeats_is_measured_as_before() -> None:
    def price(frame: pd.DataFrame) -> np.ndarray:
        return 100.0 + 7.3 * (frame["sex"] == "m") * frame["age"]

    result = price_changes(price)
    assert result.changes[0].largest == pytest.approx(7.3 * AGES.max())
    assert all(one.repeats.repeated == one.repeats.differed == one.n for one in result.changes)

"""Flips between plausible counterparts, against their definition: by hand, and one person at a time."""

import itertools
from collections.abc import Callable

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from couples import CHILD, EVERYBODY, HUSBAND, SCHEMA, WIDOW, WIFE, possible
from evenhand import individual, population
from evenhand.models.additive.network import network_from_dense
from evenhand.schema import People, Schema
from support import scaled


def people(individuals: np.ndarray, schema: Schema = SCHEMA) -> People:
    n = len(individuals)
    return People(schema, individuals, np.zeros(n, dtype=np.int64), np.arange(n), None)


def measure(model: object, them: np.ndarray, *protected: str, **more: object) -> individual.IndividualResult:
    config = individual.FlipConfig(**({"protected": protected, "samples": 50} | more))
    return individual.measure_flips(model, people(them), population.uniform_population(SCHEMA), config)


def linear(grade: float, sex: float, roles: list[float], bias: float) -> object:
    return network_from_dense(SCHEMA, [(np.array([grade, sex, *roles, 0.0])[:, None], np.array([bias]))])


def test_by_hand():
    # Hired from a score of 2 on: 1 for every grade, 2 for husbands, 1 for wives.
    model = linear(1.0, 0.0, [0, 2, 1, 0], -1.5)
    them = np.array(
        [
            [0, 1, CHILD, 0],  # score 0, and so is a daughter's
            [0, 0, WIFE, 0],  # her husband at grade 0 breaks a rule: no counterpart
            [1, 0, WIFE, 0],  # 2 against her husband's 3
            [1, 1, HUSBAND, 0],  # the same pair from the other side
            [0, 0, WIDOW, 0],  # no man is a widow: no counterpart
            [1, 0, HUSBAND, 0],  # breaks a rule
        ],
        dtype=float,
    )
    result = measure(model, them, "sex")
    rate = result.rate(("sex",), "data")
    assert (rate.flips, rate.n, rate.without, rate.breaking) == (0, 3, 2, 1)

    model = linear(1.0, 0.0, [0, 2, 1, 0], -2.5)
    result = measure(model, them, "sex")
    rate = result.rate(("sex",), "data")
    # Hired from 3 on: the couple of grade 1 differs. As published a wife stays a wife, and no one flips.
    assert (rate.flips, rate.n) == (2, 3)
    published = measure(model, them, "sex", as_published=True)
    assert (published.rates[0].flips, published.rates[0].n, published.counterparts) == (0, 6, False)


def test_published_flips_may_need_a_person_who_breaks_a_rule():
    # Hired for being a man: as published every husband flips, but a female husband does not exist.
    model = linear(0.0, 1.0, [0, 0, 1, 0], -0.5)
    them = np.array([[1, 1, HUSBAND, 0], [1, 0, WIFE, 0], [1, 1, CHILD, 0]], dtype=float)
    rate, published = (measure(model, them, "sex", as_published=ignored).rates[0] for ignored in (False, True))
    assert published.flips == 2  # the husband and the child; a wife is hired as a woman and as a man
    assert rate.flips == 1  # husband and wife are both hired


def test_examples_show_what_moves():
    model = linear(1.0, 0.0, [0, 2, 1, 0], -2.5)
    them = np.array([[1, 0, WIFE, 0], [1, 1, HUSBAND, 0]], dtype=float)
    (pair,) = [one for one in measure(model, them, "sex").examples if one.real]
    assert (pair.worse.values, pair.worse.moved) == ({"sex": "f"}, {"role": "wife"})
    assert (pair.better.values, pair.better.moved) == ({"sex": "m"}, {"role": "husband"})
    assert pair.unprotected == {"grade": "1", "origin": "a"}


def test_as_published_changes_the_attribute_alone():
    model = linear(1.0, 0.0, [0, 2, 1, 0], -2.5)
    published = measure(model, EVERYBODY, "sex", as_published=True).rate(("sex",), "data")
    anyone, config = population.uniform_population(SCHEMA), individual.FlipConfig(protected=("sex",), samples=50)
    plain = individual.measure_flips(model, people(EVERYBODY, SCHEMA.without_rules()), anyone, config)
    plain = plain.rate(("sex",), "data")
    assert published == plain


def counterparts(person: np.ndarray, columns: list[int]) -> list[np.ndarray]:
    """Everybody with other values in these columns; a husband becomes a wife with the sex and the other way round."""
    found = []
    for values in itertools.product(*(range(SCHEMA.attributes[i].size or 0) for i in columns)):
        other = person.copy()
        other[columns] = values
        if other[1] != person[1] and person[2] in (HUSBAND, WIFE):
            other[2] = WIFE if person[2] == HUSBAND else HUSBAND
        if possible(other) and (other != person).any():
            found.append(other)
    return found


def decider(model: object) -> Callable[[np.ndarray], int]:
    # Models of several libraries, which have ``predict`` and no type in common.
    return lambda person: int(model.predict(person[None])[0])  # type: ignore[attr-defined]  # of several libraries


@settings(max_examples=scaled(40), deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_equals_one_person_at_a_time(seed):
    rng = np.random.default_rng(seed)
    layers = [(rng.normal(size=(7, 4)), rng.normal(size=4)), (rng.normal(size=(4, 1)), rng.normal(size=1))]
    model = network_from_dense(SCHEMA, layers)
    decide = decider(model)
    them = EVERYBODY[rng.integers(0, len(EVERYBODY), size=30)]
    result = measure(model, them, "sex", "origin", samples=5)
    for names in [("sex",), ("origin",), ("sex", "origin")]:
        columns = SCHEMA.positions(names)
        flips = compared = without = breaking = 0
        for person in them:
            others = counterparts(person, columns)
            if not possible(person):
                breaking += 1
            elif not others:
                without += 1
            else:
                compared += 1
                flips += any(decide(other) != decide(person) for other in others)
        rate = result.rate(names, "data")
        assert (rate.flips, rate.n, rate.without, rate.breaking) == (flips, compared, without, breaking)


def test_who_is_asked_about_twice_costs_once():
    model = linear(1.0, 0.0, [0, 2, 1, 0], -2.5)
    them = np.array([[1, 1, HUSBAND, 0], [1, 1, CHILD, 0]], dtype=float)
    rate = measure(model, them, "sex").rate(("sex",), "data")
    assert rate.queries == 2 * 2  # the husband and his wife, and the child as a girl and as a boy


def test_no_one_with_a_counterpart_is_unknown_and_not_fair():
    model = linear(1.0, 0.0, [0, 2, 1, 0], -2.5)
    them = np.array([[0, 0, WIDOW, 0], [0, 0, HUSBAND, 0]], dtype=float)
    rate = measure(model, them, "sex").rate(("sex",), "data")
    assert rate.rate.kind == "unknown"
    assert (rate.without, rate.breaking) == (1, 1)

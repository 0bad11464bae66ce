"""The counterfactual flip rate against its definition, by hand, by brute force, and on the census network."""

import itertools
import json
from collections.abc import Callable
from typing import Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenhand import individual, population
from evenhand.errors import OptionError
from evenhand.individual.flips import merge_by_unprotected
from evenhand.models import AdditiveNetwork
from evenhand.models.additive.network import network_from_dense
from evenhand.models.readers import npz
from evenhand.schema import People, Schema
from evenhand.stats import Estimated, Observed
from support import scaled, shared, small_schema

SCHEMA = small_schema(grade=(0, 4), sex="f m *", origin="a b c *")


def people(individuals: np.ndarray, schema: Schema = SCHEMA) -> People:
    n = len(individuals)
    return People(schema, individuals, np.zeros(n, dtype=np.int64), np.arange(n), None)


def linear(weights: list[float], bias: float, schema: Schema = SCHEMA) -> AdditiveNetwork:
    return network_from_dense(schema, [(np.array(weights)[:, None], np.array([bias]))])


def everybody() -> np.ndarray:
    return np.array(list(itertools.product(range(5), range(2), range(3))), dtype=float)


def config(**more: object) -> individual.FlipConfig:
    return individual.FlipConfig(**({"protected": ("sex", "origin"), "samples": 50} | more))


def rate_of(result: individual.IndividualResult, *names: str, over: Literal["data", "population"] = "data"):
    rate = result.rate(names, over)
    assert rate is not None
    return rate


def test_by_hand():
    # hired if grade + 2 * (sex is m) > 2.5: sex decides for grades 1 and 2 (of 0..4), origin never.
    model = linear([1.0, 2.0, 0.0], -2.5)
    result = individual.measure_flips(model, people(everybody()), population.uniform_population(SCHEMA), config())
    sex = rate_of(result, "sex")
    assert (sex.flips, sex.n) == (12, 30)
    assert isinstance(sex.rate, Observed)
    assert sex.rate.value == pytest.approx(0.4)
    assert [rate_of(result, "origin").flips, rate_of(result, "sex", "origin").flips] == [0, 12]
    drawn = rate_of(result, "sex", over="population").rate
    assert isinstance(drawn, Estimated)
    assert drawn.low <= 0.4 <= drawn.high
    examples = [profile for profile in result.examples if set(profile.better.values) == {"sex"}]
    assert examples
    for profile in examples:
        assert set(profile.unprotected) == {"grade", "origin"}
        assert profile.unprotected["grade"] in ("1", "2")
        assert (profile.worse.values, profile.better.values) == ({"sex": "f"}, {"sex": "m"})
        assert (profile.worse.label, profile.better.label) == ("no", "yes")
    assert [profile.gap for profile in examples] == sorted((profile.gap for profile in examples), reverse=True)


@settings(max_examples=scaled(40), deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_equals_one_person_at_a_time(seed):
    rng = np.random.default_rng(seed)
    layers = [(rng.normal(size=(3, 4)), rng.normal(size=4)), (rng.normal(size=(4, 1)), rng.normal(size=1))]
    model = network_from_dense(SCHEMA, layers)
    them = everybody()[rng.integers(0, 30, size=25)]
    result = individual.measure_flips(model, people(them), population.uniform_population(SCHEMA), config(samples=5))
    for names in [("sex",), ("origin",), ("sex", "origin")]:
        columns = SCHEMA.positions(names)
        flips = 0
        for person in them:
            labels = set()
            for assignment in itertools.product(*(range(SCHEMA.attributes[i].size or 0) for i in columns)):
                other = person.copy()
                other[columns] = assignment
                labels.add(int(model.predict(other[None])[0]))
            flips += len(labels) > 1
        rate = rate_of(result, *names)
        assert (rate.flips, rate.n) == (flips, 25)


def test_same_seed_same_result():
    model = linear([1.0, 2.0, 0.5], -2.5)
    given = model, people(everybody()), population.uniform_population(SCHEMA), config(seed=7)
    runs = [individual.measure_flips(*given).model_copy(update={"seconds": 0.0}) for _ in range(2)]
    assert runs[0] == runs[1]
    assert individual.IndividualResult.from_json(runs[0].to_json()) == runs[0]


@pytest.mark.parametrize("calls", [0, 3])
def test_an_interrupt_keeps_what_was_found(calls):
    model = Asked(linear([1.0, 2.0, 0.0], -2.5), calls=calls)
    result = individual.measure_flips(
        model, people(everybody()), population.uniform_population(SCHEMA), config(examples=0)
    )
    assert result.interrupted
    assert bool(result.rates) == (calls > 0)


def test_people_reached_before_a_limit_are_a_fair_draw():
    """Frequent profiles come first when people are merged; counting them all would overstate the rate."""
    rng = np.random.default_rng(1)
    # Profile 0 is half of all people and flips; the rest never do.
    x = np.where(np.arange(400) < 200, 0, np.arange(400))
    them = np.stack([x, rng.integers(0, 2, 400)], axis=1).astype(float)
    rates = []
    for seed in range(200):
        distinct = merge_by_unprotected(them[np.random.default_rng(seed).permutation(400)], [1])
        reached = int(distinct.first[20])
        rates.append((distinct.individuals[:, 0] == 0)[distinct.of[:reached]].mean())
    assert abs(np.mean(rates) - 0.5) < 0.03


def test_refusals():
    with pytest.raises(OptionError, match="no protected attribute"):
        individual.FlipConfig(protected=())
    with pytest.raises(OptionError, match="confidence"):
        config(confidence=1.5)
    narrow = SCHEMA.model_dump(mode="json", exclude_defaults=True)
    narrow["attributes"][1]["values"] = ["f"]
    schema = Schema.parse(narrow)
    with pytest.raises(OptionError, match="only one value"):
        individual.measure_flips(
            linear([1, 1, 1], 0, schema),
            people(everybody()[:3], schema),
            population.uniform_population(schema),
            config(),
        )


def test_census_network_rate_agrees_with_the_published_sample():
    """AC-1 of FairQuant: 0.6335 % of 400,000 uniform points flip with sex."""
    domain = json.loads(shared("data", "certify", "domains.json").read_text())["adult"]
    expected = json.loads(shared("data", "certify", "expected.json").read_text())["networks"]["AC-1"]
    schema = Schema.parse(
        {
            "target": {"name": "income", "favourable": 1},
            "attributes": [
                {"name": a["name"], "kind": "integer", "lower": a["lower"], "upper": a["upper"]}
                | ({"protected": True} if a["name"] == "sex" else {})
                for a in domain["attributes"]
            ],
        }
    )
    model = npz.read_npz(shared("data", "certify", "AC-1.npz"), schema)
    anyone = population.uniform_population(schema)
    them = anyone.sample(2000, np.random.default_rng(0))
    config = individual.FlipConfig(protected=("sex",), samples=100_000, confidence=0.999)
    result = individual.measure_flips(model, people(them, schema), anyone, config)
    rate = rate_of(result, "sex", over="population").rate
    assert isinstance(rate, Estimated)
    assert rate.low <= expected["sampled_truth"]["sex"]["unfair_pct"] / 100 <= rate.high


class Asked:
    """A scorer that decides like another one, unless told otherwise, counts its questions, and may interrupt."""

    def __init__(
        self,
        inner: AdditiveNetwork,
        differs: Callable[[np.ndarray], np.ndarray] | None = None,
        calls: int | None = None,
    ) -> None:
        self.inner, self.differs, self.calls, self.labels, self.scored = inner, differs, calls, 0, 0

    def __getattr__(self, name: str) -> object:
        return getattr(self.inner, name)

    def predict(self, individuals: np.ndarray) -> np.ndarray:
        if self.calls == 0:
            raise KeyboardInterrupt
        if self.calls is not None:
            self.calls -= 1
        self.labels += len(individuals)
        labels = self.inner.predict(individuals)
        return labels if self.differs is None else np.where(self.differs(individuals), 1 - labels, labels)

    def scores(self, individuals: np.ndarray) -> np.ndarray:
        self.scored += len(individuals)
        return self.inner.scores(individuals)


def counted(scorer: object, white_box: AdditiveNetwork | None, them: np.ndarray, **more: object):
    asked = config(**({"samples": 2000, "examples": 0} | more))
    anyone = population.uniform_population(SCHEMA)
    return individual.measure_flips(scorer, people(them), anyone, asked, white_box=white_box)


CROWD = everybody()[np.random.default_rng(5).integers(0, 30, size=3000)]
NUMBERS = {"seconds", "counted_with", "compared"}


def test_a_white_box_counts_the_same_and_the_model_is_asked_for_the_comparison_alone():
    inside = linear([1.0, 2.0, 0.3], -2.55)
    model = Asked(inside)
    alone, together = counted(inside, None, CROWD), counted(model, inside, CROWD)
    assert together.model_dump(exclude=NUMBERS) == alone.model_dump(exclude=NUMBERS)
    assert (alone.counted_with, alone.compared) == ("model", 0)
    assert together.counted_with == "white box"
    assert model.labels == together.compared
    assert 0 < together.compared < sum(rate.queries for rate in together.rates)


def test_scores_of_examples_are_the_models_own():
    inside = linear([1.0, 2.0, 0.3], -2.55)
    model = Asked(inside)
    together = counted(model, inside, CROWD, examples=3)
    assert together.examples == counted(inside, None, CROWD, examples=3).examples
    assert model.scored > 0


def test_a_white_box_that_decides_somebody_otherwise_is_not_asked():
    inside = linear([1.0, 2.0, 0.3], -2.55)
    model = Asked(inside, differs=lambda them: them[:, 0] == 4)
    result = counted(model, inside, CROWD)
    assert (result.counted_with, result.compared) == ("model", 0)
    assert result.rates == counted(Asked(inside, model.differs), None, CROWD).rates


def test_close_decisions_are_left_to_the_model():
    # Grade 2 and sex m add up to exactly 0: rounding decides, which the white box cannot know.
    inside = linear([1.0, 1.0, 0.0], -3.0)
    model = Asked(inside, differs=lambda them: them[:, 0] + them[:, 1] == 3)
    result = counted(model, inside, CROWD)
    assert result.counted_with == "white box"
    assert result.rates == counted(Asked(inside, model.differs), None, CROWD).rates
    assert result.rates != counted(inside, None, CROWD).rates


def test_missing_values_are_left_to_the_model():
    class Answers(Asked):
        def predict(self, individuals: np.ndarray) -> np.ndarray:
            return super().predict(np.nan_to_num(individuals, nan=4.0))

        def scores(self, individuals: np.ndarray) -> np.ndarray:
            return super().scores(np.nan_to_num(individuals, nan=4.0))

    inside = linear([1.0, 2.0, 0.0], -2.5)
    them = CROWD.copy()
    them[::7, 0] = np.nan
    result = counted(Answers(inside), inside, them)
    assert result.counted_with == "white box"
    assert result.rates == counted(Answers(inside), None, them).rates

"""Flips of models that answer differently each time count only if they repeat, and nothing changes for others."""

import itertools
import math

import numpy as np
import pytest

from evenhand import individual, population
from evenhand.individual.flips import confirm_flips, first_difference
from evenhand.individual.wording import noise_notes, noise_sentences
from evenhand.models import load_model
from evenhand.schema import encode
from serving import serving
from support import draw_frame, scaled, small_schema

SCHEMA = small_schema(grade=(0, 4), sex="f m *", origin="a b c *")
UNIFORM = population.uniform_population(SCHEMA)


def people(n, seed=0):
    rng = np.random.default_rng(seed)
    return encode(SCHEMA, draw_frame(rng, n, grade=(0, 4), sex="f m", origin="a b c", hired="no yes"))


def noisy(rate, seed=0):
    """Return a model that says yes with a probability that it computes from a frame."""
    rng = np.random.default_rng([seed, 1])  # not the numbers that people are drawn with

    def answer(frame):
        return np.where(rng.random(len(frame)) < rate(frame), "yes", "no")

    return load_model(answer, SCHEMA)


def measure(model, them, **more):
    settings = {"protected": ("sex",), "samples": 300} | more
    return individual.measure_flips(model, them, UNIFORM, individual.FlipConfig(**settings))


# A fair coin: half of all decisions flip, and none of it is bias.


def test_a_fair_coin_is_noise():
    result = measure(noisy(lambda frame: 0.5, 1), people(1000), protected=("sex", "origin"))
    rate = result.rate(("sex",), "data")
    assert rate.rate.value < 0.01
    assert 0.4 < rate.noise.single.value < 0.6
    for one in result.rates:
        assert one.repeats.differed - one.unrepeated == one.repeats.repeated == one.flips
        assert one.noise.excess.low <= 0 <= one.noise.excess.high
        assert one.noise.people == 300
    # Among six variants nearly everybody has two that differ, as among six answers about the same person.
    assert result.rate(("sex", "origin"), "data").noise.own.value > 0.9
    assert result.examples == ()
    first = result.document().blocks[0]
    assert first.tone == "caution"
    assert len(list(noise_sentences(result))) == 2
    assert individual.IndividualResult.from_json(result.to_json()) == result


@pytest.mark.full
def test_coverage_and_false_claims_from_end_to_end():
    """The excess holds 0 in 95 % of runs of an unbiased model."""
    runs = scaled(100)
    them = people(200)
    rates = [
        measure(noisy(lambda frame: 0.2 + 0.15 * frame["grade"], seed), them, samples=1, examples=0, seed=seed)
        .rate(("sex",), "data")
        .noise
        for seed in range(runs)
    ]
    held = sum(one.excess.low <= 0 <= one.excess.high for one in rates)
    slack = 3 * math.sqrt(0.05 * 0.95 * runs)
    assert held >= 0.95 * runs - slack


def test_a_planted_bias_is_found_behind_the_noise():
    """Women get yes with 10 %, men with 70 %: the excess is 0.6 squared."""
    model = noisy(lambda frame: np.where(frame["sex"] == "f", 0.1, 0.7))
    result = measure(model, people(1000))
    noise = result.rate(("sex",), "data").noise
    assert noise.excess.low <= 0.36 <= noise.excess.high
    assert noise.excess.low > 0
    assert result.examples
    for profile in result.examples:
        assert (profile.worse.values, profile.better.values) == ({"sex": "f"}, {"sex": "m"})
        assert profile.gap > 0.3  # scores are shares of fresh answers


def test_the_majority_of_several_answers_is_less_noisy():

    def rate(frame):
        return np.where(frame["grade"] > 2, 0.8, 0.2)

    once, five = (measure(noisy(rate), people(600), repeats=repeats).rate(("sex",), "data") for repeats in (1, 5))
    # Two answers of the same person differ with 2 * .2 * .8 = 0.32; majorities of five with 2 * .0579 * .9421 = 0.109.
    assert once.noise.own.low <= 0.32 <= once.noise.own.high
    assert five.noise.own.low <= 0.109 <= five.noise.own.high
    assert once.noise.single.low <= 0.32 <= once.noise.single.high
    assert five.noise.single.low <= 0.109 <= five.noise.single.high
    assert five.queries == 5 * once.queries


# Models that repeat themselves


def test_a_model_that_repeats_itself_is_counted_as_before():
    def hired(frame):
        return np.where(frame["grade"] + 2 * (frame["sex"] == "m") > 2, "yes", "no")

    model = load_model(hired, SCHEMA)
    result = measure(model, people(400))
    assert (result.noise.people, result.noise.changed) == (300, 0)
    assert all(rate.noise is None for rate in result.rates)
    assert not list(noise_notes(result))
    rate = result.rate(("sex",), "data")
    assert rate.excess == rate.rate
    assert len(result.examples) > 0

    class Plain:  # says nothing of whether it may vary, and is not asked twice
        def __getattr__(self, name):
            return False if name == "can_vary" else getattr(model, name)

    plain = measure(Plain(), people(400))
    assert plain.noise is None
    assert all(rate.repeats.repeated == rate.repeats.differed > 0 for rate in result.rates)
    rates = tuple(rate.model_copy(update={"repeats": None}) for rate in result.rates)
    assert plain == result.model_copy(update={"noise": None, "seconds": plain.seconds, "rates": rates})


# Rare noise, which asking some people twice hardly ever shows


@pytest.mark.parametrize("chance", [0.001, 0.003, 0.01, 0.05, 0.5])
@pytest.mark.parametrize("repeats", [1, 3])
def test_a_model_that_ignores_sex_does_not_flip(chance, repeats):
    for seed in range(3):
        result = measure(noisy(lambda frame: chance, seed), people(400, seed), repeats=repeats, samples=2000, seed=seed)
        for rate in result.rates:
            assert rate.flips <= 0.01 * rate.repeats.differed  # 0 but for one in a hundred coins
        assert all(profile.worse.label != profile.better.label for profile in result.examples)
        assert chance > 0.3 or not result.examples


@pytest.mark.parametrize("chance", [0.001, 0.01, 0.05])
def test_a_real_dependence_is_found_behind_rare_noise(chance):
    def rate(frame):
        hired = frame["grade"] + 2 * (frame["sex"] == "m") > 2
        return np.where(hired, 1 - chance, chance)

    result = measure(noisy(rate, 3), people(400), samples=2000)
    for one in result.rates:
        # Grades 1 and 2 of five depend on sex.
        assert one.rate.value == pytest.approx(0.4, abs=0.08)
        assert one.flips <= one.n * 0.43
    for profile in result.examples:
        assert (profile.worse.label, profile.better.label) == ("no", "yes")
        assert (profile.worse.values, profile.better.values) == ({"sex": "f"}, {"sex": "m"})
        assert profile.unprotected["grade"] in "12"
    assert len(result.examples) > 0


def test_noise_found_in_flips_alone_is_a_caution():
    rng = np.random.default_rng(0)
    calls = 0

    def answer(frame):
        nonlocal calls
        calls += len(frame)
        # Repeats itself at first: the people who are asked about twice show no noise.
        return np.where(rng.random(len(frame)) < (0.3 if calls > 650 else 0.0), "yes", "no")

    result = measure(load_model(answer, SCHEMA), people(300), samples=3000)
    assert result.noise.changed == 0
    assert sum(rate.unrepeated for rate in result.rates) > 0
    (caution,) = noise_notes(result)
    assert caution.tone == "caution"


def test_a_generator_that_is_seeded_per_call_does_not_flip():
    def answer(frame):
        return np.where(np.random.default_rng(0).random(len(frame)) < 0.2, "yes", "no")

    result = measure(load_model(answer, SCHEMA), people(400), samples=1000)
    assert all(rate.rate.value < 0.02 for rate in result.rates)


# Over HTTP, where answers are kept


def test_noise_behind_an_endpoint_is_measured_with_new_answers():
    rng = np.random.default_rng(2)
    with serving(lambda them: {"predictions": np.where(rng.random(len(them)) < 0.5, "yes", "no").tolist()}) as service:
        model = load_model(service.url, SCHEMA)
        result = measure(model, people(500), examples=0)
        model.model.close()
    # 30 distinct rows for 500 people: had their answers been kept, the interval of the rate would mean nothing.
    rate = result.rate(("sex",), "data")
    assert result.noise.noisy
    assert rate.noise.single.low <= 0.5 <= rate.noise.single.high
    assert rate.noise.excess.low <= 0 <= rate.noise.excess.high
    asked = sum(one.queries + one.noise.queries + one.repeats.queries for one in result.rates)
    # Besides: 30 distinct made-up people at the start, and first answers about the 300 who were asked about twice.
    known = 30 + result.noise.queries
    assert asked + known <= service.asked <= asked + known + 30


# The parts


def test_only_flips_beyond_noise_are_confirmed():
    variants = np.array([[[grade, sex, 0] for sex in (0, 1)] for grade in range(5)] * 8, dtype=float)
    labels = np.tile([0, 1], (len(variants), 1))  # all women no, all men yes

    def rate(frame):
        return np.where((frame["grade"] == 2) & (frame["sex"] == "f"), 0.05, 0.95)

    found = confirm_flips(noisy(rate), variants, labels)
    planted = variants[:, 0, 0] == 2
    assert found.confirmed[planted].mean() > 0.7
    assert found.confirmed[~planted].sum() <= 1
    assert found.check.repeated + found.check.noise == found.check.tested == len(variants)
    assert found.scores[found.confirmed & planted].mean(axis=0) == pytest.approx([0.05, 0.95], abs=0.1)
    false = sum(
        confirm_flips(noisy(lambda frame: 0.5, seed), variants, labels).confirmed.any() for seed in range(scaled(60))
    )
    assert false <= 0.05 * scaled(60) + 3


def test_first_difference_by_hand():
    labels = np.array([[0, 0, 1], [0, 1, 2], [1, 0, 1], [0, 1, 1]])
    compared = np.array([[True, True, True], [False, True, True], [True, True, False], [False, True, True]])
    assert first_difference(labels, compared).tolist() == [[0, 2], [1, 2], [0, 1], [1, 1]]


def test_excess_of_single_answers_is_never_below_zero_on_average():
    """The formula of the module, for random probabilities of labels."""
    rng = np.random.default_rng(0)
    for m, classes in itertools.product((2, 3, 5), (2, 3)):
        p = rng.dirichlet(np.ones(classes), size=m)
        assert (p**m).sum(axis=1).mean() >= p.prod(axis=0).sum()

"""Searches in models that answer differently each time: only what repeats is found."""

import numpy as np
import pandas as pd
import pytest

from evenhand.individual.search import SearchResult, search
from evenhand.individual.search.confirmation import MOST_NOISY
from evenhand.models import load_model
from evenhand.schema import encode
from serving import serving
from support import small_schema

SCHEMA = small_schema(grade=(0, 19), town="a b c d e f", sex="f m *")


def people(n=600):
    rng = np.random.default_rng(0)
    columns = {"grade": rng.integers(0, 20, n), "town": rng.choice(list("abcdef"), n), "sex": rng.choice(["f", "m"], n)}
    return encode(SCHEMA, pd.DataFrame(columns).assign(hired=rng.choice(["no", "yes"], n)))


def noisy(rate, seed=0):
    rng = np.random.default_rng([seed, 1])
    return lambda frame: np.where(rng.random(len(frame)) < rate(frame), "yes", "no")


def in_town_a(frame):
    """Women in town a are refused nine times in ten; everybody else is accepted nine times in ten."""
    return np.where((frame["town"] == "a") & (frame["sex"] == "f"), 0.1, 0.9)


def test_a_fair_coin_discriminates_against_no_one():
    found = search(noisy(lambda frame: 0.5), people(), samples=1000)
    assert found.noise.noisy
    assert found.noise_test.differed > 30
    assert found.noise_test.tested == min(found.noise_test.differed, MOST_NOISY)
    assert found.profiles == 0
    for rate in found.rates:
        assert rate.rate.value < 0.01
    first = found.document().blocks[0]
    assert first.tone == "caution"
    assert SearchResult.from_json(found.to_json()) == found


def test_a_planted_bias_is_told_from_noise():
    found = search(noisy(in_town_a), people(), samples=1000)
    frame = found.to_frame()
    assert len(frame) >= 5
    assert (frame["town"] == "a").mean() >= 0.9  # a false discovery rate of 5 %
    assert (frame["sex (better)"] == "m").all()
    assert (frame["gap"] > 0.3).all()  # scores are shares of new answers
    assert found.rates[0].flips > 0


def test_a_budget_holds_and_the_endpoint_counts_the_same():
    answer = noisy(in_town_a)
    with serving(lambda them: {"predictions": answer(pd.DataFrame(them)).tolist()}) as service:
        model = load_model(service.url, SCHEMA)
        found = search(model, people(), budget=3000, samples=100)
        model.model.close()
    assert found.noise.noisy
    assert found.noise_test.tested > 0
    assert found.queries == service.asked <= 3000


def test_a_model_that_repeats_itself_is_searched_as_before():
    def hired(frame):
        return np.where(frame["grade"] + 3 * (frame["sex"] == "m") > 9, "yes", "no")

    class Known:  # the same model, which says nothing of whether it may vary
        can_vary = False

        def __getattr__(self, name):
            return getattr(model, name)

    model = load_model(hired, SCHEMA)
    checked, plain = (search(one, people(), samples=200) for one in (model, Known()))
    assert (checked.noise.people, checked.noise.changed) == (300, 0)
    assert (plain.noise, plain.noise_test) == (None, None)
    assert checked.noise_test.repeated == checked.noise_test.differed == checked.profiles
    same = {"noise": None, "noise_test": None, "rates": (), "queries": 0, "seconds": 0.0}
    assert [rate.rate for rate in checked.rates] == [rate.rate for rate in plain.rates]
    assert checked.model_copy(update=same) == plain.model_copy(update=same)
    assert checked.profiles > 0


@pytest.mark.parametrize("method", ["frontier", "aequitas", "sg", "random"])
@pytest.mark.parametrize("chance", [0.003, 0.01, 0.5])
def test_rare_noise_is_no_finding(method, chance):
    for seed in range(3):
        found = search(noisy(lambda frame: chance, seed), people(), method=method, samples=500, seed=seed)
        assert found.profiles <= 0.02 * found.noise_test.differed
        for rate in found.rates:
            assert rate.flips <= 0.02 * (0 if rate.repeats is None else rate.repeats.differed)

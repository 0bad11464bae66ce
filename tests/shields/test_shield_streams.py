"""Who arrives: probabilities, orders, adversaries, real people."""

import numpy as np
import pandas as pd
import pytest

from evenhand import models
from evenhand.errors import DataError, OptionError
from evenhand.schema import encode
from evenhand.shields import Inputs
from evenhand.shields.simulation.simulated_shields import RunCounters
from evenhand.shields.simulation.streams import ArrivalSource, ArrivalStream, source_from_people, synthetic_source
from support import small_schema

INPUTS = Inputs(
    ("a", "b"), (0.25, 0.75), (0.4, 0.9), (0.5, 0.2), (0.1, 0.5), (((1.0, 0.0), (0.5, 0.5)), ((0.2, 0.8), (0.6, 0.4)))
)


def sent(source, order, runs=400, steps=60, horizon=30, seed=0):
    """Positions of arrivals, shape (steps, runs), for orders that need no counters."""
    stream = ArrivalStream(source, order, runs=runs, steps=steps, horizon=horizon, rng=np.random.default_rng(seed))
    return np.array([stream.next_arrivals(step, np.arange(runs), None) for step in range(steps)])


def test_arrivals_come_as_the_inputs_say():
    source = synthetic_source(INPUTS)
    assert source.weight.sum() == pytest.approx(1)
    who = source.draw((400_000,), np.random.default_rng(0))
    g, r, c, z = (part[who] for part in (source.group, source.recommendation, source.cost, source.label))
    for group in (0, 1):
        assert (g == group).mean() == pytest.approx(INPUTS.rate[group], abs=0.005)
        mine = g == group
        assert r[mine].mean() == pytest.approx(INPUTS.accept[group], abs=0.008)
        assert z[mine].mean() == pytest.approx(INPUTS.label[group], abs=0.008)
        for recommendation in (0, 1):
            these = mine & (r == recommendation)
            assert (c[these] == 0.5).mean() == pytest.approx(INPUTS.weights[group][recommendation][1], abs=0.01)
    assert not source.real


def test_the_impossible_is_never_drawn_and_sent_all_the_same_by_adversaries():
    source = synthetic_source(Inputs(("a", "b"), (0.5, 0.5), (0.0, 1.0)))
    drawn = sent(source, "random")
    assert not ((source.group[drawn] == 0) & (source.recommendation[drawn] == 1)).any()
    worst = sent(source, "worst")
    assert ((source.group[worst] == 0) & (source.recommendation[worst] == 1)).any()


def test_groups_one_after_the_other_and_by_turns_are_the_same_individuals():
    source = synthetic_source(INPUTS)
    drawn = sent(source, "random")
    for order in ("one-group-first", "alternating"):
        ordered = sent(source, order)
        for start in (0, 30):
            part = slice(start, start + 30)
            assert (np.sort(ordered[part], axis=0) == np.sort(drawn[part], axis=0)).all()
    groups = source.group[sent(source, "one-group-first")][:30]
    assert (np.abs(np.diff(groups, axis=0)).sum(axis=0) <= 1).all()
    assert 0.3 < groups[0].mean() < 0.7  # either begins
    turns = source.group[sent(source, "alternating")][:30]
    fewer = np.minimum((turns == 0).sum(axis=0), (turns == 1).sum(axis=0))
    for run in range(turns.shape[1]):
        assert (np.diff(turns[: 2 * fewer[run], run]) != 0).all()


def test_the_worst_recommendations_are_all_of_one_group():
    source = synthetic_source(INPUTS)
    worst = sent(source, "worst")
    g, r = source.group[worst], source.recommendation[worst]
    for run in range(worst.shape[1]):
        assert len(np.unique(r[g[:, run] == 0, run])) == len(np.unique(r[g[:, run] == 1, run])) == 1
        assert (g[:, run] == r[:, run]).all() or (g[:, run] != r[:, run]).all()


def test_a_greedy_adversary_widens_the_gap():
    source = synthetic_source(INPUTS)
    stream = ArrivalStream(source, "greedy", runs=3000, steps=1, horizon=30, rng=np.random.default_rng(1))
    counts = RunCounters(np.tile([10, 20], (3000, 1)), np.tile([5, 15], (3000, 1)))  # a half, and three quarters
    who = stream.next_arrivals(0, np.arange(3000), counts)
    sent_now = list(zip(source.group[who].tolist(), source.recommendation[who].tolist(), strict=True))
    # Rejecting one more of group a takes 5/10 to 5/11, accepting one of b takes 15/20 to 16/21: a moves more.
    assert sent_now.count((0, 0)) > 0.75 * 3000
    assert len(set(sent_now)) == 4


PEOPLE = pd.DataFrame(
    {
        "sex": ["f", "m", "m", "x", "f", "m"],
        "grade": [1.0, 9.0, 4.0, 5.0, 8.0, 6.0],
        "hired": ["no", "yes", "no", "yes", "yes", "no"],
    }
)
SCHEMA = small_schema(target="hired", sex="x m f *", grade=(0.0, 10.0))


def chances(frame):
    share = frame["grade"].to_numpy(dtype=float) / 10
    return np.stack([1 - share, share], axis=1)


@pytest.fixture
def asked():
    people = encode(SCHEMA, PEOPLE)
    return people, models.load_model(chances, people.schema, like=PEOPLE)


def test_real_people_come_with_recommendation_confidence_and_truth(asked):
    source = source_from_people(*asked, "sex", groups=("f", "m"))
    assert source.groups == ("f", "m")
    assert source.group.tolist() == [0, 1, 1, 0, 1]
    assert source.recommendation.tolist() == [0, 1, 0, 1, 1]
    assert source.cost == pytest.approx([0.4, 0.4, 0.1, 0.3, 0.1])
    assert source.label.tolist() == [0, 1, 0, 1, 0]
    assert source.real
    assert set(source.draw((200,), np.random.default_rng(0)).tolist()) == set(range(5))
    assert (source_from_people(*asked, "sex", cost=2.0).cost == 2).all()
    assert source_from_people(*asked, "sex").groups == ("x", "m", "f")


def test_real_people_without_labels(asked):
    people = encode(SCHEMA, PEOPLE.drop(columns="hired"))
    source = source_from_people(people, asked[1], "sex")
    assert source.label is None
    assert not source.real


@pytest.mark.parametrize(
    ("attribute", "groups", "error", "said"),
    [
        ("grade", None, OptionError, "'grade' is a number"),
        ("sex", ("f", "w"), OptionError, "no value 'w'"),
    ],
)
def test_groups_that_are_none(asked, attribute, groups, error, said):
    with pytest.raises(error, match=said):
        source_from_people(*asked, attribute, groups=groups)


def test_a_group_without_anybody(asked):
    people = encode(SCHEMA, PEOPLE[PEOPLE["sex"] != "x"].reset_index(drop=True))
    with pytest.raises(DataError, match="no one has sex = x"):
        source_from_people(people, asked[1], "sex")


def test_a_cell_without_arrivals_sends_others_of_the_group():
    source = ArrivalSource("s", ("a", "b"), np.array([0, 1]), np.array([1, 0]), np.ones(2), None, None, real=False)
    found = source.cells().draw(np.array([0, 0, 1]), np.array([0, 1, 1]), np.random.default_rng(0))
    assert found.tolist() == [0, 0, 1]

"""Subgroups of a model that answers differently each time: its noise is no finding, a planted gap is one."""

import numpy as np
import pandas as pd
from deciders import Decider, people

from evenhand import subgroups
from evenhand.models import Reply, ask_once
from evenhand.schema import Attribute, Schema, Target, encode
from evenhand.subgroups import SubgroupResult
from support import scaled

FEW = Schema(
    target=Target(name="loan", favourable="yes", values=("no", "yes")),
    attributes=(
        Attribute(name="race", kind="categorical", values=("a", "b", "c", "d"), protected=True),
        Attribute(name="class", kind="ordinal", values=("low", "middle", "high"), protected=True),
    ),
)


class KeptCoin:
    """A coin per answer behind a cache, as a model behind HTTP has one: the same row gets its first answer again."""

    can_vary = True

    def __init__(self, rate, seed):
        self.rate, self.rng, self.known = rate, np.random.default_rng(seed), {}
        self.schema, self.name, self.label_only, self.favourable = FEW, "coin", True, 1
        self.classes = FEW.target.values

    def reply_again(self, individuals):
        labels = (self.rng.random(len(individuals)) < self.rate(individuals)).astype(np.int64)
        return Reply(np.eye(2)[labels], labels, True)

    def predict(self, individuals):
        ask = lambda rows: self.reply_again(rows).labels[:, None].astype(float)  # noqa: E731
        return ask_once(individuals, self.known, ask, batch=1000, width=1)[:, 0].astype(np.int64)

    def scores(self, individuals):
        return np.eye(2)[self.predict(individuals)]


def few(n, seed):
    rng = np.random.default_rng(seed)
    values = {attribute.name: rng.choice(np.array(attribute.values), n) for attribute in FEW.attributes}
    return encode(FEW, pd.DataFrame(values))


def test_a_fair_coin_has_no_subgroups_although_many_people_are_alike():
    """Kept answers would give everybody of a row the same answer, and nearly every run would find a gap."""
    runs = scaled(60)
    false = sum(
        subgroups.find_subgroups(KeptCoin(lambda rows: 0.5, seed), few(600, seed), permutations=100).found > 0
        for seed in range(runs)
    )
    assert false <= 3 + 0.1 * runs  # expected: at most one in twenty


def test_a_planted_gap_is_found_behind_the_noise_and_the_noise_is_said_first():
    model = KeptCoin(lambda rows: np.where(rows[:, 0] == 1, 0.3, 0.6), 0)
    result = subgroups.find_subgroups(model, few(2000, 1), permutations=100)
    assert result.findings[0].rules == {"race": ("b",)}
    assert result.noise.noisy
    first = result.document().blocks[0]
    assert first.tone == "caution"
    assert first.text.startswith("The model answers differently each time")
    assert "answers differently each time" in result.summary()
    assert SubgroupResult.from_json(result.to_json()) == result


def test_a_model_that_repeats_itself_is_counted_as_before():
    world = people(800, seed=3)
    model = Decider(lambda rows: rows[:, 0] == 0)
    before = subgroups.find_subgroups(model, world, permutations=100)
    assert before.noise is None  # nothing says that it may vary
    model.can_vary = True
    result = subgroups.find_subgroups(model, world, permutations=100)
    assert (result.noise.people, result.noise.changed) == (300, 0)
    assert result.model_copy(update={"noise": None, "seconds": before.seconds}) == before

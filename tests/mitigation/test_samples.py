"""What is added to learn from: by hand, against slow references, on real people."""

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenhand.errors import ModelError
from evenhand.mitigation.methods.retrain import relabel_profiles, sample_levelling, sample_opposite
from evenhand.mitigation.metrics import SubgroupGapMetric
from evenhand.mitigation.split import split_people
from evenhand.schema import People, Schema
from evenhand.subgroups import Range
from evenhand.subgroups.perturbation import DECIMAL_STEP
from support import scaled, small_schema

SCHEMA = small_schema(
    target="credit", rooms=(0, 9), job="none clerk chief", income=(0.0, 1.0), sex="female male *", race="A B C *"
)
ROOMS, JOB, INCOME, SEX, RACE = range(5)
MEN = {"sex": ("male",)}


@dataclass(frozen=True)
class Turned:
    """A model whose classes stand the other way round than the target's values."""

    score: Any
    schema: Schema = SCHEMA
    classes: tuple[str, ...] = ("yes", "no")
    favourable: int = 0
    label_only: bool = False
    name: str = "turned"

    def scores(self, individuals):
        yes = np.asarray(self.score(individuals), dtype=np.float64)
        return np.stack([yes, 1 - yes], axis=1)

    def predict(self, individuals):
        return (self.scores(individuals)[:, 0] <= 0.5).astype(np.int64)


def weighted(weights, bias=0.0):
    """A logistic model of the individuals' entries."""
    return Turned(lambda rows: 1 / (1 + np.exp(-(rows @ np.asarray(weights) + bias))))


def drawn(n, seed):
    rng = np.random.default_rng(seed)
    rows = np.stack(
        [rng.integers(0, 10, n), rng.integers(0, 3, n), rng.random(n), rng.integers(0, 2, n), rng.integers(0, 3, n)],
        axis=1,
    ).astype(np.float64)
    return People(SCHEMA, rows, rng.integers(0, 2, n), np.arange(n), None)


def test_a_label_that_nobody_knows_is_refused():
    with pytest.raises(ModelError, match="'maybe'"):
        relabel_profiles(
            Turned(lambda rows: np.full(len(rows), 0.9), classes=("yes", "maybe")), np.zeros((1, 5)), ("sex",)
        )


@settings(max_examples=scaled(30), deadline=None)
@given(st.lists(st.integers(-9, 9), min_size=5, max_size=5), st.integers(-5, 5), st.integers(0, 2**20))
def test_relabelling_against_counting_one_by_one(weights, bias, seed):
    model = weighted(np.array(weights) / 5 + [0.013, 0.017, 0.011, 0.019, 0.023], bias)
    rows = drawn(6, seed).individuals
    rows[5, :SEX] = rows[0, :SEX]  # the same profile under other protected values
    added, labels = relabel_profiles(model, rows, ("sex", "race"))
    expected = {}
    for row in rows:
        variants = []
        for sex, race in itertools.product((0, 1), (0, 1, 2)):
            variants.append([*row[:3], sex, race])
        scores = model.scores(np.array(variants, dtype=float))[:, 0]
        votes = int((scores > 0.5).sum())
        label = int(votes > 3) if votes != 3 else int(scores.mean() > 0.5)
        expected |= {tuple(variant): label for variant in variants}
    assert {tuple(row): label for row, label in zip(added, labels, strict=True)} == expected
    assert len(added) == len(expected)


def one_step(row, people, sensitive):
    """Whether somebody of these people differs from an individual by one step of one attribute, or not at all."""
    steps = np.array([1.0, 1.0, DECIMAL_STEP, 1.0, 1.0])
    apart = np.abs(people - row)
    moved = apart > 1e-12
    near = (moved.sum(axis=1) <= 1) & (apart <= steps + 1e-9).all(axis=1)
    return bool((near & ~moved[:, sensitive].any(axis=1)).any())


SETTINGS = (
    st.lists(st.integers(-9, 9), min_size=5, max_size=5),
    st.integers(-5, 5),
    st.integers(0, 2**20),
    st.sampled_from([MEN, {"sex": ("female",), "rooms": Range(low=3, high=9)}, {"race": ("A", "B")}]),
    st.integers(1, 60),
)


@settings(max_examples=scaled(40), deadline=None)
@given(*SETTINGS)
def test_opposite_samples_against_what_they_must_be(weights, bias, seed, rules, n):
    model = weighted(np.array(weights) / 9, bias / 3 - 1.0)
    people = drawn(150, seed)
    parts = split_people(people, seed=seed)
    added, labels = sample_opposite(model, parts.train, rules, n, rng=np.random.default_rng(seed))
    assert added.shape == (len(labels), 5)
    assert 1 <= len(labels) <= n
    assert len(np.unique(added, axis=0)) == len(added)
    assert SCHEMA.contains(added).all()
    inside = SubgroupGapMetric(rules).inside(People(SCHEMA, added, None, np.arange(len(added)), None))
    assert inside.all()
    members = parts.train.individuals[SubgroupGapMetric(rules).inside(parts.train)]
    sensitive = SCHEMA.positions({*rules, "sex", "race"})
    assert all(one_step(row, members, sensitive) for row in added)
    # The opposite of what the subgroup gets too often.
    wanted = int(SubgroupGapMetric(rules).signed_gap(model, parts.train) <= 0)
    assert (labels == wanted).all()
    # Those whom the model decides so anyway come first; only the others lie nearer to the threshold, the nearest first.
    yes = model.scores(added)[:, 0]
    already = (yes > 0.5) == bool(wanted)
    assert (np.diff(already.astype(int)) <= 0).all()
    assert (np.diff(np.abs(yes - 0.5)[~already]) >= 0).all()


@settings(max_examples=scaled(40), deadline=None)
@given(*SETTINGS)
def test_levelled_samples_against_what_they_must_be(weights, bias, seed, rules, n):
    model = weighted(np.array(weights) / 9 + [0.013, 0.017, 0.011, 0.019, 0.023], bias / 3 - 1.0)
    train = split_people(drawn(150, seed), seed=seed).train
    added, labels = sample_levelling(model, train, rules, n, rng=np.random.default_rng(seed))
    harm = SubgroupGapMetric(rules)
    inside = harm.inside(train)
    favourable = model.scores(train.individuals)[:, 0] > 0.5
    much = harm.signed_gap(model, train) > 0
    # Slowly: who has what their side has too much of, by distance from the threshold times the side's size.
    wrong = [i for i in range(len(train)) if favourable[i] == (inside[i] == much)]
    cost = {i: abs(model.scores(train.individuals[i : i + 1])[0, 0] - 0.5) * (inside == inside[i]).sum() for i in wrong}
    if not wrong:
        assert len(labels) == 0
        return
    assert 1 <= len(labels) <= n
    assert len(np.unique(added, axis=0)) == len(added)
    sensitive = SCHEMA.positions({*rules, "sex", "race"})
    side = harm.inside(People(SCHEMA, added, None, np.arange(len(added)), None))
    assert (labels == np.where(side, int(not much), int(much))).all()
    # Everybody added is a nudge of somebody among the n nearest.
    nearest = sorted(wrong, key=cost.__getitem__)[:n]
    assert all(one_step(row, train.individuals[nearest], sensitive) for row in added)
    # The nearest of all comes first.
    assert one_step(added[0], train.individuals[nearest[:1]], sensitive)


def test_levelled_samples_by_hand():
    # Four men, of whom three are favoured, and eight women, of whom two are. A man's distance counts half a woman's.
    men = [[9, 1, income, 1, 0] for income in (0.52, 0.60, 0.90, 0.10)]
    women = [[9, 1, income, 0, 0] for income in (0.95, 0.99, 0.485, 0.44, 0.30, 0.20, 0.10, 0.05)]
    train = People(SCHEMA, np.array(men + women), np.zeros(12, dtype=np.int64), np.arange(12), None)
    model = Turned(lambda individuals: individuals[:, INCOME])
    (one,), (label,) = sample_levelling(model, train, MEN, 1, rng=np.random.default_rng(3))
    assert (one[SEX], abs(one[INCOME] - 0.52) <= 0.011, label) == (1, True, 0)
    added, labels = sample_levelling(model, train, MEN, 12, rng=np.random.default_rng(3))
    assert len(labels) == 12
    assert (labels == (added[:, SEX] == 0)).all()  # favoured men are to be refused, refused women to be favoured
    # Costs: men 0.02 * 4, 0.10 * 4, 0.40 * 4; women 0.015 * 8, 0.06 * 8, 0.2 * 8 and more.
    order = [0.52, 0.485, 0.60, 0.44, 0.90]
    places = [int(np.argmin(np.abs(np.array(order) - income))) for income in added[:, INCOME]]
    assert places == sorted(places)
    assert set(places) >= {0, 1, 2}


@pytest.mark.parametrize("sample", [sample_opposite, sample_levelling])
def test_nobody_to_sample(sample):
    people = drawn(60, 0)
    model = weighted([1, 0, 0, 0, 0], -4)
    for rules, n in (({"rooms": Range(low=11)}, 5), (MEN, 0)):
        added, labels = sample(model, people, rules, n, rng=np.random.default_rng(0))
        assert added.shape == (0, 5)
        assert labels.shape == (0,)
    added, labels = sample_levelling(model, people, {"rooms": Range(low=0)}, 5, rng=np.random.default_rng(0))
    assert len(labels) == 0  # everybody is inside

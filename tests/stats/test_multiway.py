"""Variances of means over things that were sampled: by hand, by counting pairs, and by their symmetries."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support import scaled

from evenhand.errors import OptionError
from evenhand.stats.level import student_quantile
from evenhand.stats.multiway import multiway_mean, multiway_variance


def test_by_hand():
    """Four differences: texts A A B B, first names x y x y, second names u v v u; mean 1/4."""
    values = np.array([1.0, 0.0, 0.0, 0.0])
    text, first, second = np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1]), np.array([0, 1, 1, 0])
    found = multiway_mean(values, [[text], [first, second]])
    # u = (3, -1, -1, -1) / 16. V_P = 4/3 * 12/256 = 1/16. Sums by text (2, -2)/16, as by either name: 2 * 8/256 = 1/16.
    assert found.mean == 0.25
    assert found.n == 4
    assert found.variance.own == pytest.approx(1 / 16)
    assert found.variance.shared == pytest.approx((0.0, 0.0))
    assert found.variance.clusters == (2, 2, 2)
    assert found.floor == pytest.approx(0.1 / 16)
    # (1/16)^2 / (3 * (1/16)^2 / 1) = 1/3, and no less than 2 - 1.
    assert found.variance.freedom == 1
    assert found.half_width(0.95) == pytest.approx(12.7062 * (1 / 16 + 0.1 / 16) ** 0.5, rel=1e-5)
    assert found.interval(1 - found.p)[0] == pytest.approx(0, abs=1e-9)
    assert found.interval(0.95) == pytest.approx((0.25 - found.half_width(0.95), 0.25 + found.half_width(0.95)))


def test_freedom_by_hand():
    """Thirty texts with two observations each: the first always 1 above the second, texts alternate between 0 and 4."""
    text = np.repeat(np.arange(30), 2)
    values = np.where(text % 2 == 0, 0.0, 4.0) + np.tile([0.5, -0.5], 30)
    found = multiway_mean(values, [[text]], reach=5)
    # u = (+-2 +- 0.5)/60: V_P = 60/59 * 60 * 4.25/3600. By text (+-4)/60: V_T = 30/29 * 30 * 16/3600.
    own, whole = 60 / 59 * 4.25 / 60, 30 / 29 * 8 / 60
    assert found.variance.own == pytest.approx(own)
    assert found.variance.shared == pytest.approx((whole - own,))
    assert found.total == pytest.approx(whole + 0.1 * 25 / 32**2)
    assert found.variance.freedom == pytest.approx(29)
    # Crossed with ten names whose sums cancel, only the texts' variance counts, and never fewer than 10 - 1.
    names = multiway_mean(values, [[text], [np.arange(60) // 2 % 10]])
    assert 9 <= names.variance.freedom < 29


def reference(contributions, families):
    """Inclusion and exclusion by dictionaries, straight from the definition."""

    def by(kinds):
        sums = {}
        for index, part in enumerate(contributions):
            key = tuple(int(codes[index]) for codes in kinds)
            sums[key] = sums.get(key, 0.0) + part
        return sum(total**2 for total in sums.values()) * len(sums) / (len(sums) - 1)

    def sharing(kinds):
        subsets = [some for size in range(1, len(kinds) + 1) for some in combinations(kinds, size)]
        return sum((-1) ** (len(some) + 1) * by(some) for some in subsets)

    own, first = by([np.arange(len(contributions))]), list(families[0])
    added = [sum(sharing([*first, kind]) - sharing(first) for kind in family) for family in families[1:]]
    return own, [max(part, 0.0) for part in (sharing(first) - own, *added)]


@st.composite
def crossed(draw):
    n = draw(st.integers(4, 14))
    kinds = [draw(st.lists(st.integers(0, 3), min_size=n, max_size=n).filter(lambda c: len(set(c)) > 1)) for _ in "123"]
    values = draw(st.lists(st.sampled_from([-1.0, 0.0, 0.0, 1.0]), min_size=n, max_size=n))
    return np.array(values), [np.array(codes) for codes in kinds]


@given(crossed(), st.randoms(use_true_random=False))
@settings(max_examples=scaled(200), deadline=None)
def test_is_the_definition_and_knows_no_order_names_or_sides(world, random):
    values, (text, first, second) = world
    found = multiway_mean(values, [[text], [first, second]])
    own, shared = reference((values - values.mean()) / len(values), [[text], [first, second]])
    assert found.variance.own == pytest.approx(own, abs=1e-12)
    assert found.variance.shared == pytest.approx(shared, abs=1e-12)
    order = random.sample(range(len(values)), len(values))
    names = np.array(random.sample(range(50), 4))
    again = multiway_mean(values[order], [[names[text][order]], [second[order], first[order]]])
    assert again.total == pytest.approx(found.total, abs=1e-12)
    assert again.variance.freedom == pytest.approx(found.variance.freedom)
    turned = multiway_mean(-values, [[text], [first, second]])
    assert (turned.mean, turned.total) == pytest.approx((-found.mean, found.total), abs=1e-12)


def test_pairs_that_share_anything_are_what_is_added():
    """With many clusters the factors C / (C - 1) vanish, and what remains is a sum over pairs: once for each name."""
    rng = np.random.default_rng(3)
    text, *names = (rng.integers(400, size=1500) for _ in range(3))
    contributions = rng.normal(size=1500) + sum(rng.normal(size=400)[codes] for codes in (text, *names))
    same_text = text[:, None] == text
    together = same_text.astype(float)
    for codes in names:
        together += (codes[:, None] == codes) & ~same_text
    found = multiway_variance(contributions, [[text], names])
    assert found.total == pytest.approx(contributions @ together @ contributions, rel=0.01)


def test_few_names_that_meet_all_others_equally_often():
    """Two names of each group, +-1/2 each: the variance of both means is 1/4 + 1/4, less 2 V_P that texts share."""
    text = np.repeat(np.arange(10), 2)
    first = np.tile([0, 1], 10)
    second = np.where(text % 2 == 0, first, 1 - first)
    values = (first - 0.5) - (second - 0.5)
    found = multiway_mean(values, [[text], [first, second]])
    own = 20 / 19 * 10 / 400
    assert found.variance.own == pytest.approx(own)
    assert found.variance.shared == pytest.approx((0.0, 1 / 4 + 1 / 4 - 2 * own))


def test_a_nested_kind_takes_the_place_of_what_lies_within():
    """Texts of one job share the job: with jobs as another kind of the same family only they count."""
    rng = np.random.default_rng(4)
    text = np.repeat(np.arange(20), 3)
    values = rng.normal(size=60)
    nested = multiway_variance(values, [[text, text // 4]])
    alone = multiway_variance(values, [[text // 4]])
    assert nested.total == pytest.approx(max(alone.total, nested.own))
    assert nested.clusters == (20, 5)


def test_nothing_differs_keeps_a_width():
    found = multiway_mean(np.zeros(40), [[np.arange(40) // 2], [np.arange(40) % 20]])
    assert found.variance.total == 0
    assert found.variance.freedom == 19
    assert found.half_width(0.95) == pytest.approx(float(student_quantile(0.95, 19)) * 0.1**0.5 / 22)


def test_a_single_cluster_is_no_sample():
    with pytest.raises(OptionError, match="two clusters"):
        multiway_mean(np.ones(4), [[np.zeros(4, dtype=int)]])

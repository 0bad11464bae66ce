"""Means over things that were sampled: by hand, by counting pairs, by their symmetries, and by simulation."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats as scipy_stats
from tests.support import scaled

from evenhand.errors import OptionError
from evenhand.stats.level import student_quantile
from evenhand.stats.mean import clustered_means
from evenhand.stats.multiway import multiway_mean, multiway_variance
from evenhand.stats.permutation import critical_value

PLAIN = 1.959963984540054


def test_bonett_and_price_by_hand():
    """20 pairs, 6 for and 2 against: (7 - 3) / 22, and the variance of 22 numbers -1, 0 and 1."""
    values = np.array([1.0] * 6 + [-1.0] * 2 + [0.0] * 12)[:, None]
    found = clustered_means(values, np.arange(20), 1.0, z=PLAIN)
    assert found.mean == pytest.approx([0.2])
    assert found.centre == pytest.approx([4 / 22])
    error = np.sqrt((10 / 22 - (4 / 22) ** 2) / 22 * 22 / 21)
    assert found.error == pytest.approx([error])
    low, high = found.interval(PLAIN)
    half = scipy_stats.t.ppf(0.975, 21) * error
    assert (low[0], high[0]) == pytest.approx((4 / 22 - half, 4 / 22 + half))
    p = 2 * scipy_stats.t.sf(4 / 22 / error, 21)
    assert found.z == pytest.approx([scipy_stats.norm.isf(p / 2)])
    assert (found.clusters.tolist(), found.n.tolist()) == ([20], [20])


def test_a_cluster_counts_once_however_often_it_is_written_down():
    rng = np.random.default_rng(0)
    values = rng.choice([-1.0, 0.0, 1.0], size=(40, 2))
    once = clustered_means(values, np.arange(40), 1.0, z=PLAIN)
    often = clustered_means(np.repeat(values, 50, axis=0), np.repeat(np.arange(40), 50), 1.0, z=PLAIN)
    assert often.mean == pytest.approx(once.mean)
    assert often.clusters.tolist() == once.clusters.tolist() == [40, 40]
    assert often.error == pytest.approx(once.error, rel=0.1)
    alone = clustered_means(np.repeat(values, 50, axis=0), np.arange(2000), 1.0, z=PLAIN)
    assert (often.error > 5 * alone.error).all()


def test_equal_numbers_do_not_make_certain():
    found = clustered_means(np.full((6, 1), -1.0), np.arange(6), 1.0, z=PLAIN)
    low, high = found.interval(PLAIN)
    assert found.mean == [-1]
    assert low[0] < -1
    assert -1 < high[0] < 0  # six of six are still something
    assert clustered_means(np.full((2, 1), -1.0), np.arange(2), 1.0, z=PLAIN).interval(PLAIN)[1] > 0


def test_gaps_in_a_column():
    values = np.array([[1.0, np.nan], [0.0, 0.5], [0.0, 0.5], [np.nan, 0.5]])
    found = clustered_means(values, np.array([0, 1, 1, 2]), 1.0, z=PLAIN)
    assert found.mean == pytest.approx([1 / 3, 0.5])
    assert found.n.tolist() == [3, 3]
    assert found.clusters.tolist() == [2, 2]


@pytest.mark.parametrize(("clusters", "columns", "rate"), [(30, 5, 0.3), (120, 10, 0.08)])
def test_intervals_hold_together(clusters, columns, rate):
    """Texts with rates of their own, decided by chance; one column truly differs. Seeded: 200 runs each."""
    rng = np.random.default_rng(5)
    effects = np.zeros(columns)
    effects[0] = 0.1
    truth = effects - (effects.sum() - effects) / (columns - 1)
    runs, held, false = 200, 0, 0
    for _ in range(runs):
        of = np.repeat(np.arange(clusters), rng.integers(1, 4, clusters))
        base = 0.85 * rng.beta(0.3, 0.3 * (1 - rate) / rate, clusters)[of][:, None]
        for added, counts in ((effects, "held"), (0.0, "false")):
            y = (rng.random((len(of), columns)) < base + added).astype(float)
            differences = y - (y.sum(axis=1, keepdims=True) - y) / (columns - 1)
            drawn = clustered_means(differences, of, 1.0, z=PLAIN).maxima(200, rng)
            z = max(critical_value(drawn, 0.95), PLAIN)
            low, high = clustered_means(differences, of, 1.0, z=z).interval(z)
            if counts == "held":
                held += bool(((low <= truth) & (truth <= high)).all())
            else:
                false += bool(((low > 0) | (high < 0)).any())
    # three standard errors of 200 runs at 95 % are 4.6 points
    assert held / runs >= 0.904
    assert false / runs <= 0.096


def test_multiway_by_hand():
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

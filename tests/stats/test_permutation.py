"""Permutation tests, Holm's adjustment, and simultaneous intervals of gaps."""

import itertools
import math

import numpy as np
import pytest
from gaps import permutation_moments, standardised_gap
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.stats import binom, chisquare, hypergeom, norm, poisson

from evenhand.errors import OptionError
from evenhand.stats import bonferroni, difference_interval, holm, permutation, proportion, ratio_interval
from evenhand.stats.level import poisson_cdf, poisson_mean
from evenhand.stats.mean import adjusted_mean_interval
from evenhand.stats.permutation import FAR, adjusted_p, critical_value, group_skewness, permute_counts, tail_scales
from evenhand.stats.proportion import count_pairs, largest_difference_of_proportions, smallest_ratio_of_proportions

tables = st.tuples(st.integers(0, 12), st.integers(0, 12), st.integers(0, 12), st.integers(0, 12))
"""Successes and failures in the group, successes and failures in the rest."""


@pytest.mark.parametrize("sizes", [[3, 2, 4], [900, 700, 1200, 40]])  # one of each of NumPy's methods
def test_dealt_counts_are_hypergeometric(sizes):
    successes, draws = sum(sizes) // 3, 20_000
    dealt = permute_counts(sizes, successes, draws, np.random.default_rng(1))
    assert dealt.shape == (draws, len(sizes))
    assert (dealt.sum(axis=1) == successes).all()
    for size, counts in zip(sizes, dealt.T, strict=True):
        law = hypergeom(sum(sizes), successes, size)
        for k in range(int(law.ppf(0.01)), int(law.ppf(0.99)) + 1):
            # 6 standard deviations: with a hundred looks here one would be off by chance once in five million.
            low, high = binom.interval(1 - 2e-9, draws, law.pmf(k))
            assert low <= (counts == k).sum() <= high


def test_what_cannot_be_dealt_is_refused():
    with pytest.raises(OptionError, match="5 successes among 4 people"):
        permute_counts([2, 2], 5, 10, np.random.default_rng(0))


def test_dealt_sums_keep_every_score_and_its_moments():
    rng = np.random.default_rng(3)
    cells, values = rng.integers(0, 3, 60), rng.random(60)
    sums = permutation.permute_sums(cells, values, 4, 4000, rng)
    assert np.allclose(sums.sum(axis=1), values.sum())
    assert (sums[:, 3] == 0).all()
    sizes = np.bincount(cells, minlength=4)[:3]
    deviation = np.sqrt(values.var(ddof=1) * sizes * (60 - sizes) / 60)
    z = (sums[:, :3] - sizes * values.mean()) / deviation
    assert abs(z.mean(axis=0)).max() < 0.08
    assert abs(z.std(axis=0) - 1).max() < 0.08


def test_z_by_hand():
    """30 of 50 against 40 of 150: gap 1/3, pooled rate 0.35."""
    by_hand = (0.6 - 40 / 150) / math.sqrt(0.35 * 0.65 * (1 / 50 + 1 / 150) * 200 / 199)
    assert standardised_gap(30, 50, 70, 200) == pytest.approx(by_hand)
    assert standardised_gap(0, 50, 0, 200) == standardised_gap(70, 200, 70, 200) == standardised_gap(0, 0, 70, 200) == 0


@given(tables)
def test_moments_are_those_of_the_hypergeometric_law(table):
    a, b, c, d = table
    n, successes, people = a + b, a + c, a + b + c + d
    mean, deviation = permutation_moments(n, successes, people)
    assume(people > 0)
    chances = hypergeom.pmf(np.arange(n + 1), people, successes, n)
    assert mean == pytest.approx(chances @ np.arange(n + 1))
    assert deviation**2 == pytest.approx(chances @ (np.arange(n + 1) - mean) ** 2, abs=1e-12)


def test_critical_value_and_p_by_hand():
    maxima = np.arange(1.0, 20.0)  # 1 to 19: with the observed one 20, so 5 % is the largest alone
    assert critical_value(maxima, 0.95) == pytest.approx(19, rel=1e-4)
    assert critical_value(maxima, 0.9) == pytest.approx(18, rel=1e-4)
    assert critical_value(maxima, 0.99) == math.inf
    assert adjusted_p([19.5, -19.5, 19, 18.5, 0], maxima).tolist() == [0.05, 0.05, 0.1, 0.1, 1]
    assert critical_value(np.arange(999.0), 0.95) == pytest.approx(949, rel=1e-4)  # 50 maxima are as large or larger


@given(st.lists(st.floats(0.1, 6), min_size=5, max_size=60), st.floats(0.5, 0.99), st.floats(0.1, 7))
def test_beyond_the_critical_value_is_a_small_adjusted_p(maxima, confidence, z):
    beyond = z > critical_value(maxima, confidence)
    assert beyond == (adjusted_p(z, maxima) <= 1 - confidence + 1e-9)


def test_adjusted_p_is_exact_over_every_outcome():
    """Four people in three overlapping groups, all permutations known: p <= a happens with probability a at most."""
    groups = np.array([[1, 1, 0, 0, 0, 0], [1, 0, 1, 0, 0, 0], [0, 1, 1, 1, 0, 0]])
    outcomes = np.array([y for y in itertools.product([0, 1], repeat=6) if sum(y) == 3])
    z = abs(standardised_gap(outcomes @ groups.T, groups.sum(axis=1), 3, 6)).max(axis=1)
    # The observed outcome is one of the permutations, so that the others take its place once each.
    p = np.array([adjusted_p(z[i], np.delete(z, i)) for i in range(len(z))])
    for level in (0.05, 0.1, 0.2, 0.5, 0.9):
        assert (p <= level + 1e-12).mean() <= level + 1e-12


@pytest.mark.parametrize("rate", [0.3, 0.02])  # in the smallest group 6 successes are expected, or 0.4
def test_a_search_of_fair_outcomes_errs_as_often_as_it_says(rate):
    """Twelve cells, a sixth of all unions of them: the largest gap is beyond the critical value in 5 % of the runs."""
    rng = np.random.default_rng(4)
    sizes = np.array([20, 20, 30, 40, 60, 80, 100, 120, 150, 200, 300, 400])
    unions = (np.arange(1, 2 ** len(sizes) - 1, 6)[:, None] >> np.arange(len(sizes)) & 1).astype(np.float32)
    n, people, runs = unions @ sizes.astype(np.float32), int(sizes.sum()), 400
    wrong = 0
    for _ in range(runs):
        dealt = rng.binomial(sizes, rate)
        successes = int(dealt.sum())
        mean, deviation = permutation_moments(n, successes, people)
        counts = unions @ np.vstack([dealt, permute_counts(sizes, successes, 99, rng)]).T.astype(np.float32)
        largest = (abs(counts - mean[:, None]) / deviation[:, None]).max(axis=0)
        wrong += adjusted_p(largest[0], largest[1:]) <= 0.05
    low, high = binom.interval(1 - 1e-4, runs, 0.05)
    assert low <= wrong <= high


def test_more_people_than_numpy_deals_among():
    """By the same law: each count within a cell is hypergeometric, and all of them add up."""
    sizes, successes, draws = [4 * 10**8, 5 * 10**8, 3 * 10**8, 40, 0], 6 * 10**8, 2000
    dealt = permute_counts(sizes, successes, draws, np.random.default_rng(5))
    assert (dealt.sum(axis=1) == successes).all()
    assert ((dealt >= 0) & (dealt <= sizes)).all()
    for size, column in zip(sizes[:4], dealt.T, strict=False):
        law = hypergeom(sum(sizes), successes, size)
        assert abs(column.mean() - law.mean()) < 5 * law.std() / draws**0.5
        assert column.std() == pytest.approx(law.std(), rel=0.1)


def test_dealing_by_chance_and_putting_it_right_is_dealing_evenly(monkeypatch):
    """All ways to deal 2 successes among cells of 1, 1 and 2 people, enumerated: 6 pairs of people."""
    monkeypatch.setattr(permutation, "NUMPY_LIMIT", 0)
    dealt = permute_counts([1, 1, 2], 2, 12_000, np.random.default_rng(6))
    ways, many = np.unique(dealt, axis=0, return_counts=True)
    expected = {(1, 1, 0): 1, (1, 0, 1): 2, (0, 1, 1): 2, (0, 0, 2): 1}
    assert {tuple(way) for way in ways.tolist()} == expected.keys()
    share = [expected[tuple(way)] / 6 for way in ways.tolist()]
    assert chisquare(many, np.array(share) * many.sum()).pvalue > 1e-3


def third_over_second(numbers):
    away = np.asarray(numbers, dtype=float) - np.mean(numbers)
    second = (away**2).mean()
    return (away**3).mean() / second**1.5 if second > 1e-12 else 0.0


@given(st.lists(st.integers(0, 5), min_size=3, max_size=8), st.integers(1, 7))
def test_skewness_by_every_way_to_choose_a_group(values, size):
    if size >= len(values):
        return
    sums = [sum(chosen) for chosen in itertools.combinations(values, size)]
    found = group_skewness(size, len(values), third_over_second(values))
    assert found == pytest.approx(third_over_second(sums), abs=1e-9)


def test_no_room_no_skewness():
    assert group_skewness([0, 5, 1], [5, 5, 2], 1.3).tolist() == [0.0, 0.0, 0.0]


def test_no_skewness_no_change():
    above, below = tail_scales(np.zeros(3))
    assert above.tolist() == below.tolist() == [1.0] * 3


@pytest.mark.parametrize(("size", "successes"), [(50, 10), (50, 50), (50, 300), (200, 20), (400, 700), (30, 30)])
def test_tails_are_as_heavy_as_normal_ones(size, successes):
    """Of 1,000 people: the scaled deviation of every far outcome says how rare it is, within half a deviation."""
    people = 1000
    chance = hypergeom(people, successes, size)
    share = successes / people
    skewness = group_skewness(size, people, (1 - 2 * share) / math.sqrt(share * (1 - share)))
    scales = dict(zip("ab", tail_scales(skewness), strict=True))
    for k in range(size + 1):
        z = (k - chance.mean()) / chance.std()
        rare = chance.sf(k) + chance.pmf(k) / 2 if z > 0 else chance.cdf(k) - chance.pmf(k) / 2
        if 1e-5 < rare < 1e-3:
            scaled = abs(z) * scales["a" if z > 0 else "b"]
            assert abs(scaled - norm.isf(rare)) < 0.5
            assert abs(scaled - norm.isf(rare)) < abs(abs(z) - norm.isf(rare)) + 0.15


def test_a_scale_is_never_turned_round():
    above, below = tail_scales(np.array([-100.0, 100.0]))
    assert (above > 0).all()
    assert (below > 0).all()
    assert above[0] == below[1] == FAR


def test_holm_by_hand():
    """Three times the smallest, twice the next and never less than before, once the largest."""
    assert holm([0.02, 0.002, 0.06]) == pytest.approx([0.04, 0.006, 0.06])
    assert holm([0.02, 0.03, 0.01]) == pytest.approx([0.04, 0.04, 0.03])
    assert holm([0.9, 0.8]) == pytest.approx([1, 1])
    assert holm([]).shape == (0,)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=20), st.floats(0.001, 0.5))
def test_holm_rejects_step_by_step(p, level):
    rejected = set()
    for step, i in enumerate(sorted(range(len(p)), key=p.__getitem__)):
        if p[i] * (len(p) - step) > level:
            break
        rejected.add(i)
    assert set(np.flatnonzero(holm(p) <= level)) == rejected


def test_poisson_is_scipys():
    k, mean = np.meshgrid(np.arange(0, 40, 3), [0.0, 1e-9, 0.3, 5.0, 326.8])
    assert poisson_cdf(k, mean) == pytest.approx(poisson.cdf(k, mean), rel=1e-10, abs=1e-300)
    assert poisson_cdf(k, poisson_mean(k, 0.01)) == pytest.approx(np.full(k.shape, 0.01))


def test_normal_p_is_scipys():
    z = np.array([-40.0, -3.6, -1.0, 0.0, 1.96, 12.0])
    assert permutation.normal_p_value(z) == pytest.approx(2 * norm.sf(abs(z)), rel=1e-12)


groups = st.lists(
    st.integers(1, 300).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))), min_size=2, max_size=6
)


def columns(rows):
    return tuple(np.array(column) for column in zip(*rows, strict=True))


def largest_difference_of_means(mean, variance, n):
    """Compute the simultaneous interval for the largest difference of means."""
    level = bonferroni(0.95, count_pairs(len(n)))
    return proportion.mean_limits((mean, variance, n), level, lower=0.0, upper=1.0).largest_difference()


def test_two_groups_have_the_plain_interval_without_its_sign():
    assert largest_difference_of_proportions([30, 10], [50, 60]) == pytest.approx(difference_interval(30, 50, 10, 60))
    assert largest_difference_of_proportions([10, 30], [60, 50]) == pytest.approx(difference_interval(30, 50, 10, 60))
    low, high = difference_interval(10, 50, 12, 60)
    assert low < 0 < high
    assert largest_difference_of_proportions([10, 12], [50, 60]) == pytest.approx((0, max(-low, high)))
    assert smallest_ratio_of_proportions([30, 10], [50, 60]) == pytest.approx(ratio_interval(10, 60, 30, 50))


@pytest.mark.parametrize(
    ("sizes", "rates"),
    [
        ([10_000, 10_000, 30], [0.3, 0.5, 0.55]),  # the truly best is small: the observed pair is often another
        ([100_000] + [30] * 50, [0.005] * 51),  # rare events in many small groups
        ([5000] * 2 + [100] * 20, [0.01] * 22),
        ([100] * 8, list(np.linspace(0.1, 0.5, 8))),
    ],
)
def test_many_groups_cover_the_truly_widest_gap(sizes, rates):
    rng = np.random.default_rng(5)
    n, p = np.array(sizes), np.array(rates)
    difference, quotient = p.max() - p.min(), p.min() / p.max()
    covered = np.zeros(2)
    for _ in range(200):
        k = rng.binomial(n, p)
        for which, (truth, (low, high)) in enumerate(
            [(difference, largest_difference_of_proportions(k, n)), (quotient, smallest_ratio_of_proportions(k, n))]
        ):
            covered[which] += low <= truth + 1e-12 and truth <= high + 1e-12
    assert (covered / 200 >= 0.95).all()


@given(groups, st.sampled_from([0.8, 0.95]))
def test_agrees_with_brute_force_over_pairs(rows, confidence):
    k, n = columns(rows)
    level = bonferroni(confidence, count_pairs(len(k)))
    low, high = 0.0, 0.0
    for i, j in itertools.permutations(range(len(k)), 2):
        below, above = difference_interval(k[i], n[i], k[j], n[j], level)
        low, high = max(low, below), max(high, above)
    assert largest_difference_of_proportions(k, n, confidence) == pytest.approx((low, high), abs=1e-12)


@given(groups, st.randoms(use_true_random=False))
def test_order_does_not_matter_and_the_observed_gap_is_inside(rows, random):
    k, n = columns(rows)
    shares = k / n
    difference, quotient = largest_difference_of_proportions(k, n), smallest_ratio_of_proportions(k, n)
    assert 0 <= difference[0] <= shares.max() - shares.min() <= difference[1] <= 1
    if shares.max() > 0:
        assert 0 <= quotient[0] <= shares.min() / shares.max() * (1 + 1e-12)
        assert shares.min() / shares.max() * (1 - 1e-12) <= quotient[1] <= 1
    random.shuffle(rows)
    k, n = columns(rows)
    assert largest_difference_of_proportions(k, n) == pytest.approx(difference, abs=1e-12)
    assert smallest_ratio_of_proportions(k, n) == pytest.approx(quotient, abs=1e-12)


def test_nobody_succeeds_anywhere():
    low, high = largest_difference_of_proportions([0, 0, 0], [40, 50, 60])
    assert low == 0
    assert 0 < high < 0.2
    assert smallest_ratio_of_proportions([0, 0, 0], [40, 50, 60]) == (0, 1)


def test_means_by_pairs():
    mean, variance, n = np.array([0.2, 0.35, 0.3]), np.array([0.01, 0.02, 0.015]), np.array([100, 200, 150])
    level = bonferroni(0.95, 3)
    low, high = adjusted_mean_interval(mean, variance, n, level)
    down, up = mean - low, high - mean
    pairs = [(mean[i] - mean[j], i, j) for i, j in [(1, 0), (1, 2), (2, 0)]]
    intervals = [(gap - np.hypot(down[i], up[j]), gap + np.hypot(up[i], down[j])) for gap, i, j in pairs]
    expected = max(below for below, _ in intervals), max(above for _, above in intervals)
    assert largest_difference_of_means(mean, variance, n) == pytest.approx(expected)


def test_means_cover_the_truly_widest_gap():
    rng = np.random.default_rng(6)
    shapes = [(2, 8), (2, 6), (2, 8), (3, 9)]
    truth = max(a / (a + b) for a, b in shapes) - min(a / (a + b) for a, b in shapes)
    sizes = [40, 35, 200, 90]
    covered = 0
    for _ in range(300):
        samples = [rng.beta(a, b, n) for (a, b), n in zip(shapes, sizes, strict=True)]
        mean, variance = (np.array([f(sample) for sample in samples]) for f in (np.mean, lambda s: np.var(s, ddof=1)))
        low, high = largest_difference_of_means(mean, variance, np.array(sizes))
        covered += low <= truth <= high
    assert covered / 300 >= 0.95


def test_one_group_has_no_gap():
    assert (count_pairs(2), count_pairs(5)) == (1, 10)
    for gap in (largest_difference_of_proportions, smallest_ratio_of_proportions):
        with pytest.raises(OptionError, match="at least two groups"):
            gap([1], [2])
    with pytest.raises(OptionError, match="at least two groups"):
        largest_difference_of_means([0.1], [0.1], [5])

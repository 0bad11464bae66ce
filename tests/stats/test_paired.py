"""Changes on the same people: by hand, against independent references, and how often the intervals cover."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq, minimize_scalar
from scipy.special import xlogy
from scipy.stats import binom, binomtest, multinomial

from evenhand.errors import OptionError
from evenhand.stats import auc_difference, difference_interval, mcnemar, paired_difference
from evenhand.stats.level import normal_quantile
from evenhand.stats.mean import SampleMoments, welch_interval
from evenhand.stats.paired import (
    PairedCells,
    PairedNumbers,
    change_of_gap,
    change_of_largest,
    change_of_smallest_ratio,
    paired_contrast,
)
from support import scaled

COUNTS = st.integers(0, 12)


def test_mcnemar_by_hand():
    # Of 6 who change, 1 or fewer one way: (1 + 6) / 64, twice.
    assert mcnemar(1, 5) == mcnemar(5, 1) == pytest.approx(14 / 64)
    assert mcnemar(0, 0) == 1
    assert mcnemar(4, 4) == 1
    assert mcnemar(0, 10) == pytest.approx(2 / 1024)


@given(COUNTS, COUNTS)
def test_mcnemar_is_the_sign_test(gained, lost):
    if gained + lost:
        assert mcnemar(gained, lost) == pytest.approx(binomtest(gained, gained + lost).pvalue)


def tango(gained, lost, n, confidence):
    """The score interval, its likeliest share found by a search over the likelihood and its ends by a fine grid."""
    z = normal_quantile(confidence)

    def excess(d):
        def loss(q):
            return -(xlogy(gained, q + d) + xlogy(lost, q) + xlogy(n - gained - lost, max(1 - 2 * q - d, 0)))

        low, high = max(0.0, -d), (1 - d) / 2
        options = {"xatol": 1e-13}
        q = minimize_scalar(loss, bounds=(low, high), method="bounded", options=options).x if high > low else low
        return (gained - lost - n * d) ** 2 - z**2 * n * (q + (q + d) - d * d)

    change = (gained - lost) / n
    low = brentq(excess, -1 + 1e-9, change - 1e-9) if excess(-1 + 1e-9) > 0 > excess(change - 1e-9) else -1.0
    high = brentq(excess, change + 1e-9, 1 - 1e-9) if excess(1 - 1e-9) > 0 > excess(change + 1e-9) else 1.0
    return low, high


@pytest.mark.parametrize(("gained", "lost", "n"), [(12, 2, 50), (3, 14, 40), (30, 5, 60), (5, 9, 25), (9, 60, 1000)])
def test_score_interval_against_a_search_for_the_likeliest(gained, lost, n):
    low, high = tango(gained, lost, n, 0.95)
    found = paired_difference(gained, lost, n)
    if mcnemar(gained, lost) > 0.05:
        low, high = min(low, 0), max(high, 0)
    assert found == pytest.approx((low, high), abs=1e-5)


def test_the_interval_without_any_change_has_a_width():
    # With nobody changed, the ends are those d at which n d^2 = z^2 |d| (1 - |d|).
    z = normal_quantile(0.95)
    assert paired_difference(0, 0, 100)[1] == pytest.approx(z**2 / (100 + z**2))
    assert paired_difference(0, 0, 0) == (-1, 1)


@given(COUNTS, COUNTS, st.integers(0, 40), st.sampled_from([0.8, 0.95, 0.998]))
def test_what_the_interval_says_of_no_change_the_exact_test_says(gained, lost, rest, confidence):
    n = gained + lost + rest
    low, high = paired_difference(gained, lost, n, confidence)
    assert -1 <= low <= high <= 1
    if n:
        assert low <= (gained - lost) / n <= high
    mirrored = paired_difference(lost, gained, n, confidence)
    assert (low, high) == pytest.approx((-mirrored[1], -mirrored[0]), abs=1e-9)
    if low > 0 or high < 0:
        assert mcnemar(gained, lost) <= 1 - confidence


@pytest.mark.parametrize("shares", [(0.05, 0.05), (0.02, 0.15), (0.25, 0.1)])
@pytest.mark.parametrize("confidence", [0.95, 0.998])
def test_the_interval_covers_summed_over_all_samples(shares, confidence):
    n = 40
    covered = 0.0
    for gained in range(n + 1):
        for lost in range(n + 1 - gained):
            chance = multinomial.pmf((gained, lost, n - gained - lost), n, (*shares, 1 - sum(shares)))
            if chance > 1e-7:
                low, high = paired_difference(gained, lost, n, confidence)
                covered += chance * (low <= shares[0] - shares[1] <= high)
    assert covered > confidence - 0.5 * (1 - confidence)


@pytest.mark.parametrize("confidence", [0.95, 0.999])
def test_without_a_change_it_hardly_ever_claims_one(confidence):
    n = 60
    for share in (0.02, 0.1, 0.3):
        claims = 0.0
        for changed in range(n + 1):
            low_high = [paired_difference(gained, changed - gained, n, confidence) for gained in range(changed + 1)]
            wrong = sum(
                binom.pmf(gained, changed, 0.5) for gained, (low, high) in enumerate(low_high) if low > 0 or high < 0
            )
            claims += binom.pmf(changed, n, share) * wrong
        assert claims <= 1 - confidence


def test_nonsense_is_refused():
    for wrong in ((-1, 2, 10), (6, 5, 10)):
        with pytest.raises(OptionError):
            paired_difference(*wrong)
    with pytest.raises(OptionError):
        mcnemar(-1, 3)


def test_counting_cells():
    cell = np.array([0, 0, 1, -1, 1, 1])
    before = np.array([1, 0, 1, 1, 0, 1], dtype=bool)
    after = np.array([1, 1, 0, 1, 0, 0], dtype=bool)
    cells = PairedCells.count(cell, before, after, 3)
    assert cells.counts.tolist() == [[[0, 1], [0, 1]], [[1, 0], [2, 0]], [[0, 0], [0, 0]]]
    assert cells.sizes.tolist() == [2, 3, 0]
    first, second = cells.shares()
    assert first.tolist() == pytest.approx([0.5, 2 / 3, 0.5])
    assert second.tolist() == pytest.approx([1, 0, 0.5])


def test_one_cell_is_agresti_and_min():
    gained, lost, n = 9, 3, 60
    cells = PairedCells(np.array([[[30, gained], [lost, n - 30 - gained - lost]]]))
    low, high = paired_contrast(cells, [1], [1])
    add = 1.959963984540054**2 / 8
    b, c, m = gained + add, lost + add, n + 4 * add
    reach = 1.959963984540054 * math.sqrt(b + c - (b - c) ** 2 / m) / m
    assert (low, high) == pytest.approx(((b - c) / m - reach, (b - c) / m + reach))


@given(
    st.lists(st.tuples(COUNTS, COUNTS, COUNTS, COUNTS), min_size=1, max_size=4),
    st.lists(st.sampled_from([-1.0, -0.5, 0.0, 0.3, 1.0]), min_size=8, max_size=8),
)
def test_contrasts_against_people_one_by_one(tables, weights):
    counts = np.array(tables).reshape(-1, 2, 2)
    k = len(counts)
    before, after = np.array(weights[:k]), np.array(weights[4 : 4 + k])
    low, high = paired_contrast(PairedCells(counts), before, after, 0.9)
    z = normal_quantile(0.9)
    centre, variance = 0.0, 0.0
    for table, v, w in zip(counts, before, after, strict=True):
        values = np.array([w * second - v * first for first in (0, 1) for second in (0, 1)])
        masses = table.ravel() + z**2 / 8
        masses /= masses.sum()
        mean = float(values @ masses)
        centre += mean
        variance += float(((values - mean) ** 2) @ masses) / (table.sum() + z**2 / 2)
    observed = sum(
        (w * table[:, 1].sum() - v * table[1].sum()) / table.sum() if table.sum() else (w - v) / 2
        for table, v, w in zip(counts, before, after, strict=True)
    )
    reach = z * math.sqrt(variance)
    assert float(low) == pytest.approx(min(centre - reach, observed), abs=1e-9)
    assert float(high) == pytest.approx(max(centre + reach, observed), abs=1e-9)


def drawn(rng, sizes, shares):
    """Counts of cells whose people answer yes with these shares before and after, half of them by the same luck."""
    tables = []
    for n, (before, after) in zip(sizes, shares, strict=True):
        luck = rng.random(n)
        other = np.where(rng.random(n) < 0.5, luck, rng.random(n))
        tables.append(PairedCells.count(np.zeros(n, dtype=np.int64), luck < before, other < after, 1).counts[0])
    return PairedCells(np.array(tables))


CASES = {
    "two groups, mended": ((60, 200), ((0.2, 0.45), (0.5, 0.5))),
    "two groups, turned": ((150, 150), ((0.2, 0.5), (0.4, 0.3))),
    "three equal groups": ((80, 80, 80), ((0.4, 0.4), (0.4, 0.4), (0.4, 0.4))),
    "small and rare": ((40, 300, 60), ((0.02, 0.05), (0.1, 0.08), (0.05, 0.05))),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("confidence", [0.9, 0.99])
def test_the_change_of_the_largest_gap_is_covered_whichever_pairs_are_expected(case, confidence):
    sizes, shares = CASES[case]
    pairs = list(itertools.combinations(range(len(sizes)), 2))
    truth = np.ptp([after for _, after in shares]) - np.ptp([before for before, _ in shares])
    low_truth = min(a for _, a in shares) / max(a for _, a in shares)
    ratio_truth = low_truth - min(b for b, _ in shares) / max(b for b, _ in shares)
    rng = np.random.default_rng(len(case))
    missed, ratio_missed, runs = 0, 0, 250
    for run in range(runs):
        cells = drawn(rng, sizes, shares)
        expected = (run % (2 * len(pairs)), (run // 2) % (2 * len(pairs)))
        low, high = change_of_largest(cells, pairs, expected, confidence)
        missed += not low <= truth <= high
        low, high = change_of_smallest_ratio(cells, pairs, expected, confidence)
        ratio_missed += not low <= ratio_truth <= high
    slack = 2.6 * math.sqrt(runs * confidence * (1 - confidence))
    assert missed <= runs * (1 - confidence) + slack
    assert ratio_missed <= runs * (1 - confidence) + slack


def test_bounds_by_hand_over_all_pairs():
    cells = drawn(np.random.default_rng(5), (90, 120, 60), ((0.3, 0.4), (0.6, 0.5), (0.2, 0.6)))
    pairs = [(1, 0), (2, 0)]
    # Positions 2 and 3 are the same pairs in the other order.
    weights = np.array([[-1.0, 1.0, 0.0], [-1.0, 0.0, 1.0], [1.0, -1.0, 0.0], [1.0, 0.0, -1.0]])
    for before, after in ((0, 1), (3, 0), (2, 2)):
        highs = [paired_contrast(cells, weights[before], one, 0.95)[1] for one in weights]
        lows = [paired_contrast(cells, one, weights[after], 0.95)[0] for one in weights]
        low, high = change_of_largest(cells, pairs, (before, after))
        assert (low, high) == (pytest.approx(min(lows)), pytest.approx(max(highs)))


def test_one_pair_of_groups_is_as_sharp_as_a_single_difference():
    """With two groups that are clearly apart nothing is paid for not knowing which is ahead."""
    cells = drawn(np.random.default_rng(6), (300, 700), ((0.2, 0.4), (0.6, 0.6)))
    for widest in ((1, 1), (1, 0), (0, 1)):
        low, high = change_of_largest(cells, [(0, 1)], widest, 0.998)
        alone = paired_contrast(cells, [-1, 1], [-1, 1], 0.998)
        assert (low == pytest.approx(float(alone[0]))) == (widest[1] == 1)
        assert (high == pytest.approx(float(alone[1]))) == (widest[0] == 1)


def test_one_ratio_by_hand():
    counts = np.array([[[50, 10], [5, 15]], [[80, 20], [30, 110]]])
    low, high = change_of_smallest_ratio(PairedCells(counts), [(0, 1)], (0, 0), 0.95)
    z = normal_quantile(0.95)
    padded = counts + z**2 / 8
    n = padded.sum(axis=(1, 2))
    p, q = padded[:, 1].sum(axis=1) / n, padded[:, :, 1].sum(axis=1) / n
    first, second = p[0] / p[1], q[0] / q[1]
    one, other = (math.sqrt(sum((1 - share) / (share * n))) for share in (p, q))
    ends = [(ratio * math.exp(-z * e), ratio * math.exp(z * e)) for ratio, e in ((first, one), (second, other))]
    # The logarithms' covariance: that of the two answers within each group, divided by both shares.
    together = sum((padded[:, 1, 1] / n - p * q) / (n * p * q)) / (one * other)
    a, b = second - ends[1][0], ends[0][1] - first
    assert low == pytest.approx(second - first - math.sqrt(a * a + b * b - 2 * together * a * b))
    a, b = ends[1][1] - second, first - ends[0][0]
    assert high == pytest.approx(second - first + math.sqrt(a * a + b * b - 2 * together * a * b))


def delong(before, after, positive):
    """The change of the area and its standard error, by comparing everybody with everybody."""
    areas, wins, losses = [], [], []
    for scores in (before, after):
        above, below = scores[positive][:, None], scores[~positive][None, :]
        won = (above > below) + 0.5 * (above == below)
        areas.append(won.mean())
        wins.append(won.mean(axis=1))
        losses.append(won.mean(axis=0))
    covariance = np.cov(wins) / positive.sum() + np.cov(losses) / (~positive).sum()
    return areas[1] - areas[0], math.sqrt(covariance[0, 0] + covariance[1, 1] - 2 * covariance[0, 1])


def test_the_change_of_an_area_against_all_comparisons():
    rng = np.random.default_rng(1)
    positive = rng.random(80) < 0.4
    before = np.round(positive + rng.normal(size=80), 1)
    after = np.round(0.5 * positive + 0.7 * before + 0.5 * rng.normal(size=80), 1)
    value, error = delong(before, after, positive)
    found = auc_difference(before, after, positive, 0.95)
    assert found.value == pytest.approx(value)
    reach = 1.959963984540054 * error
    assert (found.low, found.high) == pytest.approx((value - reach, value + reach))
    assert found.p == pytest.approx(math.erfc(abs(value) / error / math.sqrt(2)))


def test_the_change_of_an_area_covers():
    rng = np.random.default_rng(2)
    missed, runs = 0, 400
    for _ in range(runs):
        positive = rng.random(150) < 0.3
        shared = positive + rng.normal(size=150)
        found = auc_difference(shared + rng.normal(size=150), shared + rng.normal(size=150), positive, 0.9)
        missed += not found.low <= 0 <= found.high
    assert 0.05 * runs < missed < 0.15 * runs


def test_areas_of_which_nothing_can_be_said():
    scores, positive = np.array([0.1, 0.9, 0.4, 0.6]), np.array([False, True, False, True])
    same = auc_difference(scores, 2 * scores, positive)
    assert (same.value, same.low, same.high, same.p) == (0, 0, 0, 1)
    one = auc_difference(scores, scores[::-1].copy(), np.array([True, False, False, False]))
    assert (one.low, one.high, one.p) == (-1, 1, 1)
    turned = auc_difference(scores, -scores, positive)
    assert (turned.value, turned.low, turned.high) == (-1, -1, 1)
    with pytest.raises(OptionError):
        auc_difference(scores, scores, np.ones(4, dtype=bool))


def test_one_pair_that_is_plainly_widest_has_the_interval_of_its_own_change():
    # 200 people each; the first group's rate falls from 0.8 to 0.6, the second's stays at 0.2.
    counts = np.array([[[30, 10], [50, 110]], [[150, 10], [10, 30]]])
    cells, groups = PairedCells(counts), np.eye(2)
    low, high = change_of_gap(cells, groups, groups, 0.95)
    own = np.array([1.0, -1.0])
    by_hand = paired_contrast(cells, own, own, 1 - 0.9 * 0.05)
    assert (low, high) == pytest.approx(by_hand)
    assert low < -0.2 < high < 0


def unpaired(k1, n1, k2, n2):
    """Two samples of two or more groups as cells: everybody answers once."""
    groups = len(k1)
    table = np.zeros((2 * groups, 2, 2), dtype=np.int64)
    table[:groups, 1, 0], table[:groups, 0, 0] = k1, n1 - k1
    table[groups:, 0, 1], table[groups:, 0, 0] = k2, n2 - k2
    nothing = np.zeros((groups, groups))
    return PairedCells(table), np.hstack([np.eye(groups), nothing]), np.hstack([nothing, np.eye(groups)])


def test_two_samples_that_are_far_apart_agree_with_a_difference_of_differences():
    n = np.array([1000, 1000])
    low, high = change_of_gap(*unpaired(np.array([800, 300]), n, np.array([700, 300]), n), 0.95)
    one, other = difference_interval(800, 1000, 300, 1000), difference_interval(700, 1000, 300, 1000)
    reach = math.hypot(one[1] - one[0], other[1] - other[0]) / 2
    assert (high - low) / 2 == pytest.approx(reach, rel=0.06)
    assert (high + low) / 2 == pytest.approx(-0.1, abs=0.01)


CHANGES = {
    "same pair": ((0.6, 0.3), (0.5, 0.3)),
    "no gap": ((0.4, 0.4), (0.4, 0.4)),
    "turned round": ((0.55, 0.45), (0.45, 0.55)),
    "closed": ((0.5, 0.42), (0.45, 0.45)),
    "three groups, another one widest": ((0.5, 0.4, 0.3), (0.4, 0.5, 0.33)),
    "rare": ((0.05, 0.02), (0.02, 0.02)),
}


@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.parametrize("paired", [True, False])
def test_the_interval_covers_the_true_change(name, paired):
    before, after = (np.array(one) for one in CHANGES[name])
    truth = np.ptp(after) - np.ptp(before)
    rng = np.random.default_rng(len(name))
    n = np.array([300, 200, 150][: len(before)])
    hits, runs = 0, scaled(1500)
    for _ in range(runs):
        if paired:
            # One uniform number decides both answers of most people: they depend on each other.
            table = []
            for size, p, q in zip(n, before, after, strict=True):
                first = rng.random(size)
                second = np.where(rng.random(size) < 0.7, first, rng.random(size))
                table.append(np.bincount(2 * (first < p) + (second < q), minlength=4).reshape(2, 2))
            cells, groups = PairedCells(np.array(table)), np.eye(len(n))
            low, high = change_of_gap(cells, groups, groups, 0.9)
        else:
            low, high = change_of_gap(*unpaired(rng.binomial(n, before), n, rng.binomial(n, after), n), 0.9)
        hits += low - 1e-9 <= truth <= high + 1e-9
    assert hits / runs >= 0.9 - 3.1 * math.sqrt(0.9 * 0.1 / runs)


def test_a_contrast_of_unskewed_numbers_before_is_welch_interval():
    rng = np.random.default_rng(0)
    half = rng.normal(size=40)
    numbers = np.concatenate([half, -half, 3 * half[:30] + 1, 1 - 3 * half[:30]])  # symmetric: no skewness
    group = np.repeat([0, 1], [80, 60])
    found = PairedNumbers.of(numbers, np.zeros(140), group, 2).contrast([1.0, -1.0], [0.0, 0.0], 0.9)
    sides = [(one.mean(), one.var(ddof=1), len(one)) for one in (numbers[80:], numbers[:80])]
    assert found == pytest.approx(welch_interval(*map(SampleMoments._make, sides), 0.9, lower=-50, upper=50))


@pytest.mark.parametrize(
    ("before", "after"), [((1, 0), (1.5, 0)), ((0.3, -0.3), (-0.3, 0.3)), ((1, 0.8, 0), (0.8, 1, 0))]
)
def test_the_interval_of_means_covers_the_true_change(before, after):
    rng = np.random.default_rng(len(before))
    n = np.array([60, 80, 50][: len(before)])
    group = np.repeat(np.arange(len(n)), n)
    hits, runs = 0, scaled(600)
    for _ in range(runs):
        base = rng.normal(size=len(group))
        second = base + 0.5 * rng.normal(size=len(group)) + np.take(after, group)
        low, high = PairedNumbers.of(base + np.take(before, group), second, group, len(n)).change_of_gap(0.9)
        hits += low <= np.ptp(after) - np.ptp(before) <= high
    assert hits / runs >= 0.9 - 3.1 * math.sqrt(0.9 * 0.1 / runs)

"""The change of the widest gap between two audits: one pair by hand, and coverage by simulation, also of ties."""

import math

import numpy as np
import pytest

from evenhand.stats import difference_interval
from evenhand.stats.mean import SampleMoments, welch_interval
from evenhand.stats.paired import PairedCells, PairedNumbers, change_of_gap, paired_contrast
from support import scaled


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


CASES = {
    "same pair": ((0.6, 0.3), (0.5, 0.3)),
    "no gap": ((0.4, 0.4), (0.4, 0.4)),
    "turned round": ((0.55, 0.45), (0.45, 0.55)),
    "closed": ((0.5, 0.42), (0.45, 0.45)),
    "three groups, another one widest": ((0.5, 0.4, 0.3), (0.4, 0.5, 0.33)),
    "rare": ((0.05, 0.02), (0.02, 0.02)),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("paired", [True, False])
def test_the_interval_covers_the_true_change(name, paired):
    before, after = (np.array(one) for one in CASES[name])
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

"""Means of clustered observations: by hand, and how often their intervals hold together."""

import numpy as np
import pytest
from scipy import stats as scipy_stats

from evenhand.stats.mean import clustered_means
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

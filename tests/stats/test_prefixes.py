"""The ranked group fairness test: the paper's table, its authors' figures, and rankings counted one by one."""

import itertools

import numpy as np
import pytest
from scipy.stats import binom

from evenhand.errors import OptionError
from evenhand.stats import prefix_p_values, prefix_table

# Zehlike et al. 2017, table 2: members needed among the first 1 to 12, at the level 0.1 of each prefix.
PUBLISHED = {
    0.1: (0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0),
    0.2: (0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1),
    0.3: (0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 2),
    0.4: (0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 3),
    0.5: (0, 0, 0, 1, 1, 1, 2, 2, 3, 3, 3, 4),
    0.6: (0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5),
    0.7: (0, 1, 1, 2, 2, 3, 3, 4, 5, 5, 6, 6),
}


@pytest.mark.parametrize("share", PUBLISHED)
def test_minimum_numbers_are_those_of_the_paper(share):
    assert tuple(prefix_table(12, share, 0.1, adjusted=False).minimum) == PUBLISHED[share]


def test_agrees_with_the_authors_program():
    """The figures that the tests of fairsearch hold; their level is found by steps, ours to the last digit."""
    plain = prefix_table(20, 0.25, 0.1, adjusted=False)
    assert plain.minimum.tolist() == [0] * 8 + [1] * 6 + [2] * 5 + [3]
    adjusted = prefix_table(10, 0.2, 0.15)
    assert adjusted.minimum.tolist() == [0] * 8 + [1, 1]
    assert adjusted.failing == pytest.approx(0.8**9)  # 0.1342177280
    strict = prefix_table(30, 0.3, 0.05)
    assert strict.minimum.tolist() == [0] * 10 + [1] * 6 + [2] * 5 + [3] * 4 + [4] * 5
    assert strict.failing == pytest.approx(0.04877730797, abs=1e-9)


@pytest.mark.parametrize(("k", "share", "alpha"), [(8, 0.35, 0.1), (10, 0.5, 0.05), (9, 0.8, 0.2)])
def test_the_probability_of_failing_is_that_of_all_rankings_counted(k, share, alpha):
    rankings = np.array(list(itertools.product((0, 1), repeat=k)))
    members = rankings.cumsum(axis=1)
    chances = (share**rankings * (1 - share) ** (1 - rankings)).prod(axis=1)
    table = prefix_table(k, share, alpha)
    fails = (members < table.minimum).any(axis=1)
    assert table.failing == pytest.approx(chances[fails].sum())
    assert table.failing <= alpha
    # The p-value is the chance of a ranking whose worst prefix is as bad; it fails exactly where p is small enough.
    worst = binom.cdf(members, np.arange(1, k + 1), share).min(axis=1)
    expected = np.array([chances[worst <= one * (1 + 1e-9)].sum() for one in worst])
    found = prefix_p_values(members, share)
    np.testing.assert_allclose(found, expected, atol=1e-12)
    assert ((found <= alpha) == fails).all()


def test_a_test_without_places_or_share_is_refused():
    with pytest.raises(OptionError, match="a share between 0 and 1, got 5 and 1"):
        prefix_table(5, 1.0, 0.1)
    with pytest.raises(OptionError, match="expected alpha"):
        prefix_table(5, 0.5, 1.0)

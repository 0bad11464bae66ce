"""The ranked group fairness test: the paper's table, its authors' figures, and rankings counted one by one."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import binom

from evenhand.errors import OptionError
from evenhand.stats.ranked.prefixes import prefix_p_values, prefix_table

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


@pytest.mark.parametrize("share", PUBLISHED)
def test_the_table_is_what_its_definition_gives_in_fractions(share):
    """The smallest m with F(m; i, p) > 1/10, binomial terms added up as exact fractions; the table is typed in."""
    p, level = Fraction(str(share)), Fraction(1, 10)
    for i, minimum in enumerate(PUBLISHED[share], start=1):
        terms = [math.comb(i, m) * p**m * (1 - p) ** (i - m) for m in range(i + 1)]
        assert minimum == next(m for m in range(i + 1) if sum(terms[: m + 1]) > level)


def test_adjusted_tables_are_the_largest_that_fail_rarely_enough_in_fractions():
    """Every level at which the table changes, tried from the top; rankings counted prefix by prefix in fractions."""
    for k, share, alpha in ((10, Fraction(1, 5), Fraction(3, 20)), (12, Fraction(1, 2), Fraction(1, 10))):
        cumulative = [
            [sum(math.comb(i, j) * share**j * (1 - share) ** (i - j) for j in range(m + 1)) for m in range(i + 1)]
            for i in range(1, k + 1)
        ]
        # A table is constant between two tails: just below a tail that m fails no longer, m suffices.
        levels = sorted({Fraction(alpha), *(tail for row in cumulative for tail in row if tail <= alpha)}, reverse=True)
        for level in levels:
            minimum = [next(m for m, tail in enumerate(row) if tail >= level) for row in cumulative]
            ways = {0: Fraction(1)}
            for least in minimum:
                after: dict[int, Fraction] = {}
                for m, chance in ways.items():
                    for more, probability in ((0, 1 - share), (1, share)):
                        if m + more >= least:
                            after[m + more] = after.get(m + more, Fraction(0)) + chance * probability
                ways = after
            failing = 1 - sum(ways.values())
            if failing <= alpha:
                break
        found = prefix_table(k, float(share), float(alpha))
        assert found.minimum.tolist() == minimum
        assert found.failing == pytest.approx(float(failing))


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

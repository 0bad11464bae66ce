"""One share from proofs and several samples: against counting, against Clopper and Pearson, and by simulation."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from evenhand.errors import OptionError
from evenhand.stats import clopper_pearson, combined_share
from evenhand.stats.combined import Draws, OpenPart
from support import scaled

NONE = Draws()
counts = st.integers(0, 40).flatmap(lambda n: st.builds(Draws, st.integers(0, n), st.just(n)))


@given(counts)
@settings(max_examples=scaled(60), deadline=None)
def test_one_sample_alone_has_the_interval_of_clopper_and_pearson(draws):
    low, high = clopper_pearson(draws.hits, draws.n)
    for whole, inside in ((draws, NONE), (NONE, draws)):
        found = combined_share(whole, inside)
        if draws.n:
            assert found == pytest.approx((draws.hits / draws.n, low, high), abs=1e-9)
        else:
            assert found == (0, 0, 1)


@given(counts, counts)
@settings(max_examples=scaled(60), deadline=None)
def test_where_nothing_is_proved_two_samples_are_one(first, second):
    pooled = Draws(first.hits + second.hits, first.n + second.n)
    assert combined_share(first, second) == pytest.approx(combined_share(pooled, NONE), abs=1e-9)


@given(counts)
@settings(max_examples=scaled(40), deadline=None)
def test_draws_from_the_open_part_are_scaled_to_it(draws):
    part = OpenPart(mass=0.02, outside=0.06, low=0.06, high=0.08)
    low, high = clopper_pearson(draws.hits, draws.n)
    found = combined_share(NONE, draws, part)
    if draws.n:
        scaled_up = [0.06 + 0.02 * share for share in (draws.hits / draws.n, low, high)]
        assert found == pytest.approx(scaled_up, abs=1e-9)


def by_grid(whole, inside, part, confidence=0.95):
    """The slow way: every share of a fine grid, every pair of counts, and both tails as they are."""
    first, second = np.arange(whole.n + 1)[:, None], np.arange(inside.n + 1)[None, :]
    middle = (part.low + part.high) / 2
    share = (middle - part.outside) / part.mass
    variances = middle * (1 - middle) / whole.n, part.mass**2 * share * (1 - share) / inside.n
    estimates = first / whole.n, part.outside + part.mass * second / inside.n
    weighted = (estimates[0] / variances[0] + estimates[1] / variances[1]) / (1 / variances[0] + 1 / variances[1])
    seen, accepted = weighted[whole.hits, inside.hits], []
    grid = np.linspace(part.low, part.high, 1001)
    for t in grid:
        q = (t - part.outside) / part.mass
        joint = binom.pmf(first, whole.n, t) * binom.pmf(second, inside.n, q)
        tails = joint[weighted >= seen - 1e-9].sum(), joint[weighted <= seen + 1e-9].sum()
        accepted.append(min(tails) > (1 - confidence) / 2)
    interval = grid[np.array(accepted)]
    return np.clip(seen, part.low, part.high), interval.min(), interval.max()


@pytest.mark.parametrize(
    ("whole", "inside"),
    [((3, 40), (4, 12)), ((12, 40), (0, 9)), ((4, 40), (12, 12)), ((5, 40), (3, 3)), ((9, 60), (7, 20))],
)
def test_against_every_share_and_every_pair_of_counts(whole, inside):
    part = OpenPart(mass=0.3, outside=0.05, low=0.07, high=0.33)
    found = combined_share(Draws(*whole), Draws(*inside), part)
    assert found == pytest.approx(by_grid(Draws(*whole), Draws(*inside), part), abs=6e-4)


@given(st.floats(0, 0.4), st.floats(0.02, 0.6), st.floats(0, 0.2), st.floats(0, 0.2), counts, counts)
@settings(max_examples=scaled(100), deadline=None)
def test_the_estimate_lies_in_its_interval_and_both_in_what_is_proved(outside, mass, fair, unfair, whole, inside):
    part = OpenPart(mass, outside, outside + mass * unfair, outside + mass * (1 - fair))
    value, low, high = combined_share(whole, inside, part)
    assert part.low <= low <= value <= high <= part.high


def test_nothing_is_clipped_where_more_is_known():
    """The example of race in Adult: 2,048 draws alone said 6.5 %, 20,000 said 6.2 %, and at least 6.0 % was proved."""
    part = OpenPart(mass=0.9, outside=0.004, low=0.06, high=0.066)
    value, low, high = combined_share(Draws(1260, 20_000), Draws(147, 2_048), part)
    assert 0.06 <= low < 0.062 < value < 0.064 < high <= 0.066
    alone = combined_share(NONE, Draws(147, 2_048), part)
    assert alone[0] == part.high  # what the draws of the open part say alone lies above what is proved
    # More draws, a narrower interval.
    many = combined_share(Draws(12_600, 200_000), Draws(147, 2_048), part)
    assert many[2] - many[1] < high - low


@pytest.mark.parametrize("q", [0.0, 0.02, 0.3, 0.9, 1.0])
@pytest.mark.parametrize(("mass", "outside"), [(0.9, 0.01), (0.2, 0.1), (0.02, 0.06)])
def test_it_covers_the_truth_in_every_pair_of_counts(mass, outside, q):
    """Coverage without chance: the probabilities of all pairs of counts whose interval holds the truth, added up."""
    truth, n1, n2 = outside + mass * q, 12, 9
    part = OpenPart(mass, outside, outside, outside + mass)
    covered = 0.0
    for first in range(n1 + 1):
        for second in range(n2 + 1):
            _, low, high = combined_share(Draws(first, n1), Draws(second, n2), part)
            if low - 1e-9 <= truth <= high + 1e-9:
                covered += binom.pmf(first, n1, truth) * binom.pmf(second, n2, q)
    assert covered >= 0.95


@pytest.mark.parametrize(
    ("proved", "q"),
    [
        pytest.param(0.6, 0.1, marks=pytest.mark.full),
        *(pytest.param(*case, marks=pytest.mark.slow) for case in ((0.0, 0.06), (0.95, 0.3))),
    ],
)
def test_it_covers_in_simulated_audits(proved, q):
    """Everybody has a place on [0, 1]; below ``proved`` all is known, of it 5 % unfair; above, a share q is unfair."""
    rng = np.random.default_rng(8)
    part = OpenPart(1 - proved, 0.05 * proved, 0.05 * proved, 1 - 0.95 * proved)
    truth = 0.05 * proved + (1 - proved) * q
    runs, covered, widths, alone = 500, 0, [], []
    for _ in range(runs):
        whole = Draws(int(rng.binomial(4_000, truth)), 4_000)
        inside = Draws(int(rng.binomial(500, q)), 500)
        value, low, high = combined_share(whole, inside, part)
        covered += low <= truth <= high
        widths.append(high - low)
        alone.append(float(np.diff(clopper_pearson(*whole))[0]))
        assert low <= value <= high
    assert covered / runs >= 0.93  # two standard errors below 0.95
    assert np.mean(widths) < np.mean(alone)


def test_counts_that_are_none_are_refused():
    with pytest.raises(OptionError, match="got 3 of 2"):
        combined_share(Draws(3, 2), NONE)
    with pytest.raises(OptionError):
        combined_share(Draws(1, 2), NONE, confidence=1.0)

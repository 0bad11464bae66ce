"""When to stop: by hand, and that a model without bias is seldom called biased however often one looks."""

import numpy as np
import pytest

from evenhand.llm.stopping import DecisionRule, PrecisionRule, project_variance
from evenhand.stats import bonferroni
from evenhand.stats.multiway import MultiwayMean, MultiwayVariance


def gap(mean, own, shared=(0.0, 0.0), *, n=100, floor=0.0):
    return MultiwayMean(mean, n, MultiwayVariance(own, shared, 1e6, (70, 40, 40)), floor)


def test_precision_waits_for_every_interval_from_the_second_sweep_on():
    rule = PrecisionRule(0.05, 0.95)
    narrow, wide = gap(0.3, 0.02**2), gap(0.3, 0.04**2)
    assert rule.stop([narrow], 1, 20) is None
    assert rule.stop([narrow], 2, 20) == "half-width"
    assert rule.stop([narrow, wide], 2, 20) is None
    # Two gaps: each at 97.5 %, so 0.0225 standard errors are too wide where 0.02 are not.
    assert rule.stop([gap(0, 0.0225**2)] * 2, 2, 20) is None
    assert rule.levels([narrow, wide], 2, 20) == (bonferroni(0.95, 2),) * 2
    assert rule.looks == 3


def test_more_questions_do_not_help_where_names_are_few():
    rule = PrecisionRule(0.05, 0.95)
    assert rule.stop([gap(0.0, 0.0001, (0.0, 0.0011))], 3, 20) == "names"
    assert rule.stop([gap(0.0, 0.0002, (0.0, 0.0010))], 3, 20) is None


def test_a_decision_is_larger_or_smaller_than_the_threshold():
    for mean, threshold, stop in [
        (0.3, 0.02, "decided"),
        (-0.3, 0.02, "decided"),
        (0.0, 0.1, "decided"),
        (0.05, 0.05, None),
        (0.0, 0.0, None),
    ]:
        assert DecisionRule(threshold, 0.95, 1).stop([gap(mean, 0.0001)], 20, 20) == stop
    # Between the looks nothing is looked at, and the end is always a look.
    rule = DecisionRule(0.0, 0.95, 1)
    assert rule.stop([gap(0.9, 0.0001)], 4, 20) is None
    assert rule.looks == 0
    assert rule.stop([gap(0.9, 0.0001)], 17, 17) == "decided"
    assert rule.looks == 1


def test_what_is_spent_follows_the_projected_variance():
    """After 5 of 20 sweeps .0008 of the answers and .0001 of names: .0003 in the end, so that a third is there."""
    now = gap(0.0, 0.0008, (0.0, 0.0001))
    assert project_variance(now, 5, 20) == pytest.approx(0.0003)
    rule = DecisionRule(0.0, 0.95, 1)
    (level,) = rule.levels([now], 5, 20)
    assert level == pytest.approx(1 - 0.05 / 9)
    assert rule.levels([now], 5, 20) == (level,)
    (final,) = rule.levels([gap(0.0, 0.0002, (0.0, 0.0001))], 20, 20)
    assert 0.95 < final < level


def test_looking_again_and_again_seldom_finds_what_is_not_there():
    """A model without bias, 150 audits of 12 sweeps: looked at with ordinary intervals one claims bias too often."""
    rng = np.random.default_rng(7)
    spent = naive = 0
    for _ in range(150):
        answers = rng.normal(size=12).cumsum() / np.arange(1, 13) * 0.1
        names = rng.normal() * 0.01
        rule, found, looked = DecisionRule(0.0, 0.95, 1), False, False
        for sweep in (1, 2, 3, 5, 8, 12):
            now = gap(answers[sweep - 1] + names, 0.01 / sweep, (0.0, 0.0001))
            found |= rule.stop([now], sweep, 12) == "decided"
            looked |= abs(now.mean) > now.half_width(0.95)
        spent += found
        naive += looked
    assert spent <= 14  # 5 % of 150 are 7.5
    assert naive >= 15

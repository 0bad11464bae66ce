"""Fairness properties, and shields over several periods."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
import shield_reference
from hypothesis import given, settings
from hypothesis import strategies as st
from shield_reference import stored
from traces import Bound

from evenhand.errors import OptionError
from evenhand.shields import FairnessProperty, Inputs, PeriodicShield, ShieldPlan, always_ends_fair, synthesize
from evenhand.shields.policy.periodic import GreedyRule, ObligatoryEnd, PricedEnd
from evenhand.shields.spec.ends import FairEnd, WelfareBounds, welfare_bounds_of
from evenhand.shields.spec.properties import EmptyGroupRule, is_fair, largest_bias, parse_kappa
from support import scaled

TENTH = Fraction(1, 10)
INPUTS = Inputs(("a", "b"), (0.3, 0.7), (0.35, 0.6), (0.4, 0.6))
KINDS = ("demographic_parity", "disparate_impact", "equal_opportunity")


def plan(
    kind: str, *, of: str = "demographic_parity", kappa: Fraction = TENTH, horizon: int = 10, **options: object
) -> ShieldPlan:
    empty = EmptyGroupRule.parse(str(options.pop("empty", "zero")))
    return ShieldPlan(FairnessProperty(of, kappa, empty), INPUTS, horizon, kind, **options)


def added(*periods: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(sum(counts) for counts in zip(*periods, strict=True))


def test_two_fair_periods_can_be_unfair_together():
    # Example 5: nine of group a and one of b, all accepted; then one of a and nine of b, all rejected.
    kept = FairnessProperty("demographic_parity", TENTH)
    first, second = (9, 9, 1, 1), (1, 0, 9, 0)
    assert kept.bias(*first) == kept.bias(*second) == 0
    assert kept.bias(*added(first, second)) == Fraction(9, 10) - Fraction(1, 10)
    # A static-fair shield lets both through if they are recommended (and a group nobody came of is not judged).
    policy = PeriodicShield(plan("static-fair", empty="vacuous")).begin().policy
    for end in (first, second):
        counters = [0, 0, 0, 0]
        t = 0
        for group in (0, 1):
            for _ in range(end[2 * group]):
                accepted = end[2 * group + 1] > 0
                assert policy.decision(t, tuple(counters), group, int(accepted)) == accepted
                counters[2 * group] += 1
                counters[2 * group + 1] += accepted
                t += 1
    assert not PeriodicShield(plan("static-fair")).begin(first).guaranteed


def test_balance_up_to_one_is_not_enough():
    # T/2 - 1 of each group in both periods, biases 0 and 0, and 1/5 together (section 4 is tight).
    kept = FairnessProperty("demographic_parity", TENTH)
    first, second = (4, 0, 6, 0), (6, 6, 4, 4)
    assert kept.bias(*first) == kept.bias(*second) == 0
    assert kept.bias(*added(first, second)) == Fraction(1, 5)
    shield = PeriodicShield(plan("static-fair"))
    assert not shield.begin().assumption_held(4, 6)
    assert not shield.begin().assumption_held(6, 4)
    assert shield.begin().assumption_held(5, 5)


@pytest.mark.parametrize("horizon", [6, 8, 10])
def test_theorem_two_is_tight(horizon):
    # The worst excess over kappa of two fair periods, by how far from half they may be: 0 if exactly half, else 2 / T.
    kept = FairnessProperty("demographic_parity", Fraction(0))
    half = horizon // 2
    worst = {}
    for slack in (0, 1):
        ends = [
            (n, a, horizon - n, b)
            for n in range(half - slack, half + slack + 1)
            for a in range(n + 1)
            for b in range(horizon - n + 1)
        ]
        worst[slack] = max(
            kept.bias(*added(one, other)) - max(kept.bias(*one), kept.bias(*other))
            for one, other in itertools.product(ends, repeat=2)
        )
    assert worst == {0: 0, 1: Fraction(2, horizon)}


@given(st.lists(st.tuples(*[st.integers(0, 6)] * 4), min_size=1, max_size=5), st.integers(0, 9), st.integers(1, 10))
def test_bounds_kept_in_every_period_are_kept_in_all(raw, low, width):
    # Lemma 3, the mediant property.
    bounds = WelfareBounds(Fraction(low, 10), Fraction(min(10, low + width), 10)) if low < 10 else None
    if bounds is None:
        return
    periods = [(max(n, a), min(n, a)) for n, a, _, _ in raw]
    periods = [(n, a) for n, a in periods if n and bounds.lower <= Fraction(a, n) <= bounds.upper]
    n, a = sum(n for n, _ in periods), sum(a for _, a in periods)
    assert bounds.holds(n, a)


@pytest.mark.parametrize("denominator", [7, 10, 30])
def test_lemma_nine_rates_can_be_tracked_within_bounds(denominator):
    for low, high in itertools.combinations(range(denominator + 1), 2):
        bounds = WelfareBounds(Fraction(low, denominator), Fraction(high, denominator))
        assert bounds.least_seen == -(-denominator // (high - low))
        for n in range(3 * denominator):
            accepted = math.floor(bounds.upper * n)
            assert math.floor(bounds.upper * (n + 1)) - accepted in (0, 1)
            assert n < bounds.least_seen or bounds.lower <= Fraction(accepted, n) <= bounds.upper
    # It is not a condition that could be left out: below it some bounds have no fraction at all between them.
    assert not any(WelfareBounds(Fraction(3, 10), Fraction(2, 5)).holds(1, a) for a in (0, 1))


@pytest.mark.parametrize("kind", KINDS)
def test_lemma_ten_fair_pasts_can_always_be_continued(kind):
    # Every fair past of up to 7 of each group: following the two rates step by step, whoever comes.
    horizon, kappa = 4, Fraction(1, 4)
    kept = FairnessProperty(kind, kappa)
    for n, m in itertools.product(range(1, 8), repeat=2):
        for a, b in itertools.product(range(n + 1), range(m + 1)):
            if not kept.fair(n, a, m, b):
                continue
            owed = ObligatoryEnd(kept, (n, a, m, b), horizon, exempt=True)
            w_a, w_b = Fraction(a, n), Fraction(b, m)
            for i, j in itertools.product(range(horizon + 1), repeat=2):
                one = math.ceil(w_a * (n + i)) if w_a <= w_b else math.floor(w_a * (n + i))
                other = math.floor(w_b * (m + j)) if w_a <= w_b else math.ceil(w_b * (m + j))
                assert a <= one <= a + i
                assert b <= other <= b + j
                if owed.is_obligatory(i, j):
                    assert kept.fair(n + i, one, m + j, other), (n, a, m, b, i, j)
                condition = Fraction(1, n + i) + Fraction(1, m + j) <= kappa + abs(w_a - w_b)
                assert kind == "disparate_impact" or bool(owed.is_obligatory(i, j)) == condition


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("terminal", ["exempt", "soft"])
def test_a_fair_past_always_has_a_period_that_keeps_it(kind, terminal):
    # Existence of dynamic shields, over every fair past of some sizes; for strict ends there is Example 7.
    shield = PeriodicShield(plan("dynamic", of=kind, horizon=4, terminal=terminal))
    hard = PeriodicShield(plan("dynamic", of=kind, horizon=4, terminal="strict"))
    kept = shield.plan.property
    for n, m in itertools.product((3, 6, 8), repeat=2):
        for a, b in itertools.product(range(n + 1), range(m + 1)):
            if not kept.fair(n, a, m, b):
                continue
            period = shield.begin((n, a, m, b))
            assert period.end is not None
            assert not (isinstance(period.end, PricedEnd) and period.end.everywhere)
            strict = hard.begin((n, a, m, b))
            # Where the strict end can be had, it is asked for, and costs at least what less would.
            assert strict.guaranteed == isinstance(strict.end, ObligatoryEnd)
            assert strict.policy.expected_cost >= period.policy.expected_cost - 1e-9 or not strict.guaranteed


def test_example_seven_a_past_that_cannot_be_continued():
    # If hardly any b come, half of a must stay accepted for their 1 of 2, and something else for 1 or 2 of 3.
    kept = plan("dynamic", horizon=50, kappa=Fraction(1, 20), terminal="strict")
    past = (50, 25, 2, 1)
    assert kept.property.fair(*past)
    period = PeriodicShield(kept).begin(past)
    assert not period.guaranteed
    assert isinstance(period.end, PricedEnd)
    exempt = PeriodicShield(plan("dynamic", horizon=50, kappa=Fraction(1, 20), terminal="exempt")).begin(past)
    assert exempt.policy.expected_cost < period.policy.expected_cost
    assert not exempt.assumption_held(49, 1)


def test_an_unfair_past_is_mended_where_that_is_possible():
    # Nobody of b accepted, everybody of a: no shield can promise anything, and the best effort accepts b and rejects a.
    past = (20, 20, 20, 0)
    for terminal in ("strict", "soft"):
        period = PeriodicShield(plan("dynamic", horizon=20, terminal=terminal)).begin(past)
        assert not period.guaranteed
        assert not period.assumption_held(10, 10)
        assert period.policy.action(0, (0, 0, 0, 0), 0) == -1
        assert period.policy.action(0, (0, 0, 0, 0), 1) == 1
    exempt = PeriodicShield(plan("dynamic", horizon=20, terminal="exempt")).begin(past)
    assert exempt.end is None
    assert exempt.policy.expected_cost == 0


def test_small_groups_count_before_they_are_judged():
    # Judged from 100 of each on. If 40 of each could be treated as anybody likes, the 100th came too late.
    judged_late = plan("dynamic", horizon=50, empty="min_count=100", kappa=Fraction(1, 5))
    period = PeriodicShield(judged_late).begin()
    assert period.guaranteed
    owed = period.end
    assert isinstance(owed, ObligatoryEnd)
    assert not owed.is_obligatory(3, 47)
    assert owed.values(3, 47).max() == 0
    assert owed.is_obligatory(25, 25)
    assert (owed.values(25, 25) == FairEnd(FairnessProperty("demographic_parity", Fraction(1, 5))).values(25, 25)).all()


def test_a_dynamic_shield_is_restored_by_its_counters():
    past = (12, 5, 18, 8)
    one, other = PeriodicShield(plan("dynamic")), PeriodicShield(plan("dynamic"))
    assert one.begin(past) is one.begin(np.array(past))
    assert stored(one.begin(past).policy) == stored(other.begin(past).policy)
    assert stored(synthesize(plan("dynamic", start=past))) == stored(one.begin(past).policy)


def test_the_first_period_is_the_shield_up_to_the_horizon():
    alone = synthesize(plan("finite")).expected_cost
    for terminal in ("strict", "exempt", "soft"):
        period = PeriodicShield(plan("dynamic", terminal=terminal)).begin()
        assert period.policy.expected_cost == pytest.approx(alone, abs=1e-12)
        assert period.guaranteed
    assert PeriodicShield(plan("static-fair")).begin().policy.expected_cost == pytest.approx(alone, abs=1e-12)


def test_settled_after_the_warm_up():
    dynamic = plan("dynamic", kappa=TENTH)
    assert always_ends_fair(dynamic, (20, 10, 20, 9))
    assert not always_ends_fair(dynamic, (19, 9, 200, 95))
    assert not always_ends_fair(dynamic, (20, 10, 20, 5))
    assert not always_ends_fair(plan("static-fair"), (20, 10, 20, 9))


def test_the_default_bounds_lie_around_the_mean_of_the_labels():
    # 0.3 * 0.4 + 0.7 * 0.6 = 0.54
    assert welfare_bounds_of(plan("static-bw")) == WelfareBounds(Fraction(49, 100), Fraction(59, 100))
    without = ShieldPlan(
        FairnessProperty("demographic_parity", TENTH), Inputs(("a", "b"), (0.5, 0.5), (0.01, 0.03)), 10, "static-bw"
    )
    assert welfare_bounds_of(without) == WelfareBounds(Fraction(0), TENTH)
    ratio = welfare_bounds_of(plan("static-bw", of="disparate_impact", kappa=Fraction(1, 5)))
    assert ratio.lower == Fraction(4, 5) * ratio.upper
    assert float(ratio.lower + ratio.upper) / 2 == pytest.approx(0.54)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"of": "disparate_impact", "bounds": (Fraction(1, 10), Fraction(1, 5))}, "ratio of rates below"),
        ({"kappa": Fraction(0)}, "above 0"),
        ({"bounds": (Fraction(1, 5), Fraction(1, 5))}, "welfare bounds"),
    ],
)
def test_bounds_that_cannot_be(options, said):
    with pytest.raises(OptionError, match=said):
        PeriodicShield(plan("static-bw", **options))


def test_kinds_that_know_no_periods_are_refused():
    with pytest.raises(OptionError, match="ends at its horizon"):
        PeriodicShield(plan("finite"))
    three = Inputs(("a", "b", "c"), (0.3, 0.3, 0.4), (0.5, 0.5, 0.5))
    with pytest.raises(OptionError, match="two groups"):
        PeriodicShield(ShieldPlan(FairnessProperty("demographic_parity", TENTH), three, 10, "greedy"))


@settings(max_examples=scaled(60))
@given(
    st.sampled_from(KINDS),
    st.tuples(*[st.integers(0, 9)] * 4),
    st.tuples(*[st.integers(0, 5)] * 4),
    st.integers(0, 1),
    st.sampled_from(["zero", "vacuous", "min_count=4"]),
)
def test_greedy_overrides_what_would_be_unfair_now(kind, past, own, group, empty):
    kept = FairnessProperty(kind, Fraction(1, 5), EmptyGroupRule.parse(empty))
    past = (max(past[:2]), min(past[:2]), max(past[2:]), min(past[2:]))
    own = (max(own[:2]), min(own[:2]), max(own[2:]), min(own[2:]))
    level = GreedyRule(kept, past).level(0, own, group)

    for recommendation in (0, 1):
        taken = 1 if level > 0 else 0 if level < 0 else recommendation
        follow, other = (
            shield_reference.added(added(past, own), group, y) for y in (recommendation, 1 - recommendation)
        )
        overrides = not kept.fair(*follow) and kept.bias(*other) < kept.bias(*follow)
        assert (taken != recommendation) == overrides


CONVENTIONS = ("zero", "vacuous", "min_count=2")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("convention", CONVENTIONS)
def test_fair_is_exact_in_every_small_state(kind, convention):
    for kappa in ("0", "0.1", "1/5", "1/3", "1/2", "1"):
        kept = FairnessProperty(kind, parse_kappa(kappa), EmptyGroupRule.parse(convention))
        for n, m in itertools.product(range(7), repeat=2):
            for a, b in itertools.product(range(n + 1), range(m + 1)):
                expected = Bound(kind, Fraction(kappa), convention).bias((n, m), (a, b))
                assert kept.fair(n, a, m, b) is (expected <= Fraction(kappa)), (kappa, n, a, m, b)
                assert kept.bias(n, a, m, b) == expected


@pytest.mark.parametrize("kind", KINDS)
def test_the_bands_of_fair_counts_rise(kind):
    # What the theorem on thresholds needs: fair counts are a sublattice.
    for convention, kappa in itertools.product(CONVENTIONS, ("0.05", "0.2", "1")):
        kept = FairnessProperty(kind, parse_kappa(kappa), EmptyGroupRule.parse(convention))
        for n, m in itertools.product(range(30), range(30)):
            low, high = kept.band(n, np.arange(n + 1), m)
            some = low <= high
            assert (np.diff(low[some]) >= 0).all()
            assert (np.diff(high[some]) >= 0).all()


def test_arrays_are_judged_one_by_one():
    kept = FairnessProperty("demographic_parity", parse_kappa("0.1"))
    fair = kept.fair(np.array([10, 10]), np.array([5, 5]), 10, np.array([4, 3]))
    assert fair.tolist() == [True, False]


def test_a_tenth_is_a_tenth():
    # 0.4 - 0.3 exceeds 0.1 in floating point.
    assert abs(4 / 10 - 3 / 10) > 0.1
    assert FairnessProperty("demographic_parity", parse_kappa(0.1)).fair(10, 4, 10, 3)


@pytest.mark.parametrize("kappa", ["", "a tenth", "-0.1", "1.1", "1/0", "nan", "inf", "0.12345678"])
def test_a_kappa_that_makes_no_sense(kappa):
    with pytest.raises(OptionError, match="kappa"):
        parse_kappa(kappa)


@pytest.mark.parametrize("text", ["", "none", "min_count", "min_count=0", "min_count=-1", "min_count=x", "zero=1"])
def test_a_convention_that_makes_no_sense(text):
    with pytest.raises(OptionError, match="convention"):
        EmptyGroupRule.parse(text)


def test_conventions_read_back():
    for text in CONVENTIONS:
        assert str(EmptyGroupRule.parse(text)) == text


def test_every_two_groups_are_compared():
    counters = np.array([[10, 5, 10, 4, 10, 3], [10, 5, 10, 4, 10, 2], [0, 0, 10, 2, 10, 1], [0, 0, 10, 3, 10, 2]])
    seen, accepted = counters[:, ::2], counters[:, 1::2]
    kept = FairnessProperty("demographic_parity", parse_kappa("0.2"))
    assert is_fair(kept, seen, accepted).tolist() == [True, False, True, False]
    assert largest_bias(kept, seen, accepted) == pytest.approx([0.2, 0.3, 0.2, 0.3])
    vacuous = FairnessProperty(kept.kind, kept.kappa, EmptyGroupRule("vacuous"))
    assert is_fair(vacuous, seen, accepted).tolist() == [True, False, True, True]

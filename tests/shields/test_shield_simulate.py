"""Simulated shields: the running shield decides the same, every run of a finite one is fair, and unfair ones show."""

import sys
from dataclasses import replace
from fractions import Fraction

import joblib
import numpy as np
import pytest
from traces import Bound

from evenhand import shields
from evenhand.errors import LimitError, OptionError
from evenhand.shields import FairnessProperty, Inputs, PeriodicShield, simulate_runs, simulate_shield, synthesize
from evenhand.shields.policy.tables import ThresholdTable
from evenhand.shields.simulation.result import QUANTILE_LEVELS
from evenhand.shields.simulation.streams import ORDERS, ArrivalSource, ArrivalStream, synthetic_source
from evenhand.shields.spec.properties import EmptyGroupRule
from evenhand.stats import clopper_pearson
from evenhand.stats.quantity import quantity_value
from support import shortened

INPUTS = Inputs(("a", "b"), (0.3, 0.7), (0.35, 0.6), (0.4, 0.6))
COSTLY = Inputs(
    ("a", "b"), (0.4, 0.6), (0.3, 0.7), (0.5, 0.4), (0.1, 0.3, 0.5), (((0.2, 0.3, 0.5), (0.6, 0.3, 0.1)),) * 2
)


def plan(kept="demographic_parity", kappa="0.1", horizon=20, *, kind="finite", empty="zero", inputs=INPUTS, **given):
    return shields.ShieldPlan(
        FairnessProperty(kept, Fraction(kappa), EmptyGroupRule.parse(empty)), inputs, horizon, kind, **given
    )


def one_by_one(asked, source, runs, periods, order, seed):
    """The same arrivals through the running shield, one run and one decision at a time."""
    steps = periods * asked.horizon
    stream = ArrivalStream(
        source, order, runs=runs, steps=steps, horizon=asked.horizon, rng=np.random.default_rng([seed, 0])
    )
    arrived = np.array([stream.next_arrivals(step, np.arange(runs), None) for step in range(steps)])
    kept, found = asked.property, []
    bound = Bound(kept.kind, kept.kappa, str(kept.empty_group))
    going = asked.kind not in ("finite", "feasible")
    made = PeriodicShield(asked) if going else synthesize(asked)
    for run in range(runs):
        shield = shields.Shield(made)
        counters, fair = list(asked.start), True
        for step, who in enumerate(arrived[:, run].tolist()):
            g, r = int(source.group[who]), int(source.recommendation[who])
            decision = shield.decide(source.groups[g], r, float(source.cost[who]), id=step).decision
            counted = 1
            if kept.labelled:
                counted = int(source.label[who])
                shield.observe(step, counted)
            counters[2 * g] += counted
            counters[2 * g + 1] += counted * decision
            if step % asked.horizon + 1 in asked.times:
                fair &= bound.fair(tuple(counters[::2]), tuple(counters[1::2]))
        found.append((fair, shield.interventions, shield.cost, *counters))
    return found


CASES = {
    "parity": (plan(), 1),
    "parity, not counted yet": (plan(empty="min_count=4", horizon=25), 1),
    "ratio": (plan("disparate_impact", "0.2"), 1),
    "opportunity": (plan("equal_opportunity", horizon=15), 1),
    "several costs": (plan(inputs=COSTLY), 1),
    "several costs and labels": (plan("equal_opportunity", horizon=12, inputs=COSTLY), 1),
    "anytime": (plan(checks="anytime", empty="min_count=3", kappa="0.3"), 1),
    "carried over": (plan(start=(10, 3, 20, 8), horizon=30), 1),
    "feasible": (plan(kind="feasible"), 1),
    "static-fair": (plan(kind="static-fair"), 3),
    "static-bw": (plan(kappa="0.2", kind="static-bw"), 3),
    "dynamic": (plan(kind="dynamic"), 3),
    "dynamic, exempt": (plan(kind="dynamic", terminal="exempt"), 3),
    "dynamic, soft": (plan("equal_opportunity", horizon=10, kind="dynamic", terminal="soft"), 3),
    "greedy": (plan(kind="greedy"), 2),
}


@pytest.mark.parametrize("order", ["random", "worst", "one-group-first"])
@pytest.mark.parametrize("name", CASES)
def test_equal_arrivals_get_equal_decisions_from_the_running_shield(name, order):
    asked, periods = CASES[name]
    source, runs = synthetic_source(asked.inputs), 6
    many = simulate_runs(asked, source, runs=runs, periods=periods, order=order, seed=4).runs
    single = one_by_one(asked, source, runs, periods, order, seed=4)
    assert many.fair.tolist() == [one[0] for one in single]
    assert many.interventions.tolist() == [one[1] for one in single]
    assert many.cost == pytest.approx([one[2] for one in single])
    expected = [float(asked.property.bias(*one[3:])) for one in single]
    assert many.bias == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("empty", shortened(["zero", "min_count=5"]))
def test_every_one_of_a_hundred_thousand_runs_is_fair(order, empty):
    """Ten times ten thousand, for every order and two conventions."""
    found = simulate_shield(plan(horizon=100, empty=empty), runs=10_000, order=order, seed=1)
    assert found.fair_share == 1
    assert found.fair_share_unshielded < 0.6  # so that the shield had something to do
    assert found.interventions_mean > 0.5
    assert sum(found.normalised.shielded[: found.normalised.edges.index(1.0)]) == 10_000


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(
    "asked",
    [plan("disparate_impact", "0.2", 40), plan("equal_opportunity", "0.1", 30), plan(inputs=COSTLY, horizon=40)],
    ids=["ratio", "opportunity", "costs"],
)
def test_other_properties_are_kept_in_every_run_too(asked, order):
    found = simulate_shield(asked, runs=3000, order=order, seed=2)
    assert found.fair_share == 1
    assert found.interventions_mean > 0.5


def test_a_broken_shield_is_found_out():
    policy = synthesize(plan(horizon=50))
    # Nobody is accepted against a recommendation any more.
    positions = tuple(array.copy() for array in policy.actions.positions)
    for array in positions:
        array[1::2] = np.iinfo(array.dtype).max
    broken = replace(policy, actions=ThresholdTable(50, False, 1, positions))
    found = simulate_shield(broken, runs=2000, seed=5)
    assert 0.02 < 1 - found.fair_share < 0.98
    unfair = found.normalised.edges.index(1.0)
    ends = sum(found.normalised.shielded[unfair:])
    assert ends == round((1 - found.fair_share) * 2000)
    assert found.over_time[-1].fair == pytest.approx(found.fair_share)
    assert simulate_shield(policy, runs=2000, seed=5).fair_share == 1


def test_the_cost_is_the_expected_one():
    for asked in (plan(horizon=30), plan(inputs=COSTLY, horizon=30), plan("equal_opportunity", horizon=20)):
        policy = synthesize(asked)
        found = simulate_shield(policy, runs=20_000, seed=6)
        # Six standard errors: half the interval holds 1.96.
        reach = 6 * (found.cost.high - found.cost.low) / 2 / 1.96
        assert abs(found.cost_mean - policy.expected_cost) < reach
    assert found.cost.value == found.cost_mean


# Published shares of runs that were fair at all ten ends, by the share of the smaller group: 120 runs each for periods
# of 50 decisions, 80 for 100, and a quarter of them for dynamic shields.
STREAM = (0.35, 0.6)
SHARES = {
    ("static-fair", 50, "0.1"): (0.89, 0.97, 0.94, 0.88, 0.86),
    ("static-fair", 50, "0.2"): (0.98, 0.99, 0.99, 0.93, 0.89),
    ("static-fair", 100, "0.1"): (1, 0.99, 0.99, 0.90, 0.59),
    ("static-bw", 50, "0.1"): (0, 0.43, 0.98, 1, 1),
    ("static-bw", 50, "0.2"): (0.80, 1, 1, 1, 1),
    ("static-bw", 100, "0.1"): (0.66, 1, 1, 1, 1),
}
ASSUMED = {
    ("static-fair", 50, "0.1"): (0, 0, 0, 0, 0),
    ("static-bw", 50, "0.1"): (0, 0, 0.69, 1, 1),
    ("static-bw", 50, "0.2"): (0, 0.86, 0.99, 1, 1),
    ("static-bw", 100, "0.1"): (0, 1, 1, 1, 1),
}
ALONE = {(50, "0.1"): (0,) * 5, (50, "0.2"): (0.02, 0.03, 0.07, 0.07, 0.07), (100, "0.1"): (0,) * 5}


def simulated(kind, horizon, kappa, rate, runs, **given):
    expected = Inputs(("a", "b"), (rate, 1 - rate), (0.5, 0.5))
    come = Inputs(("a", "b"), (rate, 1 - rate), STREAM)
    if kind == "static-bw":
        middle = Fraction(str(rate)) * Fraction("0.35") + (1 - Fraction(str(rate))) * Fraction("0.6")
        half = Fraction(kappa) / 2
        given["bounds"] = (middle - half, middle + half)
    asked = plan(kappa=kappa, horizon=horizon, inputs=expected, kind=kind, **given)
    return simulate_shield(asked, synthetic_source(come), runs=runs, periods=10, seed=11)


def agrees(share, other, runs, before):
    """Whether two shares, of so many runs each, may well be the same: their exact 99.9 % intervals meet."""
    low, high = clopper_pearson(round(share * runs), runs, 0.999)
    least, most = clopper_pearson(round(other * before), before, 0.999)
    return low <= most and least <= high


@pytest.mark.parametrize(("kind", "horizon", "kappa"), shortened(SHARES))
def test_shares_of_fair_runs_over_periods_are_the_published_ones(kind, horizon, kappa):
    before = 120 if horizon == 50 else 80
    assumed = ASSUMED.get((kind, horizon, kappa), (None,) * 5)
    rows = zip((0.1, 0.2, 0.3, 0.4, 0.5), SHARES[kind, horizon, kappa], ALONE[horizon, kappa], assumed, strict=True)
    for rate, share, alone, held in rows:
        found = simulated(kind, horizon, kappa, rate, runs=300)
        assert agrees(found.fair_share, share, 300, before), rate
        assert agrees(found.fair_share_unshielded, alone, 300, before), rate
        if held is not None:
            assert agrees(found.assumption_share, held, 300, before), rate
        if found.assumption_share:
            assert quantity_value(found.fair_when_assumed) == 1


@pytest.mark.full
@pytest.mark.parametrize(("terminal", "rate"), [("exempt", 0.1), ("strict", 0.1), ("soft", 0.1), ("exempt", 0.5)])
def test_dynamic_shields_are_fair_as_often_as_published(terminal, rate):
    found = simulated("dynamic", 50, "0.1", rate, runs=10, terminal=terminal)
    share = 0.90 if (terminal, rate) == ("exempt", 0.1) else 1.0
    assert agrees(found.fair_share, share, 10, 30)
    if terminal != "exempt" or rate == 0.5:
        assert found.fair_share == 1
    assert quantity_value(found.fair_when_assumed) == 1


@pytest.mark.parametrize("order", shortened(ORDERS, to=2))
def test_where_the_assumption_held_every_run_is_fair_whoever_comes(order):
    for kind, terminal in (("static-bw", "strict"), ("static-fair", "strict")):
        asked = plan(kappa="0.2", horizon=30, kind=kind, terminal=terminal)
        done = simulate_runs(asked, runs=2000, periods=4, order=order, seed=7).runs
        assert done.fair[done.assumed].all()
    for terminal in ("strict", "exempt", "soft"):
        asked = plan(kappa="0.2", horizon=12, kind="dynamic", terminal=terminal)
        done = simulate_runs(asked, runs=15, periods=3, order=order, seed=7).runs
        assert done.fair[done.assumed].all()


def test_one_period_of_a_static_shield_assumes_nothing():
    found = simulate_shield(plan(kind="static-fair"), runs=200, periods=1)
    assert (found.fair_share, found.assumption_share) == (1, 1)


def test_a_greedy_shield_guarantees_nothing():
    found = simulate_shield(plan(kind="greedy", horizon=30, empty="min_count=1"), runs=2000, order="greedy")
    assert found.assumption_share is None
    assert found.assumed.kind == found.fair_when_assumed.kind == "unknown"


def test_three_groups():
    inputs = Inputs(("a", "b", "c"), (0.3, 0.3, 0.4), (0.3, 0.5, 0.6))
    exact = simulate_shield(plan(inputs=inputs, horizon=9, kappa="0.3"), runs=500, seed=8)
    assert exact.fair_share == 1 > exact.fair_share_unshielded
    bounds = simulate_shield(
        plan(inputs=inputs, horizon=60, kappa="0.2", kind="static-bw"), runs=300, periods=3, seed=8
    )
    assert quantity_value(bounds.fair_when_assumed) == 1
    assert bounds.assumption_share > 0.9


def test_moments_and_quantiles_of_the_bias():
    asked = plan(horizon=20, kind="static-fair")
    found = simulate_shield(asked, runs=300, periods=3, seed=9)
    done = simulate_runs(asked, runs=300, periods=3, seed=9).runs
    assert [moment.decisions for moment in found.over_time if moment.checked] == [20, 40, 60]
    assert found.over_time[-1].shielded == pytest.approx(np.quantile(done.bias, QUANTILE_LEVELS).tolist(), abs=1e-6)
    assert found.over_time[-1].unshielded == pytest.approx(
        np.quantile(done.bias_unshielded, QUANTILE_LEVELS).tolist(), abs=1e-6
    )
    assert min(moment.fair for moment in found.over_time if moment.checked) >= found.fair_share
    assert list(found.to_frame()["decisions"]) == [moment.decisions for moment in found.over_time]
    assert "shielded 50%" in found.to_frame().columns


def test_the_same_seed_gives_the_same_result_which_travels_as_json():
    one, other = (simulate_shield(plan(), runs=50, order="greedy", seed=3) for _ in range(2))
    alike = {"seconds": 0.0}
    assert one.model_copy(update=alike) == other.model_copy(update=alike)
    assert shields.ShieldSimulationResult.from_json(one.to_json()) == one
    assert simulate_shield(plan(), runs=50, order="greedy", seed=4).cost_mean != one.cost_mean
    assert one.plot().to_dict()["vconcat"]


def test_a_bound_of_nought():
    found = simulate_shield(plan(kappa="0", horizon=8), runs=500)
    assert found.fair_share == 1
    assert found.normalised.shielded[0] == 500
    assert sum(found.normalised.unshielded) == 500
    assert found.plot()


def test_runs_that_were_complete_before_an_interrupt_are_kept(monkeypatch):
    asked, calls = plan(), []

    def stop(what, share):
        calls.append(share)
        if share > 0.6:
            raise KeyboardInterrupt

    monkeypatch.setattr(sys.modules["evenhand.shields.simulation.simulate"], "CHUNK_CELLS", 20 * 100)
    found = simulate_shield(asked, runs=300, progress=stop)
    assert found.interrupted
    assert found.runs == 100
    assert calls == sorted(calls)

    def never(what, share):
        if share > 0:
            raise KeyboardInterrupt

    with pytest.raises(LimitError):
        simulate_shield(asked, runs=300, progress=never)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"runs": 0}, "runs: expected a whole number of at least 1, got 0"),
        ({"periods": 0}, "periods: expected a whole number of at least 1, got 0"),
        ({"periods": 2}, "ends at its horizon"),
        ({"run": 5}, "there is no entry 'run'"),
        ({"order": "backwards"}, "order: expected one of: random, .*, got 'backwards'"),
        ({"source": synthetic_source(Inputs(("x", "b"), (0.5, 0.5), (0.5, 0.5)))}, "the arrivals have the groups x, b"),
        (
            {"source": replace(synthetic_source(INPUTS), cost=np.full(8, 2.0))},
            "cost 2, more than the expected maximum of 1",
        ),
    ],
)
def test_options_that_make_no_sense(given, said):
    with pytest.raises(OptionError, match=said):
        simulate_shield(plan(), **given)


def test_labels_are_needed_for_equal_opportunity():
    source = replace(synthetic_source(INPUTS), label=None)
    assert isinstance(source, ArrivalSource)
    with pytest.raises(OptionError, match="no labels"):
        simulate_shield(plan("equal_opportunity"), source)


@pytest.mark.parametrize("backend", ["sequential", "threading"])
def test_workers_simulate_the_same_runs_however_many_they_are(backend):
    asked = plan(kind="static-fair")
    one = simulate_shield(asked, runs=250, periods=3, seed=9, workers=1)
    with joblib.parallel_config(backend=backend):
        other = simulate_shield(asked, runs=250, periods=3, seed=9, workers=3)
    assert one.model_copy(update={"seconds": 0.0}) == other.model_copy(update={"seconds": 0.0})
    assert one.runs == 250
    assert not one.interrupted

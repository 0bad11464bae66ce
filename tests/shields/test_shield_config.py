"""Configurations, plans and costs of shields."""

import json
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from shield_reference import least_cost, reached

from evenhand.errors import OptionError
from evenhand.shields import FairnessProperty, Inputs, ShieldPlan, read_plan, synthesize
from evenhand.shields.spec.configuration import plan_from_mapping, plan_to_mapping
from evenhand.shields.spec.ends import why_nothing_is_required
from evenhand.shields.spec.plan import MAX_COSTS
from evenhand.shields.spec.properties import EmptyGroupRule

CONTRACT = """\
{property: demographic_parity, kappa: "0.1", horizon: 100, kind: finite, empty_group: min_count=5, cost: 1.0,
 groups: {a: {rate: 0.3, accept: 0.35, label: 0.4}, b: {rate: 0.7, accept: 0.6, label: 0.6}}}
"""


def read(tmp_path, text, name="shield.yaml"):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return read_plan(path)


def test_what_may_be_left_out_has_the_documented_value(tmp_path):
    groups = "{x: {rate: 0.5, accept: 1}, y: {rate: 0.5, accept: 0}}"
    short = f"{{property: disparate_impact, kappa: 0.2, horizon: 9, groups: {groups}}}"
    plan = read(tmp_path, short)
    assert (plan.kind, str(plan.property.empty_group), plan.inputs.costs) == ("finite", "zero", (1.0,))
    assert (plan.checks, plan.terminal, plan.bounds, plan.start) == ("end", "strict", None, (0, 0, 0, 0))
    assert plan.property.kappa == Fraction(1, 5)


def test_everything_that_may_be_said(tmp_path):
    plan = read(
        tmp_path,
        """
        property: equal_opportunity
        kappa: 1/5
        horizon: 40
        kind: dynamic
        empty_group: vacuous
        costs: [0.1, 0.5]
        groups:
          no: {rate: 0.25, accept: 0.5, label: 0.3, costs_if_rejected: [0.5, 0.5], costs_if_accepted: [0.25, 0.75]}
          yes: {rate: 0.75, accept: 0.5, label: 0.3, costs_if_rejected: [1, 0], costs_if_accepted: [0, 1]}
        checks: [10, 20]
        terminal: soft
        bounds: ["0.4", 0.6]
        start: {yes: [7, 3]}
        """,
    )
    assert plan.inputs.groups == ("no", "yes")
    assert plan.inputs.costs == (0.1, 0.5)
    assert plan.inputs.weights == (((0.5, 0.5), (0.25, 0.75)), ((1.0, 0.0), (0.0, 1.0)))
    assert plan.times == (10, 20, 40)
    assert (plan.terminal, plan.bounds, plan.start) == ("soft", (Fraction(2, 5), Fraction(3, 5)), (0, 0, 7, 3))


def test_toml_json_and_mappings_say_the_same(tmp_path):
    toml = """
        property = "demographic_parity"
        kappa = "0.1"
        horizon = 100
        empty_group = "min_count=5"
        [groups]
        a = {rate = 0.3, accept = 0.35, label = 0.4}
        b = {rate = 0.7, accept = 0.6, label = 0.6}
    """
    plan = read(tmp_path, CONTRACT)
    assert read(tmp_path, toml, "shield.toml") == plan
    assert read(tmp_path, "\ufeff" + toml, "marked.toml") == plan
    assert read(tmp_path, json.dumps(plan_to_mapping(plan)), "shield.json") == plan
    assert read_plan(plan_to_mapping(plan)) == plan
    assert read_plan(tmp_path / "shield.yaml") == plan


def test_who_comes_need_not_be_said_where_nothing_depends_on_it(tmp_path):
    text = "{property: demographic_parity, kappa: 0.1, horizon: 9, kind: feasible, groups: {a: {}, b: {}}}"
    assert read(tmp_path, text).inputs == Inputs(("a", "b"), (0.5, 0.5), (0.5, 0.5))
    with pytest.raises(OptionError, match="`rate` is missing"):
        read(tmp_path, text.replace("feasible", "finite"))
    with pytest.raises(OptionError, match="`accept` is missing"):
        read(tmp_path, text.replace("a: {}", "a: {accept: 0.2}"))


FAULTS = [
    ("property: demographic_parity", "property: parity", "property", "got 'parity'", "demographic_parity"),
    ("property: demographic_parity, ", "", "", "`property` is missing", "disparate_impact"),
    ('kappa: "0.1"', 'kappa: "0,1"', "kappa", "kappa '0,1' is not a number", 'kappa: "0.1"'),
    ('kappa: "0.1"', "kappa: 2", "kappa", "2", 'kappa: "0.1"'),
    ('kappa: "0.1"', "kappa: true", "kappa", "expected a number, got True", "1/10"),
    ('kappa: "0.1", ', "", "", "`kappa` is missing", 'kappa: "0.1"'),
    ("horizon: 100", "horizon: 0", "horizon", "got 0", "horizon: 100"),
    ("horizon: 100", 'horizon: "100"', "horizon", "expected a whole number, got '100'", "horizon: 100"),
    ("horizon: 100", "horizon: 10.5", "horizon", "expected a whole number, got 10.5", "horizon: 100"),
    ("horizon: 100", "horizn: 100", "", "no entry 'horizn'", "did you mean 'horizon'?"),
    (", horizon: 100", "", "", "`horizon` is missing", "horizon: 100"),
    ("kind: finite", "kind: endless", "kind", "static-bw, dynamic, feasible, greedy, got 'endless'", ""),
    ("min_count=5", "min_count=0", "empty_group", "'min_count=0'", "N >= 1"),
    ("min_count=5", "five", "empty_group", "'five'", "vacuous"),
    ("min_count=5", "5", "empty_group", "expected text, got 5", "min_count=N"),
    ("cost: 1.0", "cost: -1", "cost", "got -1", "cost: 1.0"),
    ("cost: 1.0", "costs: []", "costs", "1 or more entries, got 0", "ascending"),
    ("cost: 1.0", "costs: [1, 2]", "groups.a.costs_if_rejected", "2 costs require one probability each", "[0.5, 0.5]"),
    ("cost: 1.0", "cost: 1, costs: [1]", "costs", "both `cost` and `costs`", "one of them"),
    ("cost: 1.0", "cost: 1, cost: 2", "line 1", "duplicate entry 'cost'", ""),
    ("rate: 0.3", "rate: 0.4", "rate", "add up to 1.1, not to 1", "share of the group"),
    ("rate: 0.3", "rate: 1.3", "groups.a.rate", "got 1.3", "from 0 to 1"),
    ("rate: 0.3", 'rate: "0.3"', "groups.a.rate", "expected a number, got '0.3'", "from 0 to 1"),
    ("rate: 0.3, ", "", "groups.a", "`rate` is missing", "rate: 0.3"),
    ("accept: 0.6", "acept: 0.6", "groups.b", "no entry 'acept'", "did you mean 'accept'?"),
    (", label: 0.4", "", "groups.a", "has none", ""),
    ("a: {", "1: {", "groups", "expected a name, got 1", '"1"'),
    ("a: {", '"": {', "groups", "expected a name, got ''", ""),
    ("a: {rate: 0.3, accept: 0.35, label: 0.4}, ", "", "groups", "got 1", "two or more"),
    ("kind: finite", "checks: often", "checks", "'often'", "anytime"),
    ("kind: finite", "checks: [101]", "checks", "between 1 and 100", ""),
    ("kind: finite", "bounds: [0.1]", "bounds", "got 1", "lower and an upper"),
    ("kind: finite", "bounds: [0.1, 0.9]", "bounds", "0.1 to 0.9", "at most kappa apart"),
    ("kind: finite", "start: {c: [1, 1]}", "start", "no entry 'c'", "a, b"),
    ("kind: finite", "start: {a: [1, 2]}", "start", "(1, 2, 0, 0)", "seen and accepted"),
    (CONTRACT, "", "", "named entries", "property:"),
    (CONTRACT, "kappa: !!python/object/apply:os.getcwd []", "line 1", "invalid YAML", ""),
    (CONTRACT, "a: \x07", "", "invalid YAML", ""),
]


@pytest.mark.parametrize(("right", "wrong", "location", "what", "hint"), FAULTS, ids=range(len(FAULTS)))
def test_faults_say_what_where_and_how_to_mend_them(tmp_path, right, wrong, location, what, hint):
    assert right in CONTRACT
    with pytest.raises(OptionError) as complaint:
        read(tmp_path, CONTRACT.replace(right, wrong, 1))
    error = complaint.value
    assert error.location.startswith(str(tmp_path / "shield.yaml"))
    assert location in error.location.removeprefix(str(tmp_path / "shield.yaml"))
    assert what in error.message
    assert hint in (error.hint or "")
    assert str(error).count("->") <= 1


def test_equal_opportunity_needs_labels(tmp_path):
    text = CONTRACT.replace("demographic_parity", "equal_opportunity")
    assert read(tmp_path, text).property.labelled
    with pytest.raises(OptionError, match="requires the share of label 1"):
        read(tmp_path, text.replace(", label: 0.4", "").replace(", label: 0.6", ""))


def test_files_that_cannot_be_read(tmp_path):
    with pytest.raises(OptionError, match="cannot be read"):
        read_plan(tmp_path / "nothing.yaml")
    with pytest.raises(OptionError, match="cannot be read"):
        read_plan(tmp_path)
    (tmp_path / "binary.yaml").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(OptionError, match="not a text file"):
        read_plan(tmp_path / "binary.yaml")
    with pytest.raises(OptionError, match="invalid TOML"):
        read(tmp_path, "kappa = ", "shield.toml")


shares = st.floats(0, 1)


@st.composite
def plans(draw):
    names = tuple(draw(st.lists(st.text(min_size=1, max_size=5), min_size=2, max_size=3, unique=True)))
    costs = tuple(sorted(draw(st.sets(st.floats(0, 5), min_size=1, max_size=3))))
    raw = [draw(st.floats(0.1, 1)) for _ in names]
    even = (1 / len(costs),) * len(costs)
    rates = tuple(one / sum(raw) for one in raw)
    accept, label = (tuple(draw(shares) for _ in names) for _ in range(2))
    inputs = Inputs(names, rates, accept, label if draw(st.booleans()) else None, costs, ((even, even),) * len(names))
    kinds = ["demographic_parity", "disparate_impact"] + ["equal_opportunity"] * (inputs.label is not None)
    kappa = draw(st.fractions(0, 1, max_denominator=1000))
    horizon = draw(st.integers(1, 200))
    seen = [draw(st.integers(0, 9)) for _ in names]
    return ShieldPlan(
        FairnessProperty(
            draw(st.sampled_from(kinds)), kappa, EmptyGroupRule.parse(draw(st.sampled_from(["zero", "min_count=3"])))
        ),
        inputs,
        horizon,
        draw(st.sampled_from(["finite", "static-bw", "dynamic", "feasible"])),
        draw(st.sampled_from(["end", "anytime", (1, horizon)])),
        draw(st.sampled_from(["strict", "exempt", "soft"])),
        draw(st.sampled_from([None, (kappa / 2, kappa)])) if kappa else None,
        tuple(count for n in seen for count in (n, draw(st.integers(0, n)))),
    )


@given(plans())
def test_a_plan_described_and_read_is_the_same(plan):
    try:
        assume(why_nothing_is_required(plan) is None)
    except OptionError:
        # Bounds that kappa leaves no room for.
        assume(False)
    again = plan_from_mapping(json.loads(json.dumps(plan_to_mapping(plan))), location=None)
    assert again == plan
    assert plan_from_mapping(plan_to_mapping(again), location=None) == plan


@pytest.mark.parametrize(
    ("changes", "place"),
    [
        ({"empty_group": "min_count=50"}, "empty_group"),
        ({"empty_group": "min_count=11"}, "empty_group"),
        ({"empty_group": "min_count=11", "kind": "static-fair"}, "empty_group"),
        (
            {"empty_group": "min_count=11", "kind": "static-fair", "start": {"a": [30, 15], "b": [30, 15]}},
            "empty_group",
        ),
        ({"empty_group": "min_count=11", "kind": "feasible", "property": "disparate_impact"}, "empty_group"),
        ({"kind": "static-bw", "kappa": "0.05"}, "bounds"),
    ],
)
def test_a_shield_that_would_keep_nothing_is_refused(changes, place):
    groups = {"a": {"rate": 0.3, "accept": 0.35}, "b": {"rate": 0.7, "accept": 0.6}}
    asked = {"property": "demographic_parity", "kappa": "0.1", "horizon": 20, "groups": groups}
    with pytest.raises(OptionError, match="this shield would guarantee nothing") as refused:
        read_plan({**asked, **changes})
    assert refused.value.location == place
    # One person fewer, or some who came before, and there is an end to be judged.
    read_plan({**asked, "empty_group": "min_count=10"})
    read_plan({**asked, "empty_group": "min_count=50", "start": {"a": [45, 20], "b": [40, 20]}})
    read_plan({**asked, "empty_group": "min_count=50", "kind": "dynamic"})
    read_plan({**asked, "kind": "static-bw"})


INPUTS = Inputs(("a", "b"), (0.3, 0.7), (0.35, 0.6), (0.4, 0.6))
PLAN = ShieldPlan(FairnessProperty("equal_opportunity", Fraction(1, 10)), INPUTS, 100)


def test_times_are_ascending_and_end_at_the_horizon() -> None:
    assert replace(PLAN, checks=(6, 3)).times == (3, 6, 100)
    assert replace(PLAN, checks=(6, 100)).times == (6, 100)
    assert replace(PLAN, horizon=3, checks="anytime").times == (1, 2, 3)


def test_a_plan_goes_on_from_other_counters() -> None:
    later = PLAN.continue_from((1, 1, 5, 2), horizon=3)
    assert (later.start, later.horizon, later.property) == ((1, 1, 5, 2), 3, PLAN.property)
    assert PLAN.continue_from((1, 1, 5, 2)).horizon == 100


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"horizon": 0}, "whole number of at least 1"),
        ({"horizon": 2.5}, "whole number of at least 1"),
        ({"horizon": True}, "whole number of at least 1"),
        ({"terminal": "kind"}, "unknown terminal"),
        ({"bounds": (Fraction(1, 10), Fraction(2, 5))}, "welfare bounds"),
        ({"bounds": (Fraction(1, 5), Fraction(1, 10))}, "welfare bounds"),
        ({"start": (1, 1)}, "counters at the start"),
        ({"start": (10**10, 0, 0, 0)}, "64 bits"),
    ],
)
def test_a_plan_that_makes_no_sense_is_refused(change: dict[str, Any], said: str) -> None:
    with pytest.raises(OptionError, match=said):
        replace(PLAN, **change)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"groups": ("a",)}, "two or more groups"),
        ({"groups": ("a", "a")}, "two or more groups"),
        ({"rate": (0.3, 0.3)}, "add up to"),
        ({"rate": (1.0,)}, "values for 2 groups"),
        ({"accept": (0.5, 1.5)}, "expected a probability"),
        ({"label": (0.5, float("nan"))}, "expected a probability"),
        ({"costs": ()}, "nonnegative"),
        ({"costs": (-1.0,)}, "nonnegative"),
        ({"costs": (float("inf"),)}, "nonnegative"),
        ({"costs": (1.0, 0.5), "weights": ()}, "not ascending"),
        ({"weights": (((1.0,), (1.0,)),)}, "one weight per group"),
        ({"weights": (((0.5,), (1.0,)), ((1.0,), (1.0,)))}, "add up to 1"),
    ],
)
def test_inputs_that_make_no_sense_are_refused(change: dict[str, Any], said: str) -> None:
    with pytest.raises(OptionError, match=said):
        replace(INPUTS, **change)


def test_weights_are_on_the_first_cost_unless_given() -> None:
    inputs = Inputs(("a", "b"), (0.3, 0.7), (0.35, 0.6), costs=(0.1, 1.0))
    assert inputs.weights == (((1.0, 0.0), (1.0, 0.0)),) * 2
    assert inputs.position("b") == inputs.position(1) == 1


KEPT = FairnessProperty("demographic_parity", Fraction(1, 5), EmptyGroupRule("min_count", 2))


def with_costs(costs: np.ndarray, seed: int | None = None) -> Inputs:
    """These costs; all alike likely, or at random for each group and recommendation."""
    rng = np.random.default_rng(seed)
    rows = [rng.random(len(costs)) ** 2 if seed is not None else np.ones(len(costs)) for _ in range(4)]
    likely = [tuple(float(value) for value in row / row.sum()) for row in rows]
    weights = ((likely[0], likely[1]), (likely[2], likely[3]))
    return Inputs(("a", "b"), (0.3, 0.7), (0.35, 0.6), None, tuple(float(cost) for cost in costs), weights)


@pytest.mark.parametrize("count", [1, 2, 3, 7, 8, 30, MAX_COSTS])
def test_any_number_of_costs_is_taken_exactly(count: int) -> None:
    costs = np.sort(np.random.default_rng(count).random(count))
    plan = ShieldPlan(KEPT, with_costs(costs, seed=count), 8)

    def worth(t: int, state: tuple[int, ...]) -> float:
        return 0.0 if t < plan.horizon or KEPT.fair(*state) else np.inf

    expected = least_cost(lambda _: plan.inputs, plan.horizon, worth)
    assert expected > 0
    assert synthesize(plan).expected_cost == pytest.approx(expected, abs=1e-9)


def test_with_most_costs_every_end_is_fair() -> None:
    # The outermost levels, which force a decision, are the first that a byte could not hold.
    plan = ShieldPlan(KEPT, with_costs(np.linspace(0.1, 1, MAX_COSTS)), 9)
    policy = synthesize(plan)
    *layers, ends = reached(policy)
    assert any(abs(policy.action(8, state, 0)) == MAX_COSTS for state in layers[8])
    assert len(ends) > 50
    assert all(KEPT.fair(*state) for state in ends)


def test_more_costs_are_refused() -> None:
    with pytest.raises(OptionError, match="128 different costs") as caught:
        with_costs(np.linspace(0.1, 1, MAX_COSTS + 1))
    assert caught.value.hint is not None
    assert "bins" in caught.value.hint

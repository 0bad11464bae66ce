"""Groups known by probability: estimates by hand, bounds by trying, coverage where their assumption holds or not."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support import scaled

import evenhand
from evenhand.errors import DataError, OptionError
from evenhand.groups.config import GroupConfig
from evenhand.groups.proxies import measure_proxies
from evenhand.schema.probabilities import GroupProbabilities
from evenhand.schema.table import CodedTable


def measure(selected, probabilities, weights=None, **settings):
    table = CodedTable(pd.DataFrame(probabilities))
    groups = GroupProbabilities.read("group", {name: table[name] for name in table.names}, np.arange(table.rows))
    config = GroupConfig.of(None, settings)
    return measure_proxies(np.asarray(selected) == 1, groups, config, weights)


def estimate_of(found, label="a"):
    """Return the estimated rate of a group and its bounds."""
    group = next(group for group in found.groups if group.label == label)
    return group.metrics["selection_rate"], *group.bounds


FOUR = {"a": [0.8, 0.6, 0.4, 0.2], "b": [0.2, 0.4, 0.6, 0.8]}


def test_the_estimate_by_hand():
    """(.8 + .6) / 2 against (.2 + .4) / 2; the bounds of one cell with half selected: nothing to all of it."""
    found = measure([1, 1, 0, 0], FOUR, min_group_size=1)
    (a, low, high), (b, *_) = estimate_of(found, "a"), estimate_of(found, "b")
    assert (a.value, b.value) == pytest.approx((0.7, 0.3))
    assert (found.groups[0].size, found.groups[0].effective_size) == (2, pytest.approx(4 / 1.2))
    assert (low, high) == (0.0, 1.0)
    (gap,) = found.gaps
    assert (gap.value.value, gap.best, gap.worst) == (pytest.approx(0.4), "a", "b")
    assert "does not depend on the group" in found.assumption


def test_groups_that_are_too_small_are_in_no_difference():
    found = measure([1, 1, 0, 0], FOUR)
    assert all(group.small for group in found.groups)
    assert found.gaps[0].value.kind == "unknown"


def test_certain_memberships_are_plain_rates_and_the_bounds_meet():
    rng = np.random.default_rng(0)
    member = rng.random(4000) < 0.3
    selected = rng.random(4000) < np.where(member, 0.2, 0.5)
    found = measure(selected, pd.DataFrame({"a": member * 1.0, "b": 1.0 - member}))
    for group, who in (("a", member), ("b", ~member)):
        estimate, low, high = estimate_of(found, group)
        assert estimate.value == pytest.approx(selected[who].mean())
        assert low <= estimate.value <= high
        assert high - low < 0.1


def test_a_weight_of_two_is_two_people_for_the_estimate_and_equal_weights_are_none():
    rng = np.random.default_rng(0)
    p, selected, weights = rng.random(200), rng.random(200) < 0.5, rng.integers(1, 3, 200)
    twice = np.repeat(np.arange(200), weights)
    weighted = measure(selected, {"a": p, "b": 1 - p}, weights=weights)
    repeated = measure(selected[twice], {"a": p[twice], "b": 1 - p[twice]})
    assert estimate_of(weighted)[0].value == pytest.approx(estimate_of(repeated)[0].value)
    assert weighted.groups[0].effective_size < repeated.groups[0].effective_size
    equal = measure(selected, {"a": p, "b": 1 - p}, weights=np.full(200, 3.0))
    plain = measure(selected, {"a": p, "b": 1 - p})
    assert estimate_of(equal)[0].low == pytest.approx(estimate_of(plain)[0].low)


@settings(max_examples=scaled(15))
@given(st.tuples(st.integers(1, 6), st.integers(1, 6)), st.floats(0.1, 0.9))
def test_bounds_are_those_found_by_trying_every_way_to_fill_a_cell(counts, q):
    """One cell with selected and other people; members fill it in every way that gives their share."""
    selected = np.repeat([1, 0], np.array(counts) * 4000)
    found = measure(selected, {"a": np.full(len(selected), q), "b": np.full(len(selected), 1 - q)})
    _, low, high = estimate_of(found)
    above, below = np.array(counts) / sum(counts)
    ways = np.linspace(0, above, 401)
    rates = ways[(q - ways > -2e-3) & (q - ways < below + 2e-3)] / q
    assert (low, high) == pytest.approx((rates.min(), rates.max()), abs=0.05)


@pytest.mark.parametrize(
    ("probabilities", "error", "words"),
    [
        ({"a": [0.5, 0.5]}, OptionError, "two groups"),
        ({"a": [0.5, 0.5], "b": [0.5, 0.6]}, DataError, "row 2"),
        ({"a": [0.5, np.nan], "b": [0.5, 0.5]}, DataError, "row 2"),
        ({"a": ["x", 0.5], "b": [0.5, 0.5]}, DataError, "row 1: expected a finite number as group probability"),
        ({"a": [np.nan] * 2, "b": [np.nan] * 2}, DataError, "no person has known probabilities"),
    ],
)
def test_what_are_not_probabilities_is_refused(probabilities, error, words):
    with pytest.raises(error, match=words):
        measure([1, 0], probabilities)


def test_a_group_that_no_one_belongs_to_is_unknown_and_may_be_anything():
    estimate, *bounds = estimate_of(measure([1, 0], {"a": [0.0, 0.0], "b": [1.0, 1.0]}))
    assert (estimate.kind, *bounds) == ("unknown", 0.0, 1.0)


@pytest.fixture(scope="module")
def applicants():
    rng = np.random.default_rng(0)
    p = rng.beta(0.7, 1.2, 1200)
    people = pd.DataFrame({"sex": rng.choice(["F", "M"], 1200), "p_black": p, "p_white": 1 - p})
    people["selected"] = (rng.random(1200) < 0.6 - 0.3 * p).astype(int)
    people["hired"] = rng.integers(0, 2, 1200)
    people["wt"] = rng.random(1200) + 0.2
    people.loc[3, ["p_black", "p_white"]] = np.nan
    return people


def test_an_audit_never_shows_an_estimate_without_bounds_and_assumption(applicants):
    columns = {"black": "p_black", "white": "p_white"}
    result = evenhand.audit_predictions(
        applicants.selected,
        y_true=applicants.hired,
        sensitive_features=applicants[["sex"]],
        sample_weight=applicants.wt,
        membership={"race": {group: applicants[column] for group, column in columns.items()}},
    )
    (found,) = result.groups.proxies
    assert (found.by, found.unknown) == (("race",), 1)
    direct = measure(
        applicants.selected,
        {group: applicants[column] for group, column in columns.items()},
        weights=applicants.wt.to_numpy(),
    )
    estimates = [estimate_of(one, "black")[0].value for one in (direct, found)]
    assert estimates[0] == pytest.approx(estimates[1], abs=0.02)
    assert estimates[0] != estimates[1]
    said = result.to_markdown()
    assert found.assumption in said
    assert "weighted by sample" in said
    page = evenhand.view.render_page(result.document())
    assert "By race, known only as a probability" in page
    assert evenhand.auditing.AuditResult.from_json(result.to_json()).groups.proxies == result.groups.proxies


def draw(rng, direct, power=1.0, n=1500):
    """Probabilities of a proxy, the true ones being ``p ** power``; decisions by them, or the group if ``direct``."""
    p = rng.beta(0.7, 1.2, n)
    member = rng.random(n) < p**power
    return p, member, rng.random(n) < 0.6 - 0.3 * p - direct * member


@pytest.mark.full
def test_estimates_hold_where_decisions_depend_on_the_proxy_alone():
    """The rate of the population: integrals over 4 million people."""
    rng, runs, inside, apart = np.random.default_rng(0), 200, 0, 0
    p = rng.beta(0.7, 1.2, 4_000_000)
    rate = 0.6 - 0.3 * p
    a, b = (p * rate).sum() / p.sum(), ((1 - p) * rate).sum() / (1 - p).sum()
    for _ in range(runs):
        p, _, selected = draw(rng, 0.0)
        found = measure(selected, {"a": p, "b": 1 - p})
        one, *_ = estimate_of(found)
        inside += one.low <= a <= one.high
        difference = found.gaps[0].value
        apart += difference.low <= abs(a - b) <= difference.high
    assert min(inside, apart) / runs >= 0.95 - 3 * np.sqrt(0.95 * 0.05 / runs)


@pytest.mark.full
def test_bounds_hold_where_the_assumption_fails_and_the_estimate_does_not():
    rng, runs, bounded, inside = np.random.default_rng(0), 60, 0, 0
    p = rng.beta(0.7, 1.2, 4_000_000)
    a = (p * (0.6 - 0.3 * p - 0.2)).sum() / p.sum()
    for _ in range(runs):
        p, _, selected = draw(rng, 0.2)
        one, low, high = estimate_of(measure(selected, {"a": p, "b": 1 - p}))
        bounded += low <= a <= high
        inside += one.low <= a <= one.high
    assert bounded == runs
    assert inside < 0.5 * runs

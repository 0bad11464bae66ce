"""The depth-first search against going through every rule set and every permutation one by one."""

from __future__ import annotations

import itertools
import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from evenhand.core.time_limit import Clock, TimeLimit
from evenhand.stats.permutation import standardised_gap
from evenhand.subgroups.candidates import count_family
from evenhand.subgroups.cuts import AttributeCut
from evenhand.subgroups.deep import plan, top
from evenhand.subgroups.deep.depth_first import (
    DepthFirstConfig,
    PermutedOutcomes,
    largest_permuted_gaps,
    list_candidates,
    permute_outcomes,
    search_depth_first,
)
from evenhand.subgroups.deep.plan import build_traversal, plan_steps, rules_at_leaves
from evenhand.subgroups.family import RuleSetFamily, build_family, rule_incidence
from evenhand.subgroups.gaps import compare_groups, correct_tails
from evenhand.subgroups.measures import MinimumSizes
from evenhand.subgroups.tabulate import CellTable, cells_of_rule_sets, tabulate_people
from support import scaled

PERMUTATIONS = 20


def cut(cells: int, *, ordered: bool, missing: bool = False) -> AttributeCut:
    names = tuple(f"{i}" for i in range(cells))
    return AttributeCut(f"{'o' if ordered else 'c'}{cells}", names, None, ordered, missing)


def dealt(table: CellTable) -> PermutedOutcomes:
    return permute_outcomes(table, PERMUTATIONS, np.random.default_rng(5))


def by_person(
    rules: RuleSetFamily, codes: NDArray[np.int64], table: CellTable, least: int, least_rest: int
) -> dict[tuple[int, ...], NDArray[np.bool_]]:
    """Who is in each rule set that passes the floors, person by person."""
    found = {}
    for chosen in itertools.product(*(range(n) for n in rules.shape)):
        if not 0 < sum(row > 0 for row in chosen) <= rules.depth:
            continue
        inside = np.ones(table.people, dtype=bool)
        for axis, row in enumerate(chosen):
            inside &= rules.rules[axis][row][codes[:, axis]]
        size = rest = 0
        for stratum in range(table.strata):
            here = table.stratum == stratum
            if 0 < (inside & here).sum() < here.sum():
                size += int((inside & here).sum())
                rest += int((~inside & here).sum())
        if size >= least and rest >= least_rest:
            found[chosen] = inside
    return found


def numbers(table: CellTable, inside: NDArray[np.bool_]) -> tuple[float, float, float]:
    """A group's z as everything else has it, its gap, and the standard deviation of that under chance."""
    sums = [
        np.bincount(table.stratum, weights=weights * inside, minlength=table.strata)[None]
        for weights in (np.ones(table.people), table.values, table.values**2)
    ]
    groups = compare_groups(table, np.array(sums), table.total_moments[:, None])
    shape = correct_tails(groups, table.skewness)
    z = float(shape.z(groups.total.sum(axis=-1))[0])
    own, others = groups.rates
    return z, float((own - others)[0]), abs(float((own - others)[0]) / z) if z else 0.0


@st.composite
def cases(draw: st.DrawFn) -> tuple[tuple[AttributeCut, ...], NDArray[np.int64], CellTable]:
    cuts = []
    attributes = draw(st.integers(1, 4))
    for _ in range(attributes):
        ordered = draw(st.booleans())
        cuts.append(
            cut(
                draw(st.integers(1, 4 if attributes < 3 else 3)),
                ordered=ordered,
                missing=ordered and draw(st.booleans()),
            )
        )
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    people = draw(st.integers(5, 60))
    codes = np.stack([rng.integers(0, len(one.names), people) for one in cuts], axis=1)
    counted = draw(st.booleans())
    values = (rng.random(people) < 0.4).astype(float) if counted else rng.normal(3.0, 1.0, people)
    stratum = rng.integers(0, draw(st.integers(1, 3)), people)
    return (
        tuple(cuts),
        codes,
        tabulate_people(codes, values, counted=counted, stratum=np.unique(stratum, return_inverse=True)[1]),
    )


@settings(max_examples=scaled(30), deadline=None)
@given(case=cases(), depth=st.integers(1, 4), cells=st.sampled_from([1, 6, 1024]), jobs=st.sampled_from([1, 2]))
def test_deep_search_finds_what_going_through_all_rule_sets_finds(case, depth, cells, jobs):
    cuts, codes, table = case
    rules, known = build_family(cuts, depth), dealt(table)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plan, "CELLS", cells)
        result = search_depth_first(
            rules, table, known, DepthFirstConfig(min_inside=4, min_outside=3, keep=7, jobs=jobs)
        )
    expected = by_person(rules, codes, table, 4, 3)
    groups = {inside.tobytes(): abs(numbers(table, inside)[0]) for inside in expected.values()}
    copies = Counter(inside.tobytes() for inside in expected.values())
    assert (result.rule_sets, result.looked_at, result.stop) == (rules.size, rules.size, "done")
    assert (result.passed, result.tested, result.counted) == (len(expected), len(groups), True)
    # The same permutations, rule set by rule set.
    sums = np.concatenate([block.astype(float).T for block in known.blocks])[:PERMUTATIONS]
    assert len(sums) == PERMUTATIONS
    largest = np.zeros(PERMUTATIONS)
    for inside in expected.values():
        own = [
            np.bincount(table.stratum, weights=w * inside, minlength=table.strata)[None]
            for w in (np.ones(table.people), table.values, table.values**2)
        ]
        shape = correct_tails(compare_groups(table, np.array(own), table.total_moments[:, None]), table.skewness)
        # Scores are dealt as what exceeds their stratum's mean.
        usual = 0.0 if table.counted else shape.expected
        members = np.unique(table.cells.of[inside])
        largest = np.maximum(largest, np.abs([shape.z(k + usual)[0] for k in sums[:, members].sum(axis=1)]))
    np.testing.assert_allclose(result.maxima, largest, rtol=1e-5, atol=1e-4)
    # The top list: its scores are the highest, and each is what its description says.
    np.testing.assert_allclose(result.top["score"], sorted(groups.values(), reverse=True)[:7], rtol=1e-7, atol=1e-7)
    listed = list_candidates(rules, table, result)
    for i, chosen in enumerate(map(tuple, listed.chosen.tolist())):
        inside = expected[chosen]
        assert result.top["score"][i] == pytest.approx(abs(numbers(table, inside)[0]), abs=1e-7)
        size, total, squares = listed.moments[:, i].sum(axis=1)
        assert size == inside.sum()
        assert total == pytest.approx(table.values[inside].sum())
        assert squares == pytest.approx((table.values[inside] ** 2).sum())
        assert listed.copies[i] == copies[inside.tobytes()]


@settings(max_examples=scaled(40), deadline=None)
@given(case=cases(), margin=st.sampled_from([0.0, 0.3]))
def test_counts_what_is_significant_and_may_be_as_large_as_the_margin(case, margin):
    cuts, codes, table = case
    rules = build_family(cuts)
    result = search_depth_first(
        rules,
        table,
        dealt(table),
        DepthFirstConfig(min_inside=2, min_outside=2, critical=1.0, margin=margin, keep=10**6),
    )
    members = by_person(rules, codes, table, 2, 2)
    assert len(members) == result.passed
    people = {inside.tobytes(): numbers(table, inside) for inside in members.values()}
    scores = sorted((abs(z) for z, _, _ in people.values()), reverse=True)
    np.testing.assert_allclose(result.top["score"], scores, rtol=1e-6, atol=1e-6)
    certainly = sum(abs(z) > 1 + 1e-9 and abs(gap) + error >= margin + 1e-9 for z, gap, error in people.values())
    possibly = sum(abs(z) > 1 - 1e-9 and abs(gap) + error >= margin - 1e-9 for z, gap, error in people.values())
    assert certainly <= result.significant <= possibly


def test_by_hand():
    """Four bins of two people each, those of the upper two approved."""
    codes = np.repeat(np.arange(4), 2)[:, None]
    table = tabulate_people(codes, (codes[:, 0] >= 2).astype(float), counted=True)
    rules = build_family([cut(4, ordered=True)])
    result = search_depth_first(
        rules, table, dealt(table), DepthFirstConfig(min_inside=2, min_outside=2, critical=2.0, margin=0.5)
    )
    # Nine ranges without the full one; {0, 1} and {2, 3} are as far from chance as can be: an excess of 2 where the
    # variance is 4 * 4 / 8 * (8 / 4 / 7) = 4 / 7, not skewed.
    assert (result.rule_sets, result.passed, result.tested, result.significant) == (9, 9, 9, 2)
    assert result.top["score"][:2] == pytest.approx([2 / math.sqrt(4 / 7)] * 2)
    assert [rules.describe(chosen) for chosen in result.top["chosen"][:2]] == [{"o4": ("0", "1")}, {"o4": ("2", "3")}]
    assert list_candidates(rules, table, result).moments[1, :2, 0].tolist() == [0, 4]


@settings(max_examples=scaled(25), deadline=None)
@given(case=cases(), depth=st.integers(1, 4), share=st.integers(1, 5))
def test_agrees_with_the_count_cube(case, depth, share):
    cuts, _, table = case
    rules, limits = build_family(cuts, depth), MinimumSizes(share, 2)
    cube = count_family(rules, table, limits)
    met = [floor for floor in range(1, 10) if limits.accept(np.array(99), np.array(floor))]
    result = search_depth_first(
        rules, table, dealt(table), DepthFirstConfig(min_inside=max(share, 2), min_outside=met[0], keep=10**6)
    )
    own = list_candidates(rules, table, result)
    assert (result.tested, result.passed) == (len(cube), cube.copies.sum())
    described = {tuple(chosen): i for i, chosen in enumerate(own.chosen.tolist())}
    order = [described[tuple(chosen)] for chosen in cube.chosen.tolist()]
    np.testing.assert_allclose(own.moments[:, order], cube.moments, atol=1e-9)
    np.testing.assert_array_equal(own.copies[order], cube.copies)


@settings(max_examples=scaled(25), deadline=None)
@given(case=cases())
def test_groups_asked_about_have_the_same_maxima(case):
    cuts, _, table = case
    rules, known = build_family(cuts), dealt(table)
    result = search_depth_first(rules, table, known, DepthFirstConfig(min_inside=2, min_outside=2, keep=10**6))
    inside = cells_of_rule_sets(rules, table.cells, result.top["chosen"])
    np.testing.assert_allclose(largest_permuted_gaps(table, known, inside), result.maxima, rtol=1e-5, atol=1e-4)


def test_threads_change_nothing():
    rng = np.random.default_rng(2)
    codes = rng.integers(0, 5, (300, 5))
    values = (rng.random(300) < 0.3 + 0.3 * (codes[:, 0] > 2)).astype(float)
    rules = build_family([cut(5, ordered=i != 1) for i in range(5)], 3)
    table = tabulate_people(codes, values, counted=True)
    one, two = (
        search_depth_first(
            rules, table, dealt(table), DepthFirstConfig(min_inside=20, min_outside=20, keep=50, jobs=jobs)
        )
        for jobs in (1, 3)
    )
    assert (one.passed, one.tested, one.critical, one.significant) == (
        two.passed,
        two.tested,
        two.critical,
        two.significant,
    )
    assert one.significant > 0
    for name in ("score", "chosen", "copies", "key"):
        np.testing.assert_array_equal(one.top[name], two.top[name])
    np.testing.assert_array_equal(one.maxima, two.maxima)


def test_the_same_people_are_listed_once_under_the_fewest_rules():
    codes = np.repeat(np.array([[0, 0], [1, 1], [2, 1]]), 10, axis=0)
    values = np.repeat([0.0, 1.0, 1.0], 10)
    rules = build_family([cut(3, ordered=True), cut(2, ordered=False)])
    table = tabulate_people(codes, values, counted=True)
    search = search_depth_first(rules, table, dealt(table), DepthFirstConfig(min_inside=1, min_outside=1, keep=10))
    found = list_candidates(rules, table, search)
    # {first 0}: also {second 0}, {first 0, second 0}, {first 0 or 1, second 0}.
    size, total, _ = found.moments[:, :, 0]
    [refused] = np.flatnonzero((total == 0) & (size == 10))
    assert rules.describe(found.chosen[refused]) == {"c2": ("0",)}
    assert found.copies[refused] == 4
    [approved] = np.flatnonzero((total == 20) & (size == 20))
    assert search.top["key"][refused] != search.top["key"][approved]


def test_time_ends_the_search_with_what_was_looked_at(monkeypatch):
    rng = np.random.default_rng(4)
    codes, values = rng.integers(0, 4, (100, 4)), (rng.random(100) < 0.5).astype(float)
    cuts = [cut(4, ordered=True) for _ in range(4)]
    table = tabulate_people(codes, values, counted=True)
    known = dealt(table)
    looks = itertools.count()
    monkeypatch.setattr(Clock, "passed", lambda clock, moment, ahead=0.0: next(looks) == 3)
    some = search_depth_first(
        build_family(cuts, 2),
        table,
        known,
        # Time is up at the fourth look: the first part is looked at in any case, so these are the attributes alone.
        DepthFirstConfig(min_inside=10, min_outside=10, keep=10**6, jobs=1, limit=TimeLimit.after(1.0)),
    )
    monkeypatch.undo()
    alone = search_depth_first(
        build_family(cuts, 1), table, known, DepthFirstConfig(min_inside=10, min_outside=10, keep=10**6)
    )
    assert (some.stop, alone.stop) == ("time", "done")
    assert some.rule_sets > some.looked_at == alone.looked_at == 36
    assert (some.passed, some.tested, some.significant) == (alone.passed, alone.tested, alone.significant)
    np.testing.assert_array_equal(some.maxima, alone.maxima)
    np.testing.assert_array_equal(some.top["chosen"], alone.top["chosen"])


def test_an_interrupt_ends_the_search_with_what_was_looked_at():
    rng = np.random.default_rng(4)
    codes, values = rng.integers(0, 6, (200, 6)), (rng.random(200) < 0.5).astype(float)
    rules = build_family([cut(6, ordered=True) for _ in range(6)], 5)
    calls = itertools.count()

    def interrupt(share: float) -> None:
        if share > 0 and next(calls) == 0:
            raise KeyboardInterrupt

    table = tabulate_people(codes, values, counted=True)
    result = search_depth_first(
        rules, table, dealt(table), DepthFirstConfig(min_inside=2, min_outside=2), progress=interrupt
    )
    assert result.stop == "user"
    assert 0 < result.looked_at < rules.size
    assert (result.maxima > 0).all()
    assert len(result.top) > 0


def test_nothing_passes_the_floors():
    table = tabulate_people(np.array([[0], [1], [1]]), np.array([0.0, 1.0, 1.0]), counted=True)
    rules = build_family([cut(2, ordered=False)])
    result = search_depth_first(rules, table, dealt(table), DepthFirstConfig(min_inside=3, min_outside=1))
    assert (result.rule_sets, result.looked_at, result.passed, result.tested, result.significant) == (2, 2, 0, 0, 0)
    assert (result.maxima == 0).all()
    assert len(list_candidates(rules, table, result)) == 0


def test_everybody_has_the_same_outcome():
    for counted in (True, False):
        table = tabulate_people(np.array([[0], [1], [1], [0]]), np.ones(4), counted=counted)
        result = search_depth_first(
            build_family([cut(2, ordered=False)]), table, dealt(table), DepthFirstConfig(min_inside=1, min_outside=1)
        )
        assert (result.tested, result.significant) == (2, 0)
        assert (result.maxima == 0).all()


@pytest.mark.parametrize(("people", "kind"), [(200, "uint8"), (2_000, "uint16"), (200_000, "float32")])
def test_large_cells_are_counted_in_larger_numbers(people, kind):
    codes = (np.arange(people) % 3 == 0).astype(np.int64)[:, None]
    table = tabulate_people(codes, (np.arange(people) % 7 < 3).astype(float), counted=True)
    known = dealt(table)
    assert known.blocks[0].dtype == kind
    result = search_depth_first(
        build_family([cut(2, ordered=False)]), table, known, DepthFirstConfig(min_inside=1, min_outside=1)
    )
    counts = known.blocks[0][1, :PERMUTATIONS].astype(float)
    n, total = codes.sum(), table.values.sum()
    z = np.abs(standardised_gap(counts, n, total, people))
    np.testing.assert_allclose(result.maxima, z, rtol=0.1, atol=0.05)


@settings(max_examples=scaled(60), deadline=None)
@given(cells=st.integers(2, 6), ordered=st.booleans(), missing=st.booleans(), shuffle=st.integers(0, 99))
def test_steps_lead_through_every_rule(cells, ordered, missing, shuffle):
    rules = rule_incidence(cut(cells, ordered=ordered, missing=missing and ordered))
    rules = np.random.default_rng(shuffle).permutation(rules) if shuffle % 2 else rules
    current, reached = np.zeros(cells, dtype=int), []
    path = plan_steps(rules)
    for operation, cell, rule in path.tolist():
        current = np.zeros(cells, dtype=int) if operation == 0 else current
        current[cell] += -1 if operation == 2 else 1
        if rule >= 0:
            reached.append(rule)
            np.testing.assert_array_equal(current, rules[rule])
    assert sorted(reached) == list(range(len(rules)))


def test_subsets_and_ranges_take_one_step_each():
    assert len(plan_steps(rule_incidence(cut(10, ordered=True)))) == 54
    # The full set would lie on the way once.
    assert len(plan_steps(rule_incidence(cut(8, ordered=False)))) <= 2**8 - 2 + 1


def test_places_of_a_walk_tell_the_rules():
    several = [plan_steps(rule_incidence(cut(3, ordered=True))), plan_steps(rule_incidence(cut(2, ordered=False)))]
    assert build_traversal(several, [3, 2]).span.tolist() == [6, 2, 1]
    places = rules_at_leaves(several, np.arange(len(several[0]) * len(several[1])))
    np.testing.assert_array_equal(places[:, 0], np.repeat(several[0]["rule"], len(several[1])))
    np.testing.assert_array_equal(places[:, 1], np.tile(several[1]["rule"], len(several[0])))


def test_keys_count_exactly_up_to_the_limit_and_estimate_beyond():
    rng = np.random.default_rng(1)
    numbers = rng.integers(0, 2**64, size=50_000, dtype=np.uint64)
    few = top.DistinctKeyCounter(2**16)
    for batch in np.array_split(np.concatenate([numbers, numbers[::3]]), 7):
        few.add(batch)
    assert few.distinct() == (50_000, True)
    estimates = []
    for order in (numbers, numbers[::-1]):
        many = top.DistinctKeyCounter(2**11)
        for batch in np.array_split(np.concatenate([order, order]), 9):
            many.add(batch)
        estimates.append(many.distinct())
    assert estimates[0] == estimates[1]
    number, counted = estimates[0]
    assert not counted
    assert number == pytest.approx(50_000, rel=5 * 1.2 / math.sqrt(2**10))

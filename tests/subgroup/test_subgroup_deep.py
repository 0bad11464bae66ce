"""The depth-first search against going through every rule set and every permutation one by one."""

from __future__ import annotations

import itertools
import math
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from evenhand.stats import critical_value, standardised_mean_gap
from evenhand.subgroup import deep
from evenhand.subgroup.cells import Cut
from evenhand.subgroup.cube import fingerprints, occupied, through
from evenhand.subgroup.deep import depth_first, keys, plan
from evenhand.subgroup.deep.outcomes import Outcomes
from evenhand.subgroup.deep.walk import rules_at, steps, walk
from evenhand.subgroup.family import Family, family, incidence

PERMUTATIONS = 20


def cut(cells: int, *, ordered: bool, missing: bool = False) -> Cut:
    names = tuple(f"{i}" for i in range(cells))
    return Cut(f"{'o' if ordered else 'c'}{cells}", names, None, ordered, missing)


def happened(codes: NDArray[np.int64], values: NDArray[np.float64], *, counted: bool = True) -> Outcomes:
    rng = np.random.default_rng(5)
    return deep.outcomes(occupied(codes), values, counted=counted, permutations=PERMUTATIONS, rng=rng)


def by_person(
    rules: Family, codes: NDArray[np.int64], values: NDArray[np.float64], least: int, least_rest: int
) -> dict[tuple[int, ...], tuple[NDArray[np.bool_], float, float]]:
    """Every rule set that passes the floors: who is in it, its gap and its z."""
    found = {}
    everybody, total = len(values), values.sum()
    variance = ((values - values.mean()) ** 2).sum() / max(everybody - 1, 1)
    for chosen in itertools.product(*(range(n) for n in rules.shape)):
        if not 0 < sum(row > 0 for row in chosen) <= rules.depth:
            continue
        inside = np.ones(everybody, dtype=bool)
        for axis, row in enumerate(chosen):
            inside &= rules.rules[axis][row][codes[:, axis]]
        n = int(inside.sum())
        if n < max(least, 1) or everybody - n < least_rest:
            continue
        k = values[inside].sum()
        rest = everybody - n
        gap = k / n - (total - k) / rest if rest else math.nan
        z = float(standardised_mean_gap(k, n, values.mean(), variance, everybody))
        found[chosen] = (inside, gap, z)
    return found


@st.composite
def cases(draw: st.DrawFn) -> tuple[tuple[Cut, ...], NDArray[np.int64], NDArray[np.float64], bool]:
    cuts = []
    for _ in range(draw(st.integers(1, 4))):
        ordered = draw(st.booleans())
        cuts.append(cut(draw(st.integers(1, 4)), ordered=ordered, missing=ordered and draw(st.booleans())))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    people = draw(st.integers(5, 60))
    codes = np.stack([rng.integers(0, len(one.names), people) for one in cuts], axis=1)
    counted = draw(st.booleans())
    values = (rng.random(people) < 0.4).astype(float) if counted else rng.normal(3.0, 1.0, people)
    return tuple(cuts), codes, values, counted


@settings(max_examples=60, deadline=None)
@given(case=cases(), depth=st.integers(1, 4), cells=st.sampled_from([1, 6, 1024]), jobs=st.sampled_from([1, 2]))
def test_deep_search_finds_what_going_through_all_rule_sets_finds(case, depth, cells, jobs):
    cuts, codes, values, counted = case
    rules = family(cuts, depth)
    known = happened(codes, values, counted=counted)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plan, "CELLS", cells)
        result = deep.search(rules, known, least=4, least_rest=3, rank="z", keep=7, jobs=jobs)
    expected = by_person(rules, codes, values, 4, 3)
    groups: dict[bytes, float] = {inside.tobytes(): abs(z) for inside, _, z in expected.values()}
    copies = {group: sum(one.tobytes() == group for one, _, _ in expected.values()) for group in groups}
    assert (result.rule_sets, result.looked_at, result.stop) == (rules.size, rules.size, "done")
    assert (result.passed, result.tested, result.counted) == (len(expected), len(groups), True)
    # The same permutations, rule set by rule set.
    dealt = np.concatenate([block.astype(float).T for block in known.blocks])[:PERMUTATIONS]
    total = dealt.sum(axis=1, keepdims=True)
    people, largest = len(values), np.zeros(PERMUTATIONS)
    variance = ((values - values.mean()) ** 2).sum() / (people - 1)
    for inside, _, _ in expected.values():
        members = np.unique(known.cells.of[inside])
        z = standardised_mean_gap(dealt[:, members].sum(axis=1), inside.sum(), total[:, 0] / people, variance, people)
        largest = np.maximum(largest, np.abs(z))
    np.testing.assert_allclose(result.maxima, largest, rtol=1e-5, atol=1e-5)
    assert result.critical == critical_value(result.maxima, 0.95)
    assert result.standing == sum(z > result.critical for z in groups.values())
    # The top list: its scores are the highest, and each is what its description says.
    np.testing.assert_allclose(result.top.score, sorted(groups.values(), reverse=True)[:7], rtol=1e-9, atol=1e-9)
    sizes, amounts = deep.count(rules, known, result.top.chosen)
    for i, chosen in enumerate(map(tuple, result.top.chosen.tolist())):
        inside, _, z = expected[chosen]
        assert result.top.size[i] == sizes[i] == inside.sum()
        assert result.top.amount[i] == pytest.approx(values[inside].sum())
        assert amounts[i] == pytest.approx(values[inside].sum())
        assert result.top.score[i] == pytest.approx(abs(z))
        assert result.top.copies[i] == copies[inside.tobytes()]


@settings(max_examples=30, deadline=None)
@given(case=cases(), rank=st.sampled_from(["gap", "certain"]))
def test_ranks_by_gap_and_by_what_is_certain_of_it(case, rank):
    cuts, codes, values, counted = case
    rules = family(cuts)
    result = deep.search(
        rules, happened(codes, values, counted=counted), least=2, least_rest=2, rank=rank, critical=1.0, keep=1000
    )
    expected = by_person(rules, codes, values, 2, 2)
    scores = {
        inside.tobytes(): abs(gap) - (abs(gap / z) if rank == "certain" and z else 0.0)
        for inside, gap, z in expected.values()
        if z
    }
    np.testing.assert_allclose(
        [score for score, amount, size in zip(result.top.score, result.top.amount, result.top.size, strict=True)
         if abs(amount - size * values.mean()) > 1e-9],
        sorted(scores.values(), reverse=True), rtol=1e-7, atol=1e-9,
    )  # fmt: skip


def test_by_hand():
    """Four bins of two people each, the upper four approved: z of the upper half is 2 / sqrt(4/7)... by the formula."""
    codes = np.repeat(np.arange(4), 2)[:, None]
    values = (codes[:, 0] >= 2).astype(float)
    rules = family([cut(4, ordered=True)])
    result = deep.search(rules, happened(codes, values), least=2, least_rest=2, rank="z", critical=2.0, margin=0.5)
    # Nine ranges without the full one; {0,1} and {2,3} are as far from chance as can be: (4 - 2) / sqrt(4*4*4*4/8/8/7).
    assert (result.rule_sets, result.passed, result.tested, result.standing) == (9, 9, 9, 2)
    assert result.top.score[:2] == pytest.approx([2 / math.sqrt(4 / 7)] * 2)
    assert [rules.describe(chosen) for chosen in result.top.chosen[:2]] == [{"o4": ("0", "1")}, {"o4": ("2", "3")}]
    assert result.top.amount[:2].tolist() == [0, 4]


@settings(max_examples=25, deadline=None)
@given(case=cases(), depth=st.integers(1, 4))
def test_agrees_with_the_count_cube(case, depth):
    cuts, codes, values, counted = case
    rules, cells = family(cuts, depth), occupied(codes)
    sizes = through(rules, cells, cells.sizes.astype(float))
    amounts = through(rules, cells, np.bincount(cells.of, weights=values, minlength=len(cells.sizes)))
    number = sum(np.meshgrid(*(np.arange(n) > 0 for n in rules.shape), indexing="ij")).astype(int)
    passes = (number > 0) & (number <= rules.depth) & (sizes >= 3) & (len(values) - sizes >= 1)
    result = deep.search(rules, happened(codes, values, counted=counted), least=3, least_rest=1, keep=10**6)
    assert result.passed == passes.sum()
    assert result.tested == len(np.unique(fingerprints(rules, cells)[passes])) == len(result.top)
    at = tuple(result.top.chosen.T)
    np.testing.assert_array_equal(result.top.size, sizes[at])
    np.testing.assert_allclose(result.top.amount, amounts[at], atol=1e-9)


def test_threads_change_nothing():
    rng = np.random.default_rng(2)
    codes = rng.integers(0, 5, (300, 5))
    values = (rng.random(300) < 0.3 + 0.3 * (codes[:, 0] > 2)).astype(float)
    rules = family([cut(5, ordered=i != 1) for i in range(5)], 3)
    one, two = (
        deep.search(rules, happened(codes, values), least=20, least_rest=20, keep=50, jobs=jobs) for jobs in (1, 3)
    )
    assert (one.passed, one.tested, one.critical, one.standing) == (two.passed, two.tested, two.critical, two.standing)
    assert one.standing > 0
    for name in ("score", "chosen", "size", "amount", "copies"):
        np.testing.assert_array_equal(getattr(one.top, name), getattr(two.top, name))
    np.testing.assert_array_equal(one.maxima, two.maxima)


def test_the_same_people_are_listed_once_under_the_fewest_rules():
    codes = np.repeat(np.array([[0, 0], [1, 1], [2, 1]]), 10, axis=0)
    values = np.repeat([0.0, 1.0, 1.0], 10)
    rules = family([cut(3, ordered=True), cut(2, ordered=False)])
    result = deep.search(rules, happened(codes, values), least=1, least_rest=1, keep=10)
    # {first 0}: also {second 0}, {first 0, second 0}, {first 0 or 1, second 0}.
    everyone_refused = np.flatnonzero((result.top.amount == 0) & (result.top.size == 10))
    assert len(everyone_refused) == 1
    assert rules.describe(result.top.chosen[everyone_refused[0]]) == {"o3": ("0",)}
    assert result.top.copies[everyone_refused[0]] == 4


def test_time_ends_the_search_with_what_was_looked_at(monkeypatch):
    ticks = itertools.count()
    monkeypatch.setattr(depth_first, "time", SimpleNamespace(perf_counter=lambda: next(ticks)))
    rng = np.random.default_rng(4)
    codes, values = rng.integers(0, 4, (100, 4)), (rng.random(100) < 0.5).astype(float)
    cuts = [cut(4, ordered=True) for _ in range(4)]
    known = happened(codes, values)
    some = deep.search(family(cuts, 2), known, least=10, least_rest=10, keep=10**6, time_limit=4.5)
    # One look at the clock to begin with and one per combination: the four attributes alone.
    alone = deep.search(family(cuts, 1), known, least=10, least_rest=10, keep=10**6)
    assert (some.stop, alone.stop) == ("time", "done")
    assert some.rule_sets > some.looked_at == alone.looked_at == 36
    assert (some.passed, some.tested, some.standing) == (alone.passed, alone.tested, alone.standing)
    np.testing.assert_array_equal(some.maxima, alone.maxima)
    np.testing.assert_array_equal(some.top.chosen, alone.top.chosen)


def test_an_interrupt_ends_the_search_with_what_was_looked_at():
    rng = np.random.default_rng(4)
    codes, values = rng.integers(0, 6, (200, 6)), (rng.random(200) < 0.5).astype(float)
    rules = family([cut(6, ordered=True) for _ in range(6)], 5)
    calls = itertools.count()

    def interrupt(share: float) -> None:
        if share > 0 and next(calls) == 0:
            raise KeyboardInterrupt

    result = deep.search(rules, happened(codes, values), least=2, least_rest=2, progress=interrupt)
    assert result.stop == "user"
    assert 0 < result.looked_at < rules.size
    assert (result.maxima > 0).all()
    assert len(result.top) > 0


def test_nothing_passes_the_floors():
    codes, values = np.array([[0], [1], [1]]), np.array([0.0, 1.0, 1.0])
    result = deep.search(family([cut(2, ordered=False)]), happened(codes, values), least=3, least_rest=1)
    assert (result.rule_sets, result.looked_at, result.passed, result.tested, result.standing) == (2, 2, 0, 0, 0)
    assert (result.maxima == 0).all()
    assert len(result.top) == 0


def test_everybody_has_the_same_outcome():
    codes, values = np.array([[0], [1], [1], [0]]), np.ones(4)
    result = deep.search(family([cut(2, ordered=False)]), happened(codes, values), least=1, least_rest=1)
    assert (result.tested, result.standing) == (2, 0)
    assert (result.maxima == 0).all()


@settings(max_examples=60, deadline=None)
@given(cells=st.integers(2, 6), ordered=st.booleans(), missing=st.booleans(), shuffle=st.integers(0, 99))
def test_steps_lead_through_every_rule(cells, ordered, missing, shuffle):
    rules = incidence(cut(cells, ordered=ordered, missing=missing and ordered))
    rules = np.random.default_rng(shuffle).permutation(rules) if shuffle % 2 else rules
    current, reached = np.zeros(cells, dtype=int), []
    path = steps(rules)
    for operation, cell, rule in zip(path.operation, path.cell, path.rule, strict=True):
        current = np.zeros(cells, dtype=int) if operation == 0 else current
        current[cell] += -1 if operation == 2 else 1
        if rule >= 0:
            reached.append(rule)
            np.testing.assert_array_equal(current, rules[rule])
    assert sorted(reached) == list(range(len(rules)))


def test_subsets_and_ranges_take_one_step_each():
    assert len(steps(incidence(cut(10, ordered=True)))) == 54
    # The full set would lie on the way once.
    assert len(steps(incidence(cut(8, ordered=False)))) <= 2**8 - 2 + 1


def test_places_of_a_walk_tell_the_rules():
    several = [steps(incidence(cut(3, ordered=True))), steps(incidence(cut(2, ordered=False)))]
    assert walk(several, [3, 2]).span.tolist() == [6, 2, 1]
    places = rules_at(several, np.arange(len(several[0]) * len(several[1])))
    np.testing.assert_array_equal(places[:, 0], np.repeat(several[0].rule, len(several[1])))
    np.testing.assert_array_equal(places[:, 1], np.tile(several[1].rule, len(several[0])))


def test_keys_count_exactly_up_to_the_limit_and_estimate_beyond():
    rng = np.random.default_rng(1)
    numbers = rng.integers(0, 2**64, size=50_000, dtype=np.uint64)
    few = keys.Keys(2**16)
    for batch in np.array_split(np.concatenate([numbers, numbers[::3]]), 7):
        few.add(batch)
    assert few.distinct() == (50_000, True)
    estimates = []
    for order in (numbers, numbers[::-1]):
        many = keys.Keys(2**11)
        for batch in np.array_split(np.concatenate([order, order]), 9):
            many.add(batch)
        estimates.append(many.distinct())
    assert estimates[0] == estimates[1]
    number, counted = estimates[0]
    assert not counted
    assert number == pytest.approx(50_000, rel=5 * 1.2 / math.sqrt(2**10))

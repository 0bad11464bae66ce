"""Sampled and scanned subgroups, and how often the search errs."""

import dataclasses
import itertools

import numpy as np
import pytest
from deciders import SCHEMA, Decider, people
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from evenhand import subgroups
from evenhand.core.time_limit import NEVER, TimeLimit
from evenhand.errors import LimitError, OptionError
from evenhand.schema import Attribute, People, Schema, Target, encode
from evenhand.subgroups import SubgroupConfig, assessment, exact, find_members
from evenhand.subgroups.climb import climb
from evenhand.subgroups.exact import MeasuredOutcomes
from evenhand.subgroups.family import AttributeCut, build_family, cut_attributes
from evenhand.subgroups.gaps import adjusted_intervals, compare_groups, correct_tails
from evenhand.subgroups.methods import sampled
from evenhand.subgroups.methods.published import StoppingRule, sample_until_margin, summed_margin
from evenhand.subgroups.methods.sampled import frequent_rule_sets
from evenhand.subgroups.perturbation import Perturbation
from evenhand.subgroups.scan import SubsetScan, scan_family
from evenhand.subgroups.tabulate import tabulate_people
from support import scaled, shortened, small_schema

SENSITIVE = ("sex", "race", "age")
Z = 1.959963984540054


def test_margins_of_the_published_example():
    """283 and 91 of 1,000: margins 0.028 and 0.018, together 0.046."""
    for k, margin in ((283, 0.028), (91, 0.018)):
        assert round(float(summed_margin(np.array([k]), np.array(1000), 1.96)), 3) == margin
    assert round(float(summed_margin(np.array([283, 91]), np.array(1000), 1.96)), 3) == 0.046


def stream(outcomes):
    """Draws that go through given outcomes, by question and side; and the model that gives them back."""
    at = {}

    def draw(question, side, n, rng):
        start = at.get((question, side), 0)
        at[question, side] = start + n
        return np.array([outcomes(question, side, i) for i in range(start, start + n)])

    return draw, lambda samples: samples.astype(bool)


def test_margin_is_first_looked_at_after_more_than_a_thousand():
    draw, ask = stream(lambda question, side, i: 0)
    seen = sample_until_margin(1, 2, draw, ask, rule=StoppingRule(1000, 0.05, Z), seed=0)
    assert seen.n.tolist() == [1001]
    assert seen.margins.tolist() == [0.0]


@given(
    st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=4),
    st.integers(1, 60),
    st.floats(0.1, 0.5),
    st.integers(0, 99),
)
def test_blocks_stop_where_single_draws_would(rates, more_than, margin, seed):
    table = np.random.default_rng(seed).random((len(rates), 2, 4000)) < np.array(rates)[:, :, None]
    draw, ask = stream(lambda question, side, i: table[question, side, i])
    seen = sample_until_margin(len(rates), 2, draw, ask, rule=StoppingRule(more_than, margin, Z), seed=0)
    for question, (inside, outside) in enumerate(table):
        k1 = k2 = 0
        for n in itertools.count(1):
            k1, k2 = k1 + int(inside[n - 1]), k2 + int(outside[n - 1])
            p1, p2 = k1 / n, k2 / n
            reached = Z * (p1 * (1 - p1) / n) ** 0.5 + Z * (p2 * (1 - p2) / n) ** 0.5
            if n > more_than and reached <= margin:
                break
        assert (seen.n[question], *seen.k[question]) == (n, k1, k2)


def every_nudge(nudge, person):
    """Every outcome for one person, all equally likely."""
    moved = [
        np.where(np.arange(len(person)) == column, np.clip(person + sign * step, first, last), person)
        for sign in (-1, 1)
        for column, step, first, last in zip(nudge.columns, nudge.steps, nudge.first, nudge.last, strict=True)
    ]
    return np.array(moved or [person])


def test_nudges_are_those_listed_with_equal_chances():
    nudge = Perturbation(SCHEMA, SENSITIVE)
    person = np.array([0.0, 1.0, 40.0, 5.0, 0.5, 0.0])
    outcomes = every_nudge(nudge, person)
    assert len(outcomes) == 6
    assert outcomes[0].tolist() == [0, 1, 40, 4, 0.5, 0]
    assert outcomes[2].tolist() == person.tolist()  # no job before the first
    seen, counts = np.unique(nudge(np.tile(person, (60_000, 1)), np.random.default_rng(1)), axis=0, return_counts=True)
    expected, of = np.unique(outcomes, axis=0, return_counts=True)
    assert seen.tolist() == expected.tolist()
    assert np.abs(counts / 60_000 - of / 6).max() < 0.01


def test_missing_values_stay_missing():
    schema = small_schema(sex="f m", pay={"kind": "integer", "lower": 0, "upper": 5, "missing": "keep"})
    assert np.isnan(Perturbation(schema, ["sex"])(np.array([[0.0, np.nan]]), np.random.default_rng(0))[0, 1])


def enumerated(model, everybody, rules, sensitive):
    """The exact gap among the people, each nudged in every way."""
    nudge, inside = Perturbation(everybody.schema, sensitive), find_members(everybody, rules)
    rates = [
        np.mean([model.decide(every_nudge(nudge, person)).mean() for person in everybody.individuals[side]])
        for side in (inside, ~inside)
    ]
    return rates[0] - rates[1]


def test_sampled_gaps_are_those_of_the_enumerated_perturbation():
    everybody = people(60, seed=3)
    model = Decider(lambda rows: rows[:, 3] + (rows[:, 0] == 0) >= 5 + 2 * (rows[:, 5] == 1))
    result = subgroups.find_subgroups(
        model, everybody, attributes=("sex", "race"), method="sampled", margin=0.02, support=0.1
    )
    assert result.tested == len(result.findings) > 10
    for finding in result.findings:
        exact = enumerated(model, everybody, finding.rules, SENSITIVE)
        assert abs(finding.gap - exact) <= 0.02 * 1.5, finding.words
    inside = sum(f.low <= enumerated(model, everybody, f.rules, SENSITIVE) <= f.high for f in result.findings)
    assert inside >= 0.9 * len(result.findings)  # the summed margin covers more than it states


def test_result_states_what_was_done():
    everybody = people(400, seed=1)
    model = Decider(lambda rows: rows[:, 3] >= 5)
    result = subgroups.find_subgroups(model, everybody, method="sampled", attributes=("sex", "race"))
    assert (result.method, result.control, result.critical) == ("sampled", "none", None)
    assert result.confidence == pytest.approx(0.9025)
    assert result.people == 400
    assert result.rule_sets == (1 + 2) * (1 + 6) - 1
    gaps = [abs(finding.gap) for finding in result.findings]
    assert gaps == sorted(gaps, reverse=True)
    for finding in result.findings:
        assert (finding.z, finding.adjusted_p, finding.positives) == (None, None, None)
        assert 1001 <= finding.samples <= 1537
        assert finding.size == find_members(everybody, finding.rules).sum()
        assert finding.found == (finding.low > 0 or finding.high < 0)
    assert subgroups.SubgroupResult.from_json(result.to_json()) == result
    assert "not corrected for the" in " ".join(result.notes)


@given(st.integers(0, 1000), st.integers(1, 3), st.sampled_from([0.0, 0.05, 0.3]))
def test_frequent_rule_sets_by_enumeration(seed, depth, support):
    everybody = people(40, seed=seed)
    cuts, codes = cut_attributes(everybody, SENSITIVE, 3)
    rules = build_family(cuts, depth)
    expected = {}
    for chosen in itertools.product(*(range(len(rows)) for rows in rules.rules)):
        size = int(find_members(everybody, rules.describe(chosen)[0]).sum())
        if 1 <= sum(row > 0 for row in chosen) <= depth and max(1, support * 40) <= size < 40:
            expected[chosen] = size
    chosen, sizes = frequent_rule_sets(codes, rules, support, max_rule_sets=100_000)
    assert dict(zip(map(tuple, chosen.tolist()), sizes.tolist(), strict=True)) == expected
    few, _ = frequent_rule_sets(codes, rules, support, max_rule_sets=7)
    assert few.tolist() == chosen[:7].tolist()


def test_too_many_rule_sets_are_refused_or_left_out(monkeypatch):
    schema = small_schema(**{f"a{i}": (0.0, 1.0) for i in range(8)})
    everybody, model = people(300, schema=schema), Decider(lambda rows: rows[:, 0] > 0.5, schema)

    def search(names=schema.names, **options):
        return subgroups.find_subgroups(model, everybody, attributes=names, method="sampled", **options)

    for options in ({}, {"depth": 3}):
        with pytest.raises(OptionError, match="too many"):
            search(**options)
    with monkeypatch.context() as patched:
        patched.setattr(sampled, "MOST_RULE_SETS", 20)
        timed = search(depth=3, time_limit=1000)
    assert (timed.tested, timed.interrupted) == (20, True)
    alone = search(schema.names[:3], depth=1, support=0.3)
    assert 0 < alone.tested < 165
    assert not alone.interrupted


def test_same_seed_same_samples():
    everybody, model = people(200), Decider(lambda rows: rows[:, 3] >= 5)
    first, again, other = (
        subgroups.find_subgroups(model, everybody, method="sampled", attributes=("sex",), seed=seed).findings
        for seed in (1, 1, 2)
    )
    assert first == again
    assert first != other


def fair_worlds(count):
    """People and decisions that have nothing to do with sensitive attributes."""
    for seed in range(count):
        everybody = people(300, seed=seed)
        luck = np.random.default_rng(1000 + seed).random((10, 3)) < 0.5
        yield seed, everybody, Decider(lambda rows, luck=luck: luck[rows[:, 3].astype(int), rows[:, 5].astype(int)])


@pytest.mark.full
def test_published_intervals_call_fair_models_unfair_and_exact_ones_do_not():
    published = exact = 0
    for seed, everybody, model in fair_worlds(8):
        sampled = subgroups.find_subgroups(model, everybody, method="sampled", attributes=SENSITIVE, seed=seed, bins=5)
        published += sampled.found > 0
        exact += subgroups.find_subgroups(model, everybody, attributes=SENSITIVE, seed=seed, bins=5).found > 0
    assert published == 8
    assert exact <= 1


def test_time_limit_before_anything_is_an_error():
    with pytest.raises(LimitError):
        subgroups.find_subgroups(Decider(lambda rows: rows[:, 3] > 5), people(100), method="sampled", time_limit=1e-9)


def test_interrupt_before_anything_is_an_interrupt():
    def impatient(rows):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        subgroups.find_subgroups(Decider(impatient), people(100), method="sampled", attributes=SENSITIVE)


def test_interrupt_keeps_what_was_sampled():
    calls = itertools.count()

    def impatient(rows):
        if next(calls) == 2:
            raise KeyboardInterrupt
        return rows[:, 3] >= 5

    result = subgroups.find_subgroups(Decider(impatient), people(500), method="sampled", attributes=SENSITIVE)
    assert result.interrupted
    assert 0 < result.tested == len(result.findings) < result.rule_sets


@pytest.mark.parametrize(
    "options", [{"measure": "score"}, {"measure": "false-positive"}, {"per": "job"}, {"min_size": 5}], ids=str
)
def test_options_the_publication_does_not_know_are_refused(options):
    everybody, model = people(100, truth=True), Decider(lambda rows: rows[:, 3] > 5)
    with pytest.raises(OptionError):
        subgroups.find_subgroups(model, everybody, method="sampled", **options)


def test_members_with_missing_values():
    pay = {"kind": "integer", "lower": 0, "upper": 5, "missing": "keep"}
    schema = small_schema(pay=pay, job={"kind": "categorical", "values": ["x", "z"], "missing": "keep"})
    import pandas as pd

    everybody = encode(schema, pd.DataFrame({"pay": [1, None, 5], "job": ["x", "z", None]}))
    assert find_members(everybody, {"pay": ("missing",)}).tolist() == [False, True, False]
    assert find_members(everybody, {"pay": subgroups.Range(low=1)}).tolist() == [True, False, True]
    assert find_members(everybody, {"job": ("x", "missing")}).tolist() == [True, False, True]


PLANTED = ["conj", "conj3", "union", "union-large", "range", "range2", "small", "large", "union-range"]


def draw_rows(planted, n, regions, seed, z=8.0):
    """Draw people by sex, race, age, region and income, with a gap of z standard errors for the planted group."""
    rng = np.random.default_rng([seed, 7])
    income = rng.normal(size=n)
    shares = np.linspace(2, 1, regions)
    rows = np.stack(
        [
            rng.choice(2, n),
            rng.choice(5, n, p=[0.5, 0.2, 0.12, 0.1, 0.08]),
            np.floor(rng.random(n) * 10),
            rng.choice(regions, n, p=shares / shares.sum()),
            np.clip(np.floor((income + 2.5) * 2), 0, 9),
        ],
        axis=1,
    ).astype(np.int64)
    sex, race, age, region, income = rows.T
    group = {
        "none": np.zeros(n, dtype=bool),
        "conj": (sex == 0) & (race == 1),
        "conj3": (race == 0) & (region == 0),
        "union": np.isin(race, [1, 2]) & np.isin(region, [1, 4, 6]),
        "union-large": np.isin(region, [0, 2, 5, 7]),
        "range": (sex == 1) & (age >= 2) & (age <= 5),
        "range2": (age >= 3) & (age <= 6) & (income <= 4),
        "small": (region == 1) & (age <= 3),
        "large": (income >= 3) & (race != 4),
        "union-range": (sex == 0) & np.isin(region, [0, 3, 5]) & (income <= 5),
    }[planted]
    share = group.mean()
    gap = z * 0.5 / np.sqrt(n * share * (1 - share)) if group.any() else 0.0
    return rows, rng.random(n) < 0.5 + gap * (1 - share) - gap * group, group


def make_people(rows, regions):
    """People of these codes, as a schema would read them."""
    names = {"sex": 2, "race": 5, "age": 10, "region": regions, "income": 10}
    attributes = [
        Attribute(name=name, kind="integer", lower=0, upper=9, protected=True)
        if name in ("age", "income")
        else Attribute(name=name, kind="categorical", values=tuple(f"{i}" for i in range(size)), protected=True)
        for name, size in names.items()
    ]
    schema = Schema(target=Target(name="y", favourable="yes", values=("no", "yes")), attributes=tuple(attributes))
    return People(schema, rows.astype(float), np.zeros(len(rows), dtype=np.int64), np.arange(len(rows)), None)


def search(rows, values, regions, *, counted=True, limit=NEVER, **options):
    outcome = MeasuredOutcomes(np.arange(len(rows)), values.astype(float), counted)
    config = SubgroupConfig(**{"permutations": 200, **options})
    return exact.search_exactly(make_people(rows, regions), lambda *_: outcome, config, limit=limit)


def jaccard(rows, regions, result, group):
    shown = find_members(make_people(rows, regions), result.findings[0].rules)
    return (shown & group).sum() / (shown | group).sum()


@st.composite
def cases(draw):
    """A table of one to three attributes, and its family."""
    cuts = []
    for i in range(draw(st.integers(1, 3))):
        ordered = draw(st.booleans())
        missing, cells = ordered and draw(st.booleans()), draw(st.integers(2, 5))
        cuts.append(AttributeCut(f"a{i}", tuple(map(str, range(cells))), None, ordered, missing))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    n = draw(st.integers(20, 80))
    codes = np.stack([rng.integers(0, len(cut.names), n) for cut in cuts], axis=1)
    values = (rng.random(n) < 0.4).astype(float) if draw(st.booleans()) else rng.normal(3.0, 1.0, n)
    strata = np.unique(rng.integers(0, draw(st.integers(1, 3)), n), return_inverse=True)[1]
    table = tabulate_people(codes, values, counted=bool(np.isin(values, [0, 1]).all()), stratum=strata)
    return build_family(cuts, draw(st.sampled_from([None, 1, 2]))), codes, table


def standardise(table, inside):
    """Signed z of people, as the exact search computes it."""
    sums = [np.bincount(table.stratum, weights=m * inside, minlength=table.strata)[None] for m in table.moments]
    groups = compare_groups(table, np.array(sums), table.total_moments[:, None])
    return float(correct_tails(groups, table.skewness).z(groups.total.sum(axis=-1))[0])


def tails_of(table, tested):
    return correct_tails(compare_groups(table, tested.moments, table.total_moments[:, None]), table.skewness)


def members(codes, rule_set):
    return np.all([rule_set[axis][code] for axis, code in enumerate(codes.T)], axis=0)


@settings(deadline=None, max_examples=scaled(60))
@given(cases())
def test_climbs_end_at_groups_with_their_gap(case):
    family, codes, table = case
    scan = SubsetScan(family, table, 3, np.random.default_rng(0))
    ends, z = scan.climb(table.cell_moments[1])
    widths = [len(cut.names) for cut in family.cuts]
    for end, gap in zip(ends, z, strict=True):
        if gap > 0:
            inside = members(codes, end)
            assert gap == pytest.approx(abs(standardise(table, inside)), abs=1e-9)
            assert min(*(table.measure_sides(scan.members(end[None]) @ table.stratum_moments))) >= 3
            assert sum(not end[axis, :width].all() for axis, width in enumerate(widths)) <= family.depth
            for axis, cut in enumerate(family.cuts):
                rule = end[axis, : widths[axis]]
                assert not cut.ordered or any((rule == row).all() for row in family.rules[axis])


@settings(deadline=None, max_examples=scaled(80))
@given(st.integers(2, 6), st.integers(0, 2**32), st.booleans())
def test_one_step_finds_the_best_subset_of_an_attribute(values, seed, higher):
    """The prefix property: given the rules on the others, no subset of an attribute's values is better."""
    rng = np.random.default_rng(seed)
    n = 100
    codes = np.stack([rng.integers(0, values, n), rng.integers(0, 3, n)], axis=1)
    # Half of the outcomes are 1, so that both tails are equally long.
    outcomes = rng.permutation(np.arange(n) % 2).astype(float)
    cuts = [AttributeCut(f"a{i}", tuple(map(str, range(k))), None, False) for i, k in enumerate((values, 3))]
    table = tabulate_people(codes, outcomes, counted=True)
    scan = SubsetScan(build_family(cuts), table, 1, rng)
    other = np.isin(codes[:, 1], [0, 2])
    rule_set = np.ones((2, max(values, 3)), dtype=bool)
    rule_set[0, values:], rule_set[1] = False, np.isin(np.arange(max(values, 3)), [0, 2])
    sign = 1.0 if higher else -1.0
    # With no second attribute to improve, a climb is one step.
    cells = scan._cells._replace(
        places=scan._cells.places[:1], values=scan._cells.values[:1], ranges=scan._cells.ranges[:1]
    )
    inside = scan.members(rule_set[None])[0]
    kept = cells._replace(places=np.ascontiguousarray(cells.places[:, inside]), sizes=cells.sizes[inside])
    excess = (table.cell_moments[1] - table.mean * table.cell_moments[0])[inside]
    work = np.zeros(int(inside.sum()), dtype=np.int8)
    best = climb(kept, excess, sign, 0, rule_set[:1, :values].copy(), work, np.full(9, np.inf))
    by_hand = max(
        sign * standardise(table, other & np.isin(codes[:, 0], subset))
        for size in range(1, values + 1)
        for subset in itertools.combinations(range(values), size)
        if 0 < (other & np.isin(codes[:, 0], subset)).sum() < n
    )
    assert best == pytest.approx(by_hand, abs=1e-9)


@settings(deadline=None, max_examples=scaled(20))
@given(cases())
def test_scan_never_exceeds_the_exact_search(case):
    """No climb on any permutation reaches more than the largest gap of all rule sets."""
    family, _, table = case
    scan = SubsetScan(family, table, 3, np.random.default_rng(0))
    tested = exact.count_family(family, table, 3)
    largest = tested.largest_gap(tails_of(table, tested))
    sums = table.permute_sums(20, np.random.default_rng(1)).T.astype(np.float32)
    assert (scan.largest_gap(sums) <= largest(sums) * (1 + 1e-4) + 1e-4).all()


@settings(deadline=None, max_examples=scaled(20))
@given(cases(), st.data())
def test_compiled_maxima_equal_those_of_arrays(case, data):
    family, _, table = case
    queries = np.array(
        data.draw(st.lists(st.lists(st.booleans(), min_size=(n := len(table.cells.sizes)), max_size=n), max_size=2))
    )
    tested = exact.count_family(family, table, 3, queries.reshape(-1, n).astype(bool))
    tails = tails_of(table, tested)
    sums = table.permute_sums(20, np.random.default_rng(1)).T.astype(np.float32)
    by_arrays = tested.largest_gap(tails)(sums)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(assessment, "COMPILED", 0)
        assert tested.largest_gap(tails)(sums) == pytest.approx(by_arrays, rel=1e-5, abs=1e-5)


def test_shortening_keeps_the_gap_significant_and_never_lengthens():
    for seed, planted in enumerate(PLANTED):
        rows, values, _ = draw_rows(planted, 3000, 8, seed)
        people = make_people(rows, 8)
        cuts, codes = exact.cut_attributes(people, people.schema.protected)
        table = tabulate_people(codes, values.astype(float), counted=True)
        scan = SubsetScan(build_family(cuts), table, 150, np.random.default_rng(0))
        ends, z = scan.climb(table.cell_moments[1])
        for end, gap in zip(ends, z, strict=True):
            if gap > 5.0:
                short = scan.shorten(end, 5.0)
                assert scan.description_length(short) <= scan.description_length(end) + 1e-9
                assert abs(scan.standardise(scan.members(short[None]))[0]) > 5.0


def test_result_states_that_a_scan_ran():
    rows, values, group = draw_rows("union", 4000, 8, 0, z=12.0)
    result = search(rows, values, 8, judged=("race == 1 and sex == 0",))
    assert result.starts == 10
    assert any("climbed from 10 starts; a stronger group may exist" in note for note in result.notes)
    assert result.rule_sets > exact.MAX_TESTED
    assert jaccard(rows, 8, result, group) > 0.9
    assert find_members(make_people(rows, 8), result.findings[0].rules).sum() == result.findings[0].size
    # A requested rule set is a family of its own, with about the interval of a single test.
    [judged] = result.judged
    assert judged.high - judged.low < 1.2 * (judged.plain_high - judged.plain_low)
    assert result.findings[0].high - result.findings[0].low > 2 * (judged.high - judged.low)


def test_means_have_intervals_at_very_large_critical_values():
    codes, values = np.arange(200)[:, None] % 4, np.random.default_rng(0).lognormal(size=200)
    table = tabulate_people(codes, values, counted=False)
    groups = compare_groups(table, np.eye(4, dtype=bool) @ table.stratum_moments, table.total_moments[:, None])
    tails = correct_tails(groups, table.skewness)
    low, high = adjusted_intervals(groups, (tails.scale_above, tails.scale_below), 9.0, table.skewness)
    assert (high - low > 17 * groups.gap_deviation / 2).all()
    assert np.isfinite([low, high]).all()


def test_time_limit_keeps_the_completed_permutations():
    rows, values, _ = draw_rows("conj", 3000, 8, 0, z=12.0)
    result = search(rows, values, 8, limit=TimeLimit(0.0))
    assert result.interrupted
    assert any("The time limit was reached after 10 of 200 permutations" in note for note in result.notes)


def test_scan_respects_depth_and_control_variable():
    rows, values, _ = draw_rows("conj3", 3000, 8, 0, z=12.0)
    assert all(len(finding.rules) == 1 for finding in search(rows, values, 8, depth=1, bins=10).findings)
    result = search(rows, values, 12, attributes=("race", "age", "region", "income"), per="sex")
    assert result.starts == 9
    assert result.findings[0].rules == {"race": ("0",), "region": ("0",)}


@pytest.mark.slow
def test_planted_groups_are_shown_first():
    for z, expected in ((8.0, 0.95), (6.0, 0.75)):
        overlaps = []
        for seed, planted in itertools.product((1, 2, 3), PLANTED):
            rows, values, group = draw_rows(planted, 10_000, 8, seed, z)
            overlaps.append(jaccard(rows, 8, search(rows, values, 8), group))
        assert np.mean(overlaps) >= expected


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "runs"), [("labels", 400), ("numbers", 100), ("strata", 100)])
def test_false_alarms_are_as_rare_as_stated(kind, runs):
    alarms = 0
    for seed in range(runs):
        rows, values, _ = draw_rows("none", 2000, 8, 1000 + seed)
        rng = np.random.default_rng(seed)
        cuts, codes = exact.cut_attributes(make_people(rows, 8), ("sex", "race", "age", "region", "income"))
        if kind == "numbers":
            values = rng.lognormal(size=len(rows))
            values = (values - values.mean()) / values.std()
        stratum = (rows[:, 4] > 4).astype(np.int64) if kind == "strata" else None
        if kind == "strata":
            values = rng.random(len(rows)) < 0.3 + 0.3 * stratum
        table = tabulate_people(codes, values.astype(float), counted=kind != "numbers", stratum=stratum)
        config = SubgroupConfig(permutations=199, margin=0.0)
        scan = SubsetScan(build_family(cuts), table, 100, np.random.default_rng(seed))
        tested, _, correction = scan_family(scan, config, np.random.default_rng(seed))
        statistics = exact.assess_candidates(tested, config, rng, correction=correction)
        alarms += bool(statistics.found.any())
    # Allowed: 7 % of 400 runs, and 5 % plus three standard errors of 100.
    assert alarms <= (28 if runs == 400 else 11)


PEOPLE = 400
ERRORS_SCHEMA = small_schema(race="a b c", age=(0, 4), school="s t", number=(0, PEOPLE - 1)).with_protected(
    ["race", "age"]
)


def drawn(rng):
    """People of three races, of which two go to one school more often than the third, all as deserving."""
    race, age = rng.choice(3, PEOPLE, p=[0.6, 0.25, 0.15]), rng.binomial(4, 0.4, PEOPLE)
    school = rng.random(PEOPLE) < np.where(race == 0, 0.3, 0.7)
    rows = np.column_stack([race, age, school, np.arange(PEOPLE)]).astype(np.float64)
    return People(ERRORS_SCHEMA, rows, rng.integers(0, 2, PEOPLE), np.arange(PEOPLE), None)


@dataclasses.dataclass
class Given:
    """A model whose score of every person was drawn beforehand."""

    given: np.ndarray
    schema = ERRORS_SCHEMA
    classes = ("no", "yes")
    favourable = 1
    label_only = False
    name = "drawn"

    def scores(self, individuals):
        favourable = self.given[individuals[:, -1].astype(int)]
        return np.stack([1 - favourable, favourable], axis=1)

    def predict(self, individuals):
        return (self.scores(individuals)[:, 1] > 0.5).astype(np.int64)


FAIR = {
    "rest": ({}, 0.3),
    "rare": ({"support": 0.0, "min_size": 10}, 0.03),
    "errors": ({"measure": "false-negative"}, 0.3),
    "score": ({"measure": "score"}, None),
}


@pytest.mark.parametrize("case", shortened(FAIR, to=2))
def test_a_fair_model_is_accused_as_often_as_the_level_says(case):
    options, rate = FAIR[case]
    rng, runs = np.random.default_rng(7), 100
    people = drawn(rng)
    wrong = 0
    for run in range(runs):
        given = rng.beta(0.3, 2, PEOPLE) if rate is None else (rng.random(PEOPLE) < rate).astype(float)
        found = subgroups.find_subgroups(Given(given), people, margin=0.0, permutations=99, seed=run, most=1, **options)
        assert found.tested > 10
        wrong += found.found > 0
    assert wrong <= binom.ppf(1 - 1e-3, runs, 0.05)


@pytest.mark.full
def test_a_gap_between_schools_is_no_gap_within_them():
    """Schools decide unequally and races go to different ones: unfair among all, fair within each school."""
    rng, runs = np.random.default_rng(8), 40
    people = drawn(rng)
    within = among = 0
    for run in range(runs):
        given = (rng.random(PEOPLE) < np.where(people.individuals[:, 2] == 1, 0.7, 0.2)).astype(float)
        settings = {"margin": 0.0, "permutations": 99, "seed": run, "most": 1}
        within += subgroups.find_subgroups(Given(given), people, per="school", **settings).found > 0
        among += subgroups.find_subgroups(Given(given), people, **settings).found > 0
    assert within <= binom.ppf(1 - 1e-3, runs, 0.05)
    assert among > 0.9 * runs


@pytest.mark.parametrize("measure", shortened(["favourable", "score"]))
def test_intervals_hold_the_gaps_that_are_there(measure):
    """People drawn anew, decided about unequally; the truth is that of the population they are drawn from."""
    rng, runs = np.random.default_rng(10), 60
    everybody = [(race, age, school, 0.0) for race in range(3) for age in range(5) for school in range(2)]
    population = People(ERRORS_SCHEMA, np.array(everybody, dtype=np.float64), None, np.arange(30), None)
    race, age, school, _ = population.individuals.T
    second = np.where(race == 0, 0.3, 0.7)
    share = np.array([0.6, 0.25, 0.15])[race.astype(int)] * binom.pmf(age, 4, 0.4)
    share *= np.where(school == 1, second, 1 - second)
    rates = 0.5 - 0.15 * (race == 1) - 0.1 * (age >= 3) - 0.1 * ((race == 2) & (age <= 1))
    held, plain, missed = 0, [], []
    for run in range(runs):
        people = drawn(rng)
        own = 0.5 - 0.15 * (people.individuals[:, 0] == 1) - 0.1 * (people.individuals[:, 1] >= 3)
        own -= 0.1 * ((people.individuals[:, 0] == 2) & (people.individuals[:, 1] <= 1))
        given = rng.beta(2 * own, 2 * (1 - own)) if measure == "score" else (rng.random(PEOPLE) < own).astype(float)
        result = subgroups.find_subgroups(
            Given(given), people, measure=measure, margin=0.0, permutations=99, seed=run, most=10_000
        )
        assert len(result.findings) == result.tested
        inside = np.array([find_members(population, one.rules) for one in result.findings])
        truth = (inside @ (share * rates)) / (inside @ share) - (~inside @ (share * rates)) / (~inside @ share)
        low, high, plain_low, plain_high = np.array(
            [(one.low, one.high, one.plain_low, one.plain_high) for one in result.findings]
        ).T
        adjusted = (low <= truth) & (truth <= high)
        held += adjusted.all()
        plain.append(((plain_low <= truth) & (truth <= plain_high)).mean())
        reported = np.array([one.found for one in result.findings])
        missed.append((reported & ~adjusted).sum() / max(reported.sum(), 1))
    spread = 3.1 / np.sqrt(runs)
    assert held >= binom.ppf(1e-3, runs, 0.95)
    assert np.mean(missed) <= 0.05 + spread * np.std(missed)
    assert np.mean(plain) >= 0.95 - spread * np.std(plain)
    assert np.mean(plain) <= 0.98

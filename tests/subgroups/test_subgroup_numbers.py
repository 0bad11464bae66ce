"""Subgroups of numbers, and of weighted people."""

import itertools
import math
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from deciders import SCHEMA, Decider, people
from hypothesis import given, settings
from hypothesis import strategies as st
from naive import FAR, rule_sets

import evenhand
from evenhand.errors import DataError, OptionError
from evenhand.groups import DecisionRoles
from evenhand.schema import Attribute, PeopleWeights, Schema, Target, encode
from evenhand.schema.decisions import RecordedNumbers
from evenhand.schema.people import ColumnRoles
from evenhand.stats import difference_interval
from evenhand.stats.mean import SampleMoments, welch_interval
from evenhand.subgroups import (
    SubgroupResult,
    find_members,
    find_subgroups,
    find_subgroups_of_decisions,
    find_subgroups_of_numbers,
)
from evenhand.subgroups.assessment import count_family
from evenhand.subgroups.family import build_family, cut_attributes
from evenhand.subgroups.gaps import adjusted_intervals, compare_groups, scale_tails, standardise_weighted
from evenhand.subgroups.result import MeasuredNumber
from evenhand.subgroups.tabulate import CellTable, tabulate_people
from support import draw_frame, scaled

RACE, CLASS = ("a", "b", "c"), ("low", "middle", "high")
SMALL = Schema(
    target=Target(name="premium", kind="number", favourable="lower", unit="EUR"),
    attributes=(
        Attribute(name="race", kind="categorical", values=RACE, protected=True),
        Attribute(name="class", kind="ordinal", values=CLASS, protected=True),
    ),
)
persons = st.tuples(st.sampled_from(RACE), st.sampled_from(CLASS), st.integers(100, 900))


def recorded(world):
    people = encode(SMALL, pd.DataFrame([row[:2] for row in world], columns=["race", "class"]))
    return RecordedNumbers(people, np.array([row[2] for row in world], dtype=np.float64))


def search(numbers, **settings):
    wide = {"support": 0.0, "min_size": 1, "margin": 0.0, "permutations": 50, "most": 10_000} | settings
    return find_subgroups_of_numbers(numbers, **wide)


def naive_groups(world):
    columns = [[RACE.index(row[0]) for row in world], [CLASS.index(row[1]) for row in world]]
    everybody = len(world)
    return {inside for _, inside in rule_sets(columns, (False, True)) if 0 < len(inside) < everybody}


def standardised(inside, values):
    """The excess of a group's sum over all ways to choose as many people, its tail made like a normal one's."""
    sums = np.array(
        [sum(values[i] for i in chosen) for chosen in itertools.combinations(range(len(values)), len(inside))]
    )
    away = sums - sums.mean()
    deviation = math.sqrt((away**2).mean())
    if deviation < 1e-9:
        return 0.0
    excess = sum(values[i] for i in inside) - sums.mean()
    shift = math.copysign(1, excess) * (away**3).mean() / deviation**3 * (FAR**2 - 1) / 6
    return excess / deviation * FAR / max(FAR + shift, 1.0)


@settings(deadline=None, max_examples=scaled(40))
@given(st.lists(persons, min_size=3, max_size=7))
def test_every_group_by_hand(world):
    numbers = recorded(world)
    values = numbers.decided
    result = search(numbers)
    expected = naive_groups(world)
    assert result.tested == len(expected) == len(result.findings)
    assert result.rate == pytest.approx(values.mean())
    for found in result.findings:
        inside = find_members(numbers.people, found.rules)
        assert frozenset(np.flatnonzero(inside).tolist()) in expected
        assert (found.size, found.rest) == (inside.sum(), (~inside).sum())
        assert (found.rate, found.rest_rate) == pytest.approx((values[inside].mean(), values[~inside].mean()))
        assert found.gap == pytest.approx(found.rate - found.rest_rate, abs=1e-6)
        assert found.z == pytest.approx(standardised(np.flatnonzero(inside).tolist(), values), abs=1e-6)
        sides = [values[inside], values[~inside]]
        if min(map(len, sides)) > 1 and max(side.std() for side in sides) > 0:
            moments = [SampleMoments(side.mean(), side.var(ddof=1), len(side)) for side in sides]
            plain = welch_interval(*moments, result.confidence, upper=max(np.ptp(values), values.std()))
            assert (found.plain_low, found.plain_high) == pytest.approx(tuple(plain), rel=1e-6, abs=1e-6)


@settings(deadline=None, max_examples=scaled(15))
@given(st.lists(persons, min_size=4, max_size=4))
def test_adjusted_p_by_every_permutation(world):
    numbers = recorded(world)
    groups = sorted(naive_groups(world), key=sorted)
    dealt = [np.array(order) for order in itertools.permutations(numbers.decided)]
    if not groups or np.ptp(numbers.decided) == 0:
        return

    def permute_sums(self, permutations, rng):
        """Every permutation in turn, as sums by occupied cell."""
        order = itertools.permutations(self.values)
        return np.array([np.bincount(self.cells.of, weights=one, minlength=len(self.cells.sizes)) for one in order])

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CellTable, "permute_sums", permute_sums)
        result = search(numbers, permutations=len(dealt), confidence=0.8)
    maxima = [max(abs(standardised(group, values)) for group in groups) for values in dealt]
    for found in result.findings:
        own = abs(standardised(np.flatnonzero(find_members(numbers.people, found.rules)).tolist(), numbers.decided))
        expected = (1 + sum(largest >= own - 1e-5 for largest in maxima)) / (1 + len(maxima))
        assert found.adjusted_p == pytest.approx(expected)


RNG = np.random.default_rng(0)
N = 1500
FRAME = draw_frame(RNG, N, sex="F M", age=(18, 79), region="a b c")
YOUNG_MEN = ((FRAME.sex == "M") & (FRAME.age < 30)).to_numpy()
CLAIM = np.round(np.exp(RNG.normal(6, 0.5, N)), 2)


def premium(frame):
    return 400.0 + 90.0 * ((frame["sex"] == "M") & (frame["age"] < 30)) + 0.1 * frame["age"]


def find(**settings):
    about = {"target": "claim", "protected": ["sex", "age", "region"], "unit": "EUR", "favourable": "lower"}
    return evenhand.find_subgroups(premium, FRAME.assign(claim=CLAIM), **about, **{"permutations": 100} | settings)


def test_a_planted_group_is_found_and_told_in_its_unit():
    result = find(bins=5, judged=("sex == M and age < 30",))
    first = result.findings[0]
    assert find_members(encode_frame(), first.rules)[YOUNG_MEN].mean() > 0.9
    assert 80 < first.gap < 100
    assert first.low < first.gap < first.high
    assert result.number == MeasuredNumber(
        name="claim", unit="EUR", favourable="lower", deviation=result.number.deviation
    )
    assert result.margin == pytest.approx(0.05 * premium(FRAME).std(ddof=0))
    [asked] = result.judged
    assert asked.size == YOUNG_MEN.sum()
    assert asked.gap == pytest.approx(premium(FRAME)[YOUNG_MEN].mean() - premium(FRAME)[~YOUNG_MEN].mean())
    again = SubgroupResult.from_json(result.to_json())
    assert again == result


def encode_frame():
    return ColumnRoles(target="claim", protected=["sex", "age", "region"]).read(FRAME.assign(claim=CLAIM))


def test_other_units_change_no_finding():
    people = encode_frame()
    first = search(RecordedNumbers(people, CLAIM), attributes=("sex", "age"), min_size=30, bins=4)
    second = search(RecordedNumbers(people, 1e-3 * CLAIM + 1e6), attributes=("sex", "age"), min_size=30, bins=4)
    for one, other in zip(first.findings, second.findings, strict=True):
        assert one.words == other.words
        assert one.adjusted_p == pytest.approx(other.adjusted_p, abs=0.05)
        ends = (one.gap, one.low, one.high, one.plain_low, one.plain_high)
        assert (other.gap, other.low, other.high, other.plain_low, other.plain_high) == pytest.approx(
            tuple(1e-3 * end for end in ends), rel=1e-4, abs=1e-6
        )


def test_errors_and_levels_are_those_counted_by_hand():
    residual, error, above = find(measure="residual"), find(measure="absolute-error"), find(above=450)
    own = premium(FRAME).to_numpy() - CLAIM
    people = encode_frame()
    for result, values in ((residual, own), (error, np.abs(own)), (above, premium(FRAME).to_numpy() > 450)):
        assert result.rate == pytest.approx(values.mean())
        for found in result.findings[:20]:
            inside = find_members(people, found.rules)
            assert found.rate == pytest.approx(values[inside].mean())
            assert found.gap == pytest.approx(values[inside].mean() - values[~inside].mean(), abs=1e-9)
    assert (residual.measure, error.measure, above.measure) == ("residual", "absolute-error", "above")
    assert above.findings[0].positives is not None


def test_what_makes_no_sense_is_refused():
    with pytest.raises(OptionError, match="expected a measure or a level"):
        find(measure="residual", above=3)
    with pytest.raises(OptionError, match="expected a margin below 1"):
        find(above=3, margin=20)
    with pytest.raises(OptionError, match="expected one of: mean, residual"):
        find(measure="favourable")
    with pytest.raises(DataError, match="true values are not known"):
        search(recorded([("a", "low", 1), ("b", "low", 2)]), measure="residual")
    with pytest.raises(OptionError, match="there is no entry 'method'"):
        find(method="linear")


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["normal", "lognormal"])
def test_false_findings_and_missed_gaps_are_as_rare_as_they_say(kind):
    """All adjusted intervals of a search hold, 95 of 100 times.

    No difference, however skewed the numbers; and a difference of normal ones with unequal spreads.
    """
    runs, missed = 150, 0
    people, frame = encode_frame().at(np.arange(400)), FRAME.iloc[:400]
    shift = 2.0 * ((frame.sex == "F") & (frame.age < 40)).to_numpy() * (kind == "normal")
    spread = np.where(frame.region == "a", 3.0 if kind == "normal" else 1.0, 1.0)
    for seed in range(runs):
        rng = np.random.default_rng(seed)
        noise = rng.normal(size=400) if kind == "normal" else rng.lognormal(size=400)
        result = search(
            RecordedNumbers(people, shift + spread * noise),
            min_size=30,
            support=0.05,
            bins=4,
            permutations=200,
            attributes=("sex", "age", "region"),
            seed=seed,
        )
        insides = [find_members(people, found.rules) for found in result.findings]
        gaps = [shift[inside].mean() - shift[~inside].mean() for inside in insides]
        missed += any(not one.low <= gap <= one.high for one, gap in zip(result.findings, gaps, strict=True))
    # Three standard errors of a share of 5 % above it.
    assert missed <= runs * 0.05 + 3 * math.sqrt(runs * 0.05 * 0.95)


def test_welch_limits_move_out_on_the_side_of_the_long_tail():
    """20 people with a fourfold spread and 80 others, skewness 6: by hand."""
    size, rest, own, others = 20.0, 80.0, 16.0, 1.0  # people and variances of both sides, whose means are 9 and 10
    squares = [(n - 1) * variance + n * mean**2 for n, mean, variance in ((size, 9, own), (rest, 10, others))]
    inside = np.array([size, 9 * size, squares[0]])[:, None, None]
    outside = np.array([rest, 10 * rest, squares[1]])[:, None, None]
    table = SimpleNamespace(weights=None, counted=False, width=1e3)
    groups, scales = compare_groups(table, inside, inside + outside), (np.ones(1), np.ones(1))
    z = 3.0
    plain = adjusted_intervals(groups, scales, z, np.zeros(1))
    skewed = adjusted_intervals(groups, scales, z, np.full(1, 6.0))
    error = math.sqrt(own / size + others / rest)
    skewness = 6 * (own**1.5 / size**2 - others**1.5 / rest**2) / error**3
    shift = error * (skewness * 19 / 6 + skewness**2 * 5 * 3 * 35 / 72)
    assert skewness > 0
    assert skewed[0] == pytest.approx(plain[0])
    assert skewed[1] == pytest.approx(plain[1] + shift)
    lower = adjusted_intervals(groups, scales, z, np.full(1, -6.0))
    assert (lower[0], lower[1]) == (pytest.approx(plain[0] - shift), pytest.approx(plain[1]))


@pytest.mark.full
def test_equal_means_of_skewed_numbers_with_unequal_spreads_are_rarely_called_different():
    runs, found = scaled(150), 0
    schema = Schema(
        target=SMALL.target,
        attributes=(
            Attribute(name="race", kind="categorical", values=RACE, protected=True),
            Attribute(name="class", kind="categorical", values=CLASS, protected=True),
        ),
    )
    for seed in range(runs):
        rng = np.random.default_rng(seed)
        race = np.array(["a"] * 80 + rng.choice(["b", "c"], 420).tolist())
        people = encode(schema, pd.DataFrame({"race": race, "class": rng.choice(CLASS, 500)}))
        numbers = 10 + np.where(race == "a", 4, 1) * (rng.lognormal(size=500) - math.exp(0.5))
        result = find_subgroups_of_numbers(RecordedNumbers(people, numbers), permutations=200, margin=0.0, seed=seed)
        found += any(one.low > 0 or one.high < 0 for one in result.findings)
    assert found <= runs * 0.06 + 3 * math.sqrt(runs * 0.06 * 0.94)


PLACE = SCHEMA.position("income")


def decide(rows):
    return rows[:, PLACE] >= 4


def weigh(values):
    return PeopleWeights("wt", np.asarray(values, dtype=float) / np.mean(values))


def weighted_search(everybody, weights, **changed):
    changed = {"support": 0.0, "min_size": 10, "margin": 0.0, "permutations": 200, "most": 10_000} | changed
    return find_subgroups(Decider(decide), everybody, weights=weights, **changed)


def test_equal_weights_change_no_figure():
    everybody = people(500, seed=1)
    plain, weighted = weighted_search(everybody, None), weighted_search(everybody, weigh(np.full(500, 2.5)))
    assert (plain.weights, weighted.weights) == (None, "wt")
    assert (weighted.rate, weighted.tested) == pytest.approx((plain.rate, plain.tested))
    ours = {found.words: found for found in plain.findings}
    assert ours.keys() == {found.words for found in weighted.findings}
    for found in weighted.findings:
        other = ours[found.words]
        assert (found.size, found.rest) == (other.size, other.rest)
        assert (found.effective_size, found.effective_rest) == pytest.approx((other.size, other.rest))
        assert (found.rate, found.rest_rate, found.gap) == pytest.approx((other.rate, other.rest_rate, other.gap))
        assert (found.plain_low, found.plain_high) == pytest.approx((other.plain_low, other.plain_high))
        assert abs(found.z) <= abs(other.z) * 1.02  # tails are never taken to be lighter than normal ones
    assert weighted.critical == pytest.approx(plain.critical, abs=0.4)  # drawn another way


def test_four_people_by_hand():
    """Two women of weights 3 and 1, of whom the first is selected; two men of weight 2, of whom one is."""
    frame = pd.DataFrame({"sex": list("FFMM"), "selected": [1, 0, 1, 0], "wt": [3.0, 1.0, 2.0, 2.0]})
    decisions = DecisionRoles("selected", ["sex"], weight="wt", favourable=1).read(frame)
    result = find_subgroups_of_decisions(decisions, support=0.0, min_size=1, margin=0.0, most=9)
    women = next(found for found in result.findings if found.words == "sex F")
    assert (women.rate, women.rest_rate, women.gap) == pytest.approx((0.75, 0.5, 0.25))
    # Kish: (3 + 1)^2 / (9 + 1). Linearised: p q W^2 / sum(w^2 (y - p)^2) is larger. Everybody's residuals by w^2:
    # p = 5/8, ((9 + 4) 9 + (1 + 4) 25) / 64; typical weight 13/5 with the outcome, 5/3 without.
    typical = 0.75 * 13 / 5 + 0.25 * 5 / 3
    informed = (15 / 64) * 8 * typical / ((13 * 9 + 5 * 25) / 64)
    assert women.effective_size == pytest.approx(min(1.6 * informed, 2.0))
    assert (women.size, women.rest, women.positives) == (2, 2, None)
    low, high = difference_interval(
        0.75 * women.effective_size, women.effective_size, 0.5 * women.effective_rest, women.effective_rest
    )
    assert (women.plain_low, women.plain_high) == pytest.approx((low, high))
    assert result.rate == pytest.approx(5 / 8)
    assert result.document().lead


@settings(deadline=None, max_examples=scaled(25))
@given(st.integers(0, 10_000), st.sampled_from([None, "job"]))
def test_rates_by_a_recount_of_every_finding(seed, per):
    everybody, rng = people(200, seed=seed), np.random.default_rng(seed)
    weights = weigh(rng.gamma(0.7, size=200) + 0.01)
    result = weighted_search(everybody, weights, attributes=("sex", "race"), per=per, permutations=40)
    given_it = decide(everybody.individuals)
    for found in result.findings:
        inside = find_members(everybody, found.rules)
        assert (found.size, found.rest) == (inside.sum(), (~inside).sum())
        assert found.effective_size <= found.size + 1e-9
        if per is None:
            sides = [np.average(given_it[side], weights=weights.values[side]) for side in (inside, ~inside)]
            assert (found.rate, found.rest_rate) == pytest.approx(sides)
            assert found.low <= found.gap <= found.high
        else:
            stratum = everybody.individuals[:, SCHEMA.position(per)]
            gaps = [
                np.subtract(
                    *(
                        np.average(given_it[side & part], weights=weights.values[side & part])
                        for side in (inside, ~inside)
                    )
                )
                for part in (stratum == value for value in np.unique(stratum))
            ]
            assert min(gaps) - 1e-9 <= found.gap <= max(gaps) + 1e-9


@settings(deadline=None, max_examples=scaled(25))
@given(st.integers(0, 10_000), st.integers(1, 3))
def test_what_chance_shows_is_the_gap_of_noise_in_standard_deviations(seed, strata):
    """The largest standardised weighted gap of person-level noise, rule set by rule set and person by person."""
    everybody, rng = people(120, seed=seed), np.random.default_rng(seed)
    cuts, codes = cut_attributes(everybody, ("sex", "race"), 5)
    weights, stratum = rng.gamma(0.7, size=120) + 0.01, rng.integers(0, strata, 120)
    values, noise = (rng.random(120) < 0.4).astype(float), rng.normal(size=120)
    family = build_family(cuts)
    table = tabulate_people(codes, values, counted=True, stratum=stratum, weights=weights)
    lot = count_family(family, table, 5)
    groups = compare_groups(table, lot.moments, table.total_moments[:, None])
    scales, skewness = standardise_weighted(table, groups, lot.moments)
    sums, parts = np.bincount(table.cells.of, weights=weights * noise), table.cells.codes[:, -1]
    for part in range(table.strata):
        here = parts == part
        sums[here] -= sums[here].sum() * table.cell_moments[1, here] / table.cell_moments[1, here].sum()
    largest = lot.largest_gap(scale_tails(groups, skewness), scales)(sums[:, None].astype(np.float32))[0]
    z, third = [], []
    for i, chosen in enumerate(lot.chosen):
        inside = np.all([family.rules[a][row][codes[:, a]] for a, row in enumerate(chosen)], axis=0)
        coefficient = np.zeros(120)
        for part in range(strata):
            own, others = inside & (stratum == part), ~inside & (stratum == part)
            if own.any() and others.any():
                amount = groups.weights[i, part]
                coefficient[own] = amount * weights[own] / weights[own].sum()
                coefficient[others] = -amount * weights[others] / weights[others].sum()
        deviation = np.sqrt((coefficient**2).sum())
        z.append((coefficient * noise).sum() / deviation)
        third.append((coefficient**3).sum() / deviation**3)
    assert largest == pytest.approx(np.abs(z).max(), rel=1e-4)
    if strata == 1:
        skewness = skewness[0]
        mean = np.average(values, weights=weights)
        second = np.average((values - mean) ** 2, weights=weights**2)
        ratio = np.average((values - mean) ** 3, weights=weights**3) / second**1.5
        assert skewness == pytest.approx(ratio * np.array(third))


def test_draws_have_the_variance_of_weighted_sums():
    rng = np.random.default_rng(0)
    codes, weights = rng.integers(0, 3, size=(60, 1)), rng.gamma(1.0, size=60)
    table = tabulate_people(codes, np.ones(60), counted=True, weights=weights)
    drawn = table.permute_sums(20_000, rng)
    shares = np.bincount(codes[:, 0], weights=weights) / weights.sum()
    squares = np.bincount(codes[:, 0], weights=weights**2)
    expected = np.diag(squares) - np.outer(shares, squares) - np.outer(squares, shares)
    expected += np.outer(shares, shares) * squares.sum()
    assert np.cov(drawn.T) == pytest.approx(expected, abs=0.05 * expected.max())


def test_published_methods_do_not_take_weights():
    with pytest.raises(OptionError, match="method='sampled'"):
        weighted_search(people(200), weigh(np.arange(1, 201)), method="sampled")


def test_requested_rule_sets_are_weighted_and_large_families_refused():
    everybody, rng = people(3000, seed=3), np.random.default_rng(3)
    weights = weigh(rng.gamma(1.0, size=3000) + 0.01)
    names = ("sex", "age", "income")
    judged = ("income >= 4", "age <= 18")
    result = weighted_search(everybody, weights, attributes=names, judged=judged, permutations=40, min_size=30)
    with pytest.raises(OptionError, match="weights support at most 1,048,576 rule sets, got 24,457,124"):
        weighted_search(everybody, weights, attributes=(*names, "race", "job", "debt"), permutations=40)
    asked, refused = result.judged
    assert asked.gap == pytest.approx(1.0)
    assert asked.found
    assert "effective people" in refused.reason
    assert result.findings[0].gap == pytest.approx(-1.0)


def test_numbers_are_weighted_in_their_own_unit():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"sex": rng.choice(["F", "M"], 900), "region": rng.choice(["n", "s"], 900)})
    frame["premium"] = rng.gamma(2.0, 100.0, 900) + 150 * (frame["sex"] == "F")
    frame["wt"] = rng.gamma(1.0, size=900) + 0.05
    found = evenhand.find_subgroups(
        lambda table: table["premium_shown"],
        frame.assign(premium_shown=frame["premium"]),
        target="premium",
        protected=["sex", "region"],
        sample_weight="wt",
    )
    women = frame["sex"] == "F"
    first = next(one for one in found.findings if one.words == "sex F")
    mean = np.average(frame["premium"][women], weights=frame["wt"][women])
    assert first.rate == pytest.approx(mean)
    assert found.rate == pytest.approx(np.average(frame["premium"], weights=frame["wt"]))
    assert first.found


def draw_sample(rng, kind, n=6000, rate=0.3):
    """Draw a sample of a population without any gap, and its weights, one over the probability of being drawn."""
    codes = np.column_stack(
        [rng.integers(0, 2, n), rng.choice(4, n, p=[0.55, 0.25, 0.12, 0.08]), rng.integers(0, 5, n)]
    )
    y, chance = rng.random(n) < rate, 0.3 * np.exp(-rng.normal(size=n))
    if kind == "by group and outcome":
        chance = np.where(codes[:, 1] >= 2, 0.8, 0.15) * np.where(y, 0.3, 1) * (0.2 + 1.6 * rng.random(n)) / 1.5
    chance = np.clip(chance, 0.005, 1)
    drawn = rng.random(n) < chance
    frame = pd.DataFrame(codes[drawn].astype(str), columns=["sex", "race", "age"])
    return frame.assign(selected=y[drawn].astype(int), wt=1 / chance[drawn])


def share_of_false_findings(kind, runs, seed=0):
    rng, false, missed, intervals = np.random.default_rng(seed), 0, 0, 0
    for _ in range(runs):
        roles = DecisionRoles("selected", ["sex", "race", "age"], weight="wt", favourable=1)
        result = find_subgroups_of_decisions(
            roles.read(draw_sample(rng, kind)), margin=0.0, permutations=400, most=100_000
        )
        false += result.found > 0
        missed += sum(not one.plain_low <= 0 <= one.plain_high for one in result.findings)
        intervals += len(result.findings)
    return false / runs, 1 - missed / intervals


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["by group and outcome", "heavy weights"])
def test_false_findings_are_as_rare_as_it_says(kind):
    """In 500 samples of a population without gaps at most 5 % have any finding, within the noise of so many runs."""
    runs = 500
    false, covered = share_of_false_findings(kind, runs)
    assert false <= 0.05 + 2 * np.sqrt(0.05 * 0.95 / runs)
    assert covered >= 0.94

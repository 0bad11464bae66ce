"""Subgroups of numbers against doing it by hand: rule set by rule set, permutation by permutation."""

import itertools
import math
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from naive import FAR, rule_sets

import evenhand
from evenhand.errors import DataError, OptionError
from evenhand.schema import Attribute, Schema, Target, encode
from evenhand.schema.decisions import RecordedNumbers
from evenhand.schema.people import ColumnRoles
from evenhand.stats.mean import SampleMoments, welch_interval
from evenhand.subgroups import SubgroupResult, find_members, find_subgroups_of_numbers
from evenhand.subgroups.gaps import adjusted_intervals, compare_groups
from evenhand.subgroups.result import MeasuredNumber
from evenhand.subgroups.tabulate import CellTable
from evenhand.view import render_page
from support import scaled

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
FRAME = pd.DataFrame(
    {"sex": RNG.choice(["F", "M"], N), "age": RNG.integers(18, 80, N), "region": RNG.choice([*"abc"], N)}
)
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
    assert "EUR; of everyone else" in result.sentence(first)
    assert result.number == MeasuredNumber(
        name="claim", unit="EUR", favourable="lower", deviation=result.number.deviation
    )
    assert result.margin == pytest.approx(0.05 * premium(FRAME).std(ddof=0))
    [asked] = result.judged
    assert asked.size == YOUNG_MEN.sum()
    assert asked.gap == pytest.approx(premium(FRAME)[YOUNG_MEN].mean() - premium(FRAME)[~YOUNG_MEN].mean())
    again = SubgroupResult.from_json(result.to_json())
    assert again == result
    page = render_page(result.document())
    assert "Orange circles: worse off" in page
    assert "gap, EUR" in page
    assert "score" not in result.to_markdown()


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
    assert "have claim above 450 EUR" in above.sentence(above.findings[0])


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

"""Subgroups of people who count differently: weighted rates and gaps, and what chance alone shows under weights."""

import numpy as np
import pandas as pd
import pytest
from deciders import SCHEMA, Decider, people
from hypothesis import given, settings
from hypothesis import strategies as st

import evenhand
from evenhand.errors import OptionError
from evenhand.groups import DecisionRoles
from evenhand.schema import PeopleWeights
from evenhand.stats import difference_interval
from evenhand.subgroups import find_members, find_subgroups, find_subgroups_of_decisions
from evenhand.subgroups.assessment import count_family
from evenhand.subgroups.family import build_family, cut_attributes
from evenhand.subgroups.gaps import compare_groups, scale_tails, standardise_weighted
from evenhand.subgroups.tabulate import tabulate_people
from support import scaled

PLACE = SCHEMA.position("income")


def decide(rows):
    return rows[:, PLACE] >= 4


def weigh(values):
    return PeopleWeights("wt", np.asarray(values, dtype=float) / np.mean(values))


def search(everybody, weights, **changed):
    changed = {"support": 0.0, "min_size": 10, "margin": 0.0, "permutations": 200, "most": 10_000} | changed
    return find_subgroups(Decider(decide), everybody, weights=weights, **changed)


def test_equal_weights_change_no_figure():
    everybody = people(500, seed=1)
    plain, weighted = search(everybody, None), search(everybody, weigh(np.full(500, 2.5)))
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
    result = search(everybody, weights, attributes=("sex", "race"), per=per, permutations=40)
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
        search(people(200), weigh(np.arange(1, 201)), method="sampled")


def test_requested_rule_sets_are_weighted_and_large_families_refused():
    everybody, rng = people(3000, seed=3), np.random.default_rng(3)
    weights = weigh(rng.gamma(1.0, size=3000) + 0.01)
    names = ("sex", "age", "income")
    judged = ("income >= 4", "age <= 18")
    result = search(everybody, weights, attributes=names, judged=judged, permutations=40, min_size=30)
    with pytest.raises(OptionError, match="weights support at most 1,048,576 rule sets, got 24,457,124"):
        search(everybody, weights, attributes=(*names, "race", "job", "debt"), permutations=40)
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
    assert "weighted by wt" in str(found)


# Simulated samples: who is drawn depends on the group and on the outcome, while the population treats all alike.


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

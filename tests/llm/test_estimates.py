"""What answers say: by hand, against loops over all pairs of pairs, by symmetries, and by simulation."""

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.llm.simulated import SimulatedRespondent
from tests.support import scaled

from evenhand.llm.asking import tabulate
from evenhand.llm.design import CHOICE, FAILED, REFUSED, Design, Interviewer, Outcomes
from evenhand.llm.estimates import AnswerTable, PairedAnswers, _add_up, estimate_flips, estimate_gap, estimate_gap_here
from evenhand.stats import Estimated
from evenhand.stats.level import student_quantile


def ask(chance, sweeps, seed=0, **given):
    respondent = SimulatedRespondent(chance, seed=seed, **given)
    design, interviewer = Design(respondent.templates, respondent.names, seed), Interviewer(respondent)
    trials = [design.sweep(number) for number in range(sweeps)]
    outcomes = [interviewer.ask(one) for one in trials]
    again = interviewer.ask(design.again(trials[0]))
    return tabulate(list(zip(trials, outcomes, strict=True)), again, respondent.names)


def shares(flips):
    """Return the shares by cause."""
    return [flips.asked_once, flips.noise, flips.names, flips.identity]


def test_parts_of_flips_by_hand():
    """Two templates, two pairs of different names: (1, 0), (1, 0) in the first and (1, 1), (0, 1) in the second."""
    pairs = PairedAnswers(
        first=np.array([[1.0, 1.0], [1.0, 0.0]]),
        second=np.array([[0.0, 0.0], [1.0, 1.0]]),
        name_1=np.array([[0, 1], [1, 0]]),
        name_0=np.array([[0, 1], [0, 1]]),
        again=np.array([[1.0, 1.0], [1.0, 1.0]]),
    )
    found = estimate_flips(pairs, 0.95)
    # Identity: d1 d2 = 1 * 1 and 0 * -1. Asked once, across the pairs: 1 and 1 of two, and 0 and 1.
    assert found.identity.value == pytest.approx((1 + 0) / 2)
    assert found.asked_once.value == pytest.approx((1 + 0.5) / 2)
    # Noise: one of four answers changed when it was asked again; half a change each.
    assert found.noise.value == pytest.approx((0.5 + 0) / 2)
    assert found.names.value == pytest.approx(0.75 - 0.25 - 0.5)
    # The gap here is (1 + 1 + 0 - 1) / 4; d and d' differ by 1 in the first template; one change more: 0.5, 0, 0.5.
    here = estimate_gap_here(pairs, 0.95)
    assert here.value == 0.25
    assert (here.high - here.low) / 2 == pytest.approx(
        np.sqrt(1 / 3 / 4) * student(2 * (1 / 3) ** 2 / (np.var([0.5, 0, 0.5], ddof=1) / 3))
    )


def student(freedom):
    return float(student_quantile(0.95, freedom))


@st.composite
def answered(draw):
    """Two to four templates with up to five pairs, some missing, some names twice."""
    shape = (draw(st.integers(2, 4)), draw(st.integers(2, 5)))
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    first, second = (rng.choice([0.0, 1.0, 1.0, np.nan], size=shape) for _ in "12")
    names = [rng.integers(4, size=shape) for _ in "12"]
    return PairedAnswers(first, second, *names, again=rng.choice([0.0, 1.0], size=(shape[0], 2)))


def flips_by_loops(pairs):
    """Return the parts over all pairs of pairs, template by template."""
    parts = []
    for t in range(len(pairs.first)):
        known = np.flatnonzero(~np.isnan(pairs.difference[t]))
        products, different = [], []
        for k, m in permutations(known, 2):
            if pairs.name_1[t, k] != pairs.name_1[t, m] and pairs.name_0[t, k] != pairs.name_0[t, m]:
                products.append(pairs.difference[t, k] * pairs.difference[t, m])
            different.append(pairs.first[t, k] != pairs.second[t, m])
        changed = [pairs.first[t, 0] - pairs.again[t, 0], pairs.second[t, 0] - pairs.again[t, 1]]
        if products and not np.isnan(changed).any():
            parts.append((np.mean(different), sum(c**2 for c in changed) / 2, np.mean(products)))
    return parts


@given(answered(), st.randoms(use_true_random=False))
@settings(max_examples=scaled(200), deadline=None)
def test_flips_are_means_over_pairs_of_pairs(pairs, random):
    found, parts = estimate_flips(pairs, 0.95), flips_by_loops(pairs)
    if len(parts) < 2:
        assert found.identity.kind == "unknown"
        return
    once, noise, identity = np.mean(parts, axis=0)
    assert found.asked_once.value == pytest.approx(once)
    groups = min(max(identity, 0.0), once)
    assert found.identity.value == pytest.approx(groups)
    assert found.noise.value == pytest.approx(min(noise, once - groups))
    assert found.noise.value + found.names.value + found.identity.value == pytest.approx(once)
    for part in shares(found):
        assert 0 <= part.low <= part.value <= part.high
    # Templates in another order, names called otherwise, groups swapped: all the same.
    order = random.sample(range(len(pairs.first)), len(pairs.first))
    renamed = np.array(random.sample(range(9), 4))
    other = PairedAnswers(
        pairs.second[order],
        pairs.first[order],
        renamed[pairs.name_0][order],
        renamed[pairs.name_1][order],
        again=pairs.again[order][:, ::-1],
    )
    for part, swapped in zip(shares(found), shares(estimate_flips(other, 0.95)), strict=True):
        ends = [(share.value, share.low, share.high) for share in (swapped, part)]
        assert ends[0] == pytest.approx(ends[1], abs=1e-9)


def test_swapped_groups_flip_the_sign_of_gaps():
    rng = np.random.default_rng(1)
    table = ask(rng.random((12, 2, 6)), 4)
    one, other = (table.pair(groups) for groups in ((0, 1), (1, 0)))
    gap, swapped = estimate_gap(one), estimate_gap(other)
    low, high = gap.interval(0.95)
    assert swapped.mean == pytest.approx(-gap.mean)
    assert swapped.interval(0.95) == pytest.approx((-high, -low))
    here, turned = estimate_gap_here(one, 0.95), estimate_gap_here(other, 0.95)
    assert (turned.value, turned.low, turned.high) == pytest.approx((-here.value, -here.high, -here.low))


def test_a_single_name_or_template_stands_for_itself():
    """Explicit words are no sample of names: only templates are; a single template says nothing about others."""
    table = ask(np.full((10, 2, 1), 0.5), 3)
    pairs = table.pair((0, 1))
    assert estimate_gap(pairs).variance.clusters == (10,)
    assert estimate_flips(pairs, 0.95).identity.kind == "estimated"
    assert estimate_gap(pairs.select(np.array([4]))) is None
    assert estimate_gap_here(pairs.select(np.array([4])), 0.95).kind == "observed"


def test_clusters_of_templates_widen_the_interval():
    rng = np.random.default_rng(2)
    job = np.arange(30) // 6
    chance = np.full((30, 2, 8), 0.5)
    chance[:, 0] += 0.4 * rng.choice([-1, 1], size=5)[job][:, None]
    table = ask(chance, 5)
    alone, jobs = (estimate_gap(table._replace(cluster=cluster).pair((0, 1))) for cluster in (None, job))
    assert jobs.mean == alone.mean
    assert jobs.variance.clusters == (30, 5, 8, 8)
    assert jobs.half_width(0.95) > 1.3 * alone.half_width(0.95)


def test_refusals_are_compared_and_failures_are_in_no_number():
    kind = np.array([[[REFUSED], [CHOICE]], [[FAILED], [CHOICE]], [[CHOICE], [CHOICE]]])
    value = np.where(kind == CHOICE, 1.0, np.nan)
    again = Outcomes(value[:, :, 0], kind[:, :, 0])
    table = AnswerTable(value, kind, np.zeros((3, 2, 1), dtype=int), (1, 1), again=again)
    refused = table.pair((0, 1), refused=True)
    np.testing.assert_array_equal(refused.difference[:, 0], [1.0, np.nan, 0.0])
    assert refused.again is None


def test_probabilities_need_no_second_asking():
    """Chances .6 and .2 in every template: asked once .6 * .8 + .4 * .2; noise .24 + .16; the rest is identity."""
    shape = (6, 3)
    names = np.tile(np.arange(3), (6, 1))
    found = estimate_flips(PairedAnswers(np.full(shape, 0.6), np.full(shape, 0.2), names, names), 0.95)
    values = [part.value for part in shares(found)]
    assert values == pytest.approx([0.56, 0.4, 0.0, 0.16])
    here = estimate_gap_here(PairedAnswers(np.full(shape, 0.6), np.full(shape, 0.2), names, names), 0.95)
    assert (here.low, here.high) == pytest.approx((0.4, 0.4))


def test_a_coin_is_noise_and_nothing_else():
    """Yes with 20 %, whoever it is: two people asked once differ in 32 % of pairs, and none of it is identity."""
    rows = [estimate_flips(ask(np.full((40, 2, 10), 0.2), 6, seed).pair((0, 1)), 0.95) for seed in range(30)]
    means = np.mean([[part.value for part in shares(row)] for row in rows], axis=0)
    assert means[0] == pytest.approx(0.32, abs=0.01)
    assert means[1] == pytest.approx(0.32, abs=0.03)
    assert means[3] < 0.01
    assert np.mean([row.identity.low > 0 for row in rows]) <= 0.05


def test_the_interval_of_the_gap_holds_the_truth_where_names_have_effects():
    """Names differ by themselves: templates as the only clusters miss twice as often as ours and more."""
    ours = alone = 0
    for seed in range(100):
        rng = np.random.default_rng([5, seed])
        chance = np.clip(0.5 + 0.3 * rng.normal(size=(1, 2, 12)) + 0.1 * rng.normal(size=(24, 2, 1)), 0, 1)
        pairs = ask(chance, 6, seed).pair((0, 1))
        ours += estimate_gap(pairs).interval(0.95)[0] <= 0 <= estimate_gap(pairs).interval(0.95)[1]
        bare = estimate_gap(pairs._replace(sampled=(False, False)))
        alone += bare.interval(0.95)[0] <= 0 <= bare.interval(0.95)[1]
    assert ours >= 90
    assert alone < 80


@given(st.integers(0, 100), st.integers(0, 100), st.integers(0, 100))
def test_parts_of_flips_add_up_and_none_is_below_zero(whole, noise, identity):
    """Rounding included: 0.47 - 0.37 - 0.1 is below 0 in floating point."""
    rest = {"low": 0.0, "high": 1.0, "confidence": 0.95, "n": 100, "population": "all", "method": "none"}
    terms = [Estimated(value=part / 100, **rest) for part in (whole, noise, 0, identity)]
    _, *parts = shares(_add_up(*terms))
    assert sum(part.value for part in parts) == pytest.approx(whole / 100)
    assert all(part.value >= 0 for part in parts)

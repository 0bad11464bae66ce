"""Designs of language audits, their estimates, when they stop, and findings that are confirmed."""

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.llm.simulated import SimulatedRespondent
from tests.support import scaled

from evenhand.llm import LanguageModelConfig
from evenhand.llm.asking import AskingPlan, ask_sweeps, tabulate
from evenhand.llm.design import CHOICE, FAILED, REFUSED, Design, Interviewer, Outcomes
from evenhand.llm.estimates import AnswerTable, PairedAnswers, _add_up, estimate_flips, estimate_gap, estimate_gap_here
from evenhand.llm.findings import Suspect, confirm, suspect_templates, template_trials
from evenhand.llm.stopping import DecisionRule, PrecisionRule, project_variance
from evenhand.stats import Estimated, bonferroni
from evenhand.stats.level import student_quantile
from evenhand.stats.multiway import MultiwayMean, MultiwayVariance


@given(st.integers(1, 30), st.tuples(st.integers(1, 12), st.integers(1, 12), st.integers(1, 12)), st.integers(0, 99))
@settings(max_examples=scaled(60), deadline=None)
def test_names_are_used_equally_often_and_none_twice_before_all(templates, names, seed):
    design = Design(templates, names, seed)
    met = np.stack([design.names_in(sweep) for sweep in range(2 * max(names))], axis=2)
    for group, count in enumerate(names):
        for sweeps in range(1, met.shape[2] + 1):
            uses = np.bincount(met[:, group, :sweeps].ravel(), minlength=count)
            # Each cycle of N sweeps uses every name as often as there are templates.
            assert uses.max() - uses.min() <= 1
        for template in range(templates):
            for start in range(0, met.shape[2] - count + 1, count):
                assert sorted(met[template, group, start : start + count]) == list(range(count))


def test_both_sides_of_a_trial_have_one_seed_and_repeats_have_others():
    design = Design(20, (5, 7), 1)
    respondent = SimulatedRespondent(np.full((20, 2, 7), 0.5), (5, 7))
    interviewer = Interviewer(respondent)
    first, second = design.sweep(0), design.sweep(1)
    for trials in (first, design.again(first), second):
        interviewer.ask(trials)
    one, again, other = respondent.batches
    assert interviewer.calls == 120
    assert (one.seed.reshape(20, 2)[:, 0] == one.seed.reshape(20, 2)[:, 1]).all()
    assert (again.name == one.name).all()
    assert (again.seed != one.seed).all()
    assert (again.draw == 1).all()
    assert not other.draw.any()
    assert not one.draw.any()
    assert (design.sweep(0).name == first.name).all()
    assert (Design(20, (5, 7), 2).sweep(0).seed != first.seed).any()


def test_every_question_is_a_draw_of_its_own():
    """Three names and ten sweeps: the same question comes again, and its draws count up from 0."""
    respondent = SimulatedRespondent(np.full((4, 2, 3), 0.5))
    interviewer, design = Interviewer(respondent), Design(4, (3, 3), 0)
    for sweep in range(10):
        interviewer.ask(design.sweep(sweep))
    draws = {}
    for batch in respondent.batches:
        for key in zip(batch.template, batch.group[:, 0], batch.name[:, 0], batch.draw, strict=True):
            draws.setdefault(tuple(map(int, key[:3])), []).append(int(key[3]))
    assert all(found == list(range(len(found))) for found in draws.values())


def test_what_is_no_choice_is_unfavourable_or_left_out():
    def kinds(batch):
        return np.where(batch.template == 0, REFUSED, np.where(batch.template == 1, FAILED, 0))

    respondent = SimulatedRespondent(np.ones((3, 2, 2)), kinds=kinds)
    trials = Design(3, (2, 2), 0).sweep(0)
    found = Interviewer(respondent).ask(trials)
    np.testing.assert_array_equal(found.value, [[0, 0], [np.nan, np.nan], [1, 1]])
    np.testing.assert_array_equal(found.kind[:, 0], [REFUSED, FAILED, 0])
    left_out = Interviewer(respondent, excluded=True).ask(trials)
    np.testing.assert_array_equal(left_out.value, [[np.nan, np.nan], [np.nan, np.nan], [1, 1]])


@pytest.mark.parametrize("groups", [2, 3])
def test_rankings_cancel_what_records_and_places_are_worth(groups):
    """Whatever records and places are worth, persons of equal worth have the same mean rank; a better one a better."""
    chance = np.zeros((6, groups, 4))
    respondent = SimulatedRespondent(chance, ranks=True, records=10.0, places=1.0)
    found = Interviewer(respondent).ask(Design(6, (4,) * groups, 3).sweep(0))
    assert found.value == pytest.approx(np.full((6, groups), 0.5))
    batch = respondent.batches[0]
    for template in range(6):
        mine = batch.template == template
        for group in range(groups):
            # Each group stands at every place once, and has every record once.
            assert sorted(np.nonzero(batch.group[mine] == group)[1]) == list(range(groups))
            assert sorted(batch.record[mine][batch.group[mine] == group]) == list(range(groups))
            assert len(set(batch.name[mine][batch.group[mine] == group])) == 1
    respondent.chance = chance + np.arange(groups)[None, :, None] * 100
    found = Interviewer(respondent).ask(Design(6, (4,) * groups, 3).sweep(1))
    assert found.value == pytest.approx(np.tile(np.linspace(0, 1, groups), (6, 1)))


def table_of(value, name=None):
    zeros = np.zeros(value.shape, dtype=int)
    return AnswerTable(value, zeros, zeros if name is None else name, (2,) * value.shape[1])


def test_the_widest_templates_by_hand():
    value = np.zeros((3, 3, 2))
    value[0, 0] = 1, 1  # group 0 above group 1 by 1
    value[1, 2] = 1, np.nan  # group 2 above group 1 by 1, of one pair
    value[2, 1] = 1, 0  # group 1 above both by 1/2
    found = suspect_templates(table_of(value), [(0, 1), (2, 1)], 4)
    assert found == [Suspect((0, 1), 0), Suspect((2, 1), 1), Suspect((0, 1), 2), Suspect((2, 1), 2)]
    assert suspect_templates(table_of(np.ones((3, 2, 2))), [(0, 1)], 4) == []


def test_fresh_pairs_are_fresh_and_balanced():
    design = Design(9, (6, 4), 2)
    trials = template_trials([Suspect((1, 0), 3)], design, 12, sweep=5, ranks=False)
    assert (trials.template == 3).all()
    assert trials.group.tolist() == [[1, 0]] * 12
    # After five sweeps the sixth name of group 0 comes next, then all of the next cycle.
    assert trials.name[0, 1] == design.names_in(5)[3, 0]
    assert sorted(trials.name[1:7, 1]) == list(range(6))
    assert sorted(trials.name[3:7, 0]) == list(range(4))


@pytest.mark.parametrize("ranks", [False, True])
def test_planted_templates_are_confirmed(ranks):
    chance = np.full((12, 2, 6), 0.5)
    if not ranks:
        chance[4, 0], chance[4, 1] = 0.9, 0.1
    else:
        chance[4, 0] = 0.9
    respondent = SimulatedRespondent(chance, ranks=ranks, places=0.1)
    design, interviewer = Design(12, (6, 6), 1), Interviewer(respondent)
    suspects = [Suspect((0, 1), 4), Suspect((0, 1), 7)]
    found = confirm(suspects, design, 40, 6, interviewer)
    clear = {one.suspect for one in found if one.p <= 0.05}
    assert clear == {Suspect((0, 1), 4)}
    assert [one.p for one in found] == sorted(one.p for one in found)
    best = next(one for one in found if one.suspect == Suspect((0, 1), 4))
    assert best.better[0] > best.better[1]
    assert len(best.outcomes.value) == 40
    assert confirm([], design, 40, 6, interviewer) == []


def test_a_ranking_of_three_groups_compares_the_two_that_are_suspected():
    chance = np.zeros((4, 3, 5)) + np.array([0.0, 0.5, 1.0])[None, :, None]
    respondent = SimulatedRespondent(chance, ranks=True)
    design = Design(4, (5, 5, 5), 1)
    suspects = [Suspect((2, 0), 1)]
    (found,) = confirm(suspects, design, 10, 3, Interviewer(respondent))
    assert found.better == (10, 0)
    assert found.outcomes.value.tolist() == [[1.0, 0.0]] * 10


def test_no_template_is_confirmed_without_fresh_questions():
    chance = np.full((8, 2, 6), 0.5)
    chance[3, 1], chance[3, 0] = 1.0, 0.0
    config = LanguageModelConfig(half_width=0.001, calls=8 * 2 * 13, seed=0, findings=3)
    answers = ask_sweeps(SimulatedRespondent(chance), AskingPlan([(0, 1)]), config)
    assert not answers.affordable
    assert answers.sweeps >= 9
    assert answers.templates == []


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
    first, second = np.array([[1.0, 1.0], [1.0, 0.0]]), np.array([[0.0, 0.0], [1.0, 1.0]])
    names = {"name_1": np.array([[0, 1], [1, 0]]), "name_0": np.array([[0, 1], [0, 1]])}
    pairs = PairedAnswers(first=first, second=second, again=np.array([[1.0, 1.0], [1.0, 1.0]]), **names)
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
        np.sqrt(1 / 3 / 4) * float(student_quantile(0.95, 2 * (1 / 3) ** 2 / (np.var([0.5, 0, 0.5], ddof=1) / 3)))
    )


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
    names = renamed[pairs.name_0][order], renamed[pairs.name_1][order]
    other = PairedAnswers(pairs.second[order], pairs.first[order], *names, again=pairs.again[order][:, ::-1])
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


def gap(mean, own, shared=(0.0, 0.0), *, n=100, floor=0.0):
    return MultiwayMean(mean, n, MultiwayVariance(own, shared, 1e6, (70, 40, 40)), floor)


def test_precision_waits_for_every_interval_from_the_second_sweep_on():
    rule = PrecisionRule(0.05, 0.95)
    narrow, wide = gap(0.3, 0.02**2), gap(0.3, 0.04**2)
    assert rule.stop([narrow], 1, 20) is None
    assert rule.stop([narrow], 2, 20) == "half-width"
    assert rule.stop([narrow, wide], 2, 20) is None
    # Two gaps: each at 97.5 %, so 0.0225 standard errors are too wide where 0.02 are not.
    assert rule.stop([gap(0, 0.0225**2)] * 2, 2, 20) is None
    assert rule.levels([narrow, wide], 2, 20) == (bonferroni(0.95, 2),) * 2
    assert rule.looks == 3


def test_more_questions_do_not_help_where_names_are_few():
    rule = PrecisionRule(0.05, 0.95)
    assert rule.stop([gap(0.0, 0.0001, (0.0, 0.0011))], 3, 20) == "names"
    assert rule.stop([gap(0.0, 0.0002, (0.0, 0.0010))], 3, 20) is None


def test_a_decision_is_larger_or_smaller_than_the_threshold():
    for mean, threshold, stop in [
        (0.3, 0.02, "decided"),
        (-0.3, 0.02, "decided"),
        (0.0, 0.1, "decided"),
        (0.05, 0.05, None),
        (0.0, 0.0, None),
    ]:
        assert DecisionRule(threshold, 0.95, 1).stop([gap(mean, 0.0001)], 20, 20) == stop
    # Between the looks nothing is looked at, and the end is always a look.
    rule = DecisionRule(0.0, 0.95, 1)
    assert rule.stop([gap(0.9, 0.0001)], 4, 20) is None
    assert rule.looks == 0
    assert rule.stop([gap(0.9, 0.0001)], 17, 17) == "decided"
    assert rule.looks == 1


def test_what_is_spent_follows_the_projected_variance():
    """After 5 of 20 sweeps .0008 of the answers and .0001 of names: .0003 in the end, so that a third is there."""
    now = gap(0.0, 0.0008, (0.0, 0.0001))
    assert project_variance(now, 5, 20) == pytest.approx(0.0003)
    rule = DecisionRule(0.0, 0.95, 1)
    (level,) = rule.levels([now], 5, 20)
    assert level == pytest.approx(1 - 0.05 / 9)
    assert rule.levels([now], 5, 20) == (level,)
    (final,) = rule.levels([gap(0.0, 0.0002, (0.0, 0.0001))], 20, 20)
    assert 0.95 < final < level


def test_looking_again_and_again_seldom_finds_what_is_not_there():
    """A model without bias, 150 audits of 12 sweeps: looked at with ordinary intervals one claims bias too often."""
    rng = np.random.default_rng(7)
    spent = naive = 0
    for _ in range(150):
        answers = rng.normal(size=12).cumsum() / np.arange(1, 13) * 0.1
        names = rng.normal() * 0.01
        rule, found, looked = DecisionRule(0.0, 0.95, 1), False, False
        for sweep in (1, 2, 3, 5, 8, 12):
            now = gap(answers[sweep - 1] + names, 0.01 / sweep, (0.0, 0.0001))
            found |= rule.stop([now], sweep, 12) == "decided"
            looked |= abs(now.mean) > now.half_width(0.95)
        spent += found
        naive += looked
    assert spent <= 14  # 5 % of 150 are 7.5
    assert naive >= 15

"""What alternatives are made of: weights, gaps, linear programs, the choice, by hand and against the slow way."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenhand.mitigation.alternatives.choice import GAIN_ERRORS, SURENESS, find_baseline, find_frontier, rank_candidates
from evenhand.mitigation.alternatives.gaps import CONDITIONS, RateGap
from evenhand.mitigation.alternatives.groups import RANGES, ProtectedGroups
from evenhand.mitigation.alternatives.intervals import compare_frontier
from evenhand.mitigation.alternatives.proposals import LEVELS, tilt_path
from evenhand.mitigation.alternatives.rules import RuleInputs
from evenhand.mitigation.alternatives.sources import assign_folds, reweighing_weights
from evenhand.schema import encode
from support import scaled, small_schema


def people(seed, n=300, groups=2):
    """Scores, true labels that follow them, and groups whose scores differ."""
    rng = np.random.default_rng(seed)
    group = rng.integers(0, groups, n)
    score = np.clip(rng.beta(2, 2, n) + 0.15 * group / groups, 0, 1)
    return score, rng.random(n) < score, group


def evidence(score, group=None, membership=None):
    return RuleInputs(score, score > 0.5, group, membership)


def test_weights_by_hand():
    # Six people: group 0 has one of three favourable, group 1 two of three; P(g) P(y) / P(g, y) is 1/4 over 1/6 or 1/3.
    group, favourable = np.array([0, 0, 0, 1, 1, 1]), np.array([1, 0, 0, 1, 1, 0], dtype=bool)
    assert reweighing_weights(group, favourable).tolist() == pytest.approx([1.5, 0.75, 0.75, 0.75, 0.75, 1.5])
    assert reweighing_weights(group, favourable, 0).tolist() == [1] * 6
    assert reweighing_weights(group, favourable, 2).tolist() == pytest.approx(
        [2.25, 0.5625, 0.5625, 0.5625, 0.5625, 2.25]
    )


@given(st.integers(0, 10_000))
@settings(max_examples=scaled(50))
def test_under_the_weights_label_and_group_are_independent(seed):
    _, favourable, group = people(seed, n=80, groups=3)
    weights = reweighing_weights(group, favourable)
    rates = [
        np.average(favourable[group == one], weights=weights[group == one])
        for one in np.unique(group)
        if 0 < favourable[group == one].mean() < 1
    ]
    assert np.ptp(rates) < 1e-12


def test_weights_are_those_of_aif360():
    pytest.importorskip("aif360", reason="needs aif360, of the dependency group frameworks")
    from aif360.algorithms.preprocessing import Reweighing
    from aif360.datasets import BinaryLabelDataset

    _, favourable, group = people(3)
    frame = pd.DataFrame({"group": group.astype(float), "label": favourable.astype(float)})
    data = BinaryLabelDataset(df=frame, label_names=["label"], protected_attribute_names=["group"])
    theirs = Reweighing([{"group": 0.0}], [{"group": 1.0}]).fit_transform(data).instance_weights
    assert np.abs(reweighing_weights(group, favourable) - theirs).max() < 1e-12


def slow_gap(name, decisions, group, favourable):
    """A gap the plain way, group by group."""
    found = []
    for condition in CONDITIONS[name]:
        among = np.ones_like(favourable) if condition is None else favourable == condition
        rates = [decisions[(group == one) & among].mean() for one in np.unique(group) if ((group == one) & among).any()]
        if name == "ratio":
            found.append(1 - min(rates) / max(rates) if max(rates) > 0 else 0.0)
        else:
            found.append(max(rates) - min(rates))
    return max(found)


@given(st.integers(0, 10_000), st.sampled_from(sorted(CONDITIONS)), st.integers(2, 4))
@settings(max_examples=scaled(100))
def test_a_gap_is_what_counting_group_by_group_gives(seed, name, groups):
    score, favourable, group = people(seed, n=60, groups=groups)
    gap = RateGap.of(name, group, favourable, groups)
    decisions = (score > 0.6).astype(float)
    assert gap.sizes(decisions) == pytest.approx(slow_gap(name, decisions, group, favourable))
    assert gap.sizes(np.stack([decisions, 1 - decisions])).shape == (2,)


@pytest.mark.parametrize("name", sorted(CONDITIONS))
def test_influence_gives_the_bootstrap_standard_error(name):
    score, favourable, group = people(5, n=2000)
    gap = RateGap.of(name, group, favourable, 2)
    decisions = (score > 0.5).astype(float)
    pair = int(gap.differences(decisions).argmax())
    claimed = np.sqrt((gap.influence(decisions, pair) ** 2).sum())
    rng, drawn = np.random.default_rng(0), []
    for _ in range(300):
        rows = rng.integers(0, 2000, 2000)
        again = RateGap.of(name, group[rows], favourable[rows], 2)
        drawn.append(again.differences(decisions[rows])[pair])
    assert claimed == pytest.approx(np.std(drawn), rel=0.15)


@given(st.integers(0, 10_000))
@settings(max_examples=scaled(10), deadline=None)
def test_a_tilt_of_two_groups_is_the_best_shift_of_all(seed):
    """Prices from the linear program, beside a scan of the only number that two groups leave."""
    score, _, group = people(seed, n=400)
    membership = np.clip(np.stack([1 - 0.8 * group - 0.1, 0.8 * group + 0.1], axis=1), 0, 1)
    shares = np.bincount(group)[None] / len(group)
    known = evidence(score, membership=membership)
    features = membership / shares[0]

    def value(accepted):
        rates = features.T @ accepted / len(group)
        return float(np.ptp(rates)), float(((2 * score - 1) * accepted).mean())

    scanned = [value(score - 0.5 > t * (features[:, 1] - features[:, 0])) for t in np.linspace(-0.6, 0.6, 2401)]
    own = value(score > 0.5)[0]
    path = list(tilt_path(known, (None,), shares, uses_group=False, rng=np.random.default_rng(0)))
    for level, (_, rule) in zip(LEVELS, path, strict=False):
        assert rule.prices.sum() == pytest.approx(0)
        reached, gain = value(rule.accepts(known))
        assert reached <= level * own + 0.03
        assert gain >= max((worth for size, worth in scanned if size <= reached + 1e-9), default=-1.0) - 1e-3


def test_several_groups_are_tilted_together():
    score, _, group = people(2, n=3000, groups=4)
    shares = np.bincount(group)[None] / len(group)
    gap = RateGap.of("gap", group, score > 0, 4)
    path = list(tilt_path(evidence(score, group), (None,), shares, uses_group=True, rng=np.random.default_rng(0)))
    sizes = [float(gap.sizes(rule.accepts(evidence(score, group)).astype(float))) for _, rule in path[: len(LEVELS)]]
    assert sizes[-1] < 0.04 < gap.sizes((score > 0.5).astype(float))
    assert sizes == sorted(sizes, reverse=True)


def test_the_rule_by_hand():
    # Four hundred people, half in each group; the given model accepts 100 of the first group and 20 of the second.
    group, favourable = np.repeat([0, 1], 200), np.tile([True, False], 200)
    given_ = np.zeros(400, dtype=bool)
    given_[[*range(0, 200, 2), *range(200, 240, 2)]] = True
    dear = given_.copy()
    dear[240:400:2], dear[241:400:2] = True, True  # the gap is gone, half of what is added is wrong
    good = given_.copy()
    good[240:280:2] = True  # twenty more of the second group, all rightly
    gap = RateGap.of("gap", group, favourable, 2)
    stacked = np.stack([given_, dear, good])
    known = np.zeros(3, dtype=np.int64)
    standing = rank_candidates(
        stacked, favourable, gap, baselines=known, allowed=0.005, new_people=100, parameters=[0, 1, 1]
    )
    assert standing.gaps.tolist() == pytest.approx([0.4, 0.4, 0.3])
    assert standing.losses.tolist() == pytest.approx([0.0, 0.0, -0.05])
    changed = np.sqrt((0.05 - 0.05**2) / 400)
    # Of the gain of 5 points what exceeds two standard errors counts: 2.8 points, and the margin is 3.1.
    assert standing.margins[2] == pytest.approx(SURENESS * changed * np.sqrt(1 + 4) + GAIN_ERRORS * changed)
    assert standing.losses[2] + standing.margins[2] == pytest.approx(0.0030, abs=5e-5)
    assert standing.feasible.tolist() == [True, False, True]
    assert standing.chosen == 2
    nothing = rank_candidates(
        stacked[:2], favourable, gap, baselines=known[:2], allowed=0.0, new_people=100, parameters=[0, 1]
    )
    assert nothing.chosen == 0
    frontier = find_frontier(np.array([0.0, 0.1, 0.1, -0.1]), np.array([0.3, 0.2, 0.2, 0.4]))
    assert frontier.tolist() == [True, True, False, True]


def test_losses_are_counted_from_the_model_fitted_again_where_the_given_one_knew_the_people():
    rng = np.random.default_rng(0)
    knew, fitted = np.ones(1000, dtype=bool), rng.random(1000) < 0.9
    assert find_baseline(np.stack([knew, fitted]), 1) == 1
    assert find_baseline(np.stack([fitted, np.roll(fitted, 1)]), 1) == 0
    assert find_baseline(np.stack([knew]), None) == 0


def test_folds_share_out_every_label_of_every_group():
    _, favourable, group = people(6, n=900, groups=3)
    fold = assign_folds(group, favourable, seed=1)
    for cell in range(6):
        assert np.ptp(np.bincount(fold[2 * group + favourable == cell], minlength=3)) <= 1


def test_an_interval_of_one_change_is_the_paired_one():
    score, favourable, group = people(7, n=20_000)
    gap = RateGap.of("gap", group, favourable, 2)
    before, after = score > 0.5, score > np.array([0.49, 0.51])[group]
    found = compare_frontier(
        np.stack([before, after]),
        favourable,
        gap,
        [1],
        [gap.widest(one.astype(float)) for one in (before, after)],
        confidence=0.95,
        seed=0,
    )
    change = found.gap[1]
    assert change.low < change.value < change.high < 0
    assert 1.96 <= found.critical < 2.6
    gained = (after == favourable).astype(float) - (before == favourable)
    error = gained.std() / np.sqrt(20_000)
    assert found.accuracy[1].high - found.accuracy[1].low == pytest.approx(2 * found.critical * error)


@pytest.mark.parametrize("n", [pytest.param(250, marks=pytest.mark.slow), pytest.param(2000, marks=pytest.mark.slow)])
def test_where_nothing_changes_better_is_rarely_said(n):
    """Twenty candidates that each decide a few other people by chance: none of them is better."""
    false = 0
    for run in range(400):
        rng = np.random.default_rng([n, run])
        score, favourable, group = rng.random(n), rng.random(n) < 0.4, (rng.random(n) < 0.3).astype(np.int64)
        base = score > 0.6
        made = np.stack([base, *(base ^ (rng.random(n) < 0.08) for _ in range(20))])
        # The true rates of all groups are the same, before and after; which pair is wider was seen elsewhere.
        gap = RateGap.of("gap", group, favourable, 2)
        found = compare_frontier(made, favourable, gap, range(1, 21), [(1, 0)] * 21, confidence=0.95, seed=run)
        false += any(one.high < 0 for one in found.gap.values())
    assert false / 400 <= 0.025 + 2 * np.sqrt(0.025 * 0.975 / 400)


def toy(n=4000):
    """Two attributes that are protected, and a number."""
    schema = small_schema(target="paid", sex="f m", age=(18, 90), income=(0.0, 1.0)).with_protected(["sex", "age"])
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "sex": rng.choice(["f", "m"], n),
            "age": rng.integers(18, 91, n),
            "income": rng.random(n),
            "paid": rng.choice(["no", "yes"], n),
        }
    )
    return encode(schema, frame)


def test_groups_are_joint_values_and_ranges_of_numbers():
    people = toy()
    groups = ProtectedGroups.of(people)
    codes = groups(people.individuals)
    assert len(np.unique(codes)) == 2 * RANGES
    sex, age = people.individuals[:, 0], people.individuals[:, 1]
    for code in np.unique(codes):
        members = codes == code
        assert len(set(sex[members])) == 1
        # Nobody of another group of this sex is between two of this one.
        others = age[(~members) & (sex == sex[members][0])]
        assert not ((others > age[members].min()) & (others < age[members].max())).any()


def test_small_groups_are_pooled_and_each_person_has_a_group():
    people = toy(400)
    men = people.at(np.flatnonzero(people.individuals[:, 0] == 1))
    groups = ProtectedGroups.of(men)
    # Women were never seen: they join a group that exists.
    assert set(groups(people.individuals)) <= set(groups(men.individuals))

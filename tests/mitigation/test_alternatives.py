"""Less discriminatory alternatives: the search and its rules."""

import json

import joblib
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from evenhand.errors import DataError, OptionError
from evenhand.mitigation import AlternativesConfig, AlternativesResult, find_alternatives
from evenhand.mitigation.alternatives.choice import GAIN_ERRORS, SURENESS, find_baseline, find_frontier, rank_candidates
from evenhand.mitigation.alternatives.gaps import CONDITIONS, RateGap
from evenhand.mitigation.alternatives.groups import RANGES, ProtectedGroups
from evenhand.mitigation.alternatives.intervals import compare_frontier
from evenhand.mitigation.alternatives.proposals import LEVELS, tilt_path
from evenhand.mitigation.alternatives.rules import RuleInputs
from evenhand.mitigation.alternatives.sources import assign_folds, reweighing_weights
from evenhand.models import Subject, load_model
from evenhand.schema import encode
from evenhand.view.charts.mitigation import draw_alternatives
from support import draw_frame, scaled, small_schema


def applicants(n=1500, seed=0):
    """People whose town tells much of their sex, and labels that depend on grade and town."""
    rng = np.random.default_rng(seed)
    place = rng.integers(0, 2, n)
    town = np.where(rng.random(n) < 0.7, place, rng.integers(0, 3, n))
    places = {"town": np.array(["Ely", "Rye", "Ware"])[town], "sex": np.array(["female", "male"])[place]}
    frame = pd.DataFrame({"grade": rng.integers(0, 21, n), **places})
    points = frame["grade"] + 4 * (town == 1) + 2 * place + rng.normal(0, 3, n)
    frame["hired"] = np.where(points > 12, "yes", "no")
    return encode(described(), frame)


def described(labels="no yes"):
    return small_schema(labels, favourable="yes", grade=(0, 20), town="Ely Rye Ware", sex="female male *")


def trained(people, columns=("grade", "town", "sex"), model=None):
    words = [one for one in columns if one != "grade"]
    encoder = make_column_transformer((OneHotEncoder(), words), remainder="passthrough")
    frame = people.frame
    return make_pipeline(encoder, model or LogisticRegression()).fit(frame[list(columns)], frame["hired"])


@pytest.fixture(scope="module")
def people():
    return applicants()


@pytest.fixture(scope="module")
def blind(people):
    """A search whose candidates are not told the sex, over a model that is."""
    subject = Subject(trained(people), people, data_name="applicants")
    return find_alternatives(
        subject, against="gap", methods=("reweigh", "tilt"), decide_without=("sex",), accuracy_loss=0.05
    )


def test_a_search_from_start_to_end(blind, people):
    result = blind.result
    given, chosen = result.candidates[0], result.candidates[result.chosen]
    assert given.method == "given"
    assert chosen.verdict == "better"
    assert chosen.test.gap < given.test.gap - 0.1
    assert chosen.loss + chosen.margin <= 0.05
    assert given.test.accuracy - chosen.test.accuracy <= 0.05
    assert result.validation + result.test == len(people)
    methods = {"given", "untold", "refit", "reweigh", "tilt", "reweigh x tilt"}
    assert {one.method for one in result.candidates} == methods
    assert all(not one.asks for one in result.candidates)
    assert "excluded because it uses the group: thresholds" in result.space
    assert [one.number for one in result.candidates] == list(range(len(blind.models)))
    assert result.groups == ("female", "male")
    assert AlternativesResult.from_json(result.to_json()) == result
    assert len(result.to_frame()) == len(result.candidates)
    compared = [one for one in result.candidates if one.gap_change is not None]
    assert {one.number for one in compared} == ({one.number for one in result.frontier} | {result.picked}) - {0}
    assert result.compared == (given, *compared)
    drawn = json.dumps(draw_alternatives(result))
    assert f"{chosen.number}, chosen" in drawn


def test_permuting_what_a_model_is_not_told_changes_no_answer(blind, people, tmp_path):
    rng = np.random.default_rng(1)
    rows = people.individuals[:400]
    swapped = rows.copy()
    swapped[:, 2] = rng.permutation(swapped[:, 2])
    for one, model in list(zip(blind.result.candidates, blind.models, strict=True))[1::7]:
        assert (model.scores(swapped) == model.scores(rows)).all(), one.recipe
        assert (model.predict(swapped) == model.predict(rows)).all()
    assert (blind.models[0].predict(swapped) != blind.models[0].predict(rows)).any()


def test_the_file_answers_like_the_model_and_does_without_the_column(blind, people, tmp_path):
    (path,) = blind.save(tmp_path / "new.joblib")
    read = joblib.load(path)
    wanted = np.array(["no", "yes"])[blind.models[blind.result.chosen].predict(people.individuals)]
    assert (read.predict(people.frame) == wanted).all()
    assert (read.predict(people.frame.drop(columns="sex")) == wanted).all()
    assert list(read.feature_names_in_) == ["grade", "town"]
    assert read.predict_proba(people.frame).shape == (len(people), 2)
    again = load_model(path, people.schema, like=people.frame, trust=True)
    assert (again.predict(people.individuals) == blind.models[blind.result.chosen].predict(people.individuals)).all()
    assert b"Ware" in path.read_bytes()  # the schema's words; the people's rows are not there
    assert path.stat().st_size < 40_000


@pytest.mark.parametrize("against", ["ratio", "equal-opportunity", "equalized-odds"])
def test_other_gaps_are_reduced_as_well(against):
    people = applicants(6000)
    done = find_alternatives(
        Subject(trained(people), people), against=against, methods=("tilt", "thresholds"), accuracy_loss=0.1
    )
    given, *_ = done.result.candidates
    least = min(done.result.candidates, key=lambda one: one.validation.gap)
    assert least.validation.gap < 0.75 * given.validation.gap
    assert least.test.gap < given.test.gap
    assert least.asks == ("sex",)
    told = {one.method for one in done.result.candidates if one.asks}
    assert told == {"thresholds"}


def test_a_model_of_its_kind_is_written_as_such(tmp_path):
    people = applicants(5000)
    model = trained(people, ("grade", "town"))
    done = find_alternatives(
        Subject(model, people), against="gap", methods=("reweigh",), decide_without=("sex",), accuracy_loss=0.1
    )
    (path,) = done.save(tmp_path / "new.joblib")
    assert type(joblib.load(path)) is type(model)


def test_none_is_better_where_no_one_loses_by_group(tmp_path):
    people = applicants(1000)
    rng = np.random.default_rng(3)
    people.individuals[:, 2] = rng.integers(0, 2, len(people))
    frame = people.frame.assign(sex=np.array(["female", "male"])[people.individuals[:, 2].astype(int)])
    people = encode(people.schema, frame)
    done = find_alternatives(Subject(trained(people), people), against="gap", methods=("reweigh", "thresholds"))
    assert done.result.chosen is None
    assert done.save(tmp_path / "new.joblib") == ()
    assert not list(tmp_path.iterdir())


def test_a_learner_without_weights_learns_from_resampled_people(people):
    model = trained(people, model=KNeighborsClassifier(25))
    done = find_alternatives(Subject(model, people), against="gap", methods=("reweigh",), accuracy_loss=0.1)
    assert any("does not use weights" in note for note in done.result.notes)
    gaps = [one.validation.gap for one in done.result.candidates if one.method in ("refit", "reweigh")]
    assert gaps[-1] < gaps[0] - 0.05


def test_a_black_box_is_tilted_and_given_thresholds(people):
    def decide(frame):
        return 1 / (1 + np.exp(12 - frame["grade"] - 4 * (frame["town"] == "Rye")))

    done = find_alternatives(Subject(decide, people), against="gap", accuracy_loss=0.1)
    assert {one.method for one in done.result.candidates} == {"given", "tilt", "thresholds"}
    assert any("Name a training function" in note for note in done.result.notes)


def test_what_cannot_be_searched_is_refused(people, tmp_path):
    subject = Subject(trained(people), people)
    with pytest.raises(OptionError, match="no attribute 'sexx'"):
        find_alternatives(subject, against="gap", decide_without=("sexx",))
    with pytest.raises(OptionError, match="some alternatives cannot be written"):
        find_alternatives(subject, against="gap", out=tmp_path / "new.skops")
    with pytest.raises(OptionError, match="no attribute is protected"):
        find_alternatives(Subject(subject.model, encode(people.schema.with_protected([]), people.frame)), against="gap")
    with pytest.raises(OptionError, match="expected one of: reweigh"):
        AlternativesConfig(against="gap", methods=("erm",))
    same = encode(people.schema, people.frame.assign(sex="male"))
    with pytest.raises(DataError, match="got fewer"):
        find_alternatives(Subject(subject.model, same), against="gap")
    rows = encode(described("no yes later"), people.frame.assign(hired=np.resize(["no", "yes", "later"], len(people))))
    with pytest.raises(DataError, match="decides between 3"):
        find_alternatives(Subject(trained(rows), rows), against="gap")


def rule_people(seed, n=300, groups=2):
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
    _, favourable, group = rule_people(seed, n=80, groups=3)
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

    _, favourable, group = rule_people(3)
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
    score, favourable, group = rule_people(seed, n=60, groups=groups)
    gap = RateGap.of(name, group, favourable, groups)
    decisions = (score > 0.6).astype(float)
    assert gap.sizes(decisions) == pytest.approx(slow_gap(name, decisions, group, favourable))
    assert gap.sizes(np.stack([decisions, 1 - decisions])).shape == (2,)


@pytest.mark.parametrize("name", sorted(CONDITIONS))
def test_influence_gives_the_bootstrap_standard_error(name):
    score, favourable, group = rule_people(5, n=2000)
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
    score, _, group = rule_people(seed, n=400)
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
    score, _, group = rule_people(2, n=3000, groups=4)
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
    _, favourable, group = rule_people(6, n=900, groups=3)
    fold = assign_folds(group, favourable, seed=1)
    for cell in range(6):
        assert np.ptp(np.bincount(fold[2 * group + favourable == cell], minlength=3)) <= 1


def test_an_interval_of_one_change_is_the_paired_one():
    score, favourable, group = rule_people(7, n=20_000)
    gap = RateGap.of("gap", group, favourable, 2)
    before, after = score > 0.5, score > np.array([0.49, 0.51])[group]
    bases = [gap.widest(one.astype(float)) for one in (before, after)]
    found = compare_frontier(np.stack([before, after]), favourable, gap, [1], bases, confidence=0.95, seed=0)
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
    frame = draw_frame(rng, n, sex="f m", age=(18, 90))
    frame = frame.assign(income=rng.random(n), paid=rng.choice(["no", "yes"], n))
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

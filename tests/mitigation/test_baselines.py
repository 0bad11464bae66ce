"""Fairlearn's exponentiated gradient: the gap shrinks, and equal requests get equal answers."""

import copy
import importlib.util
import sys
from dataclasses import replace

import numpy as np
import pytest

from evenhand import datasets
from evenhand.errors import DataError, MissingExtraError, OptionError, TrustError
from evenhand.mitigation import Findings, MitigationConfig
from evenhand.mitigation.candidate import MitigationTask
from evenhand.mitigation.methods import fairlearn
from evenhand.mitigation.methods.constrained_groups import RANGES, ConstrainedGroups
from evenhand.mitigation.methods.lots import draw_lots
from evenhand.mitigation.methods.saving import SaveScorer
from evenhand.mitigation.metrics import FlipMetric, SubgroupGapMetric
from evenhand.mitigation.split import split_people
from evenhand.models import load_model
from evenhand.schema import Schema, encode

pytest.importorskip("fairlearn", reason="needs the extra fairlearn")


def situation_of(model, people, harms, **config):
    return MitigationTask(
        given=model,
        learner=None,
        split=split_people(people, seed=0),
        findings=Findings(),
        harms=harms,
        config=MitigationConfig(**config),
        progress=lambda what, share: None,
    )


@pytest.fixture(scope="module")
def adult():
    """3,000 people of Adult, and a pipeline that sees everything."""
    from sklearn.compose import make_column_transformer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    data = datasets.load_dataset("adult")
    schema = data.schema.with_protected(["sex"])
    frame = data.frame.sample(3000, random_state=1).reset_index(drop=True)
    people = encode(schema, frame)
    words = [one.name for one in schema.attributes if one.values is not None]
    numbers = [one.name for one in schema.attributes if one.values is None]
    model = make_pipeline(
        make_column_transformer((OneHotEncoder(handle_unknown="ignore"), words), (StandardScaler(), numbers)),
        LogisticRegression(max_iter=300),
    )
    model.fit(frame[list(schema.names)], frame["income"])
    return situation_of(load_model(model, schema, like=frame), people, (FlipMetric(("sex",)),))


def parity_gap(scorer, people):
    accepted = scorer.predict(people.individuals) == scorer.favourable
    male = people.individuals[:, people.schema.position("sex")] == 1
    return abs(accepted[male].mean() - accepted[~male].mean())


@pytest.fixture(scope="module")
def reduced(adult):
    return fairlearn.exponentiated_gradient(adult)


@pytest.mark.full
def test_the_gap_is_smaller_on_people_kept_aside(adult, reduced):
    candidate, test = reduced, adult.split.test
    before = parity_gap(adult.given, test)
    assert before > 0.12
    assert parity_gap(candidate.scorer, test) < 0.6 * before
    right = (candidate.scorer.predict(test.individuals) == candidate.scorer.favourable) == test.favourable
    assert right.mean() > 0.78


def test_the_reduction_trains_the_given_pipeline_and_chooses_on_the_validation_part(adult, reduced):
    assert "over Pipeline" in reduced.words
    assert [trial.value for trial in reduced.trials] == list(fairlearn.BOUNDS)
    (chosen,) = [trial for trial in reduced.trials if trial.chosen]
    people = adult.split.validation
    right = (reduced.scorer.predict(people.individuals) == reduced.scorer.favourable) == people.favourable
    assert chosen.accuracy == pytest.approx(right.mean())
    assert chosen.harms == (adult.harms[0].size(reduced.scorer, people),)


@pytest.mark.full
def test_the_same_seed_gives_the_same_answers(adult, reduced, monkeypatch):
    (chosen,) = [trial.value for trial in reduced.trials if trial.chosen]
    monkeypatch.setattr(fairlearn, "BOUNDS", (chosen,))
    again = fairlearn.exponentiated_gradient(adult)
    individuals = adult.split.test.individuals
    assert np.array_equal(again.scorer.scores(individuals), reduced.scorer.scores(individuals))
    assert np.array_equal(again.scorer.predict(individuals), reduced.scorer.predict(individuals))


def test_a_person_gets_the_same_answer_alone_as_among_others(adult, reduced):
    scorer, people = reduced.scorer, adult.split.test.individuals[:40]
    together = scorer.predict(people)
    assert np.array_equal(together, scorer.predict(people))
    assert [int(scorer.predict(person[None])[0]) for person in people] == together.tolist()


def test_files_come_back_with_trust_alone(adult, reduced, tmp_path):
    candidate = reduced
    path = tmp_path / "new.joblib"
    assert candidate.save(path) == (path,)
    schema, frame, people = adult.split.test.schema, adult.split.test.frame, adult.split.test.individuals
    with pytest.raises(TrustError):
        load_model(path, schema, like=frame)
    again = load_model(path, schema, like=frame, trust=True)
    assert np.array_equal(again.predict(people), candidate.scorer.predict(people))
    assert again.scores(people) == pytest.approx(candidate.scorer.scores(people))
    assert any("must be trusted" in note for note in candidate.notes)
    with pytest.raises(OptionError, match=r"ends in \.joblib"):
        candidate.save(tmp_path / "new.skops")


def test_a_model_that_cannot_be_written_is_refused(adult, tmp_path):
    given = copy.copy(adult.given)
    object.__setattr__(given, "name", "a model")
    object.__setattr__(given, "model", lambda: None)
    scorer = fairlearn.RandomizedClassifier(given.schema, given.classes, given.favourable, "x", ((1.0, given),), 0)
    with pytest.raises(OptionError, match="cannot be written"):
        SaveScorer(scorer)(tmp_path / "new.joblib")
    assert list(tmp_path.iterdir()) == []


def test_without_the_users_estimator_a_logistic_regression_is_trained(adult, monkeypatch):
    monkeypatch.setattr(fairlearn, "BOUNDS", (0.05,))

    class BlackBox:
        def __init__(self, scorer):
            self._it = scorer

        def __getattr__(self, name):
            return getattr(self._it, name)

    found = fairlearn.exponentiated_gradient(replace(adult, given=BlackBox(adult.given)))
    assert "over a logistic regression" in found.words
    assert parity_gap(found.scorer, adult.split.test) < 0.6 * parity_gap(adult.given, adult.split.test)


def toy(n=4000):
    """Two attributes that are protected, and a number."""
    import pandas as pd

    schema = Schema.parse(
        {
            "target": {"name": "paid", "favourable": "yes", "values": ["no", "yes"]},
            "attributes": [
                {"name": "sex", "kind": "categorical", "values": ["f", "m"], "protected": True},
                {"name": "age", "kind": "integer", "lower": 18, "upper": 90, "protected": True},
                {"name": "income", "kind": "real", "lower": 0, "upper": 1},
            ],
        }
    )
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


def test_lots_are_even_and_do_not_know_protected_attributes():
    people = toy()
    first = draw_lots(people.schema, people.individuals, seed=0)
    assert ((first >= 0) & (first < 1)).all()
    assert np.histogram(first, bins=10, range=(0, 1))[0] / len(first) == pytest.approx([0.1] * 10, abs=0.02)
    other = people.individuals.copy()
    other[:, :2] = other[::-1, :2]
    assert np.array_equal(draw_lots(people.schema, other, seed=0), first)
    other[:, 2] += 1e-9
    assert (draw_lots(people.schema, other, seed=0) != first).all()
    assert abs(np.corrcoef(draw_lots(people.schema, people.individuals, seed=1), first)[0, 1]) < 0.05
    # The value of a protected attribute says nothing about the lot.
    assert abs(np.corrcoef(people.individuals[:, 0], first)[0, 1]) < 0.05


def test_zero_has_one_lot_whatever_its_sign():
    schema = toy(100).schema
    assert len(set(draw_lots(schema, np.array([[0, 30, 0.0], [1, 40, -0.0]]), seed=0))) == 1


def test_groups_are_joint_values_and_ranges_of_numbers():
    people = toy()
    groups = ConstrainedGroups.of(people, ())
    codes = groups(people.individuals)
    assert len(np.unique(codes)) == 2 * RANGES
    sex, age = people.individuals[:, 0], people.individuals[:, 1]
    for code in np.unique(codes):
        here = codes == code
        assert len(set(sex[here])) == 1
        # Nobody of another group of this sex is between two of this one.
        others = age[(~here) & (sex == sex[here][0])]
        assert not ((others > age[here].min()) & (others < age[here].max())).any()
    assert "sex x age" in groups.words


def test_groups_are_the_subgroup_where_one_is_to_be_mended():
    people = toy()
    groups = ConstrainedGroups.of(people, (FlipMetric(("sex",)), SubgroupGapMetric({"sex": ("f",)})))
    codes = groups(people.individuals)
    assert len(np.unique(codes)) == 2
    assert len(set(zip(codes.tolist(), people.individuals[:, 0].tolist(), strict=True))) == 2


def test_small_groups_are_taken_together_and_nobody_is_in_none():
    people = toy(400)
    few = people.individuals[:, 1] < 25
    rules = {"age": {"low": None, "high": 18, "closed": True}}
    from evenhand.subgroups import Range

    with pytest.raises(DataError, match="got fewer"):
        ConstrainedGroups.of(people.at(np.flatnonzero(~few)), (SubgroupGapMetric({"age": Range(**rules["age"])}),))
    known = people.at(np.flatnonzero(people.individuals[:, 0] == 1))
    groups = ConstrainedGroups.of(known, ())
    # Women were never seen: they join a group that is there.
    assert set(groups(people.individuals)) <= set(groups(known.individuals))


def test_more_labels_than_two_are_refused(adult):
    class Three:
        classes = ("a", "b", "c")
        name = "three"

    with pytest.raises(DataError, match="decides between 3"):
        fairlearn.exponentiated_gradient(replace(adult, given=Three()))


def test_without_fairlearn_the_extra_is_named(adult, monkeypatch):
    monkeypatch.setitem(sys.modules, "fairlearn.reductions", None)
    with pytest.raises(MissingExtraError, match="fairlearn") as told:
        fairlearn.exponentiated_gradient(adult)
    assert "'.[fairlearn]'" in str(told.value)


def test_the_module_loads_neither_fairlearn_nor_scikit_learn():
    assert importlib.util.find_spec("fairlearn") is not None
    import subprocess

    code = (
        "import sys, evenhand.mitigation.methods.fairlearn; print('fairlearn' in sys.modules, 'sklearn' in sys.modules)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["False", "False"]

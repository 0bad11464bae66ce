"""The test set changes nothing of what is learnt, and its profiles are not trained on."""

import importlib

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

from evenhand import mitigation, models, subgroups
from evenhand.individual import search
from evenhand.mitigation import Findings
from evenhand.mitigation.findings import FoundProfiles, drop_test_profiles
from evenhand.mitigation.methods.registry import METHODS
from evenhand.mitigation.metrics import FlipMetric
from evenhand.mitigation.split import Split, split_people
from evenhand.mitigation.training.recipes import RECIPES
from evenhand.models import Subject
from evenhand.schema import encode
from support import small_schema

SCHEMA = small_schema(grade=(0, 20), noise=(0, 9), sex=[0, 1]).with_protected(["sex"])

MODULE = importlib.import_module("evenhand.mitigation.analysis")

NAMES = list(SCHEMA.names)


def drawn(n):
    rng = np.random.default_rng(1)
    columns = {"grade": rng.integers(0, 21, n), "noise": rng.integers(0, 10, n), "sex": rng.integers(0, 2, n)}
    frame = pd.DataFrame(columns)
    frame["hired"] = np.where(frame["grade"] + 2 * frame["sex"] + rng.normal(0, 2, n) > 11, "yes", "no")
    return frame


def replaced(frame, rows):
    """The same frame with other people, of other labels, in some rows."""
    rng = np.random.default_rng(2)
    other = frame.copy()
    other.loc[rows, "grade"] = rng.integers(0, 21, len(rows))
    other.loc[rows, "noise"] = rng.integers(0, 10, len(rows))
    other.loc[rows, "sex"] = 0
    other.loc[rows, "hired"] = np.where(frame.loc[rows, "hired"] == "yes", "no", "yes")
    return other


@pytest.fixture(scope="module")
def started():
    """The people as they are and with others in the test part, both split alike; a model; what was found about it."""
    frame = drawn(450)
    people = encode(SCHEMA, frame)
    parts = split_people(people, seed=0)
    other = encode(SCHEMA, replaced(frame, parts.test.rows))
    positions = [part.rows for part in (parts.train, parts.validation, parts.test)]
    changed = Split(*(other.at(rows) for rows in positions))
    assert (changed.train.individuals == parts.train.individuals).all()
    assert (changed.test.labels != parts.test.labels).all()
    learnt = frame.iloc[positions[0]]
    model = LogisticRegression().fit(learnt[NAMES], learnt["hired"])
    scorer = models.load_model(model, SCHEMA, like=frame)
    found = (
        search.search(scorer, parts.train, budget=300, samples=0),
        subgroups.find_subgroups(scorer, parts.train, attributes=("sex",)),
    )
    return {"as they are": (people, parts), "others": (other, changed)}, model, found


def candidates(started, people, monkeypatch, model=None, **options):
    """What a mitigation comes back with, the comparison left out."""
    sets, given, found = started
    everybody, parts = sets[people]
    monkeypatch.setattr("evenhand.mitigation.study.split_people", lambda *ignored, **more: parts)
    monkeypatch.setattr(MODULE, "compare_candidates", lambda *ignored, **more: ())
    monkeypatch.setattr("evenhand.mitigation.methods.retrain.MIN_QUERIES", 300)
    wanted = {"findings": found, "rounds": 1, "certify_effort": 0} | options
    return mitigation.mitigate(Subject(given if model is None else model, everybody), **wanted).candidates


def same(first, second):
    rows = np.array([[grade, noise, sex] for grade in range(21) for noise in range(10) for sex in (0, 1)], dtype=float)
    assert [one.method for one in first] == [one.method for one in second]
    for one, other in zip(first, second, strict=True):
        assert one.scorer.scores(rows).tobytes() == other.scorer.scores(rows).tobytes()
        assert one.scorer.predict(rows).tobytes() == other.scorer.predict(rows).tobytes()
        assert (one.trials, one.words, one.notes) == (other.trials, other.words, other.notes)


@pytest.mark.full
@pytest.mark.parametrize("name", METHODS)
# Models fitted to data frames are asked about arrays here, and the other way round.
@pytest.mark.filterwarnings("ignore:.*has feature names")
def test_other_people_in_the_test_part_change_no_model(name, started, monkeypatch):
    if name in RECIPES:
        pytest.importorskip("torch", reason="needs the extra torch")
        from evenhand.mitigation.training import candidates as training
        from evenhand.mitigation.training import fair_classifier as fair

        monkeypatch.setitem(training.SMALL, "steps", 20)
        fitted = fair.FairClassifier.fit

        def short(self, *given, **more):
            return fitted(self.set_params(hidden=(8,), steps=10), *given, **more)

        monkeypatch.setattr(fair.FairClassifier, "fit", short)
    same(*(candidates(started, people, monkeypatch, methods=(name,)) for people in ("as they are", "others")))


def test_a_function_of_the_users_is_not_shown_the_test_part(started, monkeypatch):
    seen = []

    def fit(frame, labels):
        seen.append((frame.to_numpy().tolist(), labels.tolist()))
        return DecisionTreeClassifier(random_state=0).fit(frame[NAMES], labels)

    options = {"fit": fit, "methods": ("retrain", "blind"), "rounds": 0}
    made = [candidates(started, people, monkeypatch, **options) for people in ("as they are", "others")]
    same(*made)
    half = len(seen) // 2
    assert seen[:half] == seen[half:]


NUMBERED = small_schema(grade=(0, 9), number=(0, 99_999), sex=(0, 1)).with_protected(["sex"])


def people(n=600, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {"grade": rng.integers(0, 10, n), "number": rng.integers(0, 100_000, n), "sex": rng.integers(0, 2, n)}
    )
    frame["hired"] = np.where(frame["grade"] + frame["sex"] + rng.normal(0, 3, n) > 5, "yes", "no")
    return encode(NUMBERED, frame)


def fitted(model, everybody):
    labels = np.array(["no", "yes"])[everybody.labels]
    return model.fit(everybody.individuals, labels)


def test_profiles_of_people_test_data_are_not_learnt_from():
    everybody = people()
    parts = split_people(everybody, seed=0)
    turned = everybody.individuals.copy()
    turned[:, 2] = 1 - turned[:, 2]  # whose sex is said does not matter
    found, left_out = drop_test_profiles(Findings((FoundProfiles(("sex",), turned),)), parts)
    kept = {tuple(row[:2]) for row in found.profiles[0].individuals}
    seen = {tuple(row[:2]) for part in (parts.train, parts.validation) for row in part.individuals}
    assert kept == seen
    assert left_out == len(turned) - len(found.profiles[0].individuals) > 100
    elsewhere = turned[:5] + np.array([0, 0.5, 0])
    again, none = drop_test_profiles(Findings((FoundProfiles(("sex",), elsewhere),)), parts)
    assert (none, len(again.profiles[0].individuals)) == (0, 5)


def test_what_was_found_among_people_test_data_is_not_in_any_lesson(monkeypatch):
    everybody = people()
    parts = split_people(everybody, seed=0)
    lessons = []

    def fit(frame, labels):
        lessons.append(frame.copy())
        return DecisionTreeClassifier(random_state=0).fit(frame, labels)

    model = fitted(DecisionTreeClassifier(random_state=0), everybody)
    flipping = everybody.individuals[FlipMetric(("sex",)).flips(models.load_model(model, NUMBERED), everybody)]
    found = Findings((FoundProfiles(("sex",), flipping),))
    monkeypatch.setattr(Findings, "read", classmethod(lambda cls, paths, schema: found))
    done = mitigation.mitigate(Subject(model, everybody), fit=fit, rounds=0, certify_effort=0, share=0.9)
    aside = {tuple(row[:2]) for row in parts.test.individuals}
    aside -= {tuple(row[:2]) for part in (parts.train, parts.validation) for row in part.individuals}
    assert len(lessons) > 2
    for frame in lessons:
        assert not aside & set(zip(frame["grade"], frame["number"], strict=True))
    assert any("not used for training" in note for note in done.result.notes)

"""Profiles of the test set are not trained on."""

import numpy as np
import pandas as pd
from sklearn.tree import DecisionTreeClassifier

from evenhand import mitigation, models
from evenhand.mitigation import Findings
from evenhand.mitigation.findings import FoundProfiles, drop_test_profiles
from evenhand.mitigation.metrics import FlipMetric
from evenhand.mitigation.split import split_people
from evenhand.models import Subject
from evenhand.schema import encode
from support import small_schema

SCHEMA = small_schema(grade=(0, 9), number=(0, 99_999), sex=(0, 1)).with_protected(["sex"])


def people(n=600, seed=0):
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {"grade": rng.integers(0, 10, n), "number": rng.integers(0, 100_000, n), "sex": rng.integers(0, 2, n)}
    )
    frame["hired"] = np.where(frame["grade"] + frame["sex"] + rng.normal(0, 3, n) > 5, "yes", "no")
    return encode(SCHEMA, frame)


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
    flipping = everybody.individuals[FlipMetric(("sex",)).flips(models.load_model(model, SCHEMA), everybody)]
    found = Findings((FoundProfiles(("sex",), flipping),))
    monkeypatch.setattr(Findings, "read", classmethod(lambda cls, paths, schema: found))
    done = mitigation.mitigate(Subject(model, everybody), fit=fit, rounds=0, certify_effort=0, share=0.9)
    aside = {tuple(row[:2]) for row in parts.test.individuals}
    aside -= {tuple(row[:2]) for part in (parts.train, parts.validation) for row in part.individuals}
    assert len(lessons) > 2
    for frame in lessons:
        assert not aside & set(zip(frame["grade"], frame["number"], strict=True))
    assert any("not used for training" in note for note in done.result.notes)

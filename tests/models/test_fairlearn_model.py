"""Fitted classifiers of fairlearn as models."""

import warnings
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from evenhand.errors import ModelError
from evenhand.models import Subject, load_model
from evenhand.models.noise import check_noise
from evenhand.models.scorer import find_caution
from evenhand.schema import People
from evenhand.schema.people import ColumnRoles
from support import draw_frame

postprocessing = pytest.importorskip("fairlearn.postprocessing")
reductions = pytest.importorskip("fairlearn.reductions")

RNG = np.random.default_rng(0)
PEOPLE = draw_frame(RNG, 400, sex="f m", age="old young", female=(0, 1), points=(0, 9))
PEOPLE["hired"] = (PEOPLE.points + 2 * (PEOPLE.sex == "m") + RNG.integers(0, 4, 400) > 6).astype(int)
FEATURES = PEOPLE[["points", "female"]]


def read(protected: list[str]) -> People:
    return ColumnRoles(target="hired", protected=protected, favourable=1).read(PEOPLE)


def optimizer(columns: list[str]) -> Any:
    model = postprocessing.ThresholdOptimizer(estimator=LogisticRegression(), constraints="demographic_parity")
    return model.fit(FEATURES, PEOPLE["hired"], sensitive_features=PEOPLE[columns])


def fit(model: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # fairlearn's own use of pandas
        return model.fit(FEATURES, PEOPLE["hired"], sensitive_features=PEOPLE["sex"])


@pytest.mark.parametrize("columns", [["sex"], ["female"], ["age", "sex"], ["sex", "age"]])
def test_sensitive_features_are_the_protected_columns(columns: list[str]) -> None:
    model = optimizer(columns)
    subject = Subject(model, read(["sex", "age"] if columns != ["female"] else columns))
    scores = subject.scorer.scores(subject.people.individuals)
    np.testing.assert_allclose(scores, model._pmf_predict(FEATURES, sensitive_features=PEOPLE[columns]))
    labels = model.predict(FEATURES, sensitive_features=PEOPLE[columns], random_state=0)
    np.testing.assert_array_equal(subject.scorer.predict(subject.people.individuals), labels)


def test_groups_without_a_threshold_are_refused() -> None:
    with pytest.raises(ModelError):
        load_model(optimizer(["sex"]), read(["age"]).schema, like=PEOPLE)


def test_columns_with_the_same_values_are_named() -> None:
    table = PEOPLE.assign(married=1 - PEOPLE.female)
    people = ColumnRoles(target="hired", protected=["female", "married"], favourable=1).read(table)
    assert "married" in find_caution(Subject(optimizer(["female"]), people).scorer)


def test_a_mixture_of_estimators_decides_as_it_does_itself() -> None:
    model = fit(reductions.ExponentiatedGradient(LogisticRegression(), reductions.DemographicParity(), max_iter=5))
    subject = Subject(model, read(["sex"]))
    scores = subject.scorer.scores(subject.people.individuals)
    np.testing.assert_allclose(scores, model._pmf_predict(FEATURES))
    labels = subject.scorer.predict(subject.people.individuals)
    np.testing.assert_array_equal(labels, model.predict(FEATURES, random_state=0))
    drawn = bool(((scores > 0) & (scores < 1)).any())
    noise = check_noise(subject.scorer, subject.people.individuals)
    assert noise is not None
    assert noise.noisy == drawn


def test_a_grid_search_decides_as_its_best_estimator() -> None:
    model = fit(reductions.GridSearch(LogisticRegression(), reductions.DemographicParity(), grid_size=5))
    subject = Subject(model, read(["sex"]))
    np.testing.assert_array_equal(subject.scorer.predict(subject.people.individuals), model.predict(FEATURES))


def test_an_unfitted_classifier_is_refused() -> None:
    model = postprocessing.ThresholdOptimizer(estimator=LogisticRegression())
    with pytest.raises(ModelError) as caught:
        load_model(model, read(["sex"]).schema)
    assert caught.value.hint == "fit the model first"

"""Scorers and the threshold inside of scikit-learn's own searches, and against gaps counted by hand."""

import warnings
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
import sklearn
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from evenhand.errors import OptionError
from evenhand.metrics import BoundNotMetWarning, FairnessThreshold, make_fairness_scorer
from support import scaled


@pytest.fixture
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


@pytest.fixture(scope="module")
def people():
    rng = np.random.default_rng(0)
    sex = rng.integers(0, 2, 400)
    X = pd.DataFrame({"skill": rng.normal(sex * 0.8, 1.0), "noise": rng.normal(size=400)})
    y = (X["skill"] + rng.normal(size=400) > 0.4).astype(int)
    return X, y, pd.Series(np.where(sex == 1, "male", "female"), name="sex")


def scorer(metric="demographic_parity_difference"):
    return make_fairness_scorer(metric).set_score_request(sensitive_features=True)


def test_cross_validation_gives_each_fold_its_own_groups(routing, people):
    X, y, sex = people
    model = LogisticRegression()
    options = {"scoring": {"gap": scorer()}, "params": {"sensitive_features": sex}, "cv": 3}
    found = cross_validate(model, X, y, **options, return_indices=True, return_estimator=True)
    for fitted, test, score in zip(found["estimator"], found["indices"]["test"], found["test_gap"], strict=True):
        decided = fitted.predict(X.iloc[test])
        rates = [decided[(sex.iloc[test] == one).to_numpy()].mean() for one in ("female", "male")]
        assert score == pytest.approx(-abs(rates[0] - rates[1]))


def test_a_grid_search_finds_the_setting_with_the_smallest_gap(routing, people):
    X, y, sex = people
    pipeline = make_pipeline(StandardScaler(), LogisticRegression())
    search = GridSearchCV(pipeline, {"logisticregression__C": [1e-6, 1.0]}, scoring=scorer(), cv=3)
    search.fit(X, y, sensitive_features=sex)
    # Next to no weights: everybody is decided alike.
    assert search.best_params_ == {"logisticregression__C": 1e-6}
    assert search.best_score_ == pytest.approx(0, abs=0.05)


def test_several_metrics_at_once(routing, people):
    X, y, sex = people
    scoring = {name: scorer(name) for name in ("demographic_parity_ratio", "equalized_odds_difference")}
    found = cross_validate(
        LogisticRegression(), X, y, scoring=scoring | {"right": "accuracy"}, params={"sensitive_features": sex}, cv=3
    )
    assert (found["test_demographic_parity_ratio"] >= 0).all()
    assert (found["test_equalized_odds_difference"] <= 0).all()


def test_a_scorer_says_what_it_lacks(routing, people):
    X, y, sex = people
    model = LogisticRegression().fit(X, y)
    with pytest.raises(OptionError, match="sensitive_features is required"):
        make_fairness_scorer()(model, X, y)
    with pytest.raises(OptionError, match="the name of a gap"):
        make_fairness_scorer("demographic_parity")
    assert np.isnan(make_fairness_scorer(min_group_size=300)(model, X, y, sensitive_features=sex))
    both = pd.DataFrame({"sex": sex, "all": "a"})
    one, two = (make_fairness_scorer()(model, X, y, sensitive_features=groups) for groups in (sex, both))
    assert one == two
    assert make_fairness_scorer(favourable=0)(model, X, y, sensitive_features=sex) == pytest.approx(one)


@given(st.lists(st.tuples(st.booleans(), st.booleans(), st.integers(0, 2)), min_size=2, max_size=30))
@settings(max_examples=scaled(60), deadline=None)
def test_a_score_is_the_gap_counted_by_hand(rows):
    truth, decided, group = (np.array(column) for column in zip(*rows, strict=True))

    class Given(ClassifierMixin, BaseEstimator):
        classes_ = np.array([0, 1])

        def predict(self, X):
            return decided.astype(int)

    with sklearn.config_context(enable_metadata_routing=True):
        score = make_fairness_scorer()(Given(), np.zeros((len(rows), 1)), truth.astype(int), sensitive_features=group)
    rates = [
        Fraction(int(decided[group == one].sum()), int((group == one).sum())) for one in sorted(set(group.tolist()))
    ]
    wanted = float(max(rates) - min(rates)) if len(rates) > 1 else None
    assert (np.isnan(score) or score == 0) if wanted is None else score == pytest.approx(-wanted)


@pytest.mark.parametrize(
    "metric", ["demographic_parity_difference", "equal_opportunity_difference", "equalized_odds_difference"]
)
def test_the_threshold_keeps_the_gap_and_is_the_most_accurate(people, metric):
    X, y, sex = people
    fair = FairnessThreshold(LogisticRegression(), metric=metric, bound=0.1).fit(X, y, sensitive_features=sex)
    assert fair.bound_met_
    assert fair.gap_ <= 0.1
    free = FairnessThreshold(LogisticRegression(), metric=metric, bound=1.0).fit(X, y, sensitive_features=sex)
    assert free.accuracy_ >= fair.accuracy_
    assert free.gap_ > 0.1
    decided = fair.predict(X)
    assert set(decided) <= {0, 1}
    assert (decided == (fair.estimator_.predict_proba(X)[:, 1] > fair.threshold_)).all()


@given(
    st.lists(st.tuples(st.booleans(), st.integers(0, 2), st.integers(0, 5)), min_size=6, max_size=40), st.floats(0, 1)
)
@settings(max_examples=scaled(60), deadline=None)
def test_the_choice_is_that_of_trying_every_threshold(rows, bound):
    truth, group, score = (np.array(column) for column in zip(*rows, strict=True))
    fair = FairnessThreshold(bound=bound)
    fair.classes_ = np.array([0, 1])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BoundNotMetWarning)
        fair._select_threshold(score.astype(float), truth, [np.unique(group, return_inverse=True)[1]])
    tried = []
    for threshold in np.unique(score):
        decided = score >= threshold
        rates = [decided[group == one].mean() for one in np.unique(group)]
        tried.append((max(rates) - min(rates), (decided == truth).mean()))
    within = [accuracy for gap, accuracy in tried if gap <= bound + 1e-12]
    if within:
        assert fair.bound_met_
        assert fair.accuracy_ == pytest.approx(max(within))
    else:
        assert not fair.bound_met_
        assert fair.gap_ == pytest.approx(min(gap for gap, _ in tried))


def test_the_threshold_of_either_label_and_what_it_lacks(people):
    X, y, sex = people
    with pytest.raises(OptionError, match="group labels are required"):
        FairnessThreshold().fit(X, y)
    with pytest.raises(OptionError, match="expected a gap"):
        FairnessThreshold(metric="accuracy").fit(X, y, sensitive_features=sex)
    reversed_ = FairnessThreshold(favourable=0, bound=0.1).fit(X, y, sensitive_features=sex)
    assert (reversed_.predict(X) == (reversed_.estimator_.predict_proba(X)[:, 0] <= reversed_.threshold_)).all()
    with pytest.raises(OptionError, match="expected one of the labels"):
        FairnessThreshold(favourable="yes").fit(X, y, sensitive_features=sex)


def test_it_is_searched_over_like_any_other(routing, people):
    X, y, sex = people
    fair = FairnessThreshold(LogisticRegression()).set_fit_request(sensitive_features=True)
    search = GridSearchCV(fair, {"bound": [0.02, 0.5]}, scoring="accuracy", cv=3)
    search.fit(X, y, sensitive_features=sex)
    assert search.best_params_ == {"bound": 0.5}


@parametrize_with_checks([FairnessThreshold(LogisticRegression(), protected=[0], bound=1.0)])
def test_it_is_a_scikit_learn_estimator(estimator, check):
    check(estimator)

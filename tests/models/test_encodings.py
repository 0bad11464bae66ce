"""Estimators of scikit-learn, and networks fed with codes."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
import yaml
from applicants import CODES, FRAME, GRANTED, NAMES, PEOPLE, WORDS, pipeline, schema
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier, VotingClassifier
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import FixedThresholdClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.svm import SVC, LinearSVC
from sklearn.tree import DecisionTreeClassifier

from evenhand.datasets import dataset_names, load_dataset
from evenhand.errors import ModelError
from evenhand.models import load_model
from evenhand.models.blackbox.estimator import EstimatorModel
from evenhand.schema import Schema, infer_schema
from support import small_schema

CODED = {"sex": "code", "home-town": "code"}


FRAME_OF_SEXES = pd.DataFrame({"grade": [1, 2, 3, 4], "sex": ["Male", "Female"] * 2, "hired": ["no", "yes"] * 2})


def network(path):
    np.savez(path, W0=np.ones((2, 1)), b0=np.zeros(1), W1=np.ones((1, 1)), b1=[-2.0])
    return path


def refusal(path, schema: Schema, like) -> str:
    with pytest.raises(ModelError) as refused:
        load_model(path, schema, like=like)
    return str(refused.value)


def test_a_network_fed_with_codes_is_refused_with_the_lines_to_paste(tmp_path):
    schema = infer_schema(FRAME_OF_SEXES, target="hired", protected=["sex"])
    for like in (None, FRAME_OF_SEXES):
        said = refusal(network(tmp_path / "net.npz"), schema, like)
        assert "takes numbers for sex" in said
        assert "sex: 0 Female, 1 Male\n" in said
        line = next(line for line in said.splitlines() if line.startswith("  - {"))
        assert yaml.safe_load(line)[0]["encoding"] == "code"
    coded = schema.with_encodings({"sex": (1, 0)})
    scorer = load_model(tmp_path / "net.npz", coded, like=FRAME_OF_SEXES)
    assert scorer.predict(np.array([[2.0, 0.0], [2.0, 1.0]])).tolist() == [1, 0]


def test_an_estimator_fitted_on_codes_is_refused_and_a_pipeline_is_not():
    coded = LogisticRegression().fit(WORDS.inputs(PEOPLE), FRAME["granted"])
    with pytest.raises(ModelError, match="takes numbers for sex, home-town"):
        load_model(coded, WORDS, like=FRAME)
    assert load_model(coded, WORDS.with_encodings(CODED), like=FRAME).form == "numbers"
    assert load_model(pipeline(DecisionTreeClassifier()), WORDS, like=FRAME).form == "frame"
    assert load_model(lambda frame: (frame["sex"] == "Male").astype(int), WORDS, like=FRAME).label_only


def test_a_torch_module_is_refused():
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    with pytest.raises(ModelError, match="takes numbers for sex, home-town"):
        load_model(torch.nn.Linear(4, 1), WORDS, output="logit")


def test_numbers_and_ordered_values_are_no_guess(tmp_path):
    np.savez(tmp_path / "net.npz", W0=np.ones((3, 1)), b0=[0.0], W1=[[1.0]], b1=[-1.0])
    attributes = {"flag": [False, True], "level": {"kind": "ordinal", "values": ["low", "mid", "high"]}}
    schema = small_schema(**attributes, kind=[0, 1, 2])
    assert load_model(tmp_path / "net.npz", schema).predict(np.array([[1.0, 0.0, 2.0]])).tolist() == [1]
    with pytest.raises(ModelError, match="takes numbers for kind,"):  # is the input 0, 1, 2 or 1, 2, 3?
        load_model(tmp_path / "net.npz", small_schema(**attributes, kind=[1, 2, 3]))


def test_the_cards_of_data_sets_say_their_encodings():
    for name in dataset_names()[:2]:
        assert not any(attribute.lacks_encoding for attribute in load_dataset(name).schema.attributes)


def answers(scorer, people=PEOPLE):
    return np.array(scorer.classes, dtype=object)[scorer.predict(people)].tolist()


@pytest.mark.parametrize("kind", [pd.DataFrame, pl.DataFrame])
def test_a_pipeline_answers_as_it_does_alone(kind):
    frame = FRAME if kind is pd.DataFrame else pl.from_pandas(FRAME)
    model = pipeline(LogisticRegression())
    scorer = load_model(model, WORDS, like=frame)
    assert isinstance(scorer, EstimatorModel)
    assert (scorer.form, scorer.classes, scorer.favourable, scorer.label_only) == ("frame", ("no", "yes"), 1, False)
    assert type(scorer.like) is kind
    assert answers(scorer) == model.predict(FRAME[NAMES]).tolist()
    np.testing.assert_array_equal(scorer.scores(PEOPLE), model.predict_proba(FRAME[NAMES]))


@pytest.mark.parametrize(("learnt", "stays"), [({"Male": "M", "Female": "F"}, None), ({"Male": "M"}, "'Male' of sex")])
def test_values_that_an_encoder_ignores_are_named(learnt, stays):
    encoder = make_column_transformer((OneHotEncoder(handle_unknown="ignore"), ["sex", "home-town"]))
    model = make_pipeline(encoder, LogisticRegression()).fit(FRAME[NAMES].replace({"sex": learnt}), FRAME["granted"])
    if stays is None:
        with pytest.raises(ModelError, match="not trained on the values 'Female', 'Male' of sex"):
            load_model(model, WORDS, like=FRAME)
    else:
        assert stays in load_model(model, WORDS, like=FRAME).caution


def test_zero_and_one_are_not_labels_one_and_two_unless_the_data_agree():
    labels = np.where(FRAME["granted"] == "yes", 2, 1)
    frame, target = FRAME.assign(granted=labels), {"favourable": 1, "values": (2, 1)}
    model = pipeline(LogisticRegression(), labels=labels - 1)
    with pytest.raises(ModelError, match="indicate the opposite"):
        load_model(model, schema(**target), like=frame)
    agreeing = load_model(pipeline(LogisticRegression(), labels=2 - labels), schema(**target), like=frame)
    assert "the true labels of 300 people agree" in agreeing.caution


def test_it_is_asked_with_the_frame_type_and_column_types_of_the_data():
    asked = []

    class Recorder(BaseEstimator, ClassifierMixin):
        def fit(self, x, y):
            self.classes_ = np.unique(y)
            return self

        def predict(self, x):
            asked.append(x)
            return np.repeat(self.classes_[:1], len(x))

    frame = FRAME.astype({"age": "int32", "sex": "category"})
    load_model(Recorder().fit(FRAME, FRAME["granted"]), WORDS, like=frame)
    assert all(isinstance(table, pd.DataFrame) for table in asked)
    assert all(table.dtypes.equals(frame[NAMES].dtypes) for table in asked)
    asked.clear()
    load_model(Recorder().fit(FRAME, FRAME["granted"]), WORDS, like=pl.from_pandas(FRAME))
    assert {type(table) for table in asked} == {pl.DataFrame}


def test_fitted_on_an_array_of_numbers_it_gets_each_attribute_by_its_encoding():
    inputs = CODES.inputs(PEOPLE)
    assert inputs.shape[1] == 6
    model = LogisticRegression().fit(inputs, GRANTED)
    scorer = load_model(model, CODES)
    assert scorer.form == "numbers"
    np.testing.assert_array_equal(scorer.scores(PEOPLE), model.predict_proba(inputs))
    assert answers(scorer) == np.where(model.predict(inputs), "yes", "no").tolist()


def test_an_encoder_tells_whether_it_learnt_words_or_codes():
    """An encoder that ignores what it does not know takes either, and says nothing when it is given the wrong one."""
    coded = WORDS.with_encodings({"sex": "code", "home-town": "code"})
    places = [i for i, one in enumerate(coded.attributes) if one.kind == "categorical"]
    encoder = make_column_transformer((OneHotEncoder(handle_unknown="ignore"), places), remainder="passthrough")
    for asked, form in ((coded.inputs(PEOPLE), "numbers"), (FRAME[NAMES].to_numpy(dtype=object), "words")):
        model = make_pipeline(clone(encoder), LogisticRegression(max_iter=2000)).fit(asked, FRAME["granted"])
        scorer = load_model(model, coded)
        assert scorer.form == form
        assert scorer.caution.endswith("its inputs are taken to be age, income, sex, home-town.")
        assert answers(scorer) == model.predict(asked).tolist()


def test_where_nothing_tells_words_from_numbers_it_says_so():
    """Words that are numerals are read as numbers, other than the codes, by a model without any encoder."""
    attributes = [{"name": "grade", "kind": "ordinal", "values": ["10", "20", "30"], "encoding": "code"}]
    described = Schema.parse({"target": {"name": "granted", "favourable": "yes"}, "attributes": attributes})
    codes = np.arange(60) % 3
    model = LogisticRegression().fit(codes[:, None], np.where(codes > 1, "yes", "no"))
    scorer = load_model(model, described)
    assert scorer.form == "words"
    assert "fitted on an array" in scorer.caution
    assert "fit it on a data frame" in scorer.caution


def test_decision_values_keep_their_order_and_decide_above_zero():
    model = pipeline(LinearSVC(random_state=0))
    scorer = load_model(model, WORDS, like=FRAME)
    decision = model.decision_function(FRAME[NAMES])
    np.testing.assert_allclose(scorer.scores(PEOPLE)[:, 1], 1 / (1 + np.exp(-decision)))
    np.testing.assert_array_equal(scorer.predict(PEOPLE), decision > 0)
    assert not scorer.label_only


def three_labels():
    return np.where(FRAME["income"] < 30, "no", np.where(FRAME["income"] < 60, "wait", "yes"))


def test_three_labels():
    target = schema(values=("no", "wait", "yes"))
    model = pipeline(LinearSVC(random_state=0), labels=three_labels())
    scorer = load_model(model, target)
    assert (scorer.classes, scorer.favourable) == (("no", "wait", "yes"), 2)
    assert answers(scorer) == model.predict(FRAME[NAMES]).tolist()
    np.testing.assert_allclose(scorer.scores(PEOPLE).sum(axis=1), 1)
    assert (scorer.scores(PEOPLE).argmax(axis=1) == scorer.predict(PEOPLE)).all()


def test_one_decision_value_per_pair_of_labels_is_no_score():
    model = pipeline(SVC(decision_function_shape="ovo"), labels=three_labels())
    scorer = load_model(model, schema(values=("no", "wait", "yes")))
    assert scorer.label_only
    np.testing.assert_array_equal(scorer.scores(PEOPLE), np.eye(3)[scorer.predict(PEOPLE)])


def test_a_model_without_scores_gives_its_labels():
    vote = VotingClassifier([("a", LogisticRegression()), ("b", RandomForestClassifier(3, random_state=0))])
    model = pipeline(vote)
    scorer = load_model(model, WORDS)
    assert scorer.label_only
    assert answers(scorer) == model.predict(FRAME[NAMES]).tolist()
    assert set(scorer.scores(PEOPLE).ravel()) == {0.0, 1.0}


def test_labels_are_the_models_own_not_those_of_its_scores():
    model = pipeline(FixedThresholdClassifier(LogisticRegression(), threshold=0.9, response_method="predict_proba"))
    scorer = load_model(model, WORDS)
    assert answers(scorer) == model.predict(FRAME[NAMES]).tolist()
    assert (scorer.predict(PEOPLE) != scorer.scores(PEOPLE).argmax(axis=1)).any()


class Fixed(ClassifierMixin, BaseEstimator):
    """A fitted classifier with one answer."""

    def __init__(self, label, classes=("no", "yes"), score=0.5):
        self.label, self.classes, self.score = label, classes, score
        self.classes_ = np.array(classes)

    def predict(self, x):
        return np.repeat(self.label, len(x))

    def predict_proba(self, x):
        return np.full((len(x), len(self.classes)), self.score)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (Fixed("yes", classes=["yes"]), "only one label"),
        (Fixed("perhaps"), "'perhaps'"),
        (Fixed("yes", score=np.nan), "nan"),
        (LogisticRegression(), "not fitted"),
        (Ridge().fit(FRAME[["age", "income"]], GRANTED), "not a classifier"),
        (LogisticRegression().fit(FRAME[["age"]].rename(columns={"age": "years"}), GRANTED), "'years'"),
        (LogisticRegression().fit(np.ones((300, 3)) * np.arange(300)[:, None], GRANTED), "fitted on 3 columns"),
    ],
)
def test_models_that_do_not_fit_are_refused(model, message):
    with pytest.raises(ModelError, match=message):
        load_model(model, WORDS, like=FRAME)


def test_an_unknown_category_is_one_clear_error():
    model = pipeline(LogisticRegression(), FRAME[FRAME["home-town"] != "Rye"])
    with pytest.raises(ModelError) as caught:
        load_model(model, WORDS, like=FRAME, name="the bank's model")
    message = str(caught.value)
    assert "the bank's model" in message
    assert "'Rye'" in message


def test_missing_values_are_refused_with_the_way_out():
    keeps = schema(missing="keep")
    scorer = load_model(pipeline(LogisticRegression()), keeps)
    person = PEOPLE[:1].copy()
    person[0, 1] = np.nan
    with pytest.raises(ModelError) as caught:
        scorer.predict(person)
    assert "NaN" in str(caught.value)
    assert "`missing: drop`" in str(caught.value)


def test_missing_values_reach_a_model_that_takes_them():
    model = HistGradientBoostingClassifier(max_iter=5, min_samples_leaf=5)
    numbers = ["age", "income"]
    model.fit(FRAME[numbers].where(FRAME["income"] > 20), FRAME["granted"])
    scorer = load_model(model, schema(missing="keep"), like=FRAME)
    person = PEOPLE[:1].copy()
    person[0, 1] = np.nan
    expected = model.predict_proba(pd.DataFrame({"age": [person[0, 0]], "income": [np.nan]}))
    np.testing.assert_array_equal(scorer.scores(person), expected)


def test_a_missing_value_has_no_one_hot_columns():
    described = schema(codes=True, missing="keep")
    scorer = load_model(LogisticRegression().fit(described.inputs(PEOPLE), GRANTED), described)
    person = PEOPLE[:1].copy()
    person[0, 3] = np.nan
    with pytest.raises(ModelError, match="'home-town' has missing values"):
        scorer.predict(person)


def test_words_that_the_schema_tidied_up_are_noticed():
    frame = FRAME.assign(**{"home-town": " " + FRAME["home-town"]})
    model = pipeline(LogisticRegression(), frame)
    model.named_steps["columntransformer"].named_transformers_["onehotencoder"].set_params(handle_unknown="ignore")
    with pytest.raises(ModelError, match=r"encoding by the schema changes the decision.*row \d+"):
        load_model(model, WORDS, like=frame)
    assert load_model(pipeline(LogisticRegression()), WORDS, like=FRAME).label_only is False

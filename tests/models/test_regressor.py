"""Models that decide a number: regressors and functions as black boxes."""

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

from evenhand.errors import BudgetError, ModelError, SchemaError, TrustError
from evenhand.models import QuestionLedger, Subject, load_model, load_regressor
from evenhand.models.scorer import Regressor, ask_numbers
from evenhand.schema.people import ColumnRoles
from support import small_schema

RNG = np.random.default_rng(0)
PEOPLE = pd.DataFrame({"age": RNG.integers(18, 70, 200), "sex": RNG.choice(["F", "M"], 200)})
PEOPLE["premium"] = 100.0 + 2 * PEOPLE["age"] + 30 * (PEOPLE["sex"] == "M") + RNG.normal(0, 5, 200)
READ = ColumnRoles(target="premium", protected=["sex"]).read(PEOPLE)


def premium(frame):
    return 100 + 2 * frame["age"] + 30 * (frame["sex"] == "M")


def pipeline(regressor=None):
    columns = make_column_transformer((OneHotEncoder(), ["sex"]), remainder="passthrough")
    return make_pipeline(columns, regressor or LinearRegression()).fit(PEOPLE[["age", "sex"]], PEOPLE["premium"])


def test_a_pipeline_answers_as_it_does_itself():
    model = pipeline()
    regressor = Subject(model, READ).regressor
    assert isinstance(regressor, Regressor)
    assert ask_numbers(regressor, READ.individuals, batch=7) == pytest.approx(model.predict(PEOPLE[["age", "sex"]]))
    assert not regressor.can_vary
    assert (regressor.name, regressor.form) == ("Pipeline", "frame")


def test_a_function_is_asked_with_a_frame_and_counted():
    ledger = QuestionLedger()
    regressor = load_regressor(premium, READ.schema, like=PEOPLE, ledger=ledger)
    tried = ledger.sent
    assert regressor.predict_numbers(READ.individuals) == pytest.approx(premium(PEOPLE))
    assert ledger.sent == tried + 200
    assert regressor.can_vary
    with pytest.raises(BudgetError):
        load_regressor(premium, READ.schema, ledger=QuestionLedger(budget=3))


def test_an_array_needs_to_know_which_number_stands_for_which_value():
    array = PEOPLE.assign(sex=PEOPLE["sex"] == "M")[["age", "sex"]].to_numpy(float)
    codes = LinearRegression().fit(array, PEOPLE["premium"])
    with pytest.raises(ModelError, match="takes numbers for sex"):
        load_regressor(codes, READ.schema)
    described = READ.schema.with_encodings({"sex": "code"})
    numbers = load_regressor(codes, described).predict_numbers(READ.individuals)
    assert numbers == pytest.approx(codes.predict(array))


def test_a_file_needs_trust(tmp_path):
    model = pipeline()
    joblib.dump(model, tmp_path / "premium.joblib")
    with pytest.raises(TrustError):
        load_regressor(tmp_path / "premium.joblib", READ.schema)
    regressor = load_regressor(str(tmp_path / "premium.joblib"), READ.schema, like=PEOPLE, trust=True)
    assert regressor.name == "premium.joblib"
    assert regressor.predict_numbers(READ.individuals) == pytest.approx(model.predict(PEOPLE[["age", "sex"]]))


def test_a_module_s_function(tmp_path, monkeypatch):
    (tmp_path / "tariff.py").write_text("def premium(frame):\n    return 5.0 * frame['age']\n")
    monkeypatch.chdir(tmp_path)
    regressor = load_regressor("tariff:premium", READ.schema, like=PEOPLE)
    assert regressor.predict_numbers(READ.individuals) == pytest.approx(5.0 * PEOPLE["age"])


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (lambda frame: ["dear"] * len(frame), "expected numbers"),
        (lambda frame: np.zeros((len(frame), 2)), r"returned shape \(32, 2\)"),
        (lambda frame: np.full(len(frame), np.nan), "returned nan for individual 1"),
        (3, "a int is not a regressor"),
        ("model.onnx", "cannot be read from .onnx files"),
        ("http://127.0.0.1:1/predict", "is not a regressor"),
    ],
)
def test_what_gives_no_numbers_is_refused(model, message):
    with pytest.raises(ModelError, match=message):
        load_regressor(model, READ.schema)


def test_labels_and_numbers_are_not_mixed_up():
    classifier = LogisticRegression().fit(PEOPLE[["age"]], PEOPLE["sex"])
    with pytest.raises(ModelError, match="returns labels, but the target 'premium' is a number"):
        load_regressor(classifier, READ.schema)
    with pytest.raises(SchemaError, match="'premium' is a number"):
        load_model(pipeline(), READ.schema)
    labels = ColumnRoles(target="premium", protected=["sex"], favourable="yes").read(
        PEOPLE.assign(premium=np.where(PEOPLE["premium"] > 200, "yes", "no"))
    )
    with pytest.raises(ModelError, match="not a classifier") as error:
        load_model(pipeline(), labels.schema)
    assert "kind=number" in str(error.value)


@pytest.mark.parametrize("classes", [None, np.array([])])  # CatBoost has an empty list
def test_a_regressor_may_have_an_attribute_for_classes(classes):
    model = pipeline(type("Ridge", (LinearRegression,), {"classes_": classes})())
    regressor = Subject(model, READ).regressor
    assert ask_numbers(regressor, READ.individuals) == pytest.approx(model.predict(PEOPLE[["age", "sex"]]))
    with pytest.raises(ModelError, match="not a classifier"):
        load_model(model, small_schema(age=(18, 70), sex="F M *"))


@pytest.mark.parametrize("kind", ["regressor", "pipeline", "general"])
def test_catboost_regressors_are_regressors(kind):
    catboost = pytest.importorskip("catboost", reason="needs the extra catboost")
    settings = {"iterations": 3, "depth": 2, "verbose": False, "allow_writing_files": False, "loss_function": "Poisson"}
    settings |= {} if kind == "pipeline" else {"cat_features": ["sex"]}
    model = catboost.CatBoost(settings) if kind == "general" else catboost.CatBoostRegressor(**settings)
    inputs = PEOPLE[["age", "sex"]]
    model = pipeline(model) if kind == "pipeline" else model.fit(inputs, PEOPLE["premium"])
    expected = model.predict(inputs, "Exponent") if kind == "general" else model.predict(inputs)
    regressor = Subject(model, READ).regressor
    assert ask_numbers(regressor, READ.individuals) == pytest.approx(expected)

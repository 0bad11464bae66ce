"""Models receive the columns of a text table in the types that they were trained on."""

import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import FeatureUnion, make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, OrdinalEncoder, StandardScaler, TargetEncoder

import evenhand
from evenhand.datasets.cells import parse_number
from evenhand.errors import EvenhandError, ModelError
from evenhand.models import AdditiveNetwork, Subject, load_model
from evenhand.models.blackbox.estimator import NumberModel
from evenhand.models.blackbox.learnt_types import learnt_inputs
from evenhand.models.column_types import ColumnInput, ColumnTypes, plan_conversion
from evenhand.models.replies import QuestionLedger
from evenhand.models.scorer import find_caution
from evenhand.schema import decode, encode
from evenhand.schema.outcome import OutcomeRole
from evenhand.schema.people import ColumnRoles
from serving import serving
from support import small_schema

INDEX = np.arange(400)
BOTH = {"points": "words", "level": "words"}


def read_text(frame: pd.DataFrame) -> pd.DataFrame:
    """Write a frame as CSV and read it: columns of canonical numbers are numbers, all others are words."""
    text = pd.read_csv(io.StringIO(frame.to_csv(index=False)), dtype=str, keep_default_na=False, na_values=[""])
    for name in text:
        numbers = [parse_number(word) for word in text[name].dropna()]
        if numbers and None not in numbers:
            whole = all(isinstance(number, int) for number in numbers) and len(numbers) == len(text)
            text[name] = text[name].astype("float64").astype("int64" if whole else "float64")
    return text


def text_subject(model: Any, table: pd.DataFrame, *, budget: int | None = None, kind: Any = None) -> Subject:
    favourable = "yes" if kind is None else "higher"
    options = {"favourable": favourable, "outcome": OutcomeRole(kind, None, None), "accept_proposals": True}
    roles = ColumnRoles(target="hired", protected=["sex"], **options)
    people = replace(roles.read(read_text(table)), untyped=True)
    return Subject(model, people, ledger=QuestionLedger(budget))


def selected(subject: Subject) -> np.ndarray:
    return subject.scorer.predict(subject.people.individuals) == subject.scorer.favourable


def switches(subject: Subject) -> dict[str, str]:
    types: ColumnTypes = subject.scorer.types  # type: ignore[attr-defined]  # black boxes have it
    return {name: conversion.input.type for name, conversion in types.conversions.items()}


@pytest.fixture
def people() -> pd.DataFrame:
    table = pd.DataFrame({"sex": np.where(INDEX % 2, "F", "M"), "points": INDEX % 10})
    table["level"] = np.array(["1", "2", "3"])[INDEX % 3]
    table["state"] = np.array(["01", "02", "03", "10"])[INDEX // 2 % 4]
    table["hired"] = np.where(table.points % 3 > 0, "yes", "no")
    return table


def yes_or_no(condition: Any) -> np.ndarray:
    return np.where(condition, "yes", "no")


def words_level(d: pd.DataFrame) -> Any:
    return yes_or_no(d["points"] + 4 * (d["level"] == "2") > 6)


@pytest.mark.parametrize(
    ("condition", "types", "expected"),
    [
        (lambda d: d["points"] + 4 * (d["level"] == "2") > 6, {}, {"level": "words"}),
        (lambda d: d["points"] + 4 * (d["level"] == 2) > 6, {"level": int}, {}),
        (lambda d: d["points"] + 4 * d["state"].isin(["02", "10"]) > 6, {}, {}),
        (lambda d: d["points"] + 4 * d["state"].isin([2, 10]) > 6, {"state": int}, {"state": "numbers"}),
        (lambda d: d["points"] + 4 * d["level"].str.startswith("2") > 6, {}, {"level": "words"}),
        (lambda d: d["points"] + d["state"] / 2 > 6, {"state": int}, {"state": "numbers"}),
        (lambda d: d["points"].str.len() + d["level"].str.len() > 1 + (d["sex"] == "F"), {"points": str}, BOTH),
        (lambda d: (d["level"] == "2") & (d["points"] == "4") | (d["sex"] == "F"), {"points": str}, BOTH),
    ],
)
def test_asks_a_function_for_its_types(people: pd.DataFrame, condition: Any, types: Any, expected: Any) -> None:
    def function(d: pd.DataFrame) -> Any:
        return yes_or_no(condition(d))

    subject = text_subject(function, people)
    own = function(people.astype(types)) == "yes"
    np.testing.assert_array_equal(selected(subject), own)
    assert switches(subject) == expected
    assert all(name in find_caution(subject.scorer) for name in expected)


def test_keeps_the_types_of_the_table_for_a_noisy_function(people: pd.DataFrame) -> None:
    rng = np.random.default_rng(0)

    for _ in range(5):
        subject = text_subject(lambda d: yes_or_no((d["points"] > 4) ^ (rng.random(len(d)) < 0.01)), people)
        assert switches(subject) == {}


def test_names_columns_whose_type_stays_open(people: pd.DataFrame) -> None:
    for subject in (
        text_subject(lambda d: yes_or_no((d["level"] == "2") | (d["level"] == 3)), people),
        text_subject(lambda d: yes_or_no((d["level"] == 1) & (d["points"] > 4)), people.assign(level="1")),
    ):
        assert switches(subject) == {}
        assert "level" in find_caution(subject.scorer)


def test_says_that_a_budget_is_too_small_to_check_types(people: pd.DataFrame) -> None:
    subject = text_subject(words_level, people, budget=1000)
    assert "level" in find_caution(subject.scorer)
    assert subject.ledger.sent <= 500


def test_asks_about_few_cells_of_a_wide_table() -> None:
    rng = np.random.default_rng(0)
    table = pd.DataFrame({f"c{i}": rng.integers(0, 5, 300) for i in range(150)})
    table["sex"], table["hired"] = np.where(INDEX[:300] % 2, "F", "M"), np.where(table["c7"] > 2, "yes", "no")
    calls = []
    subject = text_subject(lambda d: calls.append(d) or yes_or_no(d["c7"] == "3"), table)
    assert switches(subject) == {"c7": "words"}
    assert len(calls) < 150


def test_a_regressor_receives_its_types(people: pd.DataFrame) -> None:
    table = people.assign(hired=INDEX * 1.5 + 0.25)

    def function(d: pd.DataFrame) -> Any:
        return d["points"] + 10.0 * (d["level"] == "2")

    subject = text_subject(function, table, kind="number")
    np.testing.assert_allclose(subject.regressor.predict_numbers(subject.people.individuals), function(table))
    assert isinstance(subject.regressor, NumberModel)
    assert subject.regressor.types.conversions["level"].input.type == "words"


# What fitted estimators state.


def encoded(encoder: Any, columns: list[str], *, impute: bool = False) -> Any:
    step = make_pipeline(SimpleImputer(strategy="most_frequent"), encoder) if impute else encoder
    return make_pipeline(make_column_transformer((step, columns), remainder="passthrough"), LogisticRegression())


@pytest.mark.parametrize(
    ("types", "expected"),
    [
        ({}, {"level": "words"}),
        ({"level": int}, {}),
        ({"level": int, "state": int}, {"state": "numbers"}),
        ({"state": float}, {"level": "words", "state": "numbers"}),
    ],
)
@pytest.mark.parametrize("impute", [False, True])
@pytest.mark.parametrize(
    "encoder", [OneHotEncoder(), OrdinalEncoder(), TargetEncoder()], ids=lambda encoder: type(encoder).__name__
)
def test_encoders_state_types(people: pd.DataFrame, encoder: Any, impute: bool, types: Any, expected: Any) -> None:
    columns = ["sex", "level", "state", "points"]
    typed = people.astype(types)
    model = encoded(encoder, columns[:3], impute=impute).fit(typed[columns], words_level(people))
    subject = text_subject(model, people)
    np.testing.assert_array_equal(selected(subject), model.predict(typed[columns]) == "yes")
    assert switches(subject) == expected
    assert subject.ledger.sent < 2 * len(people) + 200  # no questions to find types


@pytest.mark.parametrize("word", ["NA", "null", "n/a", "nan"])
@pytest.mark.parametrize("missing", [False, True])
def test_words_for_missing_values_follow_the_training(people: pd.DataFrame, word: str, missing: bool) -> None:
    table = people.assign(region=np.where(INDEX // 2 % 4 == 0, word, "EU"))
    table["hired"] = np.where(table.points - 4 * (table.region == word) + (table.sex == "M") > 4, "yes", "no")
    typed = table.assign(region=table["region"].where(table["region"] == "EU")) if missing else table
    columns = ["sex", "region", "points"]
    model = encoded(OneHotEncoder(handle_unknown="ignore"), columns[:2]).fit(typed[columns], table["hired"])
    subject = text_subject(model, table)
    np.testing.assert_array_equal(selected(subject), model.predict(typed[columns]) == "yes")


def test_unknown_words_among_numbers_become_missing(people: pd.DataFrame) -> None:
    age = np.where(INDEX % 7 == 0, "NA", (20 + INDEX % 50).astype(str))
    table = people.assign(age=age)
    typed = people.assign(age=pd.to_numeric(pd.Series(age).replace("NA", None)))[["points", "age"]]
    model = HistGradientBoostingClassifier(max_iter=5).fit(typed, np.where(typed["age"] > 40, "yes", "no"))
    subject = text_subject(model, table.drop(columns=["state", "level"]))
    np.testing.assert_array_equal(selected(subject), model.predict(typed) == "yes")
    assert switches(subject) == {"age": "numbers"}


@pytest.mark.parametrize("spelling", [("True", "False"), ("TRUE", "FALSE"), ("true", "false")])
def test_truth_words_become_booleans(people: pd.DataFrame, spelling: tuple[str, str]) -> None:
    flags = INDEX % 3 == 0
    typed = people.assign(member=flags)[["points", "member"]]
    model = RandomForestClassifier(5, random_state=0).fit(typed, np.where(flags, "yes", "no"))
    table = people[["sex", "points", "hired"]].assign(member=np.where(flags, *spelling))
    subject = text_subject(model, table)
    np.testing.assert_array_equal(selected(subject), model.predict(typed) == "yes")
    assert switches(subject) == {"member": "booleans"}


def test_pipelines_with_types_are_read_as_white_boxes(people: pd.DataFrame) -> None:
    columns = ["sex", "level", "state", "points"]
    typed = people.astype({"state": int})
    model = encoded(OneHotEncoder(), columns[:3]).fit(typed[columns], words_level(people))
    subject = text_subject(model, people)
    network = subject.white_box
    assert isinstance(network, AdditiveNetwork)
    np.testing.assert_array_equal(network.predict(subject.people.individuals) == 1, model.predict(typed) == "yes")


def test_estimators_with_unknown_steps_are_asked(people: pd.DataFrame) -> None:
    step = FunctionTransformer(lambda d: np.column_stack([d["points"], d["level"] == "2"]))
    columns = ["points", "level"]
    model = make_pipeline(step, LogisticRegression(C=100)).fit(people[columns], words_level(people))
    subject = text_subject(model, people)
    np.testing.assert_array_equal(selected(subject), model.predict(people[columns]) == "yes")
    assert switches(subject) == {"level": "words"}


@pytest.mark.parametrize("library", ["lightgbm", "xgboost"])
def test_boosters_receive_their_categories(people: pd.DataFrame, library: str) -> None:
    module = pytest.importorskip(library)
    typed = people[["points", "level", "state"]].astype({"level": "category", "state": "int"})
    typed["state"] = typed["state"].astype("category")
    truth = (words_level(people) == "yes").astype(int)
    if library == "lightgbm":
        model = module.LGBMClassifier(n_estimators=5, verbose=-1).fit(typed, truth)
    else:
        model = module.XGBClassifier(n_estimators=5, enable_categorical=True).fit(typed, truth)
    subject = text_subject(model, people)
    np.testing.assert_array_equal(selected(subject), model.predict(typed) == 1)
    assert switches(subject) == {"level": "categories", "state": "categories"}


def test_reads_the_types_of_nested_steps(people: pd.DataFrame) -> None:
    union = FeatureUnion([("codes", OrdinalEncoder()), ("columns", OneHotEncoder())])
    numbers = make_pipeline(SimpleImputer(), StandardScaler())
    both = make_column_transformer((union, ["level"]), (numbers, ["points"]), ("drop", ["state"]))
    model = make_pipeline(both, LogisticRegression()).fit(people[["level", "points", "state"]], people["hired"])
    inputs = learnt_inputs(model, ["level", "points", "state"])
    assert inputs["level"] == ColumnInput("words", ("1", "2", "3"))
    assert inputs["points"].type == "numbers"
    assert "state" not in inputs


def test_names_a_cell_that_does_not_convert(people: pd.DataFrame) -> None:
    model = LogisticRegression().fit(people[["points"]], people["hired"])
    table = people[["sex", "hired"]].assign(points=(INDEX % 10).astype(str))
    table.loc[17, "points"] = "many"
    with pytest.raises(ModelError, match=r"'points', row 18.*'many'"):
        _ = text_subject(model, table).scorer


def test_a_frame_in_memory_keeps_its_types(people: pd.DataFrame) -> None:
    frame = people[["sex", "level", "points", "hired"]].astype({"level": int})
    read = ColumnRoles(target="hired", protected=["sex"], favourable="yes").read(frame)
    subject = Subject(words_level, read)
    np.testing.assert_array_equal(selected(subject), words_level(frame) == "yes")
    assert switches(subject) == {}
    assert not find_caution(subject.scorer)


# Conversions.


def convert(column: list[Any], wanted: ColumnInput) -> list[Any]:
    series = pd.Series(column)
    converted = plan_conversion("x", wanted, small_schema(other=(0, 1)), series).convert(series, "model")
    return [None if pd.isna(value) else value for value in converted.tolist()]


@pytest.mark.parametrize(
    ("column", "wanted", "expected"),
    [
        (["3.10", "02"], ColumnInput("numbers"), [3.1, 2.0]),
        (["007", "2"], ColumnInput("numbers"), [7, 2]),
        (["NA", "2"], ColumnInput("numbers"), [None, 2.0]),
        ([1, 2], ColumnInput("words"), ["1", "2"]),
        ([1.0, np.nan], ColumnInput("words"), ["1", None]),
        ([1.0, 2.5], ColumnInput("words"), ["1.0", "2.5"]),
        ([1.0, 2.5], ColumnInput("words", ("1", "2.50")), ["1", "2.50"]),
        (["TRUE", "false", "NULL"], ColumnInput("booleans"), [True, False, None]),
        (["NA", "a"], ColumnInput("words", ("a",), missing=True), [None, "a"]),
        (["NA", "a"], ColumnInput("words", ("a", "NA"), missing=True), ["NA", "a"]),
        (["NA", "a"], ColumnInput("words", ("a",)), ["NA", "a"]),
        ([5, 6], ColumnInput("categories", ("5", "6")), ["5", "6"]),
        (["05", "?"], ColumnInput("categories", (5, 6)), [5, None]),
    ],
)
def test_converts_values(column: list[Any], wanted: ColumnInput, expected: list[Any]) -> None:
    converted = convert(column, wanted)
    assert converted == expected
    assert [type(value) for value in converted] == [type(value) for value in expected]


CELLS = [["1", "2", "3"], ["01", "02", "10"], ["3.10", "3.9", "3.11"], ["True", "False"], ["NA", "EU", "US"]]
CELLS = st.sampled_from([*CELLS, ["a", "b", "c"], ["1.0", "2.0", "10"], ["0.5", "2.5", "NA"]])


@given(
    columns=st.lists(st.tuples(CELLS, st.booleans()), min_size=1, max_size=3),
    seed=st.integers(0, 1000),
    encoder=st.sampled_from([OneHotEncoder(handle_unknown="ignore"), OrdinalEncoder(encoded_missing_value=-1)]),
)
def test_a_text_table_gives_the_rates_of_the_typed_frame(columns: Any, seed: int, encoder: Any) -> None:
    rng = np.random.default_rng(seed)
    table = pd.DataFrame({"sex": rng.choice(["F", "M"], 120)})
    for i, (cells, _) in enumerate(columns):
        table[f"c{i}"] = rng.choice(cells, 120)
    names = list(table.columns)
    table["hired"] = rng.choice(["no", "yes"], 120)
    # As words, or in the types that pandas reads.
    typed = table.copy()
    read = pd.read_csv(io.StringIO(table.to_csv(index=False)))
    for i, (_, as_words) in enumerate(columns):
        if not as_words:
            typed[f"c{i}"] = read[f"c{i}"]
    model = encoded(encoder, names).fit(typed[names], table["hired"])
    own = model.predict(typed[names]) == "yes"
    try:
        subject = text_subject(model, table)
        decided = selected(subject)
    except EvenhandError:
        return
    assert len(subject.people) == 120
    for sex in "FM":
        rows = (table["sex"] == sex).to_numpy()
        assert decided[rows].mean() == own[rows].mean()


# Other kinds of models.


def test_an_endpoint_that_refuses_numbers_receives_words(people: pd.DataFrame) -> None:
    def reply(instances: list[dict[str, Any]]) -> Any:
        return {"predictions": ["yes" if person["level"] == "2" else "no" for person in instances]}

    class Validation(list[Any]):
        def __bool__(self) -> bool:
            return True

        def pop(self, *_: Any) -> Any:
            return None if isinstance(service.requests[-1][0]["level"], str) else (422, {})

    with serving(reply) as service:
        service.first = Validation()
        subject = text_subject(service.url, people)
        np.testing.assert_array_equal(selected(subject), people["level"] == "2")
        assert switches(subject) == {"level": "words"}
        assert "level" in find_caution(subject.scorer)
        subject.scorer.model.close()  # type: ignore[attr-defined]  # an endpoint has one


def test_schemas_alone_state_values_in_the_types_that_encoders_learnt() -> None:
    typed = pd.DataFrame({"level": ["1", "2", "3", "1"], "state": [1, 10, 1, 10]})
    model = encoded(OneHotEncoder(), ["level", "state"]).fit(typed, ["no", "yes", "no", "no"])
    individuals = np.array([[1, 0], [2, 1], [3, 0], [1, 1]], dtype=np.float64)
    scorer = load_model(model, small_schema(level=(1, 3), state="01 10"))
    np.testing.assert_allclose(scorer.scores(individuals), model.predict_proba(typed))
    assert find_caution(scorer)


def test_words_keep_the_spaces_around_them_that_a_model_learnt(tmp_path: Path) -> None:
    frame = pd.DataFrame({"sex": [" F", " M"] * 30, "hired": [0, 1] * 30})
    model = encoded(OneHotEncoder(), ["sex"]).fit(frame[["sex"]], frame["hired"])
    frame.to_csv(tmp_path / "people.csv", index=False)
    for data in (frame, str(tmp_path / "people.csv")):
        result = evenhand.audit(model, data, target="hired", protected=["sex"], favourable=1, budget=500)
        rates = [group.metrics["selection_rate"].value for group in result.groups.breakdowns[0].groups]
        assert rates == [0, 1]


def test_frames_keep_the_spelling_of_numbers_in_columns_of_words() -> None:
    price = {"kind": "real", "lower": 0, "upper": 9, "number_format": {"model_input": "number"}}
    schema = small_schema(zip=(0, 100), member=[True, False], price=price)
    frame = pd.DataFrame({"zip": ["007", "12"], "member": ["TRUE", "FALSE"], "price": ["1", "2"]})
    decoded = decode(schema, np.array([[7, 0, 1.0], [13, 1, 2.0]]), like=frame)
    assert decoded["zip"].tolist() == ["007", "13"]
    assert decoded["member"].tolist() == ["TRUE", "FALSE"]
    assert decoded["price"].tolist() == [1.0, 2.0]
    codes = pd.DataFrame({"zip": pd.Categorical(["7", "12"])})
    polars = pytest.importorskip("polars", reason="needs the extra polars")
    for like in (codes, polars.from_pandas(codes)):
        decoded = decode(small_schema(zip=(0, 100)), np.array([[12.0], [7.0]]), like=like)
        assert list(decoded["zip"]) == ["12", "7"]
        assert decoded["zip"].dtype == like["zip"].dtype


def test_refuses_a_number_of_the_domain_that_an_encoder_did_not_learn(people: pd.DataFrame) -> None:
    table = people.assign(level=np.array(["1", "2", "4"])[INDEX % 3])
    model = encoded(OneHotEncoder(), ["sex", "level"]).fit(table[["sex", "level", "points"]], table["hired"])
    with pytest.raises(ModelError) as caught:
        _ = text_subject(model, table).scorer
    assert "'3'" in caught.value.message
    schema = text_subject(model, table).people.schema
    listed = schema["level"].model_copy(
        update={"kind": "categorical", "values": ("1", "2", "4"), "lower": None, "upper": None, "encoding": None}
    )
    attributes = tuple(listed if one.name == "level" else one for one in schema.attributes)
    people_read = encode(schema.model_copy(update={"attributes": attributes}), read_text(table))
    subject = Subject(model, replace(people_read, untyped=True))
    np.testing.assert_array_equal(selected(subject), model.predict(table[["sex", "level", "points"]]) == "yes")

"""The verbs at the top: what users of scikit-learn and fairlearn hold goes in, results or one clear error come out."""

import doctest

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

import evenhand
from evenhand import api
from evenhand.errors import OptionError, SchemaError
from evenhand.schema.people import ColumnRoles

EXAMPLES = [test for test in doctest.DocTestFinder().find(api) if test.examples]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_the_example_of_every_verb_runs(example):
    assert doctest.DocTestRunner(optionflags=doctest.FAIL_FAST).run(example).failed == 0


def test_every_verb_has_an_example_and_is_on_the_package():
    assert {example.name.rpartition(".")[2] for example in EXAMPLES} == set(api.__all__)
    assert all(getattr(evenhand, name) is getattr(api, name) for name in api.__all__)


def messy(n=200):
    """People with missing numbers and missing words, and their labels."""
    rng = np.random.default_rng(0)
    people = pd.DataFrame(
        {
            "age": rng.integers(18, 70, n).astype(float),
            "sex": rng.choice(["F", "M"], n),
            "city": rng.choice(["a", "b", None], n),
            "skill": rng.normal(size=n),
        }
    )
    people.loc[::17, "age"] = np.nan
    hired = np.where(people["skill"] + (people["sex"] == "M") > 0.3, "yes", "no")
    return people, pd.Series(hired, name="hired")


@pytest.fixture(scope="module")
def model():
    people, hired = messy()
    columns = make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore"), ["sex", "city"]), (SimpleImputer(), ["age", "skill"])
    )
    return make_pipeline(columns, LogisticRegression(max_iter=500)).fit(people, hired.to_numpy())


def test_labels_may_stand_beside_the_data_or_in_it(model):
    people, hired = messy()
    beside = evenhand.search(model, people, hired, protected=["sex"], budget=400)
    within = evenhand.search(
        model, people.assign(hired=hired.to_numpy()), target="hired", protected=["sex"], budget=400
    )
    assert beside.profiles == within.profiles > 0
    frame = beside.to_frame()
    pd.testing.assert_frame_equal(frame, within.to_frame())
    listed = evenhand.search(model, people, list(hired), target="hired", protected=["sex"], budget=400)
    pd.testing.assert_frame_equal(frame, listed.to_frame())


def test_the_callers_frame_is_left_as_it_was(model):
    people, hired = messy()
    before = people.copy()
    evenhand.find_subgroups(model, people, hired, protected=["sex"], permutations=100)
    pd.testing.assert_frame_equal(people, before)


def test_a_function_is_asked_with_frames_of_the_callers_kind():
    people, hired = messy()
    kinds = set()

    def decide(frame):
        kinds.add(type(frame))
        return (frame["skill"].to_numpy() > 0).astype(int)

    found = evenhand.search(
        decide, pl.from_pandas(people), (hired == "yes").to_numpy().astype(int), protected=["sex"], budget=100
    )
    assert found.profiles == 0
    assert kinds == {pl.DataFrame}


def test_a_table_may_be_a_file(model, tmp_path):
    people, hired = messy()
    people.assign(hired=hired.to_numpy()).to_csv(tmp_path / "people.csv", index=False)
    found = evenhand.find_subgroups(model, tmp_path / "people.csv", target="hired", protected=["sex"])
    assert found.people == 200


def test_subgroups_take_numbers_that_cannot_be_varied(model):
    people, hired = messy()
    found = evenhand.find_subgroups(model, people, hired, protected=["skill", "sex"])
    assert {cells.name for cells in found.attributes} == {"skill", "sex"}


def test_a_schema_is_enough_for_a_certificate():
    people, hired = messy()
    numbers = people[["skill"]].round().astype(int).assign(sex=(people["sex"] == "F").astype(int))
    network = LogisticRegression().fit(numbers, (hired == "yes").to_numpy().astype(int))
    labels = (hired == "yes").to_numpy().astype(int)
    schema = evenhand.schema.infer_schema(numbers.assign(hired=labels), target="hired", protected=["sex"])
    by_schema = evenhand.certify(network, schema=schema, max_boxes=2_000)
    by_data = evenhand.certify(network, numbers, labels, protected=["sex"], max_boxes=2_000)
    assert by_schema.certified == by_data.certified > 0
    by_people = evenhand.certify(network, numbers, labels, protected=["sex"], population="data", max_boxes=2_000)
    assert by_people.population != by_schema.population


@pytest.mark.parametrize("name", ["age", None])
def test_labels_beside_the_data_may_bear_the_name_of_a_column_that_holds_something_else(name):
    people, hired = messy()
    people = people.rename(columns={} if name else {"age": "label"})
    result = evenhand.search(
        lambda frame: frame["sex"] == "M", people, hired.rename(name), protected=["sex"], budget=99
    )
    assert result.profiles > 0


def with_labels(people):
    return {"target": "hired", "data": people.assign(hired=messy()[1].to_numpy())}


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda people: {"y": None, "target": "hire"}, r"expected a column of the data as `target=`, got 'hire'"),
        (lambda people: {"target": "hird", "y": None, "data": people.assign(hired=1)}, "did you mean 'hired'"),
        (lambda people: {"y": None}, "got neither target= nor y="),
        (lambda people: {"protected": None}, r"at least one protected attribute, got none(?s:.*)`protected=NAME`"),
        (lambda people: {"protected": "sex"}, r"protected=\['sex'\]"),
        (lambda people: {"protected": people["sex"]}, r"distinct names as `protected=`(?s:.*)protected=\['sex'\]"),
        (lambda people: {"protected": people["age"]}, r"got a Series of 200 values\n  -> protected=\['age'\]"),
        (lambda people: {"protected": 3}, r"got 3\n  -> name the columns: protected=\['sex'\]"),
        (lambda people: {"data": people.to_dict("list")}, r"got dict\n  -> pandas.DataFrame\(data\)"),
        (lambda people: {"data": LogisticRegression()}, "pass the model first, then the data"),
        (lambda people: {"protected": ["gender"]}, r"`protected=`, got 'gender'(?s:.*)age, sex, city, skill"),
        (lambda people: {**with_labels(people), "y": None, "protected": ["hired"]}, "got the target 'hired'"),
        (lambda people: with_labels(people), "got both y= and the column 'hired'"),
        (lambda people: {**with_labels(people), "target": None}, "got both y= and the column 'hired'"),
        (lambda people: {"data": people.iloc[:0], "y": []}, "without rows"),
        (lambda people: {"data": people.to_numpy()}, r"expected a data frame, got ndarray of shape \(200, 4\)"),
        (lambda people: {"data": None}, "expected a data frame, got none"),
        (lambda people: {"y": ["yes", "no"]}, "got 200 in `data=`, 2 in `y=`"),
        (lambda people: {"y": "hired"}, "target='hired'"),
        (lambda people: {"y": messy()[1][::-1]}, "the index of `data=` differs from the index of `y=`: row 1 is"),
        (
            lambda people: {"sample_weight": pd.Series(1, people.index + 1)},
            "labelled 0 in the former and 1 in the latter",
        ),
        (lambda people: {"y": ["yes"] * 200}, "only one class"),
        (lambda people: {"y": [None] + ["yes", "no"] * 99 + ["no"]}, "row 1: expected a label"),
        (lambda people: {"y": ["ja", "nein"] * 100}, "favourable="),
        (lambda people: {"data": people.assign(notes=[{}] * 200)}, "'notes' holds dict values"),
        (lambda people: {"data": people.assign(day=pd.Timestamp("2020-01-01"))}, "'day' holds dates or times"),
        (
            lambda people: {"data": people.assign(key=[f"p{i}" for i in range(200)])},
            "different values in 200 rows, an identifier",
        ),
        (lambda people: {"data": people.assign(skill=np.inf)}, "'skill' has numbers that are not finite: inf"),
        (
            lambda people: {"data": people.rename(columns={"age": 0})},
            "expected text as column names in `data=`",
        ),
        (lambda people: {"data": pd.concat([people, people[["age"]]], axis=1)}, "distinct column names"),
        (lambda people: {"protected": ["skill"]}, "'skill' is a protected number with fractions: cut into ranges"),
        (lambda people: {"data": people.drop(columns="city")}, "fitted on a column 'city'"),
    ],
)
def test_what_cannot_be_used_is_one_clear_error(model, change, expected):
    people, hired = messy()
    arguments = {"data": people, "y": hired, "protected": ["sex"], **change(people)}
    with pytest.raises(evenhand.EvenhandError, match=expected):
        evenhand.audit(model, **arguments, time_limit=1)


@pytest.mark.parametrize("spelling", ["favourable", "favorable"])
def test_the_favourable_label_is_a_number_however_it_is_written(model, spelling):
    people, hired = messy()
    labels = (hired == "yes").astype(float)

    def rule(frame):
        return (frame["skill"] > 0).astype(float)

    for given in (1, "1", 1.0, "1.0"):
        result = evenhand.find_subgroups(rule, people, labels, protected=["sex"], **{spelling: given})
        assert result.people == 200
    reversed_ = evenhand.find_subgroups(rule, people, labels, protected=["sex"], **{spelling: 0})
    assert reversed_.people == 200


def test_a_shield_is_given_by_a_file_or_by_entries(tmp_path):
    (tmp_path / "shield.yaml").write_text(
        "property: demographic_parity\nkappa: '0.2'\nhorizon: 10\n"
        "groups: {a: {rate: 0.5, accept: 0.3}, b: {rate: 0.5, accept: 0.6}}\n"
    )
    policy = evenhand.synthesize_shield(tmp_path / "shield.yaml")
    changed = evenhand.synthesize_shield(
        {"property": "demographic_parity", "kappa": "0.2", "horizon": 10},
        groups={"a": {"rate": 0.5, "accept": 0.3}, "b": {"rate": 0.5, "accept": 0.6}},
    )
    assert policy.expected_cost == changed.expected_cost > 0
    with pytest.raises(evenhand.EvenhandError, match="expected either a file or entries"):
        evenhand.synthesize_shield(tmp_path / "shield.yaml", horizon=3)


def test_groups_of_a_generator_are_a_list():
    with pytest.raises(evenhand.EvenhandError, match=r"groups=\['gender'\]"):
        evenhand.assess_generator(pd.DataFrame({"gender": ["a", "b"]}), "gender")


def test_certify_takes_the_same_arguments_without_data_as_with():
    rng = np.random.default_rng(0)
    people = pd.DataFrame({"skill": rng.integers(0, 10, 200), "female": rng.integers(0, 2, 200)})
    hired = np.where(people["skill"] - 2 * people["female"] > 3, "yes", "no")
    model = LogisticRegression().fit(people, hired)
    with_data = evenhand.certify(model, people, hired, protected=["female"], favourable="yes", seed=3)
    schema = ColumnRoles("hired", ["female"], "yes").read(people.assign(hired=hired)).schema
    first = evenhand.certify(model, schema=schema, seed=3)
    assert (first.certified, first.falsified) == (with_data.certified, with_data.falsified)
    named = evenhand.certify(model, schema=schema, seed=3, favorable="no", model_name="mine", trust=True)
    assert named.certified == first.certified
    with pytest.raises(SchemaError, match="maybe"):
        evenhand.certify(model, schema=schema, favourable="maybe")
    with pytest.raises(OptionError, match="data"):
        evenhand.certify(model, y=hired, schema=schema)


@pytest.mark.parametrize("argument", [{"encoding": "latin-1"}, {"sheet": "people"}])
def test_arguments_about_files_are_refused_for_data_frames(model, argument):
    people, hired = messy()
    for verb in (evenhand.audit, evenhand.search, evenhand.find_subgroups, evenhand.certify, evenhand.mitigate):
        with pytest.raises(OptionError, match=next(iter(argument))):
            verb(model, people, hired, protected=["sex"], **argument)

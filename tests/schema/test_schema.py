"""Schemas, their attributes, and the roles of columns."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from evenhand.errors import DataError, OptionError, SchemaError
from evenhand.schema import Attribute, Schema, infer_schema, read_schema, schema_to_yaml, write_schema
from evenhand.schema.attribute import AffineEncoding
from evenhand.schema.people import ColumnRoles
from support import small_schema

CONTRACT = """
target: {name: income, favourable: ">50K"}
attributes:                       # in the order of the model's inputs
  - {name: age, kind: integer, lower: 10, upper: 100}
  - {name: workclass, kind: categorical, values: [Federal-gov, Local-gov, Private], encoding: code}
  - {name: sex, kind: categorical, values: [Female, Male], protected: true}
  - {name: gain, kind: real, lower: 0, upper: 99999}
  - {name: housing, kind: categorical, values: [no, yes, 'true']}
"""


@pytest.fixture
def contract(tmp_path: Path) -> Path:
    path = tmp_path / "schema.yaml"
    path.write_text(CONTRACT)
    return path


def test_the_documented_file_reads(contract):
    schema = read_schema(contract)
    assert schema.names == ("age", "workclass", "sex", "gain", "housing")
    assert schema.protected == ("sex",)
    assert schema["housing"].values == ("no", "yes", "true")  # words, not booleans
    assert schema.width == 5
    assert schema.assignments().tolist() == [[0], [1]]


VALUES = st.one_of(st.text(max_size=6), st.integers(-5, 5), st.booleans(), st.floats(-9, 9))


def key(value):
    return isinstance(value, bool), value


@st.composite
def schemas(draw):
    names = draw(st.lists(st.text(min_size=1, max_size=8).filter(str.strip), min_size=3, max_size=6, unique=True))
    attributes = []
    for name in names[1:]:
        kind = draw(st.sampled_from(["categorical", "ordinal", "integer", "real", "bins"]))
        if kind in ("categorical", "ordinal"):
            values = draw(st.lists(VALUES, min_size=1, max_size=4, unique_by=key))
            one = {"kind": kind, "values": values, "encoding": draw(st.sampled_from(["code", "one-hot"]))}
        elif kind == "bins":
            edges = sorted(draw(st.lists(st.integers(-50, 50), min_size=2, max_size=5, unique=True)))
            one = {"kind": "ordinal", "edges": edges}
        else:
            low = draw(st.integers(-100, 100))
            one = {"kind": kind, "lower": low, "upper": low + draw(st.integers(0, 50))}
        attributes.append({"name": name, "missing": draw(st.sampled_from(["refuse", "keep", "drop"]))} | one)
    return Schema.parse({"target": {"name": names[0], "favourable": draw(VALUES)}, "attributes": attributes})


@given(schemas())
def test_yaml_round_trip(tmp_path_factory, schema):
    path = tmp_path_factory.mktemp("yaml") / "schema.yaml"
    write_schema(schema, path)
    assert read_schema(path) == schema


@pytest.mark.parametrize("odd", ["a\x85", "a\u2028b", "a\nb", "no", "2020-01-01"])
def test_yaml_round_trip_of_odd_words(tmp_path, odd):
    described = {"target": {"name": odd, "favourable": "x"}, "attributes": []}
    described["attributes"].append({"name": f"{odd}2", "kind": "categorical", "values": [odd, "b"]})
    schema = Schema.parse(described)
    write_schema(schema, tmp_path / "schema.yaml")
    assert read_schema(tmp_path / "schema.yaml") == schema


@pytest.mark.parametrize("word", ["01", "010", "1_000", "12:30", "0x1F", "+5", "=", "no", "2020-01-01"])
def test_yaml_words_that_are_not_plain_numbers_stay_words(tmp_path, word):
    path = tmp_path / "schema.yaml"
    path.write_text(
        f"target: {{name: y, favourable: 1}}\nattributes: [{{name: a, kind: categorical, values: [{word}, 5]}}]"
    )
    assert read_schema(path)["a"].values == (word, 5)


def test_yaml_faults_name_the_attribute(contract):
    cases = {
        "kind: real, lower: 0, upper: 99999": ("kind: real, lower: 0", "attribute 'gain': a real attribute needs"),
        "lower: 10, upper": ("lower: old, upper", "attribute 'age': lower: "),
        "name: workclass": ("name: age", "['age']"),
        "name: income": ("name: sex", "cannot also be an attribute"),
        "attributes:": ("atributes:", "did you mean 'attributes'?"),
        "kind: categorical": ("kind: [", "invalid YAML"),
        "target:": ("target: {}\ntarget:", "duplicate entry 'target'"),
    }
    for old, (new, complaint) in cases.items():
        contract.write_text(CONTRACT.replace(old, new, 1))
        with pytest.raises(SchemaError) as caught:
            read_schema(contract)
        assert complaint in str(caught.value)
        assert str(contract) in str(caught.value)


@pytest.mark.parametrize("content", [b"\xff\xfe\x00", b"", b"- a\n- b\n", b"just words"])
def test_no_schema_file_at_all(tmp_path, content):
    path = tmp_path / "s.yaml"
    path.write_bytes(content)
    with pytest.raises(SchemaError):
        read_schema(path)
    with pytest.raises(SchemaError, match="cannot be read"):
        read_schema(tmp_path / "absent.yaml")


def test_unknown_names_list_the_known(contract):
    with pytest.raises(SchemaError, match="there is no attribute 'gender'") as caught:
        read_schema(contract).with_protected(["gender"])
    assert "age, workclass, sex, gain, housing" in str(caught.value)


def test_assignments_are_bounded_and_need_two_values(contract):
    schema = read_schema(contract)
    assert len(schema.assignments(["age", "sex"])) == 182
    assert schema.assignments(["sex", "workclass"]).tolist() == [[0, 0], [0, 1], [0, 2], [1, 0], [1, 1], [1, 2]]
    with pytest.raises(OptionError, match="no attribute is protected"):
        schema.with_protected([]).assignments()
    wide = schema.model_dump(mode="json", exclude_defaults=True)
    wide["attributes"][0] |= {"upper": 20_000}
    with pytest.raises(OptionError, match="joint values"):
        Schema.parse(wide).assignments(["age"])
    wide["attributes"][0] |= {"upper": 10}
    with pytest.raises(OptionError, match="only one value"):
        Schema.parse(wide).assignments(["age"])


FRAME = pd.DataFrame(
    {"id": [f"u{i}" for i in range(200)], "age": [7 * i % 200 for i in range(200)], "hired": [0, 1] * 100}
)


def test_infer_guesses_and_refuses():
    assert infer_schema(FRAME, target="hired", ignore=["id"]).target.favourable == 1
    with pytest.raises(DataError, match="200 different values in 200 rows, an identifier or free text: passthrough"):
        infer_schema(FRAME, target="hired")
    with pytest.raises(DataError, match="only one class"):
        infer_schema(FRAME.assign(hired=1), target="hired", ignore=["id"])
    with pytest.raises(DataError, match="expected at most 50 labels"):
        infer_schema(FRAME, target="age", ignore=["id"], favourable=int(FRAME["age"].iloc[0]))
    assert infer_schema(FRAME, target="age", ignore=["id"]).target.kind == "number"
    with pytest.raises(DataError, match="expected a column of the data as `protected=`, got 'sex'"):
        infer_schema(FRAME, target="hired", protected=["sex"])
    words = FRAME.assign(hired=["abc", "xyz"] * 100)
    with pytest.raises(SchemaError, match="which label of 'hired' is favourable"):
        infer_schema(words, target="hired", ignore=["id"])
    assert infer_schema(words, target="hired", ignore=["id"], favourable="xyz").target.values == ("abc", "xyz")
    with pytest.raises(SchemaError, match="does not occur"):
        infer_schema(words, target="hired", ignore=["id"], favourable="nope")


def test_inputs_concatenate_encodings():
    schema = small_schema(c="a b", n=(0, 9)).with_encodings({"c": "one-hot", "n": {"offset": 1, "scale": 2}})
    assert schema.inputs(np.array([[1.0, 5.0]])).tolist() == [[0, 1, 2]]
    assert "offset" in schema_to_yaml(schema)


def integer(**more: object) -> Attribute:
    return Attribute.model_validate({"name": "age", "kind": "integer", "lower": 10, "upper": 100} | more)


def test_bounds_and_size_of_an_integer():
    age = integer()
    assert (age.first, age.last, age.size, age.width) == (10, 100, 91, 1)
    assert age.contains(np.array([9, 10, 10.5, 100, 101, np.nan])).tolist() == [False, True, False, True, False, False]


def test_real_has_no_list_of_values():
    rate = Attribute(name="rate", kind="real", lower=0, upper=1)
    assert rate.size is None
    assert rate.contains(np.array([0.3])).all()
    with pytest.raises(ValueError, match="rate"):
        rate.domain()


def test_edges_name_their_bins():
    gain = Attribute(name="gain", kind="ordinal", edges=(0, 10, 20, 99.5))
    assert gain.values == ("0 to 10", "10 to 20", "20 to 99.5")
    assert gain.ordered


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"kind": "categorical"}, "values"),
        ({"kind": "categorical", "values": ["a", "a"]}, "values"),
        ({"kind": "categorical", "values": ["a"], "lower": 0}, "lower"),
        ({"kind": "integer", "lower": 0}, "upper"),
        ({"kind": "integer", "lower": 0.5, "upper": 2}, "bounds"),
        ({"kind": "integer", "lower": 3, "upper": 2}, "lower"),
        ({"kind": "integer", "lower": 0, "upper": 2**60}, "2\\*\\*53"),
        ({"kind": "real", "lower": 0, "upper": float("nan")}, "upper"),
        ({"kind": "real", "lower": 0, "upper": 1, "protected": True}, "edges"),
        ({"kind": "ordinal", "edges": [0, 2, 1]}, "edges"),
        ({"kind": "categorical", "values": ["a", "b"], "edges": [0, 1, 2]}, "edges"),
        ({"kind": "categorical", "values": ["a", "b"], "encoding": [1.0]}, "encoding"),
        ({"kind": "categorical", "values": ["a", "b"], "encoding": "value"}, "encoding"),
        ({"kind": "integer", "lower": 0, "upper": 1, "encoding": "one-hot"}, "encoding"),
        ({"kind": "categorical", "values": ["a", "b"], "protected": True, "missing": "keep"}, "missing"),
        ({"kind": "categorical", "values": ["a", "b"], "colour": "red"}, "colour"),
        ({"kind": "nominal", "values": ["a", "b"]}, "kind"),
    ],
)
def test_rejects_contradictory_fields(fields, field):
    with pytest.raises(ValidationError, match=field):
        Attribute.model_validate({"name": "x"} | fields)


def test_true_and_one_are_two_values():
    flag = Attribute(name="flag", kind="categorical", values=(True, 1))
    assert flag.size == 2


@given(st.lists(st.integers(0, 3), min_size=1, max_size=20))
def test_one_hot_has_a_single_one_at_the_code(codes):
    colour = Attribute(name="colour", kind="categorical", values=("r", "g", "b", "k"), encoding="one-hot")
    inputs = colour.inputs(np.array(codes, dtype=float))
    assert inputs.shape == (len(codes), 4)
    assert (inputs.sum(axis=1) == 1).all()
    assert inputs.argmax(axis=1).tolist() == codes


def test_affine_and_listed_encodings():
    age = integer(encoding={"offset": 10, "scale": 90})
    assert isinstance(age.encoding, AffineEncoding)
    assert age.inputs(np.array([10.0, 55.0, 100.0])).ravel().tolist() == [0, 0.5, 1]
    risk = Attribute(name="risk", kind="ordinal", values=("low", "high"), encoding=(-1.0, 3.5))
    assert risk.inputs(np.array([1.0, 0.0])).ravel().tolist() == [3.5, -1.0]


def test_entries_in_words():
    colour = Attribute(name="colour", kind="categorical", values=("red", "green"))
    assert (colour.text(1.0), colour.text(np.nan), integer().text(33.0)) == ("green", "missing", "33")


ROLE_FRAME = pd.DataFrame({"age": [20, 30, 40, 50], "sex": list("fmfm"), "hired": ["yes", "no", "yes", "no"]})
SCHEMA = infer_schema(ROLE_FRAME, target="hired", protected=["sex"], favourable="yes")


@pytest.mark.parametrize(
    "roles",
    [
        {"schema": SCHEMA, "ignore": ["age"]},
        {"schema": SCHEMA, "ignore": ["hired"]},
        {"target": "hired", "protected": ["sex"], "favourable": "yes", "ignore": ["hired"]},
        {"schema": SCHEMA, "unfavourable": ["yes"]},
        {"schema": SCHEMA, "unfavourable": ["no", "maybe"]},
    ],
)
def test_contradictions_are_refused(roles):
    with pytest.raises(OptionError):
        ColumnRoles(**roles).read(ROLE_FRAME)


@pytest.mark.parametrize("roles", [{"ignore": ["name"]}, {"unfavourable": ["no"]}])
def test_what_a_schema_agrees_with_is_taken(roles):
    people = ColumnRoles(schema=SCHEMA, **roles).read(ROLE_FRAME.assign(name=list("abcd")))
    assert people.schema == SCHEMA
    assert len(people) == 4

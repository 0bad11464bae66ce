from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenhand.errors import DataError, OptionError, SchemaError
from evenhand.schema import Schema, infer_schema, read_schema, schema_to_yaml, write_schema
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


def names_strategy():
    return st.lists(st.text(min_size=1, max_size=8).filter(str.strip), min_size=3, max_size=6, unique=True)


VALUES = st.one_of(st.text(max_size=6), st.integers(-5, 5), st.booleans(), st.floats(-9, 9))


def key(value):
    return isinstance(value, bool), value


@st.composite
def schemas(draw):
    names = draw(names_strategy())
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

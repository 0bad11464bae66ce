"""People read from a table, and columns as codes."""

import math

import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from evenhand.errors import DataError
from evenhand.schema import Schema, decode, encode, infer_schema
from evenhand.schema.table import CodedColumn, CodedTable, is_missing
from support import scaled, small_schema

FRAME = pd.DataFrame(
    {
        "sex": ["Female", "Male", "Male", "Female"],
        "age": [20, 30, 40, 50],
        "gain": [0.0, 12.5, 99.0, 50.0],
        "married": [True, False, True, True],
        "income": ["low", "high", "low", "low"],
    }
)
GAIN = {"kind": "ordinal", "edges": [0, 10, 50, 100]}
SCHEMA = small_schema("low high", target="income", age=(18, 60), sex="Female Male *", gain=GAIN, married=[False, True])


@pytest.fixture(params=["pandas", "polars", "pyarrow"])
def frame(request):
    return {"pandas": FRAME, "polars": pl.from_pandas(FRAME), "pyarrow": pa.Table.from_pandas(FRAME)}[request.param]


def test_every_frame_reads_the_same(frame):
    people = encode(SCHEMA, frame)
    assert people.individuals.tolist() == [[20, 0, 0, 1], [30, 1, 1, 0], [40, 1, 2, 1], [50, 0, 2, 1]]
    assert people.schema.target.values == ("low", "high")
    assert people.favourable.tolist() == [False, True, False, False]
    assert people.dropped == 0


def test_decode_gives_back_the_users_kind_and_types(frame):
    back = decode(SCHEMA, encode(SCHEMA, frame).individuals, like=frame)
    assert type(back) is type(frame)
    as_pandas = back if isinstance(back, pd.DataFrame) else back.to_pandas()
    for name in ("age", "sex", "married"):
        assert as_pandas[name].tolist() == FRAME[name].tolist()
    assert as_pandas["gain"].tolist() == [5.0, 30.0, 75.0, 75.0]  # midpoints of the bins


def mutilated(column, row, value):
    frame = FRAME.astype(object)
    frame.loc[row, column] = value
    return frame


@pytest.mark.parametrize(
    ("column", "row", "value", "complaint"),
    [
        ("sex", 2, "X", "column 'sex' has values that are not listed: 'X' (1 row, first in row 3)"),
        ("sex", 1, None, "column 'sex', row 2: expected a value, got an empty cell"),
        ("age", 0, 17, "column 'age', row 1: expected a whole number from 18 to 60, got 17"),
        ("age", 0, 20.5, "column 'age', row 1: expected a whole number from 18 to 60, got 20.5"),
        ("age", 3, "old", "column 'age', row 4: expected a finite number, got 'old'"),
        ("age", 3, float("inf"), "column 'age', row 4: expected a finite number, got inf"),
        ("age", 3, float("nan"), "column 'age', row 4: expected a value, got an empty cell"),
        ("gain", 2, 100.5, "column 'gain', row 3: expected a number in its bins, 0 to 100, got 100.5"),
        ("married", 2, 1, "column 'married' has values that are not listed: 1 (1 row, first in row 3)"),
        ("income", 2, None, "column 'income', row 3: expected a label, got an empty cell"),
    ],
)
def test_errors_name_column_row_and_value(column, row, value, complaint):
    with pytest.raises(DataError) as caught:
        encode(SCHEMA, mutilated(column, row, value), location="people.csv")
    assert complaint in str(caught.value)
    assert str(caught.value).startswith("people.csv: ")


def test_missing_values_are_dropped_or_kept_as_the_schema_says():
    described = SCHEMA.model_dump(mode="json", exclude_defaults=True)
    described["missing_markers"] = ["?"]
    described["attributes"][0]["missing"] = "drop"
    described["attributes"][2]["missing"] = "keep"
    schema = Schema.parse(described)
    frame = FRAME.astype(object)
    frame.loc[0, "age"] = "?"
    frame.loc[1, "gain"] = None
    people = encode(schema, frame)
    assert (len(people), people.dropped, people.rows.tolist()) == (3, 1, [1, 2, 3])
    assert np.isnan(people.individuals[0, 2])
    assert decode(schema, people.individuals)["gain"].isna().tolist() == [True, False, False]


def test_a_dropped_row_may_hold_anything_else():
    described = SCHEMA.model_dump(mode="json", exclude_defaults=True)
    described["attributes"][0]["missing"] = "drop"
    frame = FRAME.astype(object)
    frame.loc[0, "age"] = None
    frame.loc[0, "sex"] = "never seen"
    people = encode(Schema.parse(described), frame)
    assert people.rows.tolist() == [1, 2, 3]
    frame.loc[0, "age"] = 20
    with pytest.raises(DataError, match="not listed: 'never seen'"):
        encode(Schema.parse(described), frame)


@given(st.data())
def test_decode_then_encode_is_the_identity(data):
    rows = data.draw(st.integers(1, 8))
    columns = [
        st.lists(st.sampled_from(attribute.domain()), min_size=rows, max_size=rows) for attribute in SCHEMA.attributes
    ]
    individuals = np.stack([np.array(data.draw(column)) for column in columns], axis=1)
    assert (encode(SCHEMA, decode(SCHEMA, individuals)).individuals == individuals).all()


def test_inferred_schema_reads_its_own_data(frame):
    schema = infer_schema(frame, target="income", protected=["sex"], favourable="high")
    assert [attribute.kind for attribute in schema.attributes] == ["categorical", "integer", "real", "categorical"]
    people = encode(schema, frame)
    assert len(people) == 4


MIXED = st.sampled_from([True, False, 1, 0, 1.0, 2, "a", " a ", "b", "?", " ? ", None, float("nan"), np.int64(2), [1]])


@settings(max_examples=scaled(200), deadline=None)
@given(st.lists(MIXED, min_size=1, max_size=6), st.sampled_from(["keep", "drop"]))
@example([True, 1, 0, False], "keep")
@example([1, [1], 1], "keep")
@example(["a", " ? ", "a", None], "drop")
def test_a_column_is_read_like_each_of_its_values_alone(values, missing):
    def read(some):
        frame = pd.DataFrame({"x": pd.Series(some, dtype=object), "y": "no"})
        return encode(schema, frame)

    x = {"name": "x", "kind": "categorical", "values": [True, 1, 0, "a", "b"], "missing": missing}
    target = {"name": "y", "favourable": "no", "values": ["no", "yes"]}
    schema = Schema.parse({"target": target, "missing_markers": ["?"], "attributes": [x]})
    alone, refused = [], ""
    for row, value in enumerate(values):
        try:
            alone.append(read([value]).individuals[0, 0])
        except DataError as error:
            refused = refused or ("no row is left" not in str(error) and f"row {row + 1}")
    if refused or not alone:
        with pytest.raises(DataError, match=refused or "no row is left"):
            read(values)
    else:
        np.testing.assert_array_equal(read(values).individuals[:, 0], alone)


def test_integer_values_are_decoded_as_integers():
    attribute = {"name": "code", "kind": "categorical", "values": [10, 20]}
    schema = Schema.parse({"target": {"name": "y", "favourable": 1}, "attributes": [attribute]})
    frame = decode(schema, np.array([[1.0], [0.0]]))
    assert frame["code"].tolist() == [20, 10]
    assert frame["code"].dtype.kind == "i"
    missing = decode(schema, np.array([[1.0], [np.nan]]))["code"].tolist()
    assert missing[0] == 20
    assert np.isnan(missing[1])


WORDS = st.lists(st.one_of(st.none(), st.sampled_from(["a", "b", " a", "", "é", "1"])), min_size=1, max_size=30)
NUMBERS = st.lists(st.one_of(st.just(math.nan), st.sampled_from([0.0, -0.0, 1.5, -3.0, 1e300])), min_size=1)
COLUMNS_MIXED = st.lists(st.sampled_from([True, 1, 0, False, "1", 1.0, None]), min_size=1, max_size=20)


def same(one, other):
    return (is_missing(one) and is_missing(other)) or (
        one == other and isinstance(one, bool) == isinstance(other, bool)
    )


def as_read(column):
    """Blank cells are missing, and beside numbers the word "1" is the number 1."""
    numeric = any(isinstance(value, int | float) and not isinstance(value, bool) for value in column)
    values = [None if isinstance(value, str) and not value.strip() else value for value in column]
    return [1 if numeric and value == "1" else value for value in values]


def frames(column):
    yield pd.DataFrame({"x": pd.Series(column, dtype=object)})
    if not {type(value) for value in column} <= {str, type(None)}:
        return
    yield pd.DataFrame({"x": column})
    yield pd.DataFrame({"x": pd.Categorical(column)})
    polars = pytest.importorskip("polars", reason="needs the extra polars")
    pyarrow = pytest.importorskip("pyarrow", reason="needs the extra parquet")
    yield polars.DataFrame({"x": polars.Series(column, dtype=polars.String)})
    yield polars.DataFrame({"x": polars.Series(column, dtype=polars.Categorical)})
    yield pyarrow.table({"x": pyarrow.array(column, pyarrow.string())})
    yield pyarrow.table({"x": pyarrow.array(column, pyarrow.string()).dictionary_encode()})
    yield pyarrow.table({"x": pyarrow.array(column, pyarrow.dictionary(pyarrow.uint8(), pyarrow.string()))})


@given(WORDS | COLUMNS_MIXED)
def test_every_row_has_its_value(column):
    for frame in frames(column):
        coded = CodedColumn.read(nw.from_native(frame, eager_only=True)["x"])
        assert len(coded) == len(column)
        values = as_read(column)
        assert all(same(coded.at(row), value) for row, value in enumerate(values))
        assert coded.missing().tolist() == [value is None for value in values]
        assert coded.map(lambda value: value == "a").tolist() == [value == "a" for value in column]


@given(NUMBERS)
def test_numbers_are_found_in_ascending_order_and_missing_ones_last(column):
    coded = CodedColumn.read(nw.from_native(pd.DataFrame({"x": column}))["x"])
    assert all(same(coded.coding.values[code], value) for code, value in zip(coded.coding.codes, column, strict=True))
    known = [value for value in coded.coding.values if not math.isnan(value)]
    assert known == sorted(set(known))
    assert len(coded.coding.values) - len(known) == any(map(math.isnan, column))
    assert np.array_equal(coded.numbers(math.sqrt), column, equal_nan=True)


def test_where_rows_were_counted_a_bad_value_is_named_with_how_many_rows_have_it():
    schema = small_schema(age=(0, 99))
    frame = pd.DataFrame({"age": [30, 200, 31]})
    people = encode(schema, CodedTable(frame.drop(index=1), np.array([5, 7])))
    assert (len(people), people.size, people.counts.tolist()) == (2, 12, [5, 7])
    with pytest.raises(DataError, match="row 2: expected a whole number from 0 to 99, got 200"):
        encode(schema, frame)
    with pytest.raises(DataError, match="'age', 4,000 rows: expected a whole number from 0 to 99, got 200"):
        encode(schema, CodedTable(frame, np.array([1, 4000, 2])))


def test_a_table_does_not_keep_the_distinct_numbers_of_its_columns():
    table = CodedTable(pd.DataFrame({"x": np.arange(50) / 7, "sex": ["f", "m"] * 25, "y": [0, 1] * 25}))
    encode(infer_schema(table, target="y", protected=["sex"]), table)
    assert "_code_values" not in vars(table["x"])

"""Columns by their different values say of every row what the row itself would say, whatever library holds them."""

import math

import narwhals as nw
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenhand.errors import DataError
from evenhand.schema import encode, infer_schema
from evenhand.schema.table import CodedColumn, CodedTable, is_missing
from support import small_schema

WORDS = st.lists(st.one_of(st.none(), st.sampled_from(["a", "b", " a", "", "é", "1"])), min_size=1, max_size=30)
NUMBERS = st.lists(st.one_of(st.just(math.nan), st.sampled_from([0.0, -0.0, 1.5, -3.0, 1e300])), min_size=1)
MIXED = st.lists(st.sampled_from([True, 1, 0, False, "1", 1.0, None]), min_size=1, max_size=20)


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


@given(WORDS | MIXED)
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

"""Columns that are given as arguments: every documented form, and one error for each mistake."""

from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import evenhand
from evenhand.errors import DataError, EvenhandError, OptionError
from evenhand.schema.arrays import check_index, read_column, read_columns

COLUMNS = {
    "list": list,
    "tuple": tuple,
    "array": np.array,
    "array of objects": lambda values: np.array(values, dtype=object),
    "array of one column": lambda values: np.array(values).reshape(-1, 1),
    "masked array": np.ma.array,
    "pandas": pd.Series,
    "pandas, shifted index": lambda values: pd.Series(values, index=range(5, 5 + len(values))),
    "pandas category": lambda values: pd.Series(values, dtype="category"),
    "pandas categorical": pd.Categorical,
    "pandas index": pd.Index,
    "pandas nullable": lambda values: pd.Series(values).convert_dtypes(),
    "pandas frame of one column": lambda values: pd.DataFrame({"only": values}),
    "polars": pl.Series,
    "polars frame of one column": lambda values: pl.DataFrame({"only": values}),
    "arrow": pa.array,
}
TABLES = {
    "mapping": dict,
    "mapping of Series": lambda table: {name: pd.Series(values) for name, values in table.items()},
    "pandas": pd.DataFrame,
    "polars": pl.DataFrame,
    "arrow": pa.table,
}
SEX, RACE = ["F"] * 40 + ["M"] * 60, ["a", "b"] * 50
DECISIONS = [1] * 10 + [0] * 30 + [1] * 30 + [0] * 30
TRUTH = [1, 0, 0, 1, 1] * 20


def measures(result):
    """Return every number about groups."""
    return result.groups.overall, [
        (one.gaps, [group.metrics for group in one.groups]) for one in result.groups.breakdowns
    ]


EXPECTED = measures(evenhand.audit_predictions(TRUTH, DECISIONS, SEX))


@pytest.fixture(params=COLUMNS.values(), ids=COLUMNS)
def make_column(request):
    return request.param


@pytest.fixture(params=TABLES.values(), ids=TABLES)
def make_table(request):
    return request.param


@pytest.mark.parametrize("values", [["x", "y", "x"], [3, 1, 2], [0.5, 1.5, 2.5], [True, False, True]])
def test_reads_every_kind_of_column(make_column, values):
    assert list(read_column("y_pred", make_column(values))) == values


def test_every_kind_of_column_gives_the_same_numbers(make_column):
    arrays = [make_column(values) for values in (TRUTH, DECISIONS, SEX)]
    assert measures(evenhand.audit_predictions(*arrays)) == EXPECTED


@pytest.mark.parametrize(
    "make_missing", [pl.Series, pa.array, pd.Series, np.array, lambda values: pd.Series(values, dtype="Int64")]
)
def test_missing_values_do_not_turn_whole_numbers_into_fractions(make_missing):
    features = {"code": make_missing([1, 2, None, 1] * 25)}
    (codes,) = evenhand.audit_predictions(DECISIONS, sensitive_features=features).groups.breakdowns
    assert {group.label for group in codes.groups} == {"1", "2"}


@pytest.mark.parametrize("make", [list, pl.Series, pa.array, lambda values: pd.DataFrame({"x": values})])
def test_decimals_are_numbers(make):
    arrays = [make([Decimal(value).quantize(Decimal("0.00")) for value in labels]) for labels in (TRUTH, DECISIONS)]
    assert measures(evenhand.audit_predictions(*arrays, SEX)) == EXPECTED


def test_ages_cut_into_intervals_are_ordered_groups():
    ages = pd.cut(pd.Series([20] * 40 + [50] * 50 + [95] * 10), [0, 30, 60, 90])
    (groups,) = evenhand.audit_predictions(DECISIONS, sensitive_features={"age": ages}).groups.breakdowns
    assert {group.label: group.size for group in groups.groups} == {"(0, 30]": 40, "(30, 60]": 50}


def test_a_masked_value_is_missing():
    masked = np.ma.array([1, 2, 3], mask=[False, True, False])
    assert read_column("y_true", masked).tolist() == [1, None, 3]


def test_reads_every_kind_of_table(make_table):
    columns = read_columns("sensitive_features", make_table({"sex": SEX, "race": RACE}))
    assert {name: list(column) for name, column in columns.items()} == {"sex": SEX, "race": RACE}
    result = evenhand.audit_predictions(DECISIONS, sensitive_features=make_table({"sex": SEX}))
    assert result.groups.breakdowns[0].by == ("sex",)


def test_an_array_of_several_columns_is_numbered():
    columns = read_columns("sensitive_features", np.array([SEX, RACE]).T)
    assert {name: list(column) for name, column in columns.items()} == {
        "sensitive_feature_0": SEX,
        "sensitive_feature_1": RACE,
    }


@pytest.mark.parametrize("name", [0, np.int64(3), "sex"])
def test_an_integer_name_is_text(name):
    for table in (pd.DataFrame({name: SEX}), {name: SEX}, pd.Series(SEX, name=name)):
        columns = read_columns("sensitive_features", table)
        assert {column: list(values) for column, values in columns.items()} == {str(name): SEX}


NAMES = {
    "duplicate": [["sex", "sex"]],
    "duplicate after conversion": [["0", 0]],
    "two levels": [[("d", "sex"), ("d", "race")]],
    "missing": [["sex", np.nan]],
    "dates": [list(pd.date_range("2020", periods=2))],
    "fractions": [[0.5, 1.5]],
}


@pytest.mark.parametrize("names", [case[0] for case in NAMES.values()], ids=NAMES)
def test_bad_column_names_are_one_error_everywhere(names):
    frame = pd.DataFrame(np.array([SEX, RACE]).T)
    frame.columns = pd.MultiIndex.from_tuples(names) if isinstance(names[0], tuple) else names
    scores = pd.DataFrame(np.full((100, 2), 0.5), columns=frame.columns)
    calls = {
        "sensitive_features": lambda: evenhand.audit_predictions(DECISIONS, sensitive_features=frame),
        "rankings": lambda: evenhand.audit_rankings(range(1, 101), sensitive_features=frame),
        "membership": lambda: evenhand.audit_predictions(
            DECISIONS, sensitive_features=SEX, membership={"race": scores}
        ),
        "model": lambda: evenhand.find_subgroups(lambda people: DECISIONS, frame, DECISIONS, protected=["sex"]),
        "named": lambda: evenhand.audit_predictions("sex", sensitive_features=["race"], data=frame),
    }
    for name, call in calls.items():
        with pytest.raises(DataError, match="column names") as caught:
            call()
        assert caught.value.hint, name


@given(st.permutations(range(6)), st.data())
def test_equal_indices_pass_and_any_other_index_is_refused(index, data):
    left = pd.Series(range(6), index=index)
    check_index(y_true=left, y_pred=left * 2, sensitive_features={"sex": left.astype(str), "race": list("abcabc")})
    other = data.draw(st.permutations(index).filter(lambda labels: list(labels) != list(index)))
    first = next(row for row, pair in enumerate(zip(index, other, strict=True), start=1) if pair[0] != pair[1])
    for right in (pd.Series(range(6), index=other), pd.DataFrame({"sex": range(6)}, index=other)):
        with pytest.raises(
            DataError, match=f"row {first} is labelled {index[first - 1]} .* {other[first - 1]} in"
        ) as error:
            check_index(y_true=left, sensitive_features=right)
        assert "`y_true=`" in error.value.message
        assert "`sensitive_features=`" in error.value.message
        with pytest.raises(DataError, match="sensitive_features"):
            check_index(y_true=left, sensitive_features={"sex": right})


def test_repeated_and_missing_labels_are_an_index_like_any_other():
    index = [1, 1, np.nan, 2]
    check_index(y_true=pd.Series(range(4), index=index), y_pred=pd.Series(range(4), index=index))
    missing = pd.Series(range(2), index=pd.Index([1, None], dtype="Int64"))
    check_index(y_true=missing, y_pred=missing.set_axis([1, np.nan]))
    with pytest.raises(DataError, match=r"row 2 is labelled None .* and 2 in"):
        check_index(y_true=missing, y_pred=missing.set_axis([1, 2]))
    check_index(y_true=pd.Series(range(4), index=pd.RangeIndex(4)), y_pred=pd.Series(range(4), index=[0, 1, 2, 3]))


SHUFFLED = pd.RangeIndex(99, -1, -1)
PEOPLE = pd.DataFrame({"sex": SEX, "skill": np.arange(100)})


def shift(values):
    return pd.Series(values, index=SHUFFLED)


@pytest.mark.parametrize(
    "call",
    [
        lambda: evenhand.audit_predictions(pd.Series(TRUTH), shift(DECISIONS), SEX),
        lambda: evenhand.audit_predictions(TRUTH, pd.Series(DECISIONS), PEOPLE.set_axis(SHUFFLED)),
        lambda: evenhand.audit_predictions(DECISIONS, sensitive_features={"a": shift(SEX), "b": pd.Series(RACE)}),
        lambda: evenhand.audit_predictions(
            pd.Series(DECISIONS), sensitive_features=SEX, membership={"r": {"a": shift([0.5] * 100), "b": [0.5] * 100}}
        ),
        lambda: evenhand.audit_rankings(pd.Series(range(1, 101)), sensitive_features=shift(SEX)),
        lambda: evenhand.find_subgroups(lambda people: TRUTH, PEOPLE, shift(DECISIONS), protected=["sex"]),
        lambda: evenhand.search(lambda people: TRUTH, PEOPLE, shift(DECISIONS), protected=["sex"]),
        lambda: evenhand.audit(
            lambda people: TRUTH, PEOPLE, DECISIONS, protected=["sex"], sample_weight=shift([1.0] * 100)
        ),
        lambda: evenhand.mitigate(lambda people: TRUTH, PEOPLE, shift(DECISIONS), protected=["sex"]),
        lambda: evenhand.metrics.FairnessThreshold().fit(PEOPLE[["skill"]], shift(TRUTH), sensitive_features=SEX),
        lambda: evenhand.metrics.FairnessThreshold().fit(PEOPLE[["skill"]], TRUTH, sensitive_features=shift(SEX)),
    ],
)
def test_every_function_refuses_rows_in_a_different_order(call):
    with pytest.raises(DataError, match=r"the index of .* differs from the index of"):
        call()


def test_probabilities_of_groups_need_one_value_per_row():
    with pytest.raises(DataError, match="number of rows"):
        evenhand.audit_predictions(DECISIONS, sensitive_features=SEX, membership={"r": {"a": [0.5] * 100, "b": [0.5]}})


def test_positional_arguments_are_true_labels_decisions_and_features():
    by_name = evenhand.audit_predictions(DECISIONS, y_true=TRUTH, sensitive_features=SEX)
    named = evenhand.audit_predictions(y_pred=DECISIONS, y_true=TRUTH, sensitive_features=SEX)
    two = evenhand.audit_predictions(TRUTH, DECISIONS, sensitive_features=SEX)
    assert measures(by_name) == measures(named) == measures(two) == EXPECTED
    assert "accuracy" not in evenhand.audit_predictions(DECISIONS, sensitive_features=SEX).groups.overall


@pytest.mark.parametrize(
    ("arrays", "named"),
    [
        ((TRUTH, DECISIONS, SEX, RACE), {}),
        ((TRUTH, DECISIONS), {}),
        ((TRUTH, DECISIONS, SEX), {"y_pred": DECISIONS}),
        ((TRUTH, DECISIONS), {"y_true": TRUTH, "sensitive_features": SEX}),
        ((DECISIONS,), {"y_pred": DECISIONS, "sensitive_features": SEX}),
        ((TRUTH, DECISIONS, SEX), {"sensitive_features": SEX}),
    ],
)
def test_too_many_arguments_and_the_same_argument_twice_are_refused(arrays, named):
    with pytest.raises(OptionError):
        evenhand.audit_predictions(*arrays, **named)


NOT_COLUMNS = {
    "generator": (value for value in DECISIONS),
    "iterator": iter(DECISIONS),
    "set": {0, 1},
    "mapping": {"a": DECISIONS},
    "text": "selected",
    "number": 1,
    "array without a dimension": np.array(1),
    "two columns": np.zeros((100, 2)),
    "three dimensions": np.zeros((100, 1, 1)),
    "rows of different lengths": [[0], [1, 0]] * 50,
    "two columns of a frame": PEOPLE,
    "lazy frame": pl.LazyFrame({"a": DECISIONS}),
    "structured array": np.zeros(100, dtype=[("a", int)]),
    "fewer rows": DECISIONS[1:],
    "no rows": [],
    "model": object(),
}


@pytest.mark.parametrize("argument", ["y_true", "y_pred", "y_score", "sample_weight", "sensitive_features"])
@pytest.mark.parametrize("values", NOT_COLUMNS.values(), ids=NOT_COLUMNS)
def test_what_is_not_a_column_is_refused_with_the_name_of_its_argument(argument, values):
    arguments = {"y_pred": DECISIONS, "sensitive_features": {"sex": SEX}, argument: values}
    if argument == "sensitive_features":
        arguments[argument] = {"sex": values}
    with pytest.raises(EvenhandError, match=argument):
        evenhand.audit_predictions(**arguments)

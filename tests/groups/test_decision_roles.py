"""Decisions already made are read from a table: which label is wanted, what is left out, and what is refused."""

import itertools

import numpy as np
import pandas as pd
import polars as pl
import pytest

from evenhand.errors import DataError, EvenhandError, OptionError, SchemaError
from evenhand.groups import DecisionRoles
from evenhand.groups.roles import table_of_decisions
from evenhand.schema import Schema
from evenhand.schema.outcome import OutcomeRole

TABLE = {
    "sex": ["F", "M", "F", "M", None],
    "selected": ["yes", "no", "no", None, "yes"],
    "hired": ["no", "no", "yes", "yes", "yes"],
    "score": [0.9, 0.1, 0.2, 0.3, 0.7],
    "notes": [["any"], "thing", 3, None, "else"],
}


def read(frame=None, **roles):
    return DecisionRoles(**{"decision": "selected", "protected": ["sex"], **roles}).read(
        pd.DataFrame(TABLE) if frame is None else frame
    )


def test_rows_without_a_decision_are_left_out_and_counted_and_other_columns_are_not_looked_at():
    found = read(score="score")
    assert found.selected.tolist() == [True, False, False, True]
    assert found.people.undecided == 1
    assert found.people.rows.tolist() == [0, 1, 2, 4]
    assert found.people.labels is None
    assert found.scores.tolist() == [0.9, 0.1, 0.2, 0.7]
    assert [found.people.schema["sex"].text(entry) for entry in found.people.individuals[:, 0]] == [
        "F",
        "M",
        "F",
        "missing",
    ]
    assert found.people.count_unknown() == {"sex": 1}
    assert found.people.is_known(["sex"]).tolist() == [True, True, True, False]


def test_errors_count_rows_of_the_table_and_not_of_the_decisions():
    frame = pd.DataFrame({"sex": ["F", "M", "F", "X"], "selected": [None, "yes", "no", "yes"]})
    described = {"target": {"name": "selected", "favourable": "yes"}, "attributes": []}
    described["attributes"].append({"name": "sex", "kind": "categorical", "values": ["F", "M"]})
    with pytest.raises(DataError, match=r"'X'.*row 4"):
        read(frame, schema=Schema.parse(described))


def test_a_table_of_counts_is_refused_unless_they_are_weights():
    cells = itertools.product(["F", "M"], ["A", "B", "C"], ["no", "yes"])
    frame = pd.DataFrame([*cells], columns=["sex", "race", "hired"]).assign(people=range(3, 15))[:-1]
    with pytest.raises(DataError, match="column 'people' seems to count people"):
        DecisionRoles("hired", ["sex"]).read(frame)
    assert DecisionRoles("hired", ["sex"], weight="people").read(frame).people.size == 11
    assert DecisionRoles("hired", ["sex"]).read(pd.concat([frame, frame])).people.size == 22


def test_true_labels_need_not_be_written_like_decisions():
    frame = pd.DataFrame(TABLE).assign(hired=[0, 0, 1, 1, np.nan])
    found = read(frame, target="hired")
    assert (found.people.undecided, found.people.unlabelled) == (1, 1)
    assert found.people.true_labels.tolist() == [0, 0, 1, -1]
    assert found.selected.tolist() == [True, False, False, True]


@pytest.mark.parametrize(
    ("decisions", "favourable", "selected", "labels"),
    [
        ([1, 0, 1], None, [True, False, True], (0, 1)),
        ([1.0, 0.0, 1.0], 1, [True, False, True], (0.0, 1.0)),
        ([True, False, True], None, [True, False, True], (False, True)),
        ([1, 1, 1], None, [True, True, True], (0, 1)),
        ([0, 0, 0], None, [False, False, False], (0, 1)),
        (["no", "no", "no"], "yes", [False, False, False], ("no", "yes")),
        (["yes", "yes", "yes"], "yes", [True, True, True], ("no", "yes")),
    ],
)
def test_which_decision_is_wanted(decisions, favourable, selected, labels):
    frame = pd.DataFrame({"sex": ["F", "M", "F"], "selected": decisions})
    found = read(frame, favourable=favourable)
    assert found.selected.tolist() == selected
    assert found.people.schema.target.values == labels


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame])
def test_any_data_frame_is_read(make):
    frame = make({name: values for name, values in TABLE.items() if name != "notes"})
    assert read(frame, target="hired", score="score").selected.tolist() == [True, False, False, True]


@pytest.mark.parametrize(
    ("roles", "error", "words"),
    [
        ({"decision": "selectd"}, DataError, "did you mean 'selected'"),
        ({"protected": []}, OptionError, "protected"),
        ({"protected": "sex"}, OptionError, "list of distinct names"),
        ({"protected": ["selected"]}, OptionError, "twice"),
        ({"target": "selected"}, OptionError, "twice"),
        ({"favourable": "yess"}, SchemaError, "does not occur"),
        ({"favourable": "1", "outcome": OutcomeRole("label")}, SchemaError, "does not occur"),
        ({"decision": "score"}, SchemaError, "which label"),
        ({"score": "hired"}, DataError, "expected a finite number"),
        ({"protected": ["notes"]}, DataError, "list values"),
    ],
)
def test_what_cannot_be_used_is_refused_in_one_message(roles, error, words):
    with pytest.raises(error) as caught:
        read(**roles)
    assert words in str(caught.value).lower()


def test_scores_in_place_of_decisions_and_missing_scores_are_named():
    frame = pd.DataFrame({"sex": ["F", "M"] * 30, "selected": np.linspace(0, 1, 60)})
    with pytest.raises(DataError, match="60 different values"):
        read(frame, favourable=1)
    with pytest.raises(DataError, match=r"row 3.*finite number"):
        read(pd.DataFrame(TABLE).assign(score=[0.1, 0.2, np.nan, 0.4, 0.5]), score="score")


def test_a_schema_says_what_the_protected_columns_mean():
    schema = Schema.parse(
        {
            "target": {"name": "income", "favourable": "high", "values": ["low", "high"]},
            "attributes": [
                {"name": "age", "kind": "ordinal", "edges": [0, 40, 99], "protected": True},
                {"name": "city", "kind": "categorical", "values": ["a", "b"]},
            ],
        }
    )
    frame = pd.DataFrame({"age": [20, 50, 30], "selected": [1, 0, 1]})
    found = DecisionRoles("selected", schema=schema).read(frame)
    assert found.people.schema.names == ("age",)
    assert found.people.individuals[:, 0].tolist() == [0, 1, 0]
    with pytest.raises(EvenhandError, match="no attribute 'sex'"):
        DecisionRoles("selected", ["sex"], schema=schema).read(frame.assign(sex="F"))


@pytest.mark.parametrize(
    ("features", "names"),
    [
        ({"sex": ["F", "M"], "age": [3, 4]}, ("sex", "age")),
        (pd.DataFrame({"sex": ["F", "M"]}, index=[5, 6]), ("sex",)),
        (pd.Series(["F", "M"], name="sex", index=[5, 6]), ("sex",)),
        (pl.Series("sex", ["F", "M"]), ("sex",)),
        (["F", "M"], ("sensitive_feature_0",)),
        (np.array([["F", "a"], ["M", "b"]]), ("sensitive_feature_0", "sensitive_feature_1")),
    ],
)
def test_sensitive_features_come_in_any_shape(features, names):
    frame, roles = table_of_decisions(np.array([1, 0]), features, y_true=pd.Series([1, 1], index=[5, 6]))
    found = roles.read(frame)
    assert found.people.schema.names == names
    assert found.selected.tolist() == [True, False]
    assert found.people.favourable.tolist() == [True, True]

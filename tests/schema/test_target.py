"""What is decided: labels, labels in an order, and numbers; what is guessed of a column, and how to say otherwise."""

import numpy as np
import pandas as pd
import pytest

from evenhand.errors import DataError, OptionError, SchemaError
from evenhand.groups import DecisionRoles
from evenhand.schema import Schema, Target, encode, infer_schema, read_schema, write_schema
from evenhand.schema.outcome import OutcomeRole
from evenhand.schema.people import ColumnRoles

SEX = ["F", "M"] * 10
PRICES = pd.DataFrame({"sex": SEX, "price": np.linspace(10.5, 99.5, 20)})
GRADES = pd.DataFrame({"sex": SEX, "grade": ["low", "medium", "high", "low"] * 5, "stars": [1, 2, 3, 4, 5] * 4})


def test_many_numbers_are_a_number_and_a_label_may_be_named_instead():
    target = infer_schema(PRICES, target="price", protected=["sex"]).target
    assert (target.kind, target.favourable, target.values) == ("number", "neither", None)
    assert infer_schema(PRICES, target="price", favourable="lower").target.favourable == "lower"
    named = infer_schema(PRICES, target="price", favourable=10.5, outcome=OutcomeRole(kind="label")).target
    with pytest.raises(DataError, match="neither favourable nor unfavourable"):
        infer_schema(PRICES, target="price", favourable=10.5)
    assert (named.kind, named.favourable) == ("label", 10.5)


def test_few_numbers_are_never_guessed_to_be_a_number():
    with pytest.raises(SchemaError, match="which label of 'stars'") as error:
        infer_schema(GRADES, target="stars")
    assert "kind=number" in str(error.value)
    said = infer_schema(GRADES, target="stars", outcome=OutcomeRole(kind="number", unit="stars")).target
    assert (said.kind, said.unit) == ("number", "stars")
    levels = infer_schema(GRADES, target="stars", outcome=OutcomeRole(kind="ordinal")).target
    assert (levels.kind, levels.values, levels.favourable) == ("ordinal", (1, 2, 3, 4, 5), 5)


def test_an_order_makes_labels_ordinal():
    order = OutcomeRole(order=("low", "medium", "high"))
    target = infer_schema(GRADES, target="grade", outcome=order).target
    assert (target.kind, target.values, target.favourable) == ("ordinal", ("low", "medium", "high"), "high")
    assert infer_schema(GRADES, target="grade", outcome=order, favourable="low").target.favourable == "low"
    people = encode(infer_schema(GRADES, target="grade", outcome=order), GRADES)
    assert people.labels.tolist()[:4] == [0, 1, 2, 0]
    with pytest.raises(SchemaError, match="favourable"):
        infer_schema(GRADES, target="grade", outcome=order, favourable="medium")
    with pytest.raises(SchemaError, match="lacks 'medium'"):
        infer_schema(GRADES, target="grade", outcome=OutcomeRole(order=("low", "high")))
    with pytest.raises(SchemaError, match="order of the labels"):
        infer_schema(GRADES, target="grade", outcome=OutcomeRole(kind="ordinal"))


def test_numbers_are_read_as_they_stand():
    people = encode(infer_schema(PRICES, target="price", protected=["sex"]), PRICES)
    assert people.labels is None
    assert people.numbers.tolist() == PRICES["price"].tolist()
    assert people.at(np.array([3, 1])).numbers.tolist() == PRICES["price"].iloc[[3, 1]].tolist()
    with pytest.raises(SchemaError, match="'price' is a number"):
        _ = people.favourable


@pytest.mark.parametrize(("price", "shown"), [(np.nan, "an empty cell"), ("dear", "'dear'"), (np.inf, "inf")])
def test_a_number_that_is_none_is_refused_by_row(price, shown):
    schema = infer_schema(PRICES, target="price")
    frame = PRICES.astype({"price": object})
    frame.loc[4, "price"] = price
    with pytest.raises(DataError, match=f"row 5: expected a finite number as target, got {shown}"):
        encode(schema, frame)


def test_a_number_in_the_schema_file_comes_back(tmp_path):
    schema = infer_schema(PRICES, target="price", favourable="lower", outcome=OutcomeRole(unit="EUR"))
    write_schema(schema, tmp_path / "s.yaml")
    assert "target: {name: price, kind: number, favourable: lower, unit: EUR}" in (tmp_path / "s.yaml").read_text()
    assert read_schema(tmp_path / "s.yaml") == schema
    assert Target(name="price", kind="number").favourable == "neither"


@pytest.mark.parametrize(
    ("target", "field"),
    [
        ({"name": "price", "kind": "number", "favourable": "cheap"}, "favourable"),
        ({"name": "price", "kind": "number", "values": [1, 2]}, "values"),
        ({"name": "price", "favourable": 1, "unit": "EUR"}, "unit"),
        ({"name": "grade", "kind": "ordinal", "favourable": "high"}, "values"),
        ({"name": "grade", "kind": "ordinal", "favourable": "b", "values": ["a", "b", "c"]}, "favourable"),
        ({"name": "price", "kind": "numeric"}, "kind"),
        ({"name": "price"}, "favourable"),
    ],
)
def test_rejects_invalid_targets(target, field):
    with pytest.raises(SchemaError, match=field):
        Schema.parse({"target": target, "attributes": [{"name": "x", "kind": "integer", "lower": 0, "upper": 1}]})


def test_an_argument_replaces_the_favourable_label_of_a_schema_but_not_its_kind():
    number = infer_schema(PRICES, target="price")
    turned = ColumnRoles(protected=["sex"], schema=number, favourable="higher").read(PRICES).schema.target
    assert turned == Target(name="price", kind="number", favourable="higher")
    with pytest.raises(SchemaError, match="'cheap'"):
        ColumnRoles(protected=["sex"], schema=number, favourable="cheap").read(PRICES)
    words = infer_schema(GRADES, target="grade", favourable="high", unfavourable=["low", "medium"])
    assert ColumnRoles(protected=["sex"], schema=words, favourable="low").read(GRADES).schema.target.favourable == "low"
    for outcome in (OutcomeRole(kind="labels"), OutcomeRole(order=["low", "medium", "high"]), OutcomeRole(unit="EUR")):
        with pytest.raises(OptionError, match="'grade'"):
            ColumnRoles(protected=["sex"], schema=words, outcome=outcome).read(GRADES)


def test_what_makes_no_outcome_is_refused():
    with pytest.raises(OptionError, match="'price'"):
        OutcomeRole(kind="price")
    for order in ("high", np.array("high"), ["high"], {"high"}):
        with pytest.raises(OptionError, match="'high'"):
            OutcomeRole(order=order)
    with pytest.raises(OptionError, match="unit"):
        infer_schema(GRADES, target="grade", favourable="high", outcome=OutcomeRole(unit="EUR"))
    with pytest.raises(DataError, match="expected numbers in the column 'grade', got"):
        infer_schema(GRADES, target="grade", outcome=OutcomeRole(kind="number"))
    with pytest.raises(SchemaError, match="higher, lower, neither, got 3"):
        infer_schema(PRICES, target="price", favourable=3, outcome=OutcomeRole(kind="number"))


def test_several_labels_have_no_favourable_one():
    target = Target.model_validate({"name": "job", "kind": "labels", "values": ["a", "neither", "c"]})
    assert target.favourable == "neither"
    with pytest.raises(SchemaError, match="'job'"):
        target.require_labels("this analysis")
    with pytest.raises(ValueError, match="'a'"):
        Target.model_validate({"name": "job", "kind": "labels", "favourable": "a", "values": ["a", "c"]})


def test_too_many_labels_are_refused_with_what_to_do():
    frame = pd.DataFrame({"sex": ["F", "M"] * 60, "given": [f"label {i % 60}" for i in range(120)]})
    roles = DecisionRoles("given", ["sex"], outcome=OutcomeRole("labels"))
    with pytest.raises(DataError, match="expected at most 50 labels"):
        roles.read(frame)

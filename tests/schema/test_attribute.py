import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from evenhand.schema import Attribute
from evenhand.schema.attribute import AffineEncoding


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

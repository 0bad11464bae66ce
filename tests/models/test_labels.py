import numpy as np
import pytest

from evenhand.errors import ModelError
from evenhand.models.replies import match_labels
from evenhand.schema import Schema


def schema(favourable, values=None):
    return Schema.parse(
        {
            "target": {"name": "t", "favourable": favourable, "values": values},
            "attributes": [{"name": "a", "kind": "integer", "lower": 0, "upper": 1}],
        }
    )


@pytest.mark.parametrize(
    ("favourable", "values", "answers", "expected"),
    [
        ("yes", ["yes", "no"], ["no", "yes"], (("no", "yes"), 1)),
        ("yes", ["yes", "no"], ["yes", "no"], (("yes", "no"), 0)),
        (1, [1, 2], np.array([1.0, 2.0]), ((1, 2), 0)),
        (1, [0, 1], ["0", "1"], ((0, 1), 1)),
        ("1", ["0", "1"], [0, 1], (("0", "1"), 1)),
        (">50K", ["<=50K", ">50K"], [" <=50K", " >50K"], (("<=50K", ">50K"), 1)),
        (True, [False, True], np.array([False, True]), ((False, True), 1)),
        ("yes", ["no", "yes"], [0, 1], (("no", "yes"), 1)),
        ("yes", ["yes", "no"], [0, 1], (("no", "yes"), 1)),
        ("yes", ["no", "yes"], [False, True], (("no", "yes"), 1)),
        (1, [1, 2], [0, 1], ((2, 1), 1)),
        ("yes", None, ["no", "yes", "later"], (("no", "yes", "later"), 1)),
        ("yes", None, [0, 1], (("not yes", "yes"), 1)),
        ("a", ["a", "b", "c"], ["c", "a"], (("c", "a"), 1)),
    ],
)
def test_answers_stand_for_labels(favourable, values, answers, expected):
    assert match_labels(schema(favourable, values), answers, location="m")[:2] == expected


@pytest.mark.parametrize(
    ("favourable", "values", "answers"),
    [
        ("yes", ["no", "yes"], ["good", "bad"]),
        ("yes", ["no", "yes"], ["no", "maybe"]),
        ("yes", ["no", "yes"], ["no", "yes", "later"]),
        ("yes", ["no", "yes"], [1, 0]),
        (2, [1, 2], [0, 1]),
        ("a", ["a", "b", "c"], [0, 1]),
        ("a", ["a", "b", "c"], ["b", "c"]),
        ("yes", None, ["no", "later"]),
        ("1", ["0", "1"], ["1", 1]),
    ],
)
def test_answers_that_stand_for_nothing_are_refused(favourable, values, answers):
    with pytest.raises(ModelError, match="the model returns"):
        match_labels(schema(favourable, values), answers, location="m")

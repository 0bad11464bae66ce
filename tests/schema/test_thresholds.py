"""Thresholds: how they are written, who is selected, and what is refused."""

import numpy as np
import pytest

from evenhand.errors import OptionError
from evenhand.schema import Schema
from evenhand.schema.thresholds import Thresholds, describe_scale, looks_like_points

SCHEMA = Schema.parse(
    {
        "target": {"name": "y", "favourable": 1, "values": [0, 1]},
        "attributes": [
            {"name": "sex", "kind": "categorical", "values": ["F", "M"]},
            {"name": "when: part", "kind": "categorical", "values": ["a:b", "c"]},
            {"name": "height", "kind": "real", "lower": 0, "upper": 3},
        ],
    }
)


def test_thresholds_are_read_from_numbers_and_texts():
    assert Thresholds.parse(0.4) == Thresholds.parse("0.4") == Thresholds.parse(["0.4"]) == Thresholds(default=0.4)
    found = Thresholds.parse([0.5, "sex=F:0.4"])
    assert found == Thresholds(default=0.5, attribute="sex", own={"F": 0.4})
    assert found.uses_protected
    assert found.values == (0.4, 0.5)
    assert found.describe() == "0.4 for sex F, 0.5 for all others"
    assert Thresholds.parse("when: part=a:b:7").own == {"a:b": 7.0}
    assert not Thresholds.parse(["sex=F:0.4", "sex=M:0.4"]).uses_protected


@pytest.mark.parametrize(
    "thresholds",
    [
        "half",
        "nan",
        [],
        [0.4, 0.5],
        "sex:0.4",
        "=F:0.4",
        ["sex=F:0.4", "sex=F:0.5"],
        ["sex=F:0.4", "race=A:0.5"],
    ],
)
def test_rejects_invalid_thresholds(thresholds):
    with pytest.raises(OptionError):
        Thresholds.parse(thresholds)


def test_who_is_selected_by_hand():
    scores = np.array([0.5, 0.4, 0.39, 0.5, 0.49])
    people = np.array([[0, 0, 1.0], [0, 0, 1], [0, 0, 1], [1, 0, 1], [1, 0, 1]])  # F F F M M
    assert Thresholds.parse(0.5).select(scores, SCHEMA, people).tolist() == [True, False, False, True, False]
    own = Thresholds.parse([0.5, "sex=F:0.4"])
    assert own.select(scores, SCHEMA, people).tolist() == [True, True, False, True, False]
    assert Thresholds.parse(["sex=F:0.5", "sex=M:0.49"]).select(scores, SCHEMA, people).tolist() == [
        True,
        False,
        False,
        True,
        True,
    ]


@pytest.mark.parametrize(
    ("threshold", "name"),
    [("age=3:1", "'age'"), ("sex=X:1", "'X'"), ("sex=F:1", "sex M"), ("height=1:1", "'height'")],
)
def test_thresholds_must_fit_the_schema(threshold, name):
    with pytest.raises(OptionError, match=name) as error:
        Thresholds.parse(threshold).check_schema(SCHEMA)
    assert error.value.location == "`threshold=`"
    Thresholds.parse([0.5, "sex=F:1"]).check_schema(SCHEMA)


def test_scores_are_never_rescaled_silently():
    points = np.array([3.0, 50.0, 98.0])
    with pytest.raises(OptionError) as error:
        Thresholds.parse(0.5).check_scale(points)
    assert "`threshold=50`" in str(error.value)
    Thresholds.parse(50).check_scale(points)
    with pytest.raises(OptionError) as error:
        Thresholds.parse(50).check_scale(points / 100)
    assert "`threshold=0.5`" in str(error.value)
    Thresholds.parse(0.5).check_scale(np.array([-3.0, 4.0]))  # log-odds may be cut anywhere
    assert looks_like_points(points)
    assert not looks_like_points(points / 100)
    assert not looks_like_points(np.array([-1.0, 50.0]))
    assert "3 to 98" in describe_scale(points)
    assert "percentages" in describe_scale(points)
    assert "percentages" not in describe_scale(np.array([-3.0, 4.0]))

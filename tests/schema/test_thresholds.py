"""Thresholds: how they are written, who is selected, and what is refused."""

import numpy as np
import pytest

from evenhand.errors import OptionError
from evenhand.schema import Schema, Thresholds, describe_scale, looks_like_points

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
    assert found.describe() == "0.4 for sex F, 0.5 for everybody else"
    assert Thresholds.parse("when: part=a:b:7").own == {"a:b": 7.0}
    assert not Thresholds.parse(["sex=F:0.4", "sex=M:0.4"]).uses_protected


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("half", "expected a number"),
        ("nan", "expected a number"),
        ([], "got none"),
        ([0.4, 0.5], "one threshold for everybody"),
        ("sex:0.4", "expected a number"),
        ("=F:0.4", "expected a number"),
        (["sex=F:0.4", "sex=F:0.5"], "one threshold for sex F"),
        (["sex=F:0.4", "race=A:0.5"], "by one attribute"),
    ],
)
def test_what_is_no_threshold_is_refused(given, said):
    with pytest.raises(OptionError, match=said):
        Thresholds.parse(given)


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
    ("given", "said"),
    [
        ("age=3:1", "no attribute 'age'"),
        ("sex=X:1", "no value 'X'"),
        ("sex=F:1", "sex M has no threshold"),
        ("height=1:1", "too many values"),
    ],
)
def test_thresholds_must_fit_the_people(given, said):
    with pytest.raises(OptionError, match=said):
        Thresholds.parse(given).check_schema(SCHEMA)
    Thresholds.parse([0.5, "sex=F:1"]).check_schema(SCHEMA)


def test_scores_are_never_rescaled_silently():
    points = np.array([3.0, 50.0, 98.0])
    with pytest.raises(OptionError, match=r"between 3 and 98, and the threshold is 0\.5") as error:
        Thresholds.parse(0.5).check_scale(points)
    assert "`threshold=50`" in str(error.value)
    Thresholds.parse(50).check_scale(points)
    with pytest.raises(OptionError, match="no person would be selected") as error:
        Thresholds.parse(50).check_scale(points / 100)
    assert "`threshold=0.5`" in str(error.value)
    Thresholds.parse(0.5).check_scale(np.array([-3.0, 4.0]))  # log-odds may be cut anywhere
    assert looks_like_points(points)
    assert not looks_like_points(points / 100)
    assert not looks_like_points(np.array([-1.0, 50.0]))
    assert "seen: 3 to 98); if they are percentages, divide them by 100" in describe_scale(points)
    assert "percentages" not in describe_scale(np.array([-3.0, 4.0]))

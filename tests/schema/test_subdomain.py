from __future__ import annotations

import contextlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenhand.errors import OptionError
from evenhand.schema import parse_subdomain
from support import scaled, small_schema

SCHEMA = small_schema(
    age=(10, 99),
    race=["White", "Black", "Asian-Pac", "A, B and C", "in"],
    grade={"kind": "ordinal", "values": ["low", "middle", "high", "top"]},
    **{"capital gain": (0.0, 1000.0)},
    code=[1, "1", True, 2.5],
    span=["18-25", "26-99", -5],
)


def left(*conditions: str) -> dict:
    found = parse_subdomain(SCHEMA, conditions)
    assert found is not None
    return dict(found.allowed)


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("age >= 18", {"age": ((18, 99),)}),
        ("age>17.5", {"age": ((18, 99),)}),
        ("age < 18", {"age": ((10, 17),)}),
        ("18 <= age < 65", {"age": ((18, 64),)}),
        ("65 > age >= 18", {"age": ((18, 64),)}),
        ("18 <= age", {"age": ((18, 99),)}),
        ("18 <= age > 65", {"age": ((66, 99),)}),
        ("age == 30", {"age": ((30, 30),)}),
        ("30 == age == 30", {"age": ((30, 30),)}),
        ("1 < age < 30 < 40", {"age": ((10, 29),)}),
        ("age != 30", {"age": ((10, 29), (31, 99))}),
        ("age != 10 and age != 99 and age != 200", {"age": ((11, 98),)}),
        ("age in {40, 20, 300}", {"age": ((20, 20), (40, 40))}),
        ("age not in {11, 10, 98}", {"age": ((12, 97), (99, 99))}),
        ("race in {White, Asian-Pac}", {"race": ((0, 0), (2, 2))}),
        ("race not in {White, 'A, B and C', \"in\"}", {"race": ((1, 2),)}),
        ("White == race", {"race": ((0, 0),)}),
        ("race == in", {"race": ((4, 4),)}),
        ("grade >= middle", {"grade": ((1, 3),)}),
        ("low < grade < top", {"grade": ((1, 2),)}),
        ("'capital gain' <= 10", {"capital gain": ((0, 10),)}),
        ("'capital gain' < 10", {"capital gain": ((0, float(np.nextafter(10, 0))),)}),
        ("code == 1", {"code": ((0, 0),)}),
        ("code == '1'", {"code": ((1, 1),)}),
        ("code == True", {"code": ((2, 2),)}),
        ("code in {2.50}", {"code": ((3, 3),)}),
        ("(age >= 18 and (age < 20))", {"age": ((18, 19),)}),
        ("span == 18-25 and span != -5", {"span": ((0, 0),)}),
        ("age >= 18 and race == White", {"age": ((18, 99),), "race": ((0, 0),)}),
    ],
)
def test_conditions(condition: str, expected: dict) -> None:
    assert left(condition) == expected


def test_all_conditions_must_hold() -> None:
    assert left("age >= 18", "age < 65", "race != in") == {"age": ((18, 64),), "race": ((0, 3),)}
    assert str(parse_subdomain(SCHEMA, [" age >= 18", "race == White "])) == "age >= 18 and race == White"
    assert parse_subdomain(SCHEMA, []) is None


@pytest.mark.parametrize(
    ("condition", "place"),
    [
        ("age >= abc", "abc"),
        ("age >= nan", "nan"),
        ("agee >= 18", "agee"),
        ("1 < 2 < 3", "1 < 2 < 3"),
        ("age", "age"),
        ("age >= 18 or age < 10", "or"),
        ("capital gain > 3", "gain"),
        ("race == Whit", "Whit"),
        ("race < White", "<"),
        ("race in {}", "}"),
        ("'capital gain' == 3", "=="),
        ("'capital gain' not in {3}", "in"),
        ("code == 3", "3"),
        ("in >= 3", "in"),
        ("race == Asian-Pacific", "Asian-Pacific"),
        ("not age > 3", "not"),
        ("age + 1 > 18", "age + 1"),
        ("age > 10 + 8", "10 + 8"),
        ("age > points", "points"),
    ],
)
def test_faults_mark_their_position(condition: str, place: str) -> None:
    with pytest.raises(OptionError) as caught:
        parse_subdomain(SCHEMA, [condition])
    assert caught.value.location == "condition"
    _, shown, pointer = caught.value.message.split("\n")
    assert shown == "    " + condition
    start = pointer.index("^")
    assert (shown[start : start + pointer.count("^")] or " ") == place


@pytest.mark.parametrize(
    "conditions",
    [
        ["age > 99"],
        ["age < 20", "age > 20"],
        ["race not in {White, Black, Asian-Pac, 'A, B and C', in}"],
        ["age == 200"],
        ["age == 18.5"],
    ],
)
def test_an_empty_part(conditions: list[str]) -> None:
    with pytest.raises(OptionError, match=r"'(age|race)'"):
        parse_subdomain(SCHEMA, conditions)


SIGNS = {"<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal, "==": np.equal, "!=": np.not_equal}


@settings(max_examples=scaled(300), deadline=None)
@given(st.lists(st.tuples(st.sampled_from(sorted(SIGNS)), st.integers(5, 105)), min_size=1, max_size=4))
def test_numbers_against_every_value(tests: list[tuple[str, int]]) -> None:
    age = SCHEMA["age"].domain()
    expected = age[np.logical_and.reduce([SIGNS[sign](age, number) for sign, number in tests])]
    text = " and ".join(f"age {sign} {number}" for sign, number in tests)
    if not len(expected):
        with pytest.raises(OptionError, match="'age'"):
            parse_subdomain(SCHEMA, [text])
        return
    found = parse_subdomain(SCHEMA, [text])
    assert found is not None
    assert found.entries(SCHEMA["age"]).tolist() == expected.tolist()


@settings(max_examples=scaled(500), deadline=None)
@given(st.text(alphabet="ageinotdrcW18<>=!{},'\" .", max_size=25))
def test_any_text_is_read_or_refused(text: str) -> None:
    with contextlib.suppress(OptionError):
        assert parse_subdomain(SCHEMA, [text]) is not None

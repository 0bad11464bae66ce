"""Constraints, and parts of a domain."""

import contextlib
import itertools
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenhand.errors import OptionError
from evenhand.schema import parse_constraint, parse_subdomain
from support import scaled, small_schema

EDUCATION = ["Preschool", "Some-college", "Prof. school"]
SCHEMA = small_schema(
    age=(16, 19),
    education={"kind": "ordinal", "values": EDUCATION},
    **{"education-num": (0, 2)},
    rooms=[1, 2, 4],
    wanted={"kind": "ordinal", "values": ["Some-college", "Prof. school", "None"]},
    sex="f m *",
)
ROWS = np.array(list(itertools.product(range(16, 20), range(3), range(3), range(3), range(3), range(2))), dtype=float)


def words(row: np.ndarray) -> dict[str, object]:
    wanted = ["Some-college", "Prof. school", "None"][int(row[4])]
    return {
        "age": row[0],
        "edu": EDUCATION[int(row[1])],
        "code": row[1],
        "num": row[2],
        "rooms": [1, 2, 4][int(row[3])],
        "wanted": wanted,
    }


# Each beside the same in Python, over a person's values.
MEANINGS = [
    ("education-num == code(education)", "num == code"),
    ("age >= 18", "age >= 18"),
    ("16 < age <= 18", "16 < age <= 18"),
    ("18 > age", "18 > age"),
    ("education == Some-college", "edu == 'Some-college'"),
    ("Some-college != education", "edu != 'Some-college'"),
    ("education >= Some-college", "code >= 1"),
    ("Some-college >= education", "code <= 1"),
    ('education == "Prof. school" or age < 17 and rooms == 4', "edu == 'Prof. school' or age < 17 and rooms == 4"),
    ('(education == "Prof. school" or age < 17) and rooms == 4', "(edu == 'Prof. school' or age < 17) and rooms == 4"),
    ("not (age > 17 and rooms != 2)", "not (age > 17 and rooms != 2)"),
    ("not age > 17", "not age > 17"),
    ("education in {Preschool, 'Prof. school'}", "edu in ('Preschool', 'Prof. school')"),
    ("age not in {16, 18}", "age not in (16, 18)"),
    ("rooms in {1, 4}", "rooms in (1, 4)"),
    ("age - education-num * 2 + 1 >= 15.5", "age - num * 2 + 1 >= 15.5"),
    ("age - (education-num - 1) > 17", "age - (num - 1) > 17"),
    ("-education-num < -1", "-num < -1"),
    ("rooms * 2 == education-num", "rooms * 2 == num"),
    ("age / education-num > 9", "num != 0 and age / num > 9"),
    ("code(rooms) == education-num", "[1, 2, 4].index(rooms) == num"),
    ("1 + 1 == 2", "True"),
    ("education == Some-college -> age > 17", "edu != 'Some-college' or age > 17"),
    ("education == Some-college->age > 17 or rooms == 1", "edu != 'Some-college' or age > 17 or rooms == 1"),
    ("age > 16 and rooms == 2 -> not wanted == None", "not (age > 16 and rooms == 2) or wanted != 'None'"),
    ("rooms == 4 and (age > 17 -> education-num == 2)", "rooms == 4 and (age <= 17 or num == 2)"),
]


@pytest.mark.parametrize(("text", "meaning"), MEANINGS)
def test_each_means_what_python_says(text, meaning):
    expected = [bool(eval(meaning, {}, words(row))) for row in ROWS]
    assert parse_constraint(text, SCHEMA.attributes, ["sex"]).holds(ROWS).tolist() == expected
    assert parse_constraint(text, SCHEMA.attributes, ["sex"]).holds(ROWS[:0]).shape == (0,)


@settings(max_examples=scaled(100))
@given(
    st.recursive(
        st.sampled_from(MEANINGS),
        lambda part: st.one_of(
            part.map(lambda one: (f"not ({one[0]})", f"not ({one[1]})")),
            st.tuples(part, st.sampled_from(["and", "or"]), part).map(
                lambda three: tuple(f"({three[0][i]}) {three[1]} ({three[2][i]})" for i in range(2))
            ),
        ),
        max_leaves=5,
    )
)
def test_combined_as_in_python(pair):
    text, meaning = pair
    some = ROWS[::17]
    expected = [bool(eval(meaning, {}, words(row))) for row in some]
    assert parse_constraint(text, SCHEMA.attributes).holds(some).tolist() == expected


FAULTS = [
    ("height > 3", 0),
    ("education == Prof", 13),
    ("rooms < 2", 6),
    ("education + 1 == 2", 0),
    ("code(age) == 2", 5),
    ("code(size) == 2", 5),
    ("sex == f", 0),
    ("age", 0),
    ("age > 3 and __import__('os')", 12),
    ("", 0),
    ("age > 17 -> rooms", 12),
    ("age > 17 -> age > 16 -> age > 15", 21),
]


@pytest.mark.parametrize(("text", "column"), FAULTS)
def test_faults_mark_their_position(text, column):
    with pytest.raises(OptionError) as caught:
        parse_constraint(text, SCHEMA.attributes, ["sex"])
    _, _, pointer = caught.value.message.split("\n")
    assert pointer.index("^") == column + 4
    assert caught.value.location == "`constraints=`"


def test_a_number_divided_by_zero_compares_with_nothing():
    zero = ROWS[ROWS[:, 2] == 0]
    for sign in ("==", "<", "<=", ">", ">="):
        assert not parse_constraint(f"age / education-num {sign} 5", SCHEMA.attributes).holds(zero).any()


def test_a_missing_value_breaks_no_constraint():
    found = parse_constraint("education == Preschool -> rooms != 2", SCHEMA.attributes)
    assert found.columns == (1, 3)
    rows = np.array([[16, 0, 0, 1, 0, 0], [np.nan, 0, 0, 1, 0, 0], [16, np.nan, 0, 1, 0, 0], [16, 0, 0, np.nan, 0, 0]])
    assert found.holds(rows).tolist() == [False, False, True, True]


def test_a_constraint_can_be_stored():
    found = pickle.loads(pickle.dumps(parse_constraint("age > 17 -> rooms == 2", SCHEMA.attributes)))
    assert found.holds(ROWS).tolist() == parse_constraint(found.text, SCHEMA.attributes).holds(ROWS).tolist()


SUBDOMAIN_SCHEMA = small_schema(
    age=(10, 99),
    race=["White", "Black", "Asian-Pac", "A, B and C", "in"],
    grade={"kind": "ordinal", "values": ["low", "middle", "high", "top"]},
    **{"capital gain": (0.0, 1000.0)},
    code=[1, "1", True, 2.5],
    span=["18-25", "26-99", -5],
)


def left(*conditions: str) -> dict:
    found = parse_subdomain(SUBDOMAIN_SCHEMA, conditions)
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
    assert str(parse_subdomain(SUBDOMAIN_SCHEMA, [" age >= 18", "race == White "])) == "age >= 18 and race == White"
    assert parse_subdomain(SUBDOMAIN_SCHEMA, []) is None


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
def test_subdomain_faults_mark_their_position(condition: str, place: str) -> None:
    with pytest.raises(OptionError) as caught:
        parse_subdomain(SUBDOMAIN_SCHEMA, [condition])
    assert caught.value.location == "condition"
    _, shown, pointer = caught.value.message.split("\n")
    assert shown == "    " + condition
    start = pointer.index("^")
    assert (shown[start : start + pointer.count("^")] or " ") == place


NOBODY = [["age > 99"], ["age < 20", "age > 20"], ["age == 200"], ["age == 18.5"]]


@pytest.mark.parametrize("conditions", [*NOBODY, ["race not in {White, Black, Asian-Pac, 'A, B and C', in}"]])
def test_an_empty_part(conditions: list[str]) -> None:
    with pytest.raises(OptionError, match=r"'(age|race)'"):
        parse_subdomain(SUBDOMAIN_SCHEMA, conditions)


SIGNS = {"<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal, "==": np.equal, "!=": np.not_equal}


@settings(max_examples=scaled(300), deadline=None)
@given(st.lists(st.tuples(st.sampled_from(sorted(SIGNS)), st.integers(5, 105)), min_size=1, max_size=4))
def test_numbers_against_every_value(tests: list[tuple[str, int]]) -> None:
    age = SUBDOMAIN_SCHEMA["age"].domain()
    expected = age[np.logical_and.reduce([SIGNS[sign](age, number) for sign, number in tests])]
    text = " and ".join(f"age {sign} {number}" for sign, number in tests)
    if not len(expected):
        with pytest.raises(OptionError, match="'age'"):
            parse_subdomain(SUBDOMAIN_SCHEMA, [text])
        return
    found = parse_subdomain(SUBDOMAIN_SCHEMA, [text])
    assert found is not None
    assert found.entries(SUBDOMAIN_SCHEMA["age"]).tolist() == expected.tolist()


@settings(max_examples=scaled(500), deadline=None)
@given(st.text(alphabet="ageinotdrcW18<>=!{},'\" .", max_size=25))
def test_any_text_is_read_or_refused(text: str) -> None:
    with contextlib.suppress(OptionError):
        assert parse_subdomain(SUBDOMAIN_SCHEMA, [text]) is not None

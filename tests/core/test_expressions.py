"""Expressions and configuration files: what they mean, and where a fault is."""

import contextlib
import itertools
from typing import Annotated, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field

from evenhand.core import expressions
from evenhand.core.config import check_configuration
from evenhand.core.configuration import read_configuration
from evenhand.core.expressions import Arithmetic, Call, Comparison, Containment, Logic, Name, Number, Token, quote_word
from evenhand.errors import DataError, OptionError
from support import scaled

WORDS = ("Some-college", "in", "capital.gain", "50%", "18-25", "a b")


def tree(text):
    return expressions.parse_expression(text, location="here", words=WORDS).tree


def sign(text, kind="sign"):
    return Token(0, 0, kind, text)


def name(*parts, quoted=False):
    return Name(0, 0, parts, quoted)


def number(text):
    return Number(0, 0, text)


def format_expression(node):
    """Format a tree as text. Parsing the text returns an equal tree."""
    if isinstance(node, Number):
        return node.text
    if isinstance(node, Name):
        return expressions.format_name(node)
    # Operands of functions get brackets in the same cases as operands of comparisons.
    level = 3 if isinstance(node, Call) else level_of(node)
    unary = len(node.operands) == 1 and not isinstance(node, Call)
    left, *operands = (
        text if level_of(operand) + unary > level else f"({text})"
        for operand, text in ((operand, format_expression(operand)) for operand in node.operands)
    )
    if isinstance(node, Call):
        return f"{node.function}({', '.join([left, *operands])})"
    if isinstance(node, Containment):
        return f"{left} {'in' if node.inside else 'not in'} {{{', '.join(operands)}}}"
    if isinstance(node, Logic):
        return f"not {left}" if unary else f" {node.word} ".join([left, *operands])
    signs = [sign.text for sign in node.signs]
    return signs[0] + left if unary else " ".join([left, *itertools.chain(*zip(signs, operands, strict=True))])


def level_of(node):
    """Return the precedence of a node, from 0 for ``or``."""
    if isinstance(node, Logic):
        return ("or", "and", "not").index(node.word)
    if isinstance(node, Arithmetic):
        return 6 if len(node.operands) == 1 else 4 if node.signs[0].text in "+-" else 5
    return 3 if isinstance(node, Comparison | Containment) else 7


def compare(one, word, two):
    return Comparison(0, 0, (one, two), (sign(word),))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("18 <= age < 65", Comparison(0, 0, (number("18"), name("age"), number("65")), (sign("<="), sign("<")))),
        ("a == Some-college", compare(name("a"), "==", name("Some-college"))),
        ("a == in", compare(name("a"), "==", name("in"))),
        ("a == '50%'", compare(name("a"), "==", name("50%", quoted=True))),
        ("50%<a", compare(name("50%"), "<", name("a"))),
        ("capital.gain > x.y['18-25'].low", compare(name("capital.gain"), ">", name("x", "y", "18-25", "low"))),
        (
            "a NOT IN {b, -1}",
            Containment(
                0, 0, (name("a"), name("b"), Arithmetic(0, 0, (number("1"),), (sign("-"),))), sign("IN", "word"), False
            ),
        ),
        ("f(a, b)", Call(0, 0, "f", (name("a"), name("b")))),
        ("18-25", Arithmetic(0, 0, (number("18"), number("25")), (sign("-"),))),
        ("a < .5e-3", compare(name("a"), "<", number(".5e-3"))),
    ],
)
def test_trees(text, expected):
    assert tree(text) == expected


@pytest.mark.parametrize(
    ("text", "same", "other"),
    [
        ("a or b and not c", "a or (b and (not c))", "(a or b) and not c"),
        ("not a == b", "not (a == b)", "(not a) == b"),
        ("a - b - c", "a - b - c", "a - (b - c)"),
        ("a + b * c", "a + (b * c)", "(a + b) * c"),
        ("-a * b", "(-a) * b", "-(a * b)"),
        ("a + b < c", "(a + b) < c", "a + (b < c)"),
        ("a and b and c", "a and b and c", "a and (b and c)"),
        ("a == b", "a == b", "a == 'b'"),
        ("a -> b", "not a or b", "a or b"),
        ("a or b -> c and d", "(a or b) -> (c and d)", "a or (b -> c) and d"),
        ("a == Some-college->b == -1", "a == Some-college -> (b == -1)", "a == Some-college -> b == 1"),
    ],
)
def test_what_binds_tighter(text, same, other):
    assert tree(text) == tree(same)
    assert tree(text) != tree(other)


@pytest.mark.parametrize(
    "word", ["age", "Some-college", "a b", "in", "Or", "18-25", "50%", "it's", 'a "b"', "1", "-", "a-"]
)
def test_a_word_in_quotes_where_it_needs_them(word):
    found = expressions.parse_expression(
        f"x == {quote_word(word)}->y == {quote_word(word)}", location="here", words=[word]
    ).tree
    assert isinstance(found, Logic)
    # Two levels down; that each is a comparison is what is checked.
    for comparison in (found.operands[1], found.operands[0].operands[0]):
        assert isinstance(comparison, Comparison)
        assert comparison.operands[1] == name(word, quoted=quote_word(word) != word)


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        ("a = 3", "=", "expected a comparison, got ="),
        ("a >", " ", "expected a name, a number or a value"),
        ("a > 3 or", " ", "expected a name, a number or a value"),
        ("a and and b", "and", "expected a name, a number or a value"),
        ("(a > 3", " ", "expected )"),
        ("a in White", "White", "values in braces"),
        ("a in {b c}", "c", "a comma or }"),
        ("f(a; b)", ";", "unexpected"),
        ("f(a b)", "b", "a comma or )"),
        ("a not b", "b", "expected 'in' after 'not'"),
        ("a b", "b", "expected 'and', 'or' or the end"),
        ("rate.3", ".3", "expected 'and', 'or' or the end"),
        ("rate.", " ", "expected a name"),
        ("rate['a'", " ", "expected ]"),
        ("a == 'b", "'", "missing closing quote"),
        ("a\n! b", "!", "unexpected"),
        ("-" * 51 + "1", "-", "at most 50 nested levels"),
        ("f(" * 51 + "1", "(", "at most 50 nested levels"),
        ("(" * 51 + "a", "(", "at most 50 nested levels"),
        ("not " * 5000 + "a", "not", "at most 50 nested levels"),
    ],
)
def test_faults_point_at_their_place(text, place, message):
    with pytest.raises(OptionError) as caught:
        tree(text)
    said, shown, pointer = caught.value.message.split("\n")
    assert message in said
    assert caught.value.location == "here"
    assert shown == "    " + text.replace("\n", " ")
    assert (shown[pointer.index("^") : len(pointer)] or " ") == place


NAMES = st.sampled_from(["a", "age", "50%", "Some-college", "in", "capital.gain", "Und", "é"]).map(
    lambda word: name(word)
)
PATHS = st.lists(st.sampled_from(["sex", "low", "a-b", "and", "it's", '"']), min_size=1, max_size=3).map(
    lambda parts: name("rate", *parts)
)
QUOTED = st.text(st.characters(exclude_characters='"')).map(lambda word: name(word, quoted=True))
ATOMS = NAMES | PATHS | QUOTED | st.sampled_from(["0", "12", "3.5", ".5", "1e9", "2.E-3"]).map(number)


def several(inner, least=2):
    return st.lists(inner, min_size=least, max_size=3).map(tuple)


def between(make, signs, inner):
    """Operands with one of some signs between each two of them."""
    chosen = st.sampled_from(signs.split())
    return several(inner).flatmap(
        lambda operands: st.lists(chosen, min_size=len(operands) - 1, max_size=len(operands) - 1).map(
            lambda found: make(0, 0, operands, tuple(map(sign, found)))
        )
    )


def larger(inner):
    return st.one_of(
        between(Arithmetic, "+ -", inner),
        between(Arithmetic, "* /", inner),
        between(Comparison, "== != < <= > >=", inner),
        st.tuples(inner, st.sampled_from("+-")).map(lambda pair: Arithmetic(0, 0, (pair[0],), (sign(pair[1]),))),
        st.tuples(several(inner), st.booleans()).map(
            lambda pair: Containment(0, 0, pair[0], sign("in", "word"), pair[1])
        ),
        several(inner, 1).map(lambda operands: Call(0, 0, "f", operands)),
        st.tuples(several(inner), st.sampled_from(["and", "or"])).map(
            lambda pair: Logic(0, 0, pair[1], pair[0], sign(pair[1], "word"))
        ),
        inner.map(lambda operand: Logic(0, 0, "not", (operand,), sign("not", "word"))),
    )


@settings(max_examples=scaled(300), deadline=None)
@given(st.recursive(ATOMS, larger, max_leaves=12))
def test_a_tree_is_its_text(made):
    """Text, tree, text, tree: nothing is lost, whichever brackets were needed."""
    text = format_expression(made)
    assert tree(text) == made
    assert format_expression(tree(text)) == text


@settings(max_examples=scaled(300), deadline=None)
@given(st.text(alphabet="abnotridfe 1.5<>=!-+*/{}[](),'\"%", max_size=30))
def test_any_text_is_read_or_refused(text):
    with contextlib.suppress(OptionError):
        found = tree(text)
        assert tree(format_expression(found)) == found


class Part(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)
    share: Annotated[float, Field(ge=0, le=1)]


class Whole(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)
    kind: Literal["one", "two"]
    parts: Annotated[dict[str, Part], Field(min_length=1)]
    checks: Literal["end"] | list[int] = "end"


HINTS = {"share": "a share from 0 to 1", "parts.*": "write name: {share: 0.5}", "parts": "name the parts"}


@pytest.mark.parametrize(
    ("described", "location", "message", "hint"),
    [
        ({"kind": "one"}, None, "`parts` is missing", "name the parts"),
        ({"kinds": "one", "parts": {}}, None, "there is no entry 'kinds'", "did you mean 'kind'?"),
        ({"kind": "six", "parts": {}}, "kind", "expected one of: one, two, got 'six'", ""),
        ({"kind": "one", "parts": {}}, "parts", "expected 1 or more entries, got 0", "name the parts"),
        (
            {"kind": "one", "parts": {"a": 3}},
            "parts.a",
            "expected a mapping from names to entries, got 3",
            "write name:",
        ),
        ({"kind": "one", "parts": {"a": {}}}, "parts.a", "`share` is missing", "a share from 0 to 1"),
        (
            {"kind": "one", "parts": {"a": {"share": 2}}},
            "parts.a.share",
            "expected a number between 0 and 1, got 2",
            "a share from 0 to 1",
        ),
        ({"kind": "one", "parts": {"a": {"share": "x"}}}, "parts.a.share", "expected a number, got 'x'", "a share"),
        ({"kind": "one", "parts": {"a": {"shar": 1}}}, "parts.a", "there is no entry 'shar'", "mean 'share'?"),
        ({"kind": "one", "parts": {1: {"share": 1}}}, "parts", "expected a name, got 1", 'write it as text: "1"'),
        ({"kind": "one", "parts": {"a": {"share": 1}}, "checks": "x"}, "checks", "expected one of: end, got 'x'", ""),
    ],
)
def test_faults(described, location, message, hint):
    for file in (None, "some.yaml"):
        with pytest.raises(OptionError) as caught:
            check_configuration(lambda: Whole.model_validate(described), Whole, location=file, hints=HINTS)
        assert caught.value.location == (", ".join(filter(None, (file, location))) or None)
        assert message in caught.value.message
        assert hint in (caught.value.hint or "")


def test_what_does_not_fit_together_has_the_hint_of_its_entry():
    def refuse():
        raise OptionError("the shares do not add up", location="parts.a.share")

    with pytest.raises(OptionError) as caught:
        check_configuration(refuse, Whole, location="some.yaml", hints=HINTS)
    assert (caught.value.location, caught.value.hint) == ("some.yaml, parts.a.share", "a share from 0 to 1")


def test_what_is_right_passes():
    found = check_configuration(lambda: Whole.model_validate({"kind": "one", "parts": {"a": {"share": 1}}}))
    assert found.parts["a"].share == 1


@pytest.mark.parametrize(
    ("name", "content", "place", "message"),
    [
        ("a.yaml", b"a: [", "a.yaml, line 1", "invalid YAML"),
        ("a.yaml", b"a: 1\nb: 2\na: 3", "a.yaml, line 3", "duplicate entry 'a'"),
        ("a.toml", b"a = ", "a.toml", "invalid TOML"),
        ("a.yaml", b"- a", "a.yaml", "expected named entries, as in a.yaml, got a list"),
        ("a.yaml", b"\xff\xfe\x00", "a.yaml", "not a text file"),
        ("none.yaml", None, "none.yaml", "the configuration cannot be read: No such file"),
    ],
)
def test_files_that_cannot_be_read(tmp_path, name, content, place, message):
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(DataError) as caught:
        read_configuration(path, example="a.yaml", entries="a: and b:", error=DataError)
    assert str(caught.value.location).endswith(place)
    assert message in caught.value.message


def test_words_stay_words(tmp_path):
    yaml, toml = tmp_path / "a.yaml", tmp_path / "a.toml"
    yaml.write_text("{a: no, b: true, c: 2020-01-01}")
    toml.write_text("a = 'no'\nb = true")
    assert read_configuration(yaml, example="", entries="") == {"a": "no", "b": True, "c": "2020-01-01"}
    assert read_configuration(toml, example="", entries="") == {"a": "no", "b": True}

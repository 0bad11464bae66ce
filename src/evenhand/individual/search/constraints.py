"""What a user knows about people who can exist: ``education_num == code(education)``, checked for many rows at once.

An expression compares attributes with each other, with numbers and with values of their own:

    education_num == code(education)         hours >= 10 or workclass == Never-worked
    not (relationship == Husband and marital == Divorced)         age - years_employed >= 14
    job in {"Self-employed", Clerk}          one_hot(house_rents, house_owns, house_free)

``code(x)`` is the position of a category in the schema's list, from 0. ``one_hot(a, b, ...)`` says that exactly one of
these columns is 1, and lets a search move them as a whole. Words with spaces, commas or signs stand in quotes, but
names and values of the schema with a hyphen may stand as they are.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, TypeAlias

import numpy as np
from numpy.typing import NDArray

from evenhand.errors import OptionError
from evenhand.schema import Attribute, Schema

Floats: TypeAlias = NDArray[np.float64]
Meaning: TypeAlias = Callable[[Floats], NDArray[Any]]

DEEPEST = 50
"""Brackets within brackets, at most."""


@dataclass(frozen=True)
class Constraint:
    """Something that holds for everybody who could exist.

    Attributes:
        text: as it was given.
        group: the columns of which exactly one is 1, if that is all it says.
    """

    text: str
    group: tuple[str, ...]
    _meaning: Meaning

    def holds(self, individuals: Floats) -> NDArray[np.bool_]:
        """For which individuals (n, attributes) it holds, shape (n,)."""
        return np.asarray(np.broadcast_to(self._meaning(individuals), len(individuals)), dtype=np.bool_)


def constraint(text: str, schema: Schema, protected: Sequence[str] = ()) -> Constraint:
    """Read an expression over the attributes of a schema.

    Args:
        protected: attributes that it must not name, since the search changes them with everything else unchanged.

    Raises:
        OptionError: it cannot be read or makes no sense; the message points at the place.
    """
    reader = _Reader(text, schema, protected)
    meaning = reader.whole()
    return Constraint(text.strip(), reader.group, meaning)


@dataclass(frozen=True)
class _Token:
    kind: str
    text: str
    start: int
    stop: int

    def keyword(self, *words: str) -> bool:
        return self.kind == "word" and self.text.lower() in words

    def sign(self, *signs: str) -> bool:
        return self.kind == "sign" and self.text in signs


@dataclass(frozen=True)
class _Term:
    """Part of an expression: ``truth``, ``number``, ``attribute`` (its categories) or ``word`` (a value of one)."""

    kind: str
    token: _Token
    meaning: Meaning | None = None
    attribute: Attribute | None = None


COMPARED: dict[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge
}  # fmt: skip
MIRRORED = {"==": "==", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


def _divided(one: Any, two: Any) -> Any:
    # Nothing compares with what is divided by zero: NaN makes every comparison but != false.
    zero = np.asarray(two) == 0
    return np.where(zero, np.nan, one / np.where(zero, 1.0, two))


ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": _divided
}  # fmt: skip


class _Reader:
    def __init__(self, text: str, schema: Schema, protected: Sequence[str]) -> None:
        self._text = text
        self._schema = schema
        self._protected = protected
        self._tokens = self._split()
        self._next = 0
        self._depth = 0
        self._closing = -2
        self.group: tuple[str, ...] = ()

    def _split(self) -> list[_Token]:
        words = {*self._schema.names}
        words |= {value for each in self._schema.attributes for value in each.values or () if isinstance(value, str)}
        known = sorted((word for word in words if re.fullmatch(r"[^\W\d][^\s\"'(){},]*", word)), key=len, reverse=True)
        pattern = re.compile(
            r"(?P<quoted>\"[^\"]*\"|'[^']*')"
            + "".join(f"|(?P<known>{'|'.join(map(re.escape, known))})(?![\\w-])" if known else "")
            + r"|(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?(?![\w]))"
            + r"|(?P<sign><=|>=|==|!=|[-+*/<>={}(),])|(?P<word>\w+)"
        )
        tokens, at = [], 0
        while at < len(self._text):
            if self._text[at].isspace():
                at += 1
                continue
            match = pattern.match(self._text, at)
            if match is None:
                quote = self._text[at] in "\"'"
                self._fault(
                    "the quote is not closed" if quote else f"{self._text[at]!r} means nothing here",
                    _Token("", "", at, at + 1),
                )
            kind = str(match.lastgroup)
            text = match.group()[1:-1] if kind == "quoted" else match.group()
            tokens.append(_Token("word" if kind == "known" else kind, text, match.start(), match.end()))
            at = match.end()
        return [*tokens, _Token("end", "", len(self._text), len(self._text) + 1)]

    def _fault(self, what: str, token: _Token, mend: str | None = None) -> NoReturn:
        shown = "".join(" " if letter.isspace() else letter for letter in self._text)
        pointer = " " * token.start + "^" * max(1, token.stop - token.start)
        raise OptionError(f"{what}\n    {shown}\n    {pointer}", where="--constraint", mend=mend)

    def _peek(self) -> _Token:
        return self._tokens[self._next]

    def _take(self) -> _Token:
        token = self._peek()
        self._next += token.kind != "end"
        return token

    def whole(self) -> Meaning:
        """The meaning of the whole text."""
        term = self._either()
        end = self._take()
        if end.kind != "end":
            self._fault("here the constraint should end, or go on with 'and' or 'or'", end, "quote several words")
        meaning = self._truth(term)
        if not (self._tokens[0].keyword("one_hot") and self._next == self._closing + 1):
            self.group = ()
        return meaning

    def _either(self) -> _Term:
        term = self._both()
        while self._peek().keyword("or"):
            token = self._take()
            one, two = self._truth(term), self._truth(self._both())
            term = _Term("truth", token, lambda rows, one=one, two=two: one(rows) | two(rows))  # type: ignore[misc]
        return term

    def _both(self) -> _Term:
        term = self._negation()
        while self._peek().keyword("and"):
            token = self._take()
            one, two = self._truth(term), self._truth(self._negation())
            term = _Term("truth", token, lambda rows, one=one, two=two: one(rows) & two(rows))  # type: ignore[misc]
        return term

    def _negation(self) -> _Term:
        if not self._peek().keyword("not"):
            return self._comparison()
        token = self._take()
        self._deeper(token)
        inner = self._truth(self._negation())
        self._depth -= 1
        return _Term("truth", token, lambda rows: ~inner(rows))

    def _comparison(self) -> _Term:
        terms, meanings = [self._sum()], []
        if self._peek().keyword("in") or (self._peek().keyword("not") and self._tokens[self._next + 1].keyword("in")):
            return self._membership(terms[0])
        first = self._peek()
        while self._peek().sign("=", *COMPARED):
            sign = self._take()
            if sign.text == "=":
                self._fault("one = compares nothing", sign, "write ==")
            terms.append(self._sum())
            meanings.append(self._compared(terms[-2], sign, terms[-1]))
        if not meanings:
            return terms[0]
        return _Term("truth", first, lambda rows: np.logical_and.reduce([meaning(rows) for meaning in meanings]))

    def _membership(self, term: _Term) -> _Term:
        token = self._take()
        inside = token.keyword("in")
        if not inside:
            self._take()
        brace = self._take()
        if not brace.sign("{"):
            self._fault("after 'in' there should be values in braces", brace, "such as in {White, Black}")
        equal = _Token("sign", "==", token.start, token.stop)
        meanings = [self._compared(term, equal, self._sum())]
        while not (closing := self._take()).sign("}"):
            if not closing.sign(","):
                self._fault("here there should be a comma or }", closing, "quote values of several words")
            meanings.append(self._compared(term, equal, self._sum()))
        return _Term(
            "truth", token, lambda rows: np.logical_or.reduce([meaning(rows) for meaning in meanings]) == inside
        )

    def _sum(self) -> _Term:
        term = self._product()
        while self._peek().sign("+", "-"):
            term = self._arithmetic(term, self._take(), self._product())
        return term

    def _product(self) -> _Term:
        term = self._signed()
        while self._peek().sign("*", "/"):
            term = self._arithmetic(term, self._take(), self._signed())
        return term

    def _arithmetic(self, one: _Term, sign: _Token, two: _Term) -> _Term:
        left, right, compute = self._number(one), self._number(two), ARITHMETIC[sign.text]
        return _Term("number", sign, lambda rows: compute(left(rows), right(rows)))

    def _signed(self) -> _Term:
        if not self._peek().sign("-", "+"):
            return self._atom()
        sign = self._take()
        self._deeper(sign)
        inner = self._number(self._signed())
        self._depth -= 1
        return _Term("number", sign, (lambda rows: -inner(rows)) if sign.text == "-" else inner)

    def _deeper(self, token: _Token) -> None:
        self._depth += 1
        if self._depth > DEEPEST:
            self._fault(f"more than {DEEPEST} levels deep", token, "split it into several constraints")

    def _atom(self) -> _Term:
        token = self._take()
        if token.sign("("):
            self._deeper(token)
            inner = self._either()
            self._close()
            self._depth -= 1
            return _Term(inner.kind, token, inner.meaning, inner.attribute) if inner.kind != "word" else inner
        if token.kind == "number":
            value = float(token.text)
            return _Term("number", token, lambda rows: np.full(len(rows), value))
        if token.keyword("code", "one_hot") and self._peek().sign("("):
            return self._code(token) if token.keyword("code") else self._one_hot(token)
        if token.kind not in ("word", "quoted") or token.keyword("and", "or", "in", "not"):
            self._fault("an attribute, a number or a value should stand here", token)
        if token.text in self._schema.names:
            return self._attribute(token)
        return _Term("word", token)

    def _close(self) -> _Token:
        token = self._take()
        if not token.sign(")"):
            self._fault("here there should be )", token)
        return token

    def _named(self, token: _Token) -> Attribute:
        if token.text not in self._schema.names:
            names = ", ".join(self._schema.names)
            self._fault(f"there is no attribute {token.text!r}", token, f"the attributes are: {names}")
        if token.text in self._protected:
            self._fault(
                f"{token.text!r} is protected: it takes all its values while everything else stays",
                token,
                "say what must hold between the other attributes",
            )
        return self._schema[token.text]

    def _attribute(self, token: _Token) -> _Term:
        attribute = self._named(token)
        column = self._schema.position(attribute.name)
        kind = "attribute" if attribute.discrete_values else "number"
        return _Term(kind, token, lambda rows: rows[:, column], attribute)

    def _code(self, token: _Token) -> _Term:
        self._take()
        name = self._take()
        attribute = self._named(name)
        if not attribute.discrete_values:
            self._fault(f"{attribute.name!r} is a number and has no codes", name, "use it as it is")
        self._close()
        column = self._schema.position(attribute.name)
        return _Term("number", token, lambda rows: rows[:, column])

    def _one_hot(self, token: _Token) -> _Term:
        self._take()
        columns, ones = [], []
        while True:
            name = self._take()
            attribute = self._named(name)
            texts = [attribute.text(entry) for entry in (attribute.first, attribute.last)]
            if attribute.size != 2 or sorted(texts) not in (["0", "1"], ["False", "True"]):
                self._fault(f"{attribute.name!r} is no column of zeros and ones", name)
            columns.append(self._schema.position(attribute.name))
            # The entry that means 1: a category's position need not be its value.
            ones.append(attribute.first if texts[0] in ("1", "True") else attribute.last)
            closing = self._take()
            if closing.sign(")"):
                break
            if not closing.sign(","):
                self._fault("here there should be a comma or )", closing)
        if len(set(columns)) < max(2, len(columns)):
            self._fault("a one-hot group has at least two columns, all different", token)
        self._closing = self._next - 1
        if set(ones) == {1.0}:
            self.group = tuple(self._schema.names[column] for column in columns)
        return _Term("truth", token, lambda rows: (rows[:, columns] == np.array(ones)).sum(axis=1) == 1)

    def _truth(self, term: _Term) -> Meaning:
        if term.kind != "truth" or term.meaning is None:
            self._fault("this is neither true nor false", term.token, "compare it: == != < <= > >=, in {...}")
        return term.meaning

    def _number(self, term: _Term) -> Meaning:  # noqa: RET503 - a fault does not return
        if term.kind == "number" and term.meaning is not None:
            return term.meaning
        if term.kind == "attribute" and term.attribute is not None and term.meaning is not None:
            values = term.attribute.values or ()
            if all(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
                numbers, codes = np.array(values, dtype=np.float64), term.meaning
                return lambda rows: numbers[codes(rows).astype(np.int64)]
            name = term.attribute.name
            self._fault(f"the values of {name!r} are no numbers", term.token, f"its position is code({name})")
        wrong = f"{term.token.text!r} is neither an attribute nor a value of what it is compared with"
        names = ", ".join(self._schema.names)
        if term.kind == "word":
            self._fault(wrong, term.token, f"the attributes are: {names}")
        self._fault("a number should stand here", term.token)

    def _compared(self, one: _Term, sign: _Token, two: _Term) -> Meaning:
        if two.kind == "attribute" and one.kind != "attribute":
            return self._compared(two, _Token("sign", MIRRORED[sign.text], sign.start, sign.stop), one)
        compare = COMPARED[sign.text]
        attribute, meaning = one.attribute, one.meaning
        if one.kind != "attribute" or attribute is None or meaning is None:
            left, right = self._number(one), self._number(two)
            return lambda rows: compare(left(rows), right(rows))
        if not attribute.ordered and sign.text not in ("==", "!="):
            self._fault(f"{attribute.name!r} has no order, so {sign.text} says nothing about it", sign)
        if two.kind == "attribute" and two.attribute is not None and two.meaning is not None:
            return self._two_attributes(one, sign, two)
        literal = two.kind == "word" or two.token.kind == "number"
        if literal and (code := self._position(attribute, two.token)) is not None:
            return lambda rows: compare(meaning(rows), code)
        if two.kind == "word":
            values = ", ".join(map(str, (attribute.values or ())[:20]))
            self._fault(f"{two.token.text!r} is no value of {attribute.name!r}", two.token, f"its values are: {values}")
        left, right = self._number(one), self._number(two)
        return lambda rows: compare(left(rows), right(rows))

    def _two_attributes(self, one: _Term, sign: _Token, two: _Term) -> Meaning:
        assert one.attribute is not None
        assert two.attribute is not None
        assert one.meaning is not None
        assert two.meaning is not None
        left, right, compare = one.meaning, two.meaning, COMPARED[sign.text]
        if sign.text not in ("==", "!=") and one.attribute.values != two.attribute.values:
            self._fault("two attributes compare by order only with the same list of values", sign)
        places = {str(value): i for i, value in enumerate(one.attribute.values or ())}
        across = np.array([places.get(str(value), -1) for value in two.attribute.values or ()], dtype=np.float64)
        return lambda rows: compare(left(rows), across[right(rows).astype(np.int64)])

    def _position(self, attribute: Attribute, token: _Token) -> float | None:
        """The entry of a category that a word or number stands for, if it does."""
        values = attribute.values or ()
        same = [i for i, value in enumerate(values) if str(value) == token.text]
        if token.kind == "number":
            number = float(token.text)
            same = same or [i for i, v in enumerate(values) if isinstance(v, int | float) and float(v) == number]
        return float(same[0]) if len(same) == 1 else None

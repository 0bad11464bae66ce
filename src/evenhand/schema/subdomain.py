"""A part of the domain, said in conditions like ``age >= 18 and race in {White, Black}``.

A condition compares one attribute with values of its own:

    age >= 18        18 <= age < 65        race == White        race not in {"A, B", Other}

``and`` joins conditions. Ordinal values compare by their place in the schema's list. Words with spaces, commas or signs
stand in quotes. There is no ``or`` between attributes, as the part is then no product of value sets any more.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn, TypeAlias

import numpy as np
from numpy.typing import NDArray

from evenhand.errors import OptionError
from evenhand.schema.attribute import Attribute
from evenhand.schema.schema import Schema

Runs: TypeAlias = tuple[tuple[float, float], ...]
"""Entries that are allowed: ranges with both ends included, increasing and apart."""

MAX_LISTED = 1_000_000
"""Entries of one attribute that are listed one by one, at most."""


@dataclass(frozen=True)
class Subdomain:
    """What conditions leave of a domain: of each attribute some of its entries.

    Attributes:
        conditions: as they were given, without outer spaces.
        allowed: entries by attribute name, for those that conditions name.
    """

    conditions: tuple[str, ...]
    allowed: Mapping[str, Runs]

    def runs(self, attribute: Attribute) -> Runs:
        """The entries of an attribute that lie in this part."""
        return self.allowed.get(attribute.name, ((attribute.first, attribute.last),))

    def entries(self, attribute: Attribute) -> NDArray[np.float64]:
        """The same one by one, shape (n,).

        Raises:
            OptionError: there are too many.
        """
        return listed(attribute, self.runs(attribute))

    def __str__(self) -> str:
        return " and ".join(self.conditions)


def listed(attribute: Attribute, runs: Runs) -> NDArray[np.float64]:
    """The entries in some ranges of a finite attribute one by one, shape (n,).

    Raises:
        OptionError: there are too many.
    """
    if sum(last - first + 1 for first, last in runs) > MAX_LISTED:
        raise OptionError(
            f"attribute {attribute.name!r} keeps more than {MAX_LISTED:,} values, too many to list them one by one",
            mend="restrict it to one range",
        )
    return np.concatenate([np.arange(first, last + 1) for first, last in runs])


def subdomain(schema: Schema, conditions: Sequence[str]) -> Subdomain | None:
    """Read conditions that must all hold; None if there are none.

    Raises:
        OptionError: a condition cannot be read, or makes no sense for its attribute; the message points at the place.
            Or nothing is left of an attribute.
    """
    allowed: dict[str, Runs] = {}
    for text in conditions:
        for name, runs in _Reader(schema, text).conditions():
            attribute = schema[name]
            before = allowed.get(name, ((attribute.first, attribute.last),))
            allowed[name] = _joined(attribute, _both(before, runs))
    for name, runs in allowed.items():
        if not runs:
            raise OptionError(
                f"no value of {name!r} meets the conditions {' and '.join(text.strip() for text in conditions)!r}",
                mend=f"its domain is {_domain(schema[name])}",
            )
    return Subdomain(tuple(text.strip() for text in conditions), allowed) if allowed else None


def _both(one: Runs, other: Runs) -> Runs:
    """Entries in both."""
    found = [(max(a, c), min(b, d)) for a, b in one for c, d in other]
    return tuple(sorted((low, high) for low, high in found if low <= high))


def _joined(attribute: Attribute, runs: Runs) -> Runs:
    """The same entries with ranges that touch made one."""
    found: list[tuple[float, float]] = []
    for low, high in runs:
        if found and attribute.size is not None and low == found[-1][1] + 1:
            found[-1] = (found[-1][0], high)
        else:
            found.append((low, high))
    return tuple(found)


def _domain(attribute: Attribute) -> str:
    if attribute.values is not None:
        shown = ", ".join(str(value) for value in attribute.values[:20])
        return f"{{{shown}{', ...' if len(attribute.values) > 20 else ''}}}"
    return f"{attribute.text(attribute.first)} to {attribute.text(attribute.last)}"


TOKEN = re.compile(r"""(?P<quoted>"[^"]*"|'[^']*')|(?P<sign><=|>=|==|!=|[<>={},])|(?P<word>[^\s"'<>=!{},]+)""")
MIRRORED = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "==": "==", "!=": "!="}


@dataclass(frozen=True)
class _Token:
    """A piece of the text: a ``sign``, a plain ``word`` or a ``quoted`` one; ``end`` after the last."""

    kind: str
    text: str
    start: int
    stop: int

    def keyword(self, word: str) -> bool:
        return self.kind == "word" and self.text.lower() == word

    def sign(self, *signs: str) -> bool:
        return self.kind == "sign" and self.text in signs


class _Reader:
    """Reads the conditions in one text."""

    def __init__(self, schema: Schema, text: str) -> None:
        self._schema = schema
        self._text = text
        self._tokens = self._split()
        self._next = 0

    def _split(self) -> list[_Token]:
        tokens, at = [], 0
        while at < len(self._text):
            if self._text[at].isspace():
                at += 1
                continue
            match = TOKEN.match(self._text, at)
            if match is None:
                open_quote = self._text[at] in "\"'"
                self._fault(
                    "the quote is not closed" if open_quote else f"{self._text[at]!r} stands here for nothing",
                    _Token("", "", at, at + 1),
                    None if open_quote else "comparisons are == != < <= > >=, in {...}, not in {...}",
                )
            kind = str(match.lastgroup)
            text = match.group()[1:-1] if kind == "quoted" else match.group()
            tokens.append(_Token(kind, text, match.start(), match.end()))
            at = match.end()
        return [*tokens, _Token("end", "", len(self._text), len(self._text) + 1)]

    def _fault(self, what: str, token: _Token, mend: str | None = None) -> NoReturn:
        shown = "".join(" " if letter.isspace() else letter for letter in self._text)
        pointer = " " * token.start + "^" * max(1, token.stop - token.start)
        raise OptionError(f"{what}\n    {shown}\n    {pointer}", where="condition", mend=mend)

    def _take(self) -> _Token:
        token = self._tokens[self._next]
        self._next += token.kind != "end"
        return token

    def _peek(self) -> _Token:
        return self._tokens[self._next]

    def conditions(self) -> list[tuple[str, Runs]]:
        """(attribute, what it may be) of each condition, in order."""
        found = []
        while True:
            found += self._condition()
            token = self._take()
            if token.kind == "end":
                return found
            if not token.keyword("and"):
                self._fault(
                    "here the condition should end, or go on with 'and'",
                    token,
                    "there is no 'or': list the values of one attribute, race in {White, Black}"
                    if token.keyword("or") else "quote names and values of several words",
                )  # fmt: skip

    def _condition(self) -> list[tuple[str, Runs]]:
        one = self._operand("an attribute")
        if self._peek().keyword("in") or self._peek().keyword("not"):
            attribute = self._attribute(one)
            return [(attribute.name, self._membership(attribute))]
        sign = self._comparison()
        two = self._operand("a value")
        if self._peek().sign("<", "<=", ">", ">=", "==", "!=", "="):
            again = self._comparison()
            if sign.text[0] not in "<>" or sign.text[0] != again.text[0]:
                self._fault("the two comparisons must point the same way", again, "such as 18 <= age < 65")
            three = self._operand("a value")
            attribute = self._attribute(two)
            return [
                (attribute.name, self._compared(attribute, MIRRORED[sign.text], one)),
                (attribute.name, self._compared(attribute, again.text, three)),
            ]
        if one.text not in self._schema.names and two.text in self._schema.names:
            attribute = self._attribute(two)
            return [(attribute.name, self._compared(attribute, MIRRORED[sign.text], one))]
        attribute = self._attribute(one)
        return [(attribute.name, self._compared(attribute, sign.text, two))]

    def _operand(self, expected: str) -> _Token:
        token = self._take()
        if token.kind not in ("word", "quoted"):
            self._fault(f"{expected} should stand here", token)
        return token

    def _comparison(self) -> _Token:
        token = self._take()
        if token.sign("="):
            self._fault("one = compares nothing", token, "write ==")
        if not token.sign(*MIRRORED):
            self._fault(
                "a comparison should stand here",
                token,
                "one of == != < <= > >=, in {...}, not in {...}; quote names and values of several words",
            )
        return token

    def _attribute(self, token: _Token) -> Attribute:
        if token.text not in self._schema.names:
            self._fault(
                f"there is no attribute {token.text!r}", token, f"the attributes are: {', '.join(self._schema.names)}"
            )
        return self._schema[token.text]

    def _membership(self, attribute: Attribute) -> Runs:
        refused = self._take()
        inside = refused.keyword("in")
        if not inside and not (refused := self._take()).keyword("in"):
            self._fault("after 'not' there should be 'in'", refused)
        if attribute.size is None:
            self._fault(f"{attribute.name!r} is a real number, and a single value of it has no share", refused,
                        "give a range, such as 18 <= age < 65")  # fmt: skip
        brace = self._take()
        if not brace.sign("{"):
            self._fault("after 'in' there should be values in braces", brace, "such as in {White, Black}")
        entries = set()
        while True:
            entries.add(self._entry(attribute, self._operand("a value")))
            token = self._take()
            if token.sign("}"):
                break
            if not token.sign(","):
                self._fault("here there should be a comma or }", token, "quote values of several words")
        runs = tuple((entry, entry) for entry in sorted(entries))
        return _both(runs, ((attribute.first, attribute.last),)) if inside else _without(attribute, sorted(entries))

    def _compared(self, attribute: Attribute, sign: str, token: _Token) -> Runs:
        if sign in ("==", "!="):
            if attribute.size is None:
                self._fault(f"{attribute.name!r} is a real number, and a single value of it has no share", token,
                            "give a range, such as 18 <= age < 65")  # fmt: skip
            entry = self._entry(attribute, token)
            return ((entry, entry),) if sign == "==" else _without(attribute, [entry])
        if not attribute.ordered:
            self._fault(f"{attribute.name!r} has no order, so {sign} says nothing about it", token,
                        f"{attribute.name} in {{...}}, with some of {_domain(attribute)}")  # fmt: skip
        entry = self._entry(attribute, token) if attribute.discrete_values else self._number(attribute, token)
        below = ((-math.inf, _last_below(attribute, entry, strict=sign == "<")),)
        above = ((_first_above(attribute, entry, strict=sign == ">"), math.inf),)
        return below if sign in ("<", "<=") else above

    def _number(self, attribute: Attribute, token: _Token) -> float:
        try:
            number = float(token.text)
        except ValueError:
            number = math.nan
        if not math.isfinite(number):
            self._fault(
                f"{attribute.name!r} is compared with numbers, and {token.text!r} is none",
                token,
                f"its domain is {_domain(attribute)}",
            )
        return number

    def _entry(self, attribute: Attribute, token: _Token) -> float:
        """The entry of a finite attribute that a word stands for."""
        if attribute.values is None:
            number = self._number(attribute, token)
            if number != math.floor(number):
                self._fault(f"{attribute.name!r} takes whole numbers only", token)
            return number
        same = [i for i, value in enumerate(attribute.values) if str(value) == token.text]
        if token.kind == "word":
            same = same or [i for i, value in enumerate(attribute.values) if _equal(value, token.text)]
        if len(same) > 1:
            # 1 and "1" can both be values of a column: quotes tell them apart.
            same = [i for i in same if isinstance(attribute.values[i], str) == (token.kind == "quoted")]
        if len(same) != 1:
            self._fault(
                f"{token.text!r} is no value of {attribute.name!r}", token, f"its values are {_domain(attribute)}"
            )
        return float(same[0])


def _equal(value: object, text: str) -> bool:
    """Whether a word is the number that stands in the data."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    try:
        return float(text) == value
    except ValueError:
        return False


def _without(attribute: Attribute, entries: Sequence[float]) -> Runs:
    """All entries of a finite attribute but these, which are sorted."""
    runs, low = [], attribute.first
    for entry in entries:
        if attribute.first <= entry <= attribute.last:
            runs += [(low, entry - 1)] if low < entry else []
            low = entry + 1
    return tuple([*runs, (low, attribute.last)] if low <= attribute.last else runs)


def _last_below(attribute: Attribute, entry: float, *, strict: bool) -> float:
    if attribute.size is None:
        return float(np.nextafter(entry, -np.inf)) if strict else entry
    return math.ceil(entry) - 1.0 if strict else float(math.floor(entry))


def _first_above(attribute: Attribute, entry: float, *, strict: bool) -> float:
    if attribute.size is None:
        return float(np.nextafter(entry, np.inf)) if strict else entry
    return math.floor(entry) + 1.0 if strict else float(math.ceil(entry))

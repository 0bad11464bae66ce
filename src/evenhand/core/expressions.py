"""The one small language of conditions on people, constraints on profiles and gates on an audit's numbers.

    18 <= age < 65                     race in {White, "A, B and C"}            not (hours < 10 or job == Clerk)
    age - years_employed >= 14         one_hot(house_rents, house_owns)         violation_rate.sex.high > 0.01
    relationship == Husband -> sex == Male

From loosest to tightest: ``->``; ``or``, ``and``, ``not``; comparisons, ``in {}``, ``not in {}``; ``+ -``, ``* /``, a
sign. ``a -> b`` is short for ``not a or b``, and has the same tree.
Words with spaces or signs stand in quotes; names and values that are known, such as ``Some-college``, may go without.
What the names of a tree mean, and which parts of the language make sense, is up to those who evaluate it:
``Expression.fault`` lets them point at the place as the parser does.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeAlias

from evenhand.core.text import suggest_name
from evenhand.errors import OptionError

DEEPEST = 50
"""Brackets, signs and negations within each other, at most."""

COMPARISONS = {"==": "==", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
"""Every comparison, and what it is with its sides exchanged."""

_KEYWORDS = ("and", "or", "not", "in")
_PLAIN = re.compile(r"[^\W\d]\w*")
_BARE = re.compile(r"[^\W\d](?:[\w-]*\w)?")
_NUMBER = r"(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?(?!\w)"
_FREE = re.compile(r"[^\s\"'<>=!{}\[\](),+*/.-][^\s\"'<>=!{}\[\](),]*")
_SUM = re.compile(r"\d[\w.+*/-]*")


@dataclass(frozen=True)
class ExpressionPart:
    """Part of a text, from ``start`` up to ``stop``. Trees that say the same are equal wherever their pieces stand."""

    start: int = field(compare=False)
    stop: int = field(compare=False)


@dataclass(frozen=True)
class Token(ExpressionPart):
    """The smallest piece: a ``word``, a ``quoted`` one, a ``number`` or a ``sign``; ``end`` after the last."""

    kind: str
    text: str

    def is_keyword(self, *words: str) -> bool:
        return self.kind == "word" and self.text.lower() in words

    def is_sign(self, *signs: str) -> bool:
        return self.kind == "sign" and self.text in signs


@dataclass(frozen=True)
class Number(ExpressionPart):
    """A number as it is written."""

    text: str


@dataclass(frozen=True)
class Name(ExpressionPart):
    """A name or a value, with what follows in dots and brackets: ``race``, ``rate.sex``, ``rate["marital-status"]``."""

    parts: tuple[str, ...]
    quoted: bool = False


@dataclass(frozen=True)
class Call(ExpressionPart):
    """``function(operand, ...)``."""

    function: str
    operands: tuple[Node, ...]


@dataclass(frozen=True)
class Arithmetic(ExpressionPart):
    """Two terms or more with + and - between them, or with * and /, taken from the left; or one behind its sign."""

    operands: tuple[Node, ...]
    signs: tuple[Token, ...]


@dataclass(frozen=True)
class Comparison(ExpressionPart):
    """Two operands or more with a comparison between neighbours: ``18 <= age < 65``."""

    operands: tuple[Node, ...]
    signs: tuple[Token, ...]


@dataclass(frozen=True)
class Containment(ExpressionPart):
    """``x in {a, b}``, or ``not in``: the first operand among the others; ``sign`` is the word ``in``."""

    operands: tuple[Node, ...]
    sign: Token
    inside: bool


@dataclass(frozen=True)
class Logic(ExpressionPart):
    """Operands joined by ``and`` or by ``or``, or one behind ``not``; ``sign`` is the first such word."""

    word: str
    operands: tuple[Node, ...]
    sign: Token = field(compare=False)


Node: TypeAlias = Number | Name | Call | Arithmetic | Comparison | Containment | Logic


def format_expression(node: Node) -> str:
    """Return a text that says a tree: reading it gives an equal tree."""
    if isinstance(node, Number):
        return node.text
    if isinstance(node, Name):
        rest = (f".{part}" if _PLAIN.fullmatch(part) else f"[{_quote(part)}]" for part in node.parts[1:])
        return "".join([_quote(node.parts[0]) if node.quoted else node.parts[0], *rest])
    # What a function takes is bracketed like what is compared.
    level = 3 if isinstance(node, Call) else _level(node)
    alone = len(node.operands) == 1 and not isinstance(node, Call)
    first, *others = (
        shown if _level(one) + alone > level else f"({shown})"
        for one, shown in ((operand, format_expression(operand)) for operand in node.operands)
    )
    if isinstance(node, Call):
        return f"{node.function}({', '.join([first, *others])})"
    if isinstance(node, Containment):
        return f"{first} {'in' if node.inside else 'not in'} {{{', '.join(others)}}}"
    if isinstance(node, Logic):
        return f"not {first}" if alone else f" {node.word} ".join([first, *others])
    signs = [sign.text for sign in node.signs]
    return signs[0] + first if alone else " ".join([first, *itertools.chain(*zip(signs, others, strict=True))])


def _level(node: Node) -> int:
    """Return how tightly a node binds, from 0 for ``or``."""
    if isinstance(node, Logic):
        return ("or", "and", "not").index(node.word)
    if isinstance(node, Arithmetic):
        return 6 if len(node.operands) == 1 else 4 if node.signs[0].text in "+-" else 5
    return 3 if isinstance(node, Comparison | Containment) else 7


def quote_word(word: str) -> str:
    """Return how an expression says a known name or value: in quotes where it could be read as anything else."""
    return word if _BARE.fullmatch(word) and word.lower() not in _KEYWORDS else _quote(word)


def _quote(word: str) -> str:
    return f"'{word}'" if '"' in word else f'"{word}"'


@dataclass(frozen=True)
class Source:
    """A text, and the option or entry that it was given to."""

    text: str
    location: str

    def word(self, piece: ExpressionPart) -> str:
        """Return the name or value that a piece says; what reads as arithmetic may be one too, such as ``18-25``."""
        return piece.parts[0] if isinstance(piece, Name) and len(piece.parts) == 1 else self.cut(piece)

    def cut(self, piece: ExpressionPart) -> str:
        """Return how a piece is written."""
        return self.text[piece.start : piece.stop]

    def fault(self, message: str, piece: ExpressionPart, hint: str | None = None) -> OptionError:
        """Return the error that points at a piece."""
        shown = "".join(" " if letter.isspace() else letter for letter in self.text)
        pointer = " " * piece.start + "^" * max(1, piece.stop - piece.start)
        return OptionError(f"{message}\n    {shown}\n    {pointer}", location=self.location, hint=hint)

    def unknown(self, message: str, piece: ExpressionPart, names: Iterable[str], known: str) -> OptionError:
        """Return the error about a word that is none of some names; its hint suggests the nearest."""
        return self.fault(message, piece, f"{suggest_name(self.word(piece), names)}{known}")


@dataclass(frozen=True)
class Expression(Source):
    """A text that was read: ``tree`` is what it says."""

    tree: Node


def parse_expression(text: str, *, location: str, words: Collection[str] = ()) -> Expression:
    """Read a text.

    Args:
        text: the expression.
        location: the option or entry it was given to, for messages.
        words: names and values that may stand without quotes although they hold signs, such as ``Some-college``, or
            are words of the language, such as ``in``.

    Raises:
        OptionError: the text cannot be read; the message points at the place.
    """
    return Expression(text, location, _Parser(Source(text, location), words).parse())


def _tokenize(source: Source, words: Collection[str]) -> Iterator[Token]:
    # A hyphen inside a known word belongs to the word. 18-25 stays arithmetic, and is a value where that is none.
    known = sorted(
        (word for word in words if _FREE.fullmatch(word) and not _SUM.fullmatch(word)), key=len, reverse=True
    )
    pattern = re.compile(
        r"(?P<quoted>\"[^\"]*\"|'[^']*')"
        + (f"|(?P<known>{'|'.join(map(re.escape, known))})(?!\\w|-(?!>))" if known else "")
        + rf"|(?P<number>{_NUMBER})|(?P<sign>->|<=|>=|==|!=|[-+*/<>={{}}(),.\[\]])|(?P<word>\w+)"
        + r"|(?P<space>\s+)|(?P<wrong>.)"
    )
    for match in pattern.finditer(source.text):
        kind, text = str(match.lastgroup), match.group()
        text = text[1:-1] if kind == "quoted" else text
        token = Token(match.start(), match.end(), "word" if kind == "known" else kind, text)
        if kind == "wrong":
            if text in "\"'":
                raise source.fault("the quote is not closed", token)
            raise source.fault(f"{text!r} means nothing here", token, "quote it where it is part of a name or value")
        if kind != "space":
            yield token
    yield Token(len(source.text), len(source.text) + 1, "end", "")


class _Parser:
    """Recursive descent over the tokens: one method per level of binding, loosest first."""

    def __init__(self, source: Source, words: Collection[str]) -> None:
        self._fault = source.fault
        self._words = frozenset(words)
        self._tokens = list(_tokenize(source, self._words))
        self._depth = 0

    def parse(self) -> Node:
        tree = self._parse_implication()
        if self._tokens[0].kind != "end":
            hint = "quote names and values of several words"
            raise self._fault("here it should end, or go on with 'and' or 'or'", self._tokens[0], hint)
        return tree

    def _take(self) -> Token:
        return self._tokens.pop(0) if len(self._tokens) > 1 else self._tokens[0]

    def _take_sign(self, sign: str, message: str, hint: str | None = None) -> Token:
        token = self._take()
        if not token.is_sign(sign):
            raise self._fault(message, token, hint)
        return token

    @contextmanager
    def _deeper(self, token: Token) -> Iterator[None]:
        self._depth += 1
        if self._depth > DEEPEST:
            raise self._fault(f"more than {DEEPEST} levels deep", token, "split it into several")
        yield
        self._depth -= 1

    def _parse_chain(self, chosen: Sequence[str], operand: Callable[[], Node]) -> tuple[tuple[Node, ...], list[Token]]:
        """Read operands with some signs or words between them."""
        operands, signs = [operand()], []
        while self._tokens[0].is_sign(*chosen) or self._tokens[0].is_keyword(*chosen):
            signs.append(self._take())
            if signs[-1].text == "=":
                raise self._fault("one = compares nothing", signs[-1], "write ==")
            operands.append(operand())
        return tuple(operands), signs

    def _parse_implication(self) -> Node:
        premise = self._parse_or()
        if not self._tokens[0].is_sign("->"):
            return premise
        sign = self._take()
        conclusion = self._parse_or()
        refuted = Logic(premise.start, premise.stop, "not", (premise,), sign)
        return Logic(premise.start, conclusion.stop, "or", (refuted, conclusion), sign)

    def _parse_or(self) -> Node:
        return self._parse_logic("or", self._parse_and)

    def _parse_and(self) -> Node:
        return self._parse_logic("and", self._parse_not)

    def _parse_logic(self, word: str, operand: Callable[[], Node]) -> Node:
        operands, signs = self._parse_chain([word], operand)
        return Logic(operands[0].start, operands[-1].stop, word, operands, signs[0]) if signs else operands[0]

    def _parse_not(self) -> Node:
        if not self._tokens[0].is_keyword("not"):
            return self._parse_comparison()
        token = self._take()
        with self._deeper(token):
            operand = self._parse_not()
        return Logic(token.start, operand.stop, "not", (operand,), token)

    def _parse_comparison(self) -> Node:
        operands, signs = self._parse_chain(["=", *COMPARISONS], self._parse_sum)
        if signs:
            return Comparison(operands[0].start, operands[-1].stop, operands, tuple(signs))
        if not self._tokens[0].is_keyword("in", "not"):
            return operands[0]
        sign = self._take()
        inside = sign.is_keyword("in")
        if not inside and not (sign := self._take()).is_keyword("in"):
            raise self._fault("after 'not' there should be 'in'", sign)
        self._take_sign("{", "after 'in' there should be values in braces", "such as in {White, Black}")
        values, closing = self._parse_list("}")
        return Containment(operands[0].start, closing.stop, (operands[0], *values), sign, inside)

    def _parse_list(self, closing: str) -> tuple[tuple[Node, ...], Token]:
        """Read what stands between commas, and the sign that closes it."""
        operands, _ = self._parse_chain(",", self._parse_sum)
        message = f"here there should be a comma or {closing}"
        return operands, self._take_sign(closing, message, "quote values of several words")

    def _parse_sum(self) -> Node:
        return self._parse_arithmetic("+-", self._parse_product)

    def _parse_product(self) -> Node:
        return self._parse_arithmetic("*/", self._parse_sign)

    def _parse_arithmetic(self, chosen: str, operand: Callable[[], Node]) -> Node:
        operands, signs = self._parse_chain(chosen, operand)
        return Arithmetic(operands[0].start, operands[-1].stop, operands, tuple(signs)) if signs else operands[0]

    def _parse_sign(self) -> Node:
        if not self._tokens[0].is_sign("-", "+"):
            return self._parse_atom()
        sign = self._take()
        with self._deeper(sign):
            operand = self._parse_sign()
        return Arithmetic(sign.start, operand.stop, (operand,), (sign,))

    def _parse_atom(self) -> Node:
        token = self._take()
        if token.is_sign("("):
            with self._deeper(token):
                inner = self._parse_implication()
            self._take_sign(")", "here there should be )")
            return inner
        if token.kind == "number":
            return Number(token.start, token.stop, token.text)
        if token.kind == "quoted":
            return Name(token.start, token.stop, (token.text,), quoted=True)
        if token.kind != "word" or (token.is_keyword(*_KEYWORDS) and token.text not in self._words):
            raise self._fault("a name, a number or a value should stand here", token)
        if not self._tokens[0].is_sign("("):
            return self._parse_path(token)
        with self._deeper(self._take()):
            operands, closing = self._parse_list(")")
        return Call(token.start, closing.stop, token.text, operands)

    def _parse_path(self, token: Token) -> Name:
        parts, stop = [token.text], token.stop
        while self._tokens[0].is_sign(".", "["):
            dot, part = self._take().text == ".", self._take()
            if part.kind not in (("word",) if dot else ("word", "quoted", "number")):
                raise self._fault("a name should stand here", part)
            stop = part.stop if dot else self._take_sign("]", "here there should be ]").stop
            parts.append(part.text)
        return Name(token.start, stop, tuple(parts))

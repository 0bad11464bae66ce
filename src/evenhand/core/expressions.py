"""Expressions: conditions on people, constraints on profiles, and conditions on the numbers of an audit.

    18 <= age < 65                     race in {White, "A, B and C"}            not (hours < 10 or job == Clerk)
    age - years_employed >= 14         education_num == code(education)         violation_rate.sex.high > 0.01
    relationship == Husband -> sex == Male

Operators in order of increasing precedence: ``->``; ``or``; ``and``; ``not``; comparisons, ``in {}`` and ``not in {}``;
``+ -``; ``* /``; a sign. ``a -> b`` is parsed as ``not a or b``. Words that contain spaces or operators must be quoted,
except for names and values that are passed to the parser, such as ``Some-college``.
The evaluator defines the names and the supported syntax. It builds its errors with ``Expression.fault``, which marks
the invalid part of the text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeAlias

from evenhand.core.text import suggest_name
from evenhand.errors import OptionError

MAX_DEPTH = 50
"""Maximum nesting depth of brackets, signs and negations."""

COMPARISONS = {"==": "==", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
"""Comparison operators and their mirrored forms."""

_KEYWORDS = ("and", "or", "not", "in")
_PLAIN = re.compile(r"[^\W\d]\w*")
_BARE = re.compile(r"[^\W\d](?:[\w-]*\w)?")
_NUMBER = r"(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?(?!\w)"
_FREE = re.compile(r"[^\s\"'<>=!{}\[\](),+*/.-][^\s\"'<>=!{}\[\](),]*")
_SUM = re.compile(r"\d[\w.+*/-]*")


@dataclass(frozen=True)
class ExpressionPart:
    """Part of a text, from ``start`` up to ``stop``. Positions are ignored when trees are compared."""

    start: int = field(compare=False)
    stop: int = field(compare=False)


@dataclass(frozen=True)
class Token(ExpressionPart):
    """Token of the kind ``word``, ``quoted``, ``number`` or ``sign``. The last token has the kind ``end``."""

    kind: str
    text: str

    def is_keyword(self, *words: str) -> bool:
        return self.kind == "word" and self.text.lower() in words

    def is_sign(self, *signs: str) -> bool:
        return self.kind == "sign" and self.text in signs


@dataclass(frozen=True)
class Number(ExpressionPart):
    """Number, with its source text."""

    text: str


@dataclass(frozen=True)
class Name(ExpressionPart):
    """Name or value that may have several parts: ``race``, ``rate.sex``, ``rate["marital-status"]``."""

    parts: tuple[str, ...]
    quoted: bool = False


@dataclass(frozen=True)
class Call(ExpressionPart):
    """Function call: ``function(operand, ...)``."""

    function: str
    operands: tuple[Node, ...]


@dataclass(frozen=True)
class Arithmetic(ExpressionPart):
    """Sums and differences, or products and quotients, of operands from left to right, or one operand with a sign."""

    operands: tuple[Node, ...]
    signs: tuple[Token, ...]


@dataclass(frozen=True)
class Comparison(ExpressionPart):
    """Chain of comparisons of two or more operands: ``18 <= age < 65``."""

    operands: tuple[Node, ...]
    signs: tuple[Token, ...]


@dataclass(frozen=True)
class Containment(ExpressionPart):
    """Membership test of the first operand in the others: ``x in {a, b}`` or ``x not in {a, b}``."""

    operands: tuple[Node, ...]
    sign: Token
    inside: bool


@dataclass(frozen=True)
class Logic(ExpressionPart):
    """Operands of ``and`` or ``or``, or the single operand of ``not``. ``sign`` is the first operator."""

    word: str
    operands: tuple[Node, ...]
    sign: Token = field(compare=False)


Node: TypeAlias = Number | Name | Call | Arithmetic | Comparison | Containment | Logic


def format_name(name: Name) -> str:
    """Format a name as text. Parsing the text returns an equal name."""
    parts = (f".{part}" if _PLAIN.fullmatch(part) else f"[{_quote(part)}]" for part in name.parts[1:])
    return "".join([_quote(name.parts[0]) if name.quoted else name.parts[0], *parts])


def quote_word(word: str) -> str:
    """Quote a name or a value if it would otherwise be parsed differently."""
    return word if _BARE.fullmatch(word) and word.lower() not in _KEYWORDS else _quote(word)


def _quote(word: str) -> str:
    return f"'{word}'" if '"' in word else f'"{word}"'


@dataclass(frozen=True)
class Source:
    """Text and the option or entry it came from."""

    text: str
    location: str

    def word(self, part: ExpressionPart) -> str:
        """Return a part as a name or value. This includes parts parsed as arithmetic, such as ``18-25``."""
        return part.parts[0] if isinstance(part, Name) and len(part.parts) == 1 else self.cut(part)

    def cut(self, part: ExpressionPart) -> str:
        """Return the source text of a part."""
        return self.text[part.start : part.stop]

    def fault(self, message: str, part: ExpressionPart, hint: str | None = None) -> OptionError:
        """Build an error that marks a part of the text."""
        line = "".join(" " if letter.isspace() else letter for letter in self.text)
        pointer = " " * part.start + "^" * max(1, part.stop - part.start)
        return OptionError(f"{message}\n    {line}\n    {pointer}", location=self.location, hint=hint)

    def unknown(self, message: str, part: ExpressionPart, names: Iterable[str], known: str) -> OptionError:
        """Build the error for an unknown word. Its hint suggests the nearest name."""
        return self.fault(message, part, f"{suggest_name(self.word(part), names)}{known}")


@dataclass(frozen=True)
class Expression(Source):
    """Parsed expression."""

    tree: Node


def parse_expression(text: str, *, location: str, words: Collection[str] = ()) -> Expression:
    """Parse an expression.

    Args:
        text: Text of the expression.
        location: Option or entry that the text came from, for messages.
        words: Names and values that need no quotes although they contain operators, such as ``Some-college``, or are
            keywords, such as ``in``.

    Raises:
        OptionError: The expression is invalid. The message marks the invalid part.
    """
    return Expression(text, location, _Parser(Source(text, location), words).parse())


def _tokenize(source: Source, words: Collection[str]) -> Iterator[Token]:
    # A hyphen in a known word is part of the word. Otherwise, text such as 18-25 is parsed as arithmetic, and the
    # evaluator may interpret it as a value.
    hyphenated = sorted(
        (word for word in words if _FREE.fullmatch(word) and not _SUM.fullmatch(word)), key=len, reverse=True
    )
    pattern = re.compile(
        r"(?P<quoted>\"[^\"]*\"|'[^']*')"
        + (f"|(?P<known>{'|'.join(map(re.escape, hyphenated))})(?!\\w|-(?!>))" if hyphenated else "")
        + rf"|(?P<number>{_NUMBER})|(?P<sign>->|<=|>=|==|!=|[-+*/<>={{}}(),.\[\]])|(?P<word>\w+)"
        + r"|(?P<space>\s+)|(?P<wrong>.)"
    )
    for match in pattern.finditer(source.text):
        kind, text = str(match.lastgroup), match.group()
        text = text[1:-1] if kind == "quoted" else text
        token = Token(match.start(), match.end(), "word" if kind == "known" else kind, text)
        if kind == "wrong":
            if text in "\"'":
                raise source.fault("missing closing quote", token)
            raise source.fault(f"unexpected {text!r}", token, "quote it if it is part of a name or value")
        if kind != "space":
            yield token
    yield Token(len(source.text), len(source.text) + 1, "end", "")


class _Parser:
    """Recursive descent parser with one method per level of precedence, lowest first."""

    def __init__(self, source: Source, words: Collection[str]) -> None:
        self._fault = source.fault
        self._words = frozenset(words)
        self._tokens = list(_tokenize(source, self._words))
        self._depth = 0

    def parse(self) -> Node:
        tree = self._parse_implication()
        if self._tokens[0].kind != "end":
            hint = "quote names and values of several words"
            raise self._fault("expected 'and', 'or' or the end", self._tokens[0], hint)
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
        if self._depth > MAX_DEPTH:
            raise self._fault(f"expected at most {MAX_DEPTH} nested levels", token, "split the expression")
        yield
        self._depth -= 1

    def _parse_chain(
        self, operators: Sequence[str], operand: Callable[[], Node]
    ) -> tuple[tuple[Node, ...], list[Token]]:
        """Parse operands separated by the given operators."""
        operands, signs = [operand()], []
        while self._tokens[0].is_sign(*operators) or self._tokens[0].is_keyword(*operators):
            signs.append(self._take())
            if signs[-1].text == "=":
                raise self._fault("expected a comparison, got =", signs[-1], "write ==")
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
        return self._parse_logic("or", lambda: self._parse_logic("and", self._parse_not))

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
            raise self._fault("expected 'in' after 'not'", sign)
        self._take_sign("{", "expected values in braces after 'in'", "for example in {White, Black}")
        values, closing = self._parse_list("}")
        return Containment(operands[0].start, closing.stop, (operands[0], *values), sign, inside)

    def _parse_list(self, closing: str) -> tuple[tuple[Node, ...], Token]:
        """Parse operands separated by commas, and the closing sign."""
        operands, _ = self._parse_chain(",", self._parse_sum)
        message = f"expected a comma or {closing}"
        return operands, self._take_sign(closing, message, "quote values of several words")

    def _parse_sum(self) -> Node:
        return self._parse_arithmetic("+-", lambda: self._parse_arithmetic("*/", self._parse_sign))

    def _parse_arithmetic(self, operators: str, operand: Callable[[], Node]) -> Node:
        operands, signs = self._parse_chain(operators, operand)
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
            self._take_sign(")", "expected )")
            return inner
        if token.kind == "number":
            return Number(token.start, token.stop, token.text)
        if token.kind == "quoted":
            return Name(token.start, token.stop, (token.text,), quoted=True)
        if token.kind != "word" or (token.is_keyword(*_KEYWORDS) and token.text not in self._words):
            raise self._fault("expected a name, a number or a value", token)
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
                raise self._fault("expected a name", part)
            stop = part.stop if dot else self._take_sign("]", "expected ]").stop
            parts.append(part.text)
        return Name(token.start, stop, tuple(parts))

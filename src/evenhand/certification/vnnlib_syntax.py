"""VNN-LIB 1.0 as it is written: declarations of real variables, and assertions of comparisons joined by and, or.

Whatever else stands in a file is refused with its line. Format: Guidotti, Demarchi, Pulina, Tacchella: *The VNN-LIB
standard for benchmarks* (vnnlib.org).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from evenhand.errors import OptionError

TOKEN = re.compile(r"[()]|[^\s()]+")
NUMBER = re.compile(r"[+-]?\d+(\.\d*)?([eE][+-]?\d+)?", re.ASCII)
VARIABLE = re.compile(r"[XY]_(0|[1-9]\d{0,5})", re.ASCII)
MAX_DEPTH = 32
"""Brackets within brackets, at most."""


@dataclass(frozen=True)
class Inequality:
    """``low <= high``, of variables and numbers."""

    low: str | float
    high: str | float
    line: int

    def variables(self) -> Iterator[str]:
        """Yield the names of variables."""
        yield from (side for side in (self.low, self.high) if isinstance(side, str))

    def holds(self, values: Mapping[str, float]) -> bool:
        """Return whether it is true of these values."""
        low, high = (values[side] if isinstance(side, str) else side for side in (self.low, self.high))
        return low <= high


@dataclass(frozen=True)
class Junction:
    """All or some of several formulas."""

    kind: Literal["and", "or"]
    parts: tuple[Formula, ...]
    line: int

    def variables(self) -> Iterator[str]:
        """Yield the names of variables."""
        for part in self.parts:
            yield from part.variables()

    def holds(self, values: Mapping[str, float]) -> bool:
        """Return whether it is true of these values."""
        return (all if self.kind == "and" else any)(part.holds(values) for part in self.parts)


Formula: TypeAlias = Inequality | Junction


@dataclass(frozen=True)
class Word:
    """A word of the file, and its line."""

    text: str
    line: int


Tree: TypeAlias = "Word | list[Tree]"


@dataclass(frozen=True)
class Property:
    """A file: numbers of variables ``X_0 ...`` and ``Y_0 ...``, what is asserted of them, and the comments."""

    name: str
    inputs: int
    outputs: int
    assertions: tuple[Formula, ...]
    comments: tuple[str, ...]

    def holds(self, values: Mapping[str, float]) -> bool:
        """Return whether values of all variables satisfy it."""
        return all(stated.holds(values) for stated in self.assertions)


def read_property(file: Path) -> Property:
    """Read a VNN-LIB file.

    Raises:
        OptionError: it cannot be read, or holds something else; with the line.
    """
    try:
        lines = file.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not a text file"
        raise OptionError(f"the property cannot be read ({reason})", location=file.name) from None
    words: list[Word] = []
    comments = []
    for number, line in enumerate(lines, start=1):
        code, mark, comment = line.partition(";")
        words += [Word(token, number) for token in TOKEN.findall(code)]
        comments += [f";{comment}".strip()] if mark else []
    return _Reader(file.name, words).read(tuple(comments))


class _Reader:
    """Turns the words of a file into declarations and assertions."""

    def __init__(self, name: str, words: list[Word]) -> None:
        self._name = name
        self._words = words
        self._next = 0
        self._declared: dict[str, int] = {}

    def read(self, comments: tuple[str, ...]) -> Property:
        """Return what the file says."""
        assertions = []
        while self._next < len(self._words):
            command, line = self._tree(0), self._words[self._next - 1].line
            match command:
                case [Word("declare-const"), Word(name, at), Word(kind)]:
                    self._declare(name, kind, at)
                case [Word("assert"), stated]:
                    assertions.append(self._formula(stated, line))
                case _:
                    raise self._refusal("expected (declare-const NAME Real) or (assert ...)", line)
        inputs, outputs = (sum(name[0] == kind for name in self._declared) for kind in "XY")
        for kind, count in (("X", inputs), ("Y", outputs)):
            missing = next((i for i in range(count) if f"{kind}_{i}" not in self._declared), None)
            if missing is not None or not count:
                raise OptionError(f"{kind}_{missing or 0} is not declared", location=self._name)
        return Property(self._name, inputs, outputs, tuple(assertions), comments)

    def _refusal(self, message: str, line: int) -> OptionError:
        return OptionError(message, location=f"{self._name}, line {line}",
                          hint="VNN-LIB 1.0: declare-const, and assert with and, or, <=, >=, =")  # fmt: skip

    def _tree(self, depth: int) -> Tree:
        """Return the next word, or what stands between the next two brackets."""
        word = self._words[self._next]
        self._next += 1
        if word.text == ")":
            raise self._refusal("a bracket is closed that was not opened", word.line)
        if word.text != "(":
            return word
        if depth == MAX_DEPTH:
            raise self._refusal(f"more than {MAX_DEPTH} brackets within each other", word.line)
        inside: list[Tree] = []
        while self._next < len(self._words) and self._words[self._next].text != ")":
            inside.append(self._tree(depth + 1))
        if self._next == len(self._words):
            raise self._refusal("a bracket is not closed", word.line)
        self._next += 1
        return inside

    def _declare(self, name: str, kind: str, line: int) -> None:
        if not VARIABLE.fullmatch(name):
            raise self._refusal(f"expected a variable X_0, X_1, ... or Y_0, Y_1, ..., got {name!r}", line)
        if kind != "Real":
            raise self._refusal(f"expected type Real, got {kind!r}", line)
        if name in self._declared:
            raise self._refusal(f"{name} is declared twice, first in line {self._declared[name]}", line)
        self._declared[name] = line

    def _formula(self, tree: Tree, line: int) -> Formula:
        match tree:
            case [Word("and" | "or" as kind, at), _, *_]:
                joined: Literal["and", "or"] = "and" if kind == "and" else "or"
                return Junction(joined, tuple(self._formula(part, at) for part in tree[1:]), at)
            case [Word("<=" | ">=" | "=" as sign, at), Word(left), Word(right)]:
                first, second = self._side(left, at), self._side(right, at)
                if isinstance(first, float) and isinstance(second, float):
                    raise self._refusal("two numbers are compared", at)
                below, above = Inequality(first, second, at), Inequality(second, first, at)
                return below if sign == "<=" else above if sign == ">=" else Junction("and", (below, above), at)
            case [Word(text, at), *rest]:
                raise self._refusal(f"{text!r} with {len(rest)} operands is not known here", at)
            case Word(text, at):
                raise self._refusal(f"expected a comparison, got {text!r}", at)
            case _:
                raise self._refusal("expected a comparison, or several joined by and, or", line)

    def _side(self, word: str, line: int) -> str | float:
        if NUMBER.fullmatch(word) and abs(float(word)) < float("inf"):
            return float(word)
        if word not in self._declared:
            raise self._refusal(f"expected a number or a variable declared before, got {word!r}", line)
        return word

"""A constraint on people: an expression over their attributes that holds for everybody who can exist.

It compares attributes with each other, with numbers and with values of their own:

    education_num == code(education)         hours >= 10 or workclass == Never-worked
    relationship == Husband -> sex == Male         age - years_employed >= 14
    job in {"Self-employed", Clerk}          one_hot(house_rents, house_owns, house_free)

``code(x)`` is the position of a category in the schema's list, from 0. ``one_hot(a, b, ...)`` says that exactly one of
these columns is 1, and lets a search move them as a whole. A missing value breaks no constraint.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from evenhand.core import (
    COMPARISONS,
    Arithmetic,
    Call,
    Comparison,
    Containment,
    Logic,
    Name,
    Node,
    Number,
    Source,
    Token,
    parse_expression,
)
from evenhand.schema.attribute import Attribute
from evenhand.typing import Booleans, Floats

Evaluator: TypeAlias = Callable[[Floats], NDArray[Any]]


@dataclass(frozen=True)
class Constraint:
    """Something that holds for every plausible profile.

    Attributes:
        text: as it was given.
        group: the columns of which exactly one is 1, if that is all it says.
        columns: positions of the attributes that it names, in increasing order.
        attributes: those it was read for.
    """

    text: str
    group: tuple[str, ...]
    columns: tuple[int, ...]
    attributes: tuple[Attribute, ...]
    _meaning: Evaluator

    def __reduce__(self) -> tuple[Any, ...]:
        # A function made from a tree has no name to be stored under: it is made again.
        return parse_constraint, (self.text, self.attributes)

    def holds(self, individuals: Floats) -> Booleans:
        """Return for which individuals (n, attributes) it holds, shape (n,): for all who lack a value that it names."""
        missing = np.isnan(individuals[:, self.columns]).any(axis=1)
        known = np.where(np.isnan(individuals), 0.0, individuals) if missing.any() else individuals
        return np.asarray(np.broadcast_to(self._meaning(known), len(known)) | missing, dtype=np.bool_)


def parse_constraint(
    text: str, attributes: Sequence[Attribute], protected: Sequence[str] = (), *, location: str = "`constraints=`"
) -> Constraint:
    """Read an expression over the attributes of an individual.

    Args:
        text: the expression.
        attributes: all attributes, in the order of an individual's entries.
        protected: attributes that it must not name, since the search changes them with everything else unchanged.
        location: the option or entry it was given to, for messages.

    Raises:
        OptionError: it cannot be read or makes no sense; the message points at the place.
    """
    expression = parse_expression(text, location=location, words=list_words(attributes))
    compiler = _Compiler(expression, attributes, protected)
    meaning = compiler.truth(expression.tree)
    group = compiler.group if isinstance(expression.tree, Call) else ()
    return Constraint(text.strip(), group, tuple(sorted(compiler.columns)), tuple(attributes), meaning)


def list_words(attributes: Sequence[Attribute]) -> frozenset[str]:
    """Return the attributes' names and those of their values that are texts: what may stand without quotes."""
    values = (value for attribute in attributes for value in attribute.values or () if isinstance(value, str))
    return frozenset({*(attribute.name for attribute in attributes), *values})


COMPARED: dict[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge
}  # fmt: skip


def _divide(one: Any, two: Any) -> Any:
    # Nothing compares with what is divided by zero: NaN makes every comparison but != false.
    zero = np.asarray(two) == 0
    return np.where(zero, np.nan, one / np.where(zero, 1.0, two))


ARITHMETIC: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": _divide
}  # fmt: skip


class _Compiler:
    """Turns a tree into functions of many individuals at once."""

    def __init__(self, source: Source, attributes: Sequence[Attribute], protected: Sequence[str]) -> None:
        self._source = source
        self._attributes = attributes
        self._names = [attribute.name for attribute in attributes]
        self._protected = protected
        self.group: tuple[str, ...] = ()
        self.columns: set[int] = set()

    def truth(self, node: Node) -> Evaluator:
        """Return for whom a part of the tree holds."""
        if isinstance(node, Logic):
            parts = [self.truth(part) for part in node.operands]
            combine = np.logical_or if node.word == "or" else np.logical_and
            return lambda rows: combine.reduce([part(rows) for part in parts]) != (node.word == "not")
        if isinstance(node, Comparison):
            sides = zip(node.operands, node.signs, node.operands[1:], strict=False)
            held = [self._compare(one, sign.text, two, sign) for one, sign, two in sides]
            return lambda rows: np.logical_and.reduce([each(rows) for each in held])
        if isinstance(node, Containment):
            one, *values = node.operands
            same = [self._compare(one, "==", value, node.sign) for value in values]
            return lambda rows: np.logical_or.reduce([each(rows) for each in same]) == node.inside
        if isinstance(node, Call) and self._check_function(node) == "one_hot":
            return self._one_hot(node)
        hint = "compare it: == != < <= > >=, in {...}"
        raise self._source.fault("this is neither true nor false", node, hint)

    def _number(self, node: Node) -> Evaluator:
        if isinstance(node, Number):
            value = float(node.text)
            return lambda rows: np.full(len(rows), value)
        if isinstance(node, Arithmetic):
            first, *others = [self._number(operand) for operand in node.operands]
            if not others:
                return (lambda rows: -first(rows)) if node.signs[0].text == "-" else first
            steps = list(zip([ARITHMETIC[sign.text] for sign in node.signs], others, strict=True))
            return lambda rows: reduce(lambda found, step: step[0](found, step[1](rows)), steps, first(rows))
        if isinstance(node, Call) and self._check_function(node) == "code":
            return self._code(node)
        if not isinstance(node, Name):
            raise self._source.fault("a number should stand here", node)
        attribute, column = self._attribute(
            node, f"{self._source.word(node)!r} is neither an attribute nor a value of what it is compared with"
        )
        if not attribute.is_discrete:
            return lambda rows: rows[:, column]
        values = attribute.values or ()
        if not all(isinstance(value, int | float) and not isinstance(value, bool) for value in values):
            name = attribute.name
            raise self._source.fault(f"the values of {name!r} are not numbers", node, f"its position is code({name})")
        numbers = np.array(values, dtype=np.float64)
        return lambda rows: numbers[rows[:, column].astype(np.int64)]

    def _check_function(self, node: Call) -> str:
        if node.function not in ("code", "one_hot"):
            known = "the functions are: code, one_hot"
            raise self._source.fault(f"there is no function {node.function!r}", node, known)
        return node.function

    def _attribute(self, node: Node, message: str | None = None) -> tuple[Attribute, int]:
        """Return an attribute that a constraint may name, and its column."""
        name = self._source.word(node)
        if name not in self._names:
            known = f"the attributes are: {', '.join(self._names)}"
            raise self._source.unknown(message or f"there is no attribute {name!r}", node, self._names, known)
        if name in self._protected:
            message = f"{name!r} is protected: it takes all its values while everything else stays"
            raise self._source.fault(message, node, "say what must hold between the other attributes")
        column = self._names.index(name)
        self.columns.add(column)
        return self._attributes[column], column

    def _code(self, node: Call) -> Evaluator:
        if len(node.operands) > 1:
            raise self._source.fault("code() takes one attribute", node)
        attribute, column = self._attribute(node.operands[0])
        if not attribute.is_discrete:
            message = f"{attribute.name!r} is a number and has no codes"
            raise self._source.fault(message, node.operands[0], "use it as it is")
        return lambda rows: rows[:, column]

    def _one_hot(self, node: Call) -> Evaluator:
        columns, ones = [], []
        for operand in node.operands:
            attribute, column = self._attribute(operand)
            texts = [attribute.text(entry) for entry in (attribute.first, attribute.last)]
            if attribute.size != 2 or sorted(texts) not in (["0", "1"], ["False", "True"]):
                raise self._source.fault(f"{attribute.name!r} is not a column of zeros and ones", operand)
            columns.append(column)
            # The entry that means 1: a category's position need not be its value.
            ones.append(attribute.first if texts[0] in ("1", "True") else attribute.last)
        if len(set(columns)) < max(2, len(columns)):
            raise self._source.fault("a one-hot group has at least two columns, all different", node)
        if set(ones) == {1.0}:
            self.group = tuple(self._names[column] for column in columns)
        return lambda rows: (rows[:, columns] == np.array(ones)).sum(axis=1) == 1

    def _category(self, node: Node) -> tuple[Attribute, int] | None:
        """Return the attribute that a node names, if its entries are positions, and its column."""
        found = self._attribute(node) if self._source.word(node) in self._names else None
        return found if found is not None and found[0].is_discrete else None

    def _compare(self, one: Node, sign: str, two: Node, place: Token) -> Evaluator:
        found, other, compare = self._category(one), self._category(two), COMPARED[sign]
        if found is None and other is not None:
            return self._compare(two, COMPARISONS[sign], one, place)
        if found is not None:
            attribute, column = found
            if not attribute.ordered and sign not in ("==", "!="):
                raise self._source.fault(f"{attribute.name!r} has no order, so {sign} says nothing about it", place)
            if other is not None:
                return self._compare_categories(found, sign, other, place)
            word = self._source.word(two)
            is_word = isinstance(two, Name) and word not in self._names
            code = attribute.find_value(word, quoted=isinstance(two, Name))
            if code is not None and (is_word or isinstance(two, Number)):
                return lambda rows: compare(rows[:, column], code)
            if is_word:
                known = f"its values are {attribute.describe_domain()}"
                message = f"{word!r} is not a value of {attribute.name!r}"
                raise self._source.unknown(message, two, map(str, attribute.values or ()), known)
        left, right = self._number(one), self._number(two)
        return lambda rows: compare(left(rows), right(rows))

    def _compare_categories(
        self, one: tuple[Attribute, int], sign: str, two: tuple[Attribute, int], place: Token
    ) -> Evaluator:
        (attribute, left), (other, right), compare = one, two, COMPARED[sign]
        if sign not in ("==", "!=") and attribute.values != other.values:
            raise self._source.fault("two attributes compare by order only with the same list of values", place)
        places = {str(value): i for i, value in enumerate(attribute.values or ())}
        across = np.array([places.get(str(value), -1) for value in other.values or ()], dtype=np.float64)
        return lambda rows: compare(rows[:, left], across[rows[:, right].astype(np.int64)])

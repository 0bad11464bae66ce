"""Constraints: expressions over attributes that hold for every plausible individual.

A constraint compares an attribute with its values, and numeric attributes and codes with each other:

    education_num == code(education)         hours >= 10 or workclass == Never-worked
    relationship == Husband -> sex == Male         age - years_employed >= 14
    job in {"Self-employed", Clerk}

``code(x)`` is the zero-based position of a category in the schema. Individuals with a missing value satisfy every
constraint on that attribute.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from evenhand.core.expressions import (
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
from evenhand.core.typing import Booleans, Floats
from evenhand.schema.attribute import Attribute

Evaluator: TypeAlias = Callable[[Floats], NDArray[Any]]


@dataclass(frozen=True)
class Constraint:
    """Condition that holds for every plausible individual.

    Attributes:
        text: Expression.
        columns: Positions of the attributes in the expression, in increasing order.
        attributes: Attributes to which the columns refer.
    """

    text: str
    columns: tuple[int, ...]
    attributes: tuple[Attribute, ...]
    _evaluate: Evaluator

    def __reduce__(self) -> tuple[Any, ...]:
        # Closures cannot be pickled, so the expression is parsed again.
        return parse_constraint, (self.text, self.attributes)

    def holds(self, individuals: Floats) -> Booleans:
        """Check whether individuals (n, attributes) satisfy the constraint, shape (n,). True if a value is missing."""
        missing = np.isnan(individuals[:, self.columns]).any(axis=1)
        filled = np.where(np.isnan(individuals), 0.0, individuals) if missing.any() else individuals
        return np.asarray(np.broadcast_to(self._evaluate(filled), len(filled)) | missing, dtype=np.bool_)


def parse_constraint(
    text: str, attributes: Sequence[Attribute], protected: Sequence[str] = (), *, location: str = "`constraints=`"
) -> Constraint:
    """Parse an expression over the attributes of an individual.

    Args:
        text: Expression.
        attributes: All attributes, in the order of an individual's entries.
        protected: Attributes that the expression must not contain, because a search changes only these.
        location: Option or entry of the expression, for error messages.

    Raises:
        OptionError: The expression is invalid; the message marks the position.
    """
    expression = parse_expression(text, location=location, words=list_words(attributes))
    compiler = Compiler(expression, attributes, protected)
    evaluate = compiler.truth(expression.tree)
    return Constraint(text.strip(), tuple(sorted(compiler.columns)), tuple(attributes), evaluate)


def list_words(attributes: Sequence[Attribute]) -> frozenset[str]:
    """List the attribute names and text values, which expressions may contain without quotes."""
    values = (value for attribute in attributes for value in attribute.values or () if isinstance(value, str))
    return frozenset({*(attribute.name for attribute in attributes), *values})


def _divide(dividend: Any, divisor: Any) -> Any:
    # Division by zero gives NaN, which makes every comparison except != false.
    zero = np.asarray(divisor) == 0
    return np.where(zero, np.nan, dividend / np.where(zero, 1.0, divisor))


OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": _divide,
}


class Compiler:
    """Compiles an expression tree to vectorised functions of individuals."""

    def __init__(self, source: Source, attributes: Sequence[Attribute], protected: Sequence[str] = ()) -> None:
        self._source = source
        self._attributes = {attribute.name: (attribute, column) for column, attribute in enumerate(attributes)}
        self._protected = protected
        self.columns: set[int] = set()

    def truth(self, node: Node) -> Evaluator:
        """Compile a Boolean node."""
        if isinstance(node, Logic):
            parts = [self.truth(part) for part in node.operands]
            combine = np.logical_or if node.word == "or" else np.logical_and
            return lambda rows: combine.reduce([part(rows) for part in parts]) != (node.word == "not")
        if isinstance(node, Comparison):
            sides = zip(node.operands, node.signs, node.operands[1:], strict=False)
            comparisons = [self._compare(left, sign.text, right, sign) for left, sign, right in sides]
            return lambda rows: np.logical_and.reduce([comparison(rows) for comparison in comparisons])
        if isinstance(node, Containment):
            member, *values = node.operands
            matches = [self._compare(member, "==", value, node.sign) for value in values]
            return lambda rows: np.logical_or.reduce([match(rows) for match in matches]) == node.inside
        raise self._source.fault("expected a comparison", node, "compare it: == != < <= > >=, in {...}")

    def _number(self, node: Node) -> Evaluator:
        if isinstance(node, Number):
            value = float(node.text)
            return lambda rows: np.full(len(rows), value)
        if isinstance(node, Arithmetic):
            start, *operands = [self._number(operand) for operand in node.operands]
            if not operands:
                return (lambda rows: -start(rows)) if node.signs[0].text == "-" else start
            steps = list(zip([OPERATORS[sign.text] for sign in node.signs], operands, strict=True))
            return lambda rows: reduce(lambda total, step: step[0](total, step[1](rows)), steps, start(rows))
        if isinstance(node, Call):
            if node.function != "code":
                raise self._source.fault(f"there is no function {node.function!r}", node, "use code()")
            if len(node.operands) > 1:
                raise self._source.fault("code() takes one attribute", node)
            attribute, column = self._attribute(node.operands[0])
            if not attribute.is_discrete:
                message = f"the numeric attribute {attribute.name!r} has no codes"
                raise self._source.fault(message, node.operands[0], f"write {attribute.name} without code()")
            return lambda rows: rows[:, column]
        if not isinstance(node, Name):
            raise self._source.fault("expected a number", node)
        message = f"{self._source.word(node)!r} is neither an attribute nor a value of the compared attribute"
        attribute, column = self._attribute(node, message)
        if not attribute.is_discrete:
            return lambda rows: rows[:, column]
        if not attribute.is_numeric:
            name = attribute.name
            raise self._source.fault(f"the values of {name!r} are not numbers", node, f"use its position: code({name})")
        numbers = np.array(attribute.values, dtype=np.float64)
        return lambda rows: numbers[rows[:, column].astype(np.int64)]

    def _attribute(self, node: Node, message: str | None = None) -> tuple[Attribute, int]:
        """Find an attribute and its column; reject protected attributes.

        Args:
            node: Node that names the attribute.
            message: Error message if there is no such attribute.
        """
        name = self._source.word(node)
        if name not in self._attributes:
            hint = f"the attributes are: {', '.join(self._attributes)}"
            raise self._source.unknown(message or f"there is no attribute {name!r}", node, self._attributes, hint)
        if name in self._protected:
            message = f"a constraint cannot contain the protected attribute {name!r}, which the search changes"
            raise self._source.fault(message, node, "constrain the other attributes only")
        attribute, column = self._attributes[name]
        self.columns.add(column)
        return attribute, column

    def _entry(self, node: Node, attribute: Attribute) -> float:
        """Find the entry of the value of a discrete attribute that a node names."""
        word = self._source.word(node)
        entry = attribute.find_value(word, quoted=isinstance(node, Name) and node.quoted)
        if entry is None:
            hint = f"the values are {attribute.describe_domain()}"
            values = map(str, attribute.values or ())
            raise self._source.unknown(f"{word!r} is not a value of {attribute.name!r}", node, values, hint)
        return entry

    def _category(self, node: Node) -> tuple[Attribute, int] | None:
        """Find a discrete attribute and its column. Return None for any other node."""
        category = self._attribute(node) if self._source.word(node) in self._attributes else None
        return category if category is not None and category[0].is_discrete else None

    def _compare(self, left: Node, sign: str, right: Node, token: Token) -> Evaluator:
        category, other, compare = self._category(left), self._category(right), OPERATORS[sign]
        if category is None and other is not None:
            return self._compare(right, COMPARISONS[sign], left, token)
        if category is not None:
            attribute, column = category
            if not attribute.ordered and sign not in ("==", "!="):
                raise self._source.fault(f"{sign} requires an ordered attribute, got {attribute.name!r}", token)
            if other is not None:
                message = f"two categorical attributes, {attribute.name!r} and {other[0].name!r}, cannot be compared"
                raise self._source.fault(message, token, "compare each with its values, or compare their codes: code()")
            word = self._source.word(right)
            listed = attribute.find_value(word, quoted=False) is not None or not attribute.is_numeric
            if (isinstance(right, Name) and word not in self._attributes) or (
                isinstance(right, Number | Arithmetic) and listed
            ):
                code = self._entry(right, attribute)
                return lambda rows: compare(rows[:, column], code)
        evaluate_left, evaluate_right = self._number(left), self._number(right)
        return lambda rows: compare(evaluate_left(rows), evaluate_right(rows))

"""Conditions on the numbers of a result, such as ``flip_rate.sex > 0.01 or certified < 0.9``."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from evenhand.core.expressions import (
    Arithmetic,
    Comparison,
    Expression,
    Logic,
    Name,
    Node,
    Number,
    Source,
    format_name,
    parse_expression,
)
from evenhand.core.text import format_percent, suggest_name
from evenhand.errors import OptionError
from evenhand.groups.breakdown import Bounds
from evenhand.schema.outcome import TargetKind
from evenhand.stats.metric_specs import CONDITION_NAMES, LABEL_RATE_GAPS, LOWER_IS_WORSE, Family, names_of
from evenhand.stats.quantity import Quantity, Unknown, quantity_value

if TYPE_CHECKING:
    from evenhand.auditing.changes import AuditComparison
    from evenhand.auditing.result import AuditResult
    from evenhand.groups.rankings.result import RankingResult
    from evenhand.llm.comparison import LanguageModelComparison
    from evenhand.llm.result import LanguageModelAudit

    GatedResult: TypeAlias = (
        AuditResult | AuditComparison | RankingResult | LanguageModelAudit | LanguageModelComparison
    )
    """Result against which conditions can be checked."""

GatedNumber: TypeAlias = Quantity | float | Bounds
"""Number that conditions can refer to."""

OPERATORS: dict[str, Callable[[float, float], bool]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
}
VERDICTS = ("better", "worse")
"""Names of the counts of better and worse changes, in conditions on a comparison."""

LANGUAGE_AUDIT_MEASURES = ("gap", "gap_here", "identity_flips", "noise", "refusal_gap", "findings")
"""Names of the numbers of a language model audit, with the prefix ``llm``, such as ``llm.gap``."""

LANGUAGE_MEASURES = (*LANGUAGE_AUDIT_MEASURES, *VERDICTS)
"""Names of the numbers of an audit or a comparison of language models, with the prefix ``llm``."""

MEASURE_NAMES = CONDITION_NAMES | {"llm", *VERDICTS}
"""Names of numbers, except those of custom metrics."""

ALIASES = {"violation_rate": "flip_rate", "population_violation_rate": "population_flip_rate"}
"""Names used in the literature, mapped to the names used here."""

ENDS = ("low", "high")

AUDITED_FAMILIES: dict[TargetKind, tuple[Family, ...]] = {
    "label": ("group", "overall", "gap", "subgroup"),
    "labels": ("label", "label gap"),
    "ordinal": ("group", "overall", "gap", "label", "label gap", "subgroup"),
    "number": ("number", "number gap", "subgroup"),
}
"""Families of the metrics that every audit measures, by kind of target. That of a model also measures individuals and
proofs."""


@dataclass(frozen=True)
class Gate:
    """Parsed condition.

    A number is named ``name``, ``name.attribute`` or ``name['attribute']`` (``a_x_b`` for several attributes), and
    ``.low`` and ``.high`` select an end of its interval. Without an attribute, the worst attribute is used. The gap of
    a label is named ``name.attribute.label``; without a label, the largest gap is used. Numbers of a language model are
    named ``llm.name``, for the largest over all pairs of groups, or ``llm.name['group 1 against group 0']``.
    """

    parsed: Expression

    @property
    def expression(self) -> str:
        """Text of the condition."""
        return self.parsed.text

    @property
    def names(self) -> dict[str, Name]:
        """Names of numbers in the condition, by their text."""
        return {format_name(node): node for node in _list_names(self.parsed.tree)}

    def check_numbers(
        self, protected: Sequence[str], families: Collection[Family], labels: Collection[object] | None = None
    ) -> None:
        """Check before an audit that it will contain all numbers in the condition, as far as this is known.

        Args:
            protected: Attributes that the audit compares.
            families: Families of the metrics that it measures. Custom metrics are always accepted.
            labels: Labels of the target. None if they are unknown.

        Raises:
            OptionError: A number, an attribute or a label is not part of the audit.
        """
        measured = sorted(names_of(*families))
        for node in self.names.values():
            name, path, _ = _split_name(node)
            if name in MEASURE_NAMES and name not in measured:
                hint = f"known: {', '.join(measured)}"
                raise self.parsed.unknown(f"this audit has no number called {name!r}", node, measured, hint)
            unknown = [part for part in path[:1] if part not in protected]
            if unknown and not set(unknown[0].split("_x_")) <= set(protected):
                hint = f"{suggest_name(unknown[0], protected)}protected are: {', '.join(protected)}"
                raise self.parsed.fault(f"{name} is not measured for {unknown[0]!r}", node, hint)
            label, words = ".".join(path[1:]), [] if name not in LABEL_RATE_GAPS else list(map(str, labels or ()))
            if label and labels is not None and label not in words:
                hint = f"labels are: {', '.join(words)}" if words else "leave it out"
                raise self.parsed.fault(f"{name} is not measured for {label!r}", node, hint)

    def names_any(self, family: Family) -> bool:
        """Check whether the condition contains a metric of a family."""
        return any(_split_name(node)[0] in names_of(family) for node in self.names.values())

    def check_language(self, groups: Collection[str] | None) -> None:
        """Check before the audit of a language model that it will contain all numbers in the condition.

        Args:
            groups: Compared groups. None for a comparison of two models, which only has verdicts.

        Raises:
            OptionError: The condition contains another number or another pair of groups.
        """
        pairs = [f"{group} against {other}" for group in groups or () for other in groups or () if group != other]
        measures = VERDICTS if groups is None else LANGUAGE_AUDIT_MEASURES
        for node in self.names.values():
            name, path, _ = _split_name(node)
            is_measure = name == "llm" and path[0] in measures
            if not is_measure or ".".join(path[1:]) not in ("", *pairs):
                choices = ", ".join(pairs if is_measure else (f"llm.{measure}" for measure in measures))
                raise self.parsed.fault(f"there will be no number {self.parsed.cut(node)!r}", node, f"known: {choices}")

    def holds(self, result: GatedResult) -> bool:
        """Check whether the condition holds.

        Raises:
            OptionError: The result does not contain a number. The message lists its numbers.
        """
        return _evaluate_truth(self.parsed.tree, measure_values(result), self.parsed)

    def measured(self, result: GatedResult) -> list[tuple[str, float]]:
        """Return the numbers in the condition, with their values in the result.

        Raises:
            OptionError: The result does not contain a number.
        """
        values = measure_values(result)
        return [(name, _evaluate_name(node, values, self.parsed)) for name, node in self.names.items()]

    def cautions(self, result: GatedResult) -> list[str]:
        """List the cautions about selective true labels for the numbers in the condition."""
        cautions = {(row.name, row.attribute): row.caution for row in result.numbers() if row.caution and not row.group}
        return list(
            dict.fromkeys(
                f"{_join(name, attribute)}: {caution}"
                for node in self.names.values()
                for (name, attribute), caution in cautions.items()
                if name == _split_name(node)[0] and ".".join(_split_name(node)[1]) in ("", attribute)
            )
        )

    def not_assessable(self, result: GatedResult) -> list[str]:
        """List the numbers in the condition that cannot be assessed, with the reasons.

        These are unknown numbers, including those of a pair of groups in the audit of a language model; gaps that leave
        out small groups; and all numbers of a language model with too many missing answers.
        """
        values = measure_values(result)
        left_out = {(row.name, row.attribute): row.left_out for row in result.numbers() if row.left_out}
        reasons = []
        for node in self.names.values():
            name, path, _ = _split_name(node)
            label = ".".join(path)
            for attribute, quantity in values.get(name, {}).items():
                if path and label != attribute and not (name == "llm" and attribute.startswith(f"{label}.")):
                    continue
                if isinstance(quantity, Unknown):
                    reasons.append(f"{_join(name, attribute)}: {quantity.reason}")
                elif (name, attribute) in left_out:
                    reasons.append(f"{_join(name, attribute)}: {left_out[name, attribute]}")
        if result.kind == "llm" and result.incomplete:
            reasons.append(f"llm: {format_percent(result.missing)} of all questions were not answered")
        return list(dict.fromkeys(reasons))


def parse_gate(expression: str, metrics: Collection[str] = ()) -> Gate:
    """Parse a condition: comparisons of named numbers, combined with ``and``, ``or`` and ``not``.

    Args:
        expression: Condition.
        metrics: Names of custom metrics. Conditions may contain these, and their gaps ``NAME_difference``.

    Raises:
        OptionError: The condition is invalid, or a custom metric has the name of another number.
    """
    clashes = sorted(MEASURE_NAMES & set(metrics))
    if clashes:
        raise OptionError(f"{clashes[0]!r} is the name of another number", location="`metrics=`", hint="choose another")
    parsed = parse_expression(expression, location="gate")
    names = MEASURE_NAMES.union(metrics, (f"{name}_difference" for name in metrics))
    _check_tree(parsed.tree, parsed, names)
    return Gate(parsed)


def measure_values(result: GatedResult) -> dict[str, dict[str, GatedNumber]]:
    """Return the numbers of a result that conditions may contain, by name and attributes joined by ``_x_``."""
    values: dict[str, dict[str, GatedNumber]] = {}
    for number in result.numbers():
        if not number.group:
            values.setdefault(number.name, {})[number.attribute] = number.quantity
    return values


def _join(name: str, attribute: str) -> str:
    return f"{name}.{attribute}" if attribute else name


def _check_tree(node: Node, source: Source, names: frozenset[str]) -> None:
    if isinstance(node, Logic):
        for part in node.operands:
            _check_tree(part, source, names)
        return
    invalid: Node | None = node
    if isinstance(node, Comparison):
        invalid = next((side for side in node.operands if not isinstance(side, Name) and _number(side) is None), None)
    if invalid is not None:
        hint = "compare a number with a threshold: 'flip_rate > 0.01 or certified.sex < 0.9'"
        raise source.fault(f"{source.cut(invalid)!r} is not a comparison of named numbers", invalid, hint)
    for side in _list_names(node):
        name, measure = side.parts[0], side.parts[1:2]
        if name not in names | ALIASES.keys():
            hint = f"the numbers are: {', '.join(sorted(names))}"
            raise source.unknown(f"there is no number called {name!r}", side, names | ALIASES.keys(), hint)
        if name == "llm" and not set(measure) & set(LANGUAGE_MEASURES):
            hint = f"the numbers are: {', '.join(f'llm.{measure}' for measure in LANGUAGE_MEASURES)}"
            raise source.fault(f"there is no number called {'.'.join(side.parts)!r}", side, hint)


def _number(node: Node) -> float | None:
    """Return the value of a number with an optional sign. None for other nodes."""
    if isinstance(node, Arithmetic) and len(node.operands) == 1 and isinstance(node.operands[0], Number):
        return float(node.signs[0].text + node.operands[0].text)
    return float(node.text) if isinstance(node, Number) else None


def _list_names(node: Node) -> Iterator[Name]:
    if isinstance(node, Name):
        yield node
    elif isinstance(node, Logic | Comparison):
        for part in node.operands:
            yield from _list_names(part)


def _split_name(node: Name) -> tuple[str, list[str], str | None]:
    """Split a name into the number, the attribute (if any), and the end of the interval."""
    name, *path = ALIASES.get(node.parts[0], node.parts[0]), *node.parts[1:]
    end = path.pop() if path and path[-1] in ENDS else None
    return name, path, end


def _evaluate_truth(node: Node, values: dict[str, dict[str, GatedNumber]], source: Source) -> bool:
    if isinstance(node, Logic):
        truths = [_evaluate_truth(part, values, source) for part in node.operands]
        return any(truths) if node.word == "or" else all(truths) != (node.word == "not")
    assert isinstance(node, Comparison)
    sides = [
        _evaluate_name(side, values, source) if isinstance(side, Name) else _number(side) or 0.0
        for side in node.operands
    ]
    comparisons = zip(node.signs, sides[:-1], sides[1:], strict=True)
    return all(OPERATORS[sign.text](left, right) for sign, left, right in comparisons)


def _evaluate_name(node: Name, values: dict[str, dict[str, GatedNumber]], source: Source) -> float:
    name, path, end = _split_name(node)
    if name not in values:
        hint = f"known: {', '.join(sorted(values))}"
        raise source.unknown(f"this audit has no number called {name!r}", node, values, hint)
    by_attribute, attribute = values[name], ".".join(path)
    if path and attribute not in by_attribute:
        hint = (
            f"{suggest_name(attribute, by_attribute)}it was measured for: {', '.join(by_attribute) or 'no attribute'}"
        )
        raise source.fault(f"{name} was not measured for {attribute!r}", node, hint)
    quantities = [by_attribute[attribute]] if path else list(by_attribute.values())
    numbers = [number for number in (_select_end(quantity, end) for quantity in quantities) if number is not None]
    if end is None and any(isinstance(quantity, Bounds) for quantity in quantities):
        hint = f"select an end: {format_name(node)}.low (lower bound) or {format_name(node)}.high (upper bound)"
        raise source.fault(f"{format_name(node)} has only bounds", node, hint)
    if not numbers and not any(isinstance(quantity, Unknown) for quantity in quantities):
        raise source.fault(f"{format_name(node)} is unknown: it has no interval", node)
    if not numbers:
        return math.nan  # neither above nor below any number; ``not_assessable`` lists it
    return min(numbers) if name in LOWER_IS_WORSE else max(numbers)


def _select_end(quantity: GatedNumber, end: str | None) -> float | None:
    """Return a number, or an end of its interval. None if it is unknown."""
    if isinstance(quantity, Bounds):
        return None if end is None else float(getattr(quantity, end))
    if isinstance(quantity, float):
        return quantity if end is None else None
    if end is None or isinstance(quantity, Unknown):
        return quantity_value(quantity)
    value = getattr(quantity, end, None)
    return None if value is None else float(value)

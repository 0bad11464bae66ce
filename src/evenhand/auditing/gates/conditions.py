"""Conditions on an audit's numbers, as in ``--fail-on 'flip_rate.sex > 0.01 or certified < 0.9'``."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from evenhand.auditing.changes import AuditComparison
from evenhand.auditing.result import AuditResult
from evenhand.core.expressions import (
    Arithmetic,
    Comparison,
    Expression,
    Logic,
    Name,
    Node,
    Number,
    Source,
    format_expression,
    parse_expression,
)
from evenhand.core.text import format_percent, suggest_name
from evenhand.errors import OptionError
from evenhand.groups.proxies.result import Ends
from evenhand.groups.rankings.result import RankingResult
from evenhand.llm.comparison import LanguageModelComparison
from evenhand.llm.result import LanguageModelAudit
from evenhand.stats.metric_specs import CONDITION_NAMES, LOWER_IS_WORSE
from evenhand.stats.quantity import Quantity, Unknown, quantity_value

GatedResult: TypeAlias = AuditResult | AuditComparison | RankingResult | LanguageModelAudit | LanguageModelComparison
"""What a condition may be asked of."""

COMPARED: dict[str, Callable[[float, float], bool]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
}
VERDICTS = ("better", "worse")
"""What a condition on a comparison may count."""

LANGUAGE_AUDIT_MEASURES = ("gap", "gap_here", "identity_flips", "noise", "refusal_gap", "findings")
"""What a condition on the audit of a language model may name after ``llm``: ``llm.gap``."""

LANGUAGE_MEASURES = (*LANGUAGE_AUDIT_MEASURES, *VERDICTS)
"""What a condition on an audit or a comparison of language models may name."""

MEASURE_NAMES = CONDITION_NAMES | {"llm", *VERDICTS}
"""What a condition may name."""

ALIASES = {"violation_rate": "flip_rate", "population_violation_rate": "population_flip_rate"}
"""Names that the literature has for the same numbers; a condition may use either."""

ENDS = ("low", "high")


GatedNumber: TypeAlias = Quantity | float | Ends
"""What a condition may compare."""


@dataclass(frozen=True)
class Gate:
    """A condition that was parsed: it may be asked of any audit.

    A number is called ``name``, ``name.attribute`` or ``name['attribute']`` (``a_x_b`` for several together), each
    with ``.low`` or ``.high`` for an end of its interval. Without an attribute the worst one counts. A gap of one label
    is ``name.attribute.label``; without a label it is the largest over all of them. Numbers of a language model are
    called ``llm.name``, the largest over all pairs of groups, or ``llm.name['group 1 against group 0']``.
    """

    parsed: Expression

    @property
    def expression(self) -> str:
        """The condition as it was given."""
        return self.parsed.text

    def check_attributes(self, protected: Sequence[str]) -> None:
        """Refuse attributes that an audit by these protected ones has no number for, before anything is asked.

        Raises:
            OptionError: the condition names another attribute.
        """
        for node in _names(self.parsed.tree):
            name, rest, _ = _name_parts(node)
            unknown = [part for part in rest[:1] if part not in protected]
            if unknown and not set(unknown[0].split("_x_")) <= set(protected):
                hint = f"{suggest_name(unknown[0], protected)}protected are: {', '.join(protected)}"
                raise self.parsed.fault(f"{name} is not measured for {unknown[0]!r}", node, hint)

    def check_language(self, groups: Collection[str] | None) -> None:
        """Refuse numbers that an audit of a language model does not have, before anything is asked.

        Args:
            groups: those that it compares; None: it is a comparison of two models, which has verdicts alone.

        Raises:
            OptionError: the condition names another number, or a pair of other groups.
        """
        pairs = [f"{one} against {other}" for one in groups or () for other in groups or () if one != other]
        measures = VERDICTS if groups is None else LANGUAGE_AUDIT_MEASURES
        for node in _names(self.parsed.tree):
            name, rest, _ = _name_parts(node)
            known = name == "llm" and rest[0] in measures
            if not known or ".".join(rest[1:]) not in ("", *pairs):
                there = ", ".join(pairs if known else (f"llm.{one}" for one in measures))
                raise self.parsed.fault(
                    f"there will be no number {self.parsed.cut(node)!r}", node, f"there are: {there}"
                )

    def holds(self, audit: GatedResult) -> bool:
        """Return whether the condition holds for this audit, or for the changes of a comparison.

        Raises:
            OptionError: it names a number that the audit does not have; the message lists those it has.
        """
        return _evaluate_truth(self.parsed.tree, measure_values(audit), self.parsed)

    def measured(self, audit: GatedResult) -> list[tuple[str, float]]:
        """Return every number that the condition names, as it is written there, with its value in this audit.

        Raises:
            OptionError: it names a number that the audit does not have.
        """
        known, source = measure_values(audit), self.parsed
        named = {format_expression(node): node for node in _names(source.tree)}
        return [(name, _evaluate_name(node, known, source)) for name, node in named.items()]

    def cautions(self, audit: GatedResult) -> list[str]:
        """Return what to know of the numbers that the condition names: which rest on selective true labels."""
        known = measure_values(audit)
        selective = {(row.name, row.attribute): row.caution for row in audit.numbers() if row.caution and not row.group}
        found = []
        for node in _names(self.parsed.tree):
            name, rest, _ = _name_parts(node)
            found += [
                f"{name}.{by}: {selective[name, by]}" if by else f"{name}: {selective[name, by]}"
                for by in known.get(name, {})
                if (name, by) in selective and (not rest or ".".join(rest) == by)
            ]
        return list(dict.fromkeys(found))

    def not_assessable(self, audit: GatedResult) -> list[str]:
        """Return what the condition names and this audit cannot assess, each with the reason.

        A number that is unknown, also of one of the pairs of groups that a language model is asked about; a gap that
        leaves out groups because they are too small; and answers of which too many are missing.
        """
        known = measure_values(audit)
        left_out = {(row.name, row.attribute): row.left_out for row in audit.numbers() if row.left_out}
        found = []
        for node in _names(self.parsed.tree):
            name, rest, _ = _name_parts(node)
            for by, quantity in known.get(name, {}).items():
                wanted = ".".join(rest)
                if rest and wanted != by and not (name == "llm" and by.startswith(f"{wanted}.")):
                    continue
                what = f"{name}.{by}" if by else name
                if isinstance(quantity, Unknown):
                    found.append(f"{what}: {quantity.reason}")
                elif (name, by) in left_out:
                    found.append(f"{what}: {left_out[name, by]}")
        if isinstance(audit, LanguageModelAudit) and audit.incomplete:
            found.append(f"llm: {format_percent(audit.missing)} of all questions stayed without an answer")
        return list(dict.fromkeys(found))


def parse_gate(expression: str, metrics: Collection[str] = ()) -> Gate:
    """Read a condition: comparisons of named numbers, joined by and, or, not.

    Args:
        expression: the condition.
        metrics: names of metrics of one's own; a condition may name them, and their gaps ``NAME_difference``.

    Raises:
        OptionError: it does not parse, or contains anything else; or a metric has the name of another number.
    """
    taken = sorted(MEASURE_NAMES & set(metrics))
    if taken:
        raise OptionError(f"{taken[0]!r} is the name of another number", location="`metrics=`", hint="choose another")
    parsed = parse_expression(expression, location="gate")
    names = MEASURE_NAMES.union(metrics, (f"{name}_difference" for name in metrics))
    _check_tree(parsed.tree, parsed, names)
    return Gate(parsed)


def measure_values(result: GatedResult) -> dict[str, dict[str, GatedNumber]]:
    """Return the numbers that a condition may name: name -> attribute (or attributes joined by ``_x_``) -> number."""
    values: dict[str, dict[str, GatedNumber]] = {}
    for number in result.numbers():
        if not number.group:
            values.setdefault(number.name, {})[number.attribute] = number.quantity
    return values


def _check_tree(node: Node, source: Source, names: frozenset[str]) -> None:
    if isinstance(node, Logic):
        for part in node.operands:
            _check_tree(part, source, names)
        return
    wrong: Node | None = node
    if isinstance(node, Comparison):
        wrong = next((side for side in node.operands if not isinstance(side, Name) and _number(side) is None), None)
    if wrong is not None:
        hint = "compare a number with a threshold: 'flip_rate > 0.01 or certified.sex < 0.9'"
        raise source.fault(f"{source.cut(wrong)!r} is not a comparison of named numbers", wrong, hint)
    for side in node.operands if isinstance(node, Comparison) else ():
        if isinstance(side, Name) and side.parts[0] not in names | ALIASES.keys():
            known = f"the numbers are: {', '.join(sorted(names))}"
            message = f"there is no number called {side.parts[0]!r}"
            raise source.unknown(message, side, names | ALIASES.keys(), known)
        if (
            isinstance(side, Name)
            and side.parts[0] == "llm"
            and side.parts[1:2] not in [(name,) for name in LANGUAGE_MEASURES]
        ):
            known = f"the numbers are: {', '.join(f'llm.{name}' for name in LANGUAGE_MEASURES)}"
            raise source.fault(f"there is no number called {'.'.join(side.parts)!r}", side, known)


def _number(node: Node) -> float | None:
    """Return the number that is written, with its sign; None where a name or anything else stands."""
    if isinstance(node, Arithmetic) and len(node.operands) == 1 and isinstance(node.operands[0], Number):
        return float(node.signs[0].text + node.operands[0].text)
    return float(node.text) if isinstance(node, Number) else None


def _names(node: Node) -> Iterator[Name]:
    if isinstance(node, Name):
        yield node
    elif isinstance(node, Logic | Comparison):
        for part in node.operands:
            yield from _names(part)


def _name_parts(node: Name) -> tuple[str, list[str], str | None]:
    """Return a number's name, the attribute if one is named, and the end of its interval."""
    name, *rest = ALIASES.get(node.parts[0], node.parts[0]), *node.parts[1:]
    end = rest.pop() if rest and rest[-1] in ENDS else None
    return name, rest, end


def _evaluate_truth(node: Node, known: dict[str, dict[str, GatedNumber]], source: Source) -> bool:
    if isinstance(node, Logic):
        truths = [_evaluate_truth(part, known, source) for part in node.operands]
        return any(truths) if node.word == "or" else all(truths) != (node.word == "not")
    assert isinstance(node, Comparison)
    sides = [
        _evaluate_name(side, known, source) if isinstance(side, Name) else _number(side) or 0.0
        for side in node.operands
    ]
    comparisons = zip(node.signs, sides[:-1], sides[1:], strict=True)
    return all(COMPARED[sign.text](left, right) for sign, left, right in comparisons)


def _evaluate_name(node: Name, known: dict[str, dict[str, GatedNumber]], source: Source) -> float:
    name, rest, end = _name_parts(node)
    if name not in known:
        raise source.unknown(
            f"this audit has no number called {name!r}", node, known, f"it has: {', '.join(sorted(known))}"
        )
    by, asked = known[name], ".".join(rest)
    if rest and asked not in by:
        raise source.fault(
            f"{name} was not measured for {asked!r}",
            node,
            f"{suggest_name(asked, by)}it was for: {', '.join(by) or 'no attribute'}",
        )
    chosen = [by[asked]] if rest else list(by.values())
    values = [value for value in (_interval_end(quantity, end) for quantity in chosen) if value is not None]
    if end is None and any(isinstance(quantity, Ends) for quantity in chosen):
        hint = f"name an end: {format_expression(node)}.low, what it is at least, or .high, at most"
        raise source.fault(f"{format_expression(node)} has bounds, and no value between them", node, hint)
    if not values and not any(isinstance(quantity, Unknown) for quantity in chosen):
        raise source.fault(f"{format_expression(node)} is unknown here: it has no interval", node)
    if not values:
        return math.nan  # neither above nor below anything; ``not_assessable`` names it
    return min(values) if name in LOWER_IS_WORSE else max(values)


def _interval_end(quantity: GatedNumber, end: str | None) -> float | None:
    if isinstance(quantity, Ends):
        return None if end is None else float(getattr(quantity, end))
    if isinstance(quantity, float):
        return quantity if end is None else None
    if end is None or isinstance(quantity, Unknown):
        return quantity_value(quantity)
    value = getattr(quantity, end, None)
    return None if value is None else float(value)

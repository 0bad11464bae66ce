"""Conditions on an audit's numbers, as in ``--fail-on 'violation_rate.sex > 0.01 or certified < 0.9'``."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from dataclasses import dataclass

from evenhand.audit.result import AuditResult
from evenhand.errors import OptionError
from evenhand.groups import GAP_NAMES, OVERALL_NAMES
from evenhand.stats import Observed, Quantity, Unknown, number
from evenhand.subgroup import Finding, SubgroupResult

COMPARISONS: dict[type[ast.cmpop], Callable[[float, float], bool]] = {
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}
NAMES = frozenset(
    {
        "violation_rate",
        "population_violation_rate",
        "certified",
        "falsified",
        "undecided",
        "worst_subgroup_gap",
        *GAP_NAMES,
        *OVERALL_NAMES,
    }
)
"""What a condition may name."""

LOWER_IS_WORSE = frozenset({"demographic_parity_ratio", "certified", "accuracy", "auc"})
ENDS = ("low", "high")


@dataclass(frozen=True)
class Gate:
    """A condition that was parsed: it may be asked of any audit.

    A number is called ``name``, ``name.attribute`` or ``name['attribute']`` (``a_x_b`` for several together), each
    with ``.low`` or ``.high`` for an end of its interval. Without an attribute the worst one counts.
    """

    expression: str
    tree: ast.expr

    def holds(self, audit: AuditResult) -> bool:
        """Whether the condition holds for this audit.

        Raises:
            OptionError: it names a number that the audit does not have; the message lists those it has.
        """
        return _truth(self.tree, measures(audit), self.expression)


def parse(expression: str) -> Gate:
    """Read a condition: comparisons of named numbers, joined by and, or, not.

    Raises:
        OptionError: it does not parse, or contains anything else.
    """
    try:
        tree = ast.parse(expression.strip(), mode="eval").body
    except (SyntaxError, ValueError) as error:
        raise OptionError(
            f"the condition does not parse: {getattr(error, 'msg', error)}",
            where=f"--fail-on {expression!r}",
            mend="write for example 'violation_rate > 0.01' or 'certified.sex < 0.9 and undecided.sex < 0.05'",
        ) from None
    _check(tree, expression)
    return Gate(expression, tree)


def measures(audit: AuditResult) -> dict[str, dict[str, Quantity | float]]:
    """Every number that a condition may name: name -> attribute (or attributes joined by ``_x_``) -> number."""
    found: dict[str, dict[str, Quantity | float]] = {}
    for breakdown in audit.groups.breakdowns:
        for gap in breakdown.gaps:
            found.setdefault(gap.name, {})["_x_".join(breakdown.by)] = gap.value
    for rate in audit.individual.rates:
        name = "violation_rate" if rate.over == "data" else "population_violation_rate"
        found.setdefault(name, {})["_x_".join(rate.protected)] = rate.rate
    for certificate in audit.certificates:
        for name in ("certified", "falsified", "undecided"):
            found.setdefault(name, {})["_x_".join(certificate.protected)] = float(getattr(certificate, name))
    if audit.subgroups is not None:
        found["worst_subgroup_gap"] = {"": _worst_subgroup_gap(audit.subgroups, audit.worst_subgroup)}
    for name, quantity in audit.groups.overall.items():
        found.setdefault(name, {})[""] = quantity
    return found


def _worst_subgroup_gap(searched: SubgroupResult, worst: Finding | None) -> Observed:
    """How far the worst subgroup's favourable rate is below that of the others; the ends hold for all subgroups."""
    gap, low, high = (0.0, 0.0, 0.0) if worst is None else (-worst.gap, max(0.0, -worst.high), -worst.low)
    return Observed(
        value=gap, n=searched.people, low=low, high=high, confidence=searched.confidence, method=searched.control
    )


def _check(node: ast.expr, expression: str) -> None:
    if isinstance(node, ast.BoolOp):
        for part in node.values:
            _check(part, expression)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        _check(node.operand, expression)
    elif isinstance(node, ast.Compare) and all(type(comparison) in COMPARISONS for comparison in node.ops):
        for side in (node.left, *node.comparators):
            path = _path_or_number(side, expression)
            if isinstance(path, list) and path[0] not in NAMES:
                raise OptionError(
                    f"there is no number called {path[0]!r}",
                    where=f"--fail-on {expression!r}",
                    mend=f"the numbers are: {', '.join(sorted(NAMES))}",
                )
    else:
        raise _not_a_condition(node, expression)


def _not_a_condition(node: ast.expr, expression: str) -> OptionError:
    return OptionError(
        f"{ast.unparse(node)!r} is not a comparison of named numbers",
        where=f"--fail-on {expression!r}",
        mend="compare a number with a threshold: 'violation_rate > 0.01'",
    )


def _path_or_number(node: ast.expr, expression: str) -> list[str] | float:
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float) and not isinstance(node.value, bool):
        return float(node.value)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant):
        inner = _path_or_number(node.operand, expression)
        if isinstance(inner, float):
            return -inner
    path: list[str] = []
    while not isinstance(node, ast.Name):
        if isinstance(node, ast.Attribute):
            path.insert(0, node.attr)
        elif isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
            path.insert(0, str(node.slice.value))
        else:
            raise _not_a_condition(node, expression)
        node = node.value
    return [node.id, *path]


def _truth(node: ast.expr, known: dict[str, dict[str, Quantity | float]], expression: str) -> bool:
    if isinstance(node, ast.BoolOp):
        truths = [_truth(part, known, expression) for part in node.values]
        return all(truths) if isinstance(node.op, ast.And) else any(truths)
    if isinstance(node, ast.UnaryOp):
        return not _truth(node.operand, known, expression)
    assert isinstance(node, ast.Compare)
    sides = [_number(side, known, expression) for side in (node.left, *node.comparators)]
    comparisons = zip(node.ops, sides[:-1], sides[1:], strict=True)
    return all(COMPARISONS[type(comparison)](left, right) for comparison, left, right in comparisons)


def _number(node: ast.expr, known: dict[str, dict[str, Quantity | float]], expression: str) -> float:
    path = _path_or_number(node, expression)
    if isinstance(path, float):
        return path
    name, *rest = path
    end = rest.pop() if rest and rest[-1] in ENDS else None
    where = f"--fail-on {expression!r}"
    if name not in known:
        raise OptionError(
            f"this audit has no number called {name!r}", where=where, mend=f"it has: {', '.join(sorted(known))}"
        )
    by = known[name]
    if rest and rest[0] not in by:
        raise OptionError(
            f"{name} was not measured for {rest[0]!r}", where=where, mend=f"it was for: {', '.join(by) or 'nobody'}"
        )
    chosen = [by[rest[0]]] if rest else list(by.values())
    values = [value for value in (_end(quantity, end) for quantity in chosen) if value is not None]
    if not values:
        reason = next((quantity.reason for quantity in chosen if isinstance(quantity, Unknown)), "it has no interval")
        raise OptionError(f"{'.'.join(path)} is unknown here: {reason}", where=where)
    return min(values) if name in LOWER_IS_WORSE else max(values)


def _end(quantity: Quantity | float, end: str | None) -> float | None:
    if isinstance(quantity, float):
        return quantity if end is None else None
    if end is None or isinstance(quantity, Unknown):
        return number(quantity)
    value = getattr(quantity, end, None)
    return None if value is None else float(value)

"""Conditions on an audit's numbers, as in ``--fail-on 'flip_rate.sex > 0.01 or certified < 0.9'``."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

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
from evenhand.core.text import format_percent, list_some, suggest_name
from evenhand.errors import OptionError
from evenhand.groups.breakdown import Gap
from evenhand.groups.label_coverage import find_caution
from evenhand.groups.labels.names import LABEL_GAP_TITLES, LABEL_TITLES
from evenhand.groups.names import GAP_NAMES, OVERALL_NAMES
from evenhand.groups.number_words import NUMBER_GAP_TITLES, NUMBER_TITLES
from evenhand.groups.rankings.result import RANKING_GAP_NAMES, RankingResult
from evenhand.llm.comparison import LanguageModelComparison
from evenhand.llm.result import LanguageModelAudit
from evenhand.stats.quantity import Estimated, Observed, Quantity, Unknown, quantity_value
from evenhand.subgroups.numbers.wording import counts_as_worse
from evenhand.subgroups.result import Finding, SubgroupResult

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

PROXY_METRICS = ("selection_rate", "true_positive_rate", "false_positive_rate")
"""Rates of groups known by probability: ``probable_selection_rate_difference`` is the largest between two of them under
the assumption of the estimates, ``bounded_selection_rate_difference`` what it can be without."""


class Ends(NamedTuple):
    """What a number is at least and at most, where nothing says which value in between it has."""

    low: float
    high: float


MEASURE_NAMES = frozenset(
    {
        "llm",
        "counterfactual_flip_rate",
        "excess_flip_rate",
        "flip_rate",
        "population_counterfactual_flip_rate",
        "population_excess_flip_rate",
        "population_flip_rate",
        "certified",
        "falsified",
        "undecided",
        "largest_change",
        "mean_change",
        "population_largest_change",
        "population_mean_change",
        "worst_subgroup_gap",
        "worst_subgroup_residual",
        *(f"{kind}_{metric}_difference" for metric in PROXY_METRICS for kind in ("probable", "bounded")),
        *GAP_NAMES,
        *LABEL_GAP_TITLES,
        *LABEL_TITLES,
        *OVERALL_NAMES,
        *NUMBER_GAP_TITLES,
        *NUMBER_TITLES,
        *RANKING_GAP_NAMES,
        *VERDICTS,
    }
)
"""What a condition may name."""

ALIASES = {"violation_rate": "flip_rate", "population_violation_rate": "population_flip_rate"}
"""Names that the literature has for the same numbers; a condition may use either."""

LOWER_IS_WORSE = frozenset(
    {"demographic_parity_ratio", "certified", "accuracy", "auc", "label_accuracy", "macro_recall", "weighted_kappa"}
    | {name for name in RANKING_GAP_NAMES if name.endswith("_ratio")}
)
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
        known, selective = measure_values(audit), _find_cautions(audit)
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
        left_out = _groups_left_out(audit) if isinstance(audit, AuditResult | RankingResult) else {}
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


def measure_values(audit: GatedResult) -> dict[str, dict[str, GatedNumber]]:
    """Return every number that a condition may name: name -> attribute (or attributes joined by ``_x_``) -> number.

    Where people have weights, numbers of groups and subgroups are weighted; those of flips are not. Of a
    comparison, the changes of everybody's numbers, gaps and flip rates, and how many are ``better`` or ``worse``.
    """
    found: dict[str, dict[str, GatedNumber]] = {}
    if isinstance(audit, AuditComparison):
        for line in audit.lines:
            if not line.group:
                found.setdefault(line.name, {})[line.by] = line.change
        return found | {"better": {"": float(audit.count("better"))}, "worse": {"": float(audit.count("worse"))}}
    if isinstance(audit, RankingResult):
        return _ranking_values(audit)
    if isinstance(audit, LanguageModelAudit | LanguageModelComparison):
        return {"llm": _language_values(audit)}
    for by, gap in _list_gaps(audit):
        found.setdefault(gap.name, {})[by] = gap.value
    for rate in () if audit.individual is None else audit.individual.rates:
        prefix, names = "" if rate.over == "data" else "population_", "_x_".join(rate.protected)
        found.setdefault(f"{prefix}flip_rate", {})[names] = rate.rate
        found.setdefault(f"{prefix}counterfactual_flip_rate", {})[names] = rate.headline.rate
        found.setdefault(f"{prefix}excess_flip_rate", {})[names] = rate.excess
    for proxies in audit.groups.proxies:
        for metric in dict.fromkeys(one.metric for one in proxies.rates):
            largest, ends = proxies.largest_difference(metric), proxies.largest_bounds(metric)
            found.setdefault(f"probable_{metric}_difference", {})[proxies.by] = largest
            known = largest if ends is None else Ends(*ends)
            found.setdefault(f"bounded_{metric}_difference", {})[proxies.by] = known
    for change in () if audit.changes is None else audit.changes.changes:
        prefix, names = "" if change.over == "data" else "population_", "_x_".join(change.protected)
        found.setdefault(f"{prefix}flip_rate", {})[names] = change.rate
        found.setdefault(f"{prefix}mean_change", {})[names] = change.mean
        found.setdefault(f"{prefix}largest_change", {})[names] = change.largest
    for certificate in audit.certificates:
        for name in ("certified", "falsified", "undecided"):
            found.setdefault(name, {})["_x_".join(certificate.protected)] = float(getattr(certificate, name))
    if audit.subgroups is not None:
        found["worst_subgroup_gap"] = {"": _worst_subgroup_gap(audit.subgroups)}
    if audit.residual_subgroups is not None:
        found["worst_subgroup_residual"] = {"": _worst_subgroup_gap(audit.residual_subgroups)}
    each = {} if audit.groups.labels is None else audit.groups.labels.overall.metrics
    for name, quantity in [*audit.groups.overall.items(), *each.items()]:
        found.setdefault(name, {})[""] = quantity
    return found


def _list_gaps(audit: AuditResult) -> Iterator[tuple[str, Gap]]:
    """Yield every gap, and by what a condition calls it: the attributes, and the label if it is of one alone."""
    for breakdown in audit.groups.breakdowns:
        for gap in breakdown.gaps:
            yield "_x_".join(breakdown.by), gap
    for each in () if audit.groups.labels is None else audit.groups.labels.breakdowns:
        for one in each.gaps:
            yield "_x_".join(each.by) + f".{one.label}" * bool(one.label), one


def _ranking_values(audit: RankingResult) -> dict[str, dict[str, GatedNumber]]:
    """Return the gaps of rankings; of selection that of the k where it is largest, whose interval holds for all k."""
    found: dict[str, dict[str, GatedNumber]] = {}
    for breakdown in audit.breakdowns:
        by = "_x_".join(breakdown.by)
        for name in dict.fromkeys(gap.name for gap in breakdown.gaps):
            every = [audit.quantity(breakdown, gap.number) for gap in breakdown.gaps if gap.name == name]
            known = [one for one in every if not isinstance(one, Unknown)]
            pick = min if name in LOWER_IS_WORSE else max
            worst = pick(known, key=lambda one: one if isinstance(one, float) else one.value) if known else every[0]
            found.setdefault(name, {})[by] = worst
    return found


def _language_values(result: LanguageModelAudit | LanguageModelComparison) -> dict[str, GatedNumber]:
    """Return the sizes of gaps between groups, each pair's and the largest, flips by identity, noise, and findings."""
    if isinstance(result, LanguageModelComparison):
        return {verdict: float(result.count(verdict)) for verdict in VERDICTS}
    found: dict[str, GatedNumber] = {"noise": result.noise, "findings": float(result.findings)}
    each: dict[str, dict[str, Quantity]] = {"gap": {}, "gap_here": {}, "refusal_gap": {}, "identity_flips": {}}
    for one in result.comparisons:
        for name in ("gap", "gap_here", "refusal_gap"):
            each[name][one.name] = _absolute(getattr(one, name))
        if one.flips is not None:
            each["identity_flips"][one.name] = one.flips.identity
    for name, numbers in each.items():
        found |= {f"{name}.{pair}": number for pair, number in numbers.items()}
        if numbers:
            found[name] = _largest(list(numbers.values()))
    return found


def _absolute(gap: Quantity) -> Quantity:
    """Return the size of a gap, whichever group is better off; its low end is 0 where the interval holds 0."""
    if not isinstance(gap, Estimated | Observed):
        return gap
    ends = sorted((abs(gap.low), abs(gap.high)))
    least = 0.0 if gap.low <= 0 <= gap.high else ends[0]
    return gap.model_copy(update={"value": abs(gap.value), "low": least, "high": ends[1]})


def _largest(numbers: Sequence[Quantity]) -> Quantity:
    """Return the largest value with the largest ends; unknown only where all are."""
    known = [one for one in numbers if isinstance(one, Estimated | Observed)]
    if not known:
        return numbers[0]
    ends = {name: max(getattr(one, name) for one in known) for name in ("value", "low", "high")}
    return known[0].model_copy(update=ends)


def _worst_subgroup_gap(searched: SubgroupResult) -> Observed:
    """Return the gap of which most is certain of all subgroups worse off; its ends hold for all of them.

    Of numbers, where it was not said what people want of them: of all that depart from the others.
    """

    def size(finding: Finding) -> tuple[float, float, float]:
        gap, low, high = finding.gap, finding.low, finding.high
        return (gap, low, high) if gap > 0 else (-gap, -high, -low)

    sizes = [size(finding) for finding in searched.findings if counts_as_worse(searched, finding)]
    gap, low, high = max(sizes, key=lambda one: one[1], default=(0.0, 0.0, 0.0))
    return Observed(
        value=gap,
        n=searched.people,
        low=max(0.0, low),
        high=high,
        confidence=searched.confidence,
        method=searched.control,
    )


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


def _groups_left_out(audit: AuditResult | RankingResult) -> dict[tuple[str, str], str]:
    """Return gap and attribute -> the groups that are too small for it."""
    if isinstance(audit, RankingResult):
        return {
            (gap.name, "_x_".join(breakdown.by)): "too few candidates or lists to compare "
            + list_some([f"{label} ({n})" for label, n in gap.not_assessable.items()])
            for breakdown in audit.breakdowns
            for gap in breakdown.gaps
            if gap.not_assessable
        }
    least = f"fewer than {audit.groups.min_group_size} people to count in "
    found = {
        (gap.name, by): least + list_some([f"{label} ({n})" for label, n in gap.not_assessable.items()])
        for by, gap in _list_gaps(audit)
        if gap.not_assessable
    }
    for proxies in audit.groups.proxies:
        for metric in PROXY_METRICS:
            small = [
                f"{one.group} ({one.effective_size:.0f})" for one in proxies.rates if one.small and one.metric == metric
            ]
            if small:
                found |= {
                    (f"{kind}_{metric}_difference", proxies.by): least + list_some(small)
                    for kind in ("probable", "bounded")
                }
    return found


def _find_cautions(audit: GatedResult) -> dict[tuple[str, str], str]:
    """Return name and attributes of every number that rests on selective true labels -> its caution."""
    if isinstance(audit, AuditComparison):
        return {(line.name, line.by): line.caution for line in audit.lines if line.caution and not line.group}
    if not isinstance(audit, AuditResult):
        return {}
    found, groups = {(gap.name, by): gap.caution for by, gap in _list_gaps(audit)}, audit.groups
    found |= {(name, ""): groups.label_caution(name) for name in groups.overall}
    if groups.labels is not None:
        overall = groups.labels.overall
        found |= {(name, ""): find_caution(overall.label_coverage) for name in overall.metrics}
    if audit.residual_subgroups is not None:
        found["worst_subgroup_residual", ""] = find_caution(groups.label_coverage)
    for proxies in groups.proxies:
        for metric in PROXY_METRICS:
            found |= {
                (f"{kind}_{metric}_difference", proxies.by): groups.label_caution(metric)
                for kind in ("probable", "bounded")
            }
    return {key: caution for key, caution in found.items() if caution}


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

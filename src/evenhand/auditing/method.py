"""Method of an audit: schema, interval methods and limits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from evenhand.certification.certificate.result import estimated_share
from evenhand.core.text import SIMULATED, list_some
from evenhand.groups.wording.tables import confidence_levels
from evenhand.stats.metric_specs import METRICS, metric_spec
from evenhand.stats.quantity import Estimated, Observed, Quantity

if TYPE_CHECKING:
    from evenhand.auditing.result import AuditResult
    from evenhand.schema.attribute import Attribute
    from evenhand.schema.schema import Schema


class SchemaRow(NamedTuple):
    """Description of an attribute."""

    name: str
    kind: str
    domain: str
    missing: str
    protected: bool


def schema_rows(schema: Schema) -> list[SchemaRow]:
    """Describe the attributes of a schema."""
    missing = {"refuse": "refused", "drop": "the person is excluded", "keep": "given to the model as missing"}
    unknown = "unknown, and excluded from numbers by this attribute"
    attributes = [
        SchemaRow(
            attribute.name,
            attribute.kind,
            _describe_domain(attribute),
            missing[attribute.missing] if attribute.unknown is None else unknown,
            attribute.protected,
        )
        for attribute in schema.attributes
    ]
    return attributes + [
        SchemaRow(name, "passthrough", "none: given to the model unchanged", missing["keep"], False)
        for name in schema.passthrough
    ]


def interval_methods(audit: AuditResult) -> list[tuple[str, list[str]]]:
    """List the methods of the intervals, with the names of their numbers."""
    used: dict[str, dict[str, None]] = {}
    for name, quantity in _list_quantities(audit):
        if isinstance(quantity, Observed | Estimated):
            used.setdefault(quantity.method, {})[name] = None
    return [(method, list(names)) for method, names in used.items()]


def confidence_level(audit: AuditResult) -> str:
    """Return the confidence level of group metrics, such as ``95 %``."""
    return confidence_levels(audit.groups)


def _list_quantities(audit: AuditResult) -> Iterator[tuple[str, Quantity]]:
    """Yield the quantities of an audit, with their titles."""
    for number in audit.numbers():
        yield metric_spec(number.name).heading, number.quantity
    for certificate in audit.certificates:
        yield "total share of different decisions", estimated_share(certificate)
    for breakdown in audit.groups.calibration:
        for group in breakdown.groups:
            for _, name, quantity in group.numbers():
                yield f"{METRICS[name].title}, by {'score' if audit.groups.outcome is None else 'number'}", quantity


def describe_limits(audit: AuditResult) -> Iterator[str]:
    """Yield the limits of the numbers."""
    yield (
        "Observed numbers are exact for the people in the data. Their intervals are valid for the population if the "
        "people were sampled from it independently; they do not account for a biased selection."
    )
    if audit.groups.outcome is not None:
        yield (
            "With few and very skewed numbers, the intervals of means have a lower coverage: 92 % instead of 95 % for "
            "30 people and lognormal numbers."
        )
        if any("true_mean" in group.metrics for breakdown in audit.groups.breakdowns for group in breakdown.groups):
            yield "True numbers are used as they are. If they reflect past discrimination, so do the residuals."
    else:
        yield from _label_limits(audit)


def _label_limits(audit: AuditResult) -> Iterator[str]:
    rates = () if audit.individual is None else audit.individual.rates
    if audit.data.base_rate is not None:
        yield "True labels are used as they are. If they reflect past discrimination, so do the error rates."
    if audit.individual is not None:
        linked = " and the attributes linked to it" if audit.individual.counterparts else " alone"
        yield (
            f"Flips change the protected attribute{linked}. Attributes that depend on it in reality, such as a name or "
            "a career, stay unchanged, so the attribute may have an influence even if there are no flips."
        )
    if audit.certificates or any(rate.over == "population" for rate in rates):
        yield (
            f"{SIMULATED.capitalize()} is drawn from: {_describe_population(audit)}. Some of these individuals differ "
            "from all real people."
        )
    if audit.searches:
        yield (
            "The results of a search are not a random sample: they show affected profiles, but not how common these "
            "are. A search without results is not a proof."
        )
    if audit.subgroups is not None:
        yield (
            "Subgroups are defined by the protected attributes and have a minimum size. People who differ only in "
            "other attributes, and smaller subgroups, are not tested. The intervals of subgroups are simultaneous over "
            "all tested subgroups."
        )
    if audit.certificates:
        yield (
            "Proofs apply to the model as it was read and to the domain of the schema. They exclude missing values and "
            "values outside of the domain."
        )
    if audit.described.passthrough:
        yield (
            f"Passthrough columns ({list_some(list(audit.described.passthrough))}) are given to the model as in the "
            f"data and never varied. In {SIMULATED}, their values are those of a random person in the data; in a "
            "search, those of the first row."
        )
    if not audit.data.held_out and not audit.model.recorded:
        yield (
            "It is not known whether the model was trained on these people. If it was, its accuracy is overestimated."
        )
    if audit.model.label_only and not audit.model.recorded:
        yield "The model returns labels without scores, so its calibration is not assessed."


def _describe_population(audit: AuditResult) -> str:
    names = [certificate.population for certificate in audit.certificates]
    rates = () if audit.individual is None else audit.individual.rates
    names += [rate.population for rate in rates if rate.over == "population"]
    return "; ".join(dict.fromkeys(names))


def _describe_domain(attribute: Attribute) -> str:
    if attribute.values is not None:
        return list_some([str(value) for value in attribute.values])
    return f"{attribute.text(attribute.first)} to {attribute.text(attribute.last)}"

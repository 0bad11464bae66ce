"""How an audit was done, for the reader who wants to check: what was read, how numbers were made, their limits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from evenhand.certification.certificate.result import estimated_share
from evenhand.core.document import Block, Document
from evenhand.core.text import SIMULATED, list_some
from evenhand.groups.wording.tables import confidence_levels
from evenhand.stats.metric_specs import METRICS
from evenhand.stats.quantity import Estimated, Observed, Quantity

if TYPE_CHECKING:
    from evenhand.auditing.result import AuditResult
    from evenhand.schema.attribute import Attribute
    from evenhand.schema.schema import Schema


def title_document(audit: AuditResult, decided: str, blocks: Sequence[Block]) -> Document:
    """Build the document of an audit: its title, the outcome if it is not a favourable label, and how it was made."""
    about = f"{audit.model.name} in" if audit.model.recorded else f"{audit.model.name} on"
    return Document(
        f"Audit of {about} {audit.data.name}",
        f"{f'{decided}; p' if decided else 'P'}rotected: {', '.join(audit.protected)}.",
        tuple(blocks),
        brand="Evenhand audit",
        made=f"{audit.provenance} All numbers at full precision are in the JSON.",
        readings=audit.readings,
    )


class SchemaRow(NamedTuple):
    """One attribute in words."""

    name: str
    kind: str
    domain: str
    missing: str
    protected: bool


def schema_rows(schema: Schema) -> list[SchemaRow]:
    """Return the attributes of an individual as a table."""
    missing = {"refuse": "refused", "drop": "the person is left out", "keep": "handed to the model as missing"}
    unknown = "unknown, and left out of figures by it"
    attributes = [
        SchemaRow(
            one.name,
            one.kind,
            _describe_domain(one),
            missing[one.missing] if one.unknown is None else unknown,
            one.protected,
        )
        for one in schema.attributes
    ]
    carried = "handed to the model as missing"
    return attributes + [
        SchemaRow(name, "passthrough", "none: given to the model as it is", carried, False)
        for name in schema.passthrough
    ]


def interval_methods(audit: AuditResult) -> list[tuple[str, list[str]]]:
    """Return the methods of intervals that were used, each with the numbers it was used for."""
    used: dict[str, dict[str, None]] = {}
    for name, quantity in list_quantities(audit):
        if isinstance(quantity, Observed | Estimated):
            used.setdefault(quantity.method, {})[name] = None
    return [(method, list(names)) for method, names in used.items()]


def confidence_level(audit: AuditResult) -> str:
    """Return the confidence of the intervals of group metrics, as ``95 %``."""
    return confidence_levels(audit.groups)


def list_quantities(audit: AuditResult) -> list[tuple[str, Quantity]]:
    """List the quantities of an audit with their titles."""
    titled = [
        (METRICS[number.name].heading if number.name in METRICS else number.name, number.quantity)
        for number in audit.numbers()
    ]
    titled += [("different decisions in all", estimated_share(certificate)) for certificate in audit.certificates]
    binned = "observed rate, by score" if audit.groups.outcome is None else "true mean, by number"
    return titled + [(binned, score_bin.base_rate) for score_bin in audit.groups.calibration]


def describe_limits(audit: AuditResult) -> list[str]:
    """Return what the numbers do not say."""
    rates = () if audit.individual is None else audit.individual.rates
    said = [
        "Observed numbers are exact for the people in the data. Their intervals hold for the people these stand for, "
        "if these were drawn from them independently; a biased selection is in no interval."
    ]
    if audit.data.base_rate is not None:
        said.append(
            "True labels are taken as they are. If they carry past discrimination, error rates measured against them "
            "do too."
        )
    if audit.individual is not None:
        alone = "and what the schema links to it" if audit.individual.compares_counterparts else "alone"
        said.append(
            f"Flips change the protected attribute {alone}. What depends on it in life (a name, a career) stays as it "
            "was, so that no flips does not mean that the attribute has no influence."
        )
    if audit.certificates or any(rate.over == "population" for rate in rates):
        said.append(
            f"{SIMULATED.capitalize()} is individuals drawn from: {_describe_population(audit)}. Some of "
            "them are "
            "unlike anybody who lives."
        )
    if audit.searches:
        said.append(
            "What a search finds is not a random sample: its numbers say whom it happens to, not how often. That it "
            "found no one is not a proof."
        )
    if audit.subgroups is not None:
        said.append(
            "Subgroups are described by the protected attributes, and hold a minimum of people: whom only other "
            "attributes would describe, or who are few, is in none of them. Intervals of subgroups hold together for "
            "all that were tested."
        )
    if audit.certificates:
        said.append(
            "Proofs are about the model as it was read and about the domain in the schema; missing values and values "
            "outside the domain are in no proof."
        )
    if audit.described.passthrough:
        named = list_some(list(audit.described.passthrough))
        said.append(
            f"Passthrough columns ({named}) are given to the model as they are in the data and never varied. Everybody "
            f"in {SIMULATED} has those of a person of the data, drawn at random; everybody in a search those of the "
            "first row."
        )
    if audit.data.training_rows is None and not audit.model.recorded:
        said.append(
            "It is not known whether the model was trained on these people. If it was, its accuracy here flatters it."
        )
    elif audit.data.training_rows:
        said.append("The model was trained on these people: its accuracy here flatters it.")
    if audit.model.label_only and not audit.model.recorded:
        said.append("The model gives labels without scores: nothing is said about calibration.")
    return said


def _describe_population(audit: AuditResult) -> str:
    names = [certificate.population for certificate in audit.certificates]
    rates = () if audit.individual is None else audit.individual.rates
    names += [rate.population for rate in rates if rate.over == "population"]
    return "; ".join(dict.fromkeys(names))


def _describe_domain(attribute: Attribute) -> str:
    if attribute.values is not None:
        return list_some([str(value) for value in attribute.values])
    return f"{attribute.text(attribute.first)} to {attribute.text(attribute.last)}"

"""How an audit was done, for the reader who wants to check: what was read, how numbers were made, their limits."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from evenhand.report import summary, words
from evenhand.stats import Estimated, Observed, Quantity

if TYPE_CHECKING:
    from evenhand.audit.result import AuditResult
    from evenhand.groups.result import GroupMetrics
    from evenhand.schema import Attribute, Schema


class SchemaRow(NamedTuple):
    """One attribute in words."""

    name: str
    kind: str
    domain: str
    missing: str
    protected: bool


def schema_rows(schema: Schema) -> list[SchemaRow]:
    """The attributes of an individual as a table."""
    missing = {"refuse": "refused", "drop": "the person is left out", "keep": "handed to the model as missing"}
    return [
        SchemaRow(one.name, one.kind, _domain(one), missing[one.missing], one.protected) for one in schema.attributes
    ]


def methods(audit: AuditResult) -> list[tuple[str, list[str]]]:
    """The methods of intervals that were used, each with the numbers it was used for."""
    used: dict[str, dict[str, None]] = {}
    for name, quantity in quantities(audit):
        if isinstance(quantity, Observed | Estimated):
            used.setdefault(quantity.method, {})[name] = None
    return [(method, list(names)) for method, names in used.items()]


def levels(groups: GroupMetrics) -> str:
    """The confidence of the intervals of group metrics, as ``95 %``."""
    found = {quantity.confidence for _, quantity in _of_groups(groups) if isinstance(quantity, Observed | Estimated)}
    return " or ".join(words.level(confidence) for confidence in sorted(found))


def quantities(audit: AuditResult) -> list[tuple[str, Quantity]]:
    """Every number of the audit that comes with its kind, and what it is called."""
    found = _of_groups(audit.groups)
    found += [("flips", rate.rate) for rate in audit.individual.rates]
    found += [("different decisions in all", summary.estimate(certificate)) for certificate in audit.certificates]
    return found


def _of_groups(groups: GroupMetrics) -> list[tuple[str, Quantity]]:
    found = [(words.METRICS.get(name, name), quantity) for name, quantity in groups.overall.items()]
    for breakdown in groups.breakdowns:
        for group in breakdown.groups:
            found += [(words.METRICS.get(name, name), quantity) for name, quantity in group.metrics.items()]
        found += [(words.GAPS.get(gap.name, gap.name), gap.value) for gap in breakdown.gaps]
    return found + [("share that came true, by score", one.base_rate) for one in groups.calibration]


def limits(audit: AuditResult) -> list[str]:
    """What the numbers do not say."""
    said = [
        "Observed numbers are exact for the people in the data. Their intervals hold for the people these stand for, "
        "if these were drawn from them independently; a biased selection is in no interval.",
        "True labels are taken as they are. If they carry past discrimination, error rates measured against them do "
        "too.",
        "Flips change the protected attribute alone. What depends on it in life (a name, a career) stays as it was, so "
        "that no flips does not mean that the attribute has no influence.",
    ]
    if audit.certificates or any(rate.over == "population" for rate in audit.individual.rates):
        said.append(
            f"“{words.EVERYONE.capitalize()}” means individuals drawn from: {_population(audit)}. Some of them are "
            "unlike anybody who lives."
        )
    if audit.searches:
        said.append(
            "What a search finds is no random sample: its numbers say whom it happens to, not how often. That it found "
            "nobody is no proof."
        )
    if audit.subgroups is not None:
        said.append(
            "Subgroups are described by the protected attributes, and hold a minimum of people: whom only other "
            "attributes would describe, or who are few, is in none of them. Intervals of subgroups hold together for "
            "all that were looked at."
        )
    if audit.certificates:
        said.append(
            "Proofs are about the model as it was read and about the domain in the schema; missing values and values "
            "outside the domain are in no proof."
        )
    if audit.data.training_rows is None:
        said.append(
            "It is not known whether the model was trained on these people. If it was, its accuracy here flatters it."
        )
    elif audit.data.training_rows:
        said.append("The model was trained on these people: its accuracy here flatters it.")
    if audit.model.label_only:
        said.append("The model gives labels without scores: nothing is said about calibration.")
    return said


def _population(audit: AuditResult) -> str:
    names = [certificate.population for certificate in audit.certificates]
    names += [rate.population for rate in audit.individual.rates if rate.over == "population"]
    return "; ".join(dict.fromkeys(names))


def _domain(attribute: Attribute) -> str:
    if attribute.values is not None:
        return words.listed([str(value) for value in attribute.values])
    return f"{attribute.text(attribute.first)} to {attribute.text(attribute.last)}"

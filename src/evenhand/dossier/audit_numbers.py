"""Every number of an audit with its kind and its interval."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from pydantic import Field

from evenhand.core.result_part import ResultPart
from evenhand.core.text import format_count, join_names, list_some
from evenhand.stats.quantity import Observed, Proved, Quantity, Unknown

if TYPE_CHECKING:
    from evenhand.auditing.result import AuditResult
    from evenhand.certification.certificate.result import Certificate
    from evenhand.groups.breakdown import Breakdown
    from evenhand.groups.result import GroupMetrics
    from evenhand.individual.result import FlipRate
    from evenhand.subgroups.result import SubgroupResult

COMPARED = {
    "favourable": "share given the favourable label",
    "false-negative": "false negative rate",
    "false-positive": "false positive rate",
    "score": "mean score",
}
"""What subgroups are compared by."""


class AuditNumber(ResultPart):
    """A number of an audit.

    Attributes:
        name: by which it is measured, such as ``accuracy`` or ``demographic_parity_difference``; words: for a reader.
        of: the people, or the attributes, in words; group: attribute -> value of a single group, else empty.
        quantity: the number with its kind and interval, or why there is none.
    """

    name: str
    words: str
    of: str
    group: dict[str, str] = Field(default_factory=dict)
    quantity: Quantity


def list_numbers(audit: AuditResult) -> Iterator[AuditNumber]:
    """Yield the numbers of an audit: performance, gaps, flips, proofs and subgroups."""
    yield from _group_numbers(audit.groups)
    for rate in audit.individual.rates if audit.individual is not None else ():
        yield from _flip_numbers(rate)
    if audit.changes is not None:
        for change in audit.changes.changes:
            yield AuditNumber(
                name="flip_rate",
                words=f"share whose number changes by more than {audit.changes.tolerance:g}, over the {change.over}",
                of=join_names(change.protected),
                quantity=change.rate,
            )
    for certificate in audit.certificates:
        yield from _proof_numbers(certificate)
    if audit.subgroups is not None:
        yield from _subgroup_numbers(audit.subgroups)


def _group_numbers(groups: GroupMetrics) -> Iterator[AuditNumber]:
    from evenhand.groups.names import METRIC_TITLES
    from evenhand.groups.number_words import NUMBER_TITLES

    titles = METRIC_TITLES | NUMBER_TITLES

    def measured(metrics: Mapping[str, Quantity], of: str, group: dict[str, str], by: str) -> Iterator[AuditNumber]:
        for name, quantity in metrics.items():
            known = name if name in titles else "own_metric"
            caution = groups.label_caution(name, by, of if by else "")
            yield AuditNumber(
                name=known,
                words=titles.get(name, name),
                of=f"{of}; {caution}" if caution else of,
                group=group,
                quantity=quantity,
            )

    yield from measured(groups.overall, "everybody", {}, "")
    for breakdown in groups.breakdowns:
        for group in breakdown.groups:
            yield from measured(group.metrics, group.label, group.values, "_x_".join(breakdown.by))
    for breakdown in groups.breakdowns:
        yield from _gap_numbers(breakdown)


def _gap_numbers(breakdown: Breakdown) -> Iterator[AuditNumber]:
    from evenhand.groups.gaps import title_gap
    from evenhand.groups.names import GAP_TITLES
    from evenhand.groups.number_words import NUMBER_GAP_TITLES

    for gap in breakdown.gaps:
        known = gap.name in GAP_TITLES or gap.name in NUMBER_GAP_TITLES
        sides = f": {gap.best} and {gap.worst}" if gap.best and gap.worst else ""
        left_out = f"; not assessable: {list_some(list(gap.not_assessable), 4)}" if gap.not_assessable else ""
        yield AuditNumber(
            name=gap.name if known else "own_metric",
            words=NUMBER_GAP_TITLES.get(gap.name) or title_gap(gap),
            of=f"{join_names(breakdown.by)}{sides}{left_out}{f'; {gap.caution}' if gap.caution else ''}",
            quantity=gap.value,
        )


def _flip_numbers(rate: FlipRate) -> Iterator[AuditNumber]:
    over = "people in the data" if rate.over == "data" else f"individuals drawn from {rate.population}"
    yield AuditNumber(
        name="flip_rate",
        words=f"flip rate as published, over {over}",
        of=join_names(rate.protected),
        quantity=rate.rate,
    )
    if rate.counterfactual is not None:
        yield AuditNumber(
            name="counterfactual_flip_rate",
            words=f"counterfactual flip rate between plausible counterparts, over {over}",
            of=join_names(rate.protected),
            quantity=rate.counterfactual.rate,
        )


def _proof_numbers(certificate: Certificate) -> Iterator[AuditNumber]:
    from evenhand.certification.certificate.result import estimated_share

    of = join_names(certificate.protected)
    shares = (
        ("certified", "certified fair, at least", certificate.certified),
        ("falsified", "certified unfair, at least", certificate.falsified),
        ("undecided", "undecided, at most", certificate.undecided),
    )
    for name, words, share in shares:
        how = f"by proof ({certificate.method}), of the population: {certificate.population}"
        yield AuditNumber(name=name, words=words, of=of, quantity=Proved(value=share, how=how))
    yield AuditNumber(name="unfair", words="treated unfairly in all", of=of, quantity=estimated_share(certificate))


def _subgroup_numbers(found: SubgroupResult) -> Iterator[AuditNumber]:
    """Yield the significant gaps that no other explains, and how many each of them explains."""
    name = "mean_score" if found.measure == "score" else "subgroup_gap"
    weighted = "" if found.weights is None else f", weighted by {found.weights}"
    words = f"{COMPARED[found.measure]} minus that of the others{weighted}"
    for finding in found.findings:
        if finding.found and finding.under is None:
            explained = f"; it explains {format_count(finding.explains, 'other', 'others')}" if finding.explains else ""
            quantity: Quantity = Observed(
                value=finding.gap,
                n=finding.size + finding.rest,
                low=finding.low,
                high=finding.high,
                confidence=found.confidence,
                method=f"adjusted for {found.tested:,} subgroups tested ({found.control})",
            )
            yield AuditNumber(name=name, words=words, of=finding.words + explained, quantity=quantity)
    if not any(finding.found for finding in found.findings):
        nothing = Unknown(reason=f"none of {found.tested:,} subgroups tested is significant after adjustment")
        yield AuditNumber(name=name, words=words, of="subgroups", quantity=nothing)

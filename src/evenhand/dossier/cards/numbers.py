"""What cards say of an audit: its findings in sentences, and the groups that are worse off."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from evenhand.core import Text
from evenhand.dossier.evidence import EvidenceNumber
from evenhand.stats import Observed, Unknown
from evenhand.text import format_percent

if TYPE_CHECKING:
    from evenhand.auditing import AuditResult
    from evenhand.groups import Breakdown, Gap


class GroupAtRisk(NamedTuple):
    """A group that is worse off than another, and how."""

    group: str
    harm: str


def slice_of(number: EvidenceNumber) -> str:
    """Return the people whom a number is about: a single group, or as the result says it."""
    return ", ".join(f"{name}: {value}" for name, value in number.group.items()) or number.of


def list_findings(audit: AuditResult) -> list[str]:
    """Return the sentences of the audit's first screen, worst first."""
    opening, _ = audit.document().sections()
    return [item for block in opening if isinstance(block, Text) and block.role == "finding" for item in block.items]


def list_risks(audit: AuditResult) -> Iterator[GroupAtRisk]:
    """Yield the group with the lowest selection rate of each attribute whose gap is more than chance explains."""
    for breakdown in audit.groups.breakdowns:
        for gap in breakdown.gaps:
            value = gap.value
            if gap.name == "demographic_parity_difference" and isinstance(value, Observed) and value.low > 0:
                yield _describe_risk(breakdown, gap)


def _describe_risk(breakdown: Breakdown, gap: Gap) -> GroupAtRisk:
    rates = {group.label: group.metrics.get("selection_rate") for group in breakdown.groups}

    def rate_of(label: str) -> str:
        rate = rates.get(label)
        return "an unknown share" if rate is None or isinstance(rate, Unknown) else format_percent(rate.value)

    attributes = " x ".join(breakdown.by)
    harm = (
        f"selected less often: {rate_of(gap.worst)} against {rate_of(gap.best)} of {attributes} {gap.best} (observed)"
    )
    return GroupAtRisk(f"{attributes}: {gap.worst}", harm)

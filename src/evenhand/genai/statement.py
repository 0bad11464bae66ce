"""What an enforcer guarantees, in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from evenhand.genai.labels import label_worth
from evenhand.genai.settings import Success, choose, worth
from evenhand.stats.quantity import Unknown

if TYPE_CHECKING:
    from evenhand.genai.confusion import Confusion
    from evenhand.genai.core import Enforcer

BROKEN = {
    "disobeyed": "items did not show what they had to, after all retries",
    "unrecognised": "items that had to show something were not recognisable, after all retries",
    "failed": "items that had to show something were not made, after all retries",
    "in-flight": "requests were admitted before the one before them was complete, against what was said",
    "missed": "deadlines were missed",
}


def statement(enforcer: Enforcer, samples: Mapping[str, Confusion] | None = None) -> str:
    """What is guaranteed now, on which assumptions, and which of them did not hold.

    Args:
        samples: of labels; those that the configuration names are read unless given.
    """
    lines = []
    counts = enforcer.counts
    labels = {one.specification: one for one in label_worth(enforcer.configuration, samples)}
    for one in enforcer.configuration.requirements:
        if one.repeated is None:
            lines.append(f"{one.name}: every value eventually; nothing is enforced for that")
            continue
        same = len(set(one.repeated)) == 1
        by = (
            f"every value within {one.repeated[0]} items"
            if same
            else ", ".join(f"{name} within {d}" for name, d in zip(one.labels, one.repeated, strict=True))
        )
        lines.append(f"{one.name}: {by}, again and again")
        found = counts[one.name]
        if found["asked"]:
            lines.append(f"  {found['obeyed']} of {found['asked']} attempts at what had to be shown worked")
        broken = [f"{found[what]} {said}" for what, said in BROKEN.items() if found[what]]
        lines.append(
            f"  {'; '.join(broken)}" if broken else "  all assumptions held so far, and no deadline was missed"
        )
        lines.append(f"  {labels[one.name].statement()}")
        lines.extend(f"    {value.statement()}" for value in labels[one.name].values)
    tries = enforcer.retries + 1
    lines.append("Assumed:")
    lines.append(f"  an item that must show something does within {tries} attempt{'s' if tries > 1 else ''}")
    lines.extend(f"    {line}" for line in _how_likely(enforcer))
    if enforcer.slack:
        late = f"{enforcer.slack} slot{'s' if enforcer.slack > 1 else ''}"
        lines.append(f"  or its failure, and what was admitted before it was known, takes at most {late}: the slack")
    lines.append(
        "  which requests the conditions hold for is recognised, and labels are right unless said otherwise above"
    )
    if enforcer.mode == "before":
        lines.append("  every request that is admitted is completed; the order is that of the requests")
    else:
        lines.append("  every item is completed; the order is that in which they were first looked at")
    return "\n".join(lines)


def _how_likely(enforcer: Enforcer) -> list[str]:
    """How often instructions worked, and what follows for retries and slack."""
    configuration = enforcer.configuration
    success = Success.counted(configuration, enforcer.counts)
    if success.least <= 0:
        return [success.statement()] if success.rate else []
    now = worth(configuration, success, retries=enforcer.retries, slack=enforcer.slack, in_flight=enforcer.in_flight)
    lines = [success.statement(), now.statement()]
    if not now.enough:
        better = choose(configuration, success, in_flight=enforcer.in_flight)
        lines.append(f"none are enough: {better.reason}" if isinstance(better, Unknown) else
                     f"enough are {better.statement()}")  # fmt: skip
    return lines

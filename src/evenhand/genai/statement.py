"""What an enforcer guarantees, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from evenhand.genai.core import Enforcer

BROKEN = {
    "disobeyed": "items did not show what they had to, after all retries",
    "unrecognised": "items that had to show something were not recognisable, after all retries",
    "failed": "items that had to show something were not made, after all retries",
    "in-flight": "requests were admitted before the one before them was complete, against what was said",
    "missed": "deadlines were missed",
}


def statement(enforcer: Enforcer) -> str:
    """What is guaranteed now, on which assumptions, and which of them did not hold."""
    lines = []
    counts = enforcer.counts
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
            lines.append(
                f"  {found['obeyed']} of {found['asked']} items that had to show something did, at once or again"
            )
        broken = [f"{found[what]} {said}" for what, said in BROKEN.items() if found[what]]
        lines.append(
            f"  {'; '.join(broken)}" if broken else "  all assumptions held so far, and no deadline was missed"
        )
    tries = enforcer.retries + 1
    lines.append("Assumed:")
    lines.append(f"  an item that must show something does within {tries} attempt{'s' if tries > 1 else ''}")
    if enforcer.slack:
        late = f"{enforcer.slack} slot{'s' if enforcer.slack > 1 else ''}"
        lines.append(f"  or its failure, and what was admitted before it was known, takes at most {late}: the slack")
    lines.append("  the labels of items are right, and so is which requests the conditions hold for")
    if enforcer.mode == "before":
        lines.append("  every request that is admitted is completed; the order is that of the requests")
    else:
        lines.append("  every item is completed; the order is that in which they were first looked at")
    return "\n".join(lines)

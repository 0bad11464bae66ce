"""People whom the given model knew before they were kept aside: what may not be learnt from, or said, about them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from evenhand.mitigate.findings import Findings, Floats
from evenhand.mitigate.result import CandidateResult, Line
from evenhand.mitigate.split import Split

KNOWN = (
    "The given model may have learnt from the people it is compared on. Where it did, it looks better here than it is, "
    "and so does what goes on from its weights or scores; models trained anew have not seen them. Subgroups may have "
    "been found among them too, so that gaps look wider before than they are: keep people aside that it never saw "
    "(--test)."
)
"""What a reader must know where nobody was kept aside."""

BY_TRUTH = ("accuracy", "auc", "equal_opportunity_difference", "equalized_odds_difference")
"""Lines that are about true labels, which a model may know by heart."""


def apart(found: Findings, parts: Split) -> tuple[Findings, int]:
    """Findings without profiles of the people compared on, and how many were left out.

    A model that is taught how these very people must be decided would be examined on what it was told. A profile that
    somebody learnt from has as well stays.
    """
    left_out, profiles = 0, []
    schema = parts.test.schema
    for one in found.profiles:
        rest = [i for i, name in enumerate(schema.names) if name not in one.protected]
        learnt = _distinct(parts.train.individuals[:, rest]) | _distinct(parts.validation.individuals[:, rest])
        hidden = _distinct(parts.test.individuals[:, rest]) - learnt
        keep = [row.tobytes() not in hidden for row in one.individuals[:, rest] + 0.0]
        left_out += keep.count(False)
        profiles.append(replace(one, individuals=one.individuals[keep]))
    return replace(found, profiles=tuple(profiles)), left_out


def met(parts: Split) -> int:
    """How many of the people compared on are, label and all, like somebody learnt from or chosen on."""
    learnt, chosen, compared = (
        np.column_stack([part.individuals, np.asarray(part.labels, dtype=np.float64)])
        for part in (parts.train, parts.validation, parts.test)
    )
    seen = _distinct(learnt) | _distinct(chosen)
    return sum(row.tobytes() in seen for row in compared + 0.0)


def withheld(compared: Sequence[CandidateResult]) -> tuple[CandidateResult, ...]:
    """Results without verdicts about true labels where the given model seems to know those of the people compared on.

    It does if the same training without them, with nothing added, is right about clearly fewer of them. How much of any
    change is that, and how much the candidate's, cannot be told.
    """
    right = next((one.line("accuracy") for one in compared if one.control), None)
    if right is None or right.verdict != "worse":
        return tuple(compared)
    found = []
    for candidate in compared:
        made = tuple(_unsaid(line) for line in candidate.lines)
        moved = tuple(one for one in candidate.moved if made[one.line].verdict == "worse")
        found.append(candidate.model_copy(update={"lines": made, "moved": moved}))
    return tuple(found)


def _unsaid(line: Line) -> Line:
    if line.name not in BY_TRUTH or not line.claims or (line.part == "performance" and line.verdict == "better"):
        return line
    note = "the given model seems to know these people by heart; compare with the control"
    return line.model_copy(update={"verdict": "not comparable", "note": f"{line.note}; {note}" if line.note else note})


def _distinct(rows: Floats) -> set[bytes]:
    return {row.tobytes() for row in rows + 0.0}

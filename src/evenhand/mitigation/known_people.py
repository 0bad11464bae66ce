"""People whom the given model may know: what may not be learnt from them, and what a loss among them may be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from evenhand.core.typing import Floats
from evenhand.individual.flips import Variants
from evenhand.mitigation.candidate import Candidate
from evenhand.mitigation.comparison_lines import ModelDecisions
from evenhand.mitigation.findings import Findings
from evenhand.mitigation.result import CandidateResult
from evenhand.mitigation.split import Split
from evenhand.schema.schema import Schema
from evenhand.stats.proportion import difference_interval

KNOWN = (
    "The given model may have been trained on the test set. Where it did, it looks better here than it is, "
    "and so does what goes on from its weights or scores; retrained models have not seen them. Subgroups may have "
    "been found among them too, so that gaps look wider before than they are: keep people aside that it never "
    "saw, and compare on them."
)
"""What a reader must know if no people were kept aside for the comparison."""

BY_TRUTH = ("accuracy", "auc", "equal_opportunity_difference", "equalized_odds_difference")
"""Lines that are about true labels, which a model may know by heart."""


def drop_test_profiles(found: Findings, parts: Split) -> tuple[Findings, int]:
    """Return findings without profiles of the test set, and how many were left out.

    A model that is taught how these very people must be decided would be examined on what it was told. A profile that
    somebody learnt from has as well stays.
    """
    left_out, profiles = 0, []
    schema = parts.test.schema
    for one in found.profiles:
        everybody = (parts.train, parts.validation, parts.test)
        train, validation, test = (
            _distinct_rows(merge_counterparts(schema, people.individuals, one.protected)) for people in everybody
        )
        hidden = test - train - validation
        merged = merge_counterparts(schema, one.individuals, one.protected)
        keep = [row.tobytes() not in hidden for row in merged + 0.0]
        left_out += keep.count(False)
        profiles.append(replace(one, individuals=one.individuals[keep]))
    return replace(found, profiles=tuple(profiles)), left_out


def merge_counterparts(schema: Schema, individuals: Floats, protected: tuple[str, ...]) -> Floats:
    """Return what people (n, attributes) share with all whom they are compared with: alike for all of these."""
    if schema.constrains_people:
        return Variants.of(schema, protected, individuals).representatives[:, : len(schema.attributes)]
    return individuals[:, [i for i, name in enumerate(schema.names) if name not in protected]]


def count_overlap(parts: Split) -> int:
    """Return how many of the test set are, label and all, like somebody learnt from or chosen on."""
    width = len(parts.test.schema.attributes)
    learnt, chosen, compared = (
        np.column_stack([part.individuals[:, :width], np.asarray(part.labels, dtype=np.float64)])
        for part in (parts.train, parts.validation, parts.test)
    )
    seen = _distinct_rows(learnt) | _distinct_rows(chosen)
    return sum(row.tobytes() in seen for row in compared + 0.0)


def explain_control(
    parts: Split, control: Candidate, compared: Sequence[CandidateResult]
) -> tuple[tuple[CandidateResult, ...], str]:
    """Return results, and what a loss of accuracy may be besides, where retraining alone loses accuracy clearly.

    The given model may know the true labels of the test set by heart; or the control had fewer people to learn from.
    What knowing people is worth to a model of this kind and size shows in the control itself: how much more often it
    is right about those it learned from than about those it did not.

    Returns:
        The results with a note at each line that is worse by true labels, and a note for all; as given, and an empty
        note, where the control loses nothing beyond noise.
    """
    lost = next((one.line("accuracy") for one in compared if one.control), None)
    if lost is None or lost.verdict != "worse" or lost.change is None:
        return tuple(compared), ""
    learned, aside = (ModelDecisions(control.scorer, people).right for people in (parts.train, parts.test))
    worth = float(learned.mean() - aside.mean())
    low, high = difference_interval(int(learned.sum()), len(learned), int(aside.sum()), len(aside))
    found = (
        f"Retrained with nothing added, the model is right about {-100 * lost.change.value:.1f} points fewer of the "
        f"test set than the given one. It is right about {100 * worth:.1f} points more ({100 * low:.1f} to "
        f"{100 * high:.1f}) of the people it was trained on"
    )
    if low > 0:
        caveat = f"if the given model was trained on these people, up to about {100 * worth:.1f} points are that"
        note = f"{found}: so much is knowing people worth to it, if the given model was trained on the test set."
    else:
        caveat = (
            "the control loses accuracy too: the given model seems to have had more, or other, people to learn from"
        )
        note = f"{found}, no more than noise: the given model seems to have had more, or other, people to learn from."
    return tuple(_add_caveat(one, caveat) for one in compared), note


def _add_caveat(candidate: CandidateResult, caveat: str) -> CandidateResult:
    made = tuple(
        line.model_copy(update={"note": f"{line.note}; {caveat}" if line.note else caveat})
        if line.name in BY_TRUTH and line.verdict == "worse"
        else line
        for line in candidate.lines
    )
    return candidate.model_copy(update={"lines": made})


def _distinct_rows(rows: Floats) -> set[bytes]:
    return {row.tobytes() for row in rows + 0.0}


def describe_left_out(schema: Schema, count: int) -> str:
    """Return that people of unknown protected values are left out; empty where there are none."""
    if not count:
        return ""
    return (
        f"{count:,} people whose {' or '.join(schema.protected)} is unknown are left out: no new model is trained or "
        "tested on them."
    )

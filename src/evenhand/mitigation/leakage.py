"""Leakage of test data: profiles that must not be trained on, and losses of accuracy that leakage may explain."""

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

BY_TRUTH = ("accuracy", "auc", "equal_opportunity_difference", "equalized_odds_difference")
"""Names of the numbers that depend on true labels, which a model may have memorised."""


def drop_test_profiles(findings: Findings, split: Split) -> tuple[Findings, int]:
    """Remove profiles of the test set from findings, and count them.

    A model trained on these profiles would be tested on its training data. Profiles that also occur in the training or
    validation set are kept.
    """
    removed, profiles = 0, []
    schema = split.test.schema
    for profile_set in findings.profiles:
        train, validation, test = (
            _distinct_rows(merge_counterparts(schema, people.individuals, profile_set.protected))
            for people in (split.train, split.validation, split.test)
        )
        leaking = test - train - validation
        merged = merge_counterparts(schema, profile_set.individuals, profile_set.protected)
        mask = [row.tobytes() not in leaking for row in merged + 0.0]
        removed += mask.count(False)
        profiles.append(replace(profile_set, individuals=profile_set.individuals[mask]))
    return replace(findings, profiles=tuple(profiles)), removed


def merge_counterparts(schema: Schema, individuals: Floats, protected: tuple[str, ...]) -> Floats:
    """Map individuals (n, attributes) to rows that are equal for all counterparts."""
    if schema.constrains_people:
        return Variants.of(schema, protected, individuals).representatives[:, : len(schema.attributes)]
    return individuals[:, [i for i, name in enumerate(schema.names) if name not in protected]]


def count_overlap(split: Split) -> int:
    """Count the people of the test set who are identical, label included, to people of the other sets."""
    width = len(split.test.schema.attributes)
    train, validation, test = (
        np.column_stack([people.individuals[:, :width], np.asarray(people.labels, dtype=np.float64)])
        for people in (split.train, split.validation, split.test)
    )
    other = _distinct_rows(train) | _distinct_rows(validation)
    return sum(row.tobytes() in other for row in test + 0.0)


def explain_control(
    split: Split, control: Candidate, results: Sequence[CandidateResult]
) -> tuple[tuple[CandidateResult, ...], str]:
    """Explain a loss of accuracy that occurs with retraining alone.

    The original model may have memorised the true labels of the test set, or the control had a smaller training set.
    The value of memorisation is estimated by the control: its accuracy on the training set minus that on the test set.

    Returns:
        The results with a note on each number that is worse and depends on true labels, and a general note. The results
        are unchanged and the note is empty if the control loses no accuracy beyond noise.
    """
    loss = next((result.line("accuracy") for result in results if result.control), None)
    if loss is None or loss.verdict != "worse" or loss.change is None:
        return tuple(results), ""
    train, test = (ModelDecisions(control.scorer, people).correct for people in (split.train, split.test))
    excess = 100 * float(train.mean() - test.mean())
    low, high = difference_interval(int(train.sum()), len(train), int(test.sum()), len(test))
    note = (
        f"Retrained without changes, the model has an accuracy on the test set {-100 * loss.change.value:.1f} points "
        f"below that of the original model. Its accuracy on its training set is {excess:.1f} points higher "
        f"({100 * low:.1f} to {100 * high:.1f})"
    )
    if low > 0:
        caveat = f"if the original model was trained on these people, up to about {excess:.1f} points are memorisation"
        note = f"{note}, which estimates the value of memorisation if the original model was trained on the test set."
    else:
        caveat = (
            "the control loses accuracy too: the original model seems to have had a larger or different training set"
        )
        note = f"{note}, no more than noise: the original model seems to have had a larger or different training set."
    return tuple(_add_caveat(result, caveat) for result in results), note


def _add_caveat(result: CandidateResult, caveat: str) -> CandidateResult:
    lines = tuple(
        line.model_copy(update={"note": f"{line.note}; {caveat}" if line.note else caveat})
        if line.name in BY_TRUTH and line.verdict == "worse"
        else line
        for line in result.lines
    )
    return result.model_copy(update={"lines": lines})


def _distinct_rows(rows: Floats) -> set[bytes]:
    return {row.tobytes() for row in rows + 0.0}

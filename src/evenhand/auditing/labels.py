"""Labels of a model as recorded decisions, and the parts of an audit without a favourable label."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from evenhand.auditing.result import SkippedAnalysis
from evenhand.errors import OptionError
from evenhand.schema.decisions import RecordedDecisions, RecordedLabels
from evenhand.schema.outcome import Target
from evenhand.schema.people import People, PeopleWeights

if TYPE_CHECKING:
    from evenhand.models.replies import Reply
    from evenhand.models.scorer import Scorer
    from evenhand.models.subject import Subject

ONE_LABEL = "it requires a single favourable label"
NO_FAVOURABLE = f"{ONE_LABEL}, and no label is favourable"
THRESHOLDS = "a threshold applies to the score of the favourable label, and does not distinguish the other labels"


def select_any_favourable(subject: Subject) -> Subject:
    """Declare the last label as favourable, so that a model can be queried.

    The choice does not affect the labels that the model returns, so it does not affect flips or proofs.
    """
    schema = subject.people.schema
    values = schema.target.values
    assert values is not None  # people with labels
    target = Target(name=schema.target.name, favourable=values[-1], values=values)
    people = replace(subject.people, schema=schema.model_copy(update={"target": target}))
    return replace(subject, people=people)


def record_decisions(scorer: Scorer, people: People, weights: PeopleWeights | None, reply: Reply) -> RecordedDecisions:
    """Describe the answers of a model for all people as decisions with a favourable label."""
    return RecordedDecisions(
        people,
        reply.labels == scorer.favourable,
        None if scorer.label_only else reply.scores[:, scorer.favourable],
        weights=weights,
        threshold=getattr(scorer, "threshold", None),
    )


def record_labels(scorer: Scorer, people: People, weights: PeopleWeights | None, reply: Reply) -> RecordedLabels:
    """Describe the answers of a model for all people as labels, including those that the data lack.

    Raises:
        OptionError: The model predicts a label that is missing from the ordinal labels.
    """
    target = people.schema.target
    known = target.values or ()
    labels = (*known, *(label for label in scorer.classes if label not in known))
    if target.kind == "ordinal" and len(labels) > len(known):
        raise OptionError(
            f"the model predicts {labels[-1]!r}, which is not in the order of {target.name!r}",
            hint=f"name every label: order={[*known, labels[-1]]!r}",
        )
    positions = np.array([labels.index(label) for label in scorer.classes], dtype=np.int64)
    schema = people.schema.model_copy(update={"target": target.model_copy(update={"values": labels})})
    return RecordedLabels(replace(people, schema=schema), positions[reply.labels], weights=weights)


def list_skipped(scorer: Scorer) -> list[SkippedAnalysis]:
    """List the parts that an audit without a favourable label skips, with the reasons."""
    label = scorer.classes[scorer.favourable]
    return [
        SkippedAnalysis(what="search for subgroups", reason=NO_FAVOURABLE),
        SkippedAnalysis(what="search for individuals", reason=NO_FAVOURABLE),
        SkippedAnalysis(
            what="which of two decisions is better",
            reason=f"no label is favourable; the scores of pairs in the JSON are those of {label!r}",
        ),
    ]

"""Parts of the audit of a model with several labels, or grades."""

from __future__ import annotations

from dataclasses import replace

from evenhand.auditing.result import SkippedAnalysis
from evenhand.models.scorer import Scorer
from evenhand.models.subject import Subject
from evenhand.schema.outcome import Target

ONE_LABEL = "it compares the rate of one favourable label"
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

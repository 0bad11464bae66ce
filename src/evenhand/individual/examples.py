"""Clearest examples of flips: pairs with the widest gap between scores, each with different unprotected attributes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from evenhand.core.typing import Floats
from evenhand.individual.flips import Variants, confirm_flips, find_real, find_widest_pairs, merge_by_unprotected
from evenhand.individual.result import Profile, describe_pair
from evenhand.individual.white_box import WhiteBoxScorer
from evenhand.models.noise import FreshScorer, can_vary
from evenhand.models.replies import ask_people
from evenhand.models.scorer import Scorer, favourable_score, predict_labels
from evenhand.schema.people import People

MAX_QUERIED = 65_536
"""Maximum number of variants whose scores are queried."""

SPARE = 4
"""Number of candidates per example. Some are dropped: they do not repeat, or are sampled and reveal a real person."""


def find_clearest(
    model: Scorer,
    front: WhiteBoxScorer | None,
    people: People,
    protected: Sequence[str],
    violators: Floats,
    *,
    source: Literal["data", "population"],
    max_examples: int,
    confidence: float,
) -> list[Profile]:
    """Select the individuals with the widest gap between the scores of their best and worst treated variants.

    Args:
        model: The model. If its answers vary, a wrapper without a cache.
        front: White box that is queried instead of the model. None if the model itself is queried.
        people: The people in the data.
        protected: Attributes that vary.
        violators: Individuals whose label differs between two assignments, shape (n, attributes).
        source: Source of the individuals. Sampled ones that reveal a person in the data are dropped.
        max_examples: Maximum number of examples.
        confidence: 1 minus the false discovery rate of flips that repeat.
    """
    schema = people.schema
    candidates = violators[: max(max_examples, MAX_QUERIED // len(schema.assignments(protected)))]
    if len(candidates) == 0 or max_examples <= 0:
        return []
    variants = Variants.of(schema, protected, candidates)
    # People who are counterparts of each other form one pair.
    positions = merge_by_unprotected(variants.representatives, []).first
    if isinstance(model, FreshScorer):
        positions = positions[: SPARE * max_examples]
    variants = variants[positions]
    plausible, counterparts = variants.plausible, variants.counterparts
    scores = np.full(plausible.shape, np.nan)
    labels = np.zeros(scores.shape, dtype=np.int64)
    varies = front is None and can_vary(model)
    if varies:
        reply = ask_people(model, counterparts[plausible])
        labels[plausible], scores[plausible] = reply.labels, reply.scores[:, model.favourable]
    else:
        labels[plausible] = predict_labels(front or model, counterparts[plausible])
        scores[plausible] = favourable_score(model, counterparts[plausible])
    pairs, gaps, differs = find_widest_pairs(labels, scores, plausible)
    order = np.argsort(-gaps, kind="stable")
    order = order[differs[order]][: SPARE * max_examples]
    at = order[:, None], pairs[order]
    sides, values, decisions = counterparts[at], scores[at], labels[at]
    kept = np.ones(len(order), dtype=np.bool_)
    if varies:
        again = confirm_flips(model, sides, decisions, confidence=confidence)
        values, kept = again.scores, again.confirmed
    if source == "population":
        kept &= ~find_real(people, protected, counterparts[order], plausible[order])
    widest = np.argsort(values[:, 0] - values[:, 1], kind="stable")
    return [
        describe_pair(
            schema,
            protected,
            sides[row],
            [model.classes[label] for label in decisions[row]],
            values[row],
            real=source == "data",
        )
        for row in widest[kept[widest]][:max_examples]
    ]

"""Clearest examples of flips: pairs with the widest gap between scores, each with other unprotected attributes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np

from evenhand.core.typing import Floats, Integers
from evenhand.individual.flips import ConfirmedFlips, Variants, find_real, find_widest_pairs
from evenhand.individual.result import Profile, describe_pair
from evenhand.schema.attribute import Value
from evenhand.schema.people import People


def find_clearest(
    people: People,
    protected: Sequence[str],
    violators: Floats,
    variants: Variants,
    labels: Integers,
    scores: Floats,
    *,
    classes: tuple[Value, ...],
    max_profiles: int,
    candidates_per_profile: int,
    source: Literal["data", "population"],
    confirm: Callable[[Floats, Integers], ConfirmedFlips] | None = None,
) -> list[Profile]:
    """Select the individuals whose best and worst treated variants have the widest gap between scores.

    Args:
        people: The people in the data.
        protected: Attributes that vary.
        violators: Individuals whose label differs between two assignments, shape (n, attributes).
        variants: Variants of each individual.
        labels: Labels of the counterparts, shape (n, m).
        scores: Favourable scores of the counterparts, shape (n, m). Scores of repeated queries replace them.
        classes: Labels of the model.
        max_profiles: Maximum number of profiles.
        candidates_per_profile: Candidates per profile. Some may be dropped.
        source: Source of the individuals. Sampled ones that reveal a person in the data are dropped.
        confirm: Function that queries both sides of pairs with their labels again. None for a deterministic model.
    """
    schema = people.schema
    columns = schema.positions(protected)
    compared, width = variants.plausible, len(schema.attributes)  # without the position of the passthrough row
    individuals, counterparts = violators[:, :width], variants.counterparts[:, :, :width]
    worse, better, gaps, differs = find_widest_pairs(labels, scores, compared)
    order = np.argsort(-gaps, kind="stable")
    order = order[differs[order]][: candidates_per_profile * max_profiles]
    if confirm is not None:
        pairs = np.stack([worse, better], axis=1)[order]
        again = confirm(variants.counterparts[order[:, None], pairs], labels[order[:, None], pairs])
        scores[order[:, None], pairs] = again.scores
        gaps[order] = again.scores[:, 1] - again.scores[:, 0]
        order = order[again.confirmed]
        order = order[np.argsort(-gaps[order], kind="stable")]
    if source == "population":
        order = order[~find_real(people, protected, counterparts[order], compared[order])]

    def profile(row: int) -> Profile:
        pair = [int(worse[row]), int(better[row])]
        own = np.argmax((counterparts[row][:, columns] == individuals[row, columns]).all(axis=1))
        return Profile(
            **describe_pair(
                schema, protected, counterparts[row, pair], [classes[k] for k in labels[row, pair]], scores[row, pair]
            ),
            disagreeing=int((compared[row] & (labels[row] != labels[row, own])).sum()),
            source=source,
        )

    return [profile(row) for row in order[:max_profiles].tolist()]

"""What is added to the training set: profiles relabelled by majority, samples that narrow a subgroup's gap."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from evenhand.individual import Variants, merge_by_unprotected
from evenhand.mitigation.metrics import SubgroupGapMetric
from evenhand.mitigation.split import class_positions
from evenhand.models import BATCH_ROWS, Scorer, predict_labels
from evenhand.schema import People, Schema
from evenhand.subgroups import Perturbation, Rules
from evenhand.typing import Booleans, Floats, Integers

DRAWN = 20
"""Nudged people that the model is asked about for each one wanted: most of them are decided like the others."""

LEAST_DRAWN = 2000
"""But at least so many, so that a few wanted are still chosen from many."""

COPIES = 5
"""Different nudges of each person near the threshold: fewer reach further from it, more move it less surely."""


def relabel_profiles(given: Scorer, individuals: Floats, protected: Sequence[str]) -> tuple[Floats, Integers]:
    """Return every profile under every protected assignment, all with the label that most of them are given.

    A tie goes to the label with the higher mean score. Profiles that agree on everything unprotected are one profile.
    Where the schema has rules, a profile is everybody who is a plausible counterpart of the others: profiles without
    one are left out, and an assignment that makes no plausible person has a copy of another one, which has no vote.

    Args:
        given: the model that decides about them.
        individuals: the profiles, shape (n, attributes); their protected entries do not matter.
        protected: attributes whose joint values are the assignments.

    Returns:
        Instances, profile by profile, shape (profiles * assignments, attributes), and their labels as positions in the
        target's values.

    Source: Zhang, Zhang, Zhang, "Efficient white-box fairness testing through gradient search" (ISSTA 2021) relabels
    by majority the one instance found; here the profile's whole orbit gets the label, so that nothing is left to flip.
    """
    schema = given.schema
    added, compared = _find_orbits(schema, individuals, protected)
    n, m = compared.shape
    added = added.reshape(n * m, -1) if n else individuals[:0]
    scores = _class_scores(given, added).reshape(n, m, len(given.classes))
    votes = (predict_labels(given, added).reshape(n, m, 1) == np.arange(len(given.classes))) & compared[:, :, None]
    means = (scores * compared[:, :, None]).sum(axis=1) / np.maximum(compared.sum(axis=1), 1)[:, None]
    # A mean score is at most 1 and a vote counts 2: scores decide between equal votes only.
    majority = np.argmax(2 * votes.sum(axis=1) + means, axis=1)
    return added, np.repeat(class_positions(given, schema)[majority], m)


def _find_orbits(schema: Schema, individuals: Floats, protected: Sequence[str]) -> tuple[Floats, Booleans]:
    """Return distinct profiles under every assignment, shape (n, m, attributes), and who of these has a vote (n, m)."""
    columns, assignments = schema.positions(protected), schema.assignments(protected)
    if len(individuals) == 0:
        return np.empty((0, len(assignments), individuals.shape[1])), np.empty((0, len(assignments)), dtype=np.bool_)
    if not schema.constrains_people:
        profiles = merge_by_unprotected(individuals, columns).individuals
        variants = Variants.of(schema, protected, profiles)
        return variants.published, variants.plausible
    obeying = individuals[schema.obeys_rules(individuals)]
    variants = Variants.of(schema, protected, obeying)
    first = merge_by_unprotected(variants.representatives, []).first
    variants = variants[first[variants.plausible[first].sum(axis=1) > 1]]
    copies = variants.representatives[:, None, :]
    return np.where(variants.plausible[:, :, None], variants.counterparts, copies), variants.plausible


def sample_opposite(
    given: Scorer, train: People, rules: Rules, n: int, *, rng: np.random.Generator
) -> tuple[Floats, Integers]:
    """Return people like those of a subgroup, but decided otherwise than the subgroup mostly is.

    People of the subgroup are nudged in one unprotected attribute that the subgroup is not described by. Kept are
    those whom the model gives the favourable label, if the subgroup is given it more rarely than everybody else; those
    whom it refuses it, if more often. Where these are too few, the others nearest to the threshold are given the
    opposite label.

    Args:
        given: the model.
        train: people to learn from.
        rules: who is in the subgroup.
        n: how many are wanted; fewer come only where nudging makes fewer different people.
        rng: draws them.

    Returns:
        Instances, all different, shape (at most n, attributes), and their labels as positions in the target's values.

    Source: Zhang and others, "TestSGD: interpretable testing of neural networks against subtle group discrimination"
    (TOSEM 2023), section 5, RQ3; labels changed nearest to the threshold: Kamiran, Calders, "Data preprocessing
    techniques for classification without discrimination" (KAIS 2012), massaging.
    """
    harm = SubgroupGapMetric(rules)
    inside = np.flatnonzero(harm.inside(train))
    if len(inside) == 0 or n < 1:
        return train.individuals[:0].copy(), np.empty(0, dtype=np.int64)
    nudge = Perturbation(train.schema, {*rules, *train.schema.protected})
    seeds = train.individuals[inside[rng.integers(0, len(inside), size=max(DRAWN * n, LEAST_DRAWN))]]
    nudged = rng.permutation(np.unique(nudge(seeds, rng), axis=0))
    scores = _class_scores(given, nudged)
    favour = harm.signed_gap(given, train) <= 0
    already = (predict_labels(given, nudged) == given.favourable) == favour
    # Those decided otherwise first, in random order; then those whose decision is closest to it.
    distance = np.where(already, 0.0, np.abs(scores[:, given.favourable] - 0.5))
    chosen = np.lexsort((distance, ~already))[:n]
    refused = np.delete(np.arange(len(given.classes)), given.favourable)
    labels = given.favourable if favour else refused[np.argmax(scores[:, refused], axis=1)][chosen]
    return nudged[chosen], class_positions(given, train.schema)[np.broadcast_to(labels, len(chosen))]


def sample_levelling(
    given: Scorer, train: People, rules: Rules, n: int, *, rng: np.random.Generator
) -> tuple[Floats, Integers]:
    """Return people on both sides of a gap who are decided almost the other way, with the label that narrows it.

    Of those to whom the model gives what their side has too much of (favourable decisions inside the subgroup and
    refusals outside it, or the reverse), the nearest to the threshold, each with several nudges as in ``opposite``.
    One decision changed closes a larger part of the gap on the smaller side, so that distances there count less: by
    the side's size, which is what costs the least accuracy.

    Args:
        given, train, rules, n, rng: as in ``opposite``.

    Returns:
        Instances, all different, the nearest first, shape (at most n, attributes), and their labels as positions in
        the target's values. None if no one is inside or no one outside.

    Source: Kamiran, Calders, "Data preprocessing techniques for classification without discrimination" (KAIS 2012),
    massaging, which changes the labels of the real people; the weight by a side's size is ours.
    """
    harm = SubgroupGapMetric(rules)
    inside = harm.inside(train)
    if not inside.any() or inside.all() or n < 1:
        return train.individuals[:0].copy(), np.empty(0, dtype=np.int64)
    scores = _class_scores(given, train.individuals)
    favoured = inside == (harm.signed_gap(given, train) > 0)
    too_much = np.flatnonzero((predict_labels(given, train.individuals) == given.favourable) == favoured)
    sizes = np.where(inside, inside.sum(), len(train) - inside.sum())
    distance = np.abs(scores[:, given.favourable] - 0.5) * sizes
    chosen = rng.permutation(too_much)
    chosen = np.repeat(chosen[np.argsort(distance[chosen], kind="stable")][:n], COPIES)
    nudged = Perturbation(train.schema, {*rules, *train.schema.protected})(train.individuals[chosen], rng)
    first = np.sort(np.unique(nudged, axis=0, return_index=True)[1])[:n]
    refused = np.delete(np.arange(len(given.classes)), given.favourable)
    refusal = refused[np.argmax(scores[:, refused], axis=1)]
    labels = np.where(favoured, refusal, given.favourable)[chosen[first]]
    return nudged[first], class_positions(given, train.schema)[labels]


def _class_scores(given: Scorer, individuals: Floats) -> Floats:
    """As ``favourable_score``, for every class."""
    parts = [given.scores(individuals[i : i + BATCH_ROWS]) for i in range(0, len(individuals), BATCH_ROWS)]
    return np.concatenate(parts) if parts else np.empty((0, len(given.classes)))

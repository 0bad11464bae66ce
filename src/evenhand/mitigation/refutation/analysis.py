"""Refutation: count the cells, find the best rule of the family and prove a lower bound."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from evenhand.core.typing import Booleans, Floats, Integers, Progress, ignore_progress
from evenhand.errors import DataError, EvenhandError, OptionError
from evenhand.mitigation.config import RefutationConfig
from evenhand.mitigation.refutation.features import (
    FeatureCells,
    FeatureFile,
    FeatureSource,
    find_groups,
    holds,
    read_features,
)
from evenhand.mitigation.refutation.result import (
    CellCounts,
    FamilyBound,
    GivenStanding,
    RefutationProof,
    RefutationResult,
    WitnessRule,
)
from evenhand.mitigation.refutation.search import Relaxation, RuleSearch
from evenhand.mitigation.refutation.trees import RuleTreeSearch
from evenhand.models.subject import Subject
from evenhand.schema.people import People
from evenhand.stats.proportion import count_needed

MAX_CELLS = 3000
"""Maximum number of cells for rules with weights, since pairs of cells are compared."""

EQUAL = 1e-6
"""A bound this close to the gap of the witness counts as exact."""

SMALL_GROUP = 100
"""Size of a group below which a gap is mostly noise."""


def refute_alternatives(
    subject: Subject | People,
    config: RefutationConfig | None = None,
    *,
    features: FeatureSource,
    data_name: str = "data",
    progress: Progress | None = None,
    **settings: Any,
) -> RefutationResult:
    """Find the smallest gap in selection rates that rules of a family reach at an accuracy floor, or bound it.

    Rules use only binary features. The proof covers only these people, and can be checked in exact arithmetic
    (``evenhand check-certificate``). With several groups, the largest gap is used.

    Args:
        subject: People with true labels. With a model, its accuracy is the default floor, and it is shown with the
        rules.
        config: Settings.
        features: File of conditions, or its content. See ``read_features``.
        data_name: Name of the people, used without a model.
        progress: Progress callback.
        settings: Fields of ``RefutationConfig``, which override those in ``config``.

    Raises:
        EvenhandError: The people, the features or a setting is invalid.
    """
    started = time.perf_counter()
    config = RefutationConfig.of(config, settings)
    progress = progress or ignore_progress
    people = subject.people if isinstance(subject, Subject) else subject
    schema = people.schema
    try:
        favourable = people.favourable
    except EvenhandError as error:
        raise DataError(f"accuracy needs true labels: {error.message}", hint="name their column: `target=`") from None
    file = read_features(features, schema)
    bits = np.stack([holds(condition, people.individuals) for condition in file.features.values()], axis=1)
    group, groups = find_groups(people, file.groups)
    given, correct = None, None
    if isinstance(subject, Subject):
        progress("querying the model", 0.0)
        accepted = subject.scorer.predict(people.individuals) == subject.scorer.favourable
        rates = [float(accepted[group == number].mean()) for number in range(len(groups))]
        correct = int((accepted == favourable).sum())
        given = GivenStanding(accuracy=correct / len(favourable), gap=max(rates) - min(rates))
    need = correct if config.accuracy is None else count_needed(config.accuracy, len(favourable))
    if need is None:
        raise OptionError(
            "without a model, the accuracy that a rule must reach is a required argument",
            location="`accuracy=`",
            hint="set it, for example to 0.82, or pass a model to use its accuracy",
        )
    table, cell = FeatureCells.of(bits.astype(np.int64), group, favourable, len(groups), need)
    if len(table.features) > MAX_CELLS and config.family == "linear":
        raise OptionError(
            f"expected at most {MAX_CELLS:,} cells of people with equal features, got {len(table.features):,}",
            location="`features=`",
            hint="remove features, or use `family=any`",
        )
    progress("bounding all decisions based on the features", 0.0)
    relaxation = Relaxation(table)
    anything = relaxation.solve([], table.full_range) if table.most_right >= table.need else None
    search = FamilyBound()
    any_bound, bound, proof = None, None, RefutationProof()
    if anything is not None:
        search = _search(config, table, relaxation, progress)
        any_bound = max(0.0, anything.bound)
        bound = max(search.bound, any_bound) if search.bound <= 1 else None
        multipliers = anything.multipliers.write()
        proof = RefutationProof(parts=(multipliers,)) if search.bound < anything.bound else search.proof
        proof = proof.model_copy(update={"anything": multipliers})
    witness = None
    if search.decisions is not None:
        witness = _evaluate_witness(search, search.decisions[cell], group, favourable, tuple(groups))
        bound = None if bound is None else min(bound, witness.gap)
    verdict = "infeasible" if bound is None else "open" if witness is None else "bounded"
    if witness is not None and bound is not None and witness.gap - bound < EQUAL:
        verdict = "exact"
    return RefutationResult(
        table_reading=people.reading,
        model=subject.scorer.name if isinstance(subject, Subject) else None,
        data=subject.data_name if isinstance(subject, Subject) else data_name,
        target=schema.target.name,
        favourable=str(schema.target.favourable),
        protected=tuple(schema.protected),
        family=config.family,
        depth=config.depth if config.family == "tree" else None,
        features={name: condition.text for name, condition in file.features.items()},
        groups=groups,
        people=table.people,
        accuracy=need / table.people if config.accuracy is None else config.accuracy,
        need=need,
        cells=tuple(
            CellCounts(features="".join(map(str, row)), counts=tuple((int(no), int(yes)) for no, yes in counts))
            for row, counts in zip(table.features.tolist(), table.counts, strict=True)
        ),
        verdict=verdict,
        bound=bound,
        any_bound=any_bound,
        most_accurate=table.most_right / table.people,
        witness=witness,
        given=given,
        proof=proof,
        parts=search.parts,
        stopped=search.stopped,
        interrupted=search.interrupted,
        notes=_notes(people, file, table),
        seed=config.seed,
        seconds=time.perf_counter() - started,
    )


def _search(config: RefutationConfig, table: FeatureCells, relaxation: Relaxation, progress: Progress) -> FamilyBound:
    """Search a family. At least one vector of decisions must reach the floor."""
    if config.family == "any":
        solution = relaxation.solve([], table.full_range)
        decisions = _reach_floor(table, solution.decisions)
        randomised = int(((decisions > 0) & (decisions < 1)).sum())
        words = "decisions by cell" + (f", randomised in {randomised} of them" if randomised else "")
        proof = RefutationProof(parts=(solution.multipliers.write(),))
        return FamilyBound(solution.bound, decisions, {"words": words}, proof)
    if config.family == "tree":
        return RuleTreeSearch(table, config.depth).run(config.time_limit, progress, clock=time.monotonic)
    return RuleSearch(table, config.seed).run(config.max_parts, config.time_limit, progress, clock=time.monotonic)


def _notes(people: People, file: FeatureFile, table: FeatureCells) -> tuple[str, ...]:
    """Note protected attributes in features, missing values and small groups."""
    notes = []
    columns = sorted({column for condition in file.features.values() for column in condition.columns})
    names = sorted({people.schema.attributes[column].name for column in columns} & set(people.schema.protected))
    if names:
        notes.append(f"The features use the protected {', '.join(names)}: such rules treat groups differently.")
    missing = int(np.isnan(people.individuals[:, columns]).any(axis=1).sum())
    if missing:
        notes.append(
            f"For {missing:,} of {table.people:,} people, a value that a feature uses is missing. This feature counts "
            "as false for them."
        )
    smallest = min(table.counts.sum(axis=(0, 2)))
    if smallest < SMALL_GROUP:
        notes.append(f"The smallest group has {smallest} people, so its gap is mostly noise.")
    return tuple(notes)


def _reach_floor(table: FeatureCells, decisions: Floats) -> Floats:
    """Adjust the decisions of a linear program so that they reach the floor despite rounding."""
    decisions = np.where(np.abs(decisions - np.rint(decisions)) < 1e-9, np.rint(decisions), decisions)
    gains = table.gains
    improvement = np.where(gains > 0, 1 - decisions, decisions) * np.abs(gains)
    fractional = (decisions > 0) & (decisions < 1)
    for cell in np.lexsort((-improvement, ~fractional)):
        missing = table.need - table.base - float(gains @ decisions)
        if missing <= 0:
            break
        if improvement[cell] > 0:
            end = 1.0 if gains[cell] > 0 else 0.0
            decisions[cell] += (end - decisions[cell]) * min(1.0, missing / improvement[cell] * (1 + 1e-9))
    return np.clip(decisions, 0.0, 1.0)


def _evaluate_witness(
    search: FamilyBound, decisions: Floats, group: Integers, favourable: Booleans, groups: Sequence[str]
) -> WitnessRule:
    """Evaluate a rule from its decisions about each person, shape (n,)."""
    assert search.decisions is not None, "a witness has decisions"
    correct = float(np.where(favourable, decisions, 1 - decisions).sum())
    rates = {name: float(decisions[group == number].mean()) for number, name in enumerate(groups)}
    return WitnessRule(
        decisions=tuple(map(float, search.decisions)),
        right=correct,
        accuracy=correct / len(decisions),
        gap=max(rates.values()) - min(rates.values()),
        selection_rates=rates,
        **search.rule,
    )

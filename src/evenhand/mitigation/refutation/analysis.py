"""One refutation: count the cells, find the best rule of the family and prove what no rule undercuts."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np

from evenhand.core.typing import Floats, Progress, ignore_progress
from evenhand.errors import OptionError
from evenhand.mitigation.refutation.config import POINTS, RefutationConfig
from evenhand.mitigation.refutation.features import (
    FeatureCells,
    FeatureSource,
    correct_decisions_needed,
    find_groups,
    holds,
    read_features,
    require_labels,
)
from evenhand.mitigation.refutation.result import (
    CellCounts,
    FloorBound,
    GivenStanding,
    RefutationProof,
    RefutationResult,
    WitnessRule,
)
from evenhand.mitigation.refutation.search import NEAREST, Multipliers, ProofPart, Relaxation, RuleSearch
from evenhand.mitigation.refutation.trees import RuleTreeSearch, TreeLeaf, TreeRule, apply_tree, write_tree
from evenhand.models.subject import Subject
from evenhand.schema.people import People

MOST_CELLS = 3000
"""Cells of a search for rules with weights, at most: pairs of cells are compared."""

CURVE = 40
"""Floors whose bound is drawn."""

EQUAL = 1e-6
"""A bound this near to the witness's gap is its gap."""


class _Found(NamedTuple):
    """What the search of one family says: a bound above 1 where no rule reaches the floor."""

    bound: float
    decisions: Floats | None
    words: dict[str, Any]
    proof: RefutationProof
    parts: int = 0
    stopped: bool = False
    interrupted: bool = False


def refute_alternatives(
    subject: Subject | People,
    config: RefutationConfig | None = None,
    *,
    features: FeatureSource,
    data_name: str = "data",
    progress: Progress | None = None,
    **settings: Any,
) -> RefutationResult:
    """Find the least gap of selection rates that rules of a family reach at an accuracy floor, or bound it from below.

    Rules decide by binary features alone. What is proved is about these people and no others, and is written so that it
    can be checked in exact arithmetic (``evenhand check-certificate``). The largest gap of two groups counts.

    Args:
        subject: people with true labels; with a model its accuracy is the default floor, and it is drawn beside rules.
        config: settings.
        features: a file of conditions, or what stands in it: see ``read_features``.
        data_name: how to call people without a model.
        progress: called as work goes on.
        settings: fields of ``RefutationConfig`` by name, in place of those in ``config``.

    Raises:
        EvenhandError: the people, the features or the settings cannot be used.
    """
    started = time.perf_counter()
    config = RefutationConfig.of(config, settings)
    say = progress or ignore_progress
    people = subject.people if isinstance(subject, Subject) else subject
    favourable = require_labels(people)
    file = read_features(features, people.schema)
    bits = np.stack([holds(one, people.individuals) for one in file.features.values()], axis=1).astype(np.int64)
    group, groups = find_groups(people, file.groups)
    given, correct = None, None
    if isinstance(subject, Subject):
        say("asking the model", 0.0)
        scorer = subject.scorer
        accepted = scorer.predict(people.individuals) == scorer.favourable
        rates = [float(accepted[group == one].mean()) for one in range(len(groups))]
        correct = int((accepted == favourable).sum())
        given = GivenStanding(accuracy=correct / len(favourable), gap=max(rates) - min(rates))
    need = correct_decisions_needed(config.accuracy, correct, len(favourable))
    table, cell = FeatureCells.of(bits, group, favourable, len(groups), need)
    if len(table.features) > MOST_CELLS and config.family in ("linear", "scorecard"):
        raise OptionError(
            f"the features part the people into {len(table.features):,} cells, at most {MOST_CELLS:,} are searched",
            location="`features=`",
            hint="leave out features, or use `family=any`",
        )
    say("any decisions by the features", 0.0)
    relaxation = Relaxation(table)
    whole = np.stack([np.zeros(len(table.features)), np.ones(len(table.features))])
    anything = relaxation.solve([], whole) if table.most_right >= table.need else None
    found = (
        _search(config, table, relaxation, say) if anything is not None else _Found(2.0, None, {}, RefutationProof())
    )
    any_bound = None if anything is None else max(0.0, anything.bound)
    bound = max(found.bound, 0.0, any_bound or 0.0) if found.bound <= 1 else None
    proof = found.proof
    if anything is not None:
        own = _write_bound(anything.multipliers)
        proof = RefutationProof(parts=(own,)) if found.bound < anything.bound else proof
        proof = proof.model_copy(update={"anything": own})
    witness = None
    if found.decisions is not None:
        witness = _count_witness(found, table, found.decisions[cell], (group, favourable), tuple(groups))
        bound = None if bound is None else min(bound, witness.gap)
    verdict = "infeasible" if bound is None else "open" if witness is None else "bounded"
    if witness is not None and bound is not None and witness.gap - bound < EQUAL:
        verdict = "exact"
    schema = people.schema
    touched = [schema.attributes[at].name for one in file.features.values() for at in one.columns]
    told = sorted(set(touched) & set(schema.protected))
    notes = [f"Features look at {', '.join(told)}, which is protected: such rules treat groups apart."] if told else []
    looked_at = sorted({at for one in file.features.values() for at in one.columns})
    missing = int(np.isnan(people.individuals[:, looked_at]).any(axis=1).sum())
    if missing:
        notes.append(
            f"For {missing:,} of {table.people:,} people a value that a feature looks at is missing: such a feature "
            "does not hold for them."
        )
    small = min(table.counts.sum(axis=(0, 2)))
    if small < 100:
        notes.append(f"The smallest group has {small} people: a gap of groups so small is mostly chance.")
    return RefutationResult(
        table_reading=people.reading,
        model=subject.scorer.name if isinstance(subject, Subject) else None,
        data=subject.data_name if isinstance(subject, Subject) else data_name,
        target=schema.target.name,
        favourable=str(schema.target.favourable),
        protected=tuple(schema.protected),
        family=config.family,
        depth=config.depth if config.family == "tree" else None,
        points=POINTS if config.family == "scorecard" else None,
        features={name: one.text for name, one in file.features.items()},
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
        curve=_trace_curve(table),
        proof=proof,
        parts=found.parts,
        stopped=found.stopped,
        interrupted=found.interrupted,
        notes=tuple(notes),
        seed=config.seed,
        seconds=time.perf_counter() - started,
    )


def _search(config: RefutationConfig, table: FeatureCells, relaxation: Relaxation, say: Progress) -> _Found:
    """Search one family; the floor is within what any decisions reach."""
    clock: Callable[[], float] = time.monotonic
    if config.family == "any":
        whole = np.stack([np.zeros(len(table.features)), np.ones(len(table.features))])
        solved = relaxation.solve([], whole)
        decisions = _reach_floor(table, solved.decisions)
        by_lot = int(((decisions > 0) & (decisions < 1)).sum())
        words = "decides cell by cell" + (f", in {by_lot} of them by lot" if by_lot else "")
        return _Found(
            solved.bound, decisions, {"words": words}, RefutationProof(parts=(_write_bound(solved.multipliers),))
        )
    if config.family == "tree":
        trees = RuleTreeSearch(table, config.depth).run(config.time_limit, say, clock=clock)
        rule = trees.best
        bound = (trees.gap - NEAREST if rule is not None else 2.0) if trees.complete else -1.0
        return _Found(
            bound,
            None if rule is None else apply_tree(rule, table.features).astype(np.float64),
            {} if rule is None else {"words": _say_tree(rule), "tree": write_tree(rule)},
            RefutationProof(),
            stopped=trees.stopped,
            interrupted=trees.interrupted,
        )
    found = RuleSearch(table, config.family == "scorecard", config.seed).run(
        config.max_parts, config.time_limit, say, clock=clock
    )
    cuts = tuple(
        " ".join(f"{cell}:{factor}" for cell, factor in zip(one.cells, one.factors, strict=True)) for one in found.cuts
    )
    best = found.best
    return _Found(
        found.bound,
        None if best is None else best.accepted.astype(np.float64),
        {}
        if best is None
        else {"words": _say_weights(config.family), "weights": best.weights, "threshold": best.threshold},
        RefutationProof(cuts=cuts, parts=tuple(_write_part(one) for one in found.proof.walk())),
        found.parts,
        found.stopped,
        found.interrupted,
    )


def _reach_floor(table: FeatureCells, decisions: Floats) -> Floats:
    """Return decisions of a linear program that reach the floor fully, where rounding leaves a person's part open."""
    decisions = np.where(np.abs(decisions - np.rint(decisions)) < 1e-9, np.rint(decisions), decisions)
    gains = table.gains
    better = np.where(gains > 0, 1 - decisions, decisions) * np.abs(gains)
    between = (decisions > 0) & (decisions < 1)
    for cell in np.lexsort((-better, ~between)):
        lacking = table.need - table.base - float(gains @ decisions)
        if lacking <= 0:
            break
        if better[cell] > 0:
            end = 1.0 if gains[cell] > 0 else 0.0
            decisions[cell] += (end - decisions[cell]) * min(1.0, lacking / better[cell] * (1 + 1e-9))
    return np.clip(decisions, 0.0, 1.0)


def _count_witness(
    found: _Found, table: FeatureCells, decisions: Floats, facts: tuple[Any, Any], groups: tuple[str, ...]
) -> WitnessRule:
    """Count a rule on the people, one by one: their decisions (n,) beside groups and true labels."""
    group, favourable = facts
    right = float(np.where(favourable, decisions, 1 - decisions).sum())
    rates = {name: float(decisions[group == number].mean()) for number, name in enumerate(groups)}
    by_cell = found.decisions if found.decisions is not None else np.zeros(0)
    return WitnessRule(
        decisions=tuple(map(float, by_cell)),
        right=right,
        accuracy=right / table.people,
        gap=max(rates.values()) - min(rates.values()),
        selection_rates=rates,
        **found.words,
    )


def _trace_curve(table: FeatureCells) -> tuple[FloorBound, ...]:
    """Bound the gap of any decisions by the features at floors up to the largest accuracy that they reach.

    An interrupt ends it, and keeps what was proved before.
    """
    constant = max(table.base, table.people - table.base)
    if table.most_right <= constant:
        return ()
    whole = np.stack([np.zeros(len(table.features)), np.ones(len(table.features))])
    found = []
    with suppress(KeyboardInterrupt):
        for need in np.unique(np.linspace(constant, table.most_right, CURVE).astype(np.int64)).tolist():
            solved = Relaxation(FeatureCells(table.features, table.counts, need)).solve([], whole)
            floor, bound = need / table.people, max(0.0, solved.bound)
            found.append(FloorBound(accuracy=floor, bound=bound, proof=_write_bound(solved.multipliers)))
    return tuple(found)


def _write_part(part: ProofPart) -> str:
    if part.weight is not None:
        return f"weight {part.weight} {part.at}"
    return f"cell {part.cell}" if part.cell is not None else _write_bound(part.multipliers)


def _write_bound(multipliers: Multipliers) -> str:
    cuts = " ".join(f"{number}:{value}" for number, value in multipliers.cuts)
    return f"bound {multipliers.floor}; {' '.join(map(str, multipliers.pairs))}; {cuts}".rstrip()


def _say_weights(family: str) -> str:
    return (
        "adds up points and accepts from a threshold on" if family == "scorecard" else "a weighted sum and a threshold"
    )


def _say_tree(rule: TreeRule) -> str:
    """Return how many questions a tree asks, in words."""

    def count(one: TreeRule) -> int:
        return 0 if isinstance(one, TreeLeaf) else 1 + count(one.without) + count(one.holding)

    return f"a tree of {count(rule)} questions"

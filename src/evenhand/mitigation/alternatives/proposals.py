"""Enumeration of the declared search space: each candidate is a score source and a rule."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from evenhand.core.typing import Booleans, Floats, Integers
from evenhand.mitigation.alternatives.config import Family, GapName
from evenhand.mitigation.alternatives.gaps import CONDITIONS
from evenhand.mitigation.alternatives.rules import (
    AcceptanceRule,
    GroupCutoffs,
    OwnDecision,
    RuleInputs,
    Tilt,
    tilt_features,
)
from evenhand.mitigation.alternatives.sources import FOLDS, STRENGTHS, ScoreSource

TILTED_STRENGTHS = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0)
"""Strengths of reweighing that are combined with tilts."""

WEIGHTS = tuple(tenth / 10 for tenth in range(1, 10))
"""Probabilities with which thresholds that close the gap decide in the family ``lot``."""


@dataclass(frozen=True, eq=False)
class CandidateRecipe:
    """Candidate.

    Attributes:
        method: Family, or ``given`` or ``refit``.
        recipe: Description.
        settings: Parameters by name.
        source: Model that computes the scores.
        rule: Rule that decides.
        cross_fitted: Decisions about the validation set, shape (n,), by rules fitted without the person's label. None
            if the rule does not use labels.
    """

    method: str
    recipe: str
    settings: dict[str, float]
    source: ScoreSource
    rule: AcceptanceRule
    cross_fitted: Booleans | None = None

    def accepts_validation(self, inputs: RuleInputs) -> Booleans:
        """Decide about the validation set, without rules fitted on a person's own label."""
        return self.rule.accepts(inputs) if self.cross_fitted is None else self.cross_fitted

    @property
    def keeps_format(self) -> bool:
        """Whether it is a model of the original kind, which is written in its format."""
        return self.source.save is not None and isinstance(self.rule, OwnDecision)


@dataclass(frozen=True, eq=False)
class SearchSpace:
    """Validation people and families of a search.

    Attributes:
        against: Gap to reduce.
        families: Searched families.
        group: Group of each person, shape (n,).
        favourable: True label of each person, shape (n,).
        groups: Number of groups.
        fold: Fold of each person, shape (n,).
        membership: Cross-fitted probability of each group, shape (n, groups). None without tilts.
        tells_group: Whether rules may use the group.
        seed: Random seed.
    """

    against: GapName
    families: tuple[Family, ...]
    group: Integers
    favourable: Booleans
    groups: int
    fold: Integers
    membership: Floats | None
    tells_group: bool
    seed: int

    def propose(self, sources: Sequence[ScoreSource]) -> Iterator[CandidateRecipe]:
        """Yield all candidates, the original model first."""
        for source in sources:
            yield CandidateRecipe(source.name, describe_source(source), _strength(source), source, OwnDecision())
        # If the original model uses hidden attributes, rules work on the version in which these are fixed.
        replaced = any(source.name == "untold" for source in sources)
        scored = [
            source for source in sources if not (replaced and source.name == "given") and not source.scorer.label_only
        ]
        for source in scored:
            if "tilt" in self.families and (source.strength is None or source.strength in TILTED_STRENGTHS):
                yield from self._tilt(source, told=False)
        for source in scored if self.tells_group else ():
            if source.strength:
                continue
            if "thresholds" in self.families:
                yield from self._tilt(source, told=True)
                yield from self._free_thresholds(source)
            if "lot" in self.families and source.strength is None:
                yield from self._lots(source)

    def _inputs(self, source: ScoreSource) -> RuleInputs:
        return source.inputs._replace(group=self.group, membership=self.membership)

    def _tilt(self, source: ScoreSource, *, told: bool) -> Iterator[CandidateRecipe]:
        conditions = CONDITIONS[self.against]
        weights = [None if condition is None else self.favourable == condition for condition in conditions]
        counts = [np.bincount(self.group, weights=weight, minlength=self.groups) for weight in weights]
        rng = np.random.default_rng([self.seed, 63])
        shares = np.array(counts) / len(self.group)
        method = "thresholds" if told else "reweigh x tilt" if source.strength else "tilt"
        kind = "thresholds from one price per group" if told else "tilted without using the group"
        for number, (words, rule) in enumerate(tilt_path(self._inputs(source), conditions, shares, told=told, rng=rng)):
            settings = {"step": float(number)} | _strength(source)
            yield CandidateRecipe(method, f"{describe_source(source)}, {kind}, {words}", settings, source, rule)

    def _cutoffs(self, source: ScoreSource) -> list[tuple[str, GroupCutoffs, list[GroupCutoffs]]]:
        """Compute free thresholds for each step from all people, and from all people but each fold."""
        inputs, conditions = self._inputs(source), CONDITIONS[self.against]

        def path(rows: Integers) -> list[tuple[str, GroupCutoffs]]:
            return list(
                threshold_path(inputs.at(rows), self.group[rows], self.favourable[rows], conditions, self.groups)
            )

        whole = path(np.arange(len(self.group)))
        parts = [path(np.flatnonzero(self.fold != number)) or whole for number in range(FOLDS if whole else 0)]
        return [(words, rule, [part[step][1] for part in parts]) for step, (words, rule) in enumerate(whole)]

    def _cross_fit(self, source: ScoreSource, rules: Sequence[AcceptanceRule]) -> Booleans:
        """Decide about each person with the rule fitted without their fold, shape (n,)."""
        inputs = self._inputs(source)
        return np.stack([rule.accepts(inputs) for rule in rules])[self.fold, np.arange(len(self.fold))]

    def _free_thresholds(self, source: ScoreSource) -> Iterator[CandidateRecipe]:
        for number, (words, rule, parts) in enumerate(self._cutoffs(source)):
            drawn = ", some by lot" if rule.is_random else ""
            recipe = f"{describe_source(source)}, free thresholds by group{drawn}, {words}"
            settings = {"step": float(number)}
            yield CandidateRecipe("thresholds", recipe, settings, source, rule, self._cross_fit(source, parts))

    def _lots(self, source: ScoreSource) -> Iterator[CandidateRecipe]:
        for _, closing, parts in self._cutoffs(source)[-1:]:
            for weight in WEIGHTS:
                rule, *folds = (GroupCutoffs(cutoffs.cuts, weight) for cutoffs in (closing, *parts))
                words = f"{describe_source(source)}, thresholds that close the gap for a lot of {100 * weight:.0f} %"
                yield CandidateRecipe("lot", words, {"weight": weight}, source, rule, self._cross_fit(source, folds))


def _strength(source: ScoreSource) -> dict[str, float]:
    return {} if source.strength is None else {"strength": source.strength}


def describe_source(source: ScoreSource) -> str:
    """Describe a score source."""
    if source.name == "untold":
        return "the original model, with hidden attributes fixed"
    if source.strength is None:
        return "the original model"
    if source.strength == 0:
        return "refitted without changes"
    return f"refitted, reweighed with strength {source.strength:g}"


def describe_space(families: Sequence[Family], *, tells_group: bool, fits: bool) -> tuple[str, ...]:
    """Describe the declared search space, one sentence per family."""
    steps = len(LEVELS) + len(BEYOND)
    space = ["given: the original model, candidate 0"]
    if fits:
        space.append("refit: its kind refitted without changes")
    if fits and "reweigh" in families:
        strengths = ", ".join(f"{strength:g}" for strength in STRENGTHS[1:])
        space.append(
            "reweigh: its kind fitted with weights (P(group) P(label) / P(group, label))^strength, strengths "
            f"{strengths}"
        )
    if "tilt" in families:
        tilted = "original and refitted models" if fits else "original model"
        if fits and "reweigh" in families:
            strengths = ", ".join(f"{strength:g}" for strength in TILTED_STRENGTHS[1:])
            tilted = f"{tilted} and of strengths {strengths}"
        space.append(
            f"tilt: scores of the {tilted}, accepted if the gain exceeds the price of the estimated probability of "
            f"each group, {steps} steps"
        )
    if "thresholds" in families and tells_group:
        space.append(
            f"thresholds: one price per group, {steps} steps, and free thresholds by group, {len(LEVELS)} steps"
        )
    if "lot" in families and tells_group:
        space.append(f"lot: thresholds that close the gap for a fixed lot of people, {len(WEIGHTS)} probabilities")
    if not tells_group:
        space.append("left out, because they use the group: thresholds, lot")
    if fits:
        space.append(f"scores and free thresholds are cross-fitted in {FOLDS} folds of the validation set")
    return tuple(space)


PEOPLE = 2_000
"""Maximum number of people in the linear program of the prices. A random sample is used if there are more."""

LEVELS = (0.95, 0.9, 0.85, 0.8, 0.75, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1, 0.0)
"""Target gaps as shares of the gap of the model, closer together at small losses of accuracy."""

BEYOND = (1.25, 1.5, 2.0)
"""Factors of the prices that close the gap as estimated by the model, which may be smaller than the true gap."""

CUTS = 80
"""Number of thresholds per group, at equal shares of its people."""


def _maximise(gain: Floats, rates: Floats, blocks: int, max_range: float, sums: Any = None) -> tuple[Floats, Floats]:
    """Maximise ``gain x`` over x in [0, 1] such that in each block of rows, ``rates x`` has a range of at most
    ``most``.

    The lowest rate of each block is a free variable. The prices are the multipliers of the rows: the gain from a wider
    range, with the sign of the binding end. They add up to 0 in each block.

    Args:
        gain: Objective, shape (variables,).
        rates: Rates, shape (blocks * groups, variables).
        blocks: Number of blocks.
        most: Maximum range.
        sums: Rows whose products with x must be 1, or None.

    Returns:
        The solution x and the prices.
    """
    from scipy.optimize import linprog
    from scipy.sparse import csr_array, hstack, vstack

    rows, groups = rates.shape[0], rates.shape[0] // blocks
    lowest = np.kron(np.eye(blocks), np.ones((groups, 1)))
    above = hstack([csr_array(rates), -csr_array(lowest)])  # rate - lowest <= most
    equal = {}
    if sums is not None:
        padding = csr_array((sums.shape[0], blocks))
        equal = {"A_eq": hstack([csr_array(sums), padding]), "b_eq": np.ones(sums.shape[0])}
    solution = linprog(
        -np.concatenate([gain, np.zeros(blocks)]),
        A_ub=vstack([above, -above]).tocsr(),  # and lowest - rate <= 0
        b_ub=np.concatenate([np.full(rows, max_range), np.zeros(rows)]),
        bounds=[(0, 1)] * len(gain) + [(None, None)] * blocks,
        method="highs",
        **equal,
    )
    multipliers = -np.asarray(solution.ineqlin.marginals)
    return np.asarray(solution.x[: len(gain)]), multipliers[:rows] - multipliers[rows:]


def _range(rates: Floats, blocks: int) -> float:
    return float(np.ptp(rates.reshape(blocks, -1), axis=1).max())


def tilt_path(
    inputs: RuleInputs, conditions: tuple[bool | None, ...], shares: Floats, *, told: bool, rng: np.random.Generator
) -> Iterator[tuple[str, Tilt]]:
    """Yield tilts with smaller and smaller gaps, and their descriptions.

    The prices are the multipliers of the linear program that maximises ``mean((2 p - 1) z)`` over decisions z under a
    bound on the range of rates. The rates are estimated from scores and probabilities of groups.

    Args:
        inputs: People whose scores were not fitted on their own labels.
        conditions, shares, told: As in ``Tilt``.
        rng: Random number generator for a sample of ``PEOPLE`` people.
    """
    rows = rng.permutation(len(inputs.score))[:PEOPLE]
    features = tilt_features(inputs, conditions, shares, told=told)[rows] / len(rows)
    gain = (2 * inputs.score[rows] - 1) / len(rows)
    widest = _range(features.T @ (gain > 0), len(conditions))

    def tilt(prices: Floats) -> Tilt:
        # Acceptance gains 2 p - 1 in the program and p - 1/2 in the rule.
        return Tilt(conditions, prices.reshape(len(conditions), -1) / 2, shares, told)

    prices = np.zeros(features.shape[1])
    for level in LEVELS if widest > 0 else ():
        _, prices = _maximise(gain, features.T, len(conditions), level * widest)
        yield f"towards {100 * level:.0f} % of the gap", tilt(prices)
    for factor in BEYOND if prices.any() else ():
        yield f"{factor:g} times the prices that close it", tilt(factor * prices)


class _Curve(NamedTuple):
    """Thresholds of a group, with the share of correct decisions and the rates, shape (conditions, cuts)."""

    thresholds: Floats
    correct: Floats
    rates: Floats


def _trace_curve(score: Floats, favourable: Booleans, conditions: Sequence[bool | None], n: int) -> _Curve:
    ascending = np.sort(score)
    middle = (ascending[1:] + ascending[:-1]) / 2
    places = np.unique(np.linspace(0, len(middle) - 1, CUTS).astype(np.int64))
    thresholds = np.unique(np.concatenate([[-1.0, 0.5, 2.0], middle[places]]))
    accepted = score > thresholds[:, None]
    correct = (accepted == favourable).sum(axis=1) / n
    masks = [np.ones_like(favourable) if condition is None else favourable == condition for condition in conditions]
    return _Curve(thresholds, correct, np.array([accepted[:, mask].mean(axis=1) for mask in masks]))


def threshold_path(
    inputs: RuleInputs, group: Integers, favourable: Booleans, conditions: tuple[bool | None, ...], groups: int
) -> Iterator[tuple[str, GroupCutoffs]]:
    """Yield thresholds by group with smaller and smaller gaps, and their descriptions.

    A linear program over the curves of the groups mixes points of each curve such that most decisions are correct and
    the range of rates is bounded. For a single rate, a mixture of points is a threshold between them. For two rates,
    people between the points are decided by lot (Hardt, Price, Srebro, "Equality of opportunity in supervised
    learning", NIPS 2016).

    Args:
        inputs: People whose scores were not fitted on their own labels.
        group: Group of each person, shape (n,).
        favourable: True label of each person, shape (n,).
        conditions: As in ``Tilt``.
        groups: Number of groups.
    """
    from scipy.linalg import block_diag

    members = [group == number for number in range(groups)]
    curves = [_trace_curve(inputs.score[mask], favourable[mask], conditions, len(group)) for mask in members]
    rates = np.concatenate([block_diag(*(curve.rates[c] for curve in curves)) for c in range(len(conditions))])
    gain = np.concatenate([curve.correct for curve in curves])
    sums = block_diag(*(np.ones(len(curve.thresholds)) for curve in curves))
    unchanged = np.concatenate([curve.thresholds == 0.5 for curve in curves])
    widest = _range(rates @ unchanged, len(conditions))
    ends = np.cumsum([len(curve.thresholds) for curve in curves])[:-1]
    for level in LEVELS if widest > 0 else ():
        amounts, _ = _maximise(gain, rates, len(conditions), level * widest, sums)
        cuts = [
            _choose_cuts(curve, mixture, inputs.score[mask], favourable[mask], conditions)
            for curve, mixture, mask in zip(curves, np.split(amounts, ends), members, strict=True)
        ]
        yield f"{100 * level:.0f} % of the gap", GroupCutoffs(tuple(cuts))


def _choose_cuts(
    curve: _Curve, amounts: Floats, score: Floats, favourable: Booleans, conditions: Sequence[bool | None]
) -> tuple[tuple[float, float], ...]:
    """Convert a mixture of points on a group's curve to thresholds."""
    used = np.flatnonzero(amounts > 1e-9)
    if len(used) > 1 and len(conditions) > 1:
        share = amounts[used] / amounts[used].sum()
        return tuple(zip(map(float, share), map(float, curve.thresholds[used]), strict=True))
    if len(used) == 1:
        return ((1.0, float(curve.thresholds[used[0]])),)
    # For a single rate, choose the threshold with the rate of the mixture.
    condition = conditions[0]
    scores = np.sort(score if condition is None else score[favourable == condition])
    place = round((1 - float(amounts @ curve.rates[0])) * len(scores))
    padded = np.concatenate([[-1.0], scores, [2.0]])
    return ((1.0, float((padded[place] + padded[place + 1]) / 2)),)

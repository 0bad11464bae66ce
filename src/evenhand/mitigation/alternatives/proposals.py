"""Enumeration of the declared search space, in which each candidate is a score source with or without a tilt."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from evenhand.core.typing import Booleans, Floats
from evenhand.mitigation.alternatives.gaps import CONDITIONS
from evenhand.mitigation.alternatives.rules import RuleInputs, Tilt, tilt_features
from evenhand.mitigation.alternatives.sources import FOLDS, STRENGTHS, ScoreSource
from evenhand.mitigation.config import AlternativesConfig, Family

TILTED_STRENGTHS = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0)
"""Strengths of reweighing that are combined with tilts."""


@dataclass(frozen=True, eq=False)
class CandidateRecipe:
    """Candidate.

    Attributes:
        method: Family, or ``given`` or ``refit``.
        recipe: Description.
        settings: Parameters by name.
        source: Model that computes the scores.
        rule: Decision rule. None for the decisions of the model itself.
    """

    method: str
    recipe: str
    settings: dict[str, float]
    source: ScoreSource
    rule: Tilt | None = None

    def scores(self, inputs: RuleInputs) -> Floats:
        """Compute scores in [0, 1] that rank people, shape (n,)."""
        return inputs.score if self.rule is None else self.rule.scores(inputs)

    def accepts(self, inputs: RuleInputs) -> Booleans:
        """Decide who gets the favourable label, shape (n,)."""
        return inputs.accepted if self.rule is None else self.rule.accepts(inputs)

    @property
    def uses_group(self) -> bool:
        """Whether it uses the group in addition to the inputs of the model."""
        return self.rule is not None and self.rule.uses_group

    @property
    def parameters(self) -> int:
        """Number of fitted parameters of the rule."""
        return 0 if self.rule is None else self.rule.parameters


def propose_candidates(
    config: AlternativesConfig, inputs: Mapping[ScoreSource, RuleInputs], favourable: Booleans, *, allows_group: bool
) -> Iterator[CandidateRecipe]:
    """Yield all candidates, starting with the original model.

    Args:
        config: Settings.
        inputs: Inputs of the rules for the validation set, by source of the scores.
        favourable: True labels of the validation set, shape (n,).
        allows_group: Whether rules may use the group.
    """
    for source in inputs:
        yield CandidateRecipe(source.name, describe_source(source), _strength(source), source)
    # If the original model uses hidden attributes, rules use the version in which these are fixed.
    replaced = any(source.name == "untold" for source in inputs)
    scored = [source for source in inputs if not (replaced and source.name == "given") and not source.scorer.label_only]
    tilted = [source for source in scored if source.strength is None or source.strength in TILTED_STRENGTHS]
    priced = [source for source in scored if allows_group and not source.strength]
    conditions = CONDITIONS[config.against]
    for method, sources in (("tilt", tilted), ("thresholds", priced)):
        for source in sources if method in config.methods else ():
            uses_group, group = method == "thresholds", inputs[source].group
            assert group is not None, "the validation set has groups"
            weights = [None if condition is None else favourable == condition for condition in conditions]
            shares = np.array([np.bincount(group, weight) for weight in weights]) / len(group)
            kind = "thresholds from one price per group" if uses_group else "tilted without using the group"
            name = "reweigh x tilt" if source.strength and not uses_group else method
            rng = np.random.default_rng([config.seed, 63])
            path = tilt_path(inputs[source], conditions, shares, uses_group=uses_group, rng=rng)
            for step, (words, rule) in enumerate(path):
                settings = {"step": float(step)} | _strength(source)
                yield CandidateRecipe(name, f"{describe_source(source)}, {kind}, {words}", settings, source, rule)


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


def describe_space(families: Sequence[Family], *, allows_group: bool, fits: bool) -> tuple[str, ...]:
    """Describe the declared search space, one sentence per family."""
    steps = len(LEVELS) + len(BEYOND)
    space = ["given: the original model, candidate 0"]
    if fits:
        space.append("refit: the same kind of model refitted without changes")
    if fits and "reweigh" in families:
        strengths = ", ".join(f"{strength:g}" for strength in STRENGTHS[1:])
        space.append(
            "reweigh: the same kind of model with weights (P(group) P(label) / P(group, label))^strength, strengths "
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
    if not allows_group:
        space.append("excluded because it uses the group: thresholds")
    elif "thresholds" in families:
        space.append(f"thresholds: one price per group, {steps} steps")
    if fits:
        space.append(f"scores are cross-fitted in {FOLDS} folds of the validation set")
    return tuple(space)


PEOPLE = 2_000
"""Maximum number of people in the linear program of the prices. A random sample is used if there are more."""

LEVELS = (0.95, 0.9, 0.85, 0.8, 0.75, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1, 0.0)
"""Target gaps as shares of the model's gap, more closely spaced for small losses of accuracy."""

BEYOND = (1.25, 1.5, 2.0)
"""Factors by which the prices that close the estimated gap are multiplied. The true gap may be larger."""


def _maximise(gain: Floats, rates: Floats, blocks: int, max_range: float) -> Floats:
    """Maximise ``gain z`` over z in [0, 1] such that in each block of rows, ``rates z`` has a limited range.

    Args:
        gain: Objective, shape (variables,).
        rates: Rates, shape (blocks * groups, variables).
        blocks: Number of blocks.
        max_range: Maximum range.

    Returns:
        The prices of the rows: the gain from a wider range, with the sign of the binding end. They add up to 0 in each
        block.
    """
    from scipy.optimize import linprog
    from scipy.sparse import csr_array, hstack, vstack

    rows, groups = rates.shape[0], rates.shape[0] // blocks
    # The lowest rate of each block is a free variable: rate - lowest <= max_range, and lowest - rate <= 0.
    lowest = np.kron(np.eye(blocks), np.ones((groups, 1)))
    above = hstack([csr_array(rates), -csr_array(lowest)])
    solution = linprog(
        -np.concatenate([gain, np.zeros(blocks)]),
        A_ub=vstack([above, -above]).tocsr(),
        b_ub=np.concatenate([np.full(rows, max_range), np.zeros(rows)]),
        bounds=[(0, 1)] * len(gain) + [(None, None)] * blocks,
        method="highs",
    )
    multipliers = -np.asarray(solution.ineqlin.marginals)
    return np.asarray(multipliers[:rows] - multipliers[rows:])


def tilt_path(
    inputs: RuleInputs,
    conditions: tuple[bool | None, ...],
    shares: Floats,
    *,
    uses_group: bool,
    rng: np.random.Generator,
) -> Iterator[tuple[str, Tilt]]:
    """Yield tilts with decreasing gaps, and their descriptions.

    The prices are the multipliers of the linear program that maximises ``mean((2 p - 1) z)`` over decisions z under a
    bound on the range of rates. The rates are estimated from scores and probabilities of groups.

    Args:
        inputs: People whose scores were not fitted on their own labels.
        conditions, shares, uses_group: As in ``Tilt``.
        rng: Random number generator for a sample of ``PEOPLE`` people.
    """
    rows = rng.permutation(len(inputs.score))[:PEOPLE]
    features = tilt_features(inputs, conditions, shares, uses_group=uses_group)[rows] / len(rows)
    gain = (2 * inputs.score[rows] - 1) / len(rows)
    widest = float(np.ptp((features.T @ (gain > 0)).reshape(len(conditions), -1), axis=1).max())

    def tilt(prices: Floats) -> Tilt:
        # Acceptance gains 2 p - 1 in the program and p - 1/2 in the rule.
        return Tilt(conditions, prices.reshape(len(conditions), -1) / 2, shares, uses_group)

    prices = np.zeros(features.shape[1])
    for level in LEVELS if widest > 0 else ():
        prices = _maximise(gain, features.T, len(conditions), level * widest)
        yield f"towards {100 * level:.0f} % of the gap", tilt(prices)
    for factor in BEYOND if prices.any() else ():
        yield f"{factor:g} times the prices that close it", tilt(factor * prices)

"""Decision rules: the model's own decision, a tilt, and thresholds by group."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from evenhand.core.typing import Booleans, Floats, Integers


class RuleInputs(NamedTuple):
    """Inputs of a rule for n people.

    Attributes:
        score: Probability of the favourable label, shape (n,).
        accepted: Decision of the model, shape (n,).
        group: Group, shape (n,). None for rules that do not use it.
        membership: Estimated probability of each group, shape (n, groups). None for rules that do not use it.
        lot: Fixed draw in [0, 1), shape (n,).
    """

    score: Floats
    accepted: Booleans
    group: Integers | None
    membership: Floats | None
    draw: Floats

    def at(self, rows: Integers) -> RuleInputs:
        """Select some of the people."""
        group = None if self.group is None else self.group[rows]
        membership = None if self.membership is None else self.membership[rows]
        return RuleInputs(self.score[rows], self.accepted[rows], group, membership, self.draw[rows])

    def require_group(self) -> Integers:
        """Return the groups of a rule that uses them."""
        assert self.group is not None, "a rule that uses the group gets it"
        return self.group


class AcceptanceRule(Protocol):
    """Decision rule.

    Attributes:
        asks_group: Whether it uses the group.
        asks_membership: Whether it uses the estimated probability of each group.
        parameters: Number of fitted parameters.
    """

    @property
    def asks_group(self) -> bool: ...
    @property
    def asks_membership(self) -> bool: ...
    @property
    def parameters(self) -> int: ...

    def scores(self, inputs: RuleInputs) -> Floats:
        """Compute scores in [0, 1] that rank people, shape (n,)."""
        ...

    def accepts(self, inputs: RuleInputs) -> Booleans:
        """Decide who gets the favourable label, shape (n,)."""
        ...


@dataclass(frozen=True)
class OwnDecision:
    """Decision of the model itself."""

    asks_group: bool = False
    asks_membership: bool = False
    parameters: int = 0

    def scores(self, inputs: RuleInputs) -> Floats:
        """Return the scores of the model."""
        return inputs.score

    def accepts(self, inputs: RuleInputs) -> Booleans:
        """Return the decisions of the model."""
        return inputs.accepted


@dataclass(frozen=True, eq=False)
class Tilt:
    """Rule that accepts if the gain exceeds the prices of the groups.

    ``p - 1/2 > sum_cg price_cg w_c(p) q_g / s_cg`` over conditions c and groups g. If the rule uses the group, q_g is 1
    for the person's group, and otherwise its estimated probability. w is 1 for all people, p under the condition of a
    favourable true label, and 1 - p under the opposite. s is the share of people in both. The rule is optimal for its
    gap if p and q are correct (Menon, Williamson, "The cost of fairness in binary classification", FAccT 2018).

    Attributes:
        conditions: Conditions as in ``gaps.CONDITIONS``.
        prices: Prices, shape (conditions, groups). Each row adds up to 0.
        shares: s, shape (conditions, groups).
        asks_group: Whether it uses the group instead of estimated probabilities.
    """

    conditions: tuple[bool | None, ...]
    prices: Floats
    shares: Floats
    asks_group: bool

    @property
    def asks_membership(self) -> bool:
        """Whether it uses the estimated probability of each group."""
        return not self.asks_group

    @property
    def parameters(self) -> int:
        """Number of free prices: all but one of each condition."""
        return self.prices.size - len(self.prices)

    def scores(self, inputs: RuleInputs) -> Floats:
        """Compute 1/2 plus the gain minus the price, clipped to [0, 1]."""
        features = tilt_features(inputs, self.conditions, self.shares, told=self.asks_group)
        return np.clip(inputs.score - features @ self.prices.ravel(), 0.0, 1.0)

    def accepts(self, inputs: RuleInputs) -> Booleans:
        """Accept if the gain exceeds the price."""
        return np.asarray(self.scores(inputs) > 0.5)


def tilt_features(inputs: RuleInputs, conditions: tuple[bool | None, ...], shares: Floats, *, told: bool) -> Floats:
    """Compute ``w_c(p) q_g / s_cg`` for each person, shape (n, conditions * groups). See ``Tilt``."""
    if told:
        membership = (inputs.require_group()[:, None] == np.arange(shares.shape[1])).astype(np.float64)
    else:
        assert inputs.membership is not None, "a rule that uses membership gets it"
        membership = inputs.membership
    weights = {None: np.ones_like(inputs.score), True: inputs.score, False: 1 - inputs.score}
    return np.concatenate(
        [
            weights[condition][:, None] * membership / np.maximum(share, 1e-9)
            for condition, share in zip(conditions, shares, strict=True)
        ],
        axis=1,
    )


@dataclass(frozen=True, eq=False)
class GroupCutoffs:
    """Thresholds of the score for each group, which decide with a probability.

    Attributes:
        cuts: For each group, probabilities that add up to 1 and their thresholds. Higher scores are accepted.
        weight: Probability with which the thresholds decide. Otherwise, the model decides.
    """

    cuts: tuple[tuple[tuple[float, float], ...], ...]
    weight: float = 1.0
    asks_group: bool = True
    asks_membership: bool = False

    @property
    def parameters(self) -> int:
        """Number of fitted parameters."""
        return sum(2 * len(cut) - 1 for cut in self.cuts) + (self.weight < 1)

    @property
    def is_random(self) -> bool:
        """Whether some decisions depend on the draw."""
        return self.weight < 1 or any(len(cut) > 1 for cut in self.cuts)

    def _probability(self, inputs: RuleInputs) -> Floats:
        group = inputs.require_group()
        probability = np.asarray((1 - self.weight) * inputs.accepted, dtype=np.float64)
        for number, cuts in enumerate(self.cuts):
            members = group == number
            for share, threshold in cuts:
                probability[members] += self.weight * share * (inputs.score[members] > threshold)
        return probability

    def scores(self, inputs: RuleInputs) -> Floats:
        """Compute the probability of acceptance if decisions are random, else the score relative to its threshold."""
        if self.is_random:
            return np.asarray(np.clip(self._probability(inputs), 0.0, 1.0))
        shifts = np.array([0.5 - cuts[0][1] for cuts in self.cuts])
        return np.asarray(np.clip(inputs.score + shifts[inputs.require_group()], 0.0, 1.0))

    def accepts(self, inputs: RuleInputs) -> Booleans:
        """Accept if the probability exceeds the draw."""
        return np.asarray(self._probability(inputs) > inputs.draw)

"""Decision rule of an alternative: a price for each group is subtracted from the score."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from evenhand.core.typing import Booleans, Floats, Integers


class RuleInputs(NamedTuple):
    """Inputs of a rule for n people.

    Attributes:
        score: Probability of the favourable label, shape (n,).
        accepted: Decision of the model, shape (n,).
        group: Group, shape (n,). None for rules that do not use it.
        membership: Estimated probability of each group, shape (n, groups). None for rules that do not use it.
    """

    score: Floats
    accepted: Booleans
    group: Integers | None = None
    membership: Floats | None = None


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
        uses_group: Whether it uses the group instead of estimated probabilities.
    """

    conditions: tuple[bool | None, ...]
    prices: Floats
    shares: Floats
    uses_group: bool

    @property
    def parameters(self) -> int:
        """Number of free prices: all but one of each condition."""
        return self.prices.size - len(self.prices)

    def scores(self, inputs: RuleInputs) -> Floats:
        """Compute 1/2 plus the gain minus the price, clipped to [0, 1]."""
        features = tilt_features(inputs, self.conditions, self.shares, uses_group=self.uses_group)
        return np.clip(inputs.score - features @ self.prices.ravel(), 0.0, 1.0)

    def accepts(self, inputs: RuleInputs) -> Booleans:
        """Accept if the gain exceeds the price."""
        return np.asarray(self.scores(inputs) > 0.5)


def tilt_features(
    inputs: RuleInputs, conditions: tuple[bool | None, ...], shares: Floats, *, uses_group: bool
) -> Floats:
    """Compute ``w_c(p) q_g / s_cg`` for each person, shape (n, conditions * groups). See ``Tilt``."""
    if uses_group:
        assert inputs.group is not None, "a rule that uses the group gets it"
        membership = (inputs.group[:, None] == np.arange(shares.shape[1])).astype(np.float64)
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

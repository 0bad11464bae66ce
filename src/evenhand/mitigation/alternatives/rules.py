"""Rules that turn what is known of a person into a decision: the model's own, a tilt, thresholds by group, a lot."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from evenhand.core.typing import Booleans, Floats, Integers


class RuleInputs(NamedTuple):
    """What a rule may use about each of n people.

    Attributes:
        score: probability of the favourable label, shape (n,).
        accepted: the model's own decision, shape (n,).
        group: whose group each is in, shape (n,); None for rules that are not told.
        membership: learnt probability of each group, shape (n, groups); None for rules that do not ask.
        lot: everybody's fixed lot in [0, 1), shape (n,).
    """

    score: Floats
    accepted: Booleans
    group: Integers | None
    membership: Floats | None
    lot: Floats

    def at(self, rows: Integers) -> RuleInputs:
        """Return what may be used about some of the people."""
        group = None if self.group is None else self.group[rows]
        membership = None if self.membership is None else self.membership[rows]
        return RuleInputs(self.score[rows], self.accepted[rows], group, membership, self.lot[rows])


class AcceptanceRule(Protocol):
    """A rule of decisions.

    Attributes:
        asks_group: whether it must be told who is in which group.
        asks_membership: whether it asks how probable each group is.
        parameters: how many numbers it was fitted by.
    """

    @property
    def asks_group(self) -> bool: ...
    @property
    def asks_membership(self) -> bool: ...
    @property
    def parameters(self) -> int: ...

    def scores(self, known: RuleInputs) -> Floats:
        """Return the score that people are ranked by, in [0, 1], shape (n,)."""
        ...

    def accepts(self, known: RuleInputs) -> Booleans:
        """Return who is given the favourable label, shape (n,)."""
        ...


@dataclass(frozen=True)
class OwnDecision:
    """The model's own decision."""

    asks_group: bool = False
    asks_membership: bool = False
    parameters: int = 0

    def scores(self, known: RuleInputs) -> Floats:
        """Return the model's own score."""
        return known.score

    def accepts(self, known: RuleInputs) -> Booleans:
        """Return the model's own decision."""
        return known.accepted


@dataclass(frozen=True, eq=False)
class Tilt:
    """Accept where the gain exceeds the price that the groups put on it.

    ``p - 1/2 > sum_cg price_cg w_c(p) q_g / s_cg`` over conditions c and groups g: q_g is 1 for one's own group where
    the rule is told the group, else the learnt probability of it; w is 1 for everybody, p for people with the
    favourable true label and 1 - p for those without it; s the share of people in both. It is the best rule for its
    gap where p and q are right (Menon, Williamson, "The cost of fairness in binary classification", FAccT 2018).

    Attributes:
        conditions: among whom rates are to be alike, as in ``gaps.CONDITIONS``.
        prices: shape (conditions, groups); each row adds up to 0.
        shares: s, shape (conditions, groups).
        asks_group: whether it is told the group; else it asks how probable each group is.
    """

    conditions: tuple[bool | None, ...]
    prices: Floats
    shares: Floats
    asks_group: bool

    @property
    def asks_membership(self) -> bool:
        """Whether it asks how probable each group is."""
        return not self.asks_group

    @property
    def parameters(self) -> int:
        """Prices that are free: all but one of each condition."""
        return self.prices.size - len(self.prices)

    def scores(self, known: RuleInputs) -> Floats:
        """Return 1/2 plus the gain minus the price, within [0, 1]."""
        features = tilt_features(known, self.conditions, self.shares, told=self.asks_group)
        return np.clip(known.score - features @ self.prices.ravel(), 0.0, 1.0)

    def accepts(self, known: RuleInputs) -> Booleans:
        """Return for whom the gain exceeds the price."""
        return np.asarray(self.scores(known) > 0.5)


def tilt_features(known: RuleInputs, conditions: tuple[bool | None, ...], shares: Floats, *, told: bool) -> Floats:
    """Return ``w_c(p) q_g / s_cg`` of each person, shape (n, conditions * groups): see ``Tilt``."""
    if told:
        assert known.group is not None, "a rule that asks for the group is told it"
        belongs = (known.group[:, None] == np.arange(shares.shape[1])).astype(np.float64)
    else:
        assert known.membership is not None, "a rule that asks for membership is told it"
        belongs = known.membership
    weight = {None: np.ones_like(known.score), True: known.score, False: 1 - known.score}
    return np.concatenate(
        [
            weight[condition][:, None] * belongs / np.maximum(share, 1e-9)
            for condition, share in zip(conditions, shares, strict=True)
        ],
        axis=1,
    )


@dataclass(frozen=True, eq=False)
class GroupCutoffs:
    """Thresholds of the score for every group, some with a probability, and how often they decide.

    Attributes:
        cuts: of each group, probabilities that add up to 1, and thresholds: accepted is a score above.
        weight: probability with which the thresholds decide; otherwise the model does.
    """

    cuts: tuple[tuple[tuple[float, float], ...], ...]
    weight: float = 1.0
    asks_group: bool = True
    asks_membership: bool = False

    @property
    def parameters(self) -> int:
        """Numbers it was fitted by."""
        return sum(2 * len(cut) - 1 for cut in self.cuts) + (self.weight < 1)

    @property
    def is_random(self) -> bool:
        """Whether some are decided by lot."""
        return self.weight < 1 or any(len(cut) > 1 for cut in self.cuts)

    def _chance(self, known: RuleInputs) -> Floats:
        assert known.group is not None, "a rule that asks for the group is told it"
        chance = np.asarray((1 - self.weight) * known.accepted, dtype=np.float64)
        for group, cuts in enumerate(self.cuts):
            here = known.group == group
            for probability, threshold in cuts:
                chance[here] += self.weight * probability * (known.score[here] > threshold)
        return chance

    def scores(self, known: RuleInputs) -> Floats:
        """Return the chance of the favourable label where a lot decides, else the score moved to a threshold of 1/2."""
        if self.is_random:
            return np.asarray(np.clip(self._chance(known), 0.0, 1.0))
        moves = np.array([0.5 - cuts[0][1] for cuts in self.cuts])
        assert known.group is not None, "a rule that asks for the group is told it"
        return np.asarray(np.clip(known.score + moves[known.group], 0.0, 1.0))

    def accepts(self, known: RuleInputs) -> Booleans:
        """Return whose chance exceeds the lot."""
        return np.asarray(self._chance(known) > known.lot)

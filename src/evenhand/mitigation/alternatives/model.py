"""An alternative as a model that answers about anybody, and as a file that scikit-learn and joblib read."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evenhand.mitigation.alternatives.rules import AcceptanceRule, RuleInputs
from evenhand.mitigation.alternatives.sources import MembershipModel, ask_source
from evenhand.mitigation.methods.randomized import ConstrainedGroups, draw_thresholds
from evenhand.models import Scorer, WrappedScorer
from evenhand.typing import Floats, Integers


@dataclass(frozen=True, eq=False)
class AlternativeModel(WrappedScorer):
    """A source of scores, and a rule that decides by them.

    Attributes:
        model: the source. rule: what decides.
        groups: tells whose group somebody is in; None where the rule is not told.
        membership: how probable each group is; None where the rule does not ask.
        seed: of everybody's lot. label: how to call it in a report.
    """

    model: Scorer
    rule: AcceptanceRule
    groups: ConstrainedGroups | None
    membership: MembershipModel | None
    seed: int
    label: str

    label_only = False

    @property
    def name(self) -> str:
        """How to call it in a report."""
        return self.label

    def know(self, individuals: Floats) -> RuleInputs:
        """Return what the rule may use about individuals (n, attributes)."""
        lot = draw_thresholds(self.schema, individuals, seed=self.seed)
        return ask_source(self.model, individuals, lot)._replace(
            group=None if self.groups is None else self.groups(individuals),
            membership=None if self.membership is None else self.membership(individuals),
        )

    def scores(self, individuals: Floats) -> Floats:
        """Return one column per class, shape (n, 2)."""
        score = self.rule.scores(self.know(individuals))
        return np.stack((1 - score, score) if self.favourable == 1 else (score, 1 - score), axis=1)

    def predict(self, individuals: Floats) -> Integers:
        """Return the label of each, shape (n,)."""
        accepted = self.rule.accepts(self.know(individuals))
        return np.where(accepted, self.favourable, 1 - self.favourable).astype(np.int64)

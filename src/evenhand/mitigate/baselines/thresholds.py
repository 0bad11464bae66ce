"""Fairlearn's threshold optimizer: the given model with a threshold of its own for every group."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from evenhand.mitigate.baselines.groups import Groups
from evenhand.mitigate.baselines.library import (
    RANDOMISED,
    TRUSTED,
    by_lot,
    chosen,
    its_own_warnings,
    need_fairlearn,
    need_two_labels,
)
from evenhand.mitigate.baselines.lots import Floats, Ints, Save
from evenhand.mitigate.candidate import Candidate, Situation
from evenhand.models import Scorer, favourable_score


def threshold_optimizer(situation: Situation) -> Candidate:
    """The given model with thresholds of its own for every group, so that the groups' rates are alike.

    Thresholds are learnt on the validation part, whose scores are not those of people learnt from.

    Raises:
        MissingExtraError: fairlearn is not installed.
        DataError: there are more labels than two, or no two groups to compare.

    Source: Hardt, Price, Srebro: Equality of opportunity in supervised learning, NIPS 2016.
    """
    need_fairlearn()
    from fairlearn.postprocessing import ThresholdOptimizer

    given, people = situation.given, situation.split.validation
    need_two_labels(given)
    situation.progress("threshold optimizer", 0.0)
    groups = Groups.of(people, situation.harms)
    optimizer = ThresholdOptimizer(
        estimator=_asked(given), constraints="demographic_parity", prefit=True, predict_method="predict_proba"
    )
    group = groups(people.individuals)
    with its_own_warnings():
        optimizer.fit(people.individuals, people.favourable.astype(np.int64), sensitive_features=group)
    learnt = optimizer.interpolated_thresholder_.interpolation_dict
    cuts = {
        int(name): tuple(
            (float(p), operation.operator, float(operation.threshold))
            for p, operation in ((one.p0, one.operation0), (one.p1, one.operation1))
        )
        for name, one in learnt.items()
    }
    made = by_lot(situation, "threshold optimizer", Thresholds(given, groups, cuts))
    _, trials = chosen(situation, [made], (0.0,), "difference")
    return Candidate(
        method="threshold-optimizer",
        words=f"fairlearn's threshold optimizer: the given model, a threshold for each group, {groups.words}",
        scorer=made,
        save=Save(made),
        trials=trials,
        notes=(
            "it must be told who is in which group to decide, so decisions can flip with protected attributes more "
            "often than before",
            RANDOMISED,
            TRUSTED,
        ),
    )


@dataclass(frozen=True, eq=False)
class Thresholds:
    """A model and, for every group, two thresholds of its score with their probabilities.

    Attributes:
        given: the model.
        groups: who is in which.
        cuts: group -> probability, ``>`` or ``<``, threshold; twice.
    """

    given: Scorer
    groups: Groups
    cuts: dict[int, tuple[tuple[float, str, float], ...]]

    def __call__(self, individuals: Floats) -> Floats:
        scores, group = favourable_score(self.given, individuals), self.groups(individuals)
        found = np.zeros(len(individuals))
        for own, cuts in self.cuts.items():
            here = group == own
            for p, operator, threshold in cuts:
                beyond = scores[here] > threshold if operator == ">" else scores[here] < threshold
                found[here] += p * beyond
        return found


def _asked(scorer: Scorer) -> Any:
    """The given model, as fairlearn asks one that is fitted."""
    from sklearn.base import BaseEstimator

    class Given(BaseEstimator):  # type: ignore[misc]  # scikit-learn has no types
        def __sklearn_is_fitted__(self) -> bool:
            return True

        def fit(self, individuals: Floats, labels: Ints) -> Any:
            return self  # fairlearn looks whether there is such a method

        def predict_proba(self, individuals: Floats) -> Floats:
            score = favourable_score(scorer, individuals)
            return np.stack([1 - score, score], axis=1)

    return Given()

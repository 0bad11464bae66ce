"""How a classifier fares with the people who arrive at the shield."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from evenhand.reproduce.shields import classifiers, result


def described(classifier: classifiers.Trained, seconds: float) -> result.Trained:
    """Accuracy and gaps on the people whom the classifier was not trained on."""
    people = classifier.sample
    rows = people.arriving
    group, label, accepted = people.group[rows], people.label[rows], classifier.recommendation[rows]

    def apart(among: NDArray[np.bool_]) -> float:
        shares = [accepted[among & (group == g)].mean() if (among & (group == g)).any() else 0.0 for g in (0, 1)]
        return float(abs(shares[0] - shares[1]))

    return result.Trained(
        dataset=people.environment.dataset,
        attribute=people.environment.attribute,
        classifier=classifier.name,
        groups=people.environment.groups,
        people=len(people.label),
        arriving=len(rows),
        label=float(people.label.mean()),
        group_a=people.rates[0],
        gap=float(abs(people.label[people.group == 0].mean() - people.label[people.group == 1].mean())),
        accepted=(float(accepted[group == 0].mean()), float(accepted[group == 1].mean())),
        accuracy=float((accepted == label).mean()),
        demographic_parity=apart(np.ones(len(rows), bool)),
        equal_opportunity=apart(label == 1),
        seconds=seconds,
        note=people.environment.note,
    )

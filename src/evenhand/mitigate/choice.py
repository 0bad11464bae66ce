"""Which trial becomes the candidate: the least harm among those that cost little accuracy."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from evenhand.mitigate.candidate import Trial
from evenhand.mitigate.harms import Harm
from evenhand.mitigate.lesson import positions
from evenhand.models import Scorer, predict
from evenhand.schema import People

ROUNDING = 1e-9
"""An accuracy that is lower than wanted by no more than this is what was wanted."""


def accuracy(scorer: Scorer, people: People) -> float:
    """The share of people who are given their true label."""
    given = positions(scorer, people.schema)[predict(scorer, people.individuals)]
    return float((given == people.labels).mean())


def sizes(scorer: Scorer, people: People, harms: Sequence[Harm]) -> tuple[float, ...]:
    """What every harm measures."""
    return tuple(harm.size(scorer, people) for harm in harms)


def remaining(after: Sequence[float], before: Sequence[float], people: int) -> float:
    """The mean share of the harms that is left.

    Args:
        after, before: what each harm measured, shares of ``people``.
        people: a harm that nobody suffered before counts as if one of these had.
    """
    shares = [a / max(b, 1 / people) for a, b in zip(after, before, strict=True)]
    return float(np.mean(shares)) if shares else 0.0


def bar(given: float, plain: float, loss: float) -> float:
    """The accuracy that a trial must reach.

    The loss is counted from the given model. Where training anew, with nothing added, does not come that near, the
    given model knew these people or had learnt from others; then it is counted from the model trained anew.

    Args:
        given, plain: accuracies of the given model and of one trained anew with nothing added.
        loss: what may be lost.
    """
    return (given if plain >= given - loss else plain) - loss


def pick(trials: Sequence[Trial], before: Sequence[float], least: float, people: int) -> int:
    """The trial that leaves the least harm among those that reach an accuracy, of equals the one with least added.

    Args:
        trials: the first is the model trained anew with nothing added; it is taken where none reaches it.
        before: what each harm measured on the given model.
        least: see ``bar``.
        people: how many they were measured on.
    """
    fit = [i for i, trial in enumerate(trials) if trial.accuracy >= least - ROUNDING]
    if not fit:
        return 0
    return min(fit, key=lambda i: (remaining(trials[i].harms, before, people), trials[i].value, i))

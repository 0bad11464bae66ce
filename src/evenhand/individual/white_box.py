"""White boxes that replace queries to their model, except for decisions that rounding could change."""

from __future__ import annotations

import numpy as np

from evenhand.core.typing import Booleans, Floats, Integers
from evenhand.errors import BudgetError
from evenhand.models.replies import Reply, ReplyingScorer, ask_model
from evenhand.models.scorer import Scorer, WrappedScorer, predict_labels

CLOSE = 1e-3
"""Difference between the two highest scores below which the model is queried, if only labels were compared.

Rounding errors of a model that sums in a different order or in single precision are far smaller.
"""

SAME = 1e-6
"""Largest difference between scores of the model and of the white box that counts as equal."""

ROUNDING = 1e-12
"""Assumed difference between scores of the model and of the white box if none was observed."""

SAFETY = 1000
"""A decision is too close for the white box if its margin is below this multiple of the observed difference."""


class WhiteBoxScorer(ReplyingScorer, WrappedScorer):
    """White box that replaces queries to its model, except for close decisions and missing values.

    Attributes:
        scorer: The model.
        model: Its white box.
        close: Difference between the two highest scores below which the model is queried.
        compared: Number of compared decisions, which all agree.
    """

    def __init__(self, scorer: Scorer, white_box: Scorer, close: float, compared: int = 0) -> None:
        self.scorer, self.model, self.close, self.compared = scorer, white_box, close, compared

    def reply(self, individuals: Floats) -> Reply:
        """Return scores and labels."""
        labels, clear, scores = self.read(individuals)
        if not clear.all():
            reply = ask_model(self.scorer, individuals[~clear])
            scores[~clear], labels[~clear] = reply.scores, reply.labels
        return Reply(scores, labels, False)

    def read(self, individuals: Floats) -> tuple[Integers, Booleans, Floats]:
        """Return the white box's labels (n,), a mask of the clear ones (n,), and its scores (n, classes).

        A label is clear if no value is missing and no other score is close to the highest.
        """
        clear = np.asarray(~np.isnan(individuals).any(axis=1))
        complete = self.model.scores(individuals[clear])
        scores = np.full((len(individuals), complete.shape[1]), np.nan)
        scores[clear] = complete
        labels = np.zeros(len(individuals), dtype=np.int64)
        labels[clear] = np.argmax(complete, axis=1)
        highest = np.partition(complete, -2, axis=1)
        clear[clear] = highest[:, -1] - highest[:, -2] >= self.close
        return labels, clear, scores


def compare_labels(model: Scorer, white_box: Scorer | None, individuals: Floats) -> WhiteBoxScorer | None:
    """Return the white box if it reproduces the model's decisions on these individuals (n, attributes).

    None if there is no other white box, a label differs, or the budget does not cover the comparison.
    """
    if white_box is None or white_box is model:
        return None
    front = WhiteBoxScorer(model, white_box, CLOSE)
    labels, clear, _ = front.read(individuals)
    front.compared = int(clear.sum())
    try:
        equal = np.array_equal(labels[clear], predict_labels(model, individuals[clear]))
    except BudgetError:
        return None
    return front if equal else None


def compare_scores(model: Scorer, white_box: Scorer, individuals: Floats) -> WhiteBoxScorer | None:
    """Return the white box if it reproduces the model's scores and labels on these individuals (n, attributes).

    None if there is no other white box, a score or label differs, or the model returns labels only.
    """
    if white_box is model or model.label_only:
        return None
    reply = ask_model(model, individuals)
    difference = float(np.abs(white_box.scores(individuals) - reply.scores).max(initial=0.0))
    if not difference <= SAME:
        return None
    front = WhiteBoxScorer(model, white_box, SAFETY * max(difference, ROUNDING), len(individuals))
    labels, clear, _ = front.read(individuals)
    return front if np.array_equal(labels[clear], reply.labels[clear]) else None

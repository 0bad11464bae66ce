"""A model whose decisions are made of its scores by other thresholds than its own."""

from __future__ import annotations

import numpy as np

from evenhand.core.typing import Floats
from evenhand.errors import OptionError
from evenhand.models.ledger import ask_model
from evenhand.models.replies import Reply, ReplyingScorer
from evenhand.models.scorer import Scorer, WrappedScorer
from evenhand.schema.thresholds import Thresholds


class ThresholdScorer(ReplyingScorer, WrappedScorer):
    """A model that gives the favourable label from a score on; below it, the likeliest of its other labels.

    Attributes:
        model: what gives the scores.
        thresholds: from which score on.
    """

    def __init__(self, model: Scorer, thresholds: Thresholds) -> None:
        """Wrap a model.

        Raises:
            OptionError: it gives labels alone, or the thresholds are about values that its people do not have.
        """
        if model.label_only:
            raise OptionError(
                f"a threshold decides by scores, and {model.name} gives labels alone",
                location="`threshold=`",
                hint="leave the threshold out, or give a model that replies with scores",
            )
        if thresholds.default is None and thresholds.attribute is None:
            raise OptionError("expected a threshold, got none", location="`threshold=`")
        thresholds.check_schema(model.schema)
        outside = [threshold for threshold in thresholds.values if not 0 <= threshold <= 1]
        if outside:
            raise OptionError(
                f"{model.name} gives scores between 0 and 1, and the threshold is {outside[0]:g}",
                location="`threshold=`",
                hint="give the threshold on that scale, such as `threshold=0.5`",
            )
        self.model, self.thresholds = model, thresholds

    def reply(self, individuals: Floats) -> Reply:
        """Return scores and labels with one question."""
        scores = ask_model(self.model, individuals).scores
        favoured = self.thresholds.select(scores[:, self.favourable], self.schema, individuals)
        others = scores.copy()
        others[:, self.favourable] = -np.inf
        labels = np.where(favoured, self.favourable, np.argmax(others, axis=1))
        return Reply(scores, np.asarray(labels, dtype=np.int64), False)

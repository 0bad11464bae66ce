"""Models with changed decision thresholds."""

from __future__ import annotations

import numpy as np

from evenhand.core.typing import Floats
from evenhand.errors import OptionError
from evenhand.models.ledger import ask_model
from evenhand.models.replies import Reply, ReplyingScorer
from evenhand.models.scorer import Scorer, WrappedScorer
from evenhand.schema.thresholds import Thresholds


class ThresholdScorer(ReplyingScorer, WrappedScorer):
    """Model that predicts the favourable label at or above a threshold, and otherwise its most likely other label.

    Attributes:
        model: Model that computes the scores.
        thresholds: Thresholds of the favourable score.
    """

    def __init__(self, model: Scorer, thresholds: Thresholds) -> None:
        """Wrap a model.

        Raises:
            OptionError: The model returns only labels, or the thresholds refer to values that are not in the schema.
        """
        if model.label_only:
            raise OptionError(
                f"a threshold requires scores, but {model.name} returns only labels",
                location="`threshold=`",
                hint="remove the threshold, or use a model with scores",
            )
        if thresholds.default is None and thresholds.attribute is None:
            raise OptionError("expected a threshold, got none", location="`threshold=`")
        thresholds.check_schema(model.schema)
        outside = [threshold for threshold in thresholds.values if not 0 <= threshold <= 1]
        if outside:
            raise OptionError(
                f"the threshold must be between 0 and 1, as are the scores of {model.name}, got {outside[0]:g}",
                location="`threshold=`",
                hint="set a threshold on that scale, such as `threshold=0.5`",
            )
        self.model, self.thresholds = model, thresholds

    def reply(self, individuals: Floats) -> Reply:
        """Return the scores and labels from a single query."""
        scores = ask_model(self.model, individuals).scores
        selected = self.thresholds.select(scores[:, self.favourable], self.schema, individuals)
        unfavourable = scores.copy()
        unfavourable[:, self.favourable] = -np.inf
        labels = np.where(selected, self.favourable, np.argmax(unfavourable, axis=1))
        return Reply(scores, np.asarray(labels, dtype=np.int64), False)

"""Models with a changed decision threshold."""

from __future__ import annotations

import numpy as np

from evenhand.core.typing import Floats
from evenhand.errors import OptionError
from evenhand.models.replies import Reply, ReplyingScorer, ask_model
from evenhand.models.scorer import Scorer, WrappedScorer
from evenhand.schema.thresholds import Threshold


class ThresholdScorer(ReplyingScorer, WrappedScorer):
    """Model that predicts the favourable label at or above a threshold, and otherwise its most likely other label.

    Attributes:
        model: Model that computes the scores.
        threshold: Threshold of the favourable score.
    """

    decides = True

    def __init__(self, model: Scorer, threshold: Threshold) -> None:
        """Wrap a model.

        Raises:
            OptionError: The model returns only labels, or the threshold is not between 0 and 1.
        """
        if model.label_only:
            raise OptionError(
                f"a threshold requires scores, but {model.name} returns only labels",
                location="`threshold=`",
                hint="remove the threshold, or use a model with scores",
            )
        if not 0 <= threshold.value <= 1:
            raise OptionError(
                f"the threshold must be between 0 and 1, as are the scores of {model.name}, got {threshold.value:g}",
                location="`threshold=`",
                hint="set a threshold on that scale, such as `threshold=0.5`",
            )
        self.model, self.threshold = model, threshold

    def reply(self, individuals: Floats) -> Reply:
        """Query scores and labels together."""
        scores = ask_model(self.model, individuals).scores
        selected = self.threshold.select(scores[:, self.favourable])
        unfavourable = scores.copy()
        unfavourable[:, self.favourable] = -np.inf
        labels = np.where(selected, self.favourable, np.argmax(unfavourable, axis=1))
        return Reply(scores, np.asarray(labels, dtype=np.int64), False)

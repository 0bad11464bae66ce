"""What is measured of every text: its decision, an error, or its score."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand.errors import DataError, OptionError
from evenhand.subgroup.measures import Measure
from evenhand.subgroup.text.asking import Asking
from evenhand.subgroup.text.counts import Floats


class Measured:
    """Outcomes of texts that a model was asked about.

    Args:
        asking: what it said.
        measure: what is made of it.
        truth: the true labels, for error rates.
    """

    def __init__(self, asking: Asking, measure: Measure, truth: Sequence[Any] | None) -> None:
        self.asking, self.measure, self.truth = asking, measure, truth

    @property
    def counted(self) -> bool:
        """Whether outcomes are 0 and 1."""
        return self.measure != "score"

    @cached_property
    def favourable(self) -> str:
        """The favourable label's name."""
        _, classes, wanted = self.asking.answers()
        return str(classes[wanted])

    def concerned(self, texts: Sequence[str]) -> NDArray[np.int64]:
        """Rows of the texts that the measure is about and that the model answered.

        Raises:
            DataError: there is none.
        """
        answered = self.asking.positions(texts) >= 0
        if self.truth is None or self.measure in ("favourable", "score"):
            return np.flatnonzero(answered)
        deserving = np.array([str(label) == self.favourable for label in self.truth])
        rows = np.flatnonzero(answered & (deserving if self.measure == "false-negative" else ~deserving))
        if len(rows) == 0:
            which = "is" if self.measure == "false-negative" else "is not"
            raise DataError(f"no text's true label {which} {self.favourable!r}, so there is no {self.measure} rate")
        return rows

    def of(self, texts: Sequence[str]) -> Floats:
        """The outcome of each text.

        Raises:
            OptionError: scores are asked for, and the model gives labels only.
        """
        reply, _, wanted = self.asking.answers()
        rows = self.asking.positions(texts)
        if self.measure == "score":
            if reply.label_only:
                raise OptionError(
                    "the model gives labels only, so there is no mean score", mend="measure the favourable rate instead"
                )
            return np.asarray(reply.scores[rows, wanted])
        given = reply.labels[rows] == wanted
        return np.where(given != (self.measure == "false-negative"), 1.0, 0.0)

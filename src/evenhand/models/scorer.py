"""What can be asked of any model: scores and labels for a whole batch of individuals."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from evenhand.errors import ModelError
from evenhand.schema import Schema, Value

BATCH = 65_536
"""Individuals per call to a model: large enough to be fast, small enough for memory."""


@runtime_checkable
class Scorer(Protocol):
    """A model as a black box. One call takes the whole batch; the same batch always gets the same answer.

    Attributes:
        schema: what its individuals are.
        classes: the labels it can give, in the order of its score columns.
        favourable: position of the favourable label in ``classes``.
        label_only: whether the scores are only the labels, one-hot.
        name: how to call it in a report, e.g. the file name.
    """

    @property
    def schema(self) -> Schema: ...
    @property
    def classes(self) -> tuple[Value, ...]: ...
    @property
    def favourable(self) -> int: ...
    @property
    def label_only(self) -> bool: ...
    @property
    def name(self) -> str: ...

    def scores(self, individuals: NDArray[np.float64]) -> NDArray[np.float64]:
        """One column per class for individuals (n, attributes): shape (n, classes), rows adding up to 1."""
        ...

    def predict(self, individuals: NDArray[np.float64]) -> NDArray[np.int64]:
        """The label of each individual, as a position in ``classes``, shape (n,)."""
        ...


def predict(scorer: Scorer, individuals: NDArray[np.float64], *, batch: int = BATCH) -> NDArray[np.int64]:
    """Labels of any number of individuals, asked in batches, shape (n,)."""
    parts = [scorer.predict(individuals[i : i + batch]) for i in range(0, len(individuals), batch)]
    return np.concatenate(parts) if parts else np.empty(0, dtype=np.int64)


def favourable_score(scorer: Scorer, individuals: NDArray[np.float64], *, batch: int = BATCH) -> NDArray[np.float64]:
    """The favourable label's score of any number of individuals, asked in batches, shape (n,)."""
    parts = [scorer.scores(individuals[i : i + batch]) for i in range(0, len(individuals), batch)]
    return np.concatenate(parts)[:, scorer.favourable] if parts else np.empty(0)


def checked_scores(scores: NDArray[np.float64], n: int, classes: int, *, model: str) -> NDArray[np.float64]:
    """Refuse an answer that is no answer: wrong shape, NaN, infinite.

    A binary model may answer with one column (n,) or (n, 1): the favourable class is then the second.

    Raises:
        ModelError: the answer cannot be used; the message says what came and what was expected.
    """
    scores = np.asarray(scores, dtype=np.float64)
    if classes == 2 and scores.shape in ((n,), (n, 1)):
        positive = scores.reshape(n)
        scores = np.stack([1 - positive, positive], axis=1)
    if scores.shape != (n, classes):
        raise ModelError(
            f"asked about {n} individuals, the model answered with shape {scores.shape}; "
            f"expected ({n}, {classes}), one score per class",
            where=model,
        )
    if not np.isfinite(scores).all():
        row = int(np.argmax(~np.isfinite(scores).all(axis=1)))
        raise ModelError(f"the model answered {scores[row].tolist()} for individual {row + 1} of a batch", where=model)
    return scores

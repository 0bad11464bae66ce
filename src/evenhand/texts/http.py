"""A model of texts behind an HTTP endpoint.

Wire format. Evenhand sends ``POST`` with a JSON body, at most 1,000 texts per request::

    {"instances": [{"text": "I have two children."}, {"text": "I have three."}]}

and expects a status 2xx and as many predictions, in the same order::

    {"predictions": [...]}

where every prediction is one of

- a label: ``"toxic"``, ``1``, ``true``;
- the score of the favourable label, from 0 to 1 (two labels only; above 1/2 it is given): ``0.73``;
- one score per label, adding up to 1, always in the same order: ``[0.27, 0.73]``;
- an object with ``label``, ``scores`` or both. There, scores may also name their labels:
  ``{"label": "toxic", "scores": {"fine": 0.27, "toxic": 0.73}}``; the label must be the one with the highest score.

All predictions are of the same kind. Credentials, time-outs and further tries are as for a model of people (see
``evenhand.models``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand.errors import ModelError
from evenhand.models.connection import EXPECTED, Connection, shown_url

BATCH = 1000
"""Texts per request."""


@dataclass(eq=False)
class TextEndpoint:
    """A service that is asked about texts.

    Attributes:
        connection: how to reach it.
        classes: the labels, once it named them together with its scores.
    """

    connection: Connection
    classes: tuple[str, ...] | None = field(default=None)

    def __call__(self, texts: Sequence[str]) -> NDArray[np.generic]:
        """Labels or scores, shape (n,), or one score per label, shape (n, classes).

        Raises:
            FetchError: the endpoint does not answer.
            ModelError: what it answers is no prediction.
        """
        predictions = self.connection.predictions([{"text": text} for text in texts])
        kinds = {type(one) if isinstance(one, dict | list) else object for one in predictions}
        if len(kinds) > 1:
            raise self._fault("the endpoint's predictions are of different kinds")
        if kinds == {dict}:
            return self._of_objects(predictions)
        if kinds == {list}:
            return self._numbers(predictions, None)
        return np.asarray(predictions)

    def _of_objects(self, predictions: list[dict[str, Any]]) -> NDArray[np.generic]:
        keys = {key for one in predictions for key in ("label", "scores") if key in one}
        if not keys or any(key not in one for one in predictions for key in keys):
            raise self._fault("the endpoint's predictions are objects, but not all with `label` or all with `scores`")
        if keys == {"label"}:
            return np.asarray([one["label"] for one in predictions])
        listed = [one["scores"] for one in predictions]
        if not all(isinstance(one, dict) for one in listed):
            return self._numbers(listed, None)
        if self.classes is None:
            self.classes = tuple(listed[0])
        scores = self._numbers(listed, self.classes)
        if "label" in keys:
            named = np.array(self.classes)[np.argmax(scores, axis=1)]
            differ = named != np.array([str(one["label"]) for one in predictions])
            if differ.any():
                label = predictions[int(np.argmax(differ))]["label"]
                raise self._fault(
                    f"the endpoint gave the label {label!r}, and another one has the highest score",
                    mend="reply with labels alone, or with scores alone",
                )
        return scores

    def _numbers(self, rows: list[Any], classes: tuple[str, ...] | None) -> NDArray[np.float64]:
        if classes is not None:
            if any(set(row) != set(classes) for row in rows if isinstance(row, dict)):
                raise self._fault("the endpoint does not score the same labels each time")
            rows = [[row[label] for label in classes] if isinstance(row, dict) else row for row in rows]
        numeric = all(isinstance(row, list) and all(type(one) in (int, float) for one in row) for row in rows)
        if not numeric or len({len(row) for row in rows}) > 1:
            raise self._fault("the endpoint's scores are no lists of numbers, one per label")
        return np.asarray(rows, dtype=np.float64)

    def _fault(self, what: str, mend: str = EXPECTED) -> ModelError:
        return ModelError(what, where=self.connection.name, mend=mend)


def from_url(url: str, *, timeout: float = 30.0, retries: int = 4, backoff: float = 0.5) -> TextEndpoint:
    """A model of texts behind an ``http://`` or ``https://`` URL.

    Args:
        url: where to ask; may hold a user and a password.
        timeout, retries, backoff: see ``Connection``.

    Raises:
        ModelError: it is no URL.
    """
    return TextEndpoint(Connection(url, shown_url(url), timeout, retries, backoff))

"""A model behind an HTTP endpoint, as a black box.

Wire format. Evenhand sends ``POST`` with a JSON body, one object per individual in the data's own words (``null`` where
a value is missing; at most 1,000 individuals per request)::

    {"instances": [{"age": 39, "sex": "Male"}, {"age": 50, "sex": "Female"}]}

and expects a status 2xx and as many predictions, in the same order::

    {"predictions": [...]}

where every prediction is one of

- a label of the target: ``">50K"``, ``1``, ``true``;
- the score of the favourable label, from 0 to 1 (two labels only; above 1/2 it is given): ``0.73``;
- one score per label, adding up to 1, in the order of the target's ``values`` in the schema: ``[0.27, 0.73]``;
- an object with ``label``, ``scores`` or both. There, scores may also name their labels:
  ``{"label": ">50K", "scores": {"<=50K": 0.27, ">50K": 0.73}}``.

All predictions of a response are of the same kind. The same individual must always get the same answer, and nobody is
asked about twice. A token in the environment variable ``EVENHAND_HTTP_TOKEN`` is sent as ``Authorization: Bearer``; a
user and a password in the URL are sent as basic authorization. Statuses 429, 500, 502, 503 and 504, broken connections
and time-outs are tried again. Redirections are not followed.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenhand.errors import ModelError
from evenhand.models import replies
from evenhand.models.connection import EXPECTED, Connection, beginning, shown_url
from evenhand.models.questions import probes
from evenhand.models.replies import Reply
from evenhand.schema import Schema, Value, decode


@dataclass(frozen=True, eq=False)
class HttpEndpoint:
    """A model that answers over HTTP (see the module for the wire format).

    Attributes:
        schema: what its individuals are.
        url: where to ask, credentials included.
        classes: the labels of the target.
        favourable: position of the favourable label in ``classes``.
        name: how to call it in a report: the URL without credentials.
        label_only: whether it replied with labels alone when first asked.
        timeout: seconds to wait for a connection, and again for an answer.
        retries: how often to ask again.
        backoff: seconds before the second retry; twice as long before each further one.
        batch: individuals per request.
        known: what it replied so far, by individual: the label's position, then the scores.
    """

    schema: Schema
    url: str = field(repr=False)
    classes: tuple[Value, ...]
    favourable: int
    name: str
    label_only: bool = False
    timeout: float = 30.0
    retries: int = 4
    backoff: float = 0.5
    batch: int = 1000
    known: dict[bytes, NDArray[np.float64]] = field(default_factory=dict, repr=False)

    def scores(self, individuals: NDArray[np.float64]) -> NDArray[np.float64]:
        """Scores, or labels one-hot, shape (n, classes).

        Raises:
            FetchError: the endpoint does not answer.
            ModelError: what it answers is no prediction.
        """
        return self._answers(individuals)[:, 1:]

    def predict(self, individuals: NDArray[np.float64]) -> NDArray[np.int64]:
        """Labels as positions in ``classes``, shape (n,).

        Raises:
            FetchError: the endpoint does not answer.
            ModelError: what it answers is no prediction.
        """
        return self._answers(individuals)[:, 0].astype(np.int64)

    def ask(self, individuals: NDArray[np.float64]) -> Reply:
        """One request, whether these individuals are known or not."""
        predictions = self._connection.predictions(_instances(self.schema, individuals))
        return _read(predictions, self.classes, self.favourable, self.name)

    def _answers(self, individuals: NDArray[np.float64]) -> NDArray[np.float64]:
        rows = np.ascontiguousarray(individuals, dtype=np.float64)
        keys = [row.tobytes() for row in rows]
        new = list({key: i for i, key in enumerate(keys) if key not in self.known}.items())
        for start in range(0, len(new), self.batch):
            part = new[start : start + self.batch]
            reply = self.ask(rows[[i for _, i in part]])
            for j, (key, _) in enumerate(part):
                self.known[key] = np.concatenate([reply.labels[j : j + 1], reply.scores[j]])
        if not keys:
            return np.empty((0, 1 + len(self.classes)))
        return np.stack([self.known[key] for key in keys])

    @cached_property
    def _connection(self) -> Connection:
        return Connection(self.url, self.name, self.timeout, self.retries, self.backoff)


def from_url(
    url: str,
    schema: Schema,
    *,
    name: str | None = None,
    timeout: float = 30.0,
    retries: int = 4,
    backoff: float = 0.5,
    batch: int = 1000,
) -> HttpEndpoint:
    """Connect to a model behind an ``http://`` or ``https://`` URL and ask it about a few individuals.

    Args:
        url: where to ask; may hold a user and a password.
        schema: what its individuals are.
        name: how to call it in a report; by default the URL without credentials.
        timeout, retries, backoff, batch: see ``HttpEndpoint``.

    Raises:
        FetchError: the endpoint does not answer.
        ModelError: the URL is none, or what it answers is no prediction.
    """
    name = name or shown_url(url)
    classes, favourable = replies.target_labels(schema)
    options: dict[str, Any] = {"timeout": timeout, "retries": retries, "backoff": backoff, "batch": batch}
    people = probes(schema)
    reply = HttpEndpoint(schema, url, classes, favourable, name, **options).ask(people)
    endpoint = HttpEndpoint(schema, url, classes, favourable, name, reply.label_only, **options)
    for i, row in enumerate(people):
        endpoint.known[row.tobytes()] = np.concatenate([reply.labels[i : i + 1], reply.scores[i]])
    return endpoint


def _instances(schema: Schema, individuals: NDArray[np.float64]) -> list[dict[str, Any]]:
    frame = decode(schema, individuals)
    columns = [[None if value != value else value for value in frame[name].tolist()] for name in schema.names]
    return [dict(zip(schema.names, row, strict=True)) for row in zip(*columns, strict=True)]


def _read(predictions: list[Any], classes: Sequence[Value], favourable: int, name: str) -> Reply:
    n = len(predictions)
    kinds = {dict if isinstance(item, dict) else list if isinstance(item, list) else object for item in predictions}
    if len(kinds) > 1:
        raise ModelError("the endpoint's predictions are of different kinds", where=name, mend=EXPECTED)
    if kinds == {list}:
        return replies.scored(_per_class(predictions, classes, favourable, name), len(classes), where=name)
    if kinds != {dict}:
        array = np.empty(n, dtype=object)
        array[:] = predictions
        return replies.read_reply(array, n, classes, favourable, where=name)
    keys = {key for item in predictions for key in ("label", "scores") if key in item}
    if not keys or any(key not in item for item in predictions for key in keys):
        raise ModelError(
            "the endpoint's predictions are objects, but not all with `label` or all with `scores`", where=name
        )
    labels = None
    if "label" in keys:
        positions = [replies.position(item["label"], classes, favourable, where=name) for item in predictions]
        labels = np.array(positions, dtype=np.int64)
        if keys == {"label"}:
            return replies.labelled(labels, len(classes))
    listed = [item["scores"] for item in predictions]
    reply = replies.scored(_per_class(listed, classes, favourable, name), len(classes), where=name)
    return reply if labels is None else Reply(reply.scores, labels, False)


def _per_class(rows: list[Any], classes: Sequence[Value], favourable: int, name: str) -> NDArray[np.float64]:
    scores = np.empty((len(rows), len(classes)))
    for i, row in enumerate(rows):
        given = list(row.values()) if isinstance(row, dict) else row
        numeric = isinstance(given, list) and all(type(score) in (int, float) for score in given)
        if not numeric or len(given) != len(classes):
            shown = beginning(json.dumps(row).encode())
            raise ModelError(
                f"the endpoint scored an individual {shown}; expected {len(classes)} numbers",
                where=name,
                mend=f"one score for each of {', '.join(map(repr, classes))}, in this order",
            )
        order = [replies.position(label, classes, favourable, where=name) for label in row] if row is not given else ...
        scores[i, order] = given
    return scores

"""A model behind an HTTP endpoint, as a black box.

Wire format. Evenhand sends ``POST`` with a JSON body, one object per individual in the data's own words (``null`` where
a value is missing; passthrough columns as they stand in the data, what JSON cannot hold as its text, dates in ISO 8601;
at most 1,000 individuals per request)::

    {"instances": [{"age": 39, "sex": "Male"}, {"age": 50, "sex": "Female"}]}

and expects a status 2xx and as many predictions, in the same order::

    {"predictions": [...]}

where every prediction is one of

- a label of the target: ``">50K"``, ``1``, ``true``;
- one number for the favourable label (two labels only), such as its probability: ``0.73``;
- one number per label, in the order of the target's ``values`` in the schema: ``[0.27, 0.73]``;
- an object with ``label``, ``scores`` or both. There, scores may also name their labels:
  ``{"label": ">50K", "scores": {"<=50K": 0.27, ">50K": 0.73}}``.

The values decide whether numbers are probabilities (see ``evenhand.models.outputs``).

All predictions of a response are of the same kind. None is asked about twice, but for some people to see whether the
same person gets the same answer, and everybody where that is not so. A token in the environment variable
``EVENHAND_HTTP_TOKEN`` is sent as ``Authorization: Bearer``; a user and a password in the URL are sent as basic
authorization. Statuses 429, 500, 502, 503 and 504, broken connections and time-outs are tried again, and each try is
charged to the ledger. Redirections are not followed.
"""

from __future__ import annotations

import json
import math
import os
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np

from evenhand.core.http import HttpClient, quote_answer, redact_url, split_url
from evenhand.core.typing import Floats, Integers
from evenhand.errors import ModelError
from evenhand.models import replies
from evenhand.models.blackbox.questions import model_input, probe_individuals
from evenhand.models.blackbox.type_search import settle_types, with_caution
from evenhand.models.column_types import AS_READ, ColumnTypes
from evenhand.models.ledger import QuestionLedger
from evenhand.models.outputs import (
    OutputKind,
    OutputReading,
    check_finite,
    first_reading,
    refuse_stated,
    settle_outputs,
)
from evenhand.models.replies import Reply, ReplyingScorer
from evenhand.models.scorer import ask_once
from evenhand.schema.attribute import Value
from evenhand.schema.schema import Schema
from evenhand.schema.table import is_missing, plain_value


@dataclass(frozen=True, eq=False)
class HttpEndpoint(ReplyingScorer):
    """A model that answers over HTTP (see the module for the wire format).

    Attributes:
        schema: what its individuals are.
        url: where to ask, credentials included.
        classes: the labels of the target.
        favourable: position of the favourable label in ``classes``.
        name: how to call it in a report: the URL without credentials.
        label_only: whether it replied with labels alone when first asked.
        like: the user's data, whose passthrough columns and words for unknown values are sent.
        types: Types of the columns of a text table that the endpoint expects.
        reading: The meaning of numbers that it replies with; None until it is settled.
        caution: What a reader must know about how it is asked.
        timeout: seconds to wait for a connection, and again for an answer.
        retries: how often to ask again.
        backoff: seconds before the first of these; twice as long before each further one.
        batch: individuals per request.
        known: what it replied so far, by individual: the label's position, then the scores.
        ledger: counts the individuals sent.
    """

    schema: Schema
    url: str = field(repr=False)
    classes: tuple[Value, ...]
    favourable: int
    name: str
    label_only: bool = False
    like: Any = field(default=None, repr=False)
    types: ColumnTypes = AS_READ
    reading: OutputReading | None = None
    caution: str = ""
    timeout: float = 30.0
    retries: int = 4
    backoff: float = 0.5
    batch: int = 1000
    known: dict[bytes, Floats] = field(default_factory=dict, repr=False)
    ledger: QuestionLedger = field(default_factory=QuestionLedger, repr=False)

    can_vary: ClassVar[bool] = True

    def reply(self, individuals: Floats) -> Reply:
        """Return scores and labels; the same person is not asked about twice.

        Raises:
            FetchError: the endpoint does not answer.
            ModelError: what it answers is not a prediction.
        """
        answers = self._answers(individuals)
        return Reply(answers[:, 1:], answers[:, 0].astype(np.int64), self.label_only)

    def reply_again(self, individuals: Floats) -> Reply:
        """Return the answers of one new request, whether these individuals are known or not."""
        return self.read(self.ask(individuals))

    def ask(self, individuals: Floats) -> Predictions:
        """Return the predictions of one new request."""
        predictions = self._connection.predictions(_request_instances(self, individuals))
        return _parse_predictions(predictions, self.classes, self.favourable, self.name)

    def read(self, predictions: Predictions) -> Reply:
        """Return the scores and labels of predictions."""
        labels, outputs = predictions
        if outputs is None:
            assert labels is not None  # one of the two is there
            return replies.label_reply(labels, len(self.classes))
        reading = self.reading or first_reading(outputs, self.classes)
        reply = reading.reply(outputs, self.classes, self.favourable, location=self.name)
        return reply if labels is None else Reply(reply.scores, labels, False)

    def _answers(self, individuals: Floats) -> Floats:
        def ask(rows: Floats) -> Floats:
            reply = self.reply_again(rows)
            return np.column_stack([reply.labels, reply.scores])

        return ask_once(individuals, self.known, ask, batch=self.batch, width=1 + len(self.classes))

    @cached_property
    def _connection(self) -> ModelConnection:
        return ModelConnection(self.url, self.name, self.timeout, self.retries, self.backoff, self.ledger)


def connect_model(
    url: str,
    schema: Schema,
    *,
    like: Any = None,
    name: str | None = None,
    timeout: float = 30.0,
    retries: int = 4,
    backoff: float = 0.5,
    batch: int = 1000,
    ledger: QuestionLedger | None = None,
    untyped: bool = False,
    output: OutputKind | None = None,
) -> HttpEndpoint:
    """Connect to a model behind an ``http://`` or ``https://`` URL and ask it about a few individuals.

    Args:
        url: where to ask; may hold a user and a password.
        schema: what its individuals are.
        name: how to call it in a report; by default the URL without credentials.
        like, timeout, retries, backoff, batch, ledger: see ``HttpEndpoint``.
        untyped: Whether ``like`` is a text table. If the endpoint refuses its types, others are tried.
        output: meaning of numbers that it replies with; None to decide it by their values.

    Raises:
        FetchError: the endpoint does not answer.
        ModelError: this is not a URL, what it answers is not a prediction, or the meaning of its numbers is open.
    """
    name = name or redact_url(url)
    classes, favourable = replies.target_labels(schema)
    options: dict[str, Any] = {"like": like, "timeout": timeout, "retries": retries, "backoff": backoff, "batch": batch}
    options["ledger"] = QuestionLedger() if ledger is None else ledger
    people = probe_individuals(schema)
    endpoint = HttpEndpoint(schema, url, classes, favourable, name, **options)
    accepted: list[Predictions] = []  # the last one is that of the types that are kept
    if untyped:
        endpoint = settle_types(endpoint, {}, like, probe=lambda box: accepted.append(box.ask(people)))
    predictions = accepted[-1] if accepted else endpoint.ask(people)
    if predictions.outputs is None:
        refuse_stated(output, name)
    else:
        beside_labels = predictions.labels is not None
        settled = settle_outputs(
            predictions.outputs,
            lambda individuals: endpoint.ask(individuals).outputs,
            schema,
            None if beside_labels else like,
            endpoint.ledger.left,
            classes,
            favourable,
            stated=output,
            location=name,
        )
        people = np.concatenate([people, settled.individuals.reshape(-1, people.shape[1])])
        predictions = Predictions(predictions.labels, settled.outputs)
        single = settled.outputs.shape[1] == 1 and not beside_labels
        caution = settled.reading.describe(classes[favourable]) if single else ""
        endpoint = with_caution(replace(endpoint, reading=settled.reading), caution)
    reply = endpoint.read(predictions)
    endpoint = replace(endpoint, label_only=reply.label_only)
    for i, row in enumerate(people):
        endpoint.known[row.tobytes()] = np.concatenate([reply.labels[i : i + 1], reply.scores[i]])
    return endpoint


def _request_instances(endpoint: HttpEndpoint, individuals: Floats) -> list[dict[str, Any]]:
    schema = endpoint.schema
    words = model_input(
        schema,
        individuals,
        "words",
        like=endpoint.like,
        columns=schema.columns,
        types=endpoint.types,
        location=endpoint.name,
    )
    return [dict(zip(schema.columns, map(_json_cell, row), strict=True)) for row in words.tolist()]


def _json_cell(value: Any) -> Any:
    """Return a cell of the data as JSON has it: what it has no form for is sent as its text."""
    value = plain_value(value)
    if is_missing(value):
        return None
    if isinstance(value, str | bool | int | list) or (isinstance(value, float) and math.isfinite(value)):
        return value
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


class Predictions(NamedTuple):
    """Predictions of an endpoint.

    Attributes:
        labels: positions in the labels of the target, shape (n,); None without labels.
        outputs: numbers, shape (n, k); None without numbers.
    """

    labels: Integers | None
    outputs: Floats | None


def _parse_predictions(predictions: list[Any], classes: Sequence[Value], favourable: int, name: str) -> Predictions:
    n = len(predictions)
    kinds = {dict if isinstance(item, dict) else list if isinstance(item, list) else object for item in predictions}
    if len(kinds) > 1:
        raise ModelError("the endpoint's predictions are of different kinds", location=name, hint=EXPECTED_FORMAT)
    if kinds == {list}:
        return Predictions(None, _scores_per_class(predictions, classes, favourable, name))
    if kinds != {dict}:
        array = np.empty(n, dtype=object)
        array[:] = predictions
        outputs = replies.numeric_outputs(array, n, classes, location=name)
        if outputs is not None:
            check_finite(outputs, location=name)
            return Predictions(None, outputs)
        return Predictions(replies.read_reply(array, n, classes, favourable, location=name).labels, None)
    keys = {key for item in predictions for key in ("label", "scores") if key in item}
    if not keys or any(key not in item for item in predictions for key in keys):
        raise ModelError(
            "the endpoint's predictions are objects, but not all with `label` or all with `scores`", location=name
        )
    labels = outputs = None
    if "label" in keys:
        positions = [replies.label_position(item["label"], classes, favourable, location=name) for item in predictions]
        labels = np.array(positions, dtype=np.int64)
    if "scores" in keys:
        outputs = _scores_per_class([item["scores"] for item in predictions], classes, favourable, name)
    return Predictions(labels, outputs)


def _scores_per_class(rows: list[Any], classes: Sequence[Value], favourable: int, name: str) -> Floats:
    scores = np.empty((len(rows), len(classes)))
    for i, row in enumerate(rows):
        given = list(row.values()) if isinstance(row, dict) else row
        numeric = isinstance(given, list) and all(type(score) in (int, float) for score in given)
        if not numeric or len(given) != len(classes):
            shown = quote_answer(json.dumps(row))
            raise ModelError(
                f"the endpoint scored an individual {shown}; expected {len(classes)} numbers",
                location=name,
                hint=f"one score for each of {', '.join(map(repr, classes))}, in this order",
            )
        order = (
            [replies.label_position(label, classes, favourable, location=name) for label in row]
            if row is not given
            else ...
        )
        scores[i, order] = given
    check_finite(scores, location=name)
    return scores


TOKEN_VARIABLE = "EVENHAND_HTTP_TOKEN"
"""The environment variable with a bearer token."""

EXPECTED_FORMAT = 'it must be {"predictions": [...]}, one label, score or list of scores per individual'


HINTS = {
    401: f"put the token into the environment variable {TOKEN_VARIABLE}",
    403: f"put the token into the environment variable {TOKEN_VARIABLE}",
    404: "check the path of the URL",
    405: "the URL must take POST: check its path",
    413: "the endpoint takes smaller requests only: raise its limit",
}


@dataclass(frozen=True, eq=False)
class ModelConnection:
    """An endpoint that takes ``{"instances": [...]}`` and gives ``{"predictions": [...]}``.

    Attributes:
        url: where to ask, credentials included.
        name: how to call it in a message: the URL without credentials.
        timeout: seconds to wait for a connection, and again for an answer.
        retries: how often to ask again.
        backoff: seconds before the first of these; twice as long before each further one.
        ledger: is charged for the instances of every try that reached the endpoint.
    """

    url: str = field(repr=False)
    name: str
    timeout: float = 30.0
    retries: int = 4
    backoff: float = 0.5
    ledger: QuestionLedger = field(default_factory=QuestionLedger, repr=False)

    def predictions(self, instances: list[dict[str, Any]]) -> list[Any]:
        """Return what the endpoint says about each instance, in their order.

        Raises:
            FetchError: the endpoint does not answer.
            ModelError: what it answers is not a list of as many predictions.
            BudgetError: the budget does not pay for them, or for trying again.
        """
        return self._parse_predictions(self._post(instances), len(instances))

    def close(self) -> None:
        """Close the open connections."""
        self._client.close()

    @cached_property
    def _client(self) -> HttpClient:
        # A model answers the same however often it is asked, so late answers are asked for again.
        return HttpClient(
            "the endpoint",
            self.name,
            self.timeout,
            self.retries,
            self.backoff,
            retries_when_late=True,
            hints=HINTS,
            hint=EXPECTED_FORMAT,
        )

    def _post(self, instances: list[dict[str, Any]]) -> bytes:
        parts, auth = split_url(self.url)
        token = os.environ.get(TOKEN_VARIABLE, "").strip()
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if token:
            headers["Authorization"] = f"Bearer {token}"
        elif auth:
            headers["Authorization"] = f"Basic {b64encode(auth.encode('latin-1', 'replace')).decode()}"
        secrets = [token, *(auth or "").split(":", 1)[1:]]
        body = json.dumps({"instances": instances}, allow_nan=False).encode()
        count = lambda tries: self.ledger.charge(tries * len(instances))  # noqa: E731 - it is read where it is handed on
        return self._client.ask("POST", str(parts.url), headers, secrets, body, count=count)

    def _parse_predictions(self, body: bytes, n: int) -> list[Any]:
        try:
            answer = json.loads(body)
        except (ValueError, RecursionError):
            raise ModelError(
                f"the endpoint's answer is not JSON: {quote_answer(body)}", location=self.name, hint=EXPECTED_FORMAT
            ) from None
        predictions = answer.get("predictions") if isinstance(answer, dict) else None
        if not isinstance(predictions, list):
            raise ModelError(
                f"the endpoint's answer has no list of predictions: {quote_answer(body)}",
                location=self.name,
                hint=EXPECTED_FORMAT,
            )
        if len(predictions) != n:
            raise ModelError(
                f"asked about {n} individuals, the endpoint gave {len(predictions)} predictions", location=self.name
            )
        return predictions

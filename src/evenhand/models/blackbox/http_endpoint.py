"""Black boxes behind an HTTP endpoint.

Wire format. Evenhand sends a ``POST`` request with a JSON body, one object per individual with the data's values
(``null`` for a missing value; passthrough columns are unchanged; values without a JSON form are sent as text, and dates
in ISO 8601; at most 1,000 individuals per request)::

    {"instances": [{"age": 39, "sex": "Male"}, {"age": 50, "sex": "Female"}]}

and expects a 2xx status and one prediction per individual, in the same order::

    {"predictions": [...]}

where every prediction is one of

- a label of the target: ``">50K"``, ``1``, ``true``;
- one number for the favourable label (two labels only), such as its probability: ``0.73``;
- one number per label, in the order of the target's ``values`` in the schema: ``[0.27, 0.73]``.

Whether numbers are probabilities is inferred from their values (see ``evenhand.models.outputs``).

All predictions of a response are of the same kind. Each individual is sent once. Some are sent again to measure noise,
and all of them if there is noise. A token in the environment variable ``EVENHAND_HTTP_TOKEN`` is sent as
``Authorization: Bearer``; a user and a password in the URL are sent as basic authentication. Statuses 429, 500, 502,
503 and 504, broken connections and timeouts are retried, and each attempt is charged to the ledger. Redirects are not
followed.
"""

from __future__ import annotations

import json
import math
import os
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from evenhand.core.http import HttpClient, quote_answer, redact_url, split_url
from evenhand.core.typing import Floats
from evenhand.errors import ModelError
from evenhand.models import replies
from evenhand.models.blackbox.base import (
    LoadRequest,
    RowLabelModel,
    ask_reference_rows,
    probe_individuals,
    settle_outputs,
)
from evenhand.models.blackbox.type_search import settle_types
from evenhand.models.replies import Answers, QuestionLedger, Reply
from evenhand.schema.attribute import Value
from evenhand.schema.table import is_missing, plain_value


@dataclass(frozen=True, eq=False, kw_only=True)
class HttpEndpoint(RowLabelModel):
    """Model behind an HTTP endpoint (see the module for the wire format). ``model`` is the connection to it.

    Attributes:
        batch: Individuals per request.
        cache: Answers by individual: the label's position, then the scores.
    """

    batch: int = 1000
    cache: dict[bytes, Floats] = field(default_factory=dict, repr=False)

    can_vary: ClassVar[bool] = True

    def reply(self, individuals: Floats) -> Reply:
        """Query scores and labels. Answers are cached.

        Raises:
            FetchError: The endpoint does not respond.
            ModelError: The response is not a valid prediction.
        """
        return replies.reply_once(self, individuals, self.cache, self.reply_again, batch=self.batch)

    def reply_again(self, individuals: Floats) -> Reply:
        """Send a new request without the cache."""
        return self.read(self.ask(individuals))

    def ask_rows(self, rows: NDArray[Any]) -> Answers:
        """Send a new request. The connection charges the ledger."""
        columns = self.schema.columns
        instances = [dict(zip(columns, map(_json_cell, row), strict=True)) for row in rows.tolist()]
        return read_predictions(self.model.predictions(instances), self.classes, self.favourable, self.name)


def connect_model(
    url: str, request: LoadRequest, *, timeout: float = 30.0, retries: int = 4, backoff: float = 0.5
) -> HttpEndpoint:
    """Connect to a model behind an ``http://`` or ``https://`` URL and query it with a few individuals.

    Args:
        url: URL of the endpoint. It may contain credentials.
        request: Schema, data and options. The default name is the URL without credentials. If the data is a text table
            whose types the endpoint rejects, others are tried.
        timeout, retries, backoff: See ``ModelConnection``.

    Raises:
        FetchError: The endpoint does not respond.
        ModelError: The URL is invalid, the response is not a valid prediction, or the meaning of its numbers is
            ambiguous.
    """
    schema, like = request.schema, request.like
    name = request.name or redact_url(url)
    classes, favourable = replies.target_labels(schema)
    endpoint = HttpEndpoint(
        schema=schema,
        name=name,
        model=ModelConnection(url, name, timeout, retries, backoff, request.ledger),
        like=like,
        form="words",
        columns=schema.columns,
        classes=classes,
        favourable=favourable,
        ledger=request.ledger,
    )
    people = np.unique(probe_individuals(schema), axis=0)  # queries may cost money
    if request.untyped and like is not None:
        endpoint = settle_types(endpoint, {}, like, people, compare=False)
    answers = endpoint.probed or endpoint.ask(people)
    if answers.outputs is None:
        request.refuse_output(name)
    else:
        rows, outputs, truth = ask_reference_rows(endpoint, endpoint.ledger, answers.outputs, like)
        endpoint = settle_outputs(endpoint, outputs, truth, request.output)
        people, answers = np.concatenate([people, rows]), Answers(None, outputs)
    reply = endpoint.read(answers)
    endpoint.cache.update((row.tobytes(), answer) for row, answer in zip(people, reply.columns, strict=True))
    return endpoint


def _json_cell(value: Any) -> Any:
    """Convert a cell of the data to JSON. Values without a JSON form are converted to text."""
    value = plain_value(value)
    if is_missing(value):
        return None
    if isinstance(value, str | bool | int | list) or (isinstance(value, float) and math.isfinite(value)):
        return value
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def read_predictions(predictions: list[Any], classes: Sequence[Value], favourable: int, name: str) -> Answers:
    """Read the predictions of an endpoint as labels of the target or numbers.

    Raises:
        ModelError: The predictions have an unsupported form.
    """
    values = sort_predictions(predictions, name)
    if values.ndim == 2 and values.shape[1] != len(classes):
        raise ModelError(
            f"expected {len(classes)} scores from the endpoint, got {quote_answer(json.dumps(predictions[0]))}",
            location=name,
            hint=f"one score for each of {', '.join(map(repr, classes))}, in this order",
        )
    return replies.read_answers(values, len(values), classes, favourable, location=name)


def sort_predictions(predictions: list[Any], name: str) -> NDArray[Any]:
    """Convert the predictions of an endpoint to labels or numbers, shape (n,), or to one number per label, shape
    (n, labels).

    Raises:
        ModelError: They have different or unsupported forms.
    """
    if not any(isinstance(item, list | dict) for item in predictions):
        values = np.empty(len(predictions), dtype=object)
        values[:] = predictions
        return values
    numeric = all(
        isinstance(row, list) and all(type(score) in (int, float) for score in row) and len(row) == len(predictions[0])
        for row in predictions
    )
    if not numeric:
        raise ModelError(
            "the endpoint's predictions are neither labels, nor numbers, nor lists of one number per label",
            location=name,
            hint=EXPECTED_FORMAT,
        )
    return np.asarray(predictions, dtype=np.float64)


TOKEN_VARIABLE = "EVENHAND_HTTP_TOKEN"
"""Environment variable with a bearer token."""

EXPECTED_FORMAT = 'it must be {"predictions": [...]}, one label, score or list of scores per individual'


HINTS = {
    401: f"set the environment variable {TOKEN_VARIABLE}",
    403: f"set the environment variable {TOKEN_VARIABLE}",
    404: "check the path of the URL",
    405: "the URL must accept POST: check its path",
    413: "the request is too large for the endpoint: raise its limit",
}


@dataclass(frozen=True, eq=False)
class ModelConnection:
    """Connection to an endpoint that accepts ``{"instances": [...]}`` and returns ``{"predictions": [...]}``.

    Attributes:
        url: URL with credentials.
        name: URL without credentials, for messages.
        timeout: Timeout in seconds, for connecting and for each response.
        retries: Maximum number of retries.
        backoff: Seconds before the first retry. It doubles with each retry.
        ledger: Ledger charged for the instances of each attempt that reached the endpoint.
    """

    url: str = field(repr=False)
    name: str
    timeout: float = 30.0
    retries: int = 4
    backoff: float = 0.5
    ledger: QuestionLedger = field(default_factory=QuestionLedger, repr=False)

    def predictions(self, instances: list[dict[str, Any]]) -> list[Any]:
        """Request a prediction for each instance, in order.

        Raises:
            FetchError: The endpoint does not respond.
            ModelError: The response is not a list of one prediction per instance.
            BudgetError: The budget is too small for the instances or a retry.
        """
        body = self._post(instances)
        try:
            answer = json.loads(body)
        except (ValueError, RecursionError):
            raise ModelError(
                f"the endpoint's response is not JSON: {quote_answer(body)}", location=self.name, hint=EXPECTED_FORMAT
            ) from None
        predictions = answer.get("predictions") if isinstance(answer, dict) else None
        if not isinstance(predictions, list):
            raise ModelError(
                f"the endpoint's response has no list of predictions: {quote_answer(body)}",
                location=self.name,
                hint=EXPECTED_FORMAT,
            )
        if len(predictions) != len(instances):
            raise ModelError(
                f"expected {len(instances)} predictions from the endpoint, got {len(predictions)}",
                location=self.name,
            )
        return predictions

    def text_replies(self, texts: Sequence[str]) -> NDArray[Any]:
        """Request the labels or scores of texts, shape (n,), or one score per label, shape (n, labels).

        Raises:
            EvenhandError: As for ``predictions``.
        """
        return np.asarray(sort_predictions(self.predictions([{"text": text} for text in texts]), self.name).tolist())

    def close(self) -> None:
        """Close the open connections."""
        self._client.close()

    @cached_property
    def _client(self) -> HttpClient:
        # Predictions have no side effects, so a request that timed out is sent again.
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
        return self._client.ask(
            "POST",
            str(parts.url),
            headers,
            secrets,
            body,
            count=lambda tries: self.ledger.charge(tries * len(instances)),
        )

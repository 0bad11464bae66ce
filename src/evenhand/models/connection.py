"""Asking over HTTP: one POST per batch, with credentials, time-outs and a few more tries."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from evenhand.errors import FetchError, ModelError
from evenhand.models.questions import first_line

TOKEN = "EVENHAND_HTTP_TOKEN"
"""The environment variable with a bearer token."""

AGAIN = (429, 500, 502, 503, 504)
"""Statuses after which it makes sense to ask again."""

EXPECTED = 'it must be {"predictions": [...]}, one label, score or list of scores per individual'


@dataclass(frozen=True, eq=False)
class Connection:
    """An endpoint that takes ``{"instances": [...]}`` and gives ``{"predictions": [...]}``.

    Attributes:
        url: where to ask, credentials included.
        name: how to call it in a message: the URL without credentials.
        timeout: seconds to wait for a connection, and again for an answer.
        retries: how often to ask again.
        backoff: seconds before the second retry; twice as long before each further one.
    """

    url: str = field(repr=False)
    name: str
    timeout: float = 30.0
    retries: int = 4
    backoff: float = 0.5

    def predictions(self, instances: list[dict[str, Any]]) -> list[Any]:
        """What the endpoint says about each instance, in their order.

        Raises:
            FetchError: the endpoint does not answer.
            ModelError: what it answers is no list of as many predictions.
        """
        return self._predictions(self._post(instances), len(instances))

    def close(self) -> None:
        """Let go of the open connections."""
        self._pool[0].clear()

    @cached_property
    def _pool(self) -> tuple[Any, str, dict[str, str]]:
        """A pool of connections, the URL without credentials, and the headers that carry them."""
        import urllib3

        parsed = urllib3.util.parse_url(self.url)
        token = os.environ.get(TOKEN, "").strip()
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if token:
            headers["Authorization"] = f"Bearer {token}"
        elif parsed.auth:
            headers |= urllib3.make_headers(basic_auth=parsed.auth)
        retries = urllib3.Retry(
            total=self.retries, redirect=0, status_forcelist=AGAIN, allowed_methods=("POST",),
            backoff_factor=self.backoff, raise_on_status=False, raise_on_redirect=False, retry_after_max=60,
        )  # fmt: skip
        pool = urllib3.PoolManager(retries=retries, timeout=urllib3.Timeout(connect=self.timeout, read=self.timeout))
        return pool, parsed._replace(auth=None).url, headers

    def _post(self, instances: list[dict[str, Any]]) -> bytes:
        import urllib3

        pool, url, headers = self._pool
        body = json.dumps({"instances": instances}, allow_nan=False).encode()
        try:
            response = pool.request("POST", url, body=body, headers=headers)
        except urllib3.exceptions.HTTPError as error:
            reason = getattr(error, "reason", None) or error
            raise FetchError(
                f"the endpoint does not answer: {_without_pool(reason)}",
                where=self.name,
                mend="check that the service runs, and host, port and path of the URL",
            ) from None
        if not 200 <= response.status < 300:
            raise _refused(response.status, bytes(response.data), self.name)
        return bytes(response.data)

    def _predictions(self, body: bytes, n: int) -> list[Any]:
        try:
            answer = json.loads(body)
        except (ValueError, RecursionError):
            raise ModelError(
                f"the endpoint's answer is no JSON: {beginning(body)}", where=self.name, mend=EXPECTED
            ) from None
        predictions = answer.get("predictions") if isinstance(answer, dict) else None
        if not isinstance(predictions, list):
            raise ModelError(
                f"the endpoint's answer has no list of predictions: {beginning(body)}", where=self.name, mend=EXPECTED
            )
        if len(predictions) != n:
            raise ModelError(
                f"asked about {n} individuals, the endpoint gave {len(predictions)} predictions", where=self.name
            )
        return predictions


def shown_url(url: str) -> str:
    """The URL without credentials, nor a query that may hold a key as well: where a model is, not how to get in.

    Raises:
        ModelError: it is no URL.
    """
    import urllib3

    try:
        parsed = urllib3.util.parse_url(url)
    except urllib3.exceptions.LocationParseError:
        parsed = None
    if parsed is None or not parsed.host:
        raise ModelError(f"this is no URL: {url.split('@')[-1]}", mend="for example http://localhost:8080/predict")
    return str(parsed._replace(auth=None, query=None, fragment=None).url)


def beginning(body: bytes, most: int = 120) -> str:
    """The beginning of an answer, on one line."""
    text = " ".join(body[: 4 * most].decode("utf-8", "replace").split())
    return repr(text[:most] + "..." if len(text) > most else text)


def _refused(status: int, body: bytes, name: str) -> FetchError:
    mends = {
        401: f"put the token into the environment variable {TOKEN}",
        403: f"put the token into the environment variable {TOKEN}",
        404: "check the path of the URL",
        405: "the URL must take POST: check its path",
        413: "the endpoint takes smaller requests only: raise its limit",
    }
    mend = mends.get(status, "see the endpoint's log")
    if 300 <= status < 400:
        mend = "it points elsewhere: give the final URL"
    return FetchError(f"the endpoint answered with status {status}: {beginning(body)}", where=name, mend=mend)


def _without_pool(reason: BaseException) -> str:
    # urllib3 writes "HTTPConnection(host='...', port=...): why"
    return first_line(reason).rpartition("): ")[2]

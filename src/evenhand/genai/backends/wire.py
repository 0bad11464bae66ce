"""The connection to a service that speaks like OpenAI's: questions as JSON over HTTP, and few things believed."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, urljoin, urlsplit

from evenhand.errors import EvenhandError, FetchError, ModelError, OptionError

if TYPE_CHECKING:
    import urllib3

AGAIN = (429, 500, 502, 503, 504)
"""Statuses after which it makes sense to ask again."""

LARGEST = 48 << 20
"""Bytes of an answer that are read; the largest pictures that services make are smaller, also as base64."""

LONGEST_PAUSE = 30.0
"""Seconds between two attempts, whatever the service asks for."""

_PORTS = {"http": 80, "https": 443}
_MEND = "check the URL: does the service speak like OpenAI's?"
_REASON = 200
"""Characters of a service's own words in a message."""


@dataclass(frozen=True)
class Wire:
    """A service that speaks like OpenAI's: OpenAI itself, Ollama, vLLM, LocalAI, LiteLLM and many more.

    Redirects are not followed, and nothing is fetched from any other place than the service's own host and port.

    Attributes:
        url: its base, such as ``http://127.0.0.1:11434/v1``.
        key: the name of the environment variable that holds the key, never the key; None if the service wants none.
        timeout: seconds to wait for a connection, and again for a whole answer.
        retries: how often to ask again when it is overloaded or out of reach; not when it takes too long.
        backoff: seconds before the first of these; twice as long before each further one.

    Raises:
        OptionError: the URL is none, or holds credentials; the key is no name; a number makes no sense.
    """

    url: str
    key: str | None = field(default=None, repr=False)
    timeout: float = 60.0
    retries: int = 2
    backoff: float = 0.5

    def __post_init__(self) -> None:
        parts = _split(self.url)
        if parts is None or parts.scheme not in _PORTS or not parts.hostname:
            raise OptionError(
                "the URL of a service begins with http:// or https:// and a host",
                where="url",
                mend="for example http://127.0.0.1:11434/v1",
            )
        if "@" in parts.netloc or parts.query or parts.fragment:
            raise OptionError(
                f"the URL of {parts.hostname} holds more than host, port and path",
                where="url",
                mend="put the key into an environment variable, and name that as key",
            )
        if self.key is not None and not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", self.key):
            raise OptionError(
                "key is not the name of an environment variable", where="key", mend="for example OPENAI_API_KEY"
            )
        if not 0 < self.timeout < float("inf"):
            raise OptionError(f"nobody can wait {self.timeout} seconds", where="timeout", mend="for example 60")
        if self.retries < 0:
            raise OptionError(f"asking {self.retries} times again is impossible", where="retries", mend="0 or more")

    def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """What the service answers at a path under its URL, such as ``/images/generations``.

        Raises:
            OptionError: the body holds something that JSON has not, or the environment variable holds no key.
            FetchError: the service does not answer, or refuses.
            ModelError: its answer is no JSON object, or too large.
        """
        try:
            asked = json.dumps(body, allow_nan=False).encode()
        except (TypeError, ValueError, RecursionError) as error:
            raise OptionError(f"what is asked of {self.url} cannot be written as JSON: {error}") from None
        said = self._ask("POST", self.url.rstrip("/") + path, asked)
        try:
            answer = json.loads(said)
        except (ValueError, RecursionError):
            raise ModelError(f"the answer is no JSON: {self._shown(said)}", where=self.url, mend=_MEND) from None
        if not isinstance(answer, dict):
            raise ModelError(f"the answer is no JSON object: {self._shown(said)}", where=self.url, mend=_MEND)
        if answer.get("error"):
            # Some services say so with status 200.
            raise FetchError(f"the service failed: {self._shown(said)}", where=self.url, mend="see the service's log")
        return answer

    def fetch(self, address: str) -> bytes:
        """What lies at an address that the service gave in an answer, if that is on the service's own host and port.

        Raises:
            FetchError: it lies elsewhere, or the service does not give it.
            ModelError: it is no address, or what lies there is too large.
        """
        own, found = urlsplit(self.url), _split(address, self.url)
        if found is None:
            raise ModelError("the answer has an address that is none", where=self.url)
        if _origin(found) != _origin(own) or "@" in found.netloc:
            raise FetchError(
                f"the answer points to another place, {found.scheme}://{found.hostname or ''}, and nothing is fetched"
                " from there",
                where=self.url,
                mend="ask for the picture itself: options: {response_format: b64_json}",
            )
        # Put together from the service's own URL, so that it does not matter how others take the address apart.
        return self._ask("GET", found._replace(scheme=own.scheme, netloc=own.netloc, fragment="").geturl())

    def close(self) -> None:
        """Let go of the open connections."""
        self._pool.clear()

    @cached_property
    def _pool(self) -> urllib3.PoolManager:
        import urllib3

        return urllib3.PoolManager(maxsize=32)

    def _secret(self) -> str | None:
        if self.key is None:
            return None
        secret = os.environ.get(self.key, "").strip()
        if not secret or not secret.isascii() or not secret.isprintable():
            # Somebody may have written the key itself, so only what looks like a name is repeated.
            name = f"{self.key} " if self.key.isupper() else ""
            what = "holds no key that can be sent" if secret else "is not set"
            raise OptionError(
                f"the environment variable {name}that is named as key {what}",
                where="key",
                mend="set it, or name another",
            )
        return secret

    def _ask(self, method: str, url: str, body: bytes | None = None) -> bytes:
        headers = {"Accept": "*/*", "Accept-Encoding": "identity", "User-Agent": "evenhand"}
        if body is not None:
            headers["Content-Type"] = "application/json"
        if secret := self._secret():
            headers["Authorization"] = f"Bearer {secret}"
        tried = 0
        while True:
            pause, failure = self._attempt(method, url, body, headers)
            if isinstance(failure, bytes):
                return failure
            if pause is None or tried == self.retries:
                raise failure
            sleep(min(max(pause, self.backoff * 2**tried), LONGEST_PAUSE))
            tried += 1

    def _attempt(
        self, method: str, url: str, body: bytes | None, headers: dict[str, str]
    ) -> tuple[float | None, bytes | EvenhandError]:
        """The answer; or an error, and after how many seconds it makes sense to try again, None if never."""
        import urllib3
        from urllib3.exceptions import (
            ConnectTimeoutError,
            HTTPError,
            NewConnectionError,
            ProtocolError,
            ReadTimeoutError,
        )

        deadline = monotonic() + self.timeout
        try:
            response = self._pool.request(
                method, url, body=body, headers=headers, retries=False, redirect=False, preload_content=False,
                decode_content=False, timeout=urllib3.Timeout(connect=self.timeout, read=self.timeout),
            )  # fmt: skip
            try:
                if 200 <= response.status < 300:
                    return None, self._read(response, deadline)
                refused = self._refused(response.status, response.read(1 << 16, decode_content=False))
                if response.status not in AGAIN:
                    return None, refused
                wanted = response.headers.get("Retry-After", "")
                return float(wanted[:6]) if wanted.isdecimal() else 0.0, refused
            finally:
                response.close()
        except ReadTimeoutError:
            return None, self._late()
        except HTTPError as error:
            again = isinstance(error, NewConnectionError | ProtocolError | ConnectTimeoutError)
            reason = str(error).rpartition("): ")[2] or type(error).__name__
            return 0.0 if again else None, FetchError(
                f"the service does not answer: {self._shown(reason)}",
                where=self.url,
                mend="check that it runs, and host and port of its URL",
            )

    def _read(self, response: urllib3.BaseHTTPResponse, deadline: float) -> bytes:
        """The body, unless it is too large, packed, or comes too slowly."""
        if response.headers.get("Content-Encoding", "identity").lower() != "identity":
            raise ModelError("the answer is compressed, which was not asked for", where=self.url)
        claimed = response.headers.get("Content-Length", "")
        body = bytearray()
        while max(len(body), int(claimed[:18]) if claimed.isdecimal() else 0) <= LARGEST:
            part = response.read1(1 << 16, decode_content=False)
            if not part:
                return bytes(body)
            body += part
            if monotonic() > deadline:
                raise self._late()
        raise ModelError(f"the answer is larger than {LARGEST >> 20} MiB", where=self.url, mend=_MEND)

    def _late(self) -> FetchError:
        return FetchError(
            f"no answer came within {self.timeout:g} seconds", where=self.url, mend="try later, or raise timeout"
        )

    def _refused(self, status: int, said: bytes) -> FetchError:
        credentials = (
            f"check the key in the environment variable{f' {self.key}' if self.key and self.key.isupper() else ''}"
            if self.key
            else "put the key into an environment variable, and name that as key"
        )
        mends = {
            400: "check the name of the model, and the options: some models do not take all",
            401: credentials,
            403: credentials,
            404: "check the URL, which often ends in /v1, and the name of the model",
            405: "check the URL, which often ends in /v1",
            413: "ask for less",
            429: "the service is busy, or your quota is used up: try later",
        }
        mend = mends.get(status, "see the service's log")
        if 300 <= status < 400:
            mend = "it points elsewhere: give the final URL"
        # Services answer wrong keys with parts of them.
        words = "" if status == 401 else f": {self._shown(said)}"
        return FetchError(f"the service refused with status {status}{words}", where=self.url, mend=mend)

    def _shown(self, said: bytes | str) -> str:
        """The service's words for a message, without the key: those of an error, or else the beginning."""
        text = said if isinstance(said, str) else _words(said)
        secret = os.environ.get(self.key, "").strip() if self.key else ""
        text = " ".join((text.replace(secret, "...") if secret else text).split())
        return repr(text[:_REASON] + "..." if len(text) > _REASON else text)


def check_options(options: Mapping[str, Any], own: Collection[str]) -> None:
    """Refuse options that whoever asks sets itself.

    Raises:
        OptionError: one of these is there.
    """
    for name in options:
        if name in own:
            raise OptionError(f"the option {name!r} is set by what asks", where="options", mend="leave it out")


def request(body: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """What is asked, with the options; those of None are left out."""
    return {**{name: value for name, value in options.items() if value is not None}, **body}


def _words(said: bytes) -> str:
    """What an error says, in any of the shapes that services give it."""
    text = said.decode("utf-8", "replace")
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return text
    for _ in range(2):
        if isinstance(found, dict):
            found = found.get("error") or found.get("message") or found.get("detail") or found
    return found if isinstance(found, str) else text


def _split(url: str, base: str = "") -> SplitResult | None:
    """The parts of a URL, or None if it is none."""
    try:
        parts = urlsplit(urljoin(base, url))
        _ = parts.port
    except ValueError:
        return None
    return parts


def _origin(parts: SplitResult) -> tuple[str, str | None, int | None]:
    return parts.scheme, parts.hostname, parts.port or _PORTS.get(parts.scheme)

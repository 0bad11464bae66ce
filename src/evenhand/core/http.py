"""HTTP client with pooled connections, retries, time and size limits, and error messages without secrets."""

from __future__ import annotations

import json
import math
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any, TypeAlias
from weakref import WeakKeyDictionary

from evenhand.core.coroutines import blocks, is_blocking
from evenhand.errors import EvenhandError, FetchError, MissingExtraError, ModelError

if TYPE_CHECKING:
    import asyncio

    import aiohttp
    import urllib3

RETRY_STATUSES = (408, 409, 425, 429)
"""Statuses below 500 after which a request is retried. Statuses of 500 and above are always retried."""

MAX_ANSWER_BYTES = 48 << 20
"""Maximum size of a response. Images from common services are smaller, even in base64."""

MAX_PAUSE_SECONDS = 30.0
"""Maximum number of seconds between two attempts, even if the server asks for more."""

MAX_CONNECTIONS = 64
"""Maximum number of open connections to one server."""

MAX_QUOTED = 200
"""Maximum number of characters of a response that are quoted in a message."""

_ERROR_CODE = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,59}")

_OWN_HEADERS = {"Accept": "*/*", "Accept-Encoding": "identity", "User-Agent": "evenhand"}


@dataclass(frozen=True, eq=False)
class HttpClient:
    """HTTP client for one server. Redirects are not followed, and compressed responses are an error.

    Attributes:
        name: Name of the server in messages, such as ``the service``.
        location: Address of the server in messages, without credentials.
        timeout: Timeout in seconds, applied separately to the connection and to the whole response.
        retries: Maximum number of retries if the server is overloaded or cannot be reached.
        backoff: Seconds before the first retry. The pause doubles with each retry.
        retries_when_late: Whether to retry after a timeout. Use it only if repeated requests cost nothing.
        hints: Hints for error messages, by status.
        hint: Hint for the error message about an invalid response.
    """

    name: str
    location: str
    timeout: float
    retries: int
    backoff: float
    retries_when_late: bool
    hints: Mapping[int, str]
    hint: str

    @blocks
    async def ask(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        secrets: Sequence[str],
        body: bytes | None = None,
        *,
        count: Callable[[int], None] = lambda tries: None,
    ) -> bytes:
        """Send a request and return the body of the response.

        Args:
            method: HTTP method.
            url: URL of the request.
            headers: Headers of the request.
            secrets: Strings that are removed from messages.
            body: Body of the request.
            count: Called with 1 before each attempt, and with -1 if the server was not reached. May raise an error.

        Raises:
            FetchError: The server does not answer, or responds with an error status.
            ModelError: The response is too large or compressed.
        """
        attempt = 0
        headers = {**_OWN_HEADERS, **headers}
        while True:
            count(1)
            answer = (
                self._attempt(method, url, headers, secrets, body)
                if is_blocking()
                else await self._attempt_async(method, url, headers, secrets, body)
            )
            if isinstance(answer, bytes):
                return answer
            if isinstance(answer, FetchError) and not answer.sent:
                count(-1)
            pause = answer.retry_after if isinstance(answer, FetchError) else None
            if pause is None or attempt == self.retries:
                raise answer
            seconds = min(max(pause, self.backoff * 2**attempt), MAX_PAUSE_SECONDS)
            if is_blocking():
                sleep(seconds)
            else:
                await sleep_async(seconds)
            attempt += 1

    def close(self) -> None:
        """Close the open connections."""
        self._pool.clear()

    @cached_property
    def _pool(self) -> urllib3.PoolManager:
        import urllib3

        return urllib3.PoolManager(maxsize=MAX_CONNECTIONS)

    def _attempt(
        self, method: str, url: str, headers: Mapping[str, str], secrets: Sequence[str], body: bytes | None
    ) -> bytes | EvenhandError:
        """Send a request once and return the response body or a retryable error."""
        import urllib3
        from urllib3 import exceptions

        deadline = monotonic() + self.timeout
        try:
            response = self._pool.request(
                method,
                url,
                body=body,
                headers=headers,
                retries=False,
                redirect=False,
                preload_content=False,
                decode_content=False,
                timeout=urllib3.Timeout(connect=self.timeout, read=self.timeout),
            )
            try:
                if not 200 <= response.status < 300:
                    start = response.read(1 << 16, decode_content=False)
                    return self._status_error(response.status, start, secrets, response.headers)
                self._check_encoding(response.headers)
                received = bytearray()
                while part := response.read1(1 << 16, decode_content=False):
                    received += part
                    self._check_size(received)
                    if monotonic() > deadline:
                        return self._timeout_error()
                return bytes(received)
            finally:
                response.close()
        except exceptions.ReadTimeoutError:
            return self._timeout_error()
        except exceptions.HTTPError as error:
            sent = not isinstance(error, exceptions.NewConnectionError | exceptions.ConnectTimeoutError)
            retry = not sent or isinstance(error, exceptions.ProtocolError)
            return self._connection_error(_error_reason(error), secrets, sent=sent, retry=retry)

    async def _attempt_async(
        self, method: str, url: str, headers: Mapping[str, str], secrets: Sequence[str], body: bytes | None
    ) -> bytes | EvenhandError:
        """Async variant of ``_attempt``."""
        session = _loop_session()
        import aiohttp
        import yarl

        deadline = monotonic() + self.timeout
        limits = aiohttp.ClientTimeout(total=None, sock_connect=self.timeout, sock_read=self.timeout)
        try:
            quoted = yarl.URL(url, encoded=True)
            async with session.request(
                method, quoted, data=body, headers=headers, allow_redirects=False, timeout=limits
            ) as response:
                if not 200 <= response.status < 300:
                    start = await response.content.read(1 << 16)
                    return self._status_error(response.status, start, secrets, response.headers)
                self._check_encoding(response.headers)
                received = bytearray()
                async for part in response.content.iter_any():
                    received += part
                    self._check_size(received)
                    if monotonic() > deadline:
                        return self._timeout_error()
                return bytes(received)
        except aiohttp.SocketTimeoutError as error:
            if isinstance(error, aiohttp.ConnectionTimeoutError):
                return self._connection_error("the connection timed out", secrets, sent=False)
            return self._timeout_error()
        except aiohttp.ClientConnectorError as error:
            reason = error.os_error.strerror or str(error.os_error)
            return self._connection_error(reason, secrets, sent=False)
        except (aiohttp.ClientError, OSError) as error:
            return self._connection_error(_error_reason(error), secrets)

    def _check_encoding(self, headers: Mapping[str, str]) -> None:
        """Raise a ModelError if the response is compressed."""
        if headers.get("Content-Encoding", "identity").lower() != "identity":
            raise ModelError("the response is compressed, but the request did not allow it", location=self.location)

    def _check_size(self, received: bytearray) -> None:
        """Raise a ModelError if the response is too large."""
        if len(received) > MAX_ANSWER_BYTES:
            message = f"the response is larger than {MAX_ANSWER_BYTES >> 20} MiB"
            raise ModelError(message, location=self.location, hint=self.hint)

    def _connection_error(
        self, reason: str, secrets: Sequence[str], *, sent: bool = True, retry: bool = True
    ) -> FetchError:
        error = FetchError(
            f"{self.name} does not answer: {quote_answer(reason, secrets)}",
            location=self.location,
            hint="check that it is running, and the host, port and path of its URL",
        )
        error.sent = sent
        error.retry_after = 0.0 if retry else None
        return error

    def _timeout_error(self) -> FetchError:
        error = FetchError(
            f"no response arrived within {self.timeout:g} seconds",
            location=self.location,
            hint="try again later, or raise `timeout`",
        )
        error.timed_out = True
        error.retry_after = 0.0 if self.retries_when_late else None
        return error

    def _status_error(self, status: int, body: bytes, secrets: Sequence[str], headers: Mapping[str, str]) -> FetchError:
        hint = self.hints.get(status, f"see the log of {self.name}")
        if 300 <= status < 400:
            hint = "it redirects to another URL: pass the final URL"
        message, code = _read_error(body)
        # The response to an invalid key may contain parts of it.
        hidden = status == 401
        quoted = "" if hidden else f": {quote_answer(body if message is None else message, secrets)}"
        error = FetchError(
            f"{self.name} refused the request with status {status}{quoted}", location=self.location, hint=hint
        )
        error.status, error.body, error.code = status, body, code
        error.reason = "" if hidden or message is None else quote_answer(message, secrets)[1:-1]
        if status in RETRY_STATUSES or status >= 500:
            error.retry_after = _parse_retry_after(headers)
        return error


def _parse_retry_after(headers: Mapping[str, str]) -> float:
    """Parse the pause requested by a server in seconds. 0 if there is no valid header."""
    import urllib3

    text = headers.get("Retry-After", "0")
    try:
        # Some services send decimals, which urllib3 rejects.
        decimal = re.fullmatch(r"\d{1,9}(\.\d+)?", text)
        return float(text) if decimal else urllib3.Retry().parse_retry_after(text)
    except (urllib3.exceptions.InvalidHeader, ValueError, OverflowError):
        return 0.0


async def sleep_async(seconds: float) -> None:
    """Wait in an event loop."""
    import asyncio  # only where an event loop runs

    await asyncio.sleep(seconds)


# Connections of an event loop, shared by all clients in the loop.

_sessions: WeakKeyDictionary[asyncio.AbstractEventLoop, aiohttp.ClientSession] = WeakKeyDictionary()


def _loop_session() -> aiohttp.ClientSession:
    """Return the session of the running event loop."""
    import asyncio  # only where an event loop runs

    try:
        import aiohttp
    except ImportError:
        raise MissingExtraError("aiohttp", extra="serve", purpose="for requests in an event loop") from None
    loop = asyncio.get_running_loop()
    session = _sessions.get(loop)
    if session is None or session.closed:
        # Without a limit, no request waits for the connection of another. Callers share the session, so it has no
        # cookies.
        session = _sessions[loop] = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0), auto_decompress=False, cookie_jar=aiohttp.DummyCookieJar()
        )
    return session


async def close_loop_connections() -> None:
    """Close the open connections of the running event loop."""
    import asyncio  # only where an event loop runs

    session = _sessions.pop(asyncio.get_running_loop(), None)
    if session is not None:
        await session.close()


_UNUSUAL_JSON = re.compile(r"\\u[dD][89A-Fa-f]|NaN|Infinity|[eE]\+?\d{3}")
"""Text in JSON that may be a surrogate or a number that is not finite."""


def parse_json_response(body: bytes) -> Any:
    """Parse the JSON of a response, and repair common violations of JSON and UTF-8.

    Incomplete characters, such as half an emoji, become U+FFFD. NaN becomes None, and an infinity the largest float.

    Raises:
        ValueError, RecursionError: The body is not JSON, or it is nested too deeply.
    """
    text = body.decode("utf-8-sig", "replace")
    if not _UNUSUAL_JSON.search(text):
        return json.loads(text)
    value = json.loads(text, parse_float=_finite_number, parse_constant=_finite_number)
    repaired = json.dumps(value, ensure_ascii=False).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return json.loads(repaired)


def _finite_number(text: str) -> float | None:
    number = float(text)
    return None if math.isnan(number) else max(-sys.float_info.max, min(sys.float_info.max, number))


def quote_answer(response: bytes | str, secrets: Sequence[str] = ()) -> str:
    """Quote a response in a message, without secrets: its error message, or else its first characters."""
    text = response if isinstance(response, str) else _read_error(response)[0] or response.decode("utf-8", "replace")
    for secret in filter(None, secrets):
        text = text.replace(secret, HIDDEN_TEXT)
    text = " ".join(SecretRedactor()(text).split())
    return repr(text[:MAX_QUOTED] + "..." if len(text) > MAX_QUOTED else text)


def _read_error(body: bytes) -> tuple[str | None, str]:
    """Read the message and the code of an error in JSON, in all common formats."""
    try:
        error = json.loads(body)
    except (ValueError, RecursionError):
        return None, ""
    code = ""
    for _ in range(2):
        if isinstance(error, dict):
            codes = (error.get("code"), error.get("type"))
            code = next((text for text in codes if isinstance(text, str) and _ERROR_CODE.fullmatch(text)), code)
            error = error.get("error") or error.get("message") or error.get("detail") or error
    return (error if isinstance(error, str) else None), code


def _error_reason(error: BaseException) -> str:
    """Return the message of the innermost cause, without the prefix of urllib3, which may contain the URL."""
    cause: object = error
    while isinstance(inner := getattr(cause, "reason", None), Exception):
        cause = inner
    return re.sub(r"^.*?\bHTTPS?Connection\b[^:]*: |^.*\): ", "", str(cause)) or type(cause).__name__


# Secrets in messages

HIDDEN_TEXT = "***"

MIN_SECRET_LENGTH = 6
"""Minimum length of a secret from the environment. Shorter values also occur in ordinary words."""

_NAMES = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL", re.IGNORECASE)
"""Parts of names of environment variables that contain secrets."""

_SHAPES = tuple(
    re.compile(shape)
    for shape in (
        r"(evenhand_)[A-Za-z0-9_-]{20,}",
        r"(\b(?:sk-|gh[opsu]_|github_pat_|glpat-|hf_|gsk_|r8_|xox[abprs]-|AKIA|AIza))[A-Za-z0-9_-]{12,}",
        r"(\beyJ)[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_.-]+",
        r"(?i)(\bbearer )\s*[^\s\"',;]+",
        r"(?i)(\bauthorization[\\\"']*\s*[:=]\s*[\\\"']*(?:[a-z]+\s+)?)[^\s\"',;\\]+",
        r"(://)[^\s/@\"']+(?=@)",
        r"(?i)([?&][^=&\s]*(?:key|token|secret|sig|signature|password|auth|code)=)[^\s&\"']+",
        r"(?i)((?:api|access|private|secret|subscription|auth)[ _-]?key[\\\"']*\s*[:=]\s*[\\\"']*)[^\s&\"',;\\]+",
        r"(?i)((?:token|secret|password|passwd|credentials?|signature)[\\\"']*\s*[:=]\s*[\\\"']*)[^\s&\"',;\\]+",
    )
)
"""Patterns of keys and passwords in headers, URLs and settings. The first group is not redacted."""


_SECRET_ENTRIES = re.compile(r"(?i)(?:api|access|private|secret)[_-]?key|token$|secret|passw|authorization|credential")
"""Parts of names of JSON entries that contain secrets."""


class SecretRedactor:
    """Redact secrets in text: values of environment variables, and text that looks like a key or password.

    Args:
        environment: Environment variables. Default: those of the process.
    """

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        variables = os.environ if environment is None else environment
        secrets = {value.strip() for name, value in variables.items() if _NAMES.search(name)}
        values = sorted((secret for secret in secrets if len(secret) >= MIN_SECRET_LENGTH), key=len, reverse=True)
        self._values = re.compile("|".join(map(re.escape, values))) if values else None

    def __call__(self, text: str) -> str:
        """Redact secrets in a text."""
        if self._values is not None:
            text = self._values.sub(HIDDEN_TEXT, text)
        for shape in _SHAPES:
            text = shape.sub(rf"\1{HIDDEN_TEXT}", text)
        return text

    def redact_json(self, value: Any) -> Any:
        """Redact secrets in a JSON value, including the strings of entries such as ``api_key``."""
        if isinstance(value, str):
            return self(value)
        if isinstance(value, list):
            return [self.redact_json(element) for element in value]
        if not isinstance(value, dict):
            return value
        return {
            name: HIDDEN_TEXT if isinstance(entry, str) and _SECRET_ENTRIES.search(name) else self.redact_json(entry)
            for name, entry in value.items()
        }


def redact_url(url: str) -> str:
    """Remove credentials, query and fragment from a URL. A query may contain a key.

    Raises:
        ModelError: The text is not a URL.
    """
    parts = split_url(url)[0]
    return str(parts._replace(query=None, fragment=None).url)


def split_url(url: str) -> tuple[urllib3.util.Url, str | None]:
    """Split a URL into the URL without credentials, and the credentials in the form ``user:password``.

    Raises:
        ModelError: The text is not a URL.
    """
    import urllib3

    try:
        parsed = urllib3.util.parse_url(url)
    except urllib3.exceptions.LocationParseError:
        parsed = None
    if parsed is None or not parsed.host:
        raise ModelError(f"not a URL: {url.split('@')[-1]}", hint="pass a URL such as http://localhost:8080/predict")
    return parsed._replace(auth=None), parsed.auth


# Public files

DownloadProgress: TypeAlias = Callable[[int, int | None], None]
"""Function that receives the number of bytes received and the total number of bytes. None if the total is unknown."""

CONNECT_SECONDS = 10.0
READ_SECONDS = 60.0
CHUNK_BYTES = 1 << 16


def download(url: str, write: Callable[[bytes], object], progress: DownloadProgress | None = None) -> None:
    """Download a public file and pass its chunks to ``write``. Redirects are followed, and system proxies are used.

    Raises:
        FetchError: The connection fails, or the response is incomplete or has a status other than 200.
    """
    from urllib.parse import urlsplit
    from urllib.request import getproxies, proxy_bypass

    import urllib3

    parts = urlsplit(url)
    proxy = None if proxy_bypass(parts.hostname or "") else getproxies().get(parts.scheme)
    with urllib3.ProxyManager(proxy) if proxy else urllib3.PoolManager() as pool:
        try:
            answer = pool.request(
                "GET",
                url,
                preload_content=False,
                timeout=urllib3.Timeout(connect=CONNECT_SECONDS, read=READ_SECONDS),
                retries=urllib3.Retry(total=6, connect=1, read=1, redirect=5, backoff_factor=0.2),
                headers=_OWN_HEADERS,
            )
            try:
                if answer.status != 200:
                    raise FetchError(f"the publisher responds with {answer.status} {answer.reason or ''}".strip())
                length = answer.headers.get("Content-Length")
                expected = int(length) if length and length.isdigit() else None
                received = 0
                for chunk in answer.stream(CHUNK_BYTES):
                    write(chunk)
                    received += len(chunk)
                    if progress is not None:
                        progress(received, expected)
            finally:
                answer.close()
        except urllib3.exceptions.HTTPError as error:
            raise FetchError(_error_reason(error)) from None

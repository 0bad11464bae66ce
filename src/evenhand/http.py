"""One HTTP client: pooled connections, a few more tries, limits on time and size, and messages without secrets."""

from __future__ import annotations

import asyncio
import json
import os
import re
from asyncio import sleep as sleep_async
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any, TypeAlias
from weakref import WeakKeyDictionary

from evenhand.coroutines import is_blocking, run_blocking
from evenhand.errors import EvenhandError, FetchError, MissingExtraError, ModelError

if TYPE_CHECKING:
    import aiohttp
    import urllib3

RETRY_STATUSES = (429, 500, 502, 503, 504)
"""Statuses after which it makes sense to ask again."""

MAX_ANSWER_BYTES = 48 << 20
"""Bytes of an answer that are read; the largest pictures that services make are smaller, also as base64."""

MAX_PAUSE_SECONDS = 30.0
"""Seconds between two attempts, whatever the other side asks for."""

MAX_CONNECTIONS = 64
"""Connections to one server that are kept open."""

MAX_QUOTED = 200
"""Characters of the other side's own words in a message."""

_OWN_HEADERS = {"Accept": "*/*", "Accept-Encoding": "identity", "User-Agent": "evenhand"}


@dataclass(frozen=True, eq=False)
class HttpClient:
    """Somebody who is asked over HTTP. Redirects are not followed, and compressed answers are refused.

    Attributes:
        name: how to call the other side in a message, such as ``the service``.
        location: its address for messages, without credentials.
        timeout: seconds to wait for a connection, and again for a whole answer.
        retries: how often to ask again when it is overloaded or out of reach.
        backoff: seconds before the first of these; twice as long before each further one.
        retries_when_late: whether to ask again too when no answer came in time: where asking twice costs nothing.
        hints: how to go on, by status.
        hint: how to go on after an answer that makes no sense.
    """

    name: str
    location: str
    timeout: float
    retries: int
    backoff: float
    retries_when_late: bool
    hints: Mapping[int, str]
    hint: str

    def ask(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        secrets: Sequence[str],
        body: bytes | None = None,
        *,
        count: Callable[[int], None] = lambda tries: None,
    ) -> bytes:
        """Return the answer.

        Args:
            method, url, body: what to ask.
            headers: besides those that every request has.
            secrets: what no message repeats.
            count: called with 1 before each try, and with -1 after one that did not reach the server; may raise.

        Raises:
            FetchError: it does not answer, or refuses.
            ModelError: its answer is too large, or compressed.
        """
        return run_blocking(self.ask_async(method, url, headers, secrets, body, count=count))

    async def ask_async(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        secrets: Sequence[str],
        body: bytes | None = None,
        *,
        count: Callable[[int], None] = lambda tries: None,
    ) -> bytes:
        """Return the answer, as ``ask`` does, without holding up the event loop that waits for it.

        Raises:
            EvenhandError: as for ``ask``.
            MissingExtraError: the part that asks without blocking is not installed.
        """
        tried = 0
        given = {**_OWN_HEADERS, **headers}
        while True:
            count(1)
            answer, sent = (
                self._attempt(method, url, given, secrets, body)
                if is_blocking()
                else await self._attempt_async(method, url, given, secrets, body)
            )
            if not sent:
                count(-1)
            if isinstance(answer, bytes):
                return answer
            pause = answer.retry_after if isinstance(answer, FetchError) else None
            if pause is None or tried == self.retries:
                raise answer
            seconds = min(max(pause, self.backoff * 2**tried), MAX_PAUSE_SECONDS)
            if is_blocking():
                sleep(seconds)
            else:
                await sleep_async(seconds)
            tried += 1

    def close(self) -> None:
        """Close the open connections."""
        self._pool.clear()

    @cached_property
    def _pool(self) -> urllib3.PoolManager:
        import urllib3

        return urllib3.PoolManager(maxsize=MAX_CONNECTIONS)

    def _attempt(
        self, method: str, url: str, headers: Mapping[str, str], secrets: Sequence[str], body: bytes | None
    ) -> tuple[bytes | EvenhandError, bool]:
        """Return the answer or an error, and whether the request was sent."""
        import urllib3
        from urllib3 import exceptions

        deadline = monotonic() + self.timeout
        try:
            response = self._pool.request(
                method, url, body=body, headers=headers, retries=False, redirect=False, preload_content=False,
                decode_content=False, timeout=urllib3.Timeout(connect=self.timeout, read=self.timeout),
            )  # fmt: skip
            try:
                if not 200 <= response.status < 300:
                    said = response.read(1 << 16, decode_content=False)
                    return self._refusal(response.status, said, secrets, response.headers), True
                self._check_encoding(response.headers)
                received = bytearray()
                while part := response.read1(1 << 16, decode_content=False):
                    received += part
                    self._check_size(received, response.headers)
                    if monotonic() > deadline:
                        return self._late(), True
                self._check_size(received, response.headers)
                return bytes(received), True
            finally:
                response.close()
        except exceptions.ReadTimeoutError:
            return self._late(), True
        except exceptions.HTTPError as error:
            unreached = isinstance(error, exceptions.NewConnectionError | exceptions.ConnectTimeoutError)
            broken = isinstance(error, exceptions.ProtocolError)
            return self._silent(_error_reason(error), secrets, unreached=unreached, broken=broken), not unreached

    async def _attempt_async(
        self, method: str, url: str, headers: Mapping[str, str], secrets: Sequence[str], body: bytes | None
    ) -> tuple[bytes | EvenhandError, bool]:
        """Do the same without blocking."""
        session = _loop_session()
        import aiohttp

        deadline = monotonic() + self.timeout
        limits = aiohttp.ClientTimeout(total=None, sock_connect=self.timeout, sock_read=self.timeout)
        try:
            # Its own parts of the URL are kept as they are: they are quoted already.
            async with session.request(
                method, _as_written(url), data=body, headers=headers, allow_redirects=False, timeout=limits
            ) as response:
                if not 200 <= response.status < 300:
                    said = await response.content.read(1 << 16)
                    return self._refusal(response.status, said, secrets, response.headers), True
                self._check_encoding(response.headers)
                self._check_size(b"", response.headers)
                received = bytearray()
                async for part in _pieces(response):
                    received += part
                    self._check_size(received, response.headers)
                    if monotonic() > deadline:
                        return self._late(), True
                return bytes(received), True
        except aiohttp.SocketTimeoutError as error:
            if isinstance(error, aiohttp.ConnectionTimeoutError):
                return self._silent("the connection timed out", secrets, unreached=True), False
            return self._late(), True
        except aiohttp.ClientConnectorError as error:
            return self._silent(error.os_error.strerror or str(error.os_error), secrets, unreached=True), False
        except (aiohttp.ClientError, OSError) as error:
            said_of_it = _error_reason(error) or type(error).__name__
            return self._silent(said_of_it, secrets, broken=True), True

    def _check_encoding(self, headers: Mapping[str, str]) -> None:
        """Raise a ModelError if an answer is compressed."""
        if headers.get("Content-Encoding", "identity").lower() != "identity":
            raise ModelError("the answer is compressed, which was not asked for", location=self.location)

    def _check_size(self, received: bytes | bytearray, headers: Mapping[str, str]) -> None:
        """Raise a ModelError if an answer is, or says that it is, too large."""
        claimed = headers.get("Content-Length", "")
        if max(len(received), int(claimed[:18]) if claimed.isdecimal() else 0) > MAX_ANSWER_BYTES:
            message = f"the answer is larger than {MAX_ANSWER_BYTES >> 20} MiB"
            raise ModelError(message, location=self.location, hint=self.hint)

    def _silent(
        self, reason: str, secrets: Sequence[str], *, unreached: bool = False, broken: bool = False
    ) -> FetchError:
        silent = FetchError(
            f"{self.name} does not answer: {quote_answer(reason, secrets)}",
            location=self.location,
            hint="check that it runs, and host, port and path of its URL",
        )
        silent.sent = not unreached
        silent.retry_after = 0.0 if unreached or broken else None
        return silent

    def _late(self) -> FetchError:
        late = FetchError(
            f"no answer came within {self.timeout:g} seconds",
            location=self.location,
            hint="try later, or raise timeout",
        )
        late.retry_after = 0.0 if self.retries_when_late else None
        return late

    def _refusal(self, status: int, said: bytes, secrets: Sequence[str], headers: Mapping[str, str]) -> FetchError:
        hint = self.hints.get(status, f"see the log of {self.name}")
        if 300 <= status < 400:
            hint = "it points elsewhere: give the final URL"
        # A service that refuses a key may quote parts of it in its answer.
        words = "" if status == 401 else f": {quote_answer(said, secrets)}"
        error = FetchError(f"{self.name} refused with status {status}{words}", location=self.location, hint=hint)
        error.status, error.body = status, said
        if status in RETRY_STATUSES:
            wanted = headers.get("Retry-After", "")
            error.retry_after = float(wanted[:6]) if wanted.isdecimal() else 0.0
        return error


# Connections of an event loop, shared by all that ask in it.

_sessions: WeakKeyDictionary[asyncio.AbstractEventLoop, aiohttp.ClientSession] = WeakKeyDictionary()


def _loop_session() -> aiohttp.ClientSession:
    """Return the open connections of the running event loop.

    Raises:
        MissingExtraError: the part that asks without blocking is not installed.
    """
    try:
        import aiohttp
    except ImportError:
        raise MissingExtraError("aiohttp", extra="serve", purpose="to ask without blocking") from None
    loop = asyncio.get_running_loop()
    session = _sessions.get(loop)
    if session is None or session.closed:
        # However many ask at once, none waits for another one's connection; no caller gets another one's cookies.
        session = _sessions[loop] = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0), auto_decompress=False, cookie_jar=aiohttp.DummyCookieJar()
        )
    return session


async def close_loop_connections() -> None:
    """Close the open connections of the running event loop."""
    session = _sessions.pop(asyncio.get_running_loop(), None)
    if session is not None:
        await session.close()


def _as_written(url: str) -> Any:
    import yarl

    return yarl.URL(url, encoded=True)


async def _pieces(response: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
    """Yield the body of an answer as it comes."""
    while part := await response.content.readany():
        yield part


def quote_answer(said: bytes | str, secrets: Sequence[str] = ()) -> str:
    """Return somebody's words for a message, without secrets: those of an error, or else the beginning."""
    text = said if isinstance(said, str) else _error_text(said)
    for secret in filter(None, secrets):
        text = text.replace(secret, HIDDEN_TEXT)
    text = " ".join(SecretRedactor()(text).split())
    return repr(text[:MAX_QUOTED] + "..." if len(text) > MAX_QUOTED else text)


def _error_text(said: bytes) -> str:
    """Return what an error says, in any of the shapes that services give it."""
    text = said.decode("utf-8", "replace")
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return text
    for _ in range(2):
        if isinstance(found, dict):
            found = found.get("error") or found.get("message") or found.get("detail") or found
    return found if isinstance(found, str) else text


def _error_reason(error: BaseException) -> str:
    """Return the innermost cause, in the words after urllib3's naming of the connection: they may hold the URL."""
    cause: object = error
    while isinstance(inner := getattr(cause, "reason", None), Exception):
        cause = inner
    return re.sub(r"^.*?\bHTTPS?Connection\b[^:]*: |^.*\): ", "", str(cause)) or type(cause).__name__


# Secrets in the words of others.

HIDDEN_TEXT = "***"

MIN_SECRET_LENGTH = 6
"""A secret with fewer characters is found in too many words to be taken out of them."""

_NAMES = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL", re.IGNORECASE)
"""Environment variables whose names say that they hold a secret."""

_SHAPES = tuple(re.compile(shape) for shape in (
    r"(evenhand_)[A-Za-z0-9_-]{20,}",
    r"(\b(?:sk-|gh[opsu]_|github_pat_|glpat-|hf_|gsk_|r8_|xox[abprs]-|AKIA|AIza))[A-Za-z0-9_-]{12,}",
    r"(\beyJ)[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_.-]+",
    r"(?i)(\bbearer )\s*[^\s\"',;]+",
    r"(?i)(\bauthorization[\\\"']*\s*[:=]\s*[\\\"']*(?:[a-z]+\s+)?)[^\s\"',;\\]+",
    r"(://)[^\s/@\"']+(?=@)",
    r"(?i)([?&][^=&\s]*(?:key|token|secret|sig|signature|password|auth|code)=)[^\s&\"']+",
    r"(?i)((?:api|access|private|secret|subscription|auth)[ _-]?key[\\\"']*\s*[:=]\s*[\\\"']*)[^\s&\"',;\\]+",
    r"(?i)((?:token|secret|password|passwd|credentials?|signature)[\\\"']*\s*[:=]\s*[\\\"']*)[^\s&\"',;\\]+",
))  # fmt: skip
"""What keys and passwords look like, behind what is kept: ours and others', in headers, addresses and settings."""


_SECRET_ENTRIES = re.compile(r"(?i)(?:api|access|private|secret)[_-]?key|token$|secret|passw|authorization|credential")
"""Entries of JSON whose names say that they hold a secret."""


class SecretRedactor:
    """Takes out of texts what looks like a secret, and the secrets that are known.

    Args:
        environment: whose secrets are known; that of the process by default.
    """

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        held = os.environ if environment is None else environment
        secrets = {value.strip() for name, value in held.items() if _NAMES.search(name)}
        known = sorted((one for one in secrets if len(one) >= MIN_SECRET_LENGTH), key=len, reverse=True)
        self._known = re.compile("|".join(map(re.escape, known))) if known else None

    def __call__(self, text: str) -> str:
        """Return the text without them."""
        if self._known is not None:
            text = self._known.sub(HIDDEN_TEXT, text)
        for shape in _SHAPES:
            text = shape.sub(rf"\1{HIDDEN_TEXT}", text)
        return text

    def redact_json(self, value: Any) -> Any:
        """Return a value of JSON without them, and without the texts whose names say that they are secret."""
        if isinstance(value, str):
            return self(value)
        if isinstance(value, list):
            return [self.redact_json(one) for one in value]
        if not isinstance(value, dict):
            return value
        secret = {name for name, one in value.items() if isinstance(one, str) and _SECRET_ENTRIES.search(name)}
        return {name: HIDDEN_TEXT if name in secret else self.redact_json(one) for name, one in value.items()}


def redact_url(url: str) -> str:
    """Return a URL without credentials, nor a query that may hold a key as well: where it is, not how to get in.

    Raises:
        ModelError: it is not a URL.
    """
    parts = split_url(url)[0]
    return str(parts._replace(query=None, fragment=None).url)


def split_url(url: str) -> tuple[urllib3.util.Url, str | None]:
    """Return a URL without credentials, and the credentials, ``user:password``.

    Raises:
        ModelError: it is not a URL.
    """
    import urllib3

    try:
        parsed = urllib3.util.parse_url(url)
    except urllib3.exceptions.LocationParseError:
        parsed = None
    if parsed is None or not parsed.host:
        raise ModelError(f"this is not a URL: {url.split('@')[-1]}", hint="for example http://localhost:8080/predict")
    return parsed._replace(auth=None), parsed.auth


# ---- files that anybody may have

DownloadProgress: TypeAlias = Callable[[int, int | None], None]
"""Called with the bytes received so far and the bytes expected (None where the publisher does not say)."""

CONNECT_SECONDS = 10.0
READ_SECONDS = 60.0
CHUNK_BYTES = 1 << 16


def download(url: str, write: Callable[[bytes], object], progress: DownloadProgress | None = None) -> None:
    """Hand on what lies at a public address, piece by piece; redirects are followed, proxies of the system used.

    Raises:
        FetchError: no connection, or an answer that is incomplete or other than 200.
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
                    raise FetchError(f"the publisher answers {answer.status} {answer.reason or ''}".strip())
                length = answer.headers.get("Content-Length")
                expected = int(length) if length and length.isdigit() else None
                received = 0
                for piece in answer.stream(CHUNK_BYTES):
                    write(piece)
                    received += len(piece)
                    if progress is not None:
                        progress(received, expected)
            finally:
                answer.close()
        except urllib3.exceptions.HTTPError as error:
            raise FetchError(_error_reason(error)) from None

"""Limits on the rate, concurrency, size and duration of requests."""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter, OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from evenhand.errors import AccessError
from evenhand.service.api import error_handlers
from evenhand.service.auth.keys import Caller

if TYPE_CHECKING:
    from evenhand.service import settings


PROBES = ("/healthz", "/readyz")
"""Paths of health checks, which are exempt from limits."""

MAX_STREAMS = 16
"""Maximum number of open event streams of one caller."""

MAX_HELD_BYTES = 256 << 20
"""Maximum size of all request bodies in memory."""

UNKNOWN_BYTES = 10_000
"""Maximum size of a request without a key."""

MAX_BUCKETS = 10_000
"""Maximum number of callers with a token bucket."""


class TokenBuckets:
    """Token bucket for each caller.

    Args:
        per_second: requests.
        steady: seconds of a monotonic clock.
        at_once: requests; as many as in a second unless it is given.
    """

    def __init__(
        self, per_second: float, steady: Callable[[], float] = time.monotonic, *, at_once: float | None = None
    ) -> None:
        self._per_second, self._most = per_second, at_once or max(1.0, per_second)
        self._steady = steady
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def seconds_until_allowed(self, caller: str) -> float:
        """Return the seconds until the caller may send a request. For 0, the request is counted."""
        now = self._steady()
        left, at = self._buckets.pop(caller, (self._most, now))
        left = min(self._most, left + (now - at) * self._per_second)
        wait = 0.0 if left >= 1 else (1 - left) / self._per_second
        self._buckets[caller] = (left if wait else left - 1, now)
        if len(self._buckets) > MAX_BUCKETS:
            self._buckets.popitem(last=False)
        return wait


FAILURES_PER_SECOND = 1.0
FAILURES_AT_ONCE = 60
"""Burst of requests without a valid key from one address. Further requests are refused with status 429."""


class FailureThrottle:
    """Throttle of requests without a valid key, by address. Requests with a valid key are never throttled.

    Args:
        steady: seconds of a monotonic clock.
    """

    def __init__(self, steady: Callable[[], float] = time.monotonic) -> None:
        self._buckets = TokenBuckets(FAILURES_PER_SECOND, steady, at_once=FAILURES_AT_ONCE)

    def refusal(self, error: AccessError, address: str) -> AccessError:
        """Return the error of a request, or a rate error if too many requests came from its address."""
        wait = self._buckets.seconds_until_allowed(address)
        if not wait:
            return error
        return AccessError(
            "too many requests without a valid key came from this address",
            code="rate",
            hint=f"send a valid key, or ask again in {wait:.1f} seconds",
        )


def address_of(scope: Scope) -> str:
    """Return the IP address of a client."""
    client: tuple[str, int] | None = scope.get("client")
    return "" if client is None else client[0]


class LimitsMiddleware:
    """Middleware that enforces the limits of each caller.

    It stands behind the gate, which says who asks. Requests are read whole before anything is done with them, so a slow
    one holds up nothing but itself. Streams of events have no end, and count for themselves.

    Args:
        app: behind it.
        limits: see the service's file.
        steady: seconds of a monotonic clock.
    """

    def __init__(
        self, app: ASGIApp, limits: settings.LimitsConfig, steady: Callable[[], float] = time.monotonic
    ) -> None:
        self._app, self._limits = app, limits
        self._rate = None if limits.requests_per_second is None else TokenBuckets(limits.requests_per_second, steady)
        self._in_flight: Counter[str] = Counter()
        self._streams: Counter[str] = Counter()
        self._held = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one ASGI connection."""
        if scope["type"] != "http" or scope["path"] in PROBES:
            await self._app(scope, receive, send)
            return
        caller: Caller | None = scope.get("evenhand.caller")
        # Callers without a key are told apart by address; it decides only how long they wait.
        name = caller.key if caller is not None and caller.key else f"@{address_of(scope)}"
        wait = 0.0 if self._rate is None else self._rate.seconds_until_allowed(name)
        if wait:
            refused = AccessError(
                f"there is a limit of {self._limits.requests_per_second:g} requests per second",
                code="rate",
                hint=f"ask again in {wait:.1f} seconds",
            )
            await refusal_response(refused, wait)(scope, receive, send)
            return
        if self._in_flight[name] >= self._limits.in_flight:
            refused = AccessError(
                f"{self._limits.in_flight} requests are under way already", code="busy", hint="wait for their answers"
            )
            await refusal_response(refused)(scope, receive, send)
            return
        self._in_flight[name] += 1
        exchange = _Exchange(self, name, send)
        try:
            await self._run_exchange(exchange, caller, scope, receive)
        finally:
            exchange.end()

    async def _run_exchange(self, exchange: _Exchange, caller: Caller | None, scope: Scope, receive: Receive) -> None:
        limits = self._limits
        try:
            async with asyncio.timeout(limits.request_seconds) as exchange.until:
                body = await self._read_body(exchange, limits.body_bytes if caller else UNKNOWN_BYTES, scope, receive)
                await self._app(scope, _replay_body(body, receive), exchange.send)
        except AccessError as refused:
            if exchange.begun:
                raise
            await refusal_response(refused)(scope, receive, exchange.forward)
        except TimeoutError:
            # Only half an answer is there, or none: the caller must not take it for a whole one.
            if exchange.begun or exchange.until is None or not exchange.until.expired():
                raise
            late = AccessError(
                f"there was no answer within {limits.request_seconds:g} seconds; it may have been carried out",
                code="late",
                hint="ask again, with the same id where there is one",
            )
            await refusal_response(late)(scope, receive, exchange.forward)

    async def _read_body(self, exchange: _Exchange, most: int, scope: Scope, receive: Receive) -> bytes:
        """Read the body of a request.

        Raises:
            AccessError: The body is too large or too slow.
        """
        claimed = Headers(scope=scope).get("content-length", "")
        # What the caller claims may refuse a request early; what is read is counted all the same. 18 digits keep int()
        # cheap.
        if claimed.isdecimal() and (len(claimed) > 18 or int(claimed) > most):
            raise _too_large_error(most)
        parts: list[bytes] = []
        size = 0
        more = True
        try:
            async with asyncio.timeout(self._limits.body_seconds):
                while more:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise AccessError("the caller hung up", code="slow")
                    part = message.get("body", b"")
                    more = message.get("more_body", False)
                    size += len(part)
                    if size > most:
                        raise _too_large_error(most)
                    exchange.count_bytes(len(part))
                    parts.append(part)
        except TimeoutError:
            raise AccessError(
                f"the request did not come within {self._limits.body_seconds:g} seconds", code="slow"
            ) from None
        return b"".join(parts)


class _Exchange:
    """Request that counts towards the limits."""

    def __init__(self, limiter: LimitsMiddleware, name: str, send: Send) -> None:
        self._limiter, self._name = limiter, name
        self._counted: Counter[str] | None = limiter._in_flight
        self._held = 0
        self.forward = send
        self.begun = False
        self.until: asyncio.Timeout | None = None

    async def send(self, message: Message) -> None:
        """Forward a message, and detect event streams."""
        if message["type"] == "http.response.start":
            kind = Headers(raw=message["headers"]).get("content-type", "")
            if kind.startswith("text/event-stream"):
                self._count_event_stream()
            self.begun = True
        await self.forward(message)

    def count_bytes(self, size: int) -> None:
        """Count bytes of the request body."""
        if self._limiter._held + size > MAX_HELD_BYTES:
            raise AccessError("too many large requests are under way", code="busy", hint="ask again later")
        self._limiter._held += size
        self._held += size

    def end(self) -> None:
        """Stop counting the request."""
        self._limiter._held -= self._held
        self._held = 0
        if self._counted is not None:
            self._counted[self._name] -= 1
            if not self._counted[self._name]:
                del self._counted[self._name]
        self._counted = None

    def _count_event_stream(self) -> None:
        """Count the response as an event stream, which has no time limit."""
        streams = self._limiter._streams
        if streams[self._name] >= MAX_STREAMS:
            raise AccessError(f"{MAX_STREAMS} streams of events are open already", code="busy", hint="close some")
        self.end()
        self._counted = streams
        streams[self._name] += 1
        if self.until is not None:
            self.until.reschedule(None)


def _replay_body(body: bytes, receive: Receive) -> Receive:
    """Build a receive function that yields a body, and then the remaining messages."""
    told = False

    async def give() -> Message:
        nonlocal told
        if told:
            return await receive()
        told = True
        return {"type": "http.request", "body": body, "more_body": False}

    return give


def _too_large_error(most: int) -> AccessError:
    return AccessError(f"a request has {most} bytes at most", code="size", hint="ask for less at once")


def refusal_response(error: AccessError, wait: float = 1.0) -> Response:
    """Build the response to a request over a limit, with Retry-After."""
    answer = error_handlers.error_response(error)
    if answer.status_code == 429:
        answer.headers["retry-after"] = str(math.ceil(wait))
    if error.code in ("size", "slow", "busy"):
        # The rest of the request is not waited for.
        answer.headers["connection"] = "close"
    return answer

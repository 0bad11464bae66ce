"""Limits of what one caller gets: how often, how much at once, how much in a request, and how long it may take."""

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
from evenhand.service import faults
from evenhand.service.security.keys import Caller

if TYPE_CHECKING:
    from evenhand.service import settings

STREAMS = 16
"""Streams of events that one caller may have open."""

HELD_BYTES = 256 << 20
"""Of all requests together that are in memory at once."""

UNKNOWN_BYTES = 10_000
"""A request's size, at most, of whoever has no key: enough to log in."""

BUCKETS = 10_000
"""Callers whose rate is remembered."""


class Rate:
    """So many requests per second, and for a moment as many at once: a token bucket for each caller.

    Args:
        per_second: requests.
        steady: seconds of a clock that nobody sets.
    """

    def __init__(self, per_second: float, steady: Callable[[], float] = time.monotonic) -> None:
        self._per_second, self._most = per_second, max(1.0, per_second)
        self._steady = steady
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait(self, caller: str) -> float:
        """Seconds until the caller may ask again; 0: now, and the request is counted."""
        now = self._steady()
        left, at = self._buckets.pop(caller, (self._most, now))
        left = min(self._most, left + (now - at) * self._per_second)
        wait = 0.0 if left >= 1 else (1 - left) / self._per_second
        self._buckets[caller] = (left if wait else left - 1, now)
        if len(self._buckets) > BUCKETS:
            self._buckets.popitem(last=False)
        return wait


class Limiter:
    """Holds everybody to the limits; what is over them is refused before it is read, or as soon as it shows.

    It stands behind the gate, which says who asks. Requests are read whole before anything is done with them, so a slow
    one holds up nothing but itself. Streams of events have no end, and count for themselves.

    Args:
        app: behind it.
        limits: see the service's file.
        steady: seconds of a clock that nobody sets.
    """

    def __init__(self, app: ASGIApp, limits: settings.Limits, steady: Callable[[], float] = time.monotonic) -> None:
        self._app, self._limits = app, limits
        self._rate = None if limits.requests_per_second is None else Rate(limits.requests_per_second, steady)
        self._in_flight: Counter[str] = Counter()
        self._streams: Counter[str] = Counter()
        self._held = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """As ASGI has it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        caller: Caller | None = scope.get("evenhand.caller")
        # Whoever has no key is told apart by address; nothing is decided by it but how long they wait.
        name = caller.key if caller is not None else f"@{(scope.get('client') or ('', 0))[0]}"
        wait = 0.0 if self._rate is None else self._rate.wait(name)
        if wait:
            refused = AccessError(
                f"there is a limit of {self._limits.requests_per_second:g} requests per second", code="rate",
                mend=f"ask again in {wait:.1f} seconds",
            )  # fmt: skip
            await _refuse(refused, wait)(scope, receive, send)
            return
        if self._in_flight[name] >= self._limits.in_flight:
            refused = AccessError(
                f"{self._limits.in_flight} requests are under way already", code="busy", mend="wait for their answers"
            )
            await _refuse(refused)(scope, receive, send)
            return
        self._in_flight[name] += 1
        exchange = _Exchange(self, name, send)
        try:
            await self._exchange(exchange, caller, scope, receive)
        finally:
            exchange.end()

    async def _exchange(self, exchange: _Exchange, caller: Caller | None, scope: Scope, receive: Receive) -> None:
        limits = self._limits
        try:
            async with asyncio.timeout(limits.request_seconds) as exchange.until:
                body = await self._body(exchange, limits.body_bytes if caller else UNKNOWN_BYTES, scope, receive)
                await self._app(scope, _told(body, receive), exchange.send)
        except AccessError as refused:
            if exchange.begun:
                raise
            await _refuse(refused)(scope, receive, exchange.forward)
        except TimeoutError:
            # Only half an answer is there, or none: whoever asked must not take it for a whole one.
            if exchange.begun or exchange.until is None or not exchange.until.expired():
                raise
            late = AccessError(
                f"there was no answer within {limits.request_seconds:g} seconds; it may have been carried out",
                code="late",
                mend="ask again, with the same id where there is one",
            )
            await _refuse(late)(scope, receive, exchange.forward)

    async def _body(self, exchange: _Exchange, most: int, scope: Scope, receive: Receive) -> bytes:
        """The whole request, unless it is too large or too slow."""
        claimed = Headers(scope=scope).get("content-length", "")
        if claimed.isdecimal() and (len(claimed) > 18 or int(claimed) > most):
            raise _large(most)
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
                        raise _large(most)
                    exchange.hold(len(part))
                    parts.append(part)
        except TimeoutError:
            raise AccessError(
                f"the request did not come within {self._limits.body_seconds:g} seconds", code="slow"
            ) from None
        return b"".join(parts)


class _Exchange:
    """A request and its answer, as they count."""

    def __init__(self, limiter: Limiter, name: str, send: Send) -> None:
        self._limiter, self._name = limiter, name
        self._counted: Counter[str] | None = limiter._in_flight
        self._held = 0
        self.forward = send
        self.begun = False
        self.until: asyncio.Timeout | None = None

    async def send(self, message: Message) -> None:
        """Send on, and see what kind of answer it is."""
        if message["type"] == "http.response.start":
            kind = Headers(raw=message["headers"]).get("content-type", "")
            if kind.startswith("text/event-stream"):
                self._flows()
            self.begun = True
        await self.forward(message)

    def hold(self, size: int) -> None:
        """Count a part of the request."""
        if self._limiter._held + size > HELD_BYTES:
            raise AccessError("too many large requests are under way", code="busy", mend="ask again later")
        self._limiter._held += size
        self._held += size

    def end(self) -> None:
        """Nothing of it counts any more."""
        self._limiter._held -= self._held
        self._held = 0
        if self._counted is not None:
            self._counted[self._name] -= 1
            if not self._counted[self._name]:
                del self._counted[self._name]
        self._counted = None

    def _flows(self) -> None:
        """The answer is a stream of events."""
        streams = self._limiter._streams
        if streams[self._name] >= STREAMS:
            raise AccessError(f"{STREAMS} streams of events are open already", code="busy", mend="close some")
        self.end()
        self._counted = streams
        streams[self._name] += 1
        if self.until is not None:
            self.until.reschedule(None)


def _told(body: bytes, receive: Receive) -> Receive:
    """What the application receives: the whole request, and then what comes after it."""
    told = False

    async def give() -> Message:
        nonlocal told
        if told:
            return await receive()
        told = True
        return {"type": "http.request", "body": body, "more_body": False}

    return give


def _large(most: int) -> AccessError:
    return AccessError(f"a request has {most} bytes at most", code="size", mend="ask for less at once")


def _refuse(error: AccessError, wait: float = 1.0) -> Response:
    answer = faults.answer(error)
    if answer.status_code == 429:
        answer.headers["retry-after"] = str(math.ceil(wait))
    if error.code in ("size", "slow", "busy"):
        # The rest of the request is not waited for.
        answer.headers["connection"] = "close"
    return answer

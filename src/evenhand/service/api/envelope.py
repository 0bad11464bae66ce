"""Middleware of every request: authentication, limits, traces, metrics, the request log and security headers."""

from __future__ import annotations

import asyncio
import logging
import random
import re
import time
from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from typing import TYPE_CHECKING

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from evenhand.errors import AccessError, EvenhandError
from evenhand.service.api import error_handlers
from evenhand.service.auth.access import PROBES, TokenBuckets, authenticate
from evenhand.service.auth.keys import ApiKey
from evenhand.service.auth.logging import RefusalSummary, logger
from evenhand.service.settings import LimitsConfig
from evenhand.service.tracing import COUNTED_METHODS

if TYPE_CHECKING:
    from evenhand.service.api.context import ServiceContext

SECURITY_HEADERS = {
    # Only scripts, styles and pictures of the service itself. No page may frame its pages.
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-store",
}
"""Default headers. Routes may override them."""

_SECURITY_HEADERS = {name.encode(): value.encode() for name, value in SECURITY_HEADERS.items()}

MAX_HELD_BYTES = 256 << 20
"""Maximum size of all request bodies in memory."""

MAX_ANONYMOUS_BYTES = 10_000
"""Maximum size of a request without a key."""

NEWS_PATH = "/v1/dashboard/news"
"""Path that open pages of the dashboard poll. It does not count against the rate of a caller."""

_REQUEST_ID = re.compile(r"[A-Za-z0-9._:/+=-]{1,128}")

_UNPRINTABLE = re.compile(rb"[^ -~]")


class _HeadSentError(OSError):
    """Raised when a response to HEAD continues after its headers."""


class RequestEnvelope:
    """Middleware of all requests, each of which is an `_Exchange`.

    HEAD is supported wherever GET is, and returns the headers of that response.

    Args:
        app: Inner application.
        limits: Limits of each caller.
        steady: Monotonic clock in seconds.
    """

    def __init__(
        self, app: ASGIApp, limits: LimitsConfig | None = None, steady: Callable[[], float] = time.perf_counter
    ) -> None:
        self.app, self.limits, self.steady = app, limits or LimitsConfig(), steady
        per_second = self.limits.requests_per_second
        self.rate = None if per_second is None else TokenBuckets(per_second, steady)
        self.refusals = RefusalSummary(steady)
        self.in_flight: Counter[str] = Counter()
        self.held_bytes = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one ASGI connection: answer a request, trace it and log it."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            self.refusals.flush()
        if scope["type"] != "http":
            return
        exchange = _Exchange(self, scope, receive, send)
        tracing = None if scope["path"] in PROBES else exchange.context.ledger.tracing
        fault: Exception | None = None
        with nullcontext() if tracing is None else tracing.request(exchange.scope, exchange.id) as record_status:
            try:
                await exchange.respond()
            except Exception as error:
                if not (exchange.is_head and isinstance(error, _HeadSentError | ClientDisconnect)):
                    fault = error
                if fault is not None and not exchange.status:
                    body = error_handlers.error_body(
                        "internal error", kind="server_error", code="fault", hint="see the log of the service"
                    )
                    await exchange.send_response(JSONResponse(body, 500))
            finally:
                self.held_bytes -= exchange.held_bytes
                if name := exchange.name:
                    self.in_flight[name] -= 1
                    if not self.in_flight[name]:
                        del self.in_flight[name]
            if record_status is not None:
                record_status(500 if fault else exchange.status)
        status = 500 if fault else exchange.status
        level = logging.ERROR if status >= 500 else logging.WARNING if status >= 400 else logging.INFO
        if status == 503 and scope["path"] in PROBES and exchange.context.draining.is_set():
            level = logging.INFO  # The expected answer of a service that stops.
        if logger.isEnabledFor(level):
            exchange.log(level, status, fault)


class _Exchange:
    """One request and its response.

    The request is read completely before the application sees it, so a slow request delays no other.

    Attributes:
        id: ID of the request: its header ``x-request-id``, or else a new one.
        address: IP address of the client.
        name: Name that the request is counted under. Empty before it is admitted.
        status: Status of the response. 0 before its headers are sent.
        timeout: Time limit of the body, and then of the response. None before the request is admitted.
        body: Body that has not been passed to the application yet.
    """

    def __init__(self, envelope: RequestEnvelope, scope: Scope, receive: Receive, send: Send) -> None:
        self.envelope, self.receive_next, self.forward = envelope, receive, send
        self.begun = envelope.steady()
        self.context: ServiceContext = scope["app"].state.context
        self.method: str = scope["method"]
        self.is_head = self.method == "HEAD"
        self.scope = {**scope, "method": "GET"} if self.is_head else scope
        self.headers = Headers(scope=scope)
        client = scope.get("client")
        self.address: str = client[0] if client else ""
        id = self.headers.get("x-request-id", "")
        self.id = id if _REQUEST_ID.fullmatch(id) else f"{random.getrandbits(64):016x}"
        self.name = ""
        self.caller: ApiKey | None = None
        self.status = 0
        self.timeout: asyncio.Timeout | None = None
        self.held_bytes = 0
        self.body: bytes | None = None

    async def respond(self) -> None:
        """Send the response of the application, or that of a refusal."""
        envelope, limits = self.envelope, self.envelope.limits
        body: bytes | None = None
        try:
            context = self.context
            self.caller = await authenticate(
                self.headers, self.method, self.scope["path"], context.settings.service, context.keys
            )
            self.scope["evenhand.caller"] = self.caller
            if self.scope["path"] in PROBES:
                await envelope.app(self.scope, self.receive, self.send)
                return
            self._admit()
            async with asyncio.timeout(limits.body_seconds) as self.timeout:
                body = self.body = self.scope["evenhand.body"] = await self._read_body()
                self.timeout.reschedule(asyncio.get_running_loop().time() + limits.request_seconds)
                await envelope.app(self.scope, self.receive, self.send)
        except Exception as error:
            refusal = error
            if self.timeout is not None and self.timeout.expired() and isinstance(error, TimeoutError):
                if body is None:
                    refusal = AccessError(f"the request took longer than {limits.body_seconds:g} seconds", code="slow")
                else:
                    refusal = AccessError(
                        f"no response within {limits.request_seconds:g} seconds; the request may have been carried out",
                        code="late",
                        hint="retry, with the same id if the request has one",
                    )
            # The caller must not mistake a partial response for a complete one.
            if self.status or not isinstance(refusal, EvenhandError):
                raise
            await self.send_response(self._refusal_response(refusal))

    async def receive(self) -> Message:
        """Return the body, and then the remaining messages."""
        body, self.body = self.body, None
        if body is None:
            return await self.receive_next()
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(self, message: Message) -> None:
        """Forward a message of the response.

        Its header values are sanitised, and the ID of the request and missing security headers are added.
        """
        if message["type"] == "http.response.start":
            headers, missing = [], _SECURITY_HEADERS.copy()
            for name, value in message.get("headers", ()):
                if name != b"x-request-id":
                    headers.append((name, _UNPRINTABLE.sub(_percent_encode, value)))
                    missing.pop(name, None)
            headers += [*missing.items(), (b"x-request-id", self.id.encode())]
            self.status = message["status"]
            route = getattr(self.scope.get("route"), "path", "none")
            method = self.method if self.method in COUNTED_METHODS else "other"
            self.context.metrics.requests.labels(method, route, str(self.status)).inc()
            await self.forward({**message, "headers": headers})
            if self.is_head:
                await self.forward({"type": "http.response.body", "body": b"", "more_body": False})
        elif self.is_head:
            if message.get("more_body", False):
                raise _HeadSentError
        else:
            await self.forward(message)

    async def send_response(self, response: Response) -> None:
        """Send a complete response."""
        await response(self.scope, self.receive, self.send)

    def _admit(self) -> None:
        """Count the request."""
        envelope = self.envelope
        # Callers without a key are distinguished by their address.
        name = (self.caller and self.caller.id) or f"@{self.address}"
        rate = None if self.scope["path"] == NEWS_PATH else envelope.rate
        wait = 0.0 if rate is None else rate.seconds_until_allowed(name)
        if wait:
            error = AccessError(
                f"the limit is {envelope.limits.requests_per_second:g} requests per second",
                code="rate",
                hint=f"retry in {wait:.1f} seconds",
            )
            error.retry_after = wait
            raise error
        if envelope.in_flight[name] >= envelope.limits.in_flight:
            raise AccessError(
                f"{envelope.limits.in_flight} requests are already running",
                code="busy",
                hint="wait for their responses",
            )
        envelope.in_flight[name] += 1
        self.name = name

    async def _read_body(self) -> bytes:
        """Read the body of the request."""
        limits = self.envelope.limits
        max_bytes = limits.body_bytes if self.caller else MAX_ANONYMOUS_BYTES
        claimed = self.headers.get("content-length", "")
        # A request may be refused early by its declared size; the body is measured anyway. 18 digits keep int() cheap.
        if claimed.isdecimal() and (len(claimed) > 18 or int(claimed) > max_bytes):
            raise _too_large_error(max_bytes)
        parts: list[bytes] = []
        has_more = True
        while has_more:
            message = await self.receive_next()
            if message["type"] == "http.disconnect":
                raise AccessError("the caller disconnected", code="slow")
            part = message.get("body", b"")
            has_more = message.get("more_body", False)
            if self.held_bytes + len(part) > max_bytes:
                raise _too_large_error(max_bytes)
            if self.envelope.held_bytes + len(part) > MAX_HELD_BYTES:
                raise AccessError("too many large requests are running", code="busy", hint="retry later")
            self.envelope.held_bytes += len(part)
            self.held_bytes += len(part)
            parts.append(part)
        return b"".join(parts)

    def _refusal_response(self, error: EvenhandError) -> Response:
        """Build the response to a request that is refused. Pages are redirected to the login."""
        if isinstance(error, AccessError) and error.code == "key":
            if self.scope["method"] == "GET" and "text/html" in self.headers.get("accept", ""):
                return RedirectResponse("/login", 303)
            error = self.context.failures.refusal(error, self.address)
        response = error_handlers.error_response(error)
        if isinstance(error, AccessError) and error.code in ("size", "slow", "busy"):
            # The remainder of the request is not read.
            response.headers["connection"] = "close"
        return response

    def log(self, level: int, status: int, fault: Exception | None) -> None:
        """Log the request."""
        caller = self.caller
        # Anyone can send unlimited requests of this kind. If every request is logged, these are logged as well.
        is_summarized = (caller is None or status == 429) and level == logging.WARNING
        is_logged = not is_summarized or logger.isEnabledFor(logging.INFO)
        if not is_logged and not self.envelope.refusals.is_first(status, self.address):
            return
        about = {
            "request": self.id,
            "method": self.method,
            # The query is omitted because it may contain keys.
            "path": self.scope["path"],
            "status": status,
            "seconds": round(self.envelope.steady() - self.begun, 6),
            "key": caller.id if caller is not None else "",
        }
        logger.log(level, "request", exc_info=fault, extra={"about": about})


def _too_large_error(max_bytes: int) -> AccessError:
    return AccessError(
        f"expected a request of at most {max_bytes} bytes", code="size", hint="send less data per request"
    )


def _percent_encode(match: re.Match[bytes]) -> bytes:
    return b"%%%02X" % match[0][0]

"""Middleware for request IDs, traces, metrics, the request log and security headers."""

from __future__ import annotations

import logging
import random
import re
import time
from collections.abc import Callable, Iterable
from contextlib import nullcontext, suppress
from typing import TYPE_CHECKING, Any, TypeAlias

from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from evenhand.service.api import error_handlers
from evenhand.service.auth.keys import Caller
from evenhand.service.auth.limits import PROBES, address_of
from evenhand.service.auth.logging import RefusalSummary, logger
from evenhand.service.metrics import COUNTED_METHODS

if TYPE_CHECKING:
    from evenhand.service.api.context import ServiceContext

RawHeaders: TypeAlias = Iterable[tuple[bytes, bytes]]

SECURITY_HEADERS = {
    # Scripts, styles and pictures of the service's own, and nothing else; no page may frame ours.
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cache-control": "no-store",
}
"""Unless a route says otherwise."""

_SECURITY_HEADERS = [(name.encode(), value.encode()) for name, value in SECURITY_HEADERS.items()]

STREAM_ROUTES = ("/v1/shields/", "/v1/streams/", "/v1/dashboard/streams/", "/v1/monitors/", "/monitors/")
"""Prefixes of routes that contain the name of a stream or monitor."""

_REQUEST_ID = re.compile(rb"[A-Za-z0-9._:/+=-]{1,128}")


class _HeadSentError(OSError):
    """Raised where a response would go on after its head."""


class RequestEnvelope:
    """Traces, counts and logs requests, answers faults, and gives every response its security headers.

    HEAD is answered wherever GET is, by the head of that response.

    Args:
        app: The application inside.
        steady: Seconds of a monotonic clock.
    """

    def __init__(self, app: ASGIApp, steady: Callable[[], float] = time.perf_counter) -> None:
        self._app, self._steady = app, steady
        self._refusals = RefusalSummary(steady)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one ASGI connection."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            self._refusals.flush()
            return
        context: ServiceContext = scope["app"].state.context
        method, begun, status = scope["method"], self._steady(), 0
        id, tracing = _request_id(scope), context.ledger.tracing
        is_head = method == "HEAD"
        inner = {**scope, "method": "GET"} if is_head else scope

        async def send_secured(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                route = getattr(inner.get("route"), "path", "none")
                context.metrics.count_response(method if method in COUNTED_METHODS else "other", route, status)
                await send({**message, "headers": _secure_headers(message.get("headers", ()), id)})
                if is_head:
                    await send({"type": "http.response.body", "body": b"", "more_body": False})
            elif not is_head:
                await send(message)
            elif message.get("more_body", False):
                # Some responses never end.
                raise _HeadSentError

        is_traced = tracing is not None and scope["path"] not in PROBES
        with _trace(tracing, scope, id) if is_traced else nullcontext() as record_outcome:
            fault: Exception | None = None
            try:
                with suppress(_HeadSentError, ClientDisconnect) if is_head else nullcontext():
                    await self._app(inner, receive, send_secured)
            except Exception as error:
                fault = error
                if not status:
                    body = error_handlers.error_body(
                        "a fault in Evenhand itself",
                        kind="server_error",
                        code="fault",
                        hint="the service's log says where",
                    )
                    await JSONResponse(body, 500)(inner, receive, send_secured)
            finally:
                if record_outcome is not None:
                    record_outcome(500 if fault else status, *_route_and_stream(inner))
            self._log(inner, method, id, 500 if fault else status, begun, fault)

    def _log(
        self, scope: Scope, method: str, id: str, status: int, begun: float, fault: Exception | None = None
    ) -> None:
        level = logging.ERROR if status >= 500 else logging.WARNING if status >= 400 else logging.INFO
        if not logger.isEnabledFor(level):
            return
        caller: Caller | None = scope.get("evenhand.caller")
        # Anyone can send these without end; where every request is logged, they are too.
        summarized = (caller is None or status == 429) and level == logging.WARNING
        each = not summarized or logger.isEnabledFor(logging.INFO)
        if not each and not self._refusals.is_first(status, address_of(scope)):
            return
        about = {
            "request": id,
            "method": method,
            # Without what follows the path: some write keys there.
            "path": scope["path"],
            "status": status,
            "seconds": round(self._steady() - begun, 6),
            "key": caller.key if caller is not None else "",
        }
        logger.log(level, "request", exc_info=fault, extra={"about": about})


def _request_id(scope: Scope) -> str:
    """Return the ID of a request: its header ``x-request-id``, or else a new one."""
    header = next((value for name, value in scope["headers"] if name == b"x-request-id"), b"")
    return header.decode() if _REQUEST_ID.fullmatch(header) else f"{random.getrandbits(64):016x}"


def _secure_headers(headers: RawHeaders, id: str) -> list[tuple[bytes, bytes]]:
    """Return headers with harmless values, the ID of the request, and the security headers that are missing."""
    secured = [(name, escape_header_value(value)) for name, value in headers if name != b"x-request-id"]
    names = {name for name, _ in secured}
    secured += [header for header in _SECURITY_HEADERS if header[0] not in names]
    secured.append((b"x-request-id", id.encode()))
    return secured


def _trace(tracing: Any, scope: Scope, id: str) -> Any:
    """Trace a request as part of the caller's trace."""
    headers = {
        name.decode(): value.decode("latin-1")
        for name, value in scope["headers"]
        if name in (b"traceparent", b"tracestate")
    }
    method = scope["method"] if scope["method"] in COUNTED_METHODS else "_OTHER"
    return tracing.request(method, headers, id)


def _route_and_stream(scope: Scope) -> tuple[str | None, str | None]:
    route: str | None = getattr(scope.get("route"), "path", None)
    if route is None or not route.startswith(STREAM_ROUTES):
        return route, None
    return route, scope.get("path_params", {}).get("name")


def escape_header_value(value: bytes) -> bytes:
    """Percent-encode bytes of a header value that are not printable ASCII."""
    if value.isascii() and value.decode("ascii").isprintable():
        return value
    return b"".join(bytes([byte]) if 32 <= byte < 127 else b"%%%02X" % byte for byte in value)

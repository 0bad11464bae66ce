"""Every request as a span of its own, the outermost of all that is traced."""

from __future__ import annotations

from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from evenhand.service.auth.limits import PROBES
from evenhand.service.auth.logging import request_id

ANSWERED_BY = "evenhand.answered_by"
"""In the scope: the route and the stream of a request that was answered before any route was looked for."""

STREAM_ROUTES = ("/v1/shields/", "/v1/streams/", "/v1/admin/streams/", "/v1/dashboard/streams/", "/v1/monitors/",
                 "/monitors/")  # fmt: skip
"""Beginnings of routes whose name is that of a stream or a monitor."""


class TracingMiddleware:
    """Traces every request but probes. It stands before everything else.

    Args:
        app: all else.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one ASGI connection."""
        if scope["type"] != "http" or scope["path"] in PROBES:
            await self._app(scope, receive, send)
            return
        tracing = scope["app"].state.context.ledger.tracing
        known = {name.decode(): value.decode("latin-1") for name, value in scope["headers"]
                 if name in (b"traceparent", b"tracestate")}  # fmt: skip
        status = 500

        async def traced_send(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        with tracing.request(scope["method"], known, request_id(scope)) as tell:
            try:
                await self._app(scope, receive, traced_send)
            finally:
                tell(status, *_route_and_stream(scope))


def _route_and_stream(scope: Scope) -> tuple[str | None, str | None]:
    if ANSWERED_BY in scope:
        found: tuple[str, str] = scope[ANSWERED_BY]
        return found
    route: Any = getattr(scope.get("route"), "path", None)
    if route is None or not route.startswith(STREAM_ROUTES):
        return route, None
    return route, scope.get("path_params", {}).get("name")

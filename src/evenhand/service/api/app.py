"""The ASGI application: its routes, and what every request passes before and after them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any

from fastapi import FastAPI
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from evenhand import __version__
from evenhand.http import close_loop_connections
from evenhand.service.api import error_handlers
from evenhand.service.api.context import ServiceContext, open_service
from evenhand.service.api.decision_path import DecisionPathMiddleware, TracingMiddleware
from evenhand.service.api.routes import (
    admin,
    dashboard,
    generators,
    guardrail,
    health,
    login,
    monitors,
    passed_on,
    responses,
    shields,
    streams,
)
from evenhand.service.auth.limits import LimitsMiddleware, RequestCounts
from evenhand.service.auth.logging import RequestLogMiddleware
from evenhand.service.auth.middleware import AuthMiddleware, SecurityHeadersMiddleware
from evenhand.service.metrics import MetricsMiddleware
from evenhand.service.reload import follow_streams
from evenhand.service.settings import ServiceConfig

NO_TELEMETRY: Any = {"tracing": False, "metrics": False, "logs": False, "auto_configure": False}
"""FastAPI's own spans and logs would have words of callers in them; ours do not."""


def create_app(settings: ServiceConfig, context: ServiceContext | None = None) -> FastAPI:
    """Build the service as an ASGI application.

    Args:
        settings: as read.
        context: opened already; else the application opens its own when it starts. Closed when the application ends.
    """

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        here = open_service(settings) if context is None else context
        app.state.context = here
        here.metrics.watch_routes(app.openapi()["paths"])
        here.upkeep.duties["follow_streams"] = partial(follow_streams, here)
        try:
            yield
        finally:
            # What is under way goes on in this loop meanwhile, and is waited for.
            await asyncio.to_thread(here.close)
            await close_loop_connections()

    # The interactive pages would load scripts from elsewhere.
    app = FastAPI(title="Evenhand", version=__version__, lifespan=lifespan, docs_url=None, redoc_url=None,
                  responses=error_handlers.DOCUMENTED_ERRORS, telemetry=NO_TELEMETRY)  # fmt: skip
    # What is added last comes first.
    app.add_middleware(HeadMiddleware)
    counts = RequestCounts(settings.limits)
    app.add_middleware(LimitsMiddleware, limits=settings.limits, counts=counts)
    app.add_middleware(AuthMiddleware)
    app.add_middleware(RequestLogMiddleware)
    app.add_middleware(MetricsMiddleware)
    app.add_middleware(SecurityHeadersMiddleware)
    app.add_middleware(DecisionPathMiddleware, limits=settings.limits, counts=counts)
    if settings.tracing.enabled:
        app.add_middleware(TracingMiddleware)
    error_handlers.install_handlers(app)
    for part in (
        admin,
        shields,
        generators,
        responses,
        passed_on,
        guardrail,
        monitors,
        streams,
        health,
        login,
        dashboard,
    ):
        app.include_router(part.router)
    return app


# HEAD wherever GET is: the head of the answer that GET would give.


class _HeadSentError(OSError):
    """Raised where an answer would go on for longer than its head."""


class HeadMiddleware:
    """Asks for HEAD as for GET, and leaves out the body. It stands behind all other middleware, which see HEAD."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one ASGI connection."""
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self._app(scope, receive, send)
            return
        asked = {**scope, "method": "GET"}

        async def send_head(message: Message) -> None:
            if message["type"] == "http.response.start":
                # What others want to know of the route that answered.
                scope["route"] = asked.get("route")
                await send(message)
                await send({"type": "http.response.body", "body": b"", "more_body": False})
            elif message.get("more_body", False):
                # Some answers never end.
                raise _HeadSentError

        with suppress(_HeadSentError, ClientDisconnect):
            await self._app(asked, receive, send_head)

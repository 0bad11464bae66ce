"""ASGI application with its routes and middleware."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI

from evenhand import __version__
from evenhand.core.http import close_loop_connections
from evenhand.service.api import error_handlers
from evenhand.service.api.context import ServiceContext, open_service
from evenhand.service.api.envelope import RequestEnvelope
from evenhand.service.api.routes import (
    dashboard,
    forwarded,
    generators,
    guardrail,
    health,
    login,
    monitors,
    shields,
    streams,
)
from evenhand.service.settings import ServiceConfig

NO_TELEMETRY: Any = {"tracing": False, "metrics": False, "logs": False, "auto_configure": False}
"""FastAPI's own spans and logs could contain text of callers."""


def create_app(settings: ServiceConfig, context: ServiceContext | None = None) -> FastAPI:
    """Build the service as an ASGI application.

    Args:
        settings: Configuration of the service.
        context: Open context. By default, the application opens one when it starts. It is closed at the end.
    """

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        opened = open_service(settings) if context is None else context
        app.state.context = opened
        opened.metrics.watch_routes(app.openapi()["paths"])
        try:
            yield
        finally:
            # Running requests can only finish while this loop runs.
            await asyncio.to_thread(opened.close)
            await close_loop_connections()

    # The interactive pages would load scripts from other sites.
    app = FastAPI(
        title="Evenhand",
        version=__version__,
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        responses=error_handlers.DOCUMENTED_ERRORS,
        telemetry=NO_TELEMETRY,
    )
    app.add_middleware(RequestEnvelope, limits=settings.limits)
    error_handlers.install_handlers(app)
    # First, because most requests use them.
    shields.add_decision_routes(app)
    for part in (
        shields,
        generators,
        forwarded,
        guardrail,
        monitors,
        streams,
        health,
        login,
        dashboard,
    ):
        app.include_router(part.router)
    return app

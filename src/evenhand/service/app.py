"""The ASGI application."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI

from evenhand import __version__
from evenhand.service import faults
from evenhand.service.context import Context
from evenhand.service.metrics import Measured
from evenhand.service.opening import open_service
from evenhand.service.routes import (
    chat,
    dashboard,
    events,
    guardrail,
    health,
    images,
    metrics,
    models,
    pages,
    shields,
    streams,
)
from evenhand.service.security.gate import Gate
from evenhand.service.security.headers import Headed
from evenhand.service.security.journal import Journal
from evenhand.service.security.limits import Limiter
from evenhand.service.settings import Settings


def create_app(settings: Settings, context: Context | None = None) -> FastAPI:
    """The service as an ASGI application.

    Args:
        settings: as read.
        context: opened already; else the application opens its own when it starts. Closed when the application ends.
    """

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        here = open_service(settings) if context is None else context
        app.state.context = here
        try:
            yield
        finally:
            here.close()

    # The interactive pages would load scripts from elsewhere.
    app = FastAPI(title="Evenhand", version=__version__, lifespan=lifespan, docs_url=None, redoc_url=None,
                  responses=faults.DOCUMENTED)  # fmt: skip
    # What is added last comes first.
    app.add_middleware(Limiter, limits=settings.limits)
    app.add_middleware(Gate)
    app.add_middleware(Journal)
    app.add_middleware(Measured)
    app.add_middleware(Headed)
    faults.install(app)
    for module in (shields, images, chat, models, guardrail, events, streams, health, metrics, pages, dashboard):
        app.include_router(module.router)
    return app

"""The ASGI application; whether it lives, whether it can work, and what it does in numbers for Prometheus."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import APIRouter, FastAPI, Response
from fastapi.concurrency import run_in_threadpool
from sqlalchemy import select

from evenhand import __version__
from evenhand.service.api import error_handlers
from evenhand.service.api.context import Here, ServiceContext, example_response, open_service
from evenhand.service.api.routes import dashboard, generators, guardrail, shields, streams
from evenhand.service.auth.keys import require_scope
from evenhand.service.auth.limits import LimitsMiddleware
from evenhand.service.auth.logging import RequestLogMiddleware
from evenhand.service.auth.middleware import AuthMiddleware, SecurityHeadersMiddleware
from evenhand.service.metrics import MEDIA_TYPE, MetricsMiddleware
from evenhand.service.settings import ServiceConfig
from evenhand.service.store.tables import versions

health = APIRouter(tags=["health"])


@health.get("/healthz", responses=example_response({"status": "ok"}))
async def get_liveness() -> dict[str, str]:
    """The process answers."""
    return {"status": "ok"}


@health.get("/readyz", responses=example_response({"status": "ready"}))
async def get_readiness(here: Here) -> dict[str, str]:
    """The store can be written."""

    def touch() -> None:
        with here.database.transaction(durable=False) as connection:
            connection.execute(select(versions.c.version)).all()

    await run_in_threadpool(touch)
    return {"status": "ready"}


@health.get(
    "/metrics",
    dependencies=[require_scope("read")],
    response_class=Response,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
)
async def get_metrics(here: Here) -> Response:
    """What the service does and where its streams stand, in the text format of Prometheus."""
    allowed = {name: float(shield.plan.property.kappa) for name, shield in here.shields.items()}
    text = await run_in_threadpool(here.metrics.text, here.database, here.deciders, allowed)
    return Response(text, media_type=MEDIA_TYPE)


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
        try:
            yield
        finally:
            here.close()

    # The interactive pages would load scripts from elsewhere.
    app = FastAPI(title="Evenhand", version=__version__, lifespan=lifespan, docs_url=None, redoc_url=None,
                  responses=error_handlers.DOCUMENTED_ERRORS)  # fmt: skip
    # What is added last comes first.
    app.add_middleware(LimitsMiddleware, limits=settings.limits)
    app.add_middleware(AuthMiddleware)
    app.add_middleware(RequestLogMiddleware)
    app.add_middleware(MetricsMiddleware)
    app.add_middleware(SecurityHeadersMiddleware)
    error_handlers.install_handlers(app)
    for router in (shields.router, generators.router, guardrail.router, streams.router, health, dashboard.router):
        app.include_router(router)
    return app

"""Health checks and metrics."""

from __future__ import annotations

from fastapi import APIRouter, Response
from fastapi.concurrency import run_in_threadpool

from evenhand.errors import StoreError
from evenhand.service.api.context import RequestContext
from evenhand.service.auth.access import require_scope
from evenhand.service.metrics import MEDIA_TYPE

router = APIRouter(tags=["health"])


@router.get("/healthz")
async def get_liveness() -> dict[str, str]:
    """Liveness: the process answers."""
    return {"status": "ok"}


@router.get("/readyz")
async def get_readiness(context: RequestContext) -> dict[str, str]:
    """Readiness: the service is not stopping, and the store accepted a trial transaction within the last second."""
    if context.draining.is_set():
        raise StoreError("the service is stopping", hint="use another replica, or retry later")
    await context.readiness.check()
    return {"status": "ready"}


@router.get(
    "/metrics",
    dependencies=[require_scope("read")],
    response_class=Response,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
)
async def get_metrics(context: RequestContext) -> Response:
    """Metrics of the service and its streams, in the text format of Prometheus."""
    allowed = {name: float(shield.plan.property.kappa) for name, shield in context.shields.items()}
    text = await run_in_threadpool(context.metrics.text, context.database, allowed)
    return Response(text, media_type=MEDIA_TYPE)

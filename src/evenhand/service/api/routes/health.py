"""Whether the service lives, whether it can work, and what it does in numbers for Prometheus."""

from __future__ import annotations

from fastapi import APIRouter, Response
from fastapi.concurrency import run_in_threadpool

from evenhand.errors import StoreError
from evenhand.service.api.context import Here, example_response
from evenhand.service.auth.keys import require_scope
from evenhand.service.metrics import MEDIA_TYPE

router = APIRouter(tags=["health"])


@router.get("/healthz", responses=example_response({"status": "ok"}))
async def get_liveness() -> dict[str, str]:
    """The process answers."""
    return {"status": "ok"}


@router.get("/readyz", responses=example_response({"status": "ready"}))
async def get_readiness(here: Here) -> dict[str, str]:
    """A decision could be written now: what it writes was written and taken back within the last second."""
    if here.stopping.is_set():
        raise StoreError("the service is stopping", hint="ask another replica, or again later")
    await here.readiness.check()
    return {"status": "ready"}


@router.get(
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

"""Numbers for Prometheus."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends, Response
from fastapi.concurrency import run_in_threadpool

from evenhand.service.context import Context, context_of
from evenhand.service.metrics import MEDIA_TYPE
from evenhand.service.security import requires

router = APIRouter(tags=["health"])


@router.get(
    "/metrics",
    dependencies=[requires("read")],
    response_class=Response,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
)
async def metrics(here: Annotated[Context, Depends(context_of)]) -> Response:
    """What the service does and where its streams stand, in the text format of Prometheus."""
    text = await run_in_threadpool(here.metrics.text, here)
    return Response(text, media_type=MEDIA_TYPE)

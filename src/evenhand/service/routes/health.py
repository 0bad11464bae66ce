"""Whether the service lives, and whether it can work."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Depends
from fastapi.concurrency import run_in_threadpool
from sqlalchemy import select

from evenhand.service.context import Context, context_of
from evenhand.service.routes.examples import shown
from evenhand.service.store.tables import versions

router = APIRouter(tags=["health"])


@router.get("/healthz", responses=shown({"status": "ok"}))
async def alive() -> dict[str, str]:
    """The process answers."""
    return {"status": "ok"}


@router.get("/readyz", responses=shown({"status": "ready"}))
async def ready(here: Annotated[Context, Depends(context_of)]) -> dict[str, str]:
    """The store can be written."""

    def touch() -> None:
        with here.database.transaction(durable=False) as connection:
            connection.execute(select(versions.c.version)).all()

    await run_in_threadpool(touch)
    return {"status": "ready"}

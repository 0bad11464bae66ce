"""What those who operate a running service may ask of it."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter
from fastapi.concurrency import run_in_threadpool
from pydantic import BaseModel, ConfigDict, Field

from evenhand.service.api.context import Here
from evenhand.service.auth.keys import Caller, require_scope
from evenhand.service.reload import reload_service

router = APIRouter(prefix="/v1/admin", tags=["administration"])


class ReloadAnswer(BaseModel):
    """What a reload did."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"added": ["hiring"], "removed": [], "changed": [], "needs_restart": ["limits"], "number": 3}]
        }
    )

    added: list[str]
    removed: list[str]
    changed: list[str]
    needs_restart: Annotated[list[str], Field(description="Parts that are taken up at the next start alone.")]
    number: Annotated[int | None, Field(description="Of the entry in evenhand:settings; null: nothing changed.")]


@router.post("/reload")
async def reload(here: Here, caller: Annotated[Caller, require_scope("operate")]) -> ReloadAnswer:
    """Read the service's file again and serve the shields and guards that it names. All of it, or nothing."""
    report = await run_in_threadpool(reload_service, here, caller.name)
    return ReloadAnswer.model_validate(report.to_dict())

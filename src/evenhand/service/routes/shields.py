"""Decisions of shields over HTTP."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from fastapi import APIRouter, Depends
from pydantic import BaseModel, Field

from evenhand.service.context import Context, context_of
from evenhand.service.security import requires

router = APIRouter(prefix="/v1/shields", tags=["shields"])

Here = Annotated[Context, Depends(context_of)]


class DecisionRequest(BaseModel):
    """One individual."""

    id: Annotated[str, Field(min_length=1, max_length=200)]
    group: str
    recommendation: Annotated[int, Field(ge=0, le=1)]
    cost: float | None = None


@router.post("/{name}/decisions", dependencies=[requires("decide")])
async def decide(name: str, asked: DecisionRequest, here: Here) -> dict[str, Any]:
    """Decide on one individual; asked again with the same id, the answer is the same."""
    operation: dict[str, Any] = {"op": "decide", **asked.model_dump(exclude_none=True)}
    done = await asyncio.wrap_future(here.ledger.submit(name, operation, id=asked.id))
    return {**done.answer, "bias": done.answer["certificate"]["bias"]}

"""Pictures, in the shape of OpenAI's interface."""

from __future__ import annotations

import base64
import time
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Response
from fastapi.concurrency import run_in_threadpool
from pydantic import BaseModel, Field

from evenhand.errors import DecisionError
from evenhand.service.context import Context, context_of
from evenhand.service.guards import ServedGuard
from evenhand.service.security import requires

router = APIRouter(prefix="/v1", tags=["generators"])


class ImagesRequest(BaseModel):
    """A prompt for pictures; entries that are not named here are handed on."""

    model_config = {"extra": "allow"}

    prompt: Annotated[str, Field(min_length=1)]
    model: str | None = None
    n: Annotated[int, Field(ge=1, le=10)] = 1


@router.post("/images/generations", dependencies=[requires("generate")])
async def generate(
    asked: ImagesRequest, response: Response, here: Annotated[Context, Depends(context_of)]
) -> dict[str, Any]:
    """Pictures for a prompt; each is a request of its own for the guard."""
    guard = _guard(here, asked.model)
    answers = [await run_in_threadpool(guard.answer, asked.prompt) for _ in range(asked.n)]
    last = answers[-1]
    response.headers["x-evenhand-guarded"] = str(all(one.status in ("ok", "violation") for one in answers)).lower()
    response.headers["x-evenhand-changed"] = str(any(one.changed for one in answers)).lower()
    response.headers["x-evenhand-disclosure"] = last.disclosure
    pictures = [one.item for one in answers if one.item is not None]
    return {
        "created": int(time.time()),
        "data": [{"b64_json": base64.b64encode(item.data).decode()} for item in pictures],
    }


def _guard(here: Context, model: str | None) -> ServedGuard:
    for guard in here.guards.values():
        if model is None or model in guard.models:
            return guard
    raise DecisionError(f"there is no model {model!r}", code="stream", mend="see /v1/models")

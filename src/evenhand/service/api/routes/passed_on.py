"""What is handed on to the service behind the guards as it is, so that an application needs one address."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict

from evenhand.coroutines import call
from evenhand.errors import EvenhandError, FetchError, FetchFailure
from evenhand.genai import ContentRefusedError, OpenAIChat, OpenAIImages, ServiceConnection
from evenhand.service.api.context import Here, ServiceContext, example_response
from evenhand.service.api.error_handlers import (
    RELAYED_STATUSES,
    ServiceHTTPException,
    relayed_error,
    retry_after_header,
)
from evenhand.service.api.routes.idempotency import IdempotentRoute
from evenhand.service.auth.keys import require_scope

router = APIRouter(prefix="/v1", tags=["generators"], route_class=IdempotentRoute)

T = TypeVar("T")

PASSED_HEADERS = {"x-evenhand-guarded": "false", "x-evenhand-status": "passed"}

CALLER_STATUSES = (*RELAYED_STATUSES, 404, 415)
"""Statuses that are about the request: callers choose the model and the content type themselves."""

EMBEDDINGS_EXAMPLE: dict[str, Any] = {
    "object": "list",
    "model": "text-embedding-3-small",
    "data": [{"object": "embedding", "index": 0, "embedding": [0.1, -0.2]}],
}

MODERATION_EXAMPLE: dict[str, Any] = {"id": "modr-1", "model": "omni-moderation", "results": [{"flagged": False}]}


class PassedRequest(BaseModel):
    """A request that the service behind the guards answers; all its entries are handed on."""

    model_config = ConfigDict(extra="allow", json_schema_extra={"examples": [{"model": "some", "input": "a text"}]})

    input: str | list[Any]
    model: str | None = None


@router.post("/embeddings", dependencies=[require_scope("generate")], responses=example_response(EMBEDDINGS_EXAMPLE))
async def create_embeddings(asked: PassedRequest, here: Here) -> Response:
    """Embeddings of texts, from the service behind the guards: nothing is made that could be guarded."""
    return await _pass_on_json("/embeddings", asked, here)


@router.post("/moderations", dependencies=[require_scope("generate")], responses=example_response(MODERATION_EXAMPLE))
async def create_moderation(asked: PassedRequest, here: Here) -> Response:
    """What the service behind the guards says of contents: nothing is made that could be guarded."""
    return await _pass_on_json("/moderations", asked, here)


EDITS_EXAMPLE: dict[str, Any] = {"created": 1767225600, "data": [{"b64_json": "iVBORw0KGgo="}]}

EDITS_BODY = {
    "requestBody": {
        "required": True,
        "content": {
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "examples": [{"model": "some", "prompt": "a taller tree", "image": "(the bytes of a picture)"}],
                },
            }
        },
    }
}


@router.post(
    "/images/edits",
    dependencies=[require_scope("generate")],
    responses=example_response(EDITS_EXAMPLE),
    openapi_extra=EDITS_BODY,
)
async def edit_images(request: Request, here: Here) -> Response:
    """Changed pictures, from the service behind the guards that makes pictures: what they show is not looked at."""
    kind = request.headers.get("content-type", "")
    if kind.partition(";")[0].strip().lower() != "multipart/form-data":
        raise ServiceHTTPException(
            415, f"expected multipart/form-data, got {kind[:100] or 'no content type'}", code="content_type",
            hint="send the picture as a form with files",
        )  # fmt: skip
    body = await request.body()
    said = await _ask_behind(here, lambda wire: call(wire.send, "/images/edits", body, kind), OpenAIImages)
    # With stream=true among the fields the answer has events.
    events = said.startswith((b"event:", b"data:"))
    return Response(said, media_type="text/event-stream" if events else "application/json", headers=PASSED_HEADERS)


async def _pass_on_json(path: str, asked: PassedRequest, here: ServiceContext) -> Response:
    body = asked.model_dump(exclude_unset=True)
    answer = await _ask_behind(here, lambda wire: call(wire.post, path, body), OpenAIImages | OpenAIChat)
    return JSONResponse(answer, headers=PASSED_HEADERS)


async def _ask_behind(here: ServiceContext, ask: Callable[[ServiceConnection], Awaitable[T]], makes: Any) -> T:
    """Return what the one service behind the guards with such generators answers.

    Raises:
        ServiceHTTPException: there is none, or there are several; it refuses, or fails.
    """
    makers = [guard.pipeline.generator for guard in here.guards.values()]
    wires = {one.wire.url: one.wire for one in makers if isinstance(one, makes)}
    if len(wires) != 1:
        raise ServiceHTTPException(
            404,
            "several services stand behind the guards" if wires else "no service stands behind the guards",
            code="not_passed_on",
            hint="ask the one that is meant itself",
        )
    (wire,) = wires.values()
    try:
        return await ask(wire)
    except ContentRefusedError as error:
        raise ServiceHTTPException(
            error.status, error.message, code=error.code, hint=error.hint, headers=PASSED_HEADERS
        ) from None
    except EvenhandError as error:
        if (relayed := relayed_error(error, PASSED_HEADERS, CALLER_STATUSES)) is not None:
            raise relayed from None
        late = isinstance(error, FetchError) and error.failure is FetchFailure.TIMEOUT
        status = f" with status {error.status}" if isinstance(error, FetchError) and error.status else ""
        problem = "did not answer in time" if late else f"failed{status}"
        raise ServiceHTTPException(
            504 if late else 502, f"the service behind the guards {problem}",
            code="timeout" if late else "generator_failed", hint="ask again later",
            headers={**PASSED_HEADERS, **retry_after_header(error)},
        ) from None  # fmt: skip

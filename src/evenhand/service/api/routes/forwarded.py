"""Requests that no guard decides: embeddings, moderations and edits of pictures go to the service behind the guards."""

from __future__ import annotations

import asyncio
from typing import Any

from fastapi import APIRouter, Request, Response

from evenhand.core.coroutines import call
from evenhand.errors import EvenhandError, FetchError, ModelError
from evenhand.genai.backends.openai_service import OpenAIChat, OpenAIImages
from evenhand.models.language.services import ContentRefusedError
from evenhand.service.api.context import RequestContext
from evenhand.service.api.error_handlers import (
    EVENT_STREAM_HEADERS,
    RELAYED_STATUSES,
    HttpError,
    logger,
    relayed_error,
    retry_after_header,
)
from evenhand.service.api.json_bodies import parse_json_body
from evenhand.service.api.routes.generators import GeneratingCaller

router = APIRouter(prefix="/v1", tags=["generators"])

FORWARDED_HEADERS = {"x-evenhand-guarded": "false", "x-evenhand-status": "unguarded"}


def _describe_body(content_type: str, **example: str) -> dict[str, Any]:
    content = {content_type: {"schema": {"type": "object"}, "example": example}}
    return {"requestBody": {"required": True, "content": content}}


@router.post("/embeddings", openapi_extra=_describe_body("application/json", input="a tree"))
@router.post("/moderations", openapi_extra=_describe_body("application/json", input="a tree"))
@router.post("/images/edits", openapi_extra=_describe_body("multipart/form-data", prompt="a taller tree", image="..."))
async def forward_request(request: Request, context: RequestContext, caller: GeneratingCaller) -> Response:
    """The answer of the service behind the guards, which neither a guard nor the log sees.

    All guards that the key may use must have the same service.
    """
    path = request.scope["route"].path.removeprefix("/v1")
    required = "multipart/form-data" if path == "/images/edits" else "application/json"
    content_type = request.headers.get("content-type", "")
    if content_type.partition(";")[0].strip().lower() != required:
        hint = f"send the header Content-Type: {required}"
        raise HttpError(415, f"expected {required}, got {content_type[:100]!r}", code="content_type", hint=hint)
    body = await request.body()
    if required == "application/json":
        parse_json_body(body)
    generators = [guard.pipeline.generator for guard in context.guards.values() if caller.may_use(guard.name)]
    kinds = OpenAIImages if path == "/images/edits" else OpenAIImages | OpenAIChat
    wires = [generator.wire for generator in generators if isinstance(generator, kinds)]
    services = {(wire.url, wire.key): wire for wire in wires}
    if len(services) != 1:
        number = "several services are" if services else "no service is"
        hint = "send the request to the service itself"
        raise HttpError(404, f"{number} behind the guards", code="not_forwarded", hint=hint)
    (service,) = services.values()
    try:
        async with asyncio.timeout(context.settings.limits.upstream_seconds):
            answer = await call(service.forward, path, body, content_type, request.headers.get("idempotency-key"))
    except ContentRefusedError as error:
        raise HttpError(
            error.status, error.message, code=error.code, hint=error.hint, headers=FORWARDED_HEADERS
        ) from None
    except TimeoutError:
        raise _forwarding_error(FetchError("no response arrived within upstream_seconds"), timed_out=True) from None
    except EvenhandError as error:
        raise _forwarding_error(error, timed_out=isinstance(error, FetchError) and error.timed_out) from None
    if answer.startswith((b"event:", b"data:")):  # edits with stream=true
        return Response(answer, media_type="text/event-stream", headers=FORWARDED_HEADERS | EVENT_STREAM_HEADERS)
    if not answer[:100].lstrip().startswith(b"{"):  # for example the page of a proxy
        raise _forwarding_error(ModelError("the answer is not a JSON object"), timed_out=False)
    return Response(answer, media_type="application/json", headers=FORWARDED_HEADERS)


def _forwarding_error(error: EvenhandError, *, timed_out: bool) -> HttpError:
    # The caller chooses the model and the route, either of which the service may lack.
    if (relayed := relayed_error(error, FORWARDED_HEADERS, {*RELAYED_STATUSES, 404})) is not None:
        return relayed
    # Callers do not receive the address of the service.
    logger.warning("a forwarded request failed: %s", error.message)
    hint = "retry later; the log of the service has the reason"
    if timed_out:
        message = "the service behind the guards did not answer in time"
        return HttpError(504, message, code="timeout", hint=hint, headers=FORWARDED_HEADERS)
    status = f" with status {error.status}" if isinstance(error, FetchError) and error.status else ""
    # The request has been retried, and each attempt may be charged.
    headers = {**FORWARDED_HEADERS, "x-should-retry": "false", **retry_after_header(error)}
    return HttpError(
        502, f"the service behind the guards failed{status}", code="generator_failed", hint=hint, headers=headers
    )

"""Guarded texts in the shape of OpenAI's responses: asked of the generator as a conversation."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Annotated, Any
from uuid import uuid4

from fastapi import APIRouter
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field

from evenhand.service.api.context import RequestContext
from evenhand.service.api.error_handlers import HttpError
from evenhand.service.api.json_bodies import JsonRoute
from evenhand.service.api.routes.generators import (
    GeneratingCaller,
    answer_conversation,
    disclosure_body,
    find_guard,
)
from evenhand.service.generation.generators import ConversationGenerator
from evenhand.service.generation.guards import ServedAnswer

router = APIRouter(prefix="/v1", tags=["generators"], route_class=JsonRoute)


REFUSED_ENTRIES = {
    "tools": "an answer that calls a tool shows nothing that could be looked at before it is acted on",
    "previous_response_id": "answers are not kept; give the earlier messages in input",
    "conversation": "conversations are not kept; give the earlier messages in input",
    "prompt": "prompts are not kept; give the text in input",
    "background": "answers are not made in the background",
}
"""Entries that cannot be guarded, and why."""

UNUSED_ENTRIES = ("store", "tool_choice", "parallel_tool_calls", "truncation", "include")
"""Options without an effect, because there are no tools and no stored responses."""


class ResponsesRequest(BaseModel):
    """A text or messages to answer; entries that are not named here are refused, unless they are handed on."""

    model_config = ConfigDict(
        extra="allow",
        json_schema_extra={"examples": [{"model": "stories", "input": "a story of a business leader"}]},
    )

    input: Annotated[str, Field(min_length=1)] | Annotated[list[dict[str, Any]], Field(min_length=1)]
    model: str | None = None
    instructions: str | None = None
    max_output_tokens: Annotated[int, Field(ge=1, strict=True)] | None = None
    reasoning: dict[str, Any] | None = None
    text: dict[str, Any] | None = None
    stream: bool | None = None


@router.post("/responses")
async def create_response(payload: ResponsesRequest, context: RequestContext, caller: GeneratingCaller) -> JSONResponse:
    """The answer to a text or a conversation, guarded as that of ``/v1/chat/completions``."""
    given = {name: value for name, value in (payload.model_extra or {}).items() if value}
    for name, why in REFUSED_ENTRIES.items():
        if name in given:
            raise HttpError(400, f"{name}: {why}", code="unsupported_parameter", hint=f"leave {name} out")
    if payload.stream:
        raise HttpError(
            400,
            "responses are not streamed: the whole text is looked at first",
            code="stream",
            hint="leave stream out, or ask /v1/chat/completions",
        )
    guard = find_guard(context, caller, payload.model, "text")
    given = {name: value for name, value in (payload.model_extra or {}).items() if name not in UNUSED_ENTRIES}
    given = {name: value for name, value in given.items() if name not in REFUSED_ENTRIES} | _converted_options(payload)
    served, talk, headers = await answer_conversation(context, guard, _messages(payload), given, route="responses")
    return JSONResponse(_build_response(served, talk, payload, payload.model or guard.models[0]), headers=headers)


def _converted_options(payload: ResponsesRequest) -> dict[str, Any]:
    """Convert options to their names in chat completions."""
    text = payload.text or {}
    form = text.get("format") or {}
    if not isinstance(form, dict):
        raise HttpError(
            400,
            f"expected an object as text.format, got {str(form)[:100]!r}",
            code="text",
            hint='for example {"type": "json_object"}',
        )
    if form.get("type") == "json_schema":
        form = {"type": "json_schema", "json_schema": {name: form[name] for name in form if name != "type"}}
    return {
        "max_completion_tokens": payload.max_output_tokens,
        "reasoning_effort": (payload.reasoning or {}).get("effort"),
        "verbosity": text.get("verbosity"),
        "response_format": form if form.get("type", "text") != "text" else None,
    }


def _messages(payload: ResponsesRequest) -> list[dict[str, Any]]:
    """Return the messages of a conversation.

    Raises:
        HttpError: the input has something else than messages of texts and pictures.
    """
    before = [{"role": "system", "content": payload.instructions}] if payload.instructions else []
    if isinstance(payload.input, str):
        return [*before, {"role": "user", "content": payload.input}]
    messages: list[dict[str, Any]] = []
    for item in payload.input:
        kind, role, content = item.get("type", "message"), item.get("role"), item.get("content")
        if kind != "message" or not isinstance(role, str):
            raise _unknown_input(f"an item of type {str(kind)[:100]!r}")
        if isinstance(content, list):
            content = [_part(part) for part in content]
        elif not isinstance(content, str):
            raise _unknown_input("a message without content")
        messages.append({"role": role, "content": content})
    return [*before, *messages]


def _part(part: Any) -> dict[str, Any]:
    kind = part.get("type") if isinstance(part, dict) else None
    if kind in ("input_text", "output_text") and isinstance(part.get("text"), str):
        return {"type": "text", "text": part["text"]}
    if kind == "input_image" and isinstance(part.get("image_url"), str):
        detail = {"detail": part["detail"]} if part.get("detail") else {}
        return {"type": "image_url", "image_url": {"url": part["image_url"], **detail}}
    raise _unknown_input(f"a part of type {str(kind)[:100]!r}")


def _unknown_input(what: str) -> HttpError:
    return HttpError(
        400,
        f"expected messages of texts and pictures in input, got {what}",
        code="input",
        hint='for example {"role": "user", "content": "..."}',
    )


def _build_response(
    found: ServedAnswer, talk: ConversationGenerator, payload: ResponsesRequest, model: str
) -> dict[str, Any]:
    item = found.answer.item
    answer = talk.said_of(item)
    choice = (answer.get("choices") or [{}])[0]
    part: dict[str, Any]
    if item is not None:
        part = {"type": "output_text", "text": item.text, "annotations": []}
    else:
        part = {"type": "refusal", "refusal": (choice.get("message") or {}).get("refusal") or "declined"}
    status = "incomplete" if choice.get("finish_reason") == "length" else "completed"
    name = uuid4().hex
    message = {"type": "message", "id": f"msg_{name}", "status": status, "role": "assistant", "content": [part]}
    usage = found.usage or answer.get("usage")
    return {
        "id": f"resp_{name}",
        "object": "response",
        "created_at": answer.get("created") or int(time.time()),
        "status": status,
        "error": None,
        "incomplete_details": {"reason": "max_output_tokens"} if status == "incomplete" else None,
        "instructions": payload.instructions,
        "metadata": (payload.model_extra or {}).get("metadata") or {},
        "model": model,
        "output": [message],
        "parallel_tool_calls": False,
        "tool_choice": "none",
        "tools": [],
        "store": False,
        **({"usage": _converted_usage(usage)} if usage else {}),
        "evenhand": disclosure_body(found.answer, found.number),
    }


def _converted_usage(usage: Mapping[str, Any]) -> dict[str, Any]:
    read, written = usage.get("prompt_tokens") or 0, usage.get("completion_tokens") or 0
    cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens") or 0
    thought = (usage.get("completion_tokens_details") or {}).get("reasoning_tokens") or 0
    return {
        "input_tokens": read,
        "input_tokens_details": {"cached_tokens": cached},
        "output_tokens": written,
        "output_tokens_details": {"reasoning_tokens": thought},
        "total_tokens": usage.get("total_tokens") or read + written,
    }

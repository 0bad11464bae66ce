"""Guarded texts in the format of OpenAI's responses. The generator receives a chat completion."""

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
    refuse_options,
)
from evenhand.service.generation.generators import ConversationGenerator
from evenhand.service.generation.guards import ServedAnswer

router = APIRouter(prefix="/v1", tags=["generators"], route_class=JsonRoute)


REFUSED_OPTIONS = {
    "tools": "the guard cannot check an answer that calls a tool",
    "previous_response_id": "answers are not stored; give the earlier messages in input",
    "conversation": "conversations are not stored; give the earlier messages in input",
    "prompt": "prompts are not stored; give the text in input",
    "background": "answers are not made in the background",
}
"""Options that are not passed on, and the reasons."""

UNUSED_OPTIONS = ("store", "tool_choice", "parallel_tool_calls", "truncation", "include")
"""Options without an effect, because there are no tools and no stored responses."""


class ResponsesRequest(BaseModel):
    """Text or messages to answer. Other entries are refused unless they are passed on."""

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
    """The answer to a text or a conversation, guarded like ``/v1/chat/completions``."""
    extra = payload.model_extra or {}
    refuse_options({name: value for name, value in extra.items() if value}, REFUSED_OPTIONS)
    if payload.stream:
        hint = "leave stream out, or ask /v1/chat/completions"
        raise HttpError(400, "responses are not streamed: the whole text is checked first", code="stream", hint=hint)
    guard = find_guard(context, caller, payload.model, "text")
    options = {name: extra[name] for name in extra if name not in (*UNUSED_OPTIONS, *REFUSED_OPTIONS)}
    options |= _converted_options(payload)
    served, generator, headers = await answer_conversation(
        context, guard, _messages(payload), options, route="responses"
    )
    return JSONResponse(_build_response(served, generator, payload, payload.model or guard.models[0]), headers=headers)


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
        HttpError: The input contains something other than messages of texts and pictures.
    """
    messages: list[dict[str, Any]] = []
    if payload.instructions:
        messages.append({"role": "system", "content": payload.instructions})
    if isinstance(payload.input, str):
        return [*messages, {"role": "user", "content": payload.input}]
    for item in payload.input:
        kind, role, content = item.get("type", "message"), item.get("role"), item.get("content")
        if kind != "message" or not isinstance(role, str):
            raise _input_error(f"an item of type {str(kind)[:100]!r}")
        if isinstance(content, list):
            content = [_part(part) for part in content]
        elif not isinstance(content, str):
            raise _input_error("a message without content")
        messages.append({"role": role, "content": content})
    return messages


def _part(part: Any) -> dict[str, Any]:
    kind = part.get("type") if isinstance(part, dict) else None
    if kind in ("input_text", "output_text") and isinstance(part.get("text"), str):
        return {"type": "text", "text": part["text"]}
    if kind == "input_image" and isinstance(part.get("image_url"), str):
        detail = {"detail": part["detail"]} if part.get("detail") else {}
        return {"type": "image_url", "image_url": {"url": part["image_url"], **detail}}
    raise _input_error(f"a part of type {str(kind)[:100]!r}")


def _input_error(received: str) -> HttpError:
    message = f"expected messages of texts and pictures in input, got {received}"
    return HttpError(400, message, code="input", hint='for example {"role": "user", "content": "..."}')


def _build_response(
    served: ServedAnswer, generator: ConversationGenerator, payload: ResponsesRequest, model: str
) -> dict[str, Any]:
    item = served.answer.item
    answer = generator.response_of(item)
    choice = (answer.get("choices") or [{}])[0]
    part: dict[str, Any]
    if item is not None:
        part = {"type": "output_text", "text": item.text, "annotations": []}
    else:
        part = {"type": "refusal", "refusal": (choice.get("message") or {}).get("refusal") or "declined"}
    status = "incomplete" if choice.get("finish_reason") == "length" else "completed"
    name = uuid4().hex
    usage = served.usage or answer.get("usage")
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
        "output": [{"type": "message", "id": f"msg_{name}", "status": status, "role": "assistant", "content": [part]}],
        "parallel_tool_calls": False,
        "tool_choice": "none",
        "tools": [],
        "store": False,
        **({"usage": _converted_usage(usage)} if usage else {}),
        "evenhand": disclosure_body(served),
    }


def _converted_usage(usage: Mapping[str, Any]) -> dict[str, Any]:
    inputs, outputs = usage.get("prompt_tokens") or 0, usage.get("completion_tokens") or 0
    cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens") or 0
    reasoning = (usage.get("completion_tokens_details") or {}).get("reasoning_tokens") or 0
    return {
        "input_tokens": inputs,
        "input_tokens_details": {"cached_tokens": cached},
        "output_tokens": outputs,
        "output_tokens_details": {"reasoning_tokens": reasoning},
        "total_tokens": usage.get("total_tokens") or inputs + outputs,
    }

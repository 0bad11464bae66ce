"""Texts, in the shape of OpenAI's interface."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Annotated, Any
from uuid import uuid4

from fastapi import APIRouter, Depends, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field

from evenhand.service.context import Context, context_of
from evenhand.service.disclosure import headers, told
from evenhand.service.faults import Fault
from evenhand.service.generators import TEXTS, Conversation, options_of
from evenhand.service.guards import Served
from evenhand.service.routes import examples
from evenhand.service.routes.asking import answered, guard_for
from evenhand.service.routes.examples import shown
from evenhand.service.security import requires

router = APIRouter(prefix="/v1", tags=["generators"])

Here = Annotated[Context, Depends(context_of)]

REFUSED = {
    "tools": "an answer that calls a tool shows nothing that could be looked at before it is acted on",
    "tool_choice": "tools are not handed on",
    "parallel_tool_calls": "tools are not handed on",
    "functions": "an answer that calls a function shows nothing that could be looked at before it is acted on",
    "function_call": "functions are not handed on",
    "web_search_options": "tools are not handed on",
    "audio": "answers are texts",
    "prediction": "answers are not predicted",
}
"""Entries that are not handed on, and why."""

PIECE = 200
"""Characters in one event."""


class ChatRequest(BaseModel):
    """A conversation; entries that are not named here are refused, unless they are handed on."""

    model_config = ConfigDict(
        extra="allow",
        json_schema_extra={
            "examples": [
                {"model": "stories", "messages": [{"role": "user", "content": "a story of a business leader"}]}
            ]
        },
    )

    messages: Annotated[list[dict[str, Any]], Field(min_length=1)]
    model: str | None = None
    n: Annotated[int, Field(ge=1, strict=True)] | None = None
    stream: bool | None = None
    stream_options: dict[str, Any] | None = None
    modalities: list[str] | None = None


@router.post("/chat/completions", dependencies=[requires("generate")], responses=shown(examples.TEXT))
async def complete(asked: ChatRequest, here: Here) -> Response:
    """The next message of a conversation.

    The guard reads the last message of the user, and puts what must be asked for behind it. With ``stream`` the answer
    is made and looked at as a whole, and only then sent in pieces; ``x-evenhand-buffered`` says so.
    """
    given = {name: value for name, value in (asked.model_extra or {}).items() if value is not None and value != []}
    _check(asked, given)
    guard = guard_for(here, asked.model, "text")
    options = options_of(given, {*TEXTS, *guard.entry.pass_on})
    talk = Conversation(guard.workbench.generator, asked.messages, options)
    wanted = [guard.request(talk.prompt, generator=talk, route="chat")]
    (found,), _none = await answered(guard, wanted, here.settings.limits.upstream_seconds, what="answer")
    said = headers([found.answer], [found.number])
    if talk.ignored:
        said["x-evenhand-ignored"] = ", ".join(talk.ignored)
    whole = _completion(found, talk, asked.model or guard.models[0])
    if not asked.stream:
        return JSONResponse(whole, headers=said)
    usage = bool((asked.stream_options or {}).get("include_usage"))
    events = "".join(f"data: {json.dumps(event)}\n\n" for event in _events(whole, usage=usage))
    said |= {"x-evenhand-buffered": "true", "cache-control": "no-cache"}
    return Response(f"{events}data: [DONE]\n\n", media_type="text/event-stream", headers=said)


def _check(asked: ChatRequest, given: dict[str, Any]) -> None:
    for name, why in REFUSED.items():
        if name in given:
            raise Fault(400, f"{name}: {why}", code="unsupported_parameter", mend=f"leave {name} out")
    if asked.n not in (None, 1):
        raise Fault(400, "every answer is a request of its own", code="n", mend=f"ask {asked.n} times")
    if asked.modalities not in (None, ["text"]):
        raise Fault(400, "answers are texts", code="modalities", mend="leave modalities out")


def _completion(found: Served, talk: Conversation, model: str) -> dict[str, Any]:
    """The whole answer: what the service said of it, as far as OpenAI's interface has it."""
    item = found.answer.item
    assert item is not None
    if item.kind != "text":
        raise Fault(400, "this model makes pictures", code="model", mend="ask /v1/images/generations")
    answer = talk.answer or {}
    choice = (answer.get("choices") or [{}])[0]
    message = {"role": "assistant", "content": item.text, "refusal": None}
    return {
        "id": answer.get("id") or f"chatcmpl-{uuid4().hex}",
        "object": "chat.completion",
        "created": answer.get("created") or int(time.time()),
        "model": model,
        "choices": [
            {
                "index": 0,
                "message": message,
                "finish_reason": choice.get("finish_reason") or "stop",
                "logprobs": choice.get("logprobs"),
            }
        ],
        **{name: answer[name] for name in ("usage", "system_fingerprint", "service_tier") if answer.get(name)},
        "evenhand": told(found.answer, found.number),
    }


def _events(whole: dict[str, Any], *, usage: bool) -> Iterator[dict[str, Any]]:
    """An answer in pieces."""
    choice = whole["choices"][0]
    text = choice["message"]["content"]
    names = ("id", "created", "model", "system_fingerprint", "service_tier")
    head: dict[str, Any] = {name: whole[name] for name in names if name in whole}
    head["object"] = "chat.completion.chunk"
    if usage:
        head["usage"] = None

    def event(delta: dict[str, Any], **more: Any) -> dict[str, Any]:
        return {**head, "choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": None, **more}]}

    yield event({"role": "assistant", "content": "", "refusal": None})
    for begin in range(0, len(text), PIECE):
        more = {"logprobs": choice["logprobs"]} if begin == 0 else {}
        yield event({"content": text[begin : begin + PIECE]}, **more)
    yield {**event({}, finish_reason=choice["finish_reason"]), "evenhand": whole["evenhand"]}
    if usage:
        yield {**head, "choices": [], "usage": whole.get("usage")}

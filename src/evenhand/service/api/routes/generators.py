"""Guarded generators in the format of OpenAI's interface: pictures, chat completions and models."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Annotated, Any, Literal
from uuid import uuid4

from fastapi import APIRouter, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field

from evenhand.genai.backends.generator import add_usage
from evenhand.genai.enforcement.guard import AnswerStatus, GuardedAnswer
from evenhand.genai.enforcement.supply import PartFailure
from evenhand.service.api.context import RequestContext, ServiceContext
from evenhand.service.api.error_handlers import (
    EVENT_STREAM_HEADERS,
    HttpError,
    relayed_error,
    retry_after_header,
)
from evenhand.service.api.json_bodies import JsonRoute
from evenhand.service.auth.access import limited_key_error, require_scope
from evenhand.service.auth.keys import ApiKey
from evenhand.service.generation.generators import (
    PICTURE_OPTIONS,
    TEXT_OPTIONS,
    ConversationGenerator,
    OutputKind,
    known_options,
    with_picture_options,
)
from evenhand.service.generation.guarded_request import GuardedRequest, ServedAnswer
from evenhand.service.generation.guards import ServedGuard

router = APIRouter(prefix="/v1", tags=["generators"], route_class=JsonRoute)

GeneratingCaller = Annotated[ApiKey, require_scope("generate", filtered=True)]
"""API key that may request items. A key may be limited to some guards."""

ROUTES_BY_OUTPUT: dict[OutputKind, str] = {"image": "/v1/images/generations", "text": "/v1/chat/completions"}

STATUSES_BY_SEVERITY: tuple[AnswerStatus, ...] = ("ok", "violation", "unguarded", "refused")

MAX_HEADER_LENGTH = 4000
"""Maximum length of a header."""


def find_guard(context: ServiceContext, caller: ApiKey, model: str | None, makes: OutputKind) -> ServedGuard:
    """Return the guard of a request.

    Raises:
        HttpError: The guard does not exist or has a different kind of output, or the request must name one.
        AccessError: The caller's key is limited to other guards.
    """
    suitable = {}
    for guard in context.guards.values():
        is_suitable, is_allowed = guard.makes in (makes, "either"), caller.may_use(guard.name)
        if model in guard.models:
            if not is_allowed:
                raise limited_key_error(caller)
            if not is_suitable:
                route = ROUTES_BY_OUTPUT.get(guard.makes)
                hint = f"ask {route}" if route else "it only serves the guardrail of a gateway"
                raise HttpError(400, f"the model {model!r} generates another kind of output", code="model", hint=hint)
            return guard
        if is_suitable and is_allowed:
            suitable[", ".join(guard.models)] = guard
    names = ", ".join(suitable)
    if model is not None:
        hint = f"one of: {names or 'none is served'}"
        raise HttpError(404, f"there is no model {model[:100]!r}", code="model_not_found", hint=hint)
    if len(suitable) != 1:
        raise HttpError(400, "the request names no model", code="model", hint=f"one of: {names or '-'}")
    return suitable[names]


async def answer_request(
    guard: ServedGuard, request: GuardedRequest, seconds: float, *, noun: str
) -> tuple[list[ServedAnswer], int]:
    """Return the items or the refusal of the model, and the number of missing items.

    Raises:
        HttpError: There is no item at all.
        EvenhandError: The request was not carried out.
    """
    error: BaseException | None = None
    answered: list[ServedAnswer] = []
    missing: list[ServedAnswer] = []
    for outcome in await guard.serve(request, seconds):
        if isinstance(outcome, BaseException):
            error = error or outcome
        # A model may decline in an ordinary answer, which clients can read.
        elif outcome.answer.item is not None or ((refusal := outcome.answer.refusal) and refusal.status == 200):
            answered.append(outcome)
        else:
            missing.append(outcome)
    if answered:
        return answered, request.count - len(answered)
    raise error or _missing_item_error(missing, noun)


def disclosure_headers(bodies: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Return the headers about the guard from results of `disclosure_body`. The status is the worst of all answers."""
    status: AnswerStatus = "ok"
    guarded, changed = True, False
    disclosures: list[str] = []
    entries: list[str] = []
    for body in bodies:
        status = max(status, body["status"], key=STATUSES_BY_SEVERITY.index)
        guarded, changed = guarded and body["guarded"], changed or body["changed"]
        disclosures.append(body["disclosure"])
        if body["entry"] is not None:
            entries.append(str(body["entry"]))
    return {
        "x-evenhand-guarded": json.dumps(guarded),
        "x-evenhand-status": status,
        "x-evenhand-changed": json.dumps(changed),
        "x-evenhand-disclosure": " | ".join(disclosures)[:MAX_HEADER_LENGTH],
        "x-evenhand-entry": ", ".join(entries),
    }


def disclosure_body(served: ServedAnswer) -> dict[str, Any]:
    """Return the part of a response body about the guard."""
    answer = served.answer
    return {
        "guarded": answer.status != "unguarded",
        "status": answer.status,
        "changed": answer.changed,
        "disclosure": answer.disclosure,
        "reason": _public_reason(answer),
        "entry": served.number,
        **({"cost": round(answer.cost, 9)} if answer.cost else {}),
    }


def _public_reason(answer: GuardedAnswer) -> str:
    """Return the reason for the status without messages of other services, which may contain addresses."""
    return "; ".join(filter(None, (answer.notice, *(failure.summary for failure in answer.failures))))


def _missing_item_error(answers: Sequence[ServedAnswer], noun: str) -> HttpError:
    """Build the error of a request without any item, from the last answer."""
    headers = disclosure_headers(map(disclosure_body, answers))
    # The guard has used all of its attempts.
    final = {**headers, "x-should-retry": "false"}
    answer = answers[-1].answer
    failure = answer.failures[-1] if answer.failures else PartFailure("generator")
    if (refusal := answer.refusal) is not None:
        return HttpError(refusal.status, refusal.message, code=refusal.code, hint=refusal.hint, headers=final)
    if answer.budget is not None:
        hint = "request fewer items, or raise request under budget of the guard"
        return HttpError(429, f"there is no {noun}: {answer.budget.message}", code="budget", hint=hint, headers=final)
    if failure.part == "generator" and (relayed := relayed_error(failure.error, headers)) is not None:
        return relayed
    message = f"there is no {noun}: {_public_reason(answer) or 'none was made'}"
    if failure.timed_out and failure.part in ("guard", "generator"):
        return HttpError(504, message, code="timeout", hint="retry later, or request fewer items", headers=headers)
    entries = headers["x-evenhand-entry"]
    return HttpError(
        503 if failure.part in ("judge", "store") else 502,
        message,
        code=f"{failure.part}_failed",
        hint=f"retry later; the log of the service has the details{f' in entry {entries}' if entries else ''}",
        headers=final | retry_after_header(failure.error),
    )


# Pictures.


class ImagesRequest(BaseModel):
    """Prompt for pictures. Other entries are refused unless the guard forwards them."""

    model_config = ConfigDict(
        extra="allow",
        json_schema_extra={"examples": [{"model": "studio", "prompt": "a business leader", "n": 1}]},
    )

    prompt: Annotated[str, Field(min_length=1, max_length=32_000)]
    model: str | None = None
    n: Annotated[int, Field(ge=1, le=10, strict=True)] | None = None
    response_format: Literal["b64_json"] | None = None
    stream: bool | None = None


@router.post("/images/generations", response_model=dict[str, Any])
async def generate_images(
    payload: ImagesRequest, response: Response, context: RequestContext, caller: GeneratingCaller
) -> Any:
    """Pictures for a prompt. The guard decides each of them separately.

    If only some of several pictures could be made, those are returned, and ``x-evenhand-missing`` counts the others.
    """
    if payload.stream:
        raise HttpError(400, "pictures cannot be streamed", code="stream", hint="omit stream")
    guard = find_guard(context, caller, payload.model, "image")
    options = known_options(payload.model_extra or {}, {*PICTURE_OPTIONS, *guard.entry.pass_on})
    generator, ignored = with_picture_options(guard.pipeline.generator, options)
    request = GuardedRequest(guard, payload.prompt, generator, route="images", count=payload.n or 1)
    seconds = context.settings.limits.upstream_seconds
    answers, missing = await answer_request(guard, request, seconds, noun="picture")
    data: list[dict[str, Any]] = []
    usage: dict[str, Any] = {}
    for answer in answers:
        data.append(_picture_answer(answer))
        usage = add_usage(usage, answer.usage)
    response.headers.update(disclosure_headers(map(itemgetter("evenhand"), data)))
    if missing:
        response.headers["x-evenhand-missing"] = str(missing)
    if ignored:
        response.headers["x-evenhand-ignored"] = ", ".join(ignored)
    return {"created": int(time.time()), "data": data, **({"usage": usage} if usage else {})}


def _picture_answer(served: ServedAnswer) -> dict[str, Any]:
    answer, item = served.answer, served.answer.item
    assert item is not None
    if item.kind != "image":
        raise HttpError(400, "this model generates texts", code="model", hint="ask /v1/chat/completions")
    fields: dict[str, Any] = {"evenhand": disclosure_body(served)}
    # The backend uses its own revision of a prompt if it made one, and otherwise the prompt that it received.
    if answer.changed or item.revised_prompt not in ("", answer.prompt):
        fields["revised_prompt"] = item.revised_prompt or answer.prompt
    return {"b64_json": base64.b64encode(item.data).decode(), **fields}


# Texts.

REFUSED_OPTIONS = {
    "tools": "the guard cannot check an answer that calls a tool",
    "tool_choice": "tools are not passed on",
    "parallel_tool_calls": "tools are not passed on",
    "functions": "the guard cannot check an answer that calls a function",
    "function_call": "functions are not passed on",
    "web_search_options": "tools are not passed on",
    "audio": "the guard returns texts only",
    "prediction": "predicted outputs are not supported",
}
"""Options that are not forwarded, with the reasons."""

PIECE_LENGTH = 200
"""Number of characters in one event."""


class ChatRequest(BaseModel):
    """Conversation. Other entries are refused unless they are forwarded."""

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


@router.post("/chat/completions")
async def complete_chat(payload: ChatRequest, context: RequestContext, caller: GeneratingCaller) -> Response:
    """The next message of a conversation.

    The guard reads the user's last message and appends its instruction. With ``stream``, the whole answer is
    checked before it is sent in pieces, as ``x-evenhand-buffered`` indicates.
    """
    options = {name: value for name, value in (payload.model_extra or {}).items() if value is not None and value != []}
    for name, reason in REFUSED_OPTIONS.items():
        if name in options:
            raise HttpError(400, f"{name}: {reason}", code="unsupported_parameter", hint=f"omit {name}")
    if payload.n not in (None, 1):
        raise HttpError(400, "a request has one answer", code="n", hint=f"send {payload.n} requests")
    if payload.modalities not in (None, ["text"]):
        raise HttpError(400, "answers are texts", code="modalities", hint="omit modalities")
    guard = find_guard(context, caller, payload.model, "text")
    options = known_options(options, {*TEXT_OPTIONS, *guard.entry.pass_on})
    generator = ConversationGenerator(guard.pipeline.generator, payload.messages, options)
    request = GuardedRequest(guard, generator.prompt, generator, route="chat")
    (served,), _missing = await answer_request(guard, request, context.settings.limits.upstream_seconds, noun="answer")
    if served.answer.item is not None and served.answer.item.kind != "text":
        raise HttpError(400, "this model generates pictures", code="model", hint="ask /v1/images/generations")
    completion = _build_completion(served, generator, payload.model or guard.models[0])
    headers = disclosure_headers([completion["evenhand"]])
    if generator.ignored:
        headers["x-evenhand-ignored"] = ", ".join(generator.ignored)
    if not payload.stream:
        return JSONResponse(completion, headers=headers)
    usage = bool((payload.stream_options or {}).get("include_usage"))
    events = "".join(f"data: {json.dumps(event)}\n\n" for event in _completion_events(completion, usage=usage))
    headers |= {"x-evenhand-buffered": "true", **EVENT_STREAM_HEADERS}
    return Response(f"{events}data: [DONE]\n\n", media_type="text/event-stream", headers=headers)


def _build_completion(served: ServedAnswer, generator: ConversationGenerator, model: str) -> dict[str, Any]:
    """Build the completion in OpenAI's format."""
    item = served.answer.item
    answer = generator.response_of(item)
    choice = (answer.get("choices") or [{}])[0]
    refusal = None if item is not None else (choice.get("message") or {}).get("refusal")
    content = None if item is None else item.text
    return {
        "id": answer.get("id") or f"chatcmpl-{uuid4().hex}",
        "object": "chat.completion",
        "created": answer.get("created") or int(time.time()),
        "model": model,
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": content, "refusal": refusal},
                "finish_reason": choice.get("finish_reason") or "stop",
                "logprobs": choice.get("logprobs"),
            }
        ],
        **({"usage": dict(usage)} if (usage := served.usage or answer.get("usage")) else {}),
        **{name: answer[name] for name in ("system_fingerprint", "service_tier") if answer.get(name)},
        "evenhand": disclosure_body(served),
    }


def _completion_events(completion: dict[str, Any], *, usage: bool) -> Iterator[dict[str, Any]]:
    """Yield a completion in pieces."""
    choice = completion["choices"][0]
    text = choice["message"]["content"] or ""
    names = ("id", "created", "model", "system_fingerprint", "service_tier")
    head: dict[str, Any] = {name: completion[name] for name in names if name in completion}
    head["object"] = "chat.completion.chunk"
    if usage:
        head["usage"] = None

    def event(delta: dict[str, Any], **more: Any) -> dict[str, Any]:
        return {**head, "choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": None, **more}]}

    yield event({"role": "assistant", "content": "", "refusal": choice["message"]["refusal"]})
    for start in range(0, len(text), PIECE_LENGTH):
        more = {"logprobs": choice["logprobs"]} if start == 0 else {}
        yield event({"content": text[start : start + PIECE_LENGTH]}, **more)
    yield {**event({}, finish_reason=choice["finish_reason"]), "evenhand": completion["evenhand"]}
    if usage:
        yield {**head, "choices": [], "usage": completion.get("usage")}


# The models that clients can request.


@router.get("/models")
async def list_models(context: RequestContext, caller: GeneratingCaller) -> dict[str, Any]:
    """All guarded generators that the key may use, under each of their names."""
    return {"object": "list", "data": _describe_models(context, caller)}


@router.get("/models/{name:path}")
async def get_model(name: str, context: RequestContext, caller: GeneratingCaller) -> dict[str, Any]:
    """One guarded generator."""
    for model in _describe_models(context, caller):
        if model["id"] == name:
            return model
    raise HttpError(404, f"there is no model {name[:100]!r}", code="model_not_found", hint="see /v1/models")


def _describe_models(context: ServiceContext, caller: ApiKey) -> list[dict[str, Any]]:
    return [
        {"id": name, "object": "model", "created": 0, "owned_by": "evenhand", "makes": guard.makes}
        for guard in context.guards.values()
        if guard.makes != "nothing" and caller.may_use(guard.name)
        for name in guard.models
    ]

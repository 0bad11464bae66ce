"""Guarded generators, in the shape of OpenAI's interface: pictures, texts, and the models there are."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import reduce
from typing import Annotated, Any, Literal, TypeGuard
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
from evenhand.service.auth.keys import Caller, limited_key_error, require_scope
from evenhand.service.generation.generators import (
    PICTURE_OPTIONS,
    TEXT_OPTIONS,
    ConversationGenerator,
    OutputKind,
    known_options,
    with_picture_options,
)
from evenhand.service.generation.guards import GuardedRequest, Served, ServedAnswer, ServedGuard

router = APIRouter(prefix="/v1", tags=["generators"], route_class=JsonRoute)

GeneratingCaller = Annotated[Caller, require_scope("generate", filtered=True)]
"""Who asks for items; a key may be for some guards alone."""

ROUTES_BY_OUTPUT: dict[OutputKind, str] = {"image": "/v1/images/generations", "text": "/v1/chat/completions"}


def find_guard(context: ServiceContext, caller: Caller, model: str | None, makes: OutputKind) -> ServedGuard:
    """Return the guard that a request means.

    Raises:
        Fault: there is none of that name, or it makes other things, or the request names none and there are several.
        AccessError: the caller's key is for others alone.
    """
    mine = [guard for guard in context.guards.values() if caller.may_use(guard.name)]
    able = [guard for guard in mine if guard.makes in (makes, "either")]
    if model is None:
        if len(able) == 1:
            return able[0]
        raise HttpError(
            400, "the request names no model", code="model", hint=f"one of: {', '.join(_quote_models(able)) or '-'}"
        )
    for guard in context.guards.values():
        if model in guard.models:
            if guard not in mine:
                raise limited_key_error(caller)
            if guard in able:
                return guard
            where = ROUTES_BY_OUTPUT.get(guard.makes)
            raise HttpError(
                400,
                f"the model {model!r} does not make this",
                code="model",
                hint=f"ask {where}" if where else "it is there for a gateway's guardrail alone",
            )
    raise HttpError(
        404,
        f"there is no model {model[:100]!r}",
        code="model_not_found",
        hint=f"one of: {', '.join(_quote_models(able)) or 'none is served'}",
    )


async def answer_request(
    guard: ServedGuard, request: GuardedRequest, seconds: float, *, what: str
) -> tuple[list[ServedAnswer], int]:
    """Return the items or the refusal of the model, and the number of missing items.

    Raises:
        HttpError: There is no item at all.
        EvenhandError: The request was not carried out.
    """
    outcomes = await guard.serve(request, seconds)
    answered = [outcome for outcome in outcomes if is_answered(outcome)]
    if answered:
        return answered, len(outcomes) - len(answered)
    raise unanswered_error(outcomes, what=what)


def is_answered(outcome: Served) -> TypeGuard[ServedAnswer]:
    """Return whether there is an item or a refusal of the model."""
    return isinstance(outcome, ServedAnswer) and (outcome.answer.item is not None or _is_declined(outcome.answer))


def unanswered_error(outcomes: Sequence[Served], *, what: str) -> BaseException:
    """Return the error of a request without any item."""
    for outcome in outcomes:
        if isinstance(outcome, BaseException):
            return outcome
    served = [outcome for outcome in outcomes if isinstance(outcome, ServedAnswer)]
    return missing_item_error([answer.answer for answer in served], [answer.number for answer in served], what=what)


def _is_declined(answer: GuardedAnswer) -> bool:
    """Return whether a model declined in an ordinary answer, which clients are to read as one."""
    return answer.refusal is not None and answer.refusal.status == 200


def _quote_models(guards: Sequence[ServedGuard]) -> list[str]:
    return [name for guard in guards for name in guard.models]


# Disclosure of what the guard did. Messages of other services are only logged.

STATUSES_BY_SEVERITY: tuple[AnswerStatus, ...] = ("ok", "violation", "unguarded", "refused")

MAX_HEADER_LENGTH = 4000
"""Characters of a header."""


def public_reason(answer: GuardedAnswer) -> str:
    """Return the reason for the status without messages of other services, which may contain addresses."""
    return "; ".join(filter(None, (answer.notice, *(failure.summary for failure in answer.failures))))


def disclosure_headers(answers: Sequence[GuardedAnswer], numbers: Sequence[int | None]) -> dict[str, str]:
    """Return the headers that every answer of a guarded generator carries; of several answers what is worst.

    Args:
        answers: of which those without an item count too.
        numbers: of their entries in the log.
    """
    status = max((answer.status for answer in answers), key=STATUSES_BY_SEVERITY.index)
    return {
        "x-evenhand-guarded": _format_flag(all(answer.status != "unguarded" for answer in answers)),
        "x-evenhand-status": status,
        "x-evenhand-changed": _format_flag(any(answer.changed for answer in answers)),
        "x-evenhand-disclosure": " | ".join(answer.disclosure for answer in answers)[:MAX_HEADER_LENGTH],
        "x-evenhand-entry": ", ".join(str(number) for number in numbers if number is not None),
    }


def disclosure_body(answer: GuardedAnswer, number: int | None) -> dict[str, Any]:
    """Return the same of one answer, for its body."""
    return {
        "guarded": answer.status != "unguarded",
        "status": answer.status,
        "changed": answer.changed,
        "disclosure": answer.disclosure,
        "reason": public_reason(answer),
        "entry": number,
        **({"cost": round(answer.cost, 9)} if answer.cost else {}),
    }


def missing_item_error(answers: Sequence[GuardedAnswer], numbers: Sequence[int | None], *, what: str) -> HttpError:
    """Return the error of a request without any item, from the last answer."""
    headers = disclosure_headers(answers, numbers)
    # The guard has retried as often as it may.
    final = {**headers, "x-should-retry": "false"}
    worst = answers[-1]
    failure = worst.failures[-1] if worst.failures else PartFailure("generator")
    if worst.refusal is not None:
        refusal = worst.refusal
        return HttpError(refusal.status, refusal.message, code=refusal.code, hint=refusal.hint, headers=final)
    if worst.budget is not None:
        return HttpError(
            429,
            f"there is no {what}: {worst.budget.message}",
            code="budget",
            hint="ask for less, or raise request under budget of the guard",
            headers=final,
        )
    if failure.part == "generator" and (relayed := relayed_error(failure.error, headers)) is not None:
        return relayed
    if failure.timed_out and failure.part in ("guard", "generator"):
        return HttpError(
            504,
            f"there is no {what}: {public_reason(worst)}",
            code="timeout",
            hint="ask again later, or for less",
            headers=headers,
        )
    entries = ", ".join(str(number) for number in numbers if number is not None)
    return HttpError(
        503 if failure.part in ("judge", "store") else 502,
        f"there is no {what}: {public_reason(worst) or 'none was made'}",
        code=f"{failure.part}_failed",
        hint=f"ask again later; the log of the service has the details{f' in entry {entries}' if entries else ''}",
        headers=final | retry_after_header(failure.error),
    )


def _format_flag(said: bool) -> str:
    return "true" if said else "false"


# Pictures.


class ImagesRequest(BaseModel):
    """A prompt for pictures; entries that are not named here are refused, unless the guard passes them on."""

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
        raise HttpError(400, "pictures are not streamed", code="stream", hint="leave stream out")
    guard = find_guard(context, caller, payload.model, "image")
    options = known_options(payload.model_extra or {}, {*PICTURE_OPTIONS, *guard.entry.pass_on})
    generator, ignored = with_picture_options(guard.pipeline.generator, options)
    wanted = guard.request(payload.prompt, generator=generator, route="images", count=payload.n or 1)
    seconds = context.settings.limits.upstream_seconds
    answers, missing = await answer_request(guard, wanted, seconds, what="picture")
    response.headers.update(
        disclosure_headers([answer.answer for answer in answers], [answer.number for answer in answers])
    )
    if missing:
        response.headers["x-evenhand-missing"] = str(missing)
    if ignored:
        response.headers["x-evenhand-ignored"] = ", ".join(ignored)
    usage = reduce(add_usage, (answer.usage for answer in answers), dict[str, Any]())
    data = [_picture_answer(answer) for answer in answers]
    return {"created": int(time.time()), "data": data, **({"usage": usage} if usage else {})}


def _picture_answer(one: ServedAnswer) -> dict[str, Any]:
    item = one.answer.item
    assert item is not None
    if item.kind != "image":
        raise HttpError(400, "this model makes texts", code="model", hint="ask /v1/chat/completions")
    fields: dict[str, Any] = {"evenhand": disclosure_body(one.answer, one.number)}
    # The service's own rewriting is what was drawn; ours is what it was asked for.
    if one.answer.changed or item.revised_prompt not in ("", one.answer.prompt):
        fields["revised_prompt"] = item.revised_prompt or one.answer.prompt
    return {"b64_json": base64.b64encode(item.data).decode(), **fields}


# Texts.

REFUSED_OPTIONS = {
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

PIECE_LENGTH = 200
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


@router.post("/chat/completions")
async def complete_chat(payload: ChatRequest, context: RequestContext, caller: GeneratingCaller) -> Response:
    """The next message of a conversation.

    The guard reads the last message of the user, and puts what must be asked for behind it. With ``stream`` the answer
    is made and looked at as a whole, and only then sent in pieces; ``x-evenhand-buffered`` says so.
    """
    given = {name: value for name, value in (payload.model_extra or {}).items() if value is not None and value != []}
    _check_request(payload, given)
    guard = find_guard(context, caller, payload.model, "text")
    served, talk, headers = await answer_conversation(context, guard, payload.messages, given, route="chat")
    whole = _build_completion(served, talk, payload.model or guard.models[0])
    if not payload.stream:
        return JSONResponse(whole, headers=headers)
    usage = bool((payload.stream_options or {}).get("include_usage"))
    events = "".join(f"data: {json.dumps(event)}\n\n" for event in _completion_events(whole, usage=usage))
    headers |= {"x-evenhand-buffered": "true", **EVENT_STREAM_HEADERS}
    return Response(f"{events}data: [DONE]\n\n", media_type="text/event-stream", headers=headers)


def _check_request(payload: ChatRequest, given: dict[str, Any]) -> None:
    for name, why in REFUSED_OPTIONS.items():
        if name in given:
            raise HttpError(400, f"{name}: {why}", code="unsupported_parameter", hint=f"leave {name} out")
    if payload.n not in (None, 1):
        raise HttpError(400, "every answer is a request of its own", code="n", hint=f"ask {payload.n} times")
    if payload.modalities not in (None, ["text"]):
        raise HttpError(400, "answers are texts", code="modalities", hint="leave modalities out")


async def answer_conversation(
    context: ServiceContext,
    guard: ServedGuard,
    messages: Sequence[Mapping[str, Any]],
    given: dict[str, Any],
    *,
    route: str,
) -> tuple[ServedAnswer, ConversationGenerator, dict[str, str]]:
    """Answer a conversation, and return the answer, the generator that was asked, and the headers of the response.

    Raises:
        HttpError: An option is unknown, or there is no text.
        EvenhandError: The request was not carried out.
    """
    options = known_options(given, {*TEXT_OPTIONS, *guard.entry.pass_on})
    talk = ConversationGenerator(guard.pipeline.generator, messages, options)
    request = guard.request(talk.prompt, generator=talk, route=route)
    (served,), _missing = await answer_request(guard, request, context.settings.limits.upstream_seconds, what="answer")
    item = served.answer.item
    if item is not None and item.kind != "text":
        raise HttpError(400, "this model makes pictures", code="model", hint="ask /v1/images/generations")
    headers = disclosure_headers([served.answer], [served.number])
    if talk.ignored:
        headers["x-evenhand-ignored"] = ", ".join(talk.ignored)
    return served, talk, headers


def _build_completion(found: ServedAnswer, talk: ConversationGenerator, model: str) -> dict[str, Any]:
    """Build the completion in OpenAI's format."""
    item = found.answer.item
    answer = talk.said_of(item)
    choice = (answer.get("choices") or [{}])[0]
    message: dict[str, Any] = {"role": "assistant", "content": None, "refusal": None}
    if item is not None:
        message["content"] = item.text
    else:
        message["refusal"] = (choice.get("message") or {}).get("refusal")
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
        **({"usage": dict(usage)} if (usage := found.usage or answer.get("usage")) else {}),
        **{name: answer[name] for name in ("system_fingerprint", "service_tier") if answer.get(name)},
        "evenhand": disclosure_body(found.answer, found.number),
    }


def _completion_events(whole: dict[str, Any], *, usage: bool) -> Iterator[dict[str, Any]]:
    """Yield an answer in pieces."""
    choice = whole["choices"][0]
    text = choice["message"]["content"] or ""
    names = ("id", "created", "model", "system_fingerprint", "service_tier")
    head: dict[str, Any] = {name: whole[name] for name in names if name in whole}
    head["object"] = "chat.completion.chunk"
    if usage:
        head["usage"] = None

    def event(delta: dict[str, Any], **more: Any) -> dict[str, Any]:
        return {**head, "choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": None, **more}]}

    yield event({"role": "assistant", "content": "", "refusal": choice["message"]["refusal"]})
    for begin in range(0, len(text), PIECE_LENGTH):
        more = {"logprobs": choice["logprobs"]} if begin == 0 else {}
        yield event({"content": text[begin : begin + PIECE_LENGTH]}, **more)
    yield {**event({}, finish_reason=choice["finish_reason"]), "evenhand": whole["evenhand"]}
    if usage:
        yield {**head, "choices": [], "usage": whole.get("usage")}


# The models that clients can ask for.


@router.get("/models")
async def list_models(context: RequestContext, caller: GeneratingCaller) -> dict[str, Any]:
    """Every guarded generator that the key is for, under every name that it has."""
    return {"object": "list", "data": _describe_models(context, caller)}


@router.get("/models/{name:path}")
async def get_model(name: str, context: RequestContext, caller: GeneratingCaller) -> dict[str, Any]:
    """One of them."""
    for model in _describe_models(context, caller):
        if model["id"] == name:
            return model
    raise HttpError(404, f"there is no model {name[:100]!r}", code="model_not_found", hint="see /v1/models")


def _describe_models(context: ServiceContext, caller: Caller) -> list[dict[str, Any]]:
    return [
        {"id": name, "object": "model", "created": 0, "owned_by": "evenhand", "makes": guard.makes}
        for guard in context.guards.values()
        if guard.makes != "nothing" and caller.may_use(guard.name)
        for name in guard.models
    ]

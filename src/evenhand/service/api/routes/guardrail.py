"""Guardrail that LiteLLM's generic guardrail calls before a model is called, and again with its answer.

The contract is LiteLLM's: https://docs.litellm.ai/docs/adding_provider/generic_guardrail_api
"""

from __future__ import annotations

import base64
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Response
from pydantic import BaseModel, ConfigDict, Field

from evenhand.genai.backends.generator import Item
from evenhand.genai.backends.openai_service import detect_media_type
from evenhand.service.api.context import RequestContext, ServiceContext
from evenhand.service.api.error_handlers import HttpError
from evenhand.service.api.json_bodies import JsonRoute
from evenhand.service.auth.access import limited_key_error, require_scope
from evenhand.service.auth.keys import ApiKey
from evenhand.service.generation.generators import join_texts, last_user_messages, replace_texts
from evenhand.service.generation.guardrail import GuardrailVerdict
from evenhand.service.generation.guards import ServedGuard

router = APIRouter(tags=["guardrail"], route_class=JsonRoute)

CALL_ID_REASON = """It matches the two calls: without it the service cannot tell which item belongs to which request."""


class GuardrailRequest(BaseModel):
    """Request of LiteLLM."""

    model_config = ConfigDict(
        extra="allow",
        json_schema_extra={
            "examples": [
                {
                    "texts": ["a story of a business leader"],
                    "input_type": "request",
                    "litellm_call_id": "0c9b1c26-3a5e-4c3f-9f8e-0c5a5c0b9a11",
                    "additional_provider_specific_params": {"guard": "stories"},
                }
            ]
        },
    )

    texts: list[str] | None = None
    images: list[str] | None = None
    structured_messages: list[dict[str, Any]] | None = None
    input_type: Literal["request", "response"]
    litellm_call_id: Annotated[str, Field(min_length=1, max_length=180, description=CALL_ID_REASON)] | None = None
    model: str | None = None
    additional_provider_specific_params: dict[str, Any] | None = None


@router.post(
    "/beta/litellm_basic_guardrail_api",
)
async def check_guardrail(
    payload: GuardrailRequest,
    response: Response,
    context: RequestContext,
    caller: Annotated[ApiKey, require_scope("generate", filtered=True)],
) -> dict[str, Any]:
    """The decision whether LiteLLM may continue, with the prompt to use, or whether it may deliver the item."""
    guard = _find_guardrail(payload, context)
    if not caller.may_use(guard.name):
        raise limited_key_error(caller)
    call = payload.litellm_call_id
    if call is None:
        raise HttpError(
            400,
            "the request has no litellm_call_id, which matches the item to its request",
            code="litellm_call_id",
            hint="set mode: [pre_call, post_call] in the guardrail, and use a LiteLLM that sends it",
        )
    texts = payload.texts or []
    positions = _user_text_positions(payload, texts)
    user_texts = [texts[k] for k in positions]
    prompt = join_texts(user_texts)

    async def ask_guardrail() -> GuardrailVerdict:
        if payload.input_type == "request":
            return await guard.guardrail.before(call, prompt)
        return await guard.guardrail.after(call, _returned_item(payload, texts))

    verdict = await guard.limiter.finish(ask_guardrail, context.settings.limits.upstream_seconds)
    if verdict is None:
        raise HttpError(504, "the guard did not answer in time", code="timeout", hint="retry later")
    response.headers["x-evenhand-guarded"] = "false" if verdict.status == "unguarded" else "true"
    response.headers["x-evenhand-status"] = verdict.status
    changed = verdict.action == "GUARDRAIL_INTERVENED"
    response.headers["x-evenhand-changed"] = "true" if changed else "false"
    answer: dict[str, Any] = {"action": verdict.action}
    if verdict.action == "BLOCKED":
        answer["blocked_reason"] = verdict.reason
    if changed:
        replaced = dict(zip(positions, replace_texts(user_texts, verdict.prompt), strict=True))
        answer["texts"] = [replaced.get(k, text) for k, text in enumerate(texts)]
    return answer


def _find_guardrail(payload: GuardrailRequest, context: ServiceContext) -> ServedGuard:
    """Return the guard with the requested name or model, or the only guard."""
    name = (payload.additional_provider_specific_params or {}).get("guard")
    guards = list(context.guards.values())
    if name is not None:
        matches = [guard for guard in guards if guard.name == name]
    else:
        matches = [guard for guard in guards if payload.model in guard.models] or guards
    if len(matches) != 1:
        raise HttpError(
            404 if name is not None else 400,
            f"there is no guard {str(name)[:100]!r}" if name is not None else "the request names no guard",
            code="guard",
            hint=f"additional_provider_specific_params: {{guard: NAME}}; one of: {', '.join(context.guards) or 'none'}",
        )
    return matches[0]


def _user_text_positions(payload: GuardrailRequest, texts: list[str]) -> list[int]:
    """Return the positions of the texts of the last user messages. Without roles, it is the last text."""
    roles: list[object] = []
    flat: list[str] = []
    for message in payload.structured_messages or ():
        content = message.get("content")
        parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
        for part in parts if isinstance(parts, list) else ():
            if isinstance(part, dict) and isinstance(part.get("text"), str):
                flat.append(part["text"])
                roles.append(message.get("role"))
    # Texts carry no roles. If they equal the texts of the messages, the roles of the messages apply.
    positions = last_user_messages(roles) if flat == texts else []
    return positions or [k for k in (len(texts) - 1,) if k >= 0]


def _returned_item(payload: GuardrailRequest, texts: list[str]) -> Item | None:
    """Return the item in the response: one text or one picture."""
    answers = [text for text in texts if text.strip()]
    images = payload.images or []
    if len(answers) + len(images) > 1:
        raise HttpError(
            400,
            f"expected one item, got {len(answers) + len(images)}; every item counts",
            code="items",
            hint="request one item at a time: n: 1",
        )
    if answers:
        return Item.of_text(answers[0])
    if not images:
        return None
    packed = images[0].partition(",")[2] if images[0].startswith("data:") else images[0]
    try:
        data = base64.b64decode("".join(packed.split()), validate=True)
    except ValueError:
        data = b""
    kind = detect_media_type(data)
    if kind is None:
        raise HttpError(
            400,
            "the picture is neither PNG, JPEG, WebP nor GIF in base64",
            code="items",
            hint="request b64_json from the model; URLs are not fetched",
        )
    return Item("image", data, kind)

"""Examples of answers, for the description of routes whose answers have no model of their own."""

from __future__ import annotations

from typing import Any


def shown(example: Any) -> dict[int | str, dict[str, Any]]:
    """What a route says of its answers, as ``responses`` takes it."""
    return {200: {"content": {"application/json": {"example": example}}}}


MODEL: dict[str, Any] = {"id": "studio", "object": "model", "created": 0, "owned_by": "evenhand", "makes": "image"}

MODELS: dict[str, Any] = {"object": "list", "data": [MODEL]}

TOLD: dict[str, Any] = {
    "guarded": True,
    "status": "ok",
    "changed": True,
    "disclosure": "status=ok; changed=yes; asked=gender woman; slots=leader: age 5, leader: gender 5; attempts=1",
    "reason": "",
    "entry": 10,
}

PICTURES: dict[str, Any] = {
    "created": 1767225600,
    "data": [
        {
            "b64_json": "iVBORw0KGgo=",
            "revised_prompt": "a business leader (showing: gender woman)",
            "evenhand": TOLD,
        }
    ],
}

TEXT: dict[str, Any] = {
    "id": "chatcmpl-1042",
    "object": "chat.completion",
    "created": 1767225600,
    "model": "stories",
    "choices": [
        {
            "index": 0,
            "message": {
                "role": "assistant",
                "content": "The chief executive looked up from her notes.",
                "refusal": None,
            },
            "finish_reason": "stop",
            "logprobs": None,
        }
    ],
    "evenhand": TOLD,
}

GUARDRAIL: dict[str, Any] = {
    "action": "GUARDRAIL_INTERVENED",
    "texts": ["a story of a business leader (showing: gender woman)"],
}

"""The guardrail that LiteLLM's generic guardrail calls."""

from __future__ import annotations

from fastapi import APIRouter

router = APIRouter(tags=["guardrail"])

"""Texts, in the shape of OpenAI's interface."""

from __future__ import annotations

from fastapi import APIRouter

router = APIRouter(tags=["chat"])

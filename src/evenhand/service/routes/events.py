"""What happens, as it happens: server-sent events."""

from __future__ import annotations

from fastapi import APIRouter

router = APIRouter(tags=["events"])

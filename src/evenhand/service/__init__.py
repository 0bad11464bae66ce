"""Shields and the guard of generators as a service: one ASGI application, its store and its log."""

from __future__ import annotations

from evenhand.service.settings import Settings

__all__ = ["Settings"]

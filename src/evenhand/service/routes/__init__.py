"""The routes of the service, a module for each kind."""

from __future__ import annotations

__all__: list[str] = []

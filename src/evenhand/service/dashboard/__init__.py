"""The dashboard: what happens in every stream, for people, in any browser and without a network."""

from __future__ import annotations

from evenhand.service.dashboard.hub import Hub
from evenhand.service.dashboard.rows import Wanted, row_of
from evenhand.service.dashboard.standing import Standing
from evenhand.service.dashboard.windows import found, streams_of, window

__all__ = ["Hub", "Standing", "Wanted", "found", "row_of", "streams_of", "window"]

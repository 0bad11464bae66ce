"""Search for discriminated subgroups of texts: those that speak of somebody, against those that speak of others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from evenhand import doors

if TYPE_CHECKING:
    from evenhand.subgroups.config import TextSubgroupConfig
    from evenhand.subgroups.result import SwapEffect, TextSubgroupResult
    from evenhand.subgroups.text.analysis import find_text_subgroups

__all__ = ["SwapEffect", "TextSubgroupConfig", "TextSubgroupResult", "find_text_subgroups"]

__getattr__, __dir__ = doors.open_when_used(__name__)

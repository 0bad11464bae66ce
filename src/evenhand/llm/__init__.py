"""Language models that decide about people: what they answer about each group, beyond their own noise."""

from __future__ import annotations

from typing import TYPE_CHECKING

from evenhand import doors

if TYPE_CHECKING:
    from evenhand.llm.config import LanguageModelConfig
    from evenhand.llm.result import (
        AskedSide,
        ConfirmedName,
        ConfirmedTemplate,
        FlipShares,
        GroupGap,
        GroupOutcome,
        LanguageModelAudit,
        NameListCard,
        Narrowing,
        ScenarioGap,
        ServiceUsage,
    )

__all__ = [
    "AskedSide",
    "ConfirmedName",
    "ConfirmedTemplate",
    "FlipShares",
    "GroupGap",
    "GroupOutcome",
    "LanguageModelAudit",
    "LanguageModelConfig",
    "NameListCard",
    "Narrowing",
    "ScenarioGap",
    "ServiceUsage",
]

__getattr__, __dir__ = doors.open_when_used(__name__)

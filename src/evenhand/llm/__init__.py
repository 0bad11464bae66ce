"""Language models that decide about people: what they answer about each group, beyond their own noise."""

from __future__ import annotations

from typing import TYPE_CHECKING

from evenhand import doors

if TYPE_CHECKING:
    from evenhand.llm.analysis import BatchFiles, audit_language_model
    from evenhand.llm.comparison import (
        GapChange,
        LanguageModelComparison,
        OutcomeChange,
        compare_language_models,
        pair_audits,
    )
    from evenhand.llm.config import LanguageModelConfig
    from evenhand.llm.forecast import ForecastSweep, LanguageModelForecast, forecast_language_model
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
    from evenhand.llm.saved_tests import ReplayedFinding, replay_findings, save_language_tests
    from evenhand.llm.wording import show_gap

__all__ = [
    "AskedSide",
    "BatchFiles",
    "ConfirmedName",
    "ConfirmedTemplate",
    "FlipShares",
    "ForecastSweep",
    "GapChange",
    "GroupGap",
    "GroupOutcome",
    "LanguageModelAudit",
    "LanguageModelComparison",
    "LanguageModelConfig",
    "LanguageModelForecast",
    "NameListCard",
    "Narrowing",
    "OutcomeChange",
    "ReplayedFinding",
    "ScenarioGap",
    "ServiceUsage",
    "audit_language_model",
    "compare_language_models",
    "forecast_language_model",
    "pair_audits",
    "replay_findings",
    "save_language_tests",
    "show_gap",
]

__getattr__, __dir__ = doors.open_when_used(__name__)

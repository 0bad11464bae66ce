"""Less discriminatory alternatives: a declared search, every candidate on record, and a choice by a stated rule."""

from __future__ import annotations

from typing import TYPE_CHECKING

from evenhand import doors

if TYPE_CHECKING:
    from evenhand.mitigation.alternatives.analysis import AlternativeSearch, find_alternatives
    from evenhand.mitigation.alternatives.config import AlternativesConfig
    from evenhand.mitigation.alternatives.result import AlternativeCandidate, AlternativeNumbers, AlternativesResult
    from evenhand.mitigation.alternatives.sources import reweighing_weights

__all__ = [
    "AlternativeCandidate",
    "AlternativeNumbers",
    "AlternativeSearch",
    "AlternativesConfig",
    "AlternativesResult",
    "find_alternatives",
    "reweighing_weights",
]

__getattr__, __dir__ = doors.open_when_used(__name__)

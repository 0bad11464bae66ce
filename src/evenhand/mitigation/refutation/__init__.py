"""Refutation: the least gap that any rule of a family reaches at an accuracy floor, or a proved bound of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from evenhand import doors

if TYPE_CHECKING:
    from evenhand.mitigation.refutation.analysis import refute_alternatives
    from evenhand.mitigation.refutation.config import RefutationConfig, RuleFamily
    from evenhand.mitigation.refutation.model import read_search_record, save_witness
    from evenhand.mitigation.refutation.result import (
        CellCounts,
        FloorBound,
        GivenStanding,
        RefutationProof,
        RefutationResult,
        WitnessRule,
    )

__all__ = [
    "CellCounts",
    "FloorBound",
    "GivenStanding",
    "RefutationConfig",
    "RefutationProof",
    "RefutationResult",
    "RuleFamily",
    "WitnessRule",
    "read_search_record",
    "refute_alternatives",
    "save_witness",
]

__getattr__, __dir__ = doors.open_when_used(__name__)

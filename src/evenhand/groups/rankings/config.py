"""Settings of an audit of rankings."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from pydantic import field_validator

from evenhand.core.config import Config, setting
from evenhand.errors import OptionError

PositionWeights: TypeAlias = Literal["log", "reciprocal"]
"""Attention of a position: 1 / log2(1 + rank), or 1 / rank."""


class RankingConfig(Config):
    """Settings of an audit of rankings."""

    at: tuple[int, ...] = setting((), "numbers of top places that count as selected, such as 10; by default several")
    position_weights: PositionWeights = setting(
        "log", "attention of a place: 1 / log2(1 + rank) as in DCG, or 1 / rank"
    )
    confidence: float = setting(0.95, "confidence level of the intervals", gt=0, lt=1)
    min_group_size: int = setting(
        10, "minimum number of candidates of a compared group; smaller groups are not assessable", ge=1
    )
    draws: int = setting(
        2000, "number of permutations of the groups within each list, used for one or few lists", ge=199
    )
    seed: int = setting(0, "random seed", ge=0)

    @field_validator("at", mode="before")
    @classmethod
    def _list_positions(cls, at: Any) -> Any:
        return (at,) if isinstance(at, int) else at

    @field_validator("at")
    @classmethod
    def _sort_positions(cls, at: tuple[int, ...]) -> tuple[int, ...]:
        if any(k < 1 for k in at):
            raise OptionError(f"expected at least 1 place, got {min(at)}", location="at")
        return tuple(sorted(set(at)))

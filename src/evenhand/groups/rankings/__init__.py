"""Rankings: who is selected, who gets attention and who stands above whom, by group, list by list."""

from __future__ import annotations

from typing import TYPE_CHECKING

from evenhand import doors

if TYPE_CHECKING:
    from evenhand.groups.rankings.analysis import measure_rankings
    from evenhand.groups.rankings.config import PositionWeights, RankingConfig
    from evenhand.groups.rankings.result import (
        RANKING_GAP_NAMES,
        PrefixTest,
        RankedGroup,
        RankedNumber,
        RankingBreakdown,
        RankingGap,
        RankingResult,
        SelectionAt,
    )

__all__ = [
    "RANKING_GAP_NAMES",
    "PositionWeights",
    "PrefixTest",
    "RankedGroup",
    "RankedNumber",
    "RankingBreakdown",
    "RankingConfig",
    "RankingGap",
    "RankingResult",
    "SelectionAt",
    "measure_rankings",
]

__getattr__, __dir__ = doors.open_when_used(__name__)

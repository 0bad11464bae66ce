"""Recorded rankings."""

from evenhand.schema.recorded.rankings import RankingRoles, RecordedRankings, table_of_rankings

__all__ = ["RankingRoles", "RecordedRankings", "table_of_rankings"]

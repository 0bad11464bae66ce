"""Columns by their distinct values, and rows counted inside the engine that holds them."""

from evenhand.schema.rows.cells import CountedRows, RankedScores, ScoreSums, count_rows, is_lazy, rank_scores
from evenhand.schema.rows.coded import CodedColumn, is_missing, list_values, plain_value, sort_key, value_key
from evenhand.schema.rows.places import locate_score, locate_value
from evenhand.schema.rows.ranks import Scale, ScoredCells, ScoreRange, count_scored, find_ranked, measure_range

__all__ = [
    "CodedColumn",
    "CountedRows",
    "RankedScores",
    "Scale",
    "ScoreRange",
    "ScoreSums",
    "ScoredCells",
    "count_rows",
    "count_scored",
    "find_ranked",
    "is_lazy",
    "is_missing",
    "list_values",
    "locate_score",
    "locate_value",
    "measure_range",
    "plain_value",
    "rank_scores",
    "sort_key",
    "value_key",
]

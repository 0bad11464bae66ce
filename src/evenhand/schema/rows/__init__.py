"""Rows of tables: columns by their values, and people by what they share."""

from evenhand.schema.rows.cells import CountedRows, RankedScores, ScoreSums, count_rows, is_lazy, rank_scores
from evenhand.schema.rows.coded import CodedColumn, is_missing, list_values, plain_value, sort_key, value_key

__all__ = [
    "CodedColumn",
    "CountedRows",
    "RankedScores",
    "ScoreSums",
    "count_rows",
    "is_lazy",
    "is_missing",
    "list_values",
    "plain_value",
    "rank_scores",
    "sort_key",
    "value_key",
]

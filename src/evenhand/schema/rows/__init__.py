"""Rows of tables: columns by their values, and people by what they share."""

from evenhand.schema.rows.coded import CodedColumn, is_missing, list_values, plain_value, sort_key, value_key

__all__ = ["CodedColumn", "is_missing", "list_values", "plain_value", "sort_key", "value_key"]

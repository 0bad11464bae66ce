"""Columns by their distinct values, and rows counted inside the engine that holds them."""

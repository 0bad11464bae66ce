"""Conditions on results, their outcomes, and output formats for CI pipelines."""

"""Recorded rankings."""

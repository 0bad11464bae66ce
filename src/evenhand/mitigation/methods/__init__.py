"""Mitigation methods."""

"""Rates of groups that are known by probability only."""

"""Simulation of many runs with and without a shield, and inspection of complete policies."""

"""Simulation of many runs with and without a shield, and inspection of whole policies."""

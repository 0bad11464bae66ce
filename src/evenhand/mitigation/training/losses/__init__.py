"""Fairness losses, one module per kind of penalty."""

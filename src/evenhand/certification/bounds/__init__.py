"""Bounds of a model over boxes of people, one folder per method."""

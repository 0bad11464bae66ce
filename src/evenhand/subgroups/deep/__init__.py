"""Depth-first search of large families of rule sets."""

"""Audit of rankings by group: selection, attention and order of pairs."""

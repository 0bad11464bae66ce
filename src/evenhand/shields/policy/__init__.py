"""Synthesised shields as tables of actions, for one horizon or successive periods, and their files."""

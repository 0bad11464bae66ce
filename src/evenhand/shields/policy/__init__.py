"""Synthesised shields as tables of actions, for one horizon or for period after period, and their files."""

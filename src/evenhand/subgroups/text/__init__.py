"""Subgroups of texts, by the groups that they mention."""

"""The first tables."""

from __future__ import annotations

revision = "0001"
down_revision = None


def upgrade() -> None:
    """Do nothing: a store has had these tables from its beginning."""

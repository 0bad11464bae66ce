"""What the tests of the service share."""

from __future__ import annotations

import pytest

pytest.importorskip("sqlalchemy", reason="needs the extra serve")

from postgres import new_store_url, own_postgres, postgres, postgres_url, store_url

__all__ = ["new_store_url", "own_postgres", "postgres", "postgres_url", "store_url"]

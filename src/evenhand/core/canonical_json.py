"""Canonical JSON texts of values, and their hashes."""

from __future__ import annotations

import hashlib
import json
from typing import Any

canonical_json = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False).encode
"""Return the canonical JSON text of a value: keys sorted, no spaces, no NaN."""


def hash_json(value: Any) -> str:
    """Return the SHA-256 digest of the canonical JSON text of a value.

    Raises:
        TypeError, ValueError: The value cannot be written as JSON.
    """
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()


def unique_names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Build an object without duplicate keys, for ``object_pairs_hook``.

    Raises:
        JSONDecodeError: A key occurs twice, which different parsers interpret differently.
    """
    mapping = dict(pairs)
    if len(mapping) != len(pairs):
        raise json.JSONDecodeError("an object has a duplicate key", "", 0)
    return mapping

"""Hash chain that makes a log append-only: the hash of each entry covers the previous one."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

GENESIS_HASH = "0" * 64
"""Previous hash of the first entry of a log."""

canonical_json = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False).encode
"""Return the canonical JSON text of a value: keys sorted, no spaces, no NaN."""


def unique_names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Build an object without duplicate keys, for ``object_pairs_hook``.

    Raises:
        JSONDecodeError: A key occurs twice, which different parsers interpret differently.
    """
    mapping = dict(pairs)
    if len(mapping) != len(pairs):
        raise json.JSONDecodeError("an object has a duplicate key", "", 0)
    return mapping


def hash_json(value: Any) -> str:
    """Return the SHA-256 digest of a JSON value.

    The hash of an entry is that of the list of the previous hash, the stream, the number from 0, the time in seconds
    since 1970, and the canonical JSON text of the body.
    """
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()


def export_entry(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return an entry in its export format. A body that is not valid JSON is exported as text."""
    try:
        body = json.loads(row["body"])
    except ValueError:
        body = row["body"]
    fields = ("stream", "number", "at", "body", "previous", "hash")
    return {name: body if name == "body" else row[name] for name in fields}

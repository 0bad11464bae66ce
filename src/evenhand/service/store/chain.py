"""The chain of hashes that makes a log append-only: every entry's hash covers the one before it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

GENESIS_HASH = "0" * 64
"""What the first entry of a log is chained to."""


_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def canonical_json(body: Any) -> str:
    """Return the one JSON text of a value: keys sorted, no spaces, no NaN."""
    return _ENCODER.encode(body)


def unique_names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the object of a JSON text, for ``object_pairs_hook``: two readers could see two different things in it.

    Raises:
        JSONDecodeError: a name occurs twice.
    """
    mapping = dict(pairs)
    if len(mapping) != len(pairs):
        raise json.JSONDecodeError("a name occurs twice in an object", "", 0)
    return mapping


def hash_entry(previous: str, stream: str, number: int, at: float, body: str) -> str:
    """Return the hash of an entry.

    Args:
        previous: the hash of the entry before it.
        stream: whose log it is.
        number: of the entry, from 0.
        at: seconds since 1970, as it was logged; nothing but the reader depends on it.
        body: the canonical text of what happened.
    """
    text = canonical_json([previous, stream, number, at, body])
    return hashlib.sha256(text.encode()).hexdigest()


def export_entry(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return an entry as it is exported, a line of JSON each; a body that is not JSON any more as its text."""
    try:
        body = json.loads(row["body"])
    except ValueError:
        body = row["body"]
    fields = ("stream", "number", "at", "body", "previous", "hash")
    return {name: body if name == "body" else row[name] for name in fields}

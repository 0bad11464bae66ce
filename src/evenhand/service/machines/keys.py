"""The service's keys as a machine: who has one, what for, and every change of that in a log like any other."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from typing import Any

from evenhand.errors import DecisionError
from evenhand.service.machines.machine import Operation

STREAM = "evenhand:keys"
"""The name of the stream; no shield or guard can have it."""


class KeyMachine:
    """Holds the hashes of keys, by the first characters of the hash.

    Operations; times are seconds since 1970, and the one in ``at`` is when the change was asked for:

    - ``{"op": "add", "hash", "name", "scopes", "expires", "at"}``: a key; a name may have several, so that one can
      follow another.
    - ``{"op": "expire", "key", "expires", "at"}``: a key ends, then or before.
    - ``{"op": "revoke", "key", "at"}``: a key ends at once, for ever.
    """

    kind = "keys"
    digest = hashlib.sha256(b"evenhand keys 1").hexdigest()

    def __init__(self) -> None:
        self.configuration: Mapping[str, Any] = {}
        self._keys: dict[str, dict[str, Any]] = {}

    def state(self) -> dict[str, Any]:
        return {"keys": {one: dict(about) for one, about in self._keys.items()}}

    def load(self, state: Mapping[str, Any]) -> None:
        self._keys = {one: dict(about) for one, about in state["keys"].items()}

    def holders(self, state: Mapping[str, Any]) -> Collection[str]:
        return ()

    def before(self, operation: Operation) -> Mapping[str, Any]:
        return {"keys": len(self._keys)}

    def apply(self, operation: Operation, number: int) -> dict[str, Any]:
        what = operation.get("op")
        if what == "add":
            return self._add(operation)
        if what == "expire":
            about = self._found(operation)
            if about["expires"] is None or operation["expires"] < about["expires"]:
                about["expires"] = operation["expires"]
            return {"key": operation["key"], "expires": about["expires"]}
        if what == "revoke":
            about = self._found(operation)
            if about["revoked"] is None:
                about["revoked"] = operation["at"]
            return {"key": operation["key"], "revoked": about["revoked"]}
        raise DecisionError(f"there is no operation {what!r}", code="operation", mend="add, expire, revoke")

    def _add(self, operation: Operation) -> dict[str, Any]:
        key = identifier(operation["hash"])
        if key in self._keys:
            raise DecisionError(f"there is a key {key} already", code="repeated")
        self._keys[key] = {
            "hash": operation["hash"],
            "name": operation["name"],
            "scopes": list(operation["scopes"]),
            "made": operation["at"],
            "expires": operation["expires"],
            "revoked": None,
        }
        return {"key": key}

    def _found(self, operation: Operation) -> dict[str, Any]:
        if operation["key"] not in self._keys:
            raise DecisionError(f"there is no key {operation['key']}", code="unknown-id")
        return self._keys[operation["key"]]


def identifier(digest: str) -> str:
    """What a key is called in lists and logs: the beginning of its hash, which tells nothing of the key."""
    return digest[:12]

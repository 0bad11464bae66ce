"""API keys and scopes. Keys consist of 256 random bits; only their hashes are stored."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import secrets
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

from sqlalchemy import select

from evenhand.errors import AccessError, OptionError, StoreError
from evenhand.service.state_machines import KEY_STREAM, KeyMachine, key_identifier
from evenhand.service.store.database import Database, read_state
from evenhand.service.store.ledger import Ledger
from evenhand.service.store.tables import streams

Scope: TypeAlias = Literal["decide", "generate", "read", "admin"]
"""``decide``: decisions and labels of shields. ``generate``: items of guarded generators. ``read``: states, logs,
pictures, metrics and the dashboard. ``admin``: all of these."""

SCOPES: tuple[Scope, ...] = get_args(Scope)

ROLES: Mapping[str, tuple[Scope, ...]] = {"viewer": ("read",), "admin": ("admin",)}
"""Scopes of each role of a user."""

PREFIX = "evenhand_"
"""Prefix of every key, which lets people and scanners recognise leaked keys."""

COOKIE = "evenhand_key"
"""Cookie of the dashboard, which holds a key."""

FRESH_SECONDS = 1.0
"""Lifetime of the cached keys. A revoked key stops working within about this many seconds."""

RETRY_SECONDS = 0.1
"""Seconds between two reads of the store for unknown keys."""

WAIT_SECONDS = 1.0
"""Time limit for reading the keys."""

STALE_SECONDS = 3600.0
"""Lifetime of the cached keys while the store is unavailable."""


@dataclass(frozen=True)
class ApiKey:
    """Key in the store, whose holder is a caller of the service.

    Attributes:
        id: Beginning of its hash. Empty if the service needs no keys.
        name: Name of its holder. Successive keys of a holder share it.
        scopes: Scopes of the key.
        hash: SHA-256 digest of the key.
        made, expires, revoked: Seconds since 1970. None if the key does not expire or was not revoked.
        streams: Shields and guards that the key is limited to. None if it is not limited.
        session: Subject of the user who logged in at an identity provider. None for other keys.
    """

    id: str
    name: str
    scopes: frozenset[str]
    hash: str = ""
    made: float = 0.0
    expires: float | None = None
    revoked: float | None = None
    streams: frozenset[str] | None = None
    session: str | None = None

    def status(self, now: float) -> str:
        """Return ``valid``, ``expired`` or ``revoked``."""
        if self.revoked is not None:
            return "revoked"
        return "expired" if self.expires is not None and now >= self.expires else "valid"

    def is_allowed(self, scope: Scope) -> bool:
        """Return whether the key has a scope."""
        return scope in self.scopes or "admin" in self.scopes

    def may_use(self, stream: object) -> bool:
        """Return whether the key covers a stream."""
        return self.streams is None or stream in self.streams


ANONYMOUS_CALLER = ApiKey("", "anyone", frozenset(SCOPES))
"""Caller of a service without keys, which listens on the loopback interface only."""


def create_key() -> str:
    """Create a random key."""
    return PREFIX + secrets.token_urlsafe(32)


def build_key(
    name: str, scopes: Collection[str], seconds: float | None, now: float, **more: object
) -> tuple[str, dict[str, object]]:
    """Create a key, and build the operation that adds it.

    Args:
        name: Name of its holder.
        scopes: Scopes of the key.
        seconds: Lifetime. If None, the key does not expire.
        now: Seconds since 1970.
        more: Further fields of the operation.
    """
    key, expires = create_key(), None if seconds is None else now + seconds
    fields = {"hash": hash_key(key), "name": name, "scopes": sorted(scopes), "expires": expires, "at": now, **more}
    return key, {"op": "add", **fields}


def hash_key(key: str) -> str:
    """Hash a key for storage. Keys have 256 random bits, so they need no salt and no slow hash."""
    return hashlib.sha256(key.encode()).hexdigest()


def key_id(key: str) -> str:
    """Return the ID of a key."""
    return key_identifier(hash_key(key))


def parse_keys(state: Mapping[str, Any]) -> list[ApiKey]:
    """Parse the keys in a state of `KeyMachine`."""
    keys = []
    for id, fields in state["keys"].items():
        sets = {name: frozenset(fields[name]) for name in ("scopes", "streams") if name in fields}
        keys.append(ApiKey(id, **{**fields, **sets}))
    return keys


class KeyCache:
    """Cache of the keys in a store.

    Args:
        database: Store.
        clock: Clock in seconds since 1970, for the expiry of keys.
        steady: Monotonic clock in seconds, for the age of the cache.
    """

    def __init__(
        self,
        database: Database,
        *,
        clock: Callable[[], float] = time.time,
        steady: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database, self._clock, self._steady = database, clock, steady
        # With a keyed hash, the duration of a lookup reveals nothing about the hashes of other keys.
        self._secret = secrets.token_bytes(32)
        self._keys: dict[bytes, ApiKey] = {}
        self._number = -1
        self._read_at = self._tried_at = float("-inf")
        self._reading: asyncio.Task[None] | None = None

    async def caller(self, key: str) -> ApiKey:
        """Return a valid key.

        Raises:
            AccessError: The key is unknown or no longer valid.
            StoreError: The store has been unavailable for too long, so the key cannot be checked.
        """
        if self._steady() - self._read_at >= FRESH_SECONDS:
            await self._refresh_cache()
        try:
            return self._look_up(key)
        except AccessError:
            # The session may just have begun on another replica.
            if self._steady() - max(self._read_at, self._tried_at) < RETRY_SECONDS:
                raise
        await self._refresh_cache(RETRY_SECONDS)
        return self._look_up(key)

    async def read_again(self) -> None:
        """Read the keys after one was added here, even if they were read recently.

        Raises:
            StoreError: The store has been unavailable for too long.
        """
        if self._reading is not None and not self._reading.done():
            # It may have begun before the key was added.
            await asyncio.wait({self._reading}, timeout=WAIT_SECONDS)
        await self._refresh_cache(0.0)

    def _look_up(self, key: str) -> ApiKey:
        match = self._keys.get(self._cache_key(hash_key(key)))
        if match is None:
            raise AccessError("unknown key", code="key", hint="evenhand keys list shows the keys")
        status = match.status(self._clock())
        if status != "valid":
            raise AccessError(f"the key {match.id} is {status}", code="key", hint="evenhand keys add creates a new key")
        return match

    async def _refresh_cache(self, max_age: float = FRESH_SECONDS) -> None:
        now = self._steady()
        if now - max(self._read_at, self._tried_at) >= max_age:
            if self._reading is None or self._reading.done():
                self._reading = asyncio.create_task(asyncio.to_thread(self._read, now))
            # While the store hangs, requests use the old cache.
            finished, _ = await asyncio.wait({self._reading}, timeout=WAIT_SECONDS)
            if not finished:
                self._tried_at = self._steady()
        if now - self._read_at > STALE_SECONDS:
            raise StoreError("the keys cannot be read from the store", hint="check its log and disk")

    def _read(self, now: float) -> None:
        self._tried_at = now
        try:
            with self._database.reading() as connection:
                query = select(streams.c.number, streams.c.state).where(streams.c.name == KEY_STREAM)
                row = connection.execute(query.where(streams.c.number != self._number)).first()
            if row is not None:
                self._keys = {self._cache_key(key.hash): key for key in parse_keys(json.loads(row.state))}
                self._number = row.number
        except StoreError:
            return
        self._read_at = now

    def _cache_key(self, digest: str) -> bytes:
        return hashlib.blake2b(digest.encode(), key=self._secret, digest_size=16).digest()


class KeyStore:
    """Administration of the keys in a store. Each change is an entry of a chained log.

    All methods raise `StoreError` if the store fails.

    Args:
        database: Store. A running service may use it at the same time.
        clock: Clock in seconds since 1970.
    """

    def __init__(self, database: Database, *, clock: Callable[[], float] = time.time) -> None:
        self._database, self._clock = database, clock
        self._ledger = Ledger(database, {KEY_STREAM: KeyMachine()})

    def __enter__(self) -> KeyStore:
        return self

    def __exit__(self, *_error: object) -> None:
        self._ledger.close()

    @property
    def now(self) -> float:
        """Seconds since 1970."""
        return self._clock()

    def keys(self) -> list[ApiKey]:
        """Return all keys in the order of their creation."""
        with self._database.reading() as connection:
            state = read_state(connection, KEY_STREAM)
        return [] if state is None else sorted(parse_keys(state), key=lambda key: (key.made, key.id))

    def add(
        self,
        name: str,
        scopes: Collection[str],
        *,
        seconds: float | None = None,
        streams: Collection[str] | None = None,
    ) -> str:
        """Create an API key. The plain text is returned once and never stored.

        Args:
            name: Name of its holder.
            scopes: Scopes of the key.
            seconds: Lifetime. If None, the key does not expire.
            streams: Shields and guards that the key is limited to. If None, it is not limited.

        Raises:
            OptionError: The name is invalid or has a key already, or a scope is unknown.
        """
        if not re.fullmatch(r"[A-Za-z0-9_.@-]{1,100}", name):
            raise OptionError(f"{name!r} is not a valid key name", hint="use 1 to 100 letters, digits and . _ - @")
        unknown = [scope for scope in scopes if scope not in SCOPES]
        if unknown or not scopes:
            raise OptionError(f"there is no scope {(*unknown, '')[0]!r}", hint=f"one of: {', '.join(SCOPES)}")
        if self._valid_keys(name):
            raise OptionError(f"{name} has a key already", hint=f"evenhand keys rotate {name}")
        return self._add(name, scopes, seconds, streams)

    def rotate(self, name: str, *, overlap: float) -> str:
        """Create a key with the scopes and lifetime of a holder's latest key. The old keys expire after a few seconds.

        If the store fails after the new key is created, the old keys stay valid.

        Raises:
            OptionError: There is no valid key with this name.
        """
        old = self._valid_keys(name)
        if not old:
            raise OptionError(f"{name} has no valid key", hint=f"evenhand keys add {name}")
        now, latest = self._clock(), old[-1]
        seconds = None if latest.expires is None else latest.expires - latest.made
        new = self._add(name, latest.scopes, seconds, latest.streams)
        for key in old:
            self._change_keys({"op": "expire", "key": key.id, "expires": now + overlap, "at": now})
        return new

    def revoke(self, name: str) -> list[ApiKey]:
        """Revoke the valid keys with a name or an ID, and return them.

        Raises:
            OptionError: There is no such valid key.
        """
        now = self._clock()
        revoked = [key for key in self.keys() if name in (key.name, key.id) and key.status(now) == "valid"]
        if not revoked:
            raise OptionError(f"there is no valid key {name!r}", hint="evenhand keys list shows names and ids")
        for key in revoked:
            self._change_keys({"op": "revoke", "key": key.id, "at": now})
        return revoked

    def _valid_keys(self, name: str) -> list[ApiKey]:
        now = self._clock()
        return [key for key in self.keys() if key.name == name and key.session is None and key.status(now) == "valid"]

    def _add(self, name: str, scopes: Collection[str], seconds: float | None, streams: Collection[str] | None) -> str:
        limits = {} if streams is None else {"streams": sorted(streams)}
        key, operation = build_key(name, scopes, seconds, self._clock(), **limits)
        self._change_keys(operation)
        return key

    def _change_keys(self, operation: dict[str, object]) -> None:
        self._ledger.submit(KEY_STREAM, operation).result()

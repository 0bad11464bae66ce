"""API keys and scopes. Keys are 256 random bits; only their hashes are stored."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import re
import secrets
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

from fastapi import Request, params
from fastapi.security import HTTPBearer
from sqlalchemy import select

from evenhand.errors import AccessError, OptionError, StoreError
from evenhand.service.state_machines import KEY_STREAM, KeyMachine, key_identifier
from evenhand.service.store.database import Database, read_state
from evenhand.service.store.ledger import Ledger
from evenhand.service.store.tables import streams

Scope: TypeAlias = Literal["decide", "generate", "read", "admin"]
"""``decide``: ask shields, and tell them labels. ``generate``: ask guarded generators. ``read``: states, logs,
pictures, metrics and the dashboard. ``admin``: all of it."""

SCOPES: tuple[Scope, ...] = get_args(Scope)

ROLES: Mapping[str, tuple[Scope, ...]] = {"viewer": ("read",), "admin": ("admin",)}
"""Scopes of each role of a user."""

PREFIX = "evenhand_"
"""Prefix of every key, by which people and scanners recognise leaked keys."""

COOKIE = "evenhand_key"
"""Cookie of the dashboard, which holds a key."""

FRESH_SECONDS = 1.0
"""Lifetime of the cached keys. A revoked key ends within about this time."""

RETRY_SECONDS = 0.1
"""Seconds between two reads of the store for unknown keys."""

WAIT_SECONDS = 1.0
"""Time limit for reading the keys."""

STALE_SECONDS = 3600.0
"""Lifetime of the cached keys while the store is unavailable."""


@dataclass(frozen=True)
class ApiKey:
    """A key as the store knows it.

    Attributes:
        id: the beginning of its hash.
        hash: SHA-256 of the key.
        name: of its holder; keys that replace one another share it.
        scopes: what it may be used for.
        streams: the shields and guards that it may be used for alone; None: all of them.
        made, expires, revoked: seconds since 1970; None: never.
        session: who logged in at an identity provider, by the subject there; None: it is not a session's.
    """

    id: str
    hash: str
    name: str
    scopes: frozenset[str]
    made: float
    expires: float | None = None
    revoked: float | None = None
    streams: frozenset[str] | None = None
    session: str | None = None

    def status(self, now: float) -> str:
        """Return ``valid``, ``expired`` or ``revoked``."""
        if self.revoked is not None:
            return "revoked"
        return "expired" if self.expires is not None and now >= self.expires else "valid"


@dataclass(frozen=True)
class Caller:
    """Authenticated caller.

    Attributes:
        name: of the key's holder.
        scopes: what they may do.
        key: the key's id; empty where the service wants no keys.
        streams: the shields and guards that they may ask alone; None: all of them.
        session: whether they logged in at an identity provider.
    """

    name: str
    scopes: frozenset[str]
    key: str = ""
    streams: frozenset[str] | None = None
    session: bool = False

    def is_allowed(self, scope: Scope) -> bool:
        """Return whether the caller has a scope."""
        return scope in self.scopes or "admin" in self.scopes

    def may_use(self, stream: object) -> bool:
        """Return whether the caller may use a stream."""
        return self.streams is None or stream in self.streams


ANONYMOUS_CALLER = Caller("anyone", frozenset(SCOPES))
"""Caller of a service without keys, which listens on the loopback interface only."""


def create_key() -> str:
    """Create a random key."""
    return PREFIX + secrets.token_urlsafe(32)


def hash_key(key: str) -> str:
    """Hash a key for storage. Keys have 256 random bits, so they need no salt and no slow hash."""
    return hashlib.sha256(key.encode()).hexdigest()


def parse_keys(state: Mapping[str, Any]) -> list[ApiKey]:
    """Parse the keys in a state of `KeyMachine`."""
    keys = []
    for id, about in state["keys"].items():
        sets = {name: frozenset(about[name]) for name in ("scopes", "streams") if name in about}
        keys.append(ApiKey(id, **{**about, **sets}))
    return keys


class KeyCache:
    """Cache of the keys in a store.

    Args:
        database: the store.
        clock: seconds since 1970, against which keys expire.
        steady: seconds of a monotonic clock, by which the store is read again.
    """

    def __init__(
        self,
        database: Database,
        *,
        clock: Callable[[], float] = time.time,
        steady: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database, self._clock, self._steady = database, clock, steady
        # Looked up by a keyed hash: how long that takes says nothing about the hashes of other keys.
        self._secret = secrets.token_bytes(32)
        self._keys: dict[bytes, ApiKey] = {}
        self._number: int | None = None
        self._read_at = self._tried_at = float("-inf")
        self._reading: asyncio.Task[None] | None = None

    async def caller(self, key: str) -> Caller:
        """Return the caller with a key.

        Raises:
            AccessError: the key is unknown or no longer valid.
            StoreError: the store has not answered for too long, so the key cannot be checked.
        """
        await self._refresh_cache()
        try:
            return self._look_up(key)
        except AccessError:
            # Somebody may have logged in at another replica a moment ago.
            if self._steady() - max(self._read_at, self._tried_at) < RETRY_SECONDS:
                raise
        await self._refresh_cache(fresh=RETRY_SECONDS)
        return self._look_up(key)

    async def read_again(self) -> None:
        """Read the keys now, however recently they were read: one has just been added here.

        Raises:
            StoreError: the store has not answered for too long.
        """
        if self._reading is not None and not self._reading.done():
            # It may have begun before the key was added.
            await asyncio.wait({self._reading}, timeout=WAIT_SECONDS)
        await self._refresh_cache(fresh=0.0)

    def _look_up(self, key: str) -> Caller:
        digest = hash_key(key)
        match = self._keys.get(self._place(digest))
        if match is None or not hmac.compare_digest(match.hash, digest):
            raise AccessError("the key is not known here", code="key", hint="evenhand keys list shows the keys")
        status = match.status(self._clock())
        if status != "valid":
            raise AccessError(f"the key {match.id} is {status}", code="key", hint="evenhand keys add makes a new one")
        return Caller(match.name, match.scopes, match.id, match.streams, match.session is not None)

    async def _refresh_cache(self, fresh: float = FRESH_SECONDS) -> None:
        now = self._steady()
        if now - max(self._read_at, self._tried_at) >= fresh:
            if self._reading is None or self._reading.done():
                self._reading = asyncio.create_task(asyncio.to_thread(self._read, now))
            # A store that hangs delays no request for longer than this: what was read last is believed.
            done, _ = await asyncio.wait({self._reading}, timeout=WAIT_SECONDS)
            if not done:
                self._tried_at = self._steady()
        if now - self._read_at > STALE_SECONDS:
            raise StoreError("the store does not say which keys are valid", hint="see its log, and its disk")

    def _read(self, now: float) -> None:
        self._tried_at = now
        try:
            with self._database.reading() as connection:
                number = connection.execute(select(streams.c.number).where(streams.c.name == KEY_STREAM)).scalar()
                if number is not None and number != self._number:
                    state = connection.execute(select(streams.c.state).where(streams.c.name == KEY_STREAM)).scalar_one()
                    self._keys = {self._place(key.hash): key for key in parse_keys(json.loads(state))}
                    self._number = number
        except StoreError:
            return
        self._read_at = now

    def _place(self, digest: str) -> bytes:
        return hashlib.blake2b(digest.encode(), key=self._secret, digest_size=16).digest()


class RequiredScope(HTTPBearer):
    """Dependency of routes that requires a scope, and describes the requirement in OpenAPI.

    A key for some streams alone is let into routes whose path names one of these, and into those that say that they
    look at ``Caller.streams`` themselves: ``filtered``.
    """

    def __init__(self, scope: Scope, *, filtered: bool = False) -> None:
        super().__init__(
            scheme_name="key", description="A key of the service: `evenhand keys add` makes one.", auto_error=False
        )
        self.scope, self._filtered = scope, filtered

    async def __call__(self, request: Request) -> Caller:  # type: ignore[override]  # FastAPI's returns the header
        """Return the caller.

        Raises:
            AccessError: there is no key, or it is not for this.
        """
        caller: Caller | None = request.scope.get("evenhand.caller")
        if caller is None:
            raise missing_key_error()
        if not caller.is_allowed(self.scope):
            raise AccessError(
                f"the key {caller.key} of {caller.name} is not for this: it lacks {self.scope!r}",
                code="scope",
                hint=f"evenhand keys add NAME --scope {self.scope}",
            )
        if not self._filtered and not caller.may_use(request.path_params.get("name")):
            raise limited_key_error(caller)
        return caller


def limited_key_error(caller: Caller) -> AccessError:
    """Build the error for a request to a stream that its key does not cover."""
    streams = ", ".join(sorted(caller.streams or ()))
    return AccessError(
        f"the key {caller.key} of {caller.name} is not for this: it is for {streams} alone",
        code="scope",
        hint="evenhand keys add NAME --scope SCOPE --stream STREAM",
    )


def require_scope(scope: Scope, *, filtered: bool = False) -> Any:
    """Return a dependency of routes that refuses callers without this permission. It gives the ``Caller``.

    ``APIRouter(dependencies=[requires("read")])`` protects all routes of a router, and
    ``@router.post("/decisions", dependencies=[requires("decide")])`` one.
    """
    return params.Depends(RequiredScope(scope, filtered=filtered))


def missing_key_error() -> AccessError:
    """Build the error for a request without a key."""
    return AccessError("there is no key", code="key", hint="send a header: Authorization: Bearer evenhand_...")


# Changing who has a key; each change is an entry of a log in the store, chained like any other.


class KeyStore:
    """Administration of the keys in a store.

    Args:
        database: the store; the service may be running on it.
        clock: seconds since 1970.
    """

    def __init__(self, database: Database, *, clock: Callable[[], float] = time.time) -> None:
        self._database, self._clock = database, clock
        self._ledger = Ledger(database, {KEY_STREAM: KeyMachine()})

    def __enter__(self) -> KeyStore:
        return self

    def __exit__(self, *_raised: object) -> None:
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
            name: of its future holder.
            scopes: what it may be used for.
            seconds: after which it ends; None: never.
            streams: the shields and guards that it is for alone; None: all of them.

        Raises:
            OptionError: the name is taken, or is not a name; a scope is not known.
            StoreError: the store failed.
        """
        if not re.fullmatch(r"[A-Za-z0-9_.@-]{1,100}", name):
            raise OptionError(f"{name!r} is not a name of a key", hint="1 to 100 letters, digits and . _ - @")
        unknown = [scope for scope in scopes if scope not in SCOPES]
        if unknown or not scopes:
            raise OptionError(f"there is no scope {(*unknown, '')[0]!r}", hint=f"one of: {', '.join(SCOPES)}")
        if self._valid_keys(name):
            raise OptionError(f"{name} has a key already", hint=f"evenhand keys rotate {name}")
        return self._add(name, scopes, seconds, streams)

    def rotate(self, name: str, *, overlap: float) -> str:
        """Create another key like a holder's last one; the old ones end some seconds later.

        Raises:
            OptionError: there is no valid key of this name.
            StoreError: the store failed; if there is a new key then, the old ones are valid still.
        """
        old = self._valid_keys(name)
        if not old:
            raise OptionError(f"{name} has no valid key", hint=f"evenhand keys add {name}")
        now = self._clock()
        last = old[-1]
        # A key for a time is followed by one for as long a time.
        made = self._add(name, last.scopes, None if last.expires is None else last.expires - last.made, last.streams)
        for key in old:
            self._change_keys({"op": "expire", "key": key.id, "expires": now + overlap, "at": now})
        return made

    def revoke(self, name: str) -> list[ApiKey]:
        """End all valid keys of a name, or the one with an id; return those that ended.

        Raises:
            OptionError: there is no such valid key.
            StoreError: the store failed.
        """
        now = self._clock()
        ending = [key for key in self.keys() if name in (key.name, key.id) and key.status(now) == "valid"]
        if not ending:
            raise OptionError(f"there is no valid key {name!r}", hint="evenhand keys list shows names and ids")
        for key in ending:
            self._change_keys({"op": "revoke", "key": key.id, "at": now})
        return ending

    def _valid_keys(self, name: str) -> list[ApiKey]:
        now = self._clock()
        return [key for key in self.keys() if key.name == name and key.session is None and key.status(now) == "valid"]

    def _add(self, name: str, scopes: Collection[str], seconds: float | None, streams: Collection[str] | None) -> str:
        key, now = create_key(), self._clock()
        expires = None if seconds is None else now + seconds
        limited = {} if streams is None else {"streams": sorted(streams)}
        self._change_keys(
            {
                "op": "add",
                "hash": hash_key(key),
                "name": name,
                "scopes": sorted(scopes),
                **limited,
                "expires": expires,
                "at": now,
            }
        )
        return key

    def _change_keys(self, operation: dict[str, object]) -> None:
        self._ledger.submit(KEY_STREAM, operation).result()


def key_id(key: str) -> str:
    """Return the ID of a key."""
    return key_identifier(hash_key(key))

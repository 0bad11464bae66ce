"""Keys: 256 random bits each, of which the service keeps the hash alone, and what their holders may do."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

from fastapi import Request, params
from fastapi.security import HTTPBearer
from sqlalchemy import select

from evenhand.errors import AccessError, StoreError
from evenhand.service.machines.keys import STREAM
from evenhand.service.store import Database
from evenhand.service.store.tables import streams

Scope: TypeAlias = Literal["decide", "generate", "read", "admin"]
"""``decide``: ask shields, and tell them labels. ``generate``: ask guarded generators. ``read``: states, logs,
pictures, metrics and the dashboard. ``admin``: all of it."""

SCOPES: tuple[Scope, ...] = get_args(Scope)

PREFIX = "evenhand_"
"""Every key begins so: people and scanners recognise one that lies where it should not."""

COOKIE = "evenhand_key"
"""The dashboard's cookie; it holds a key."""

FRESH_SECONDS = 1.0
"""For so long keys are believed without a look into the store; so a revoked one ends within about this time."""

WAIT_SECONDS = 1.0
"""For so long a look into the store is waited for."""

STALE_SECONDS = 3600.0
"""For so long the keys last read are believed while the store does not answer."""


@dataclass(frozen=True)
class Key:
    """A key as the store knows it.

    Attributes:
        id: the beginning of its hash.
        hash: SHA-256 of the key.
        name: of whoever holds it; keys that follow one another share it.
        scopes: what it may be used for.
        made, expires, revoked: seconds since 1970; None: never.
    """

    id: str
    hash: str
    name: str
    scopes: frozenset[str]
    made: float
    expires: float | None = None
    revoked: float | None = None

    def status(self, now: float) -> str:
        """``valid``, ``expired`` or ``revoked``."""
        if self.revoked is not None:
            return "revoked"
        return "expired" if self.expires is not None and now >= self.expires else "valid"


@dataclass(frozen=True)
class Caller:
    """Who asks.

    Attributes:
        name: of the key's holder.
        scopes: what they may do.
        key: the key's id; empty where the service wants no keys.
    """

    name: str
    scopes: frozenset[str]
    key: str = ""

    def may(self, scope: Scope) -> bool:
        """Whether something is allowed to them."""
        return scope in self.scopes or "admin" in self.scopes


ANYONE = Caller("anyone", frozenset(SCOPES))
"""Whoever asks a service that wants no keys; such a service listens to its own machine alone."""


def new_key() -> str:
    """A key that nobody can guess."""
    return PREFIX + secrets.token_urlsafe(32)


def hash_of(key: str) -> str:
    """What is kept of a key. It needs no salt and no slow hash: there are 2^256 keys to try."""
    return hashlib.sha256(key.encode()).hexdigest()


def keys_in(state: Mapping[str, Any]) -> list[Key]:
    """The keys in a state of the machine that holds them."""
    return [Key(one, **{**about, "scopes": frozenset(about["scopes"])}) for one, about in state["keys"].items()]


class Keys:
    """The keys of a store, as a running service looks them up.

    Args:
        database: the store.
        clock: seconds since 1970, against which keys expire.
        steady: seconds of a clock that nobody sets, by which the store is read again.
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
        self._keys: dict[bytes, Key] = {}
        self._number: int | None = None
        self._read_at = self._tried_at = float("-inf")
        self._reading: asyncio.Task[None] | None = None

    async def caller(self, key: str) -> Caller:
        """Whose key this is.

        Raises:
            AccessError: nobody's, or no longer.
            StoreError: nobody knows: the store has not answered for too long.
        """
        await self._refresh()
        asked = hash_of(key)
        found = self._keys.get(self._place(asked))
        if found is None or not hmac.compare_digest(found.hash, asked):
            raise AccessError("the key is not known here", code="key", mend="evenhand keys list shows the keys")
        status = found.status(self._clock())
        if status != "valid":
            raise AccessError(f"the key {found.id} is {status}", code="key", mend="evenhand keys add makes a new one")
        return Caller(found.name, found.scopes, found.id)

    async def _refresh(self) -> None:
        now = self._steady()
        if now - max(self._read_at, self._tried_at) >= FRESH_SECONDS:
            if self._reading is None or self._reading.done():
                self._reading = asyncio.create_task(asyncio.to_thread(self._read, now))
            # A store that hangs holds nobody up for longer than this: what was read last is believed.
            done, _ = await asyncio.wait({self._reading}, timeout=WAIT_SECONDS)
            if not done:
                self._tried_at = self._steady()
        if now - self._read_at > STALE_SECONDS:
            raise StoreError("the store does not say which keys are valid", mend="see its log, and its disk")

    def _read(self, now: float) -> None:
        self._tried_at = now
        try:
            with self._database.reading() as connection:
                number = connection.execute(select(streams.c.number).where(streams.c.name == STREAM)).scalar()
                if number is not None and number != self._number:
                    state = connection.execute(select(streams.c.state).where(streams.c.name == STREAM)).scalar_one()
                    self._keys = {self._place(key.hash): key for key in keys_in(json.loads(state))}
                    self._number = number
        except StoreError:
            return
        self._read_at = now

    def _place(self, digest: str) -> bytes:
        return hashlib.blake2b(digest.encode(), key=self._secret, digest_size=16).digest()


class Requires(HTTPBearer):
    """What a route asks of its caller; also what the interface's description says about it."""

    def __init__(self, scope: Scope) -> None:
        super().__init__(
            scheme_name="key", description="A key of the service: `evenhand keys add` makes one.", auto_error=False
        )
        self.scope = scope

    async def __call__(self, request: Request) -> Caller:  # type: ignore[override]
        """The caller.

        Raises:
            AccessError: there is no key, or it is not for this.
        """
        caller: Caller | None = request.scope.get("evenhand.caller")
        if caller is None:
            raise no_key()
        if not caller.may(self.scope):
            raise AccessError(
                f"the key {caller.key} of {caller.name} is not for this: it lacks {self.scope!r}",
                code="scope",
                mend=f"evenhand keys add NAME --scope {self.scope}",
            )
        return caller


def requires(scope: Scope) -> Any:
    """A dependency that routes have: nobody gets past it who may not do this. It gives the ``Caller``.

    ``APIRouter(dependencies=[requires("read")])`` protects all routes of a router, and
    ``@router.post("/decisions", dependencies=[requires("decide")])`` one.
    """
    return params.Depends(Requires(scope))


def no_key() -> AccessError:
    """There is no key in a request that needs one."""
    return AccessError("there is no key", code="key", mend="send a header: Authorization: Bearer evenhand_...")

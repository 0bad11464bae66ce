"""Changing who has a key; each change is an entry of a log in the store, chained like any other."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection

from evenhand.errors import OptionError
from evenhand.service.machines.keys import STREAM, KeyMachine, identifier
from evenhand.service.security.keys import SCOPES, Key, hash_of, keys_in, new_key
from evenhand.service.store import Database, Ledger
from evenhand.service.store.reading import state_of


class Ring:
    """The keys of a store, for whoever gives them out. To be closed.

    Args:
        database: the store; the service may be running on it.
        clock: seconds since 1970.
    """

    def __init__(self, database: Database, *, clock: Callable[[], float] = time.time) -> None:
        self._database, self._clock = database, clock
        self._ledger = Ledger(database, {STREAM: KeyMachine()})

    def __enter__(self) -> Ring:
        return self

    def __exit__(self, *_raised: object) -> None:
        self._ledger.close()

    @property
    def now(self) -> float:
        """Seconds since 1970."""
        return self._clock()

    def keys(self) -> list[Key]:
        """All keys that there ever were, in their order."""
        with self._database.reading() as connection:
            state = state_of(connection, STREAM)
        return [] if state is None else sorted(keys_in(state), key=lambda key: (key.made, key.id))

    def add(self, name: str, scopes: Collection[str], *, seconds: float | None = None) -> str:
        """A new key, which is nowhere to be found again.

        Args:
            name: of whoever will hold it.
            scopes: what it may be used for.
            seconds: after which it ends; None: never.

        Raises:
            OptionError: the name is taken, or is none; a scope is none.
            StoreError: the store failed.
        """
        if not re.fullmatch(r"[A-Za-z0-9_.@-]{1,100}", name):
            raise OptionError(f"{name!r} is no name of a key", mend="1 to 100 letters, digits and . _ - @")
        unknown = [one for one in scopes if one not in SCOPES]
        if unknown or not scopes:
            raise OptionError(f"there is no scope {(*unknown, '')[0]!r}", mend=f"one of: {', '.join(SCOPES)}")
        if self._valid(name):
            raise OptionError(f"{name} has a key already", mend=f"evenhand keys rotate {name}")
        return self._add(name, scopes, seconds)

    def rotate(self, name: str, *, overlap: float) -> str:
        """Another key like a holder's last one; the old ones end some seconds later.

        Raises:
            OptionError: there is no valid key of this name.
            StoreError: the store failed; if there is a new key then, the old ones are valid still.
        """
        old = self._valid(name)
        if not old:
            raise OptionError(f"{name} has no valid key", mend=f"evenhand keys add {name}")
        now = self._clock()
        last = old[-1]
        # A key for a time is followed by one for as long a time.
        made = self._add(name, last.scopes, None if last.expires is None else last.expires - last.made)
        for key in old:
            self._change({"op": "expire", "key": key.id, "expires": now + overlap, "at": now})
        return made

    def revoke(self, name: str) -> list[Key]:
        """End all valid keys of a name, or the one with an id; those that ended.

        Raises:
            OptionError: there is no such valid key.
            StoreError: the store failed.
        """
        now = self._clock()
        ending = [key for key in self.keys() if name in (key.name, key.id) and key.status(now) == "valid"]
        if not ending:
            raise OptionError(f"there is no valid key {name!r}", mend="evenhand keys list shows names and ids")
        for key in ending:
            self._change({"op": "revoke", "key": key.id, "at": now})
        return ending

    def _valid(self, name: str) -> list[Key]:
        now = self._clock()
        return [key for key in self.keys() if key.name == name and key.status(now) == "valid"]

    def _add(self, name: str, scopes: Collection[str], seconds: float | None) -> str:
        key, now = new_key(), self._clock()
        expires = None if seconds is None else now + seconds
        self._change({"op": "add", "hash": hash_of(key), "name": name, "scopes": sorted(scopes), "expires": expires,
                      "at": now})  # fmt: skip
        return key

    def _change(self, operation: dict[str, object]) -> None:
        self._ledger.submit(STREAM, operation).result()


def id_of(key: str) -> str:
    """What a key is called in lists."""
    return identifier(hash_of(key))

"""Decisions of a shield, also while the store cannot be used: then as the settings say, and never without saying so."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict, deque
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Any

from evenhand.errors import DecisionError, StoreError
from evenhand.service.machines.shield import unguarded
from evenhand.service.settings import Down
from evenhand.service.store.ledger import Done, Ledger

logger = logging.getLogger("evenhand.service")

PATIENCE = 2.0
"""Seconds that a decision is waited for, where a recommendation may be passed on instead."""

PAUSE = 0.5
"""Seconds between two attempts to tell the store what was passed on."""

MOST = 10_000
"""Recommendations passed on that are remembered; of further ones only their number is. So many answers of the shield
are remembered too: who asks for one again is not told something else."""

TOGETHER = 500
"""Of them, so many are told at once."""


@dataclass(frozen=True)
class Decided:
    """What a caller is told.

    Attributes:
        answer: of the shield; or, unguarded, the recommendation.
        number: of the entry in the log; None: there is none yet.
        repeated: whether this was asked before; the answer is the one given then.
        guarded: whether the shield decided.
    """

    answer: Mapping[str, Any]
    number: int | None
    repeated: bool
    guarded: bool


class Decider:
    """Asks a shield in the store; where the settings say so, lets recommendations pass while the store is away.

    What passed is remembered, as far as there is room, and logged in its order when the store is back; until then
    everything passes, so that the log has it in the order in which it was answered. It belongs to one event loop.

    Args:
        ledger: the store.
        stream: the shield's name.
        groups: that there are.
        when_down: ``refuse`` or ``pass``.

    Attributes:
        passed: recommendations that passed since the start.
        lost: of these, those that there was no room to remember.
    """

    def __init__(self, ledger: Ledger, stream: str, groups: tuple[str, ...], when_down: Down) -> None:
        self._ledger, self._stream, self._groups, self._when_down = ledger, stream, groups, when_down
        self._left: deque[dict[str, Any]] = deque()
        self._told: dict[str, dict[str, Any]] = {}
        self._recent: OrderedDict[str, tuple[dict[str, Any], Decided]] = OrderedDict()
        self._missing = 0
        self._telling: asyncio.Task[None] | None = None
        self.passed = 0
        self.lost = 0

    @property
    def remembered(self) -> int:
        """What passed, and is not in the log yet."""
        return len(self._left)

    async def decide(self, operation: dict[str, Any]) -> Decided:
        """What is to be done about one individual.

        Args:
            operation: ``{"op": "decide", "id", "group", "recommendation", "cost"?}``.

        Raises:
            DecisionError: it makes no sense, or the id was used for another one.
            StoreError: the store failed, and nothing may pass.
        """
        if self._when_down == "refuse":
            return _guarded(await asyncio.wrap_future(self._submit(operation)))
        if self._left or self._missing:
            return self._pass(operation)
        try:
            made = _guarded(await asyncio.wait_for(asyncio.wrap_future(self._submit(operation)), PATIENCE))
        except (StoreError, TimeoutError):
            return self._pass(operation)
        if operation["id"] in self._told:
            # Somebody asked the same at the same time, and was told that it passed.
            return self._pass(operation)
        self._recent[operation["id"]] = (operation, made)
        if len(self._recent) > MOST:
            self._recent.popitem(last=False)
        return made

    def close(self) -> None:
        """Tell the store what is left, if it takes it; else how much is lost."""
        if self._telling is not None:
            self._telling.cancel()
        try:
            for told in [self._log(one) for one in self._left]:
                told.result()
                self._left.popleft()
            if self._missing:
                self._count().result()
                self._missing = 0
        except StoreError:
            about = {"stream": self._stream, "recommendations": len(self._left) + self._missing}
            logger.error("passed on, and never logged: the store does not answer", extra={"about": about})

    def _submit(self, operation: dict[str, Any]) -> Future[Done]:
        return self._ledger.submit(self._stream, operation, id=operation["id"])

    def _pass(self, operation: dict[str, Any]) -> Decided:
        if operation["group"] not in self._groups:
            raise DecisionError(
                f"unknown group {operation['group']!r}", code="group", mend=f"one of {', '.join(self._groups)}"
            )
        known, made = self._recent.get(operation["id"], (None, None))
        before = self._told.get(operation["id"], known)
        if before is not None and before != operation:
            raise DecisionError(
                f"the id {operation['id']!r} was used for another request",
                code="repeated",
                mend="give every request its own id",
            )
        if made is not None:
            return replace(made, repeated=True)
        if before is None:
            self.passed += 1
            if len(self._left) < MOST:
                self._told[operation["id"]] = operation
                self._left.append(operation)
            else:
                self.lost += 1
                self._missing += 1
        if self._telling is None or self._telling.done():
            logger.error("the store does not answer: recommendations pass", extra={"about": {"stream": self._stream}})
            self._telling = asyncio.get_running_loop().create_task(self._tell())
        return Decided(unguarded(operation), None, before is not None, guarded=False)

    async def _tell(self) -> None:
        """Have all that passed logged."""
        while self._left or self._missing:
            await asyncio.sleep(PAUSE)
            try:
                under_way = [asyncio.wrap_future(self._log(one)) for one in list(self._left)[:TOGETHER]]
            except StoreError:
                return  # The service is stopping.
            for told in await asyncio.gather(*under_way, return_exceptions=True):
                if isinstance(told, StoreError) or not isinstance(told, Done | Exception):
                    break
                del self._told[self._left.popleft()["id"]]
                if isinstance(told, Exception):
                    # It must not keep all that come after it from being logged.
                    self.lost += 1
                    self._missing += 1
                    logger.error("a recommendation that passed cannot be logged", exc_info=told)
            if self._missing and not self._left:
                missing = self._missing
                counted = await asyncio.gather(asyncio.wrap_future(self._count()), return_exceptions=True)
                if not isinstance(counted[0], BaseException):
                    self._missing -= missing
        logger.warning("the store answers: the shield decides again", extra={"about": {"stream": self._stream}})

    def _log(self, operation: dict[str, Any]) -> Future[Done]:
        late = {**operation, "op": "unguarded"}
        return self._ledger.submit(self._stream, late, id=operation["id"], answered=operation)

    def _count(self) -> Future[Done]:
        return self._ledger.submit(self._stream, {"op": "unguarded", "missing": self._missing})


def _guarded(done: Done) -> Decided:
    # An answer may be repeated that was given while the store was away.
    return Decided(done.answer, done.number, done.repeated, guarded=done.answer.get("guarded", True))

"""Live updates of the dashboard. The store is polled once for all pages, and a slow page delays no other."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from typing import Any

from fastapi.concurrency import run_in_threadpool
from sqlalchemy import select

from evenhand.errors import AccessError, EvenhandError
from evenhand.service.api.context import ServiceContext
from evenhand.service.dashboard.windows import STREAM_KINDS, rows_between
from evenhand.service.store.tables import streams

POLL_SECONDS = 0.25
"""Seconds between two polls of the store."""

BEAT_SECONDS = 10.0
"""Seconds between heartbeats, by which pages detect dead connections."""

MAX_PAGES = 64
"""Maximum number of open pages in one process."""

MAX_WAITING_MESSAGES = 32
"""Maximum number of queued messages of a page. A slower page is disconnected, and reconnects."""

MAX_NEW_ROWS = 2_000
"""Maximum number of rows of one stream in a message. If there are more, the page reloads."""

StreamPositions = dict[str, int]


class PageSubscription:
    """One open page.

    Attributes:
        waiting: Messages for the page.
        lost: Whether the page was too slow.
    """

    def __init__(self) -> None:
        self.waiting: asyncio.Queue[dict[str, Any]] = asyncio.Queue(MAX_WAITING_MESSAGES)
        self.lost = False

    def tell(self, message: dict[str, Any]) -> None:
        """Add a message to the queue."""
        try:
            self.waiting.put_nowait(message)
        except asyncio.QueueFull:
            self.lost = True


class EventHub:
    """Polls the store while pages are open.

    Args:
        context: Context of the service.
        every, beat: Seconds between polls and between heartbeats.
        pages: Maximum number of open pages.
    """

    def __init__(
        self,
        context: ServiceContext,
        *,
        every: float = POLL_SECONDS,
        beat: float = BEAT_SECONDS,
        pages: int = MAX_PAGES,
    ) -> None:
        self._context = context
        self._every, self._beat, self._most = every, beat, pages
        self._pages: set[PageSubscription] = set()
        self._seen: StreamPositions = {}
        self._looking: asyncio.Task[None] | None = None
        self._opening = asyncio.Lock()
        self._failure: str | None = None

    @property
    def pages(self) -> int:
        """Number of open pages."""
        return len(self._pages)

    async def events(self, positions: Mapping[str, int]) -> AsyncGenerator[str]:
        """Yield server-sent events after some positions.

        Args:
            positions: By stream, the number of the last entry that the page has. Other streams start with new entries.

        Raises:
            AccessError: Too many pages are open.
        """
        page = PageSubscription()
        async with self._opening:
            if len(self._pages) >= self._most:
                raise AccessError(
                    f"{self._most} pages of the dashboard are open already", code="busy", hint="close one"
                )
            if self._looking is None or self._looking.done():
                self._seen = await run_in_threadpool(self._last_numbers)
                self._looking = asyncio.create_task(self._poll_store())
            # New entries are queued for the page from now on, so no other task may run between these lines.
            self._pages.add(page)
            current = dict(self._seen)
        try:
            positions_sent = {stream: min(positions.get(stream, number), number) for stream, number in current.items()}
            yield f"retry: 1000\n{_format_event('hello', _store_state(self._failure), positions_sent)}"
            async for text in self._catch_up(positions_sent, current):
                yield text
            async for text in self._live(page, positions_sent):
                yield text
        finally:
            self._pages.discard(page)

    async def _catch_up(self, positions_sent: StreamPositions, current: StreamPositions) -> AsyncIterator[str]:
        """Yield the rows that the page has missed. While the store is unavailable, report that and retry."""
        told_at: float | None = None
        while not self._context.stopping.is_set():
            try:
                missed = await run_in_threadpool(self._rows_since, dict(positions_sent), current)
            except Exception as error:
                now = asyncio.get_running_loop().time()
                if told_at is None or now - told_at >= self._beat:
                    told_at = now
                    yield _format_event("store", _store_state(_describe(error)), positions_sent)
                await asyncio.sleep(self._every)
                continue
            if told_at is not None:
                yield _format_event("store", _store_state(None), positions_sent)
            for message in missed:
                positions_sent[message["stream"]] = message["number"]
                yield _format_event("news", message, positions_sent)
            return

    async def _live(self, page: PageSubscription, positions_sent: StreamPositions) -> AsyncIterator[str]:
        while not self._context.stopping.is_set():
            try:
                message = await asyncio.wait_for(page.waiting.get(), self._beat)
            except TimeoutError:
                # A comment for proxies, and an event for the page.
                yield ": still here\n" + _format_event("beat", {}, positions_sent)
                continue
            if page.lost:
                return
            if "stream" in message:
                positions_sent[message["stream"]] = message["number"]
                yield _format_event("news", message, positions_sent)
            elif message:
                yield _format_event("store", message, positions_sent)

    async def _poll_store(self) -> None:
        """Poll the store until the last page is closed."""
        while self._pages:
            if self._context.stopping.is_set():
                self._tell({})
                return
            try:
                news = await run_in_threadpool(self._new_messages)
            except Exception as error:
                # The pages show that their data may be old, and the store is polled again.
                if self._failure is None:
                    self._failure = _describe(error)
                    self._tell(_store_state(self._failure))
            else:
                if self._failure is not None:
                    self._failure = None
                    self._tell(_store_state(None))
                for message in news:
                    self._seen[message["stream"]] = message["number"]
                    self._tell(message)
            await asyncio.sleep(self._every)

    def _tell(self, message: dict[str, Any]) -> None:
        for page in self._pages:
            page.tell(message)

    def _new_messages(self) -> list[dict[str, Any]]:
        heads = self._last_numbers()
        return self._rows_since(self._seen, heads) if heads != self._seen else []

    def _last_numbers(self) -> StreamPositions:
        with self._context.database.reading() as connection:
            rows = connection.execute(select(streams.c.name, streams.c.number).where(streams.c.kind.in_(STREAM_KINDS)))
            return {row.name: row.number for row in rows}

    def _rows_since(self, old_positions: Mapping[str, int], now: Mapping[str, int]) -> list[dict[str, Any]]:
        messages = []
        with self._context.database.reading() as connection:
            for stream, number in now.items():
                old_number = old_positions.get(stream, -1)
                if number > old_number:
                    gap = number - old_number > MAX_NEW_ROWS
                    rows = [] if gap else rows_between(connection, stream, old_number, number)
                    messages.append({"stream": stream, "number": number, "gap": gap, "rows": rows})
        return messages


def parse_positions(text: str) -> StreamPositions:
    """Parse positions from the ID of an event, such as ``loans=120,studio=8``. Invalid parts are skipped."""
    positions: StreamPositions = {}
    for part in text.split(","):
        name, _, number = part.rpartition("=")
        if name and number.isascii() and number.isdigit() and len(number) < 19:
            positions[name] = int(number)
    return positions


def _describe(error: Exception) -> str:
    """Describe an error for a page, by its message or by the type of the exception."""
    return error.message if isinstance(error, EvenhandError) else type(error).__name__


def _store_state(failure: str | None) -> dict[str, Any]:
    """Build the message about the availability of the store."""
    return {"failed": False} if failure is None else {"failed": True, "message": failure}


def _format_event(kind: str, data: Any, positions_sent: StreamPositions) -> str:
    place = ",".join(f"{name}={number}" for name, number in positions_sent.items())
    return f"id: {place}\nevent: {kind}\ndata: {json.dumps(data, separators=(',', ':'))}\n\n"

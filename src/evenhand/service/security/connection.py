"""Connections of callers who send the head of a request without an end, or nothing at all."""

from __future__ import annotations

import asyncio
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

HEAD_SECONDS = 10.0
"""Within which the head of a request must have come, from when the connection was made or the request began."""

HEAD_BYTES = 64 << 10
"""Of the head of a request, at most."""

CONNECTIONS = 1_000
"""That are open at once."""

TOO_LARGE = b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


class Connection(HttpToolsProtocol):
    """As uvicorn's own, with an end to what comes before the application is asked.

    uvicorn reads a head however long and slow it comes; what comes after it, `Limiter` looks after.
    """

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._head: int | None = 0
        self._late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for a head."""
        super().connection_made(transport)
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no more."""
        self._came()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read on, unless the head is too long."""
        super().data_received(data)
        if self._head is not None:
            self._head += len(data)
            if self._head > HEAD_BYTES and not self.transport.is_closing():
                self.transport.write(TOO_LARGE)
                self.transport.close()

    def on_message_begin(self) -> None:
        """The first of a head came."""
        super().on_message_begin()
        self._head = 0
        self._wait()

    def on_headers_complete(self) -> None:
        """All of a head came."""
        self._came()
        super().on_headers_complete()

    def _wait(self) -> None:
        if self._late is None:
            self._late = self.loop.call_later(HEAD_SECONDS, self._give_up)

    def _came(self) -> None:
        self._head = None
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _give_up(self) -> None:
        self._late = None
        if not self.transport.is_closing():
            self.transport.abort()

"""The service on a port, in a thread of the tests' own process."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import uvicorn
from sqlalchemy import select

from evenhand.service import ServiceConfig, create_app
from evenhand.service.api.context import ServiceContext
from evenhand.service.generation.guards import GuardedRequest, Served, ServedAnswer, ServedGuard, build_guard_machine
from evenhand.service.state_machines import GuardMachine
from evenhand.service.store.database import read_log, read_state
from evenhand.service.store.tables import pictures


@dataclass
class Running:
    """A service that runs."""

    url: str
    context: ServiceContext

    def guard(self, name: str) -> ServedGuard:
        return self.context.guards[name]

    def log(self, name: str) -> list[dict[str, Any]]:
        return list(read_log(self.context.database, name))

    def inputs(self, name: str, op: str | None = None) -> list[dict[str, Any]]:
        """The operations of a stream, but the first entry and the records of starts."""
        found = [entry["body"]["input"] for entry in self.log(name)[1:]]
        return [
            one
            for one in found
            if (op is None or one["op"] == op) and one.get("note", {}).get("what") not in ("started", "stopped")
        ]

    def state(self, name: str) -> dict[str, Any]:
        with self.context.database.reading() as connection:
            found = read_state(connection, name)
        assert found is not None
        return found

    def pictures(self, name: str) -> list[int]:
        with self.context.database.reading() as connection:
            rows = connection.execute(select(pictures.c.number).where(pictures.c.stream == name))
            return sorted(row.number for row in rows)

    def check_replay(self, name: str) -> GuardMachine:
        """The log gives the same answers once more, and the state that is in the store."""
        settings = self.context.settings
        machine = build_guard_machine(next(entry for entry in settings.guards if entry.name == name), settings.folder)
        for entry in self.log(name)[1:]:
            body = entry["body"]
            assert machine.before(body["input"]) == body["before"]
            assert machine.apply(body["input"], entry["number"]) == body["output"]
        assert machine.state() == self.state(name)
        return machine


@contextmanager
def running(described: Mapping[str, Any]) -> Iterator[Running]:
    """A service on a free port of this machine."""
    app = create_app(ServiceConfig.read(described))
    server = uvicorn.Server(
        uvicorn.Config(
            app, host="127.0.0.1", port=0, log_level="error", log_config=None, ws="none", timeout_graceful_shutdown=20
        )
    )
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        until(lambda: server.started or not thread.is_alive(), "the service did not start")
        assert server.started
        port = server.servers[0].sockets[0].getsockname()[1]
        yield Running(f"http://127.0.0.1:{port}", app.state.context)
    finally:
        server.should_exit = True
        thread.join(timeout=60)
        assert not thread.is_alive()


def answer_now(request: GuardedRequest) -> ServedAnswer:
    """Have one item made and decided, in a thread with an event loop of its own.

    Raises:
        StoreError: the store failed, and nothing may be answered without it.
    """
    told: list[Served] = []
    thread = threading.Thread(target=lambda: asyncio.run(request.run(told.append)), daemon=True)
    thread.start()
    thread.join()
    (found,) = told
    if isinstance(found, BaseException):
        raise found
    return found


def until(holds: Any, message: str, *, tries: int = 3000) -> None:
    """Wait for something that another thread does."""
    for _ in range(tries):
        if holds():
            return
        time.sleep(0.01)
    raise AssertionError(message)

"""The service on a port, in a thread of the tests' own process."""

import asyncio
import threading
import time
from contextlib import contextmanager

import uvicorn
from sqlalchemy import select

from evenhand.service import ServiceConfig, create_app
from evenhand.service.generation.guards import build_guard_machine
from evenhand.service.store.database import read_log, read_state
from evenhand.service.store.tables import pictures


class Running:
    """A service in a thread of this process, on a free port, at which it can be started again."""

    def __init__(self, described):
        self._described, self.port = described, 0
        self.start()

    def start(self):
        self._app = create_app(ServiceConfig.read(self._described))
        options = {"log_level": "error", "log_config": None, "ws": "none", "timeout_graceful_shutdown": 20}
        self._server = uvicorn.Server(uvicorn.Config(self._app, host="127.0.0.1", port=self.port, **options))
        self._thread = threading.Thread(target=self._server.run, daemon=True)
        self._thread.start()
        until(lambda: self._server.started or not self._thread.is_alive(), "the service did not start")
        assert self._server.started
        self.port = self._server.servers[0].sockets[0].getsockname()[1]

    def stop(self):
        """Stop as a process does that is told to."""
        self._server.should_exit = True
        self._thread.join(60)
        assert not self._thread.is_alive()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    @property
    def context(self):
        return self._app.state.context

    def guard(self, name):
        return self.context.guards[name]

    def log(self, name):
        return list(read_log(self.context.database, name))

    def inputs(self, name, op=None):
        """The operations of a stream, but the first entry and the records of starts."""
        found = [entry["body"]["input"] for entry in self.log(name)[1:]]
        return [
            one
            for one in found
            if (op is None or one["op"] == op) and one.get("note", {}).get("what") not in ("started", "stopped")
        ]

    def state(self, name):
        with self.context.database.reading() as connection:
            return read_state(connection, name)

    def pictures(self, name):
        with self.context.database.reading() as connection:
            rows = connection.execute(select(pictures.c.number).where(pictures.c.stream == name))
            return sorted(row.number for row in rows)

    def check_replay(self, name):
        """The log gives the same answers once more, and the state that is in the store."""
        settings = self.context.settings
        machine = build_guard_machine(next(entry for entry in settings.guards if entry.name == name), settings.folder)
        for entry in self.log(name)[1:]:
            body = entry["body"]
            assert machine.counts() == body["before"]
            assert machine.apply(body["input"], entry["number"]) == body["output"]
        assert machine.state() == self.state(name)
        return machine

    def decide(self, stream, *people):
        """Decide on (id, group, recommendation)."""
        submit = self.context.ledger.submit
        asked = [{"op": "decide", "id": one, "group": group, "recommendation": made} for one, group, made in people]
        for future in [submit(stream, operation, id=operation["id"]) for operation in asked]:
            future.result()


@contextmanager
def running(described):
    """A service that ends with the block."""
    service = Running(described)
    try:
        yield service
    finally:
        service.stop()


@contextmanager
def replaced(thing, name, by):
    """Replace a part of something meanwhile, even where it is frozen."""
    before = getattr(thing, name)
    object.__setattr__(thing, name, by)
    try:
        yield
    finally:
        object.__setattr__(thing, name, before)


def together(work):
    """Run all of it at the same time; what one of them raised is raised."""
    failed = []

    def one(piece):
        try:
            piece()
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=one, args=(piece,), daemon=True) for piece in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not [thread for thread in threads if thread.is_alive()], "somebody waits for ever"
    if failed:
        raise failed[0]


def answer_now(request):
    """Have one item made and decided, in a thread with an event loop of its own.

    Raises:
        StoreError: the store failed, and nothing may be answered without it.
    """
    told = []
    thread = threading.Thread(target=lambda: asyncio.run(request.run(told.append)), daemon=True)
    thread.start()
    thread.join()
    (found,) = told
    if isinstance(found, BaseException):
        raise found
    return found


def until(holds, message, *, tries=3000):
    """Wait for something that another thread does."""
    for _ in range(tries):
        if holds():
            return
        time.sleep(0.01)
    raise AssertionError(message)

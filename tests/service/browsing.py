"""A browser, and a service for it to look at that can be stopped and started again at the same address."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from typing import Any

import uvicorn
from in_thread import until
from sqlalchemy import insert, select, update

from evenhand.service import ServiceConfig, create_app
from evenhand.service.api.context import ServiceContext
from evenhand.service.store.tables import entries, streams


class Site:
    """A service in threads of this process."""

    def __init__(self, described: Mapping[str, Any]) -> None:
        self._described = described
        self.port = 0
        self.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def context(self) -> ServiceContext:
        context: ServiceContext = self._app.state.context
        return context

    def start(self) -> None:
        """At the port of before, if there was one."""
        self._app = create_app(ServiceConfig.read(self._described))
        config = uvicorn.Config(
            self._app, host="127.0.0.1", port=self.port, log_level="error", log_config=None, ws="none"
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, daemon=True)
        self._thread.start()
        until(lambda: self._server.started or not self._thread.is_alive(), "the service did not start")
        assert self._server.started
        self.port = self._server.servers[0].sockets[0].getsockname()[1]

    def stop(self) -> None:
        """As a process that is told to stop does."""
        if self._thread.is_alive():
            self._server.should_exit = True
            self._thread.join(60)
            assert not self._thread.is_alive()

    def decide(self, stream: str, *people: tuple[str, str, int]) -> None:
        """Decide on (id, group, recommendation)."""
        ledger = self.context.ledger
        futures = [
            ledger.submit(stream, {"op": "decide", "id": one, "group": group, "recommendation": said}, id=one)
            for one, group, said in people
        ]
        for future in futures:
            future.result()

    def pretend(self, stream: str, n: int) -> None:
        """Put so many entries into a log as if they had happened, over three days: like its last one, with numbers."""
        database = self.context.database
        with database.transaction() as connection:
            last = (
                connection.execute(
                    select(entries).where(entries.c.stream == stream).order_by(entries.c.number.desc()).limit(1)
                )
                .mappings()
                .one()
            )
            body = json.loads(last["body"])
            rows = []
            for i in range(1, n + 1):
                certificate = body["output"]["certificate"]
                certificate["bias_shielded"] = 0.08 + 0.03 * ((i * 7919) % 101) / 101 + 0.5 / i
                certificate["bias_unshielded"] = 0.25 + 0.05 * ((i * 104729) % 97) / 97 + 0.4 / i
                against = i % 11 == 0
                body["output"].update(intervened=against, reason="accepted" if against else "followed")
                row = {**last, "number": last["number"] + i, "at": last["at"] + 25.0 * i, "body": json.dumps(body)}
                rows.append({**row, "hash": f"{i:064d}"})
            connection.execute(insert(entries), rows)
            connection.execute(
                update(streams).where(streams.c.name == stream).values(number=last["number"] + n, hash=f"{n:064d}")
            )

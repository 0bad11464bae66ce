"""Run the service on a socket until a signal stops it."""

from __future__ import annotations

import errno
import gc
import math
import signal
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Any

import uvicorn
from fastapi import FastAPI

from evenhand.errors import OptionError
from evenhand.service.api.app import create_app
from evenhand.service.api.context import ServiceContext, build_streams, open_service
from evenhand.service.auth.logging import structured_logging
from evenhand.service.settings import ServiceConfig

MAX_CONNECTIONS = 1_000
"""Maximum number of open connections. Requests on further connections are answered with status 503."""

SOCKET_BACKLOG = 2048
"""Maximum number of connections that wait to be accepted."""


def run_server(settings: ServiceConfig, *, ready: Callable[[ServiceContext, str], None]) -> bool:
    """Serve until SIGINT or SIGTERM, then complete the running requests and return.

    After SIGTERM, ``/readyz`` answers 503 for `drain_seconds` before the socket is closed. A second signal skips this.

    Args:
        settings: Configuration of the service.
        ready: Function that receives the URL once the service accepts requests.

    Returns:
        Whether all requests were answered. After a second signal, running requests are not awaited.

    Raises:
        EvenhandError: A part cannot be loaded, or the address or the store cannot be used.
    """
    streams = build_streams(settings)
    listening = open_socket(settings.service.host, settings.service.port)
    with listening, structured_logging(requests=settings.service.log_requests):
        context = open_service(settings, streams)
        host, port = listening.getsockname()[:2]
        url = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
        server = _Server(uvicorn_config(settings, create_app(settings, context)), context, lambda: ready(context, url))

        def stop(*_: Any) -> None:
            server.should_exit = True

        # Uvicorn replaces these handlers while it serves, and raises the caught signals again afterwards.
        previous_handlers = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
        # Collecting the objects that exist now would delay all requests by a tenth of a second each time.
        gc.collect()
        gc.freeze()
        try:
            server.run(sockets=[listening])
        finally:
            gc.unfreeze()
            for number, handler in previous_handlers.items():
                signal.signal(number, handler)
            context.close()
    return not server.force_exit


def uvicorn_config(settings: ServiceConfig, app: FastAPI) -> uvicorn.Config:
    """Build the configuration of uvicorn."""
    return uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        server_header=False,
        limit_concurrency=MAX_CONNECTIONS,
        ws="none",
        # By default, uvicorn trusts headers of requests from the same machine.
        forwarded_allow_ips=list(settings.service.trusted_proxies),
        # Every running request has this time limit, so all of them are answered by then.
        timeout_graceful_shutdown=int(settings.limits.upstream_seconds) + 1,
    )


def open_socket(host: str, port: int) -> socket.socket:
    """Open a listening socket.

    Raises:
        OptionError: The address does not belong to this machine or is in use.
    """
    place = f"{host}, port {port}"
    try:
        family, _kind, _protocol, _name, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(address[:2], family=family, backlog=SOCKET_BACKLOG)
    except socket.gaierror:
        raise OptionError(
            f"this machine has no address {host!r}", location="service.host", hint="--host 127.0.0.1"
        ) from None
    except OSError as error:
        is_in_use = error.errno == errno.EADDRINUSE
        reason = "the address is already in use" if is_in_use else str(error.strerror or error)
        raise OptionError(
            f"cannot listen on {place}: {reason}",
            hint="stop the other program, or choose another port: --port 8001 (0: any free port)",
        ) from None


class _Server(uvicorn.Server):
    """A server that reports when it is ready and drains before it stops."""

    def __init__(self, config: uvicorn.Config, context: ServiceContext, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._context, self._ready = context, ready
        self._drained_at = math.inf

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            with suppress(BrokenPipeError):
                self._ready()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if sig == signal.SIGTERM and not self._context.draining.is_set():
            self._context.draining.set()
            self._drained_at = time.monotonic() + self._context.settings.service.drain_seconds
            return
        super().handle_exit(sig, frame)
        if self.force_exit:
            self._context.grace = 0.0

    async def on_tick(self, counter: int) -> bool:
        return await super().on_tick(counter) or time.monotonic() >= self._drained_at

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._context.draining.set()
        await super().shutdown(sockets)

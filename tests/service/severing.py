"""A way to PostgreSQL that breaks at a commit: before the server hears of it, or before the caller hears of it."""

import socket
import threading
from contextlib import suppress

BYTES = 65_536


class Proxy:
    """Hands connections on; set `sever`, and the next COMMIT ends its connection.

    ``before``: the COMMIT is not handed on. ``after``: it is, and the server's answer is not.
    """

    def __init__(self, port):
        self.sever = None
        self.severed = 0
        self._to = ("127.0.0.1", port)
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def close(self):
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        for thread in self._threads:
            thread.join(10)

    def _accept(self):
        while True:
            try:
                caller, _address = self._listening.accept()
            except OSError:
                return
            server = socket.create_connection(self._to)
            mute = threading.Event()
            for one in (self._asks, self._answers):
                thread = threading.Thread(target=one, args=(caller, server, mute), daemon=True)
                self._threads.append(thread)
                thread.start()

    def _asks(self, caller, server, mute):
        with suppress(OSError):
            while asked := caller.recv(BYTES):
                sever = self.sever if b"COMMIT" in asked else None
                if sever is not None:
                    self.sever = None
                    self.severed += 1
                    mute.set()
                    if sever == "before":
                        break
                server.sendall(asked)
        _end(server) if not mute.is_set() or sever == "before" else None
        if mute.is_set() and sever == "before":
            _end(caller)

    def _answers(self, caller, server, mute):
        with suppress(OSError):
            while answered := server.recv(BYTES):
                if mute.is_set():
                    break
                caller.sendall(answered)
        _end(caller)
        _end(server)


def _end(connection):
    with suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()

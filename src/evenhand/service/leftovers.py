"""Operations that the store could not take, for when it is back."""

from __future__ import annotations

import threading
from collections import deque
from concurrent.futures import Future
from typing import Any

from evenhand.errors import EvenhandError, StoreError
from evenhand.service.machines.machine import Operation
from evenhand.service.store.ledger import Done, Ledger

SECONDS = 1.0
"""Between two attempts."""

MOST = 10_000
"""Records that are remembered; of further ones only their number is."""


class Leftovers:
    """Has operations carried out in the end that nobody waits for.

    Args:
        ledger: the store.
        stream: the name of the stream that they are for.
    """

    def __init__(self, ledger: Ledger, stream: str) -> None:
        self._ledger, self._stream = ledger, stream
        self._left: deque[Operation] = deque()
        self._lost = 0
        self._lock = threading.Lock()
        self._wake, self._stop = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def waiting(self) -> int:
        """Operations that the store has not taken."""
        return len(self._left)

    def submit(self, operation: Operation) -> Future[Done] | None:
        """Have an operation carried out, now or later; it must be one that may be carried out twice.

        Returns:
            what comes of the first attempt; None if it failed at once.
        """
        try:
            asked = self._ledger.submit(self._stream, operation, durable=False)
        except StoreError:
            self._keep(operation)
            return None

        def done(future: Future[Done]) -> None:
            if isinstance(future.exception(), StoreError):
                self._keep(operation)

        asked.add_done_callback(done)
        return asked

    def close(self) -> None:
        """Try once more, and stop."""
        self._stop.set()
        self._wake.set()
        if self._thread is not None:
            self._thread.join()
        self._try()

    def _keep(self, operation: Operation) -> None:
        with self._lock:
            # What gives up an admission must come: it would be open for ever.
            if operation.get("op") == "record" and len(self._left) >= MOST:
                self._lost += 1
            else:
                self._left.append(operation)
            if self._thread is None and not self._stop.is_set():
                self._thread = threading.Thread(target=self._again, name="evenhand-leftovers", daemon=True)
                self._thread.start()
        self._wake.set()

    def _again(self) -> None:
        while not self._stop.is_set():
            self._wake.wait()
            self._stop.wait(SECONDS)
            if not self._stop.is_set() and self._try():
                self._wake.clear()
                if self._left:
                    self._wake.set()

    def _try(self) -> bool:
        """Whether the store took everything."""
        while self._left:
            try:
                self._ledger.submit(self._stream, self._left[0]).result()
            except StoreError:
                return False
            except EvenhandError:
                pass  # Carried out before, as far as it makes sense.
            self._left.popleft()
        lost, self._lost = self._lost, 0
        if lost:
            note: dict[str, Any] = {"what": "lost", "records": lost}
            self.submit({"op": "record", "note": note})
        return True

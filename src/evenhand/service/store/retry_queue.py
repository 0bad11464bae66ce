"""Queue of operations without a waiting caller, for use while the store is unavailable."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future

from evenhand.errors import StoreError
from evenhand.service.background import PeriodicThread
from evenhand.service.state_machines import Operation
from evenhand.service.store.ledger import Ledger
from evenhand.service.store.transaction import OperationResult

logger = logging.getLogger("evenhand.service")

RETRY_SECONDS = 0.5
"""Seconds between two attempts of queued operations."""

MAX_WAITING = 10_000
"""Maximum number of queued operations. Further ones are only counted."""


class RetryQueue:
    """Applies operations in order, and retries them while the store is unavailable.

    Args:
        ledger: Ledger of the store.
        stream: Name of the stream.
        describe_lost: Function that builds the operation that logs a number of lost operations.

    Attributes:
        ledger: Ledger of the store.
        lost: Number of operations that were dropped because the queue was full, or refused by the stream.
    """

    def __init__(self, ledger: Ledger, stream: str, describe_lost: Callable[[int], Operation]) -> None:
        self.ledger, self._stream, self._describe_lost = ledger, stream, describe_lost
        self._pending: deque[Operation] = deque()
        self._unlogged_losses = 0
        self._lock = threading.Lock()
        self._thread = PeriodicThread("evenhand-retries", RETRY_SECONDS, {f"retries of {stream}": self._retry})
        self.lost = 0

    @property
    def waiting(self) -> int:
        """Number of queued operations."""
        return len(self._pending)

    @property
    def is_empty(self) -> bool:
        """Whether all operations were carried out, and all losses are logged."""
        return not self._pending and not self._unlogged_losses

    def submit(self, operation: Operation) -> Future[OperationResult] | None:
        """Apply an operation now or later. The operation must be idempotent.

        Returns:
            The result of the first attempt. None if it failed.
        """
        try:
            future = self.ledger.submit(self._stream, operation, durable=False)
        except StoreError:
            self.keep(operation)
            return None

        def keep_failed(future: Future[OperationResult]) -> None:
            if isinstance(future.exception(), StoreError):
                self.keep(operation)

        future.add_done_callback(keep_failed)
        return future

    def keep(self, operation: Operation) -> None:
        """Queue an operation because the store is unavailable. Beyond the maximum, it is only counted."""
        with self._lock:
            if self.is_empty:
                logger.error("the store does not answer", extra={"about": {"stream": self._stream}})
            # Abandonments are always kept: without them, an admission would stay open.
            if operation.get("op") == "abandon" or len(self._pending) < MAX_WAITING:
                self._pending.append(operation)
            else:
                self._count_lost()
            if not self._thread.is_started:
                self._thread.start()

    def close(self) -> None:
        """Try once more, report lost operations, and stop."""
        self._thread.stop()
        self._retry()
        if not self.is_empty:
            about = {"stream": self._stream, "operations": len(self._pending) + self._unlogged_losses}
            logger.error("operations were never logged: the store does not respond", extra={"about": about})

    def _count_lost(self) -> None:
        self.lost += 1
        self._unlogged_losses += 1

    def _retry(self) -> None:
        """Carry out queued operations until the store fails."""
        if self.is_empty:
            return
        try:
            while self._pending:
                self._carry_out_first()
            if losses := self._unlogged_losses:
                self.ledger.submit(self._stream, self._describe_lost(losses)).result()
                with self._lock:
                    self._unlogged_losses -= losses
        except StoreError:
            return
        logger.warning("the store answers again", extra={"about": {"stream": self._stream}})

    def _carry_out_first(self) -> None:
        # One at a time, because an operation that follows a failed one must not be carried out twice.
        error = self.ledger.submit(self._stream, self._pending[0]).exception()
        if isinstance(error, StoreError):
            raise error
        with self._lock:
            self._pending.popleft()
            if error is not None:
                # Later operations must still be carried out.
                self._count_lost()
        if error is not None:
            logger.error("a queued operation was refused", exc_info=error, extra={"about": {"stream": self._stream}})

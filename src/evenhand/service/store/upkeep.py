"""What a replica does by itself in the background: it beats, watches the others, and deletes what is too old."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from evenhand.errors import StoreError
from evenhand.service.store.replicas import BEAT_SECONDS, Replicas
from evenhand.service.store.retention import Retention

logger = logging.getLogger(__name__)

TIDY_SECONDS = 600.0
"""Between two looks for what is too old."""


class Upkeep:
    """Runs until it is stopped. A store that fails stops nothing: everything is tried again the next time.

    Args:
        replicas: of this process.
        retention: of this process.
        steady: seconds of a clock that never jumps.
    """

    def __init__(
        self, replicas: Replicas, retention: Retention, *, steady: Callable[[], float] = time.monotonic
    ) -> None:
        self._replicas, self._retention = replicas, retention
        self._steady = steady
        self._tidied: float | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="evenhand-upkeep", daemon=True)

    def start(self) -> None:
        """Beat once, so that the others know of this one before it opens anything; then go on in the background.

        Raises:
            StoreError: the store failed.
        """
        self._replicas.beat()
        self._thread.start()

    def once(self) -> None:
        """Everything that is due now."""
        duties = [self._replicas.beat, self._replicas.look]
        now = self._steady()
        if self._tidied is None or now - self._tidied >= TIDY_SECONDS:
            self._tidied = now
            duties.append(self._retention.tidy)
        for duty in duties:
            try:
                duty()
            except StoreError as error:
                logger.warning("%s: %s", duty.__name__, error.what)
            except Exception:
                logger.exception("%s failed", duty.__name__)

    def stop(self) -> None:
        """Stop, and tell the others; to be called before the ledger is closed."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()
            try:
                self._replicas.leave()
            except StoreError as error:
                logger.warning("the other replicas will find out by themselves that this one ended: %s", error.what)

    def _run(self) -> None:
        while not self._stop.is_set():
            self.once()
            self._stop.wait(BEAT_SECONDS)

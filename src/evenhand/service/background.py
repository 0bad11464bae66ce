"""Work that runs in a thread again and again."""

from __future__ import annotations

import threading
from collections.abc import Callable


class PeriodicThread:
    """Runs work again and again until it is stopped.

    Args:
        name: Name of the thread.
        work: What runs. It handles its own errors.
        seconds: Pause between two runs.
    """

    def __init__(self, name: str, work: Callable[[], object], seconds: float) -> None:
        self._work, self._seconds = work, seconds
        self._wake = threading.Event()
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    @property
    def is_started(self) -> bool:
        """Whether the thread was started."""
        return self._thread.ident is not None

    def start(self) -> None:
        """Start the thread; the first run comes at once."""
        self._thread.start()

    def wake(self) -> None:
        """Cut the pause short."""
        self._wake.set()

    def stop(self) -> None:
        """Wait for the run under way, and end the thread if it was started."""
        self._stopped = True
        self._wake.set()
        if self.is_started:
            self._thread.join()

    def _run(self) -> None:
        while True:
            self._wake.clear()
            if self._stopped:
                return
            self._work()
            self._wake.wait(self._seconds)

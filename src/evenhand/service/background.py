"""Tasks that a thread runs repeatedly."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping

from evenhand.errors import EvenhandError

logger = logging.getLogger("evenhand.service")


class PeriodicThread:
    """Thread that runs tasks repeatedly until it is stopped. Errors of a task are logged.

    Args:
        name: Name of the thread.
        seconds: Pause between two runs.
        tasks: Tasks, keyed by their names in the log.
    """

    def __init__(self, name: str, seconds: float, tasks: Mapping[str, Callable[[], object]]) -> None:
        self.tasks = dict(tasks)
        self._seconds = seconds
        self._wake = threading.Event()
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    @property
    def is_started(self) -> bool:
        """Whether the thread was started."""
        return self._thread.ident is not None

    def start(self) -> None:
        """Start the thread if there are tasks. The first run starts immediately."""
        if self.tasks:
            self._thread.start()

    def wake(self) -> None:
        """Cut the pause short."""
        self._wake.set()

    def stop(self) -> None:
        """Wait for the current run and stop the thread, if it was started."""
        self._stopped = True
        self._wake.set()
        if self.is_started:
            self._thread.join()

    def run_once(self) -> None:
        """Run all tasks."""
        for name, task in self.tasks.items():
            try:
                task()
            except EvenhandError as error:
                logger.warning("%s: %s", name, error.message)
            except Exception:
                logger.exception("%s failed", name)

    def _run(self) -> None:
        while True:
            self._wake.clear()
            if self._stopped:
                return
            self.run_once()
            self._wake.wait(self._seconds)

"""Alarms are posted to an address, so that somebody hears of them at once."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Sequence

from evenhand.core.http import HttpClient
from evenhand.errors import EvenhandError
from evenhand.monitoring.result import Alarm

TIMEOUT = 10.0
RETRIES = 3
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 300.0
"""Seconds after which an alarm that was not taken is posted again: the first time, and later at most."""


def post_alarm(alarm: Alarm, url: str, *, monitor: str, retries: int = RETRIES) -> None:
    """Post an alarm as JSON: its ``id``, its ``text``, the name of the ``monitor``, and all fields of the ``alarm``.

    The id, also the header ``Idempotency-Key``, is the same whenever the same alarm is posted again.

    Args:
        alarm: to post.
        url: where to.
        monitor: its name.
        retries: how often to try again.

    Raises:
        FetchError: the address does not take it, after these tries.
        ModelError: its answer makes no sense.
    """
    place = url.partition("://")[2].split("/")[0].rpartition("@")[2]  # the rest of such an address is often a secret
    client = HttpClient(
        name="the webhook",
        location=place,
        timeout=TIMEOUT,
        retries=retries,
        backoff=0.5,
        retries_when_late=True,
        hints={},
        hint="see the address under `webhook` in the configuration",
    )
    said = {"monitor": monitor, "text": f"{alarm.sentence}.", "alarm": alarm.model_dump(mode="json")}
    id = hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()[:32]
    headers = {"Content-Type": "application/json", "Idempotency-Key": id}
    try:
        client.ask("POST", url, headers, (url,), json.dumps({"id": id, **said}).encode())
    finally:
        client.close()


class AlarmPoster:
    """Posts the alarms of a monitor in their order, each until it is taken, with pauses that become longer.

    Args:
        url: where to; None: nowhere.
        monitor: its name.
        steady: seconds of a clock that never jumps.
    """

    def __init__(self, url: str | None, monitor: str, *, steady: Callable[[], float] = time.monotonic) -> None:
        self._url, self._monitor, self._steady = url, monitor, steady
        self._pause = 0.0
        self._next = -float("inf")

    def post(self, alarms: Sequence[Alarm], posted: int, keep: Callable[[int], object], *, last: bool = False) -> None:
        """Post those that were not, unless the pause after one that was not taken goes on.

        Args:
            alarms: all that there are.
            posted: how many of them have been.
            keep: is told the number of alarms that have been posted, after each.
            last: whether this is the last chance: the pause is cut short, and each is tried a few times.

        Raises:
            EvenhandError: the address does not take one; the next call tries it again, once the pause is over.
        """
        if self._url is None or (self._steady() < self._next and not last):
            return
        for number, alarm in enumerate(alarms[posted:], start=posted + 1):
            try:
                post_alarm(alarm, self._url, monitor=self._monitor, retries=RETRIES if last else 0)
            except EvenhandError:
                self._pause = min(2 * self._pause or FIRST_PAUSE, LONGEST_PAUSE)
                self._next = self._steady() + self._pause
                raise
            self._pause = 0.0
            keep(number)

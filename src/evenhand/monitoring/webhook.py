"""Webhook that alarms are posted to."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Sequence

from evenhand.core.http import HttpClient
from evenhand.errors import EvenhandError
from evenhand.monitoring.result import Alarm

TIMEOUT, RETRIES = 10.0, 3
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 300.0
"""Initial and maximum delay in seconds before a failed post is retried."""


def post_alarm(alarm: Alarm, url: str, *, monitor: str, retries: int = RETRIES) -> None:
    """Post an alarm as JSON: its ``id``, its ``text``, the name of the ``monitor``, and all fields of the ``alarm``.

    The id, also sent as the header ``Idempotency-Key``, is the same whenever the same alarm is posted again.

    Raises:
        EvenhandError: All attempts failed, or the response is invalid.
    """
    place = url.partition("://")[2].split("/")[0].rpartition("@")[2]  # the rest of a webhook's URL is often a secret
    hint = "check the address under `webhook` in the configuration"
    client = HttpClient("the webhook", place, TIMEOUT, retries, 0.5, retries_when_late=True, hints={}, hint=hint)
    message = {"monitor": monitor, "text": f"{alarm.sentence}.", "alarm": alarm.model_dump(mode="json")}
    id = hashlib.sha256(json.dumps(message, sort_keys=True).encode()).hexdigest()[:32]
    headers = {"Content-Type": "application/json", "Idempotency-Key": id}
    try:
        client.ask("POST", url, headers, (url,), json.dumps({"id": id, **message}).encode())
    finally:
        client.close()


class AlarmPoster:
    """Post the alarms of a monitor in order, and retry failed posts after increasing delays. None: no posts."""

    def __init__(self, url: str | None, monitor: str, *, steady: Callable[[], float] = time.monotonic) -> None:
        self._url, self._monitor, self._steady = url, monitor, steady
        self._pause, self._next = 0.0, -float("inf")

    def post(self, alarms: Sequence[Alarm], posted: int, keep: Callable[[int], object], *, last: bool = False) -> None:
        """Post the remaining alarms, unless the pause after a failure is still in effect.

        Args:
            alarms: All alarms, of which the first ``posted`` are skipped.
            posted: Number of posted alarms.
            keep: Function that receives this number after each post.
            last: Whether this is the last call, which ignores the pause and retries each post.

        Raises:
            EvenhandError: A post failed. The next call after the pause retries it.
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

"""Alarms are posted to an address, so that somebody hears of them at once."""

from __future__ import annotations

import json

from evenhand.http import HttpClient
from evenhand.monitoring.result import Alarm

TIMEOUT = 10.0
RETRIES = 3


def post_alarm(alarm: Alarm, url: str, *, monitor: str) -> None:
    """Post an alarm as JSON: its ``text``, the name of the ``monitor``, and all fields of the ``alarm``.

    Raises:
        FetchError: the address does not take it, after a few tries.
        ModelError: its answer makes no sense.
    """
    place = url.partition("://")[2].split("/")[0].rpartition("@")[2]  # the rest of such an address is often a secret
    client = HttpClient(
        name="the webhook", location=place, timeout=TIMEOUT, retries=RETRIES, backoff=0.5, retries_when_late=True,
        hints={}, hint="see the address under `webhook` in the configuration",
    )  # fmt: skip
    told = {"monitor": monitor, "text": f"{alarm.sentence}.", "alarm": alarm.model_dump(mode="json")}
    try:
        client.ask("POST", url, {"Content-Type": "application/json"}, (url,), json.dumps(told).encode())
    finally:
        client.close()

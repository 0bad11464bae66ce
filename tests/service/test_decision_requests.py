"""IDs of requests: a request keeps the ID that it came with."""

from __future__ import annotations

from typing import Any

import pytest

PATH = "/v1/shields/loans/decisions"
PERSON = {"id": "application 1", "group": "women", "recommendation": 0}


def test_keeps_the_request_id(client: Any, caplog: pytest.LogCaptureFixture) -> None:
    for body in (PERSON, {**PERSON, "group": "x"}):
        answer = client.post(PATH, json=body, headers={"x-request-id": "order-17/a"})
        assert answer.headers["x-request-id"] == "order-17/a"
    assert [record.about["request"] for record in caplog.records if hasattr(record, "about")] == ["order-17/a"]
    assert client.get("/healthz", headers={"x-request-id": "a b"}).headers["x-request-id"] != "a b"

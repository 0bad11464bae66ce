"""Decisions over HTTP: answers, headers, limits, errors and figures."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="needs the extra serve")

from starlette.testclient import TestClient
from worked_streams import PARITY

from evenhand.service import ServiceConfig, create_app

ONE = {"id": "application 1", "group": "women", "recommendation": 0}
PATH = "/v1/shields/loans/decisions"


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Any]:
    opened: list[TestClient] = []

    def client(name: str, **parts: Any) -> TestClient:
        service = {"database": f"sqlite:///{tmp_path / name}.db", "keys": False, **parts.pop("service", {})}
        settings = {"service": service, "shields": [{"name": "loans", "plan": PARITY}], **parts}
        found = TestClient(create_app(ServiceConfig.read(settings)), base_url="http://localhost")
        opened.append(found.__enter__())
        return found

    yield client
    for one in opened:
        one.__exit__(None, None, None)


REQUESTS: list[tuple[str, Any, dict[str, str]]] = [
    (PATH, ONE, {}),
    (PATH, ONE, {}),
    (PATH, {**ONE, "recommendation": 1}, {}),
    (PATH, {**ONE, "id": 2, "group": "children"}, {}),
    (PATH, {**ONE, "id": 2, "grup": "men"}, {}),
    (PATH, {**ONE, "id": 3, "cost": 7.0}, {}),
    (PATH, [ONE], {}),
    (PATH + "/batch", {"decisions": [{**ONE, "id": "b1"}, {**ONE, "id": "b2", "group": "x"}, ONE]}, {}),
    (PATH + "/batch", {"decisions": []}, {}),
    ("/v1/shields/unknown/decisions", ONE, {}),
    (PATH, {**ONE, "id": "evil"}, {"host": "evil.example.org"}),
    (PATH, {**ONE, "id": "page"}, {"origin": "http://localhost"}),
    (PATH, {**ONE, "id": "other"}, {"origin": "http://elsewhere.example.org"}),
]


def test_each_request_is_answered_counted_and_logged(make: Any) -> None:
    client = make("all")
    answers = [client.post(path, json=body, headers=headers) for path, body, headers in REQUESTS]
    headers = {"content-type": "application/json"}
    answers += [client.post(PATH, content=content, headers=headers) for content in (b'{"id": 1, "id": 1}', b"{")]
    statuses = [answer.status_code for answer in answers]
    assert statuses == [200, 200, 409, 422, 422, 422, 422, 200, 422, 404, 403, 200, 403, 400, 400]
    assert len({answer.headers["x-request-id"] for answer in answers}) == len(answers)
    assert all(answer.headers["x-content-type-options"] == "nosniff" for answer in answers)
    assert answers[1].headers["x-evenhand-repeated"] == "true"
    figures = client.get("/metrics").text
    route = '{method="POST",route="/v1/shields/{name}/decisions",status="200"}'
    assert f"evenhand_http_requests_total{route} 3.0" in figures
    log = [json.loads(line) for line in client.get("/v1/streams/loans/log").text.splitlines()]
    assert [entry["body"].get("id") for entry in log] == [None, "application 1", "b1", "page"]


def test_a_request_keeps_the_name_that_it_came_with(make: Any, caplog: pytest.LogCaptureFixture) -> None:
    client = make("named")
    for path, body in ((PATH, ONE), (PATH, {**ONE, "group": "x"})):
        answer = client.post(path, json=body, headers={"x-request-id": "order-17/a"})
        assert answer.headers["x-request-id"] == "order-17/a"
    assert [one.about["request"] for one in caplog.records if hasattr(one, "about")] == ["order-17/a"]
    # What could not be a name is none.
    assert client.get("/healthz", headers={"x-request-id": "a b"}).headers["x-request-id"] != "a b"

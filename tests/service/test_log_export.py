"""The log over HTTP: whole or in parts, and what comes out of it replays."""

import json

import pytest

from evenhand.service.replay.replay import parse_line, replay_log


@pytest.fixture
def worked(client):
    for number in range(30):
        body = {"id": str(number), "group": ["women", "men"][number % 2], "recommendation": number % 3 % 2}
        assert client.post("/v1/shields/loans/decisions", json=body).status_code == 200
    for _ in range(2):
        client.post("/v1/images/generations", json={"prompt": "a leader"})
    return client


def entries(answer):
    assert answer.headers["content-type"].startswith("application/x-ndjson")
    return [parse_line(line) for line in answer.text.splitlines()]


def test_what_is_exported_replays_up_to_the_head_that_is_said(worked):
    for head in worked.get("/v1/streams").json()["streams"]:
        answer = worked.get(f"/v1/streams/{head['name']}/log")
        assert answer.headers["x-evenhand-head"] == f"{head['number']} {head['hash']}"
        done = replay_log(entries(answer), head=head["hash"])
        assert done.all_agree, done.summary()
        assert (done.last, done.head) == (head["number"], head["hash"])


def test_parts_are_those_of_the_whole(worked, monkeypatch):
    monkeypatch.setattr("evenhand.service.api.routes.streams.LINES_PER_PIECE", 7)
    whole = entries(worked.get("/v1/streams/loans/log"))
    assert len(whole) == 31
    assert whole == entries(worked.get("/v1/streams/loans/log", params={"limit": 1000}))
    parts, after = [], -1
    while part := entries(worked.get("/v1/streams/loans/log", params={"after": after, "limit": 9})):
        assert len(part) <= 9
        parts += part
        after = part[-1]["number"]
    assert parts == whole


def test_what_cannot_be_exported_is_said(client):
    answer = client.get("/v1/streams/nobody/log")
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "stream")
    for wrong in ({"after": -2}, {"limit": 0}, {"after": "x"}):
        assert client.get("/v1/streams/loans/log", params=wrong).status_code == 422
    assert json.loads(client.get("/v1/streams/loans/log").text)["number"] == 0

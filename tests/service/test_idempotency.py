"""Requests for pictures and texts under an idempotency key: made and counted once, and answered alike."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import insert, select, update

from evenhand.service import Database, Ledger, ServiceConfig
from evenhand.service.store.database import read_log
from evenhand.service.store.tables import responses
from evenhand.service.store.upkeep import DAY_SECONDS, RetentionJob
from genai_upstream import Upstream

PICTURES, PROMPT = "/v1/images/generations", {"prompt": "a leader", "model": "studio"}
KEY = {"idempotency-key": "5f0c-1"}


def entries(client, stream="studio"):
    return len(list(read_log(client.app.state.context.database, stream)))


def in_store(client, statement):
    with client.app.state.context.database.transaction() as connection:
        connection.execute(statement)


def test_a_picture_is_made_and_counted_once(client):
    first = client.post(PICTURES, json=PROMPT, headers=KEY)
    count = entries(client)
    again = client.post(PICTURES, json=PROMPT, headers=KEY)
    assert (first.status_code, again.status_code) == (200, 200)
    assert (again.content, entries(client)) == (first.content, count)
    assert "x-evenhand-repeated" not in first.headers
    assert again.headers["x-evenhand-repeated"] == "true"
    for name in ("content-type", "x-evenhand-status", "x-evenhand-entry", "x-evenhand-disclosure"):
        assert again.headers[name] == first.headers[name]
    client.post(PICTURES, json=PROMPT)
    client.post(PICTURES, json=PROMPT, headers={"idempotency-key": "5f0c-2"})
    assert entries(client) == count + 4, "without the key, and under another one, it is made again"


def test_a_key_is_for_one_request(client):
    assert client.post(PICTURES, json=PROMPT, headers=KEY).status_code == 200
    count = entries(client)
    other = client.post(PICTURES, json={**PROMPT, "n": 2}, headers=KEY)
    assert (other.status_code, other.json()["error"]["code"]) == (409, "repeated")
    assert entries(client) == count


@pytest.mark.parametrize("key", ["", "x" * 256, "caf\u00e9"])
def test_what_is_not_a_key_is_refused(client, key):
    answer = client.post(PICTURES, json=PROMPT, headers={"idempotency-key": key.encode()})
    assert answer.status_code == 422
    assert "expected a key of 1 to 255 printable characters" in answer.json()["error"]["message"]


def test_an_error_can_be_repeated_under_its_key(client):
    wrong = {**PROMPT, "model": "nothing"}
    assert [client.post(PICTURES, json=wrong, headers=KEY).status_code for _ in range(2)] == [404, 404]
    assert client.post(PICTURES, json=PROMPT, headers=KEY).status_code == 200


def test_what_is_under_way_or_was_lost_is_not_made_again(client):
    assert client.post(PICTURES, json=PROMPT, headers=KEY).status_code == 200
    count = entries(client)
    for change, said in (({}, "is under way"), ({"at": 0.0}, "is not known"), ({"replica": "dead"}, "is not known")):
        in_store(client, update(responses).values(status=None, headers=None, body=None, **change))
        answer = client.post(PICTURES, json=PROMPT, headers=KEY)
        assert (answer.status_code, answer.json()["error"]["code"]) == (409, "repeated")
        assert said in answer.json()["error"]["message"]
    assert entries(client) == count


def test_of_many_at_the_same_moment_one_is_made(client):
    with ThreadPoolExecutor(8) as many:
        found = list(many.map(lambda _: client.post(PICTURES, json=PROMPT, headers=KEY).status_code, range(8)))
    assert set(found) <= {200, 409}
    assert 200 in found
    admitted = [
        one
        for one in read_log(client.app.state.context.database, "studio")
        if one["body"].get("input", {}).get("op") == "admit"
    ]
    assert len(admitted) == 1


def test_texts_are_answered_alike_in_pieces_too(described, serving_client):
    with Upstream() as upstream:
        described["guards"] = [
            {
                "name": "texts",
                "config": {
                    "conditions": [{"name": "leader", "keywords": ["leader"]}],
                    "specifications": [
                        {"condition": "leader", "group": "gender", "values": ["woman", "man"], "repeated": 5}
                    ],
                    "generator": {"kind": "chat", "url": upstream.url, "model": "m"},
                    "classifier": {"kind": "lexicon", "words": {"gender": {"woman": ["she"], "man": ["he"]}}},
                },
            }
        ]
        client = serving_client(ServiceConfig.read(described))
        asked = {"model": "texts", "stream": True, "messages": [{"role": "user", "content": "a leader"}]}
        first, again = (client.post("/v1/chat/completions", json=asked, headers=KEY) for _ in range(2))
        assert first.status_code == 200, first.text
        assert (again.content, again.headers["content-type"]) == (first.content, first.headers["content-type"])
        assert len(upstream.received) == 1


def test_answers_are_kept_for_a_day(store_url):
    database = Database(store_url)
    ledger = Ledger(database, {})
    row = {"name": "0" * 64, "asked": "", "replica": "", "status": 200, "headers": "{}", "body": b""}
    with database.transaction() as connection:
        connection.execute(insert(responses).values(**row, at=10.0))
    now = [0.0]
    retention = RetentionJob(
        database, ledger, log_days=None, picture_days=None, clock=lambda: now[0], steady=lambda: now[0]
    )
    kept = []
    for now[0] in (DAY_SECONDS, DAY_SECONDS + 11.0):
        retention.delete_expired()
        with database.reading() as connection:
            kept.append(len(connection.execute(select(responses)).all()))
    assert kept == [1, 0]
    ledger.close()
    database.close()

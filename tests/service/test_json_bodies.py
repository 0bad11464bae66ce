"""JSON bodies of requests: what is not JSON is an error of the client on every route, and changes nothing."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from service_settings import WATCH, describe_service
from starlette.testclient import TestClient

from evenhand.service import ServiceConfig, create_app
from evenhand.service.api.error_handlers import HttpError
from evenhand.service.api.json_bodies import parse_json_body

VALUES = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


def _is_valid(value):
    """Check independently whether a value can be written as JSON in UTF-8."""
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, str):
        return not any("\ud800" <= letter <= "\udfff" for letter in value)
    if isinstance(value, dict):
        return all(_is_valid(name) and _is_valid(entry) for name, entry in value.items())
    return all(map(_is_valid, value)) if isinstance(value, list) else True


@given(VALUES, st.booleans(), st.booleans())
def test_valid_json_is_read_and_everything_else_is_refused(value, escaped, marked):
    body = json.dumps(value, ensure_ascii=escaped).encode("utf-8", "surrogatepass")
    body = (b"\xef\xbb\xbf" if marked else b"") + body
    if _is_valid(value):
        assert parse_json_body(body) == value
        return
    with pytest.raises(HttpError) as caught:
        parse_json_body(body)
    assert (caught.value.status_code, caught.value.code) == (400, "json")


INVALID = {
    "nan": b'{"a": [{"b": NaN}]}',
    "infinity": b'{"a": -Infinity}',
    "too large": b'{"a": [1e400]}',
    "too many digits": b'{"a": ' + b"1" * 5000 + b"}",
    "repeated name": b'{"a": {"b": 1, "b": 2}}',
    "half an emoji": b'{"a": "\\ud83d"}',
    "half an emoji in a name": b'{"\\ude00": 1}',
    "halves in the wrong order": b'{"a": "\\ude00\\ud83d"}',
    "surrogate in UTF-8": b'{"a": "\xed\xa0\xbd"}',
    "cut off UTF-8": b'{"a": "\xf0\x9f"}',
    "UTF-16": '{"a": 1}'.encode("utf-16"),
    "cut off": b'{"a": ',
    "nested too deeply": b"[" * 100_000,
    "nothing but a mark": b"\xef\xbb\xbf",
}


def test_texts_that_only_look_like_invalid_json_are_kept():
    body = b'{"a": "NaN 1e400 \\\\ud83d \\ud83d\\ude00"}'
    assert parse_json_body(body) == {"a": "NaN 1e400 \\ud83d \U0001f600"}


ROUTES = [
    ("POST", "/v1/shields/loans/decisions"),
    ("POST", "/v1/shields/loans/decisions/batch"),
    ("POST", "/v1/shields/loans/labels"),
    ("POST", "/v1/images/generations"),
    ("POST", "/v1/chat/completions"),
    ("POST", "/v1/embeddings"),
    ("POST", "/v1/monitors/watch/events"),
    ("POST", "/beta/litellm_basic_guardrail_api"),
]


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    settings = describe_service(tmp_path_factory.mktemp("json"))
    settings["monitors"] = [{"name": "watch", "config": WATCH}]
    with TestClient(create_app(ServiceConfig.read(settings))) as client:
        yield client


def _log_lengths(client):
    streams = client.get("/v1/streams").json()["streams"]
    return {one["name"]: one["number"] for one in streams}


@pytest.mark.parametrize(("method", "path"), ROUTES)
def test_every_route_refuses_invalid_json_and_logs_nothing(client, method, path):
    before = _log_lengths(client)
    for body in INVALID.values():
        answer = client.request(method, path, content=body, headers={"content-type": "application/json"})
        assert (answer.status_code, answer.json()["error"]["code"]) == (400, "json"), body[:40]
        assert len(answer.text) < 500, "what was sent is not sent back"
    assert _log_lengths(client) == before


@pytest.mark.parametrize(
    "content_type", [None, "application/x-www-form-urlencoded", "text/plain", "application/x-json"]
)
@pytest.mark.parametrize(("method", "path"), ROUTES)
def test_every_route_names_a_wrong_content_type(client, method, path, content_type):
    headers = {} if content_type is None else {"content-type": content_type}
    answer = client.request(method, path, content=b'{"model": "studio", "prompt": "a"}', headers=headers)
    assert (answer.status_code, answer.json()["error"]["code"]) == (415, "content_type")


@pytest.mark.parametrize("content_type", ["application/json; charset=utf-8", "Application/JSON", "application/a+json"])
def test_every_kind_of_json_is_taken(client, content_type):
    for body in (b'{"prompt": "a tree"}', b'\xef\xbb\xbf{"prompt": "a tree"}'):
        answer = client.post("/v1/images/generations", content=body, headers={"content-type": content_type})
        assert answer.status_code == 200

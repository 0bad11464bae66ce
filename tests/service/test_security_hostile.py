"""Requests that are made to break things: each gets one error, and harms nobody else."""

import json

import pytest
from service_settings import GUARD, PLAN, idle_context, keyless
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.responses import Response
from starlette.routing import Route
from starlette.testclient import TestClient

from evenhand.service import ServiceConfig, create_app
from evenhand.service.api.envelope import SECURITY_HEADERS, RequestEnvelope

UNUSUAL = {**PLAN, "groups": {"größe\r\nx: y": PLAN["groups"]["women"], "men": PLAN["groups"]["men"]}}
DECISIONS, PICTURES, TEXTS = "/v1/shields/loans/decisions", "/v1/images/generations", "/v1/chat/completions"
GUARDRAIL = "/beta/litellm_basic_guardrail_api"


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    streams = {"shields": [{"name": "loans", "plan": UNUSUAL}], "guards": [{"name": "studio", "config": GUARD}]}
    described = keyless(tmp_path_factory.mktemp("store"), limits={"body_bytes": 3_000_000}, **streams)
    with TestClient(create_app(ServiceConfig.read(described)), raise_server_exceptions=False) as here:
        yield here


def decision(cost="", group="men", id="x"):
    return f'{{"id": {json.dumps(id)}, "group": {json.dumps(group)}, "recommendation": 1{cost}}}'


BOMBS = {
    "deep lists that end": "[" * 200_000 + "]" * 200_000,
    "deep objects": '{"a":' * 200_000,
    "a deep id": f'{{"id": {"[" * 5_000}{"]" * 5_000}, "group": "men", "recommendation": 1}}',
    "a deep entry": f'{{"prompt": "leader", "messages": {"[" * 5_000}{"]" * 5_000}}}',
    "an integer beyond floats": decision(', "cost": ' + "9" * 400),
    "a giant id": '{"id": ' + "9" * 100_000 + ', "group": "men", "recommendation": 1}',
    "a giant number alone": "1" * 1_000_000,
    "control characters": '{"id": "a\\u0000\\r\\nb", "group": "men", "recommendation": 1}',
    "text turned around": decision(id="loan \u202e21"),
    "an isolated text": decision(id="loan \u206621\u2069"),
    "an id that is not seen": decision(id="loan\u200b"),
    "an id with a tag": decision(id="loan\U000e0041"),
    "a group that is a header": decision(group="men\r\nset-cookie: a=b"),
    "nothing": "",
    "null": "null",
    "a text": '"x"',
    "a text that does not end": '"' + "x" * 1_000_000,
    "many entries": json.dumps({f"entry{k}": k for k in range(100_000)}),
    "many entries of many": json.dumps({"decisions": [{f"entry{k}": k for k in range(100)}] * 1_000}),
    "many individuals": json.dumps({"decisions": [{}] * 200_000}),
    "too large": b" " * 3_000_001,
}


@pytest.mark.parametrize(
    "path", [DECISIONS, f"{DECISIONS}/batch", "/v1/shields/loans/labels", PICTURES, TEXTS, GUARDRAIL]
)
def test_what_cannot_be_meant_is_one_error(client, path):
    for name, body in BOMBS.items():
        answer = client.post(path, content=body, headers={"content-type": "application/json"})
        assert 400 <= answer.status_code < 500, (name, answer.text[:200])
        assert set(answer.json()) == {"error"}, name
        assert set(answer.json()["error"]) == {"message", "type", "code", "hint"}, name
        assert len(answer.text) < 5_000, f"{name}: what was sent is not sent back"
        assert "x-evenhand-guarded" not in answer.headers, name


@pytest.mark.parametrize(
    "prompt", ["leader\r\nset-cookie: a=b", "leader ☃ \u2028 ünï", "leader \x00\x7f", "leader %0d%0a"]
)
def test_prompts_break_no_header(client, prompt):
    for path, body in (
        (PICTURES, {"prompt": prompt}),
        (GUARDRAIL, {"texts": [prompt], "input_type": "request", "litellm_call_id": prompt}),
    ):
        answer = client.post(path, json=body)
        assert answer.status_code == 200
        assert "set-cookie" not in answer.headers
        for name, value in answer.headers.raw:
            assert all(32 <= byte < 127 for byte in value), name


@pytest.mark.parametrize(
    ("said", "sent"),
    [
        ("plain", "plain"),
        ("100%", "100%"),
        ("", ""),
        ("a\r\nset-cookie: b\xe9", "a%0D%0Aset-cookie: b%E9"),
        ("\x00\x7f\t", "%00%7F%09"),
    ],
)
def test_routes_cannot_send_a_broken_header(said, sent):
    def page(request):
        return Response("x", headers={"x-said": request.query_params["said"], "cache-control": "max-age=5"})

    app = Starlette(routes=[Route("/login", page)], middleware=[Middleware(RequestEnvelope)])
    app.state.context = idle_context()
    answer = TestClient(app).get("/login", params={"said": said})
    assert answer.headers["x-said"] == sent
    assert answer.headers["cache-control"] == "max-age=5", "a route may say otherwise"
    assert "set-cookie" not in answer.headers


@pytest.mark.parametrize("path", ["/", "/login", "/healthz", "/v1/shields", "/v1/models", "/openapi.json", "/nothing"])
def test_every_answer_keeps_browsers_from_harm(client, path):
    headers = client.get(path).headers
    assert set(SECURITY_HEADERS) <= set(headers)
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cache-control"] in ("no-store", "no-cache")
    assert "server" not in headers


@pytest.mark.parametrize(
    "path",
    [
        "/assets/../app.py",
        "/assets/..%2f..%2fapp.py",
        "/assets/%2e%2e/%2e%2e/settings.py",
        "/assets/....//app.py",
        "/assets//etc/passwd",
        "/assets/%2fetc%2fpasswd",
        "/assets/index.html%00.js",
        "//etc/passwd",
        "/v1/streams/../../x",
        "/v1/dashboard/..%2f..%2fevenhand.db",
        "/v1/shields/..%2f..%2f",
        "/v1/shields/%00",
        "/v1/shields/evenhand:keys",
        "/v1/shields/a%0d%0ab",
        "/v1/models/..%2f..",
        "/v1/streams/..%2fevenhand.db/log",
    ],
)
def test_no_path_leads_anywhere_else(client, path):
    answer = client.get(path)
    assert answer.status_code in (404, 422), answer.text[:200]
    assert set(answer.json()) == {"error"}
    for secret in ("root:", "import ", "SQLite format"):
        assert secret not in answer.text


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "TRACE", "OPTIONS", "BREW"])
def test_other_methods_do_nothing(client, method):
    answer = client.request(method, DECISIONS)
    assert answer.status_code == 405
    assert "access-control-allow-origin" not in answer.headers

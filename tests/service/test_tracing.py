"""Traces: nested spans of a request, a decision, a transaction and a model call, without secrets."""

import subprocess
import sys

import pytest

pytest.importorskip("fastapi", reason="needs the extra serve")
pytest.importorskip("opentelemetry.sdk", reason="needs the extra otel")

from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from starlette.testclient import TestClient

from evenhand.service import ServiceConfig, create_app, tracing
from evenhand.testing import HttpAnswer, LocalServer

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
DECISION = {"id": "somebody", "group": "women", "recommendation": 0}


@pytest.fixture
def exporter(monkeypatch):
    found = InMemorySpanExporter()
    monkeypatch.setattr(tracing, "build_exporter", lambda _config: found)
    return found


@pytest.fixture
def client(described, exporter, serving_client):
    described["tracing"] = {"enabled": True}
    return serving_client(ServiceConfig.read(described))


def flush(client):
    """Export all spans. The span of a transaction is created after its callers have their answers."""
    ledger = client.app.state.context.ledger
    ledger.submit_work(lambda _connection: None).result()
    ledger.tracing.flush()


@pytest.fixture
def spans(client, exporter):
    """Function that reads all spans so far, by name."""

    def read():
        flush(client)
        found = {}
        for span in exporter.get_finished_spans():
            found.setdefault(span.name, []).append(span)
        return found

    return read


def ask(client, **headers):
    return client.post("/v1/shields/loans/decisions", json=DECISION, headers=headers)


def inside(span, outer):
    return span.parent is not None and (span.parent.span_id, span.context.trace_id) == (
        outer.context.span_id,
        outer.context.trace_id,
    )


@pytest.mark.parametrize("header", [{}, {"origin": "http://localhost"}], ids=["without origin", "with origin"])
def test_a_decision_is_traced_down_to_the_disk(client, spans, header):
    assert ask(client, **header, traceparent=PARENT, **{"x-request-id": "mine-7"}).status_code == 200
    found = spans()
    (request,), (decision,) = found["POST /v1/shields/{name}/decisions"], found["evenhand.decide"]
    (commit,) = [one for one in found["evenhand.commit"] if inside(one, decision)]
    assert f"{request.context.trace_id:032x}-{request.parent.span_id:016x}" == PARENT[3:-3]
    assert dict(request.attributes or {}) == {
        "http.request.method": "POST",
        "http.route": "/v1/shields/{name}/decisions",
        "http.response.status_code": 200,
        "evenhand.stream": "loans",
        "evenhand.request_id": "mine-7",
    }
    assert inside(decision, request)
    assert decision.attributes == {"evenhand.stream": "loans", "evenhand.intervened": False, "evenhand.repeated": False}
    assert (commit.attributes or {})["evenhand.streams"] == ("loans",)
    assert commit.end_time >= commit.start_time


def test_a_guarded_picture_is_traced_with_its_backends(client, spans):
    asked = {"prompt": "a leader of my own words", "response_format": "b64_json"}
    assert client.post("/v1/images/generations", json=asked).status_code == 200
    found = spans()
    (request,), (guard,) = found["POST /v1/images/generations"], found["evenhand.guard"]
    assert inside(guard, request)
    for name in ("evenhand.judge", "evenhand.generate", "evenhand.classify"):
        assert all(inside(one, guard) for one in found[name]), name
    assert sum(inside(one, guard) for one in found["evenhand.commit"]) >= 2, "admitted, and completed"
    assert (guard.attributes or {})["evenhand.status"] == "ok"


def test_errors_are_marked_without_input_of_callers(client, spans, exporter):
    ask(client)
    client.post("/v1/shields/loans/decisions", json={**DECISION, "id": "x", "group": "secret group"})
    client.request("HACK", "/v1/shields/loans?token=hidden")
    client.get("/nothing/unguessable")
    found = spans()
    (refused,) = [one for one in found["evenhand.decide"] if not one.status.is_ok and one.status.description]
    assert refused.status.description == "DecisionError"
    text = "".join(one.to_json() for one in exporter.get_finished_spans())
    for secret in ("somebody", "secret group", "women", "unguessable", "hidden", "HACK"):
        assert secret not in text, secret
    assert not {"GET /healthz", "GET /readyz"} & found.keys()


def test_follows_the_sampling_decision_of_the_caller(client, exporter):
    ask(client, traceparent=PARENT[:-1] + "0")
    flush(client)
    # The entry that a guard logs at the start belongs to no request.
    assert {span.name for span in exporter.get_finished_spans()} <= {"evenhand.commit"}
    assert PARENT[3:35] not in {f"{span.context.trace_id:032x}" for span in exporter.get_finished_spans()}
    for nonsense in ("nonsense", "00-0-0-0", "f" * 1000):
        assert ask(client, traceparent=nonsense).status_code == 200


def test_spans_go_to_the_collector_of_the_file(described, monkeypatch):
    came = []

    class Collector(LocalServer):
        def answer(self, path, headers, body):
            came.append((path, body))
            return HttpAnswer(200, {}, b"")

    monkeypatch.setenv("OTEL_SERVICE_NAME", "fairness")
    with Collector() as server:
        described["tracing"] = {"enabled": True, "endpoint": f"{server.root}/"}
        with TestClient(create_app(ServiceConfig.read(described)), base_url="http://localhost") as client:
            ask(client)
    assert {path for path, _ in came} == {"/v1/traces"}
    assert any(b"evenhand.commit" in body and b"fairness" in body for _, body in came)


def test_opentelemetry_is_not_loaded_without_traces(client, described):
    program = (
        "import sys\n"
        "from evenhand.service import ServiceConfig, create_app, open_service\n"
        "read = ServiceConfig.read({'service': {'database': 'sqlite:///' + sys.argv[1], 'keys': False}})\n"
        "context = open_service(read)\n"
        "create_app(context.settings, context)\n"
        "context.close()\n"
        "assert context.ledger.tracing is None\n"
        "assert not [one for one in sys.modules if one.startswith('opentelemetry.sdk')], 'loaded'\n"
    )
    place = described["service"]["database"].removeprefix("sqlite:///") + "2"
    done = subprocess.run([sys.executable, "-c", program, place], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr

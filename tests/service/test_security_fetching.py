"""Whatever is asked, and whatever upstreams answer: the service connects to its upstreams and to nothing else."""

import json
import socket

import pytest
from service_settings import LEXICON, guard_ages, keyless

from evenhand.service import ServiceConfig
from genai_upstream import Upstream


@pytest.fixture
def trap():
    """A place where nobody has anything to look for."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.setblocking(False)
        yield f"127.0.0.1:{listening.getsockname()[1]}"
        with pytest.raises(BlockingIOError):
            listening.accept()


@pytest.fixture
def upstream():
    with Upstream() as one:
        yield one


@pytest.fixture
def reached(monkeypatch):
    """Where connections were made to."""
    found = set()
    plain = socket.socket.connect

    def connect(self, address):
        if self.family in (socket.AF_INET, socket.AF_INET6):
            found.add(f"{address[0]}:{address[1]}")
        return plain(self, address)

    monkeypatch.setattr(socket.socket, "connect", connect)
    monkeypatch.setattr(socket.socket, "connect_ex", connect)
    return found


@pytest.fixture
def client(tmp_path, upstream, serving_client):
    pictures = guard_ages({"kind": "images", "url": upstream.url, "model": "studio-pictures"})
    texts = guard_ages({"kind": "chat", "url": upstream.url, "model": "studio-texts"}, classifier=LEXICON)
    guards = [{"name": "pictures", "config": pictures}, {"name": "texts", "config": texts}]
    return serving_client(ServiceConfig.read(keyless(tmp_path, guards=guards)))


def asks(trap):
    """Requests that name another place wherever a place could stand."""
    place = f"http://{trap}/x.png"
    for entry in ("url", "api_base", "base_url", "image", "image_url", "mask", "webhook", "callback_url", "user"):
        yield "/v1/images/generations", {"prompt": f"leader {place}", "model": "pictures", entry: place}
        yield "/v1/chat/completions", {"messages": [{"role": "user", "content": place}], "model": "texts", entry: place}
    parts = [{"type": "text", "text": "leader"}, {"type": "image_url", "image_url": {"url": place}}]
    yield "/v1/chat/completions", {"messages": [{"role": "user", "content": parts}], "model": "texts"}
    for images in ([place], [f"file://{place}"], ["file:///etc/passwd"], [f"data:{place}"]):
        for kind in ("request", "response"):
            call = {"texts": ["leader"], "images": images, "input_type": kind, "litellm_call_id": "1"}
            call["additional_provider_specific_params"] = {"guard": "pictures", "url": place}
            yield "/beta/litellm_basic_guardrail_api", call


def test_requests_lead_nowhere(client, upstream, trap, reached, monkeypatch):
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.setenv(name, f"http://{trap}")
    statuses = set()
    for path, body in asks(trap):
        answer = client.post(path, json=body, headers={"host": "localhost", "x-forwarded-host": trap})
        statuses.add(answer.status_code)
        assert answer.status_code < 600
    assert 200 in statuses, "some of it was done"
    assert reached == {upstream.root.removeprefix("http://")}


@pytest.mark.parametrize("how", ["url", "elsewhere by name", "redirect", "file", "credentials", "scheme"])
def test_answers_of_upstreams_lead_nowhere(client, upstream, trap, reached, how):
    own = upstream.root.removeprefix("http://")
    if how == "redirect":
        upstream.headers, upstream.failures = {"Location": f"http://{trap}/x.png"}, [302, 307, 308]
    else:
        address = {
            "url": f"http://{trap}/x.png",
            "elsewhere by name": f"http://localhost:{trap.rpartition(':')[2]}/x.png",
            "file": "file:///etc/passwd",
            "credentials": f"http://{own}@{trap}/x.png",
            "scheme": f"gopher://{trap}/x.png",
        }[how]
        upstream.body = json.dumps({"created": 1, "data": [{"url": address}]}).encode()
    answer = client.post("/v1/images/generations", json={"prompt": "leader", "model": "pictures"})
    assert answer.status_code == 502
    assert "root:" not in answer.text
    assert reached <= {own}


def test_a_picture_at_the_upstream_itself_is_fetched(client, upstream, reached):
    upstream.shape = "url"
    answer = client.post("/v1/images/generations", json={"prompt": "leader", "model": "pictures"})
    assert answer.status_code == 200, answer.text
    assert reached == {upstream.root.removeprefix("http://")}

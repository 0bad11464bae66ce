"""The connection to services: what it sends, what it believes, and one clear error for everything else."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

from evenhand.core import http
from evenhand.errors import FetchError, ModelError, OptionError
from evenhand.models.language.services import ServiceConnection
from genai_upstream import Upstream

KEY = "k-123/secret"


@pytest.fixture(autouse=True)
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Seconds that were slept through, in no time."""
    slept: list[float] = []
    monkeypatch.setattr(http, "sleep", slept.append)
    return slept


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    with Upstream() as service:
        yield service


@pytest.fixture
def connect() -> Iterator[Callable[..., ServiceConnection]]:
    """Makes connections, and lets go of them afterwards."""
    made: list[ServiceConnection] = []

    def _connect(url: str, **options: object) -> ServiceConnection:
        made.append(ServiceConnection(url, **options))
        return made[-1]

    yield _connect
    for one in made:
        one.close()


Connect = Callable[..., ServiceConnection]


def _models(service: ServiceConnection) -> dict[str, object]:
    return service.post("/chat/completions", {"messages": [{"content": "a cat"}]})


def test_a_question_is_json_and_carries_the_key(upstream, connect, monkeypatch):
    monkeypatch.setenv("SERVICE_KEY", f" {KEY}\n")
    upstream.key = KEY
    service = connect(upstream.url + "/", key="SERVICE_KEY")
    assert _models(service)["object"] == "chat.completion"
    path, headers, body = upstream.received[-1]
    assert (path, body) == ("/v1/chat/completions", {"messages": [{"content": "a cat"}]})
    assert headers["authorization"] == f"Bearer {KEY}"
    assert headers["content-type"] == "application/json"
    assert headers["accept-encoding"] == "identity"
    assert KEY not in repr(service)


def test_without_a_key_none_is_sent(upstream, connect):
    _models(connect(upstream.url))
    assert "authorization" not in upstream.received[-1][1]


def test_a_connection_is_used_again(upstream, connect):
    service = connect(upstream.url)
    for _ in range(3):
        _models(service)
    (pool,) = [service._client._pool.pools[key] for key in service._client._pool.pools.keys()]  # noqa: SIM118 - not a dictionary: it cannot be iterated
    assert (pool.num_connections, pool.num_requests) == (1, 3)


@pytest.mark.parametrize(
    ("url", "key", "fault"),
    [
        ("127.0.0.1:8080/v1", None, "begins with http"),
        ("ftp://example.org/v1", None, "begins with http"),
        ("http:///v1", None, "begins with http"),
        ("http://[::1/v1", None, "begins with http"),
        ("http://example.org:99999/v1", None, "begins with http"),
        ("https://me:hidden@example.org/v1", None, "only host, port and path"),
        ("https://example.org/v1?key=hidden", None, "only host, port and path"),
        ("https://example.org/v1#hidden", None, "only host, port and path"),
        ("http://127.0.0.1/v1", "sk-hidden", "not the name of an environment variable"),
    ],
)
def test_urls_and_keys_that_are_none_or_hold_credentials_are_refused(url, key, fault):
    with pytest.raises(OptionError, match=fault) as raised:
        ServiceConnection(url, key=key)
    assert "hidden" not in str(raised.value)


@pytest.mark.parametrize(
    ("name", "value", "told", "fault"),
    [
        ("SERVICE_KEY", None, True, "is not set"),
        ("SERVICE_KEY", " ", True, "is not set"),
        ("SERVICE_KEY", "two\nlines", True, "not printable ASCII"),
        ("SERVICE_KEY", "schlüssel", True, "not printable ASCII"),
        ("skhidden", None, False, "is not set"),  # somebody wrote the key itself
    ],
)
def test_a_missing_key_is_named_and_never_shown(name, value, told, fault, connect, monkeypatch):
    monkeypatch.delenv(name, raising=False)
    if value is not None:
        monkeypatch.setenv(name, value)
    with pytest.raises(OptionError, match=fault) as raised:
        _models(connect("http://127.0.0.1:9/v1", key=name))
    assert (name in str(raised.value)) == told
    assert value is None or not value.strip() or value not in str(raised.value)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 405, 413, 422, 429, 500, 503])
def test_a_refusal_is_told_without_the_key(status, upstream, connect, monkeypatch):
    monkeypatch.setenv("SERVICE_KEY", KEY)
    upstream.always = status
    service = connect(upstream.url, key="SERVICE_KEY")
    with pytest.raises(FetchError, match=f"refused the request with status {status}") as raised:
        _models(service)
    assert KEY not in str(raised.value)
    # Services answer wrong keys with parts of them.
    assert ("told to fail" in str(raised.value)) == (status != 401)
    assert len(upstream.received) == (3 if status in (429, 500, 503) else 1)


def test_a_key_that_the_service_repeats_is_cut_out(upstream, connect, monkeypatch):
    monkeypatch.setenv("SERVICE_KEY", KEY)
    upstream.body = json.dumps({"error": {"message": f"bad key {KEY} given"}}).encode()
    with pytest.raises(FetchError, match=r"failed: 'bad key \*\*\* given'"):
        _models(connect(upstream.url, key="SERVICE_KEY"))


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"error": {"message": "no such model", "code": 404}}, "'no such model'"),  # OpenAI, Ollama, LiteLLM, LocalAI
        ({"error": "no such model"}, "'no such model'"),
        ({"error": {"code": 7}}, "code"),
    ],
)
def test_what_an_error_says_is_found_in_every_shape(body, words, upstream, connect):
    upstream.body = json.dumps(body).encode()
    with pytest.raises(FetchError, match="the service failed") as raised:
        _models(connect(upstream.url))
    assert words in str(raised.value)


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (b'{"object": "error", "message": "no such model"}', "'no such model'"),  # older vLLM
        (b'{"detail": "Not Found"}', "'Not Found'"),  # FastAPI
        (b'{"detail": [{"loc": ["body"]}]}', "loc"),
        (b"<html>\x1b[31m 404</html>", r"'<html>\x1b[31m 404</html>'"),  # a terminal is not coloured by a service
        (b"\xff" * 5000, "..."),
        (b"", "''"),
    ],
)
def test_the_words_of_other_errors(said, words):
    assert words in http.quote_answer(said)
    assert len(http.quote_answer(said)) < 250


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        (b"", "is not JSON: ''"),
        (b"<html>welcome</html>", "is not JSON: '<html>welcome</html>'"),
        (b'{"data": [', "is not JSON"),
        (b"\xff\xfe\x00", "is not JSON"),
        (b"[" * 100_000, "is not JSON"),
        (b"1" * 10_000, "is not JSON"),  # a number too long to be read
        (b'data: {"choices": []}\n\n', "is not JSON"),
        (b'["a list"]', "is not a JSON object"),
        (b"null", "is not a JSON object"),
    ],
)
def test_an_answer_that_is_no_json_object(body, fault, upstream, connect):
    upstream.body = body
    with pytest.raises(ModelError, match=fault):
        _models(connect(upstream.url))


def test_what_json_cannot_hold_is_not_sent(connect):
    for odd in (float("nan"), b"bytes", {1: object()}):
        with pytest.raises(OptionError, match="cannot be written as JSON"):
            connect("http://127.0.0.1:9/v1").post("/x", {"odd": odd})


def test_an_answer_that_is_too_large(upstream, connect, monkeypatch):
    monkeypatch.setattr(http, "MAX_ANSWER_BYTES", 3 << 20)
    upstream.body = b'"' + b"x" * (3 << 20)
    with pytest.raises(ModelError, match="larger than 3 MiB"):
        _models(connect(upstream.url))
    upstream.body = b"{" + b" " * ((3 << 20) - 2) + b"}"
    assert _models(connect(upstream.url)) == {}


def test_late_and_broken_answers_are_asked_for_again_where_the_caller_says_so(connect):
    whole = b'{"ok": "yes"}'
    head, good = _head("Content-Length: 5", "Connection: close"), [_head("Content-Length: 13"), whole]
    with _Raw([head, whole[:5]], good) as raw:
        assert connect(raw.url, repeatable=True).post("/x", {}) == {"ok": "yes"}
    with _Raw(*[[head, whole[:5]]] * 3) as raw, pytest.raises(ModelError, match="is not JSON"):
        connect(raw.url, repeatable=True).post("/x", {})


def test_an_error_says_when_to_ask_again(upstream, connect):
    upstream.always, upstream.headers = 429, {"Retry-After": "90"}
    with pytest.raises(FetchError) as raised:
        _models(connect(upstream.url, retries=0))
    assert raised.value.retry_after == 90
    upstream.always = 404
    with pytest.raises(FetchError) as raised:
        _models(connect(upstream.url, retries=0))
    assert raised.value.retry_after is None


def test_a_service_out_of_reach(connect, pauses):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        with pytest.raises(FetchError, match=r"does not answer: .*refused"):
            _models(connect(f"http://127.0.0.1:{port}/v1"))
    assert pauses == [0.5, 1.0]


class _Raw:
    """A server that sends bytes as they are, one list of pieces per connection."""

    def __init__(self, *connections: list[bytes]) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}/v1"
        self._connections = connections
        self._thread = threading.Thread(target=self._serve)

    def _serve(self) -> None:
        for pieces in self._connections:
            client, _ = self._socket.accept()
            with client:
                asked = b""
                while b"\r\n\r\n{}" not in asked:
                    asked += client.recv(4096)
                # Whoever has had enough hangs up in the middle.
                with suppress(ConnectionError):
                    for piece in pieces:
                        client.sendall(piece)

    def __enter__(self) -> _Raw:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.join()
        self._socket.close()


def _head(*lines: str) -> bytes:
    return "\r\n".join(["HTTP/1.1 200 OK", *lines, "", ""]).encode()


def test_a_connection_that_breaks_is_made_again(connect, pauses):
    good = [_head("Content-Length: 13"), b'{"ok": "yes"}']
    with _Raw([], [_head("Content-Length: 50"), b'{"ok'], good) as raw:
        assert connect(raw.url).post("/x", {}) == {"ok": "yes"}
    assert pauses == [0.5, 1.0]


def test_pieces_of_an_answer_are_put_together(connect):
    pieces = [b'7\r\n{"ok": \r\n', b'7\r\n"yes" }\r\n', b"0\r\n\r\n"]
    with _Raw([_head("Transfer-Encoding: chunked"), *pieces]) as raw:
        assert connect(raw.url).post("/x", {}) == {"ok": "yes"}


def test_what_is_no_http_at_all(connect):
    with _Raw([b"220 mail.example.org ESMTP\r\n"]) as raw, pytest.raises(FetchError, match="does not answer"):
        connect(raw.url, retries=0).post("/x", {})


@pytest.mark.parametrize("address", ["{root}/generated/0.png", "/generated/0.png", "//{host}/generated/0.png"])
def test_addresses_on_the_own_host_are_fetched(address, upstream, connect):
    upstream.body = b"what lies there"
    found = connect(upstream.url).fetch(address.format(root=upstream.root, host=upstream.root[len("http://") :]))
    assert (found, upstream.received[-1][0]) == (b"what lies there", "/generated/0.png")


@pytest.mark.parametrize(
    "address",
    [
        "http://127.0.0.1:1/x.png",  # another port of the same host
        "https://{host}/x.png",
        "http://localhost:{port}/x.png",
        "http://169.254.169.254/latest/meta-data/",
        "http://{host}@example.org/x.png",
        "http://me:pw@{host}/x.png",
        "//example.org/x.png",
        "file:///etc/passwd",
        "ftp://{host}/x.png",
        "gopher://{host}/x",
        "javascript:alert(1)",
        r"http://{host}\@example.org/x.png",
        "http://[::1/x.png",
        "http://{host}:999999/x.png",
        "http://127.0.0.1.example.org:{port}/",
        "http://0x7f000001:{port}/x.png",
    ],
)
def test_nothing_is_fetched_from_elsewhere(address, upstream, connect):
    host = upstream.root[len("http://") :]
    with pytest.raises((FetchError, ModelError), match=r"another server|is not a URL"):
        connect(upstream.url).fetch(address.format(host=host, port=host.rpartition(":")[2]))
    assert upstream.received == []


def test_redirects_of_pictures_are_refused(upstream, connect):
    upstream.always, upstream.headers = 301, {"Location": "http://169.254.169.254/"}
    with pytest.raises(FetchError, match="status 301"):
        connect(upstream.url).fetch("/generated/0.png")

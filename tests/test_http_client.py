"""The one HTTP client: when it asks again, what it refuses, what it never repeats, and files that anybody may have."""

import asyncio
import gzip
import json
import sys
import threading
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenhand.core import http
from evenhand.core.coroutines import call
from evenhand.errors import FetchError, ModelError
from evenhand.testing import HttpAnswer, LocalServer

Answer = tuple[int, dict[str, str], bytes]


class Server(LocalServer):
    """Gives the answers in turn, the last one again and again; ``received`` holds what came."""

    def __init__(self) -> None:
        super().__init__()
        self.answers: list[Answer] = [(200, {}, b"fine")]
        self.received: list[dict[str, str]] = []
        self.release = threading.Event()
        self.hang = False

    @property
    def url(self) -> str:
        return f"{self.root}/it"

    def answer(self, path: str, headers: dict[str, str], body: bytes) -> HttpAnswer:
        self.received.append(headers)
        if self.hang:
            self.release.wait(30)
        return HttpAnswer(*(self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]))

    def __exit__(self, *error: object) -> None:
        self.release.set()
        super().__exit__(*error)


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as made:
        yield made


@pytest.fixture(autouse=True)
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    monkeypatch.setattr(http, "sleep", slept.append)
    monkeypatch.setattr(http, "sleep_async", sleep)
    return slept


_in_loop = False


@pytest.fixture(params=[False, True], ids=["blocking", "in-a-loop"])
def both_ways(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have ``ask`` block its caller, and then wait in an event loop: what comes of it is the same."""
    if request.param:
        pytest.importorskip("aiohttp", reason="needs the extra serve")
    monkeypatch.setitem(globals(), "_in_loop", request.param)


def ask(server: Server, *, timeout: float = 30.0, retries_when_late: bool = False, retries: int = 2) -> bytes:
    client = http.HttpClient(
        "the oracle",
        "delphi",
        timeout,
        retries,
        0.5,
        retries_when_late=retries_when_late,
        hints={404: "go elsewhere"},
        hint="ask something else",
    )

    async def ask_in_loop() -> bytes:
        try:
            return await call(client.ask, "GET", server.url, {"X-Asked": "yes"}, ["hidden", ""])
        finally:
            await http.close_loop_connections()

    if _in_loop:
        return asyncio.run(ask_in_loop())
    try:
        return client.ask("GET", server.url, {"X-Asked": "yes"}, ["hidden", ""])
    finally:
        client.close()


@pytest.mark.usefixtures("both_ways")
def test_an_answer_comes(server: Server) -> None:
    assert ask(server) == b"fine"
    assert server.received[0]["x-asked"] == "yes"
    assert server.received[0]["accept-encoding"] == "identity"


@pytest.mark.parametrize(
    ("text", "pauses_after"),
    [
        ("7", [7]),
        ("2.5", [2.5]),
        ("9999999999", [http.MAX_PAUSE_SECONDS]),
        ("Wed, 21 Oct 2015 07:28:00 GMT", [0.5]),
        ("Fri, 31 Dec 9999 23:59:59 GMT", [http.MAX_PAUSE_SECONDS]),
        *((invalid, [0.5]) for invalid in ("", "soon", "-3", "nan", "1e999", "0, 1", "Thu, 99 Foo 1970")),
    ],
)
def test_waits_as_long_as_the_server_asks_within_limits(
    server: Server, pauses: list[float], text: str, pauses_after: list[float]
) -> None:
    server.answers = [(429, {"Retry-After": text}, b""), (200, {}, b"fine")]
    assert ask(server) == b"fine"
    assert pauses == pauses_after


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text() | st.integers(-9, 9),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=8,
    ),
    st.booleans(),
)
def test_a_response_is_repaired_and_otherwise_kept(value: object, escaped: bool) -> None:
    parsed = http.parse_json_response(json.dumps(value, ensure_ascii=escaped).encode("utf-8", "surrogatepass"))
    json.dumps(parsed, ensure_ascii=False, allow_nan=False).encode()
    try:
        plain = json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except ValueError:  # also UnicodeEncodeError
        return
    assert json.dumps(parsed, ensure_ascii=False).encode() == plain


@pytest.mark.parametrize(
    ("body", "value"),
    [
        (rb'"She waves \ud83d"', "She waves \ufffd"),
        (rb'"\ude00 \ud83d\ude00 \ud83dx"', "\ufffd \U0001f600 \ufffdx"),
        (b'"She waves \xf0\x9f"', "She waves \ufffd"),
        (b"\xef\xbb\xbf[NaN, 1e400, -Infinity]", [None, sys.float_info.max, -sys.float_info.max]),
    ],
)
def test_half_characters_and_numbers_that_json_has_not_are_repaired(body: bytes, value: object) -> None:
    assert http.parse_json_response(body) == value


@pytest.mark.parametrize("status", [408, 409, 425, 429, 500, 502, 503, 504, 520, 522, 529])
@pytest.mark.usefixtures("both_ways")
def test_an_overloaded_server_is_asked_again(server: Server, pauses: list[float], status: int) -> None:
    server.answers = [(status, {}, b""), (status, {"Retry-After": "3"}, b""), (200, {}, b"fine")]
    assert ask(server) == b"fine"
    assert pauses == [0.5, 3.0]


@pytest.mark.parametrize(
    ("status", "headers", "words", "hint"),
    [
        (404, {}, "the oracle refused the request with status 404: 'no such ***'", "go elsewhere"),
        (403, {}, "status 403: 'no such ***'", "see the log of the oracle"),
        (302, {"Location": "/elsewhere"}, "status 302", "pass the final URL"),
        (401, {}, "refused the request with status 401", "see the log"),
    ],
)
@pytest.mark.usefixtures("both_ways")
def test_a_refusal_is_final_and_without_secrets(
    server: Server, status: int, headers: dict[str, str], words: str, hint: str
) -> None:
    server.answers = [(status, headers, b'{"error": {"message": "no such hidden"}}')]
    with pytest.raises(FetchError) as caught:
        ask(server)
    assert words in caught.value.message
    assert hint in (caught.value.hint or "")
    assert caught.value.location == "delphi"
    assert "hidden" not in str(caught.value)
    assert ("no such" in str(caught.value)) == (status != 401)
    assert len(server.received) == 1


@pytest.mark.parametrize(("again", "asked"), [(False, 1), (True, 3)])
@pytest.mark.usefixtures("both_ways")
def test_late_answers_are_asked_for_again_where_that_costs_nothing(server: Server, again: bool, asked: int) -> None:
    server.hang = True
    with pytest.raises(FetchError, match=r"no response arrived within 0\.1 seconds"):
        ask(server, timeout=0.1, retries_when_late=again)
    server.release.set()
    assert len(server.received) == asked


@pytest.mark.usefixtures("both_ways")
def test_answers_that_drip_in_are_late_too(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(0, 1000, 40))
    monkeypatch.setattr(http, "monotonic", lambda: float(next(clock)))
    with pytest.raises(FetchError, match="no response arrived within 30 seconds"):
        ask(server, retries_when_late=True)
    assert len(server.received) == 3


@pytest.mark.parametrize(
    ("headers", "body", "message"),
    [
        ({"Content-Encoding": "gzip"}, gzip.compress(b"x" * 1000, mtime=0), "compressed"),
        ({}, b"x" * 3000, "larger than 0 MiB"),
    ],
)
@pytest.mark.usefixtures("both_ways")
def test_answers_that_are_refused(
    server: Server, monkeypatch: pytest.MonkeyPatch, headers: dict[str, str], body: bytes, message: str
) -> None:
    monkeypatch.setattr(http, "MAX_ANSWER_BYTES", 2000)
    server.answers = [(200, headers, body)]
    with pytest.raises(ModelError, match=message):
        ask(server)
    assert len(server.received) == 1


def test_urls_lose_what_opens_them() -> None:
    assert http.redact_url("https://clerk:secret@example.org/a?key=hidden#b") == "https://example.org/a"
    assert http.split_url("http://clerk:secret@example.org/a?b=c")[1] == "clerk:secret"
    with pytest.raises(ModelError) as caught:
        http.redact_url("http://clerk:secret@")
    assert "secret" not in str(caught.value)


def test_a_file_comes_in_pieces_through_redirects(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "CHUNK_BYTES", 4)
    server.answers = [(302, {"Location": "/moved"}, b""), (200, {}, b"0123456789")]
    pieces: list[bytes] = []
    steps: list[tuple[int, int | None]] = []
    http.download(server.url, pieces.append, lambda received, expected: steps.append((received, expected)))
    assert b"".join(pieces) == b"0123456789"
    assert steps[-1] == (10, 10)
    assert len(steps) > 1


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ((404, {}, b""), "the publisher responds with 404"),
        ((200, {"Content-Length": "99", "Connection": "close"}, b"short"), "5 bytes read"),
    ],
)
def test_a_file_that_does_not_come(server: Server, answer: Answer, message: str) -> None:
    server.answers = [answer]
    with pytest.raises(FetchError, match=message):
        http.download(server.url, lambda _: None)


SOME_KEY = "Zm9vYmFyYmF6Zm9vYmFyYmF6Zm9vYmFyYmF6Zm9vYmF"

# ---- secrets in the words of others


@pytest.mark.parametrize(
    ("text", "secret"),
    [
        (f"the key evenhand_{SOME_KEY} is wrong", SOME_KEY),
        ("Authorization: Bearer abc.def-123", "abc.def-123"),
        ('{"authorization": "bearer   tok"}', "tok"),
        ("Incorrect API key provided: sk-proj-abcdefghijklmnop", "proj-abcdefghijklmnop"),
        ("cannot connect to postgresql+psycopg://evenhand:s3cr3t@db/x", "s3cr3t"),
        ("host=db password=s3cr3t user=x", "s3cr3t"),
        ("authorization=Basic dXNlcjpwYXNz", "dXNlcjpwYXNz"),
        ("GET https://host/v1/models?key=AIzaShort&alt=json refused", "AIzaShort"),
        ("GET https://token-of-mine@host/v1 refused", "token-of-mine"),
        ("x-api-key: 0123abcd", "0123abcd"),
        (r'{"detail": "{\"api_key\": \"0123abcd\"}"}', "0123abcd"),
        ("access_token=ya29.abc; expired", "ya29.abc"),
        ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.sig-nature is not valid", "sig-nature"),
        ("planted-secret-value here", "planted-secret-value"),
    ],
)
def test_secrets_are_taken_out(text: str, secret: str) -> None:
    clean = http.SecretRedactor({"MY_API_KEY": "planted-secret-value", "HOME": "here"})(text)
    assert secret not in clean
    assert http.HIDDEN_TEXT in clean
    assert "here" not in text or "here" in clean, "what is not a secret stays"


@pytest.mark.parametrize(
    "text",
    [
        "a bearer of news",
        "see https://host/path",
        "evenhand_x",
        "password",
        "ask-me",
        "max_tokens: 100 is too many",
        "",
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    words = http.SecretRedactor({})(text)
    assert words.split()[:1] == text.split()[:1]
    assert http.SecretRedactor({"KEY": "a", "TOKEN": "", "A_SECRET": "short"})("a short text") == "a short text"


@given(st.text(), st.text(), st.integers(0, 2**256 - 1))
def test_no_key_survives_wherever_it_stands(before: str, after: str, seed: int) -> None:
    key = "evenhand_" + "".join(f"{seed:064x}"[:43])
    assert key.removeprefix("evenhand_") not in http.SecretRedactor({})(f"{before}{key}{after}")


def test_secrets_are_taken_out_of_json() -> None:
    said = {
        "key": "NAME_OF_VARIABLE",
        "keywords": ["a"],
        "options": {"api_key": "abc", "n": 1, "url": "https://u:p@host"},
    }
    clean = http.SecretRedactor({})
    assert clean.redact_json(said) == {**said, "options": {"api_key": "***", "n": 1, "url": "https://***@host"}}


def test_a_message_quotes_no_secret() -> None:
    assert http.quote_answer(b'{"error": "no such key: sk-abcdefghijklmnop"}') == "'no such key: sk-***'"

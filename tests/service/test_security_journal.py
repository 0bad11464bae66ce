"""No secret and no prompt is in anything that the service writes."""

import asyncio
import io
import json
import logging
import sys
import threading
import urllib.error
import urllib.request

import pytest
from clocks import Clock
from service_settings import FINITE, Line, guard_ages, in_loop, write_toml

from evenhand.errors import StoreError
from evenhand.service import Database, KeyStore, create_key
from evenhand.service.api import error_handlers
from evenhand.service.api.envelope import RequestEnvelope
from evenhand.service.auth.keys import hash_key
from evenhand.service.auth.logging import logger, structured_logging
from genai_upstream import Upstream

UPSTREAM_KEY = "upstream-9f8e7d6c5b4a"
DATABASE_PASSWORD = "hunter2hunter2"
PROMPT = "a portrait of the leader Wilhelmina Quackenbush"

FOREIGN_SECRETS = ("dXNlcjpwYXNz", "of-another-customer", "AIzaSyPlantedPlantedPlanted", "s3cr3t-in-a-url")
"""Which no environment variable tells the service of: it knows them by their shape alone."""

FOREIGN_ERROR = (
    "refused by https://proxy:s3cr3t-in-a-url@10.0.0.1/v1?key=AIzaSyPlantedPlantedPlanted, with"
    ' Authorization: Basic dXNlcjpwYXNz and {"api_key": "of-another-customer"}'
)

# ---- the journal


@pytest.fixture
def lines():
    stream = io.StringIO()
    with structured_logging(requests=True, stream=stream):
        yield lambda: [json.loads(line) for line in stream.getvalue().splitlines()]


def fails(error):
    async def app(scope, receive, send):
        raise error

    return app


@in_loop
async def test_a_fault_is_told_without_its_words_and_answered_without_them(lines):
    line = Line(path="/v1/x", query=b"key=" + UPSTREAM_KEY.encode())
    await line.over(RequestEnvelope(fails(ValueError(f"could not draw {PROMPT}"))))
    assert (line.status, line.error["code"]) == (500, "fault")
    (told,) = lines()
    assert (told["error"], told["status"], told["path"], told["level"]) == ("ValueError", 500, "/v1/x", "error")
    assert told["at"][0].startswith("test_security_journal.py:")
    for secret in (PROMPT, "Wilhelmina", UPSTREAM_KEY):
        assert secret not in json.dumps([told, str(line.sent)])


def test_errors_of_other_threads_and_libraries_are_told_without_their_words(lines):
    thread = threading.Thread(target=lambda: int(PROMPT), name="a thread")
    thread.start()
    thread.join()
    logging.getLogger("asyncio").error("Task exception was never retrieved\n%s", ValueError(PROMPT))
    try:
        raise KeyError(PROMPT)
    except KeyError:
        logging.getLogger("uvicorn.error").exception("Exception in ASGI application")
    told = lines()
    assert [one["event"] for one in told] == [
        "a thread failed",
        "Task exception was never retrieved",
        "Exception in ASGI application",
    ]
    assert [one.get("error") for one in told] == ["ValueError", None, "KeyError"]
    assert "Wilhelmina" not in json.dumps(told)


@in_loop
async def test_every_line_is_one_line_of_json_whatever_is_in_it(lines):
    await Line(path="/v1/\r\n\u2028\x00\udcff" + '"}{').over(RequestEnvelope(fails(StoreError("x"))))
    logger.error("two\nlines")
    assert [one["event"] for one in lines()] == ["request", "two"]


@in_loop
async def test_requests_are_told_where_that_is_wanted():
    async def fine(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    for requests in (True, False):
        stream = io.StringIO()
        with structured_logging(requests=requests, stream=stream):
            await Line(caller=None).over(RequestEnvelope(fine))
        assert len(stream.getvalue().splitlines()) == requests


@in_loop
async def test_refused_requests_are_one_line_and_a_sum(monkeypatch):
    steady, timers, stream = Clock(0.0), [], io.StringIO()
    monkeypatch.setattr(asyncio.get_running_loop(), "call_later", lambda *timer: timers.append(timer))

    async def refuse(scope, receive, send):
        if scope["type"] == "http":
            await send({"type": "http.response.start", "status": scope["status"], "headers": []})

    app = RequestEnvelope(refuse, steady=steady)

    async def ask(status, address, caller=None):
        await Line(caller=caller, path=caller and "/v1/x").over(app, status=status, client=(address, 1))

    with structured_logging(requests=False, stream=stream):
        for number in range(100):
            await ask(401, f"192.0.2.{number % 3}")
        await ask(408, "192.0.2.0")
        await ask(429, "192.0.2.0", "ann")
        await ask(404, "192.0.2.0", "ann")
        ((seconds, flush),) = timers
        assert seconds == 60
        flush()
        steady.now += 61
        await ask(401, "192.0.2.0")
        await ask(401, "192.0.2.0")
        await app({"type": "lifespan"}, None, None)
    told = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [(one["event"], one.get("status"), one.get("statuses"), one.get("addresses")) for one in told] == [
        ("request", 401, None, None),
        ("request", 404, None, None),
        ("more requests refused", None, {"401": 99, "408": 1, "429": 1}, 3),
        ("request", 401, None, None),
        ("more requests refused", None, {"401": 1}, 1),
    ]


# ---- a whole service, and all that it writes


def ask(url, path, body, headers):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"{url}{path}", data, {"content-type": "application/json", **headers})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, answer.read().decode() + str(answer.headers)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode() + str(error.headers)


def test_nothing_secret_is_written_anywhere(served, tmp_path):
    with Upstream(key=UPSTREAM_KEY) as upstream:
        generator = {"kind": "images", "url": upstream.url, "model": "m", "key": "MY_UPSTREAM_KEY"}
        (tmp_path / "genai.yaml").write_text(json.dumps(guard_ages(generator)))
        file = {
            "service": {"database": "sqlite:///evenhand.db", "log_requests": True},
            "guards": [{"name": "remote", "config": "genai.yaml"}],
            "shields": [{"name": "loans", "plan": FINITE}],
        }
        database = Database(f"sqlite:///{tmp_path / 'evenhand.db'}")
        with KeyStore(database) as ring:
            key = ring.add("ann", ["admin"])
        database.close()
        wrong = create_key()
        service = served(write_toml(file), environment={"MY_UPSTREAM_KEY": UPSTREAM_KEY})
        good, bad = {"authorization": f"Bearer {key}"}, {"authorization": f"Bearer {wrong}"}
        answers = [ask(service.url, "/v1/images/generations", {"prompt": PROMPT, "model": "remote"}, good)]
        upstream.body = json.dumps({"error": f"Incorrect API key provided: {UPSTREAM_KEY}; asked {PROMPT}"}).encode()
        answers += [ask(service.url, "/v1/images/generations", {"prompt": PROMPT, "model": "remote"}, good)]
        upstream.body, upstream.always = json.dumps({"error": FOREIGN_ERROR}).encode(), 500
        answers += [ask(service.url, "/v1/images/generations", {"prompt": PROMPT, "model": "remote"}, good)]
        upstream.body, upstream.always = None, 401
        for path, body, headers in (
            ("/v1/images/generations", {"prompt": PROMPT, "model": "remote"}, good),
            ("/v1/images/generations", {"prompt": PROMPT, "model": PROMPT}, bad),
            (f"/v1/images/generations?key={key}", {"prompt": PROMPT}, {}),
            ("/v1/chat/completions", {"messages": [{"role": "user", "content": PROMPT}], "model": "remote"}, good),
            ("/v1/shields/loans/decisions", {"id": "1", "group": "men", "recommendation": 1}, good),
            ("/v1/shields/loans/decisions", {"id": "1", "group": "men", "recommendation": "x"}, good),
            (f"/v1/shields/{key}", None, good),
            (f"/{wrong}", None, {"cookie": f"evenhand_key={wrong}"}),
            ("/v1/streams/remote/log", None, good),
            ("/metrics", None, good),
            ("/v1/shields", None, good),
        ):
            answers.append(ask(service.url, path, body, headers))
        assert service.stop() == 0
    assert answers[0][0] == 200
    written = {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.name != "genai.yaml"}
    assert "service-0.err" in written
    requests = [json.loads(line) for line in written["service-0.err"].splitlines()]
    assert [one["status"] for one in requests if one["event"] == "request" and one["path"] != "/readyz"] == [
        status for status, _text in answers
    ]
    for name, content in {**written, "answers": "".join(text for _, text in answers).encode()}.items():
        for secret in (UPSTREAM_KEY, *FOREIGN_SECRETS, key.removeprefix("evenhand_"), wrong.removeprefix("evenhand_")):
            # Whoever asks for a name is told that there is none of this name.
            if name != "answers" or secret != key.removeprefix("evenhand_"):
                assert secret.encode() not in content, name
        if name != "answers":
            assert b"Wilhelmina" not in content, name
            assert hash_key(wrong).encode() not in content, name


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql+psycopg://evenhand:{DATABASE_PASSWORD}@127.0.0.1:1/nothing",
        f"postgresql+psycopg://evenhand:{DATABASE_PASSWORD}@127.0.0.1:no/nothing",
        f"nothing://evenhand:{DATABASE_PASSWORD}@127.0.0.1/nothing",
    ],
)
def test_passwords_of_stores_are_not_told(url, tmp_path, capsys, monkeypatch):
    from evenhand.cli.main import main

    if url.startswith("postgresql"):
        pytest.importorskip("psycopg", reason="needs the extra postgres")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "evenhand.toml").write_text(f'[service]\ndatabase = "{url}"\n')
    for command in (["keys", "list"], ["serve", "--config", "evenhand.toml", "--port", "0"]):
        monkeypatch.setattr(sys, "argv", ["evenhand", *command])
        with pytest.raises(SystemExit) as left:
            main()
        said = capsys.readouterr()
        assert left.value.code == 2, said
        assert DATABASE_PASSWORD not in said.out + said.err
        assert said.err.startswith("error: ")


def test_callers_are_not_told_where_the_store_is(caplog):
    away = StoreError(
        "the store failed: no route to db.internal", location="postgresql://evenhand@db.internal/evenhand"
    )
    said = str(error_handlers.describe_error(away))
    assert "internal" not in said
    assert "no route to db.internal" in caplog.text

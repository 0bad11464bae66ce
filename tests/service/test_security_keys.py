"""Keys: made, shown once, changed, ended; and what the service does with them."""

import asyncio
import hashlib
import json
import re
import threading
from contextlib import closing

import pytest
from clocks import Clock
from service_settings import GUARD, PLAN, in_loop
from starlette.testclient import TestClient
from typer.testing import CliRunner

from evenhand.cli.main import app as command
from evenhand.errors import AccessError, DecisionError, OptionError, StoreError
from evenhand.service import Database, KeyStore, ServiceConfig, create_app, create_key
from evenhand.service.auth import keys as module
from evenhand.service.auth.access import MAX_FAILURES
from evenhand.service.auth.keys import COOKIE, PREFIX, KeyCache, hash_key
from evenhand.service.state_machines import KEY_STREAM, KeyMachine
from evenhand.service.store.database import read_entries_after


@pytest.fixture
def keys(database, clock, steady):
    return KeyCache(database, clock=clock, steady=steady)


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path / 'evenhand.db'}"


@pytest.fixture
def database(url):
    with closing(Database(url)) as one:
        yield one


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def steady():
    return Clock()


@pytest.fixture
def ring(database, clock):
    with KeyStore(database, clock=clock) as one:
        yield one


def asked(keys, key):
    return asyncio.run(keys.caller(key))


def refused(keys, key):
    with pytest.raises(AccessError) as raised:
        asked(keys, key)
    assert key not in str(raised.value)
    return raised.value.message


# ---- keys and their machine


def test_keys_are_long_random_and_recognised():
    made = {create_key() for _ in range(1_000)}
    assert len(made) == 1_000
    assert all(re.fullmatch(PREFIX + r"[A-Za-z0-9_-]{43}", one) for one in made), "256 bits"


def test_the_store_has_the_hash_alone(ring, tmp_path, database):
    key = ring.add("ann", ["decide"])
    database.close()
    written = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert key.encode() not in written
    assert key.removeprefix(PREFIX).encode() not in written
    assert hashlib.sha256(key.encode()).hexdigest().encode() in written


def test_every_change_is_in_the_log(ring, database, clock):
    key = ring.add("ann", ["read", "decide"], seconds=60)
    clock.now += 10
    ring.rotate("ann", overlap=5)
    ring.revoke("ann")
    with database.reading() as connection:
        bodies = [one["body"] for one in read_entries_after(connection, KEY_STREAM, 0)]
    assert [one["input"]["op"] for one in bodies] == ["add", "add", "expire", "revoke", "revoke"]
    added = {"op": "add", "hash": hash_key(key), "name": "ann", "scopes": ["decide", "read"]}
    assert bodies[0]["input"] == {**added, "expires": 1_060.0, "at": 1_000.0}
    assert [one["before"]["keys"] for one in bodies] == [0, 1, 2, 2, 2]
    assert key not in json.dumps(bodies)


def test_what_makes_no_sense_changes_nothing(ring):
    ring.add("ann", ["read"])
    before = ring.keys()
    wrong = [(name, ["read"]) for name in ("ann", "a b", "", "x" * 101, "bob\n")]
    for name, scopes in (*wrong, ("bob", []), ("bob", ["everything"])):
        with pytest.raises(OptionError):
            ring.add(name, scopes)
    for change in (lambda: ring.rotate("bob", overlap=1), lambda: ring.revoke("bob")):
        with pytest.raises(OptionError):
            change()
    assert ring.keys() == before
    machine = KeyMachine()
    for operation, code in (({"op": "revoke", "key": "x", "at": 1}, "unknown-id"), ({"op": "make"}, "operation")):
        with pytest.raises(DecisionError) as raised:
            machine.apply(operation, 1)
        assert raised.value.code == code
    added = {"op": "add", "hash": "a" * 64, "name": "x", "scopes": [], "expires": None, "at": 1}
    machine.apply(added, 1)
    with pytest.raises(DecisionError):
        machine.apply(added, 2)


def test_an_end_is_never_put_off(ring, clock):
    ring.add("ann", ["read"], seconds=10)
    clock.now += 1
    ring.rotate("ann", overlap=100)
    old, new = ring.keys()
    assert old.expires == 1_010.0
    assert new.expires == 1_011.0, "a key for a time is followed by one for as long a time"


# ---- looking keys up


def test_callers_are_told_apart(ring, keys):
    ann, bob = ring.add("ann", ["decide"]), ring.add("bob", ["admin"])
    caller = asked(keys, ann)
    assert (caller.name, caller.is_allowed("decide"), caller.is_allowed("read")) == ("ann", True, False)
    assert all(asked(keys, bob).is_allowed(scope) for scope in module.SCOPES)
    for wrong in ("evenhand_", ann[:-1], ann + "x", ann.upper(), hash_key(ann), PREFIX + "é" * 43):
        assert "unknown key" in refused(keys, wrong)


def test_rotation_keeps_both_for_a_while(ring, keys, clock, steady):
    old = ring.add("ann", ["decide"])
    assert asked(keys, old).name == "ann"
    new = ring.rotate("ann", overlap=60)
    steady.now += 1
    assert asked(keys, old).name == asked(keys, new).name == "ann"
    clock.now += 59.9
    assert asked(keys, old).name == "ann"
    clock.now += 0.1
    assert "expired" in refused(keys, old)
    assert asked(keys, new).name == "ann"


def test_revocation_is_known_within_a_second(ring, keys, steady):
    key = ring.add("ann", ["decide"])
    asked(keys, key)
    ring.revoke("ann")
    steady.now += module.FRESH_SECONDS
    assert "revoked" in refused(keys, key)


def test_the_store_is_not_asked_for_every_request(ring, keys, database, steady, monkeypatch):
    key = ring.add("ann", ["decide"])
    looks = []
    plain = database.reading
    monkeypatch.setattr(database, "reading", lambda: looks.append(1) or plain())
    for _ in range(50):
        asked(keys, key)
    assert len(looks) == 1
    steady.now += 1

    async def many():
        await asyncio.gather(*(keys.caller(key) for _ in range(50)))

    asyncio.run(many())
    assert len(looks) == 2


def test_while_the_store_is_away_the_keys_last_read_are_believed_for_an_hour(
    ring, keys, database, clock, steady, monkeypatch
):
    key = ring.add("ann", ["decide"], seconds=100_000)
    asked(keys, key)

    def fails():
        raise StoreError("the store failed")

    monkeypatch.setattr(database, "reading", fails)
    for _ in range(3):
        steady.now += module.STALE_SECONDS / 3
        assert asked(keys, key).name == "ann"
    steady.now += 1
    with pytest.raises(StoreError):
        asked(keys, key)
    with pytest.raises(StoreError):
        asked(KeyCache(database, clock=clock, steady=steady), key)


@in_loop
async def test_a_store_that_hangs_holds_nobody_up(ring, keys, database, steady, monkeypatch):
    key = ring.add("ann", ["decide"])
    await keys.caller(key)
    monkeypatch.setattr(module, "WAIT_SECONDS", 0.01)
    release = threading.Event()
    plain = database.reading

    def hangs():
        release.wait(30)
        return plain()

    monkeypatch.setattr(database, "reading", hangs)
    steady.now += 2

    assert (await keys.caller(key)).name == "ann"
    assert (await keys.caller(key)).name == "ann"
    release.set()
    await keys._reading
    assert (await keys.caller(key)).name == "ann"


# ---- over HTTP


@pytest.fixture
def client(url, monkeypatch):
    monkeypatch.setattr(module, "FRESH_SECONDS", 0.0)
    with TestClient(create_app(ServiceConfig.read({"service": {"database": url}}))) as here:
        yield here


@pytest.fixture
def reader(database):
    with KeyStore(database) as ring:
        return ring.add("reader", ["read"])


def test_where_a_key_may_stand(client, reader):
    get = client.get
    assert get("/v1/shields", headers={"authorization": f"Bearer {reader}"}).status_code == 200
    assert get("/v1/shields", headers={"authorization": f"bearer  {reader} "}).status_code == 200
    assert get("/v1/shields", headers={"x-api-key": reader}).status_code == 200
    assert get("/v1/shields", headers={"cookie": f"{COOKIE}={reader}"}).status_code == 200
    for wrong in (
        {},
        {"authorization": reader},
        {"authorization": f"Basic {reader}"},
        {"authorization": "Bearer"},
        {"authorization": "Bearer x"},
        {"x-api-key": ""},
        {"cookie": f"{COOKIE}="},
        {"cookie": f"other={reader}"},
    ):
        answer = get("/v1/shields", headers=wrong)
        assert (answer.status_code, answer.json()["error"]["code"]) == (401, "key"), wrong
        assert answer.headers["www-authenticate"] == "Bearer"
        assert reader not in answer.text
    twice = [("authorization", f"Bearer {reader}"), ("authorization", "Bearer other")]
    assert get("/v1/shields", headers=twice).status_code == 401
    assert get(f"/v1/shields?key={reader}").status_code == 401, "addresses are written down everywhere"


def test_who_has_no_valid_key_is_held_up_and_holds_nobody_up(client, reader, monkeypatch):
    monkeypatch.setattr(client.app.state.context.failures._buckets, "_steady", lambda: 0.0)
    good, bad = ({"authorization": f"Bearer {key}"} for key in (reader, "wrong"))

    def ask(number):
        if number % 3 == 2:
            return client.post("/login", data={"key": "wrong"})
        return client.get("/v1/shields", headers=bad if number % 3 else {})

    said = [ask(number) for number in range(MAX_FAILURES + 6)]
    assert [one.status_code for one in said] == [401] * MAX_FAILURES + [429] * 6
    assert said[-1].headers.get("retry-after") is None, "a page for people"
    assert said[-2].headers["retry-after"] == "1"
    assert said[-2].json()["error"]["code"] == "rate"
    assert "Too many requests without a valid key" in said[-1].text
    assert client.get("/v1/shields", headers=good).status_code == 200


def test_another_site_cannot_use_a_browsers_cookie(client, reader):
    own, other = {"cookie": f"{COOKIE}={reader}"}, "https://other.example"

    def post(headers):
        return client.post("/v1/shields/x/labels", headers={**own, **headers}, json={}).json()

    assert post({"sec-fetch-site": "cross-site"})["error"]["code"] == "origin"
    assert post({"sec-fetch-site": "same-site"})["error"]["code"] == "origin"
    assert post({"origin": other})["error"]["code"] == "origin"
    assert post({"origin": "null"})["error"]["code"] == "origin"
    for headers in ({"sec-fetch-site": "same-origin"}, {"origin": "http://testserver"}, {}):
        assert post(headers)["error"]["code"] == "scope"
    written = client.post("/v1/shields/x/labels", headers={"authorization": f"Bearer {reader}", "origin": other})
    assert written.json()["error"]["code"] == "scope", "who writes a key into the request means it"


def test_a_service_without_keys_answers_to_its_own_machine_alone(url):
    with TestClient(create_app(ServiceConfig.read({"service": {"database": url, "keys": False}}))) as client:
        for host in ("localhost", "localhost:8000", "127.0.0.1:8000", "[::1]:8000", "evenhand", "a.localhost:1"):
            assert client.get("/v1/shields", headers={"host": host}).status_code == 200, host
        for host in ("other.example", "other.example:8000", "127.0.0.1.other.example", "1.2.3.4.example", "a.b"):
            answer = client.get("/v1/shields", headers={"host": host})
            assert (answer.status_code, answer.json()["error"]["code"]) == (403, "origin"), host
        crossing = {"sec-fetch-site": "cross-site"}
        assert client.post("/v1/shields/x/labels", headers=crossing, json={}).json()["error"]["code"] == "origin"
        assert client.post("/v1/shields/x/labels", json={}).json()["error"]["code"] != "origin"


# ---- keys for some streams alone

OTHERS = ("/", "/metrics", "/v1/dashboard", "/v1/dashboard/news", "/v1/shields/finite", "/v1/streams/finite/log")
OTHERS += ("/v1/streams/evenhand:keys/log", *(f"/v1/dashboard/streams/finite/{it}" for it in ("window", "export.csv")))


def test_a_key_for_some_streams_is_refused_elsewhere(url, database):
    streams = {
        "shields": [{"name": "loans", "plan": PLAN}, {"name": "finite", "plan": PLAN}],
        "guards": [{"name": "studio", "config": GUARD}, {"name": "other", "config": GUARD}],
    }
    with KeyStore(database) as ring:
        key = ring.add("ann", ["admin"], streams=["loans", "studio"])
        assert ring.keys()[0].streams == {"loans", "studio"}
        new = ring.rotate("ann", overlap=60.0)
        found = ring.keys()
        assert [one.streams for one in found] == [{"loans", "studio"}] * 2
    one = {"id": "1", "group": "men", "recommendation": 1}
    with TestClient(create_app(ServiceConfig.read({"service": {"database": url}, **streams}))) as client:
        client.headers["authorization"] = f"Bearer {key}"
        assert client.post("/v1/shields/loans/decisions", json=one).status_code == 200
        assert [shield["name"] for shield in client.get("/v1/shields").json()["shields"]] == ["loans"]
        assert [head["name"] for head in client.get("/v1/streams").json()["streams"]] == ["loans", "studio"]
        assert [model["id"] for model in client.get("/v1/models").json()["data"]] == ["studio"]
        prompt = {"prompt": "a leader"}
        assert client.post("/v1/images/generations", json=prompt).status_code == 200, "of its guards there is one"
        call = {"texts": ["a leader"], "input_type": "request", "litellm_call_id": "1"}
        call["additional_provider_specific_params"] = {"guard": "other"}
        answers = [client.get(path) for path in OTHERS]
        answers.append(client.post("/v1/shields/finite/decisions", json=one))
        answers.append(client.post("/v1/shields/finite/decisions/batch", json={"decisions": [one]}))
        answers.append(client.post("/v1/images/generations", json={**prompt, "model": "other"}))
        answers.append(client.post("/beta/litellm_basic_guardrail_api", json=call))
        for answer in answers:
            assert (answer.status_code, answer.json()["error"]["code"]) == (403, "scope"), answer.url
            assert "is limited to loans, studio" in answer.json()["error"]["message"]
        client.headers["authorization"] = f"Bearer {new}"
        assert client.get("/v1/shields/loans").status_code == 200
        assert client.get("/v1/models/other").status_code == 404


# ---- the command


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "evenhand.toml").write_text('[service]\ndatabase = "sqlite:///evenhand.db"\n')

    def go(*arguments):
        return CliRunner().invoke(command, ["keys", *arguments])

    return go


def test_the_command_makes_lists_rotates_and_revokes(run, database):
    made = run("add", "ann", "--scope", "decide", "--scope", "read", "--expires", "90d")
    key = made.stdout.strip()
    assert re.fullmatch(PREFIX + r"[A-Za-z0-9_-]{43}", key), "the key alone, for scripts"
    assert "not shown again" in made.stderr
    assert asked(KeyCache(database), key).scopes == {"decide", "read"}
    new = run("rotate", "ann", "--overlap", "30m").stdout.strip()
    listed = run("list")
    assert key not in listed.output
    assert new not in listed.output
    assert listed.output.count("valid") == 2
    rows = json.loads(run("list", "--json", "-").stdout)["keys"]
    assert [(row["name"], row["status"], row["scopes"]) for row in rows] == [("ann", "valid", ["decide", "read"])] * 2
    assert "revoked" in run("revoke", rows[0]["id"]).output
    assert [row["status"] for row in json.loads(run("list", "--json", "-").stdout)["keys"]] == ["revoked", "valid"]
    run("revoke", "ann")
    assert "revoked" in refused(KeyCache(database), new)


def test_the_command_makes_keys_for_some_streams(run, tmp_path):
    assert "--stream" in run("add", "--help").output
    with (tmp_path / "evenhand.toml").open("a") as file:
        file.write('[[shields]]\nname = "loans"\nplan = {}\n')
    assert run("add", "ann", "--scope", "decide", "--stream", "loans").exit_code == 0
    assert json.loads(run("list", "--json", "-").stdout)["keys"][0]["streams"] == ["loans"]
    assert "ann: decide for loans" in run("list").output
    said = run("add", "bob", "--scope", "decide", "--stream", "loan")
    assert "expected the name of a shield, guard or monitor, got 'loan'" in str(said.exception)
    assert "did you mean 'loans'" in str(said.exception)

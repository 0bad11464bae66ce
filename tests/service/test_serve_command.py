"""`evenhand serve` and `evenhand backup`: settings, names of streams, stopping, copies."""

import errno
import json
import signal
import socket
import threading
import urllib.error
import urllib.request
from urllib.parse import urlsplit

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from in_thread import until
from service_settings import FINITE, SMALL_GUARD, to_toml, write_toml
from sqlalchemy import update
from worked_streams import PARITY, open_worked

from evenhand.cli.service import serve
from evenhand.errors import OptionError, StoreError
from evenhand.service import Database, KeyStore, ServiceConfig, replay_stored_logs
from evenhand.service.server import open_socket
from evenhand.service.settings import demo_config
from evenhand.service.store.database import read_heads
from evenhand.service.store.tables import entries
from evenhand.service.store.upkeep import copy_store
from evenhand.shields import read_plan, save_policy, synthesize
from genai_upstream import Upstream

ONE = {"id": "one", "group": "women", "recommendation": 1}


def post(url, body):
    request = urllib.request.Request(url, json.dumps(body).encode(), {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


@pytest.fixture
def refused(tmp_path, monkeypatch, evenhand):
    """Run ``evenhand serve`` on a file that it must refuse; gives the complaint."""

    def run(config, *options):
        (tmp_path / "evenhand.toml").write_text(config, "utf-8")
        monkeypatch.chdir(tmp_path)
        ran = evenhand("serve", "--config", "evenhand.toml", *options, code=2)
        assert ran.out == ""
        assert "Traceback" not in ran.err
        assert ran.err.count("error:") == 1
        assert not list(tmp_path.glob("*.db*")), "nothing was started"
        return ran.err

    return run


GUARD = '[[guards]]\nname = "a"\nconfig = "x"\n'
SHIELD = '[service]\nkeys = false\n[[shields]]\nname = "loans"\n'


def test_it_serves_until_it_is_told_to_stop_and_goes_on_where_it_was(served):
    service = served()
    first = post(f"{service.url}/v1/shields/loans/decisions", ONE)
    assert service.stop(signal.SIGINT) == 0
    assert service.err == ""
    assert service.out.rstrip().endswith("stopped")
    again = service.start()
    assert post(f"{again.url}/v1/shields/loans/decisions", ONE) == first
    assert post(f"{again.url}/v1/shields/loans/decisions", ONE) == first
    assert service.stop(signal.SIGINT) == 0


def test_without_a_file_it_serves_a_demonstration_and_says_so(served):
    service = served(None)
    said = service.out
    for part in ("state       sqlite:///evenhand.db", "shield      loans", "generator   studio", "not needed"):
        assert part in said
    assert (service.folder / "evenhand.db").exists()
    picture = post(f"{service.url}/v1/images/generations", {"prompt": "a business leader"})
    assert picture["data"][0]["evenhand"]["guarded"]


def test_a_policy_lies_beside_the_file(served, tmp_path):
    folder = tmp_path / "service"
    folder.mkdir()
    save_policy(synthesize(read_plan(FINITE)), folder / "loans.shield")
    (folder / "evenhand.toml").write_text(f'{SHIELD}policy = "loans.shield"\n', "utf-8")
    service = served(None, arguments=["--config", str(folder / "evenhand.toml")])
    assert post(f"{service.url}/v1/shields/loans/decisions", ONE)["decision"] in (0, 1)
    assert (folder / "evenhand.db").exists()
    assert not (tmp_path / "evenhand.db").exists()


def test_sigterm_drains_before_the_socket_closes(served):
    with Upstream() as upstream:
        service = served(_pictures(upstream, drain_seconds=600))
        upstream.hang()
        answers = []

        def ask():
            answers.append(post(f"{service.url}/v1/images/generations", {"prompt": "a leader"}))

        first, second = threading.Thread(target=ask), threading.Thread(target=ask)
        first.start()
        _wait(lambda: len(upstream.received) == 1)
        service.process.send_signal(signal.SIGTERM)
        _wait(lambda: _status(f"{service.url}/readyz") == 503)
        assert _status(f"{service.url}/healthz") == 200
        second.start()
        _wait(lambda: len(upstream.received) == 2)
        service.process.send_signal(signal.SIGTERM)
        _wait(lambda: not _listens(service.url))
        assert service.process.poll() is None, "it completes the running requests"
        upstream.release()
        first.join(60)
        second.join(60)
        assert len(answers) == 2
        assert service.process.wait(60) == 0
        assert service.err == "", "answers to probes of a stopping service are no errors"


def test_told_twice_it_does_not_wait(served):
    with Upstream() as upstream:
        service = served(_pictures(upstream))
        upstream.hang()
        errors = []

        def ask():
            try:
                post(f"{service.url}/v1/images/generations", {"prompt": "a leader"})
            except urllib.error.HTTPError as error:
                with error:
                    errors.append(error)
            except (urllib.error.URLError, ConnectionError) as error:
                errors.append(error)

        asking = threading.Thread(target=ask)
        asking.start()
        _wait(lambda: upstream.received)
        service.process.send_signal(signal.SIGINT)
        _wait(lambda: not _listens(service.url))
        assert service.stop(signal.SIGINT) == 130
        asking.join(60)
        assert len(errors) == 1
    again = service.start()
    with urllib.request.urlopen(f"{again.url}/v1/streams", timeout=60) as answer:
        # What was open when it stopped has failed, so that no deadline waits for it.
        (stream,) = json.load(answer)["streams"]
    assert stream["number"] >= 2


def _wait(holds):
    until(holds, "it did not come to that in time")


def _pictures(upstream, **service):
    generator = {"kind": "images", "url": upstream.url, "model": "studio-pictures"}
    guard = {"name": "pictures", "config": {**SMALL_GUARD, "generator": generator}}
    return write_toml({"service": {"keys": False, **service}, "guards": [guard]})


def _status(url):
    try:
        with urllib.request.urlopen(url, timeout=60) as response:
            return response.status
    except urllib.error.HTTPError as error:
        return error.code


def _listens(url):
    host, _, port = url.removeprefix("http://").rpartition(":")
    with socket.socket() as one:
        return one.connect_ex((host, int(port))) == 0


def test_an_address_that_there_is_not(refused):
    config = '[service]\nhost = "192.0.2.1"\n'
    assert "cannot listen on 192.0.2.1" in refused(config, "--port", "0")
    assert "this machine has no address 'nowhere.invalid'" in refused('[service]\nhost = "nowhere.invalid"\n')


@pytest.mark.parametrize(("plan", "said"), [({**FINITE, "kapa": 1}, "did you mean 'kappa'?"), ({}, "is missing")])
def test_a_plan_that_makes_no_sense(refused, plan, said):
    found = refused(f"{SHIELD}plan = {to_toml(plan)}\n")
    assert "the plan of the shield 'loans'" in found
    assert said in found


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ("[[shields]", "invalid TOML"),
        ("shields = 3", "expected a list, got 3"),
        ('[[shield]]\nname = "a"', "did you mean 'shields'?"),
        ('[[shields]]\nnme = "a"', "did you mean 'name'?"),
        ("[service]\nprot = 1", "did you mean 'port'?"),
        ('[service]\nport = "80"', "expected a whole number, got '80'"),
        ("[service]\nport = 65536", "got 65536"),
        ('[service]\nkeys = "no"', "expected true or false, got 'no'"),
        ('[service]\ndatabase = "mysql://me:secret@host/name"', "expected a URL of SQLite or PostgreSQL"),
        ('[service]\ndatabase = "sqlite://"', "expected a database on disk, got one in memory"),
        ('folder = "x"', "there is no entry 'folder'"),
        (f'{SHIELD}policy = "a"\n[[shields]]\nname = "loans"\npolicy = "a"', "already has the name 'loans'"),
        (f'{SHIELD}policy = "a"\n[[guards]]\nname = "loans"\nconfig = "a"', "already has the name 'loans'"),
        (SHIELD, "neither a policy nor a plan"),
        (f'{SHIELD}policy = "a"\nplan = {{}}', "has a policy and a plan"),
        (f'{GUARD}when_down = "ignore"', "got 'ignore'"),
        ('[[shields]]\nname = "a/b"\npolicy = "a"', "expected a name that can be part of a URL, got 'a/b'"),
        ('[[guards]]\nname = "a"\nconfig = 3', "3 is neither a path nor a table"),
        ('[[guards]]\nname = "a"\nconfig = "none.yaml"', "none.yaml"),
        (f'{GUARD}[[guards]]\nname = "b"\nconfig = "x"\nmodels = ["a"]', "already serves the model 'a'"),
        ("[limits]\nin_flight = 0", "got 0"),
        ("[limits]\nrequests_per_second = inf", "expected a finite number"),
    ],
)
def test_a_file_that_makes_no_sense(refused, config, said):
    found = refused(config)
    assert said in found
    assert "evenhand.toml" in found or "none.yaml" in found
    assert "secret" not in found


def test_a_demo_that_cannot_use_the_store_it_finds_says_how_to_begin_anew(tmp_path, monkeypatch):
    (tmp_path / "evenhand.db").write_text("a shopping list")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(StoreError) as told:
        serve(None, None, 0)
    assert "in a folder without an evenhand.db" in told.value.hint
    assert (tmp_path / "evenhand.db").read_text() == "a shopping list"


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("sqlite:///here.db", "sqlite:///{folder}/here.db"),
        ("sqlite:///state/here.db", "sqlite:///{folder}/state/here.db"),
        ("sqlite:////var/lib/evenhand.db", "sqlite:////var/lib/evenhand.db"),
        ("postgresql+psycopg://evenhand@db/evenhand", "postgresql+psycopg://evenhand@db/evenhand"),
    ],
)
def test_a_relative_store_lies_beside_the_file(given, meant, tmp_path, monkeypatch):
    (tmp_path / "evenhand.toml").write_text(f'[service]\ndatabase = "{given}"\n', "utf-8")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    assert ServiceConfig.read(tmp_path / "evenhand.toml").service.database == meant.format(folder=tmp_path)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "nowhere.invalid"])
def test_a_service_without_keys_listens_to_its_own_machine_alone(host):
    with pytest.raises(OptionError, match="expected keys = true for a service on") as refused:
        demo_config().with_address(host, None)
    assert refused.value.location == "--host"
    assert demo_config().with_address("::1", 8001).service.port == 8001


ENTRIES = {"shields": {"policy": "a.shield"}, "guards": {"config": "a.yaml"}, "monitors": {"config": "b.yaml"}}
NAMES = st.one_of(
    st.text(st.sampled_from("ab.-_/\\ \n\x00%é:"), max_size=4),
    st.sampled_from(["loans", "loans.v2", "a..b", ".hidden", "...", ".", "..", "", "a" * 100, "a" * 101]),
)


def read(kind, name, **entries):
    return ServiceConfig.read({kind: [{"name": name, **ENTRIES[kind], **entries}]})


def is_one_segment(name):
    """Whether a client sends a name as one segment of a path, unchanged."""
    try:
        url = httpx.URL("http://127.0.0.1/v1/shields/").join(f"/v1/shields/{name}/decisions")
    except httpx.InvalidURL:
        return False
    return url.raw_path.decode() == f"/v1/shields/{name}/decisions" and urlsplit(str(url)).path == url.path


def refusal(kind, name):
    try:
        read(kind, name)
    except OptionError as error:
        return error
    return None


@pytest.mark.parametrize("kind", ENTRIES)
@given(name=NAMES)
def test_accepts_exactly_the_names_that_clients_keep(kind, name):
    kept = bool(name) and len(name) <= 100 and is_one_segment(name) and not set(name) & set("/:\\%")
    error = refusal(kind, name)
    assert (error is None) == kept
    assert error is None or error.location == f"{kind}.0.name"


@pytest.mark.parametrize("name", ["", ".", "..", "a/../b", "a//b", "/a", "a/", "a\nb", "x" * 201])
def test_rejects_names_of_models_that_clients_change(name):
    with pytest.raises(OptionError) as error:
        read("guards", "studio", models=["studio", name])
    assert error.value.location == "guards.0.models.1"


@pytest.mark.parametrize("number", [48, 98, 10048])
def test_a_used_port_is_reported_on_every_platform(monkeypatch, number):
    def fail(*_, **__):
        raise OSError(number, "text of the platform")

    monkeypatch.setattr(socket, "create_server", fail)
    monkeypatch.setattr(errno, "EADDRINUSE", number)
    with pytest.raises(OptionError) as used:
        open_socket("127.0.0.1", 8000)
    monkeypatch.setattr(errno, "EADDRINUSE", number + 1)
    with pytest.raises(OptionError) as other:
        open_socket("127.0.0.1", 8000)
    assert "text of the platform" in other.value.message
    assert "text of the platform" not in used.value.message


BACKUP_SHIELD = {"shields": [{"name": "loans", "plan": PARITY}]}


def _fill(database, count):
    ledger = open_worked(database, BACKUP_SHIELD)
    for n in range(count):
        asked = {"op": "decide", "id": f"{n}", "group": ("women", "men")[n % 2], "recommendation": n % 3 % 2}
        ledger.submit("loans", asked, id=f"{n}").result(30)
    return ledger


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_a_copy_has_all_that_was_acknowledged_and_goes_on(kind, new_store_url, tmp_path):
    source, middle = Database(new_store_url(kind)), Database(f"sqlite:///{tmp_path / 'backup'}")
    ledger = _fill(source, 12)
    with KeyStore(source) as ring:
        ring.add("ann", ["decide"])
    heads = copy_store(source, middle)
    # What comes after the copy is not in it.
    ledger.submit("loans", {"op": "decide", "id": "late", "group": "men", "recommendation": 1}, id="late").result(30)
    ledger.close()
    assert replay_stored_logs(middle, heads={name: last for name, (_, last) in heads.items()}).all_agree
    target = Database(new_store_url(kind))
    assert copy_store(middle, target) == heads
    with pytest.raises(StoreError, match="not empty"):
        copy_store(middle, target)
    _fill(target, 14).close()  # The first 12 are asked again, and answered as they were.
    with target.reading() as connection:
        assert read_heads(connection)["loans"][0] == 14
    assert replay_stored_logs(target).all_agree
    for one in (source, middle, target):
        one.close()


def test_the_commands_prove_what_they_copied(evenhand, tmp_path):
    for name in ("one", "two"):
        (tmp_path / f"{name}.toml").write_text(
            write_toml({"service": {"database": f"sqlite:///{name}.db"}, **BACKUP_SHIELD})
        )
    settings = ServiceConfig.read(tmp_path / "one.toml")
    database = Database(settings.service.database)
    _fill(database, 25).close()
    backup, config = tmp_path / "monday.backup", ("--config", tmp_path / "one.toml")
    out = evenhand("store", "backup", backup, *config).out
    assert f"{backup} has 1 log; the replay confirmed every entry" in out
    assert list(tmp_path.glob("*.partial*")) == []
    assert "exists" in evenhand("store", "backup", backup, *config, code=2).err
    other = ("--config", tmp_path / "two.toml")
    assert evenhand("store", "restore", backup, *other).out.splitlines()[1:] == out.splitlines()[1:]
    assert "not empty" in evenhand("store", "restore", backup, *other, code=2).err
    assert "there is no file" in evenhand("store", "restore", tmp_path / "no", *other, code=2).err
    with database.transaction() as connection:
        connection.execute(update(entries).where(entries.c.number == 7).values(at=1.0))
    database.close()
    ran = evenhand("store", "backup", tmp_path / "tuesday", *config, code=1)
    assert "the log of 'loans' differs: entry 7: the entry was changed" in ran.err
    assert not (tmp_path / "tuesday").exists()

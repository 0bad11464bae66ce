"""`evenhand serve` starts, says what it serves and stops cleanly; what cannot work is refused before that."""

import json
import signal
import socket
import threading
import urllib.error
import urllib.request

import pytest
from in_thread import until
from service_settings import FINITE, SMALL_GUARD, to_toml, write_toml

from evenhand.cli.service import serve
from evenhand.errors import StoreError
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
        code, out, err = evenhand("serve", "--config", "evenhand.toml", *options)
        assert (code, out) == (2, "")
        assert "Traceback" not in err
        assert err.count("error:") == 1
        assert not list(tmp_path.glob("*.db*")), "nothing was started"
        return err

    return run


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
        ('[[guards]]\nname = "a"\nconfig = "x"\nwhen_down = "ignore"', "got 'ignore'"),
        ('[[shields]]\nname = "a/b"\npolicy = "a"', "expected a name that can be part of a URL, got 'a/b'"),
        ('[[guards]]\nname = "a"\nconfig = 3', "3 is neither a path nor a table"),
        ('[[guards]]\nname = "a"\nconfig = "none.yaml"', "none.yaml"),
        (
            '[[guards]]\nname = "a"\nconfig = "x"\n[[guards]]\nname = "b"\nconfig = "x"\nmodels = ["a"]',
            "already serves the model 'a'",
        ),
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

"""A restart with another configuration starts a new run in the same log; a process with an older one is refused."""

import copy
import itertools
import json
import os
import subprocess
import sys
import threading
from contextlib import closing
from functools import partial

import pytest
from chains import rehashed
from in_thread import together
from service_settings import LABELLED, PLAN
from service_settings import SMALL_GUARD as GUARD

from evenhand.errors import DecisionError, StoreError
from evenhand.service import Database, ServiceConfig, open_service, replay_stored_logs
from evenhand.service.generation.guarded_request import GuardedRequest
from evenhand.service.replay.replay import replay_log


def plan(kappa="1/2"):
    return {**PLAN, "kappa": kappa, "horizon": 4}


@pytest.fixture
def store(tmp_path):
    return f"sqlite:///{tmp_path / 'kept.db'}"


def settings(url, **parts):
    return ServiceConfig.read({"service": {"database": url, "keys": False}, **parts})


def loans(kappa="1/2", **entry):
    return {"shields": [{"name": "loans", "plan": plan(kappa), **entry}]}


@pytest.fixture
def start(store, serving_client):
    """Start a replica with these parts of the file; those from before go on."""
    return lambda **parts: serving_client(settings(store, **parts))


def decide(client, *ids, name="loans", group="women"):
    answers = []
    for id in ids:
        body = {"id": f"{id}", "group": group, "recommendation": 1}
        answer = client.post(f"/v1/shields/{name}/decisions", json=body)
        assert answer.status_code == 200, answer.text
        answers.append(answer.json())
    return answers


def log_of(client, name):
    return [json.loads(line) for line in client.get(f"/v1/streams/{name}/log").text.splitlines()]


@pytest.fixture(autouse=True)
def every_log_replays(store, tmp_path):
    yield
    if (tmp_path / "kept.db").exists():
        replayed(store)


def test_a_restart_with_the_same_configuration_goes_on(start):
    decide(start(**loans()), 1)
    again = start(**loans())
    (answer,) = decide(again, 2)
    assert (answer["number"], answer["certificate"]["step"]) == (2, 2)
    assert ["configuration" in entry["body"] for entry in log_of(again, "loans")] == [True, False, False]


def test_a_restart_with_another_configuration_starts_a_new_run_with_one_entry(start):
    decide(start(**loans()), 1)
    changed = start(**loans("1/4"))
    (first,) = decide(changed, 2)
    assert (first["number"], first["certificate"]["step"], first["certificate"]["kappa"]) == (3, 1, "1/4")
    entries = log_of(changed, "loans")
    assert [entry["number"] for entry in entries] == [0, 1, 2, 3]
    assert entries[2]["body"].keys() == entries[0]["body"].keys()
    assert entries[2]["previous"] == entries[1]["hash"]
    digests = [entry["body"]["digest"] for entry in entries]
    assert digests == [digests[0]] * 2 + [digests[2]] * 2
    assert digests[0] != digests[2]
    assert replay_log(entries).operations == {"configuration": 1, "decide": 2}
    # An ID keeps its answer.
    (again,) = decide(changed, 1)
    assert (again["number"], again["certificate"]["kappa"]) == (1, "1/2")
    assert changed.get("/v1/dashboard/streams/loans").status_code == 200
    assert 'evenhand_bias_allowed{stream="loans"} 0.25' in changed.get("/metrics").text
    # Back again: a third run, which begins at zero too.
    (third,) = decide(start(**loans()), 3)
    assert (third["number"], third["certificate"]["step"]) == (5, 1)


def test_an_advisory_shield_has_runs_of_its_own(start):
    decide(start(**loans()), 1)
    advisory = start(**loans(advisory=True))
    (answer,) = decide(advisory, 2)
    assert (answer["guarded"], answer["certificate"]["step"]) == (False, 1)
    assert decide(start(**loans()), 3)[0]["certificate"]["step"] == 1


def test_labels_that_an_earlier_run_waited_for_are_refused(start):
    def care(kappa):
        return {"shields": [{"name": "care", "plan": {**LABELLED, "kappa": kappa}}]}

    decide(start(**care("1/2")), 1, name="care")
    changed = start(**care("1/3"))
    decide(changed, 2, name="care")
    late = changed.post("/v1/shields/care/labels", json={"id": "1", "label": 1})
    assert (late.status_code, late.json()["error"]["code"]) == (404, "unknown-id")
    label = changed.post("/v1/shields/care/labels", json={"id": "2", "label": 1}).json()
    assert label["certificate"]["kappa"] == "1/3"


def test_a_process_with_an_older_configuration_is_refused_and_not_ready(start):
    old = start(**loans())
    decide(old, 1)
    new = start(**loans("1/4"))
    body = {"id": "2", "group": "women", "recommendation": 1}
    refused = old.post("/v1/shields/loans/decisions", json=body)
    assert (refused.status_code, refused.json()["error"]["code"]) == (503, "replaced")
    assert "another configuration" in refused.json()["error"]["message"]
    batch = old.post("/v1/shields/loans/decisions/batch", json={"decisions": [body]}).json()
    assert batch["results"][0]["error"]["code"] == "replaced"
    assert (old.get("/readyz").status_code, new.get("/readyz").status_code) == (503, 200)
    assert old.get("/metrics").status_code == old.get("/v1/shields/loans").status_code == 200
    assert decide(new, 2)[0]["number"] == 3
    # Once its configuration is in force again it goes on with the state of that run.
    assert decide(start(**loans()), 4)[0]["certificate"]["step"] == 1
    assert decide(old, 5)[0]["certificate"]["step"] == 2


def test_a_guard_starts_afresh_and_what_is_under_way_elsewhere_is_not_delivered(start):
    old = start(guards=[{"name": "studio", "config": GUARD}])
    request = GuardedRequest(old.app.state.context.guards["studio"], "a leader")
    admission = request.admit(["leader"])
    changed = {**GUARD, "specifications": [{**GUARD["specifications"][0], "repeated": 7}]}
    new = start(guards=[{"name": "studio", "config": changed}])
    assert 'evenhand_open_admissions{stream="studio"} 0.0' in new.get("/metrics").text
    assert old.get("/metrics").status_code == 200
    with pytest.raises(DecisionError, match="another configuration"):
        request.complete(admission, {"gender": "woman"})
    asked = {"prompt": "a leader", "response_format": "b64_json"}
    assert old.post("/v1/images/generations", json=asked).status_code == 503
    assert new.post("/v1/images/generations", json=asked).headers["x-evenhand-status"] == "ok"
    assert new.get("/v1/dashboard/streams/studio").json()["specifications"][0]["lanes"][0]["deadline"] == 7
    # Another generator decides nothing, and its requests go on.
    alike = {**changed, "generator": {"kind": "studio", "obeys": 0.9}}
    start(guards=[{"name": "studio", "config": alike}])
    assert new.post("/v1/images/generations", json=asked).headers["x-evenhand-status"] == "ok"


def test_another_kind_of_stream_is_refused(start, store):
    decide(start(**loans()), 1)
    with pytest.raises(StoreError, match="expected 'loans' in the store to be a guard, got a shield"):
        open_service(settings(store, guards=[{"name": "loans", "config": GUARD}]))


def leave_out_the_new_run(entries):
    del entries[2]
    entries[2]["number"] = 2


FORGERIES = [
    ("the initial state", lambda entries: entries[2]["body"]["state"]["shield"].update(interventions=1)),
    ("digest", lambda entries: entries[2]["body"].update(digest="0" * 64)),
    ("digest", lambda entries: entries[2]["body"]["configuration"]["plan"].update(kappa="1/3")),
    ("kind of machine", lambda entries: entries[2]["body"].update(kind="monitor")),
    ("the state differs", lambda entries: entries[2].update(body=copy.deepcopy(entries[0]["body"]))),
    ("the digest differs", leave_out_the_new_run),
]


def test_replay_finds_a_forged_run(start):
    decide(start(**loans()), 1)
    client = start(**loans("1/4"))
    decide(client, 2)
    written = log_of(client, "loans")
    assert replay_log(rehashed(written)).all_agree
    for what, forge in FORGERIES:
        entries = copy.deepcopy(written)
        forge(entries)
        difference = replay_log(rehashed(entries)).difference
        assert difference.entry == 2
        assert what in difference.what


def replayed(url):
    """The operations of the log of loans, once all of them agree."""
    with closing(Database(url, make=False)) as database:
        replay = replay_stored_logs(database)
    assert replay.all_agree, [str(one.difference) for one in replay.replays]
    return replay.replays[0].operations


def test_replicas_that_start_with_different_configurations_end_in_one(store_url):
    plans = [loans("1/2"), loans("1/4")]
    replicas = [None, None]
    barrier = threading.Barrier(2)

    def open_one(which):
        barrier.wait()
        replicas[which] = open_service(settings(store_url, **plans[which]))

    together([partial(open_one, which) for which in range(2)])
    answers = []
    refused = set()

    def decide_on(which):
        for n in range(30):
            asked = {"op": "decide", "id": f"{which}/{n}", "group": ("women", "men")[n % 2], "recommendation": n % 2}
            try:
                answers.append(replicas[which].ledger.submit("loans", asked, id=asked["id"]).result(60))
            except DecisionError:
                refused.add(which)

    together([partial(decide_on, which) for which in range(2)])
    for replica in replicas:
        replica.close()
    assert len(refused) == 1
    assert len({answer.answer["certificate"]["kappa"] for answer in answers}) == 1
    assert len(answers) == 30
    assert replayed(store_url) == {"configuration": 1, "decide": 30}


def test_decisions_go_on_while_replicas_change_the_configuration(store_url):
    kappas = ("1/2", "1/4")
    first = open_service(settings(store_url, **loans(kappas[0])))
    answers = []
    stop = threading.Event()

    def decide_on():
        for n in itertools.count():
            if stop.is_set():
                return
            asked = {"op": "decide", "id": f"{n}", "group": ("women", "men")[n % 2], "recommendation": n % 3 % 2}
            try:
                answers.append(first.ledger.submit("loans", asked, id=asked["id"]).result(60))
            except DecisionError:
                continue

    thread = threading.Thread(target=decide_on)
    thread.start()
    try:
        for turn in range(1, 5):
            open_service(settings(store_url, **loans(kappas[turn % 2]))).close()
    finally:
        stop.set()
        thread.join()
        first.close()
    # The process decided under its own configuration alone.
    assert {answer.answer["certificate"]["kappa"] for answer in answers} == {"1/2"}
    assert replayed(store_url) == {"configuration": 4, "decide": len(answers)}


CRASH = """
import os, signal, sys
from sqlalchemy import Engine, event
from evenhand.service import Database, ServiceConfig, open_service, replay_stored_logs
from evenhand.service.store.database import read_heads
url, plans = sys.argv[1], eval(sys.argv[2])

def settings(n):
    return ServiceConfig.read({"service": {"database": url, "keys": False},
                               "shields": [{"name": "loans", "plan": plans[n % 2]}]})

def trial(n, step):
    '''Start with another configuration, and be killed before a statement or a commit.'''
    seen = 0
    def count(*_):
        nonlocal seen
        seen += 1
        if seen == step:
            os.kill(os.getpid(), signal.SIGKILL)
    event.listen(Engine, "before_cursor_execute", count)
    event.listen(Engine, "commit", count)
    open_service(settings(n))
    os._exit(0)

def entries():
    database = Database(url, make=False)
    with database.reading() as connection:
        number, _ = read_heads(connection)["loans"]
    assert replay_stored_logs(database).all_agree
    database.close()
    return number

open_service(settings(0)).close()
number, n, step, old, new = 0, 1, 1, 0, 0
while True:
    pid = os.fork()
    if pid == 0:
        trial(n, step)
    status = os.waitpid(pid, 0)[1]
    now = entries()
    assert now in (number, number + 1), (number, now)
    old += now == number
    new += now == number + 1
    if os.waitstatus_to_exitcode(status) == 0:
        break
    n += now - number
    number, step = now, step + 1
print(step - 1, old, new)
"""


@pytest.mark.full
def test_a_kill_at_any_step_of_the_start_leaves_the_old_run_or_the_new_one(store):
    arguments = [sys.executable, "-c", CRASH, store, repr([plan("1/2"), plan("1/3")])]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=300, env=environment, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    killed, old, new = map(int, done.stdout.split())
    assert killed > 10
    assert old > 5
    assert new >= 1

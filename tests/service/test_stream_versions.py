"""Shields and guards added and replaced over the API: one log, one version for every decision, all or nothing."""

from __future__ import annotations

import itertools
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="needs the extra serve")

from service_settings import LABELLED
from starlette.testclient import TestClient

from evenhand.errors import DecisionError, OptionError
from evenhand.service import Database, KeyStore, ServiceConfig, open_service, replay_stored_logs
from evenhand.service.reload import follow_streams, put_stream
from evenhand.service.settings import ServedShieldConfig
from evenhand.service.versions import When
from support import ROOT

GROUPS = {"women": {"rate": 0.4, "accept": 0.35}, "men": {"rate": 0.6, "accept": 0.6}}
HORIZON = 4
GUARD: dict[str, Any] = {
    "conditions": [{"name": "leader", "keywords": ["leader"]}],
    "specifications": [{"condition": "leader", "group": "gender", "values": ["woman", "man"], "repeated": 5}],
    "generator": {"kind": "studio"},
    "classifier": {"kind": "studio"},
}


def plan(kappa: str = "1/2", **changes: Any) -> dict[str, Any]:
    return {"property": "demographic_parity", "kappa": kappa, "horizon": HORIZON, "kind": "dynamic", "groups": GROUPS,
            **changes}  # fmt: skip


def described(folder: Path, shields: list[dict[str, Any]] | None = None) -> str:
    """The text of a service's file, as JSON values in TOML."""
    text = f'[service]\ndatabase = "sqlite:///{folder / "kept.db"}"\nkeys = false\n'
    for one in [{"name": "loans", "plan": plan()}] if shields is None else shields:
        groups = ", ".join(f"{g} = {{ rate = {v['rate']}, accept = {v['accept']} }}" for g, v in GROUPS.items())
        values = "".join(f"{k} = {json.dumps(v)}\n" for k, v in one["plan"].items() if k != "groups")
        text += f'[[shields]]\nname = "{one["name"]}"\n[shields.plan]\n{values}groups = {{ {groups} }}\n'
    return text


@pytest.fixture
def path(tmp_path: Path) -> Path:
    found = tmp_path / "evenhand.toml"
    found.write_text(described(tmp_path), "utf-8")
    return found


Start = Callable[[], TestClient]


@pytest.fixture
def start(path: Path, serving_client: Callable[[ServiceConfig], Any]) -> Start:
    return lambda: serving_client(ServiceConfig.read(path))


@pytest.fixture
def client(start: Start) -> TestClient:
    return start()


def decide(client: TestClient, *ids: int, name: str = "loans", group: str = "women") -> list[dict[str, Any]]:
    found = []
    for one in ids:
        answer = client.post(
            f"/v1/shields/{name}/decisions", json={"id": f"{one}", "group": group, "recommendation": 1}
        )
        assert answer.status_code == 200, answer.text
        found.append(answer.json())
    return found


def put(client: TestClient, name: str = "loans", **body: Any) -> Any:
    return client.put(f"/v1/admin/streams/{name}", json=body)


def log_of(client: TestClient, name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in client.get(f"/v1/streams/{name}/log").text.splitlines()]


@pytest.fixture(autouse=True)
def every_log_replays(tmp_path: Path) -> Iterator[None]:
    yield
    if (tmp_path / "kept.db").exists():
        database = Database(f"sqlite:///{tmp_path / 'kept.db'}", make=False)
        replay = replay_stored_logs(database)
        database.close()
        assert replay.all_agree, [str(one.difference) for one in replay.replays]


def test_a_new_version_waits_for_the_end_of_the_period(client: TestClient) -> None:
    decide(client, 1)
    answer = put(client, shield={"plan": plan("1/4")})
    assert answer.status_code == 200, answer.text
    said = answer.json()
    assert (said["version"], said["in_force"], said["kept"], said["number"]) == (2, False, False, 1)
    decide(client, 2, 3, 4)
    assert client.get("/v1/shields/loans").json()["version"] == 1
    (first,) = decide(client, 5)
    assert first["certificate"]["kappa"] == "1/4"
    assert (first["certificate"]["period"], first["certificate"]["step"]) == (0, 1)
    about = client.get("/v1/shields/loans").json()
    assert (about["version"], about["kappa"], about["digest"]) == (2, "1/4", said["digest"])
    entries = log_of(client, "loans")
    digests = [one["body"]["digest"] for one in entries]
    assert digests == [said["previous"]] * 6 + [said["digest"]]
    assert entries[2]["body"]["input"]["by"] == "anyone"
    (settings,) = [one["body"]["input"] for one in log_of(client, "evenhand:settings")[1:]]
    assert (settings["old"], settings["new"], settings["by"]) == (said["previous"], said["digest"], "anyone")
    # An id keeps its answer over versions.
    (again,) = decide(client, 1)
    assert (again["number"], again["certificate"]["kappa"]) == (1, "1/2")
    assert client.get("/v1/dashboard/streams/loans").status_code == 200
    assert 'evenhand_bias_allowed{stream="loans"} 0.25' in client.get("/metrics").text


def test_at_once_if_it_is_asked_for_and_between_periods_anyway(client: TestClient) -> None:
    decide(client, 1)
    assert put(client, shield={"plan": plan("1/4")}, when="now").json()["in_force"]
    (first,) = decide(client, 2)
    assert (first["certificate"]["kappa"], first["certificate"]["step"]) == ("1/4", 1)
    decide(client, 3, 4, 5)
    assert put(client, shield={"plan": plan("1/3")}).json()["in_force"], "the period is over"


def test_versions_are_listed_and_an_older_one_can_be_put_again(client: TestClient) -> None:
    decide(client, 1)
    put(client, shield={"plan": plan("1/4")}, when="now")
    put(client, shield={"plan": plan("1/3")})
    found = client.get("/v1/admin/streams/loans/versions").json()
    assert found["in_force"] == 3
    assert [(one["number"], one["by"], one["entry"]["plan"]["kappa"]) for one in found["versions"]] == [
        (1, "file", "1/2"), (2, "anyone", "1/4"), (3, "anyone", "1/3"),
    ]  # fmt: skip
    first = {name: value for name, value in found["versions"][0]["entry"].items() if name != "name"}
    again = put(client, shield=first, previous=found["versions"][2]["digest"]).json()
    assert (again["version"], again["digest"]) == (4, found["versions"][0]["digest"])
    (one,) = decide(client, 2)
    assert one["certificate"]["step"] == 1, "it begins afresh"


def test_the_same_again_changes_nothing_and_what_decides_alike_keeps_its_counters(client: TestClient) -> None:
    decide(client, 1)
    assert put(client, shield={"plan": plan()}).json()["number"] is None
    assert put(client, shield={"plan": plan("1/4")}).json()["version"] == 2
    twice = put(client, shield={"plan": plan("1/4")}).json()
    assert (twice["version"], twice["number"], twice["in_force"]) == (2, None, False)
    # Back to what decides now: the version that waits is withdrawn.
    back = put(client, shield={"plan": plan(), "when_down": "pass"}).json()
    assert (back["version"], back["in_force"], back["kept"]) == (3, True, True)
    decide(client, 2, 3, 4)
    (one,) = decide(client, 5)
    assert (one["certificate"]["kappa"], one["certificate"]["period"]) == ("1/2", 1)
    assert client.get("/v1/shields/loans").json()["when_down"] == "pass"
    assert put(client, shield={"plan": plan(), "advisory": True}, when="now").json()["kept"] is False
    (one,) = decide(client, 6)
    assert (one["guarded"], one["certificate"]["step"]) == (False, 1)


def test_one_that_is_new_decides_at_once_and_can_go_again(client: TestClient, start: Start) -> None:
    said = put(client, "hiring", shield={"plan": plan("1/3")}).json()
    assert (said["version"], said["previous"], said["in_force"]) == (1, None, True)
    decide(client, 1, name="hiring")
    later = start()
    decide(later, 2, name="hiring")
    assert later.delete("/v1/admin/streams/hiring").json()["name"] == "hiring"
    assert later.get("/v1/shields/hiring").status_code == 404
    assert later.delete("/v1/admin/streams/hiring").status_code == 404
    assert start().get("/v1/shields/hiring").status_code == 404
    said = put(later, "hiring", shield={"plan": plan("1/5")}, when="period-end").json()
    assert (said["version"], said["in_force"]) == (2, True)
    assert decide(later, 3, name="hiring")[0]["number"] == 4


def test_labels_go_to_the_version_that_decided(client: TestClient) -> None:
    assert put(client, "care", shield={"plan": {**LABELLED, "kappa": "1/2"}}).status_code == 200
    decide(client, 1, 2, name="care")
    assert put(client, "care", shield={"plan": {**LABELLED, "kappa": "1/3"}}, when="now").status_code == 200
    decide(client, 3, name="care")
    old = client.post("/v1/shields/care/labels", json={"id": "1", "label": 1}).json()
    new = client.post("/v1/shields/care/labels", json={"id": "3", "label": 1}).json()
    assert (old["certificate"]["kappa"], new["certificate"]["kappa"]) == ("1/2", "1/3")
    assert client.post("/v1/shields/care/labels", json={"id": "1", "label": 0}).status_code == 409
    assert client.post("/v1/shields/care/labels", json={"id": "4", "label": 0}).status_code == 404
    client.post("/v1/shields/care/labels", json={"id": "2", "label": 0})
    state = client.app.state.context.ledger.machine("care").state()  # type: ignore[attr-defined]  # untyped state
    assert state["versions"]["retired"] == [], "nothing is open in it any more"


def test_a_guard_is_replaced_and_what_is_under_way_ends_under_the_old_one(client: TestClient) -> None:
    assert put(client, "studio", guard={"config": GUARD}).status_code == 200
    context = client.app.state.context  # type: ignore[attr-defined]  # Starlette keeps anything
    old = context.guards["studio"].enforcer()
    unread = context.guards["studio"].enforcer()
    admission = old.admit(["leader"])
    changed = {**GUARD, "specifications": [{**GUARD["specifications"][0], "repeated": 7}]}
    assert put(client, "studio", guard={"config": changed}).json()["in_force"]
    assert 'evenhand_open_admissions{stream="studio"} 1.0' in client.get("/metrics").text
    assert old.complete(admission, {"gender": "woman"}).status == "ok"
    with pytest.raises(Exception, match="replaced while"):
        unread.admit(["leader"])
    picture = client.post("/v1/images/generations", json={"prompt": "a leader", "response_format": "b64_json"})
    assert picture.headers["x-evenhand-status"] == "ok"
    assert client.get("/v1/dashboard/streams/studio").json()["specifications"][0]["lanes"][0]["deadline"] == 7
    # Another generator changes nothing of what is counted, and requests that were read before go on.
    waiting = context.guards["studio"].enforcer()
    alike = {**changed, "generator": {"kind": "studio", "obeys": 0.9}}
    assert put(client, "studio", guard={"config": alike}).json()["kept"]
    assert waiting.fail(waiting.admit(["leader"])).status in ("ok", "retry", "refused", "violation")


REFUSED: dict[str, tuple[str, dict[str, Any], int]] = {
    "no plan": ("loans", {"shield": {}}, 422),
    "neither": ("loans", {}, 422),
    "both": ("loans", {"shield": {"plan": plan()}, "guard": {"config": GUARD}}, 422),
    "an unknown entry": ("loans", {"shield": {"plan": plan(), "speed": 1}}, 422),
    "an unknown time": ("loans", {"shield": {"plan": plan("1/4")}, "when": "later"}, 422),
    "nonsense in the plan": ("loans", {"shield": {"plan": plan("nonsense")}}, 422),
    "a horizon that is none": ("loans", {"shield": {"plan": plan(horizon=-1)}}, 422),
    "a forged policy": ("loans", {"shield": {"policy": "forged.shield"}}, 422),
    "a policy that is not there": ("loans", {"shield": {"policy": "none.shield"}}, 422),
    "a policy elsewhere": ("loans", {"shield": {"policy": "../evenhand.shield"}}, 422),
    "another kind": ("loans", {"guard": {"config": GUARD}}, 422),
    "a name that is none": ("evenhand:keys", {"shield": {"plan": plan()}}, 422),
    "code": ("studio", {"guard": {"config": GUARD, "trust": True}}, 422),
    "a file of the machine": ("studio", {"guard": {"config": "/etc/passwd"}}, 422),
    "a generator that is none": ("studio", {"guard": {"config": {**GUARD, "generator": {"kind": "nobody"}}}}, 422),
    "another one decides": ("loans", {"shield": {"plan": plan("1/4")}, "previous": "0" * 64}, 409),
}  # fmt: skip


def test_what_makes_no_sense_is_refused_with_one_error_and_changes_nothing(client: TestClient, tmp_path: Path) -> None:
    (tmp_path / "forged.shield").write_bytes(b"evenhand shield\n" + os.urandom(64))
    decide(client, 1)
    heads = client.get("/v1/streams").json()
    for what, (name, body, status) in REFUSED.items():
        answer = put(client, name, **body)
        assert answer.status_code == status, (what, answer.text)
        error = answer.json()["error"]
        assert all((error["message"], error["hint"])), what
        assert not re.search(r"Traceback|shields\.0|guards\.0", answer.text), what
    assert client.get("/v1/streams").json() == heads
    assert decide(client, 2)[0]["certificate"]["step"] == 2
    assert client.delete("/v1/admin/streams/loans").status_code == 422


def test_the_examples_of_the_pages_are_taken(client: TestClient) -> None:
    page = (ROOT / "docs" / "how-to" / "change-what-is-served.md").read_text("utf-8")
    (found,) = [text for text in re.findall(r"```json\n(.*?)```", page, re.S) if '"shield"' in text]
    assert put(client, **json.loads(found)).json()["version"] == 2
    page = (ROOT / "docs" / "reference" / "service-http.md").read_text("utf-8")
    ((found, answer),) = re.findall(r"-X PUT .*? -d '(.*?)'\n({.*?})\n", page, re.S)
    said = put(client, **json.loads(found)).json()
    assert said.keys() == json.loads(answer).keys()


def test_only_an_admin_may(path: Path, serving_client: Callable[[ServiceConfig], Any]) -> None:
    path.write_text(path.read_text().replace("keys = false", "keys = true"), "utf-8")
    settings = ServiceConfig.read(path)
    database = Database(settings.service.database)
    scopes = ("decide", "generate", "read", "operate", "admin")
    with KeyStore(database) as ring:
        keys = {scope: {"x-api-key": ring.add(f"the-{scope}", [scope])} for scope in scopes}
        keys["other"] = {"x-api-key": ring.add("the-other", ["admin"], streams=["hiring"])}
    database.close()
    client = serving_client(settings)
    body = {"shield": {"plan": plan("1/4")}}
    found = {
        who: client.put("/v1/admin/streams/loans", json=body, headers=key).status_code for who, key in keys.items()
    }
    assert found == {**dict.fromkeys(keys, 403), "admin": 200}
    assert client.put("/v1/admin/streams/loans", json=body).status_code == 401
    found = {who: client.get("/v1/admin/streams/loans/versions", headers=key).status_code for who, key in keys.items()}
    assert found == {**dict.fromkeys(keys, 403), "admin": 200, "operate": 200}
    assert client.delete("/v1/admin/streams/loans", headers=keys["operate"]).status_code == 403
    told = client.get("/v1/admin/streams/loans/versions", headers=keys["admin"]).json()["versions"]
    assert [one["by"] for one in told] == ["file", "the-admin"]


def test_a_start_and_a_reload_agree_with_it(client: TestClient, start: Start, path: Path) -> None:
    decide(client, 1)
    put(client, shield={"plan": plan("1/4")})
    said = client.post("/v1/admin/reload").json()
    assert (said["added"], said["changed"], said["removed"]) == ([], [], []), "it waits for the end of the period still"
    other = start()
    decide(other, 2, 3, 4)
    assert decide(other, 5)[0]["certificate"]["kappa"] == "1/4"
    assert decide(client, 6)[0]["certificate"]["step"] == 2, "the first one has heard of it"
    # Another shield comes by the file; the version stays.
    hiring = {"name": "hiring", "plan": plan("1/3")}
    path.write_text(described(path.parent, [{"name": "loans", "plan": plan()}, hiring]), "utf-8")
    assert client.post("/v1/admin/reload").json()["added"] == ["hiring"]
    assert client.get("/v1/shields/loans").json()["kappa"] == "1/4"
    # The file may say what the version says, and nothing else.
    path.write_text(described(path.parent, [{"name": "loans", "plan": plan("1/4")}]), "utf-8")
    assert client.post("/v1/admin/reload").json()["changed"] == []
    path.write_text(described(path.parent, [{"name": "loans", "plan": plan("1/7")}]), "utf-8")
    refused = client.post("/v1/admin/reload")
    assert refused.status_code == 422
    assert "another 'loans' than when version 2 was set over the API" in refused.json()["error"]["message"]
    with pytest.raises(OptionError, match="another 'loans'"):
        open_service(ServiceConfig.read(path))
    path.write_text(described(path.parent, []), "utf-8")
    assert client.post("/v1/admin/reload").json()["removed"] == ["loans"]
    path.write_text(described(path.parent), "utf-8")
    assert client.post("/v1/admin/reload").json()["added"] == ["loans"]
    assert decide(client, 7)[0]["certificate"]["kappa"] == "1/4"


def test_other_replicas_take_it_up(client: TestClient, path: Path) -> None:
    other = open_service(ServiceConfig.read(path))
    try:
        follow_streams(other)
        put(client, shield={"plan": plan("1/4")})
        put(client, "hiring", shield={"plan": plan("1/3")})
        put(client, "studio", guard={"config": GUARD})
        follow_streams(other)
        assert set(other.shields) == {"loans", "hiring"}
        assert set(other.guards) == {"studio"}
        assert other.shields["loans"].version == 2
        asked = {"op": "decide", "id": "1", "group": "men", "recommendation": 1}
        assert other.ledger.submit("loans", asked, id="1").result().answer["certificate"]["kappa"] == "1/4"
        assert decide(client, 2)[0]["certificate"]["step"] == 2
        client.delete("/v1/admin/streams/hiring")
        follow_streams(other)
        assert set(other.shields) == {"loans"}
        # And it may set the next one itself.
        entry = ServedShieldConfig(name="loans", plan=plan("1/5"))
        assert put_stream(other, entry, "other", when="now").version == 3
        assert decide(client, 3)[0]["certificate"]["kappa"] == "1/5"
    finally:
        other.close()


def test_two_replicas_decide_and_replace_at_the_same_time(store_url: str) -> None:
    settings = ServiceConfig.read({
        "service": {"database": store_url, "keys": False}, "shields": [{"name": "loans", "plan": plan()}],
    })  # fmt: skip
    replicas = [open_service(settings) for _ in range(2)]
    told: dict[str, Any] = {}
    stop = threading.Event()

    def decide_on(which: int) -> None:
        for n in itertools.count():
            if stop.is_set():
                return
            asked = {
                "op": "decide",
                "id": f"{which}/{n}",
                "group": ("women", "men")[n % 2],
                "recommendation": n % 3 % 2,
            }
            told[asked["id"]] = replicas[which].ledger.submit("loans", asked, id=asked["id"]).result(60)

    threads = [threading.Thread(target=decide_on, args=(which,)) for which in range(2)]
    for thread in threads:
        thread.start()
    try:
        versions = []
        for turn in range(6):
            entry = ServedShieldConfig(name="loans", plan=plan(f"1/{turn + 3}"))
            when: When = ("now", "period-end")[turn % 2]
            while len(versions) == turn:
                try:
                    versions.append(put_stream(replicas[turn % 2], entry, f"replica {turn % 2}", when=when).version)
                except DecisionError as error:
                    if error.code != "replaced":  # else a period ended between reading and writing: ask again
                        raise
            follow_streams(replicas[1 - turn % 2])
    finally:
        stop.set()
        for thread in threads:
            thread.join()
        for one in replicas:
            one.close()
    assert versions == [*range(2, 8)]
    assert len({one.number for one in told.values()}) == len(told)
    database = Database(store_url, make=False)
    replay = replay_stored_logs(database)
    assert replay.all_agree, [str(one.difference) for one in replay.replays]
    (loans,) = [one for one in replay.replays if one.stream == "loans"]
    assert (loans.operations["decide"], loans.operations["replace"]) == (len(told), 6)
    database.close()


CRASH = """
import os, signal, sys
from pathlib import Path
from sqlalchemy import Engine, event
from evenhand.service import Database, ServiceConfig, open_service, read_state, replay_stored_logs
from evenhand.service.reload import put_stream
from evenhand.service.settings import ServedShieldConfig
folder, plans = Path(sys.argv[1]), eval(sys.argv[2])

def trial(n, step):
    '''Set a version, and be killed before a statement or a commit; step 0: after all of them.'''
    context = open_service(ServiceConfig.read(folder / "evenhand.toml"))
    context.upkeep.stop()
    asked = {"op": "decide", "id": str(step), "group": "men", "recommendation": 1}
    context.ledger.submit("loans", asked, id=str(step)).result()
    seen = 0
    def count(*_):
        nonlocal seen
        seen += 1
        if seen == step:
            os.kill(os.getpid(), signal.SIGKILL)
    event.listen(Engine, "before_cursor_execute", count)
    event.listen(Engine, "commit", count)
    put_stream(context, ServedShieldConfig(name="loans", plan=plans[n % 2]), "trial", when=("now", "period-end")[n % 2])
    os.kill(os.getpid(), signal.SIGKILL) if step == 0 else os._exit(0)

def settings():
    database = Database(f"sqlite:///{folder / 'kept.db'}", make=False)
    with database.reading() as connection:
        said = read_state(connection, "evenhand:settings") or {}
        row = read_state(connection, "loans")
    assert replay_stored_logs(database).all_agree
    database.close()
    versions = said.get("streams", {}).get("loans", {}).get("versions", [])
    last = row.get("versions", {"number": 1, "next": None})
    last = last["next"]["number"] if last["next"] else last["number"]
    assert last == (versions[-1]["number"] if versions else 1), (last, versions)
    return last

context = open_service(ServiceConfig.read(folder / "evenhand.toml")); context.close()
before, n, step, found, old = 1, 0, 1, 0, 0
while True:
    pid = os.fork()
    if pid == 0:
        trial(n, step)
    status = os.waitpid(pid, 0)[1]
    now = settings()
    assert now in (before, before + 1), (before, now)
    old += now == before
    found += now == before + 1
    if os.waitstatus_to_exitcode(status) == 0:
        break
    n += now - before
    before, step = now, step + 1
print(step - 1, old, found)
"""


@pytest.mark.full
def test_a_kill_between_any_two_steps_leaves_the_old_one_or_the_new_one(path: Path) -> None:
    arguments = [sys.executable, "-c", CRASH, str(path.parent), repr([plan("1/4"), plan("1/3")])]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=300, env=environment, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    killed, old, new = map(int, done.stdout.split())
    assert killed > 10
    assert old > 5
    assert new >= 1

"""A changed file is taken up while the service runs: all of it or nothing, and the log says so."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="needs the extra serve")

from starlette.testclient import TestClient

from evenhand.errors import OptionError
from evenhand.service import Database, KeyStore, ServiceConfig, create_app, open_service, replay_stored_logs
from evenhand.service.reload import reload_service

SERVICE = """
[service]
database = "sqlite:///kept.db"
keys = {keys}
"""
SHIELD = """
[[shields]]
name = "{name}"
when_down = "{when_down}"
[shields.plan]
property = "demographic_parity"
kappa = "{kappa}"
horizon = 20
kind = "static-fair"
groups = {{ women = {{ rate = 0.4, accept = 0.35 }}, men = {{ rate = 0.6, accept = 0.6 }} }}
"""
GUARD = """
[[guards]]
name = "studio"
[guards.config]
conditions = [{ name = "leader", keywords = ["leader"] }]
specifications = [{ condition = "leader", group = "gender", values = ["woman", "man"], repeated = 5 }]
generator = { kind = "studio" }
classifier = { kind = "studio" }
"""


def shield(name: str, kappa: str = "0.2", when_down: str = "refuse") -> str:
    return SHIELD.format(name=name, kappa=kappa, when_down=when_down)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "evenhand.toml"


def write(path: Path, *parts: str, keys: str = "false") -> None:
    path.write_text(SERVICE.format(keys=keys) + "".join(parts), "utf-8")


@pytest.fixture
def client(path: Path) -> Iterator[TestClient]:
    write(path, shield("loans"))
    with TestClient(create_app(ServiceConfig.read(path)), base_url="http://localhost") as found:
        yield found


def ask(client: TestClient, name: str, id: str = "1") -> int:
    asked = {"id": id, "group": "women", "recommendation": 0}
    return client.post(f"/v1/shields/{name}/decisions", json=asked).status_code


def test_shields_and_guards_come_change_and_go(client: TestClient, path: Path) -> None:
    assert (ask(client, "loans"), ask(client, "hiring")) == (200, 404)
    nothing = client.post("/v1/admin/reload").json()
    assert nothing == {"added": [], "removed": [], "changed": [], "needs_restart": [], "number": None}
    write(path, "[limits]\nin_flight = 3\n", shield("loans", when_down="pass"), shield("hiring"), GUARD)
    said = client.post("/v1/admin/reload").json()
    assert said == {"added": ["hiring", "studio"], "removed": [], "changed": ["loans"], "needs_restart": ["limits"],
                    "number": 1}  # fmt: skip
    assert (ask(client, "loans", "2"), ask(client, "hiring")) == (200, 200)
    assert client.get("/v1/shields/loans").json()["when_down"] == "pass"
    picture = client.post("/v1/images/generations", json={"prompt": "a leader", "response_format": "b64_json"})
    assert picture.headers["x-evenhand-status"] == "ok"
    assert 'evenhand_bias{stream="hiring"}' in client.get("/metrics").text
    write(path, shield("hiring"))
    assert client.post("/v1/admin/reload").json()["removed"] == ["loans", "studio"]
    assert (ask(client, "loans", "3"), ask(client, "hiring", "2")) == (404, 200)
    assert client.post("/v1/images/generations", json={"prompt": "a leader"}).status_code in (400, 404)
    # What is gone can come back, and goes on where it was.
    write(path, shield("hiring"), shield("loans"))
    assert client.post("/v1/admin/reload").json()["added"] == ["loans"]
    assert ask(client, "loans", "3") == 200
    assert client.get("/v1/shields/loans").json()["number"] == 3
    log = client.get("/v1/streams/evenhand:settings/log").text.splitlines()
    assert [json.loads(line)["body"].get("input", {}).get("op") for line in log] == [None, *["reload"] * 3]
    database = Database(f"sqlite:///{path.with_name('kept.db')}", make=False)
    assert replay_stored_logs(database).all_agree
    database.close()


@pytest.mark.parametrize("parts", [
    (shield("loans", kappa="0.3"), shield("hiring")),
    (shield("loans"), shield("hiring", kappa="nonsense")),
    ("[[shields]]\nname = 1\n",),
    (shield("loans"), shield("hiring"), GUARD.replace("studio\" }", "nobody\" }")),
])  # fmt: skip
def test_a_file_that_makes_no_sense_changes_nothing(client: TestClient, path: Path, parts: tuple[str, ...]) -> None:
    write(path, *parts)
    refused = client.post("/v1/admin/reload")
    assert refused.status_code in (422, 503)
    assert (ask(client, "loans"), ask(client, "hiring")) == (200, 404)
    assert [one["name"] for one in client.get("/v1/streams").json()["streams"]] == ["loans"]
    write(path, shield("loans"), shield("hiring"))
    assert client.post("/v1/admin/reload").status_code == 200
    assert ask(client, "hiring") == 200


def test_only_who_operates_it_may_and_the_log_says_who(path: Path) -> None:
    write(path, shield("loans"), keys="true")
    settings = ServiceConfig.read(path)
    database = Database(settings.service.database)
    with KeyStore(database) as ring:
        keys = {scope: ring.add(f"the-{scope}", [scope]) for scope in ("admin", "decide", "read", "operate")}
    database.close()
    with TestClient(create_app(settings), base_url="http://localhost") as client:
        write(path, shield("loans"), shield("hiring"), keys="true")
        found = {}
        for scope in ("decide", "read", "operate", "admin"):
            found[scope] = client.post("/v1/admin/reload", headers={"x-api-key": keys[scope]}).status_code
        assert found == {"decide": 403, "read": 403, "operate": 200, "admin": 200}
        log = client.get("/v1/streams/evenhand:settings/log", headers={"x-api-key": keys["read"]}).text
        assert json.loads(log.splitlines()[1])["body"]["input"]["by"] == "the-operate"


def test_decisions_go_on_while_the_file_is_read_again_and_again(path: Path) -> None:
    write(path, shield("loans"))
    context = open_service(ServiceConfig.read(path))
    told: dict[str, Any] = {}
    stop = threading.Event()

    def decide() -> None:
        n = 0
        while not stop.is_set():
            n += 1
            asked = {"op": "decide", "id": f"{n}", "group": ("women", "men")[n % 2], "recommendation": n % 3 % 2}
            told[f"{n}"] = context.ledger.submit("loans", asked, id=f"{n}").result(30)

    thread = threading.Thread(target=decide)
    thread.start()
    try:
        for turn in range(12):
            parts = [shield("loans", when_down=("pass", "refuse")[turn % 2])] + [shield("hiring")] * (turn % 3 == 0)
            write(path, *parts)
            reload_service(context, "test")
    finally:
        stop.set()
        thread.join()
    assert {one.number for one in told.values()} == set(range(1, len(told) + 1))
    context.close()
    database = Database(f"sqlite:///{path.with_name('kept.db')}", make=False)
    assert replay_stored_logs(database).all_agree
    database.close()


def test_a_service_without_a_file_says_so() -> None:
    class Nothing:
        settings = ServiceConfig()

    with pytest.raises(OptionError, match="without a file"):
        reload_service(Nothing(), "test")  # type: ignore[arg-type]  # all that is read of it

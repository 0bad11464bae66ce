"""What the dashboard's pages ask for: rows, windows, exports, pictures, logging in."""

import csv
import io
import json
import random
import re
import threading
from importlib.resources import files

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import delete, insert, select

from evenhand.service import Database, KeyStore, Ledger, ServiceConfig
from evenhand.service.dashboard import windows
from evenhand.service.dashboard.rows import RowFilter, entry_to_row
from evenhand.service.dashboard.windows import StreamStatus, parse_positions
from evenhand.service.generation.guards import build_guard_machine
from evenhand.service.settings import ServedGuardConfig
from evenhand.service.store.tables import checkpoints, entries, pictures, streams

STATIC = files("evenhand.service.dashboard") / "static"


@pytest.fixture
def decided(client):
    """The client, after 60 decisions of a shield."""
    rng = random.Random(0)
    decisions = []
    for i in range(60):
        group = rng.choice(["women", "men"])
        chance = {"women": 0.1, "men": 0.9}[group]
        decisions.append({"id": f"person {i}", "group": group, "recommendation": int(rng.random() < chance)})
    answers = client.post("/v1/shields/loans/decisions/batch", json={"decisions": decisions}).json()["results"]
    return client, decisions, answers


def ask(client, path, **query):
    answer = client.get(f"/v1/dashboard{path}", params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_rows_of_a_shield_say_what_was_answered(decided):
    client, decisions, answers = decided
    found = ask(client, "/streams/loans/window")
    assert (found["total"], found["number"]) == (60, 60)
    for asked, said, row in zip(decisions, answers, found["rows"], strict=True):
        assert {name: row[name] for name in asked} == asked
        assert (row["decision"], row["intervened"]) == (said["decision"], said["intervened"])
        assert row["marked"] == said["intervened"]
        assert row["shielded"] == said["bias"]
    stands = ask(client, "/streams/loans")
    assert stands["certificate"] == answers[-1]["certificate"]
    assert [words.partition(":")[0] for _, words in stands["guarantee"]] == ["This period", "Later periods"]
    assert stands["interventions"] == sum(one["intervened"] for one in answers)


def test_every_kind_of_store(described, store_url, serving_client):
    described["service"]["database"] = store_url
    client = serving_client(ServiceConfig.read(described))
    for i in range(6):
        client.post("/v1/shields/loans/decisions", json={"id": f"{i}", "group": "men", "recommendation": 1})
        client.post("/v1/images/generations", json={"prompt": "a leader"})
    assert [one["name"] for one in ask(client, "")["streams"]] == ["finite", "labelled", "loans", "studio"]
    for name in ("loans", "studio"):
        assert ask(client, f"/streams/{name}")["number"] >= 6
        rows = ask(client, f"/streams/{name}/window")["rows"]
        found = ask(client, f"/streams/{name}/rows", limit=100)
        assert found["rows"] == rows[::-1]
        some = ask(client, f"/streams/{name}/rows", marked=True, text="e", since=rows[2]["at"], before=10**6)
        assert all(row["marked"] for row in some["rows"])
        exported = client.get(f"/v1/dashboard/streams/{name}/export.json").json()
        assert [row["number"] for row in exported] == [row["n"] for row in found["rows"]]


def test_pages_of_rows_leave_nothing_out(decided):
    client, *_ = decided
    found, before = [], {}
    while True:
        part = ask(client, "/streams/loans/rows", limit=7, **before)
        found += part["rows"]
        if not part["more"]:
            break
        before = {"before": part["reached"]}
    assert [row["n"] for row in found] == list(range(60, 0, -1))
    marked = ask(client, "/streams/loans/rows", limit=100, marked=True)["rows"]
    assert [row["n"] for row in marked] == [row["n"] for row in found if row["marked"]]
    assert 0 < len(marked) < 60
    newer = ask(client, "/streams/loans/rows", after=55)["rows"]
    assert [row["n"] for row in newer] == [60, 59, 58, 57, 56]


def test_a_search_that_finds_little_says_how_far_it_came(decided, monkeypatch):
    client, *_ = decided
    monkeypatch.setattr(windows, "PIECE_ENTRIES", 5)
    monkeypatch.setattr(windows, "MAX_SCANNED_ENTRIES", 20)
    first = ask(client, "/streams/loans/rows", text="person 7")
    assert (first["rows"], first["reached"], first["more"]) == ([], 41, True)
    second = ask(client, "/streams/loans/rows", text="person 7", before=first["reached"])
    third = ask(client, "/streams/loans/rows", text="PERSON 7", before=second["reached"])
    assert [row["id"] for row in third["rows"]] == ["person 7"]
    assert third["more"] is True


def test_times(decided):
    client, *_ = decided
    rows = ask(client, "/streams/loans/window")["rows"]
    since, until = rows[10]["at"], rows[30]["at"]
    wanted = [row["n"] for row in rows if since <= row["at"] < until]
    assert [row["n"] for row in ask(client, "/streams/loans/window", since=since, until=until)["rows"]] == wanted
    latest = ask(client, "/streams/loans/window", since=since, limit=3)
    assert [row["n"] for row in latest["rows"]] == [58, 59, 60]
    assert latest["total"] == len([row for row in rows if row["at"] >= since])


def news_of(client, stream, **positions):
    after = ",".join(f"{name}={number}" for name, number in positions.items())
    return next((news for news in ask(client, "/news", after=after)["news"] if news["stream"] == stream), None)


def test_news_are_the_entries_after_a_position(decided, monkeypatch):
    client, *_ = decided
    news = news_of(client, "loans", loans=58)
    assert (news["number"], [row["n"] for row in news["rows"]], news["gap"]) == (60, [59, 60], False)
    assert news_of(client, "loans", loans=60) is None
    for position in (61, 3):
        monkeypatch.setattr(windows, "MAX_NEW_ROWS", 5)
        assert news_of(client, "loans", loans=position) == {"stream": "loans", "number": 60, "gap": True, "rows": []}


def test_a_page_misses_no_entry_while_others_write(client):
    total, numbers = 200, [0]

    def write():
        for i in range(total):
            operation = {"op": "decide", "id": f"p{i}", "group": "men", "recommendation": 1}
            client.app.state.context.ledger.submit("loans", operation, id=f"p{i}").result()

    writer = threading.Thread(target=write)
    writer.start()
    while numbers[-1] < total:
        news = news_of(client, "loans", loans=numbers[-1])
        numbers += [] if news is None else [row["n"] for row in news["rows"]]
    writer.join()
    assert numbers == list(range(total + 1))


def test_exports_hold_what_is_found(decided):
    client, *_ = decided
    wanted = ask(client, "/streams/loans/rows", limit=100, marked=True, text="women")["rows"]
    answer = client.get("/v1/dashboard/streams/loans/export.csv", params={"marked": True, "text": "women"})
    assert answer.headers["content-disposition"] == 'attachment; filename="loans.csv"'
    table = list(csv.DictReader(io.StringIO(answer.text)))
    assert [(int(row["number"]), row["id"], row["reason"]) for row in table] == [
        (row["n"], row["id"], row["reason"]) for row in wanted
    ]
    listed = client.get("/v1/dashboard/streams/loans/export.json", params={"marked": True, "text": "women"}).json()
    assert [one["number"] for one in listed] == [row["n"] for row in wanted]
    assert [one["shielded"] for one in listed] == [row["shielded"] for row in wanted]
    assert client.get("/v1/dashboard/streams/loans/export.json", params={"text": "nobody"}).json() == []


def test_no_cell_is_a_formula(client):
    asked = {"id": '=HYPERLINK("http://127.0.0.1")', "group": "women", "recommendation": 1}
    assert client.post("/v1/shields/loans/decisions", json=asked).status_code == 200
    (row,) = csv.DictReader(io.StringIO(client.get("/v1/dashboard/streams/loans/export.csv").text))
    assert row["id"] == "'" + asked["id"]


@pytest.fixture
def studio(described, serving_client):
    """A client of a guarded studio whose prompts are kept, after 20 requests."""
    described["guards"][0]["log_prompts"] = True
    client = serving_client(ServiceConfig.read(described))
    for i in range(20):
        prompt = "a bowl of apples" if i % 5 == 4 else "a leader"
        assert client.post("/v1/images/generations", json={"model": "studio", "prompt": prompt}).status_code == 200
    return client


def test_changed_prompts_say_before_after_and_why(studio):
    rows = ask(studio, "/streams/studio/window")["rows"]
    made = [row for row in rows if row["op"] == "complete"]
    assert len(made) == 20
    changed = [row for row in made if row["changed"]]
    assert changed
    for row in changed:
        assert row["prompt"] == "a leader"
        assert row["sent"].startswith("a leader (showing: ")
        assert row["marked"]
        (group, value) = re.search(r"\(showing: (\w+) (\w+)", row["sent"]).groups()
        assert row["values"][group] == value
        assert f"{group}: only" in row["why"]
    for row in made:
        counted = row["prompt"] == "a leader"
        assert bool(row["slots"]) == bool(row["conditions"]) == counted
    found = ask(studio, "/streams/studio/rows", text="showing", limit=100)["rows"]
    assert [row["n"] for row in found] == [row["n"] for row in reversed(changed)]


def test_lanes_shrink_by_one_with_every_item_and_begin_again(studio):
    rows = [row for row in ask(studio, "/streams/studio/window")["rows"] if row.get("slots")]
    stands = {one["name"]: one for one in ask(studio, "/streams/studio")["specifications"]}
    context = studio.app.state.context
    with context.database.reading() as connection:
        state = json.loads(connection.execute(select(streams.c.state).where(streams.c.name == "studio")).scalar_one())
    for name, group in (("leader: age", "age"), ("leader: gender", "gender")):
        deadlines = {lane["value"]: lane["deadline"] for lane in stands[name]["lanes"]}
        left = [row["left"][name] for row in rows] + [{lane["value"]: lane["left"] for lane in stands[name]["lanes"]}]
        for row, before, after in zip(rows, left, left[1:], strict=False):
            shown = row["values"][group]
            wanted = {value: deadlines[value] if value == shown else before[value] - 1 for value in deadlines}
            assert after == wanted
        assert state["rows"][name]
        assert stands[name]["counts"]["missed"] == 0
    assert "repeatedly" in ask(studio, "/streams/studio")["guarantee"]


def test_of_many_values_those_that_are_due_first_are_shown(tmp_path):
    many = [f"kind {i}" for i in range(100)]
    asked = {"condition": "leader", "group": "kind", "values": many, "repeated": [300 - i for i in range(100)]}
    config = {"conditions": [{"name": "leader"}], "specifications": [asked]}
    database = Database(f"sqlite:///{tmp_path / 'evenhand.db'}")
    ledger = Ledger(database, {"wide": build_guard_machine(ServedGuardConfig(name="wide", config=config), tmp_path)})
    admit = {"op": "admit", "replica": "r", "conditions": ["leader"], "fixed": []}
    number = ledger.submit("wide", admit).result().number
    ledger.submit("wide", {"op": "complete", "admission": number, "values": {"kind": many[-1]}}).result()
    with database.reading() as connection:
        (stands,) = StreamStatus().of(connection, "wide")["specifications"]
        (row,) = windows.latest_rows(connection, "wide", RowFilter())["rows"]
    ledger.close()
    database.close()
    # The last one appeared just now, and has the whole of its deadline before it.
    assert stands["values"] == 100
    assert [lane["value"] for lane in stands["lanes"]] == many[40:]
    assert [lane["left"] for lane in stands["lanes"]] == [*(299 - i for i in range(40, 99)), 201]
    assert (row["values"], row["left"]) == ({"kind": many[-1]}, {})


def test_pictures_are_only_drawn(studio):
    row = ask(studio, "/streams/studio/window")["rows"][-1]
    assert row["picture"]
    path = f"/v1/dashboard/streams/studio/pictures/{row['admission']}"
    answer = studio.get(path)
    assert answer.headers["content-type"] == "image/png"
    assert answer.content.startswith(b"\x89PNG")
    assert "sandbox" in answer.headers["content-security-policy"]
    assert answer.headers["x-content-type-options"] == "nosniff"
    with studio.app.state.context.database.transaction() as connection:
        kept = {"stream": "studio", "number": 999, "at": 0.0, "media_type": "image/svg+xml"}
        connection.execute(insert(pictures).values(**kept, data=b"<svg><script/></svg>"))
    for number in (999, 123456):
        assert studio.get(f"/v1/dashboard/streams/studio/pictures/{number}").status_code == 404


def test_prompts_that_are_not_kept_are_not_there(client):
    for _ in range(8):
        client.post("/v1/images/generations", json={"model": "studio", "prompt": "a secret leader"})
    text = client.get("/v1/dashboard/streams/studio/window").text
    assert "secret" not in text
    changed = [row for row in json.loads(text)["rows"] if row.get("changed")]
    # What the guard said in addition is its own.
    assert all(row["sent"].startswith("... (showing: ") for row in changed)
    assert changed


def test_a_log_that_begins_at_a_checkpoint(decided):
    client, *_ = decided
    context = client.app.state.context
    number = context.ledger.checkpoint("loans").result().number
    with context.database.transaction() as connection:
        connection.execute(delete(entries).where(entries.c.stream == "loans", entries.c.number < number))
        connection.execute(delete(checkpoints).where(checkpoints.c.stream == "loans", checkpoints.c.number < number))
    client.post("/v1/shields/loans/decisions", json={"id": "next", "group": "men", "recommendation": 1})
    assert [row["id"] for row in ask(client, "/streams/loans/window")["rows"]] == ["next"]
    stands = ask(client, "/streams/loans")
    assert stands["groups"] == ["women", "men"]
    assert stands["certificate"]["step"] == 61 - 40


def test_entries_of_all_kinds_have_a_row():
    def entry(asked, said=None, **more):
        return {"number": 9, "at": 1.0, "body": {"input": asked, "output": said or {}, "before": {}, **more}}

    outcome = {"outcome": {"status": "violation", "reason": "too late", "slots": {"a": 1}, "admission": None}}
    cases = [
        ({"op": "fail", "admission": 4}, outcome, {"status": "violation", "marked": True, "reason": "too late"}),
        ({"op": "complete", "call": "c", "values": {}}, outcome, {"admission": None, "picture": False}),
        ({"op": "fail", "admission": 4, "withdrawn": True}, outcome, {"status": "withdrawn"}),
        ({"op": "abandon", "replica": "r"}, {"abandoned": {"4": outcome["outcome"]}}, {"reason": "1 request was"}),
        ({"op": "abandon", "replica": "r"}, {"abandoned": {}}, {"marked": False}),
        ({"op": "record", "note": {"what": "started", "evenhand": "1"}}, {}, {"text": "a replica of the service"}),
        ({"op": "record", "note": {"what": "lost", "records": 5}}, {}, {"marked": True, "text": "5 more records"}),
        (
            {"op": "record", "note": {"what": "answer", "status": "unguarded", "admission": None, "reason": "r"}},
            {},
            {"picture": True, "admission": 9, "marked": True},
        ),
        ({"op": "something new"}, {}, {"text": '{"op":"something new"}'}),
    ]
    for asked, said, wanted in cases:
        row = entry_to_row(entry(asked, said))
        for name, value in wanted.items():
            assert row[name] == value or (isinstance(value, str) and row[name].startswith(value)), (asked, row)
        assert RowFilter().matches_row(row)
    assert entry_to_row({"number": 0, "at": 1.0, "body": {"kind": "shield", "state": {}}})["op"] == "checkpoint"


def test_unknown_streams_and_those_of_keys_are_not_shown(client):
    with KeyStore(client.app.state.context.database) as ring:
        ring.add("somebody", ["read"])
    begun = ask(client, "")
    assert [one["name"] for one in begun["streams"]] == ["finite", "labelled", "loans", "studio"]
    assert begun["models"] == {"studio": "studio"}
    for name in ("nothing", "evenhand:keys"):
        for part in ("", "/window", "/rows", "/export.csv"):
            assert client.get(f"/v1/dashboard/streams/{name}{part}").status_code == 404


# ---- logging in


@pytest.fixture
def locked(described, serving_client):
    """A client of a service that wants keys, and a key for each scope."""
    described["service"]["keys"] = True
    client = serving_client(ServiceConfig.read(described))
    client.follow_redirects = False
    with KeyStore(client.app.state.context.database) as ring:
        return client, {scope: ring.add(scope, [scope]) for scope in ("read", "decide")}


def test_a_key_becomes_a_cookie_that_no_script_sees(locked):
    client, keys = locked
    to_login = client.get("/", headers={"accept": "text/html"})
    assert (to_login.status_code, to_login.headers["location"]) == (303, "/login")
    assert 'name="key"' in client.get("/login").text
    answer = client.post("/login", data={"key": f" {keys['read']} "})
    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert "secure" not in cookie
    page = client.get("/")
    assert page.status_code == 200
    assert keys["read"] not in page.text
    assert "script-src 'self'" in page.headers["content-security-policy"]
    assert page.headers["cache-control"] == "no-store"
    assert client.get("/v1/dashboard").json()["caller"] == {"name": "read", "key": True, "generate": False}
    gone = client.post("/logout")
    assert (gone.status_code, gone.headers["location"]) == (303, "/login")
    assert client.get("/v1/dashboard").status_code == 401


def test_behind_a_proxy_with_tls_the_cookie_stays_encrypted(locked):
    client, keys = locked
    answer = client.post("/login", data={"key": keys["read"]}, headers={"x-forwarded-proto": "https"})
    assert "; secure" in answer.headers["set-cookie"].lower()


@pytest.mark.parametrize(
    ("key", "status", "said"),
    [
        ("", 401, "Unknown key"),
        ("<b>", 401, "Unknown key"),
        ("decide", 403, "lacks the scope read"),
        ("x" * 3000, 413, "This is not a valid key"),
    ],
)
def test_a_key_that_may_not_read_is_told_so(locked, key, status, said):
    client, keys = locked
    answer = client.post("/login", data={"key": keys.get(key, key)})
    assert answer.status_code == status
    assert said in answer.text
    assert "<b>" not in answer.text
    assert "set-cookie" not in answer.headers


# ---- the files


def test_pages_load_nothing_from_elsewhere_and_hold_no_script():
    names = {one.name for one in STATIC.iterdir()}
    for name in names:
        text = (STATIC / name).read_text("utf-8")
        addresses = set(re.findall(r"(?:https?:)?//[\w.-]+\.\w+[^\s\"'`]*", text))
        assert addresses <= {"http://www.w3.org/2000/svg"}, name
        if name.endswith(".html"):
            assert not re.search(r"<script(?![^>]*src=)|\son\w+=|\sstyle=|<style", text)
            assert set(re.findall(r'(?:src|href)="/assets/([^"]+)"', text)) <= names
        if name.endswith(".js"):
            assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function", text)
            assert set(re.findall(r'from "/assets/([^"]+)"', text)) <= names


def test_assets_are_told_apart_by_what_they_hold(client):
    first = client.get("/assets/app.js")
    assert first.headers["content-type"].startswith("text/javascript")
    again = client.get("/assets/app.js", headers={"if-none-match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert client.get("/assets/app.js", headers={"if-none-match": '"other"'}).status_code == 200
    for name in ("nothing.js", "__init__.py", "..%2f__init__.py", "index.html"):
        assert client.get(f"/assets/{name}").status_code == 404


NAMES = st.from_regex(r"[A-Za-z0-9_.-]{1,20}", fullmatch=True)


@given(st.dictionaries(NAMES, st.integers(0, 10**18 - 1), max_size=5))
def test_positions_are_read_as_they_are_written(positions):
    assert parse_positions(",".join(f"{name}={number}" for name, number in positions.items())) == positions

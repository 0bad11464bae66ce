"""Replaying what lies in a store, by the command: logs, states and answers by id."""

import hashlib
import json
import shutil

import pytest
from sqlalchemy import delete, func, insert, select, update
from worked_streams import STREAMS, open_worked, work

from evenhand.core.canonical_json import hash_json
from evenhand.errors import StoreError
from evenhand.service import Database, replay_stored_logs
from evenhand.service.replay.replay import ServiceReplay
from evenhand.service.replay.replay_store import StoreReplay
from evenhand.service.store.database import read_heads, read_log
from evenhand.service.store.tables import STREAM_TABLES, answers, checkpoints, entries, pictures, streams


@pytest.fixture(scope="module")
def worked(tmp_path_factory):
    """A file in which every stream did its work."""
    path = tmp_path_factory.mktemp("store") / "evenhand.db"
    database = Database(f"sqlite:///{path}")
    ledger = open_worked(database)
    work(ledger)
    ledger.close()
    database.close()
    return path


@pytest.fixture
def kept(worked, tmp_path):
    """A store of this test's own, and its address."""
    shutil.copy(worked, tmp_path / "kept.db")
    url = f"sqlite:///{tmp_path / 'kept.db'}"
    database = Database(url)
    yield database, url
    database.close()


@pytest.fixture
def store(kept):
    return kept[0]


def changed(database, statement):
    with database.transaction() as connection:
        assert connection.execute(statement).rowcount


def difference(database, stream):
    done = {one.stream: one for one in replay_stored_logs(database).replays}
    assert all(one.all_agree for name, one in done.items() if name != stream), "what was not touched agrees"
    assert not done[stream].all_agree
    return done[stream].difference


def test_a_store_that_was_worked_on_agrees(store_url):
    store = Database(store_url)
    ledger = open_worked(store)
    work(ledger)
    ledger.close()
    done = replay_stored_logs(store)
    assert done.all_agree, done.summary()
    assert [one.stream for one in done.replays] == sorted(STREAMS)
    assert StoreReplay.from_json(done.to_json()) == done
    alone = replay_stored_logs(store, stream="loans", heads={"loans": done.replays[STREAMS.index("loans")].head})
    assert len(alone.replays) == 1
    with store.transaction() as connection:
        connection.execute(delete(entries).where(entries.c.stream == "loans", entries.c.number > 10))
    assert not replay_stored_logs(store, stream="loans").all_agree
    store.close()


LOANS = {table: table.c.stream == "loans" for table in (answers, checkpoints, entries)}
ANSWER = LOANS[answers] & (answers.c.id == hash_json("loans 3"))
BEHIND = {
    answers: {"id": "0" * 64},
    checkpoints: {"at": 0.0},
    entries: {"at": 0.0, "marked": True, "body": "{}", "hash": ""},
    pictures: {"at": 0.0, "media_type": "", "data": b""},
}
NO_ROW = "checkpoints has another time or no row"
OTHER = func.replace(entries.c.body, '"recommendation":1', '"recommendation":0')
CHANGES = [
    (update(entries).where(LOANS[entries], entries.c.number == 3).values(body=OTHER), 3, "its hash does not match"),
    (delete(entries).where(LOANS[entries], entries.c.number > 10), None, "the stored number does not match the last"),
    (delete(entries).where(LOANS[entries]), None, "all entries of the log are missing"),
    (insert(answers).values(stream="loans", id="0" * 64, number=4), 4, "answer"),
    (delete(answers).where(ANSWER), 4, "answer"),
    (update(answers).where(ANSWER).values(number=77), 4, "answer"),
    (delete(checkpoints).where(LOANS[checkpoints]), None, NO_ROW),
    (insert(checkpoints).values(stream="loans", number=5, at=0.0), None, NO_ROW),
    (
        update(checkpoints).where(LOANS[checkpoints]).values(at=checkpoints.c.at + 1e9),
        None,
        "has another time or no row",
    ),
    *(
        (insert(table).values(stream="loans", number=99, **values), None, f"the table {table.name} has a row after the")
        for table, values in BEHIND.items()
    ),
]


@pytest.mark.parametrize(("statement", "entry", "what"), CHANGES)
def test_what_is_changed_in_the_tables_is_found(store, statement, entry, what):
    changed(store, statement)
    found = difference(store, "loans")
    assert what in found.what
    assert entry in (None, found.entry)


def test_a_state_that_was_changed_is_found(store):
    with store.reading() as connection:
        state = json.loads(connection.execute(select(streams.c.state).where(streams.c.name == "pictures")).scalar_one())
    state["rows"]["gender"]["counts"]["missed"] += 1
    changed(store, update(streams).where(streams.c.name == "pictures").values(state=json.dumps(state)))
    found = difference(store, "pictures")
    assert found.what == "the stored state does not match the last entry"
    assert found.logged.startswith("rows.gender.counts.missed: ")


def test_a_stream_whose_row_was_deleted_is_found_by_what_it_leaves(kept, evenhand):
    database, url = kept
    changed(database, delete(streams).where(streams.c.name == "loans"))
    found = difference(database, "loans")
    assert found.what == "the stream's row in the table streams is missing; 16 entries are left of its log"
    assert "shield 'loans': the log does not agree" in evenhand("replay", "--store", url, code=1).out
    with pytest.raises(StoreError, match="no row in the table streams, and a log that ends in entry 15\n") as caught:
        open_worked(database)
    assert "evenhand replay --store" in str(caught.value.hint)


def test_a_picture_that_was_exchanged_is_found(store):
    ledger = open_worked(store)
    admitted = ledger.submit("pictures", {"op": "admit", "replica": "one", "conditions": []}).result().number
    item = {"sha256": hashlib.sha256(b"delivered").hexdigest(), "media_type": "image/png", "bytes": 9}
    done = {"op": "complete", "admission": admitted, "values": {}, "note": {"item": item}}
    ledger.submit("pictures", done).result()
    ledger.close()
    kept = {"stream": "pictures", "number": admitted, "at": 0.0, "media_type": "image/png"}
    changed(store, insert(pictures).values(**kept, data=b"delivered"))
    assert replay_stored_logs(store).all_agree
    changed(store, update(pictures).values(data=b"exchanged"))
    assert difference(store, "pictures").what == "the stored picture differs from the delivered one"


def test_a_stream_that_is_wholly_gone_is_found_by_heads_noted_down(kept, evenhand, tmp_path):
    database, url = kept
    with database.reading() as connection:
        heads = [{"name": name, "number": n, "hash": last} for name, (n, last) in read_heads(connection).items()]
    (tmp_path / "heads.json").write_text(json.dumps({"streams": heads}), "utf-8")
    evenhand("replay", "--store", url, "--heads", tmp_path / "heads.json")
    for column in STREAM_TABLES:
        with database.transaction() as connection:
            connection.execute(delete(column.table).where(column == "advice"))
    evenhand("replay", "--store", url)
    ran = evenhand("replay", "--store", url, "--heads", tmp_path / "heads.json", code=1)
    assert "the stream is missing" in " ".join(ran.out.split())


@pytest.mark.parametrize(
    ("change", "end"),
    [
        (delete(entries).where(entries.c.number > 10), "10\n"),
        (update(entries).where(entries.c.number == 15).values(hash="0"), "15 with another hash\n"),
    ],
)
def test_a_service_refuses_a_log_that_does_not_end_where_its_row_says(store, change, end):
    changed(store, change.where(entries.c.stream == "loans"))
    with pytest.raises(StoreError, match=f"a row that ends in entry 15, and a log that ends in entry {end}"):
        open_worked(store)


def test_an_entry_in_the_way_is_refused_in_words_while_the_service_runs(store):
    ledger = open_worked(store)
    changed(store, insert(entries).values(stream="loans", number=16, at=0.0, marked=True, body="{}", hash=""))
    operation = {"op": "decide", "id": "new", "group": "men", "recommendation": 0}
    with pytest.raises(StoreError, match="tables contradict each other"):
        ledger.submit("loans", operation, id="new").result()
    ledger.close()


def test_the_command_replays_a_store_and_a_file(kept, evenhand, tmp_path):
    database, url = kept
    assert evenhand("replay", "--store", url).out.count("entries agree") == len(STREAMS)
    path = tmp_path / "loans.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in read_log(database, "loans")), "utf-8")
    ran = evenhand("replay", path, "--json", "-")
    assert ServiceReplay.from_json(ran.out).stream == "loans"
    head = ran.json["head"]
    assert evenhand("replay", path, "--head", head, "--quiet").out == ""
    part = ("replay", "--store", url, "--stream", "loans", "--head", head)
    assert len(evenhand(*part, "--json", "-").json["replays"]) == 1
    changed(database, delete(entries).where(entries.c.stream == "loans", entries.c.number > 10))
    assert "the log does not agree" in evenhand(*part, code=1).out
    assert evenhand("replay", path, "--head", "f" * 64, "--json", "-", code=1).json["difference"]["entry"] is None


def test_what_cannot_be_replayed_is_said(kept, evenhand, tmp_path):
    _database, url = kept
    (tmp_path / "no.jsonl").write_text("a,b\n1,2\n", "utf-8")
    for arguments, said in (
        ((), "expected a log or a store"),
        (("x.jsonl", "--store", url), "expected a log or a store"),
        (("x.jsonl",), "the log cannot be read"),
        ((tmp_path / "no.jsonl",), "this is not a log of the service"),
        (("x.jsonl", "--stream", "loans"), "--stream: --stream requires --store"),
        (("--store", url, "--head", "f" * 64), "--head: expected one stream"),
        (("--store", url, "--stream", "nobody"), "--stream: there is no stream 'nobody'"),
        (("--store", f"sqlite:///{tmp_path / 'none.db'}"), "none.db: the file does not exist"),
        (("--store", f"sqlite:///{tmp_path / 'no.jsonl'}"), "the store failed: file is not a database"),
        (("--store", "nonsense"), "--store"),
        (("x.jsonl", "--heads", "h.json"), "--heads: --heads requires --store"),
        (("--store", url, "--heads", tmp_path / "no.jsonl"), "--heads: expected a response of GET"),
        (("--store", url, "--heads", tmp_path / "none.json"), "--heads: the heads cannot be read"),
    ):
        ran = evenhand("replay", *arguments, code=2)
        assert ran.out == ""
        assert said in ran.err
    assert not (tmp_path / "none.db").exists()

"""Replaying what lies in a store, by the command: logs, states and answers by id."""

from __future__ import annotations

import json
import shutil

import pytest
from sqlalchemy import delete, select, update
from worked_streams import SERVED, STREAMS, work

from evenhand.cli.main import main
from evenhand.service import Database, Ledger, ServiceConfig, ServiceReplay, StoreReplay, read_log, replay_stored_logs
from evenhand.service.api.context import build_streams
from evenhand.service.store.tables import answers, entries, streams
from evenhand.service.store.transaction import answer_key


@pytest.fixture(scope="module")
def worked(tmp_path_factory):
    """A file in which every stream did its work."""
    path = tmp_path_factory.mktemp("store") / "evenhand.db"
    database = Database(f"sqlite:///{path}")
    ledger = Ledger(database, build_streams(ServiceConfig.read(SERVED)).machines)
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


@pytest.fixture
def evenhand(monkeypatch, capsys):
    def run(*arguments):
        monkeypatch.setattr("sys.argv", ["evenhand", *map(str, arguments)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as left:
            main()
        said = capsys.readouterr()
        return left.value.code, said.out, said.err

    return run


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
    ledger = Ledger(store, build_streams(ServiceConfig.read(SERVED)).machines)
    work(ledger)
    ledger.close()
    done = replay_stored_logs(store)
    assert done.all_agree, done.summary()
    assert [one.stream for one in done.replays] == sorted(STREAMS)
    assert StoreReplay.from_json(done.to_json()) == done
    alone = replay_stored_logs(store, stream="loans", head=done.replays[STREAMS.index("loans")].head)
    assert len(alone.replays) == 1
    with store.transaction() as connection:
        connection.execute(delete(entries).where(entries.c.stream == "loans", entries.c.number > 10))
    assert not replay_stored_logs(store, stream="loans").all_agree
    store.close()


def test_an_entry_that_was_changed_in_the_store_is_found(store):
    with store.reading() as connection:
        body = connection.execute(
            select(entries.c.body).where(entries.c.stream == "loans", entries.c.number == 3)
        ).scalar()
    other = body.replace('"recommendation":1', '"recommendation":0')
    assert other != body
    changed(store, update(entries).where(entries.c.stream == "loans", entries.c.number == 3).values(body=other))
    found = difference(store, "loans")
    assert (found.entry, found.what) == (3, "it was changed: its hash is not that of its content")


def test_entries_that_were_deleted_are_found(store):
    changed(store, delete(entries).where(entries.c.stream == "hiring", entries.c.number == 5))
    assert difference(store, "hiring").entry == 5


def test_a_log_that_was_cut_off_is_found_without_a_known_head(store):
    changed(store, delete(entries).where(entries.c.stream == "loans", entries.c.number > 10))
    assert (
        difference(store, "loans").what == "the number that is kept for the stream is not the one after its last entry"
    )


def test_a_state_that_was_changed_is_found(store):
    with store.reading() as connection:
        state = json.loads(connection.execute(select(streams.c.state).where(streams.c.name == "pictures")).scalar_one())
    state["rows"]["gender"]["counts"]["missed"] += 1
    changed(store, update(streams).where(streams.c.name == "pictures").values(state=json.dumps(state)))
    found = difference(store, "pictures")
    assert found.what == "the state that is kept for the stream is not the one after its last entry"
    assert found.logged.startswith("rows.gender.counts.missed: ")


@pytest.mark.parametrize("what", ["answer", "question", "gone", "another"])
def test_an_answer_that_was_changed_is_found(store, what):
    one = (answers.c.stream == "loans") & (answers.c.id == answer_key("loans 3"))
    with store.reading() as connection:
        row = connection.execute(select(answers).where(one)).mappings().one()
    answer = json.loads(row["answer"])
    answer["decision"] = 1 - answer["decision"]
    changed(store, {
        "answer": update(answers).where(one).values(answer=json.dumps(answer)),
        "question": update(answers).where(one).values(asked="0" * 64),
        "gone": delete(answers).where(one),
        "another": update(answers).where(one).values(number=77),
    }[what])  # fmt: skip
    found = difference(store, "loans")
    assert found.entry == row["number"]
    assert "kept for" in found.what


def test_the_command_replays_a_store_and_a_file(kept, evenhand, tmp_path):
    database, url = kept
    code, out, _err = evenhand("replay", "--store", url)
    assert code == 0
    assert out.count("entries agree") == len(STREAMS)
    path = tmp_path / "loans.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in read_log(database, "loans")), "utf-8")
    code, out, _err = evenhand("replay", path, "--json", "-")
    assert (code, ServiceReplay.from_json(out).stream) == (0, "loans")
    head = json.loads(out)["head"]
    assert evenhand("replay", path, "--head", head, "--quiet")[:2] == (0, "")
    code, out, _err = evenhand(
        "replay", "--store", url, "--stream", "loans", "--head", head, "--json", tmp_path / "r.json"
    )
    assert (code, len(json.loads((tmp_path / "r.json").read_text("utf-8"))["replays"])) == (0, 1)
    changed(database, delete(entries).where(entries.c.stream == "loans", entries.c.number > 10))
    code, out, _err = evenhand("replay", "--store", url, "--stream", "loans", "--head", head)
    assert code == 1
    assert "the log does not hold" in out
    code, out, _err = evenhand("replay", path, "--head", "f" * 64, "--json", "-")
    assert (code, json.loads(out)["difference"]["entry"]) == (1, None)


def test_what_cannot_be_replayed_is_said(kept, evenhand, tmp_path):
    _database, url = kept
    (tmp_path / "no.jsonl").write_text("a,b\n1,2\n", "utf-8")
    for arguments, said in (
        ((), "give a log, or a store"),
        (("x.jsonl", "--store", url), "give a log, or a store"),
        (("x.jsonl",), "the log cannot be read"),
        ((tmp_path / "no.jsonl",), "this is not a log of the service"),
        (("x.jsonl", "--stream", "loans"), "--stream: a log is of one stream already"),
        (("--store", url, "--head", "f" * 64), "--head: each stream has a head of its own"),
        (("--store", url, "--stream", "nobody"), "--stream: there is no stream 'nobody'"),
        (("--store", f"sqlite:///{tmp_path / 'none.db'}"), "--store: there is no store"),
        (("--store", f"sqlite:///{tmp_path / 'no.jsonl'}"), "the store failed: file is not a database"),
        (("--store", "nonsense"), "--store"),
    ):
        code, out, err = evenhand("replay", *arguments)
        assert (code, out) == (2, ""), (arguments, out, err)
        assert said in err, err
    assert not (tmp_path / "none.db").exists()

"""What the ledger promises, whatever fails when: nothing acknowledged is lost, nothing happens twice or in part.

A reference in memory, which never fails, goes the same way. Where the ledger says that something was done, the
reference does it too, and must come to the same answer. Where the ledger says that nobody knows, the store alone is
asked, and it must be exactly one of the two.
"""

import tempfile
from pathlib import Path

import pytest
from chains import verified
from counting import Counting, held
from faulty import Faulty
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from evenhand.errors import DecisionError, StoreError
from evenhand.service import Ledger
from evenhand.service.store.database import read_entries_after, read_heads
from evenhand.service.store.transaction import OperationResult
from support import scaled

FAULTS = st.lists(st.sampled_from([None, "before", "during", "commit", "after"]), max_size=5)
IDS = st.one_of(st.none(), st.sampled_from(["x", "y", "z", "π\u0000"]))
OPERATIONS = st.one_of(
    st.fixed_dictionaries({"op": st.just("add"), "amount": st.integers(-2, 3)}),
    st.fixed_dictionaries({"op": st.just("open"), "replica": st.sampled_from(["one", "two"])}),
    st.fixed_dictionaries({"op": st.just("close"), "opened": st.integers(1, 8)}),
    st.fixed_dictionaries({"op": st.just("abandon"), "replica": st.sampled_from(["one", "two"])}),
)
ASKED = st.tuples(st.sampled_from("ab"), OPERATIONS, IDS, st.booleans())


class Reference:
    """One stream that never fails."""

    def __init__(self):
        self.machine = Counting()
        self.number = 0
        self.answers = {}

    def take(self, operation, id_):
        if id_ in self.answers:
            asked, done = self.answers[id_]
            return OperationResult(done.number, done.answer, repeated=True) if asked == operation else DecisionError
        try:
            answer = self.machine.apply(operation, self.number + 1)
        except DecisionError:
            return DecisionError
        self.number += 1
        if id_ is not None:
            self.answers[id_] = operation, OperationResult(self.number, answer)
        return OperationResult(self.number, answer)


class Promises(RuleBasedStateMachine):
    """Two replicas on one store, each of which may fail at any time."""

    url = ""

    @initialize()
    def begin(self):
        self.folder = tempfile.TemporaryDirectory(prefix="evenhand-promises-")
        self.address = self.url or f"sqlite:///{Path(self.folder.name) / 'evenhand.db'}"
        self.databases = [Faulty(self.address), Faulty(self.address)]
        # A name of this run's own, since a server's database is used for all of them.
        self.prefix = Path(self.folder.name).name
        self.ledgers = [self._ledger(database) for database in self.databases]
        self.references = {"a": Reference(), "b": Reference()}

    def _ledger(self, database):
        machines = {f"{self.prefix}{stream}": Counting() for stream in "ab"}
        return Ledger(database, machines, pauses=(0.0, 0.0))

    @rule(who=st.integers(0, 1), asked=st.lists(ASKED, min_size=1, max_size=6), faults=FAULTS)
    def ask(self, who, asked, faults):
        database, ledger = self.databases[who], self.ledgers[who]
        with held(ledger):
            futures = [
                ledger.submit(self.prefix + stream, operation, id=id_, durable=durable)
                for stream, operation, id_, durable in asked
            ]
            database.faults.extend(faults)
        errors = [future.exception(30) for future in futures]
        database.faults.clear()
        failed = [error for error in errors if isinstance(error, StoreError)]
        if failed:
            # Nothing fails by itself; and it is one transaction: the same for everybody in it.
            assert any(faults), failed[0]
            assert len(failed) == len(asked)
            if not self._happened(asked):
                return
            assert "not known" in failed[0].message
        expected = {
            place: self.references[stream].take(operation, id_)
            for place, stream, operation, id_ in sorted((place, *one[:3]) for place, one in enumerate(asked))
        }
        if failed:
            return
        for place, (future, error) in enumerate(zip(futures, errors, strict=True)):
            if error is not None:
                assert expected[place] is type(error), error
            else:
                assert future.result() == expected[place]

    def _happened(self, asked):
        with self.databases[0].reading() as connection:
            ends = read_heads(connection)
        moved = {stream: ends[self.prefix + stream][0] != one.number for stream, one in self.references.items()}
        assert {stream for stream, here in moved.items() if here} <= {stream for stream, *_ in asked}
        return any(moved.values())

    @rule(who=st.integers(0, 1))
    def restart(self, who):
        self.ledgers[who].close()
        self.ledgers[who] = self._ledger(self.databases[who])

    @rule(who=st.integers(0, 1), stream=st.sampled_from("ab"))
    def mark(self, who, stream):
        done = self.ledgers[who].checkpoint(self.prefix + stream).result(30)
        self.references[stream].number += 1
        assert done == OperationResult(self.references[stream].number, {})

    @precondition(lambda self: hasattr(self, "references"))
    @invariant()
    def the_store_is_where_the_reference_is(self):
        with self.databases[0].reading() as connection:
            for stream, reference in self.references.items():
                name = self.prefix + stream
                assert read_heads(connection)[name][0] == reference.number
                last = read_entries_after(connection, name, reference.number - 1, 1)[0]["body"]
                assert "state" in last or last["input"]["op"]

    def teardown(self):
        if not hasattr(self, "folder"):
            return
        for ledger in self.ledgers:
            ledger.close()
        logs = {
            stream: found for stream, found in verified(self.databases[0]).items() if stream.startswith(self.prefix)
        }
        for stream, reference in self.references.items():
            entries = logs[self.prefix + stream]
            given = {entry["body"]["id"]: entry for entry in entries[1:] if entry["body"].get("id") is not None}
            assert given.keys() == reference.answers.keys()
            for id_, (operation, done) in reference.answers.items():
                entry = given[id_]
                assert (entry["number"], entry["body"]["output"]) == (done.number, done.answer)
                assert entry["body"]["input"] == operation
        for database in self.databases:
            database.close()
        self.folder.cleanup()


CALM = {"suppress_health_check": list(HealthCheck), "deadline": None}


def test_the_ledger_keeps_its_promises_on_sqlite():
    run_state_machine_as_test(Promises, settings=settings(max_examples=scaled(40), stateful_step_count=12, **CALM))


@pytest.mark.slow
def test_the_ledger_keeps_its_promises_on_sqlite_at_length():
    run_state_machine_as_test(Promises, settings=settings(max_examples=scaled(1_000), stateful_step_count=30, **CALM))


def test_the_ledger_keeps_its_promises_on_postgres(postgres):
    class There(Promises):
        url = postgres.url()

    run_state_machine_as_test(There, settings=settings(max_examples=scaled(8), stateful_step_count=8, **CALM))

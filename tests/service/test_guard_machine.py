"""The guard of a generator as a machine of the store."""

import json
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from service_settings import bare_guard

from evenhand.errors import DecisionError
from evenhand.service import Database, Ledger
from evenhand.service.generation.guarded_request import GuardedRequest
from evenhand.service.generation.guards import build_guard_machine
from evenhand.service.settings import ServedGuardConfig
from evenhand.service.store.database import read_log, read_state
from support import scaled

CONFIG = {
    "conditions": [{"name": "leader", "keywords": ["leader"]}, {"name": "poor", "keywords": ["poor"]}],
    "specifications": [
        {"condition": "leader", "group": "age", "values": ["child", "adult", "elderly"], "repeated": [6, 5, 7]},
        {"condition": "poor", "group": "gender", "values": ["woman", "man"], "repeated": 4},
    ],
    "simulation": {"retries": 1, "slack": 0},
}
SLACK = 2


def machine(**changes):
    return build_guard_machine(ServedGuardConfig(name="guard", config={**CONFIG, **changes}), Path())


def admit(replica="a", **more):
    return {"op": "admit", "replica": replica, "conditions": ["leader"], "fixed": [], **more}


# ---- operations


def test_a_call_is_under_way_once():
    kept = machine()
    kept.apply(admit(call="x"), 1)
    before = kept.state()
    with pytest.raises(DecisionError) as refused:
        kept.apply(admit(call="x"), 2)
    assert refused.value.code == "repeated"
    assert kept.state() == before


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "complete", "admission": 7, "values": {}},
        {"op": "complete", "call": "unknown", "values": {}},
        {"op": "complete", "values": {}},
        {"op": "complete", "admission": 1},
        {"op": "complete", "admission": 1, "values": {"age": "old"}},
        {"op": "fail"},
        {"op": "admit", "replica": "a"},
        {"op": "admit", "conditions": []},
        {"op": "abandon"},
        {"op": "delete"},
        {},
    ],
)
def test_operations_that_make_no_sense_change_nothing(operation):
    kept = machine()
    kept.apply(admit(), 1)
    before = kept.state()
    with pytest.raises(DecisionError):
        kept.apply(operation, 2)
    assert {**kept.state(), "open": before["open"]} == before


@pytest.mark.parametrize("operation", [{"op": "fail"}, {"op": "complete", "values": {"age": "adult"}}])
def test_what_is_final_leaves_no_retry_open(operation):
    kept = machine()
    statuses = set()
    for number in range(1, 41, 2):
        must = kept.apply(admit(), number)["admission"]["must"]
        if must:
            said = kept.apply({**operation, "admission": number, "final": True}, number + 1)["outcome"]
            assert said["admission"] is None
            statuses.add(said["status"])
        else:
            kept.apply({"op": "complete", "admission": number, "values": {"age": "adult"}}, number + 1)
        assert not kept.open
    # Without an item the next one can show what this one had to; an adult in its place is one too many.
    assert statuses == {"ok" if operation["op"] == "fail" else "violation"}


# ---- the digest


DECIDING = [
    {"specifications": [{**CONFIG["specifications"][0], "repeated": [6, 5, 8]}, CONFIG["specifications"][1]]},
    {"simulation": {"retries": 2, "slack": 0}},
    {"simulation": {"retries": 1, "slack": 1}},
    {"guard": {"mode": "after"}},
    {"conditions": [*CONFIG["conditions"], {"name": "rich", "keywords": ["rich"]}]},
    {"groups": {"skin": ["light", "dark"]}},
]
OTHER = [
    {"conditions": [{"name": "leader", "keywords": ["boss"]}, {"name": "poor", "share": 0.2}]},
    {"simulation": {"retries": 1, "slack": 0, "obeys": 0.7, "in_flight": 4}},
    {"generator": {"kind": "studio"}, "classifier": {"kind": "studio"}},
    {"guard": {"when_unsure": "pass"}},
    {"tolerated": {"labels": 0.2}},
]


def test_the_digest_covers_what_decides_and_nothing_else():
    digest = machine().digest
    assert all(machine(**change).digest != digest for change in DECIDING)
    assert all(machine(**change).digest == digest for change in OTHER)


# ---- the whole: machine, ledger and keepers of several replicas


class Replica:
    """A process that serves, as far as the store sees it."""

    def __init__(self, name, url, mode):
        self.name = name
        self.database = Database(url)
        self.ledger = Ledger(self.database, {"guard": tight(mode)})
        self.guard = bare_guard(self.ledger, name)

    def close(self):
        self.ledger.close()
        self.database.close()


def tight(mode="before"):
    return machine(
        guard={"mode": mode},
        simulation={"retries": 1, "slack": SLACK},
        specifications=[
            {"condition": "leader", "group": "age", "values": ["child", "adult", "elderly"], "repeated": [7, 7, 8]},
            {"condition": "poor", "group": "gender", "values": ["woman", "man"], "repeated": 6},
        ],
    )


CONDITIONS = st.sampled_from([["leader", "poor"], ["leader"], ["poor"], []])
# Left alone, the generator mostly shows the same: so the prompts must be changed, and the deadlines are in danger.
VALUES = st.sampled_from([{"age": "adult", "gender": "man"}] * 4 + [{"age": "elderly", "gender": "woman"}])


class Replicas(RuleBasedStateMachine):
    """Requests come, items are completed in any order, replicas die and start again.

    What is assumed: an item shows what its prompt asks for, and between two occurrences that repair it no deadline has
    to survive more useless items than the slack. Every item that fails is one; they are counted over the whole run.
    """

    MODE = "before"

    def __init__(self):
        super().__init__()
        # In memory where there is such a place: what is tested is not the disk.
        self.folder = tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None)
        self.url = f"sqlite:///{self.folder.name}/store.db"
        self.replicas = []
        self.open = []
        self.started = self.useless = 0
        self.seen = tight(self.MODE)

    @initialize()
    def begin(self):
        for _ in range(2):
            self.start()

    def start(self):
        self.started += 1
        self.replicas.append(Replica(f"replica-{self.started}", self.url, self.MODE))

    @rule(which=st.integers(0, 1), conditions=CONDITIONS)
    @precondition(lambda self: len(self.open) < 6)
    def ask(self, which, conditions):
        replica = self.replicas[which]
        request = GuardedRequest(replica.guard, "a leader")
        self.open.append((replica, request, request.admit(conditions)))

    @rule(data=st.data(), values=VALUES)
    @precondition(lambda self: self.open)
    def come(self, data, values):
        _, request, admission = self.open.pop(data.draw(st.integers(0, len(self.open) - 1)))
        shown = {**values, **{group: asked[0] for group, asked in admission.must.items()}}
        outcome = request.complete(admission, shown)
        if outcome.admission is not None:
            # Made with its prompt left alone, and looked at; it is made again, and now shows what it is asked for.
            assert self.MODE == "after"
            asked = {group: values[0] for group, values in outcome.admission.must.items()}
            outcome = request.complete(outcome.admission, {**shown, **asked})
        assert outcome.status == "ok"

    @rule(data=st.data())
    @precondition(lambda self: self.open and self.useless < SLACK)
    def fail_once(self, data):
        """An item fails for good: useless, and one of as many as the slack."""
        _, request, admission = self.open.pop(data.draw(st.integers(0, len(self.open) - 1)))
        self.useless += 1
        outcome = request.complete(admission, None)
        while outcome.admission is not None:
            outcome = request.complete(outcome.admission, None)

    @rule(which=st.integers(0, 1))
    @precondition(lambda self: self.replicas)
    def die(self, which):
        """Killed, restarted, and given up by the other, if the slack still bears what it had under way."""
        dead = self.replicas[which]
        lost = [one for one in self.open if one[0] is dead]
        if self.useless + len(lost) > SLACK:
            return
        self.useless += len(lost)
        self.open = [one for one in self.open if one[0] is not dead]
        dead.close()
        other = self.replicas[1 - which]
        del self.replicas[which]
        self.start()
        done = other.ledger.submit("guard", {"op": "abandon", "replica": dead.name})
        assert len(done.result().answer["abandoned"]) == len(lost)

    @rule()
    def restart_everything(self):
        """The states come from the store again; what was under way goes on, as after a replica's move."""
        names = [replica.name for replica in self.replicas]
        for replica in self.replicas:
            replica.close()
        fresh = [Replica(name, self.url, self.MODE) for name in names]
        moved = []
        for replica, request, admission in self.open:
            owner = fresh[names.index(replica.name)]
            resumed = GuardedRequest(owner.guard, "a leader")
            resumed.number, resumed.call = request.number, request.call
            moved.append((owner, resumed, admission))
        self.open, self.replicas = moved, fresh

    @invariant()
    def no_deadline_is_missed(self):
        if self.replicas:
            kept = self.stored()
            counts = kept.enforcer.counts
            assert all(one["missed"] == 0 for one in counts.values()), counts
            for name, row in kept.enforcer._rows.items():
                assert row.pending_slots == sum(name in one.slots for one in kept.open.values())

    def stored(self):
        kept = self.seen
        with self.replicas[0].database.reading() as connection:
            kept.load(read_state(connection, "guard"))
        return kept

    def teardown(self):
        if self.replicas:
            kept = tight(self.MODE)
            for entry in list(read_log(self.replicas[0].database, "guard"))[1:]:
                assert kept.apply(entry["body"]["input"], entry["number"]) == entry["body"]["output"]
            assert kept.state() == self.stored().state()
            assert len(kept.open) == len(self.open)
        for replica in self.replicas:
            replica.close()
        self.folder.cleanup()


class ReplicasAfter(Replicas):
    """The same where items are looked at first."""

    MODE = "after"


SIZE = settings(max_examples=scaled(10), stateful_step_count=40, deadline=None)
Replicas.TestCase.settings = ReplicasAfter.TestCase.settings = SIZE
TestReplicas = Replicas.TestCase
TestReplicasAfter = ReplicasAfter.TestCase


def test_every_entry_can_be_derived_from_the_state_before_it_alone():
    # Equal deadlines make values equally urgent, and one of them is drawn.
    even = [{"condition": "leader", "group": "age", "values": ["a", "b", "c", "d"], "repeated": 4}]
    kept = machine(specifications=even)
    drawn = set()
    for number in range(1, 81):
        fresh = machine(specifications=even)
        fresh.load(json.loads(json.dumps(kept.state())))
        # Completed at the end, in pairs, so that several are under way.
        open_ = sorted(kept.open)
        operation = admit() if len(open_) < 4 else {"op": "fail", "admission": open_[0], "final": True}
        said = kept.apply(operation, number)
        assert fresh.apply(operation, number) == said
        drawn.add(str(said.get("admission", {}).get("must")))
    assert len(drawn) >= 4

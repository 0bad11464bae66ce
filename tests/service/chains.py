"""An independent look at a store's logs: every hash, every number, and everything done again from the first entry."""

import copy
import hashlib
import json
from contextlib import contextmanager

from counting import Counting

from evenhand.core.canonical_json import canonical_json, hash_json
from evenhand.service import Ledger
from evenhand.service.store.database import read_heads, read_log, read_state


@contextmanager
def counting_ledger(database, **options):
    """A ledger with one stream, `a`, whose log holds in the end."""
    ledger = Ledger(database, {"a": Counting()}, **options)
    yield ledger
    ledger.close()
    verified(database)
    database.close()


def verified(database):
    """The logs of a store of counting machines, by stream, once all of them hold."""
    with database.reading() as connection:
        ends = read_heads(connection)
        states = {stream: read_state(connection, stream) for stream in ends}
    logs = {stream: list(read_log(database, stream)) for stream in ends}
    for stream, entries in logs.items():
        chained(entries)
        assert (entries[-1]["number"], entries[-1]["hash"]) == ends[stream]
        assert again(entries).state() == states[stream]
    return logs


def chained(entries):
    """Every entry follows the one before it, and has the hash of what it says."""
    for before, entry in zip([None, *entries], entries, strict=False):
        if before is not None:
            assert entry["number"] == before["number"] + 1
            assert entry["previous"] == before["hash"]
        elif entry["number"] == 0:
            assert entry["previous"] == 64 * "0"
        body = json.dumps(entry["body"], sort_keys=True, separators=(",", ":"))
        said = [entry["previous"], entry["stream"], entry["number"], entry["at"], body]
        assert entry["hash"] == hashlib.sha256(json.dumps(said, separators=(",", ":")).encode()).hexdigest()


def rehashed(entries, start=0):
    """The entries with a chain that is right again from one of them on, as a forger would make it."""
    found = copy.deepcopy(entries)
    for position in range(start, len(found)):
        one = found[position]
        one["previous"] = found[position - 1]["hash"] if position else "0" * 64
        one["hash"] = hash_json([one["previous"], one["stream"], one["number"], one["at"], canonical_json(one["body"])])
    return found


def again(entries):
    """The machine after all of these entries; each says what comes out, and no id occurs twice."""
    machine = Counting()
    ids = set()
    for place, entry in enumerate(entries):
        body = entry["body"]
        if "state" in body:
            if place == 0:
                machine.load(body["state"])
            assert machine.state() == body["state"]
            continue
        assert body["before"] == machine.counts()
        assert body["output"] == machine.apply(body["input"], entry["number"])
        if body["id"] is not None:
            assert body["id"] not in ids
            ids.add(body["id"])
    return machine

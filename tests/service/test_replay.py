"""Logs that are replayed and exported."""

import copy
import json

import pytest
from chains import rehashed
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from worked_streams import PARITY, STREAMS, open_worked, work

from evenhand.core.canonical_json import canonical_json
from evenhand.errors import DataError, OptionError
from evenhand.service import Database
from evenhand.service.replay.replay import ServiceReplay, parse_line, read_lines, replay_log
from evenhand.service.store.database import read_log
from evenhand.shields import read_plan, save_policy, synthesize
from support import scaled


@pytest.fixture(scope="module")
def logs(tmp_path_factory):
    """By stream, the entries as they are exported."""
    database = Database(f"sqlite:///{tmp_path_factory.mktemp('store') / 'evenhand.db'}")
    ledger = open_worked(database)
    work(ledger)
    ledger.close()
    # Through text, as an export goes.
    found = {name: [parse_line(json.dumps(one)) for one in read_log(database, name)] for name in STREAMS}
    database.close()
    return found


@pytest.mark.parametrize("stream", STREAMS)
def test_what_the_service_wrote_agrees(logs, stream):
    done = replay_log(logs[stream])
    assert done.all_agree, done.summary()
    assert (done.entries, done.last) == (len(logs[stream]), len(logs[stream]) - 1)
    assert done.head == logs[stream][-1]["hash"]
    assert sum(done.operations.values()) == done.last > 10
    assert f"all {done.entries} entries agree" in done.summary()
    assert ServiceReplay.from_json(done.to_json()) == done


def leaves(value, path=()):
    """The paths to everything in a JSON value that holds nothing else."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    found = [leaf for key, part in inner for leaf in leaves(part, (*path, key))]
    return found or [path]


def put(value, path, new):
    for key in path[:-1]:
        value = value[key]
    value[path[-1]] = new


def get(value, path):
    for key in path:
        value = value[key]
    return value


OTHERS = st.one_of(
    st.none(), st.booleans(), st.integers(-5, 50), st.floats(0, 2), st.text(max_size=5), st.just({}), st.just([])
)


def changed(value, drawn):
    """Another value: a number one more or less, a text one letter longer, or anything else."""
    near, step = drawn.draw(st.booleans()), drawn.draw(st.sampled_from([1, -1, 0]))
    other = copy.deepcopy(drawn.draw(OTHERS))
    if near and isinstance(value, bool):
        return not value
    if near and isinstance(value, int | float):
        return value + step if step else float(value)
    return value + "x" if near and isinstance(value, str) else other


def found(entries, head=None):
    """Whether replaying does not agree."""
    try:
        done = replay_log(entries, head=head)
    except DataError:
        return True
    if done.difference is None:
        return False
    assert done.difference.what
    assert f"CAUTION: {done.machine} {done.stream!r}: the log does not agree" in done.summary()
    return True


@given(drawn=st.data(), stream=st.sampled_from(STREAMS))
@settings(max_examples=scaled(100), deadline=None)
def test_entries_left_out_doubled_swapped_and_put_in_are_found(logs, drawn, stream):
    entries = copy.deepcopy(logs[stream])
    place = drawn.draw(st.integers(0, len(entries) - 2))
    other = drawn.draw(st.integers(place + 1, len(entries) - 1))
    match drawn.draw(st.sampled_from(["delete", "double", "swap", "insert", "foreign"])):
        case "delete":
            del entries[place]
        case "double":
            entries.insert(drawn.draw(st.integers(0, len(entries))), entries[place])
        case "swap":
            entries[place], entries[other] = entries[other], entries[place]
        case "insert":
            made = copy.deepcopy(entries[place])
            made["number"] += 1
            entries.insert(place + 1, rehashed([entries[place], made], 1)[1])
        case "foreign":
            entries.insert(other, logs["advice" if stream != "advice" else "loans"][place % 10 + 1])
    assert found(entries)


@given(drawn=st.data(), stream=st.sampled_from(STREAMS))
@settings(max_examples=scaled(120), deadline=None)
def test_a_changed_decision_is_found_even_if_all_hashes_are_made_anew(logs, drawn, stream):
    entries = copy.deepcopy(logs[stream])
    place = drawn.draw(st.integers(1, len(entries) - 1))
    body = entries[place]["body"]
    part = drawn.draw(st.sampled_from(["output", "before", "digest"]))
    path = (part, *drawn.draw(st.sampled_from(leaves(body[part]))))
    new = changed(get(body, path), drawn)
    assume(canonical_json(new) != canonical_json(get(body, path)))
    put(body, path, new)
    done = replay_log(rehashed(entries, place))
    assert done.difference.entry == place


@given(drawn=st.data(), stream=st.sampled_from(STREAMS))
@settings(max_examples=scaled(60), deadline=None)
def test_a_log_that_is_cut_off_is_found_by_a_known_head(logs, drawn, stream):
    entries = logs[stream]
    known = drawn.draw(st.integers(1, len(entries) - 1))
    kept = drawn.draw(st.integers(1, known))
    assert replay_log(entries, head=entries[known]["hash"]).all_agree
    assert not found(entries[:kept])
    assert found(entries[:kept], head=entries[known]["hash"])
    # So is one that was derived anew from other inputs: everything in it is consistent, but it never had this head.
    other = copy.deepcopy(entries)
    other[known]["at"] += 1
    assert not found(rehashed(other, known))
    assert found(rehashed(other, known), head=entries[known]["hash"])


@given(drawn=st.data(), stream=st.sampled_from(STREAMS))
@settings(max_examples=scaled(100), deadline=None)
def test_any_byte_changed_in_the_file_is_found_unless_it_says_the_same(logs, drawn, stream):
    lines = [(json.dumps(one) + "\n").encode() for one in logs[stream]]
    place = drawn.draw(st.integers(0, len(lines) - 1))
    line = bytearray(lines[place])
    at = drawn.draw(st.integers(0, len(line) - 2))
    line[at] = drawn.draw(st.integers(0, 255).filter(lambda byte: byte not in (line[at], 10)))
    lines[place] = bytes(line)
    same = parse_line(bytes(line)) == logs[stream][place]
    assert found([parse_line(one) for one in lines]) != same


def test_the_difference_says_what_the_log_says_and_what_comes_out(logs):
    entries = copy.deepcopy(logs["loans"])
    decision = entries[7]["body"]["output"]["decision"]
    entries[7]["body"]["output"]["decision"] = 1 - decision
    done = replay_log(entries)
    assert done.difference.entry == 7
    assert done.difference.what == "the entry was changed: its hash does not match its content"
    done = replay_log(rehashed(entries, 7))
    assert (done.difference.logged, done.difference.found) == (f"decision: {1 - decision}", f"decision: {decision}")
    entries[7]["body"]["output"] |= {"intervened": None}
    logged = replay_log(rehashed(entries, 7)).difference.logged
    assert json.loads(logged) == {"decision": 1 - decision, "intervened": None}


def test_an_id_that_decides_twice_is_found(logs):
    entries = copy.deepcopy(logs["loans"])
    entries[9]["body"]["id"] = entries[2]["body"]["id"]
    assert "same id" in replay_log(rehashed(entries, 9)).difference.what


def test_an_operation_that_would_have_been_refused_is_found(logs):
    for given_ in ({"op": "decide", "id": "x", "group": "nobody", "recommendation": 1}, {"op": "decide"}, {"op": "?"}):
        entries = copy.deepcopy(logs["loans"])
        entries[5]["body"]["input"] = given_
        assert replay_log(rehashed(entries, 5)).difference.what == "the operation is invalid"


def test_another_plan_under_the_same_digest_is_found(logs):
    for stream, path, new in (
        ("loans", ("plan", "kappa"), "0.3"),
        ("pictures", ("specifications", 0, "repeated"), 4),
        ("pictures", ("simulation",), {"retries": 5}),
        ("hiring", ("groups",), ["men", "women"]),
    ):
        entries = copy.deepcopy(logs[stream])
        configuration = entries[0]["body"]["configuration"]
        put(configuration, path, new)
        done = replay_log(rehashed(entries))
        assert done.difference.entry == 0
        assert done.difference.what == "the digest of the configuration differs"


@pytest.mark.parametrize("entries", [[], [b"x\n"], [[1]], [parse_line("3")]])
def test_what_is_no_log_is_refused(entries):
    with pytest.raises(DataError):
        replay_log(entries)


def test_a_shield_from_a_file_needs_its_policy(tmp_path):
    policy = synthesize(read_plan(PARITY))
    save_policy(policy, tmp_path / "loans.shield")
    served = {"shields": [{"name": "loans", "policy": str(tmp_path / "loans.shield")}]}
    database = Database(f"sqlite:///{tmp_path / 'evenhand.db'}")
    ledger = open_worked(database, served)
    ledger.submit("loans", {"op": "decide", "id": "1", "group": "men", "recommendation": 1}).result()
    ledger.close()
    entries = list(read_log(database, "loans"))
    database.close()
    other = synthesize(read_plan({**PARITY, "kappa": "0.3"}))
    for given_, hint in (([], "pass the file"), ([other], "the passed files have other policies")):
        with pytest.raises(OptionError, match="the log needs the policy") as refused:
            replay_log(entries, policies=given_)
        assert refused.value.hint == hint
    assert replay_log(entries, policies=[other, policy]).all_agree


def test_lines_are_read_one_by_one(tmp_path, logs):
    path = tmp_path / "log.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in logs["loans"]), "utf-8")
    assert list(read_lines(path)) == logs["loans"]
    assert replay_log(read_lines(path)).all_agree
    path.write_text(path.read_text("utf-8")[:-40], "utf-8")
    done = replay_log(read_lines(path))
    assert (done.difference.entry, done.difference.what) == (len(logs["loans"]) - 1, "this line is not a JSON object")
    with pytest.raises(DataError, match="cannot be read"):
        list(read_lines(tmp_path / "nothing"))


@pytest.mark.parametrize("stream", ["loans", "hiring", "pictures"])
def test_a_log_can_be_begun_at_a_checkpoint(stream, tmp_path):
    database = Database(f"sqlite:///{tmp_path / 'evenhand.db'}")
    ledger = open_worked(database)
    work(ledger)
    place = ledger.checkpoint(stream).result().number
    if stream == "pictures":
        asked = {"op": "admit", "replica": "alive", "conditions": ["nurse"], "fixed": []}
        ledger.submit(stream, asked).result()
    else:
        ledger.submit(stream, {"op": "decide", "id": "more", "group": "men", "recommendation": 1}).result()
    ledger.close()
    entries = list(read_log(database, stream))
    database.close()
    assert replay_log(entries).operations["checkpoint"] == 1
    late = replay_log(entries[place:])
    assert late.all_agree, late.summary()
    assert (late.first, late.entries) == (place, 2)
    assert f"all 2 entries from entry {place} on agree" in late.summary()
    # A checkpoint is not a way in for another state.
    state = entries[place]["body"]["state"]
    if stream == "pictures":
        state["rows"]["gender"]["counts"]["missed"] += 1
    else:
        state["shield"]["interventions"] += 1
    assert replay_log(rehashed(entries, place)).difference.entry == place
    if stream != "pictures":  # The state of a shield has a checksum of its own.
        entries[place]["previous"] = "0" * 64
        assert replay_log(rehashed(entries[place:])).difference.entry == place
    with pytest.raises(DataError):
        replay_log([{}])


@pytest.fixture
def worked(client):
    for number in range(30):
        body = {"id": str(number), "group": ["women", "men"][number % 2], "recommendation": number % 3 % 2}
        assert client.post("/v1/shields/loans/decisions", json=body).status_code == 200
    for _ in range(2):
        client.post("/v1/images/generations", json={"prompt": "a leader"})
    return client


def entries(answer):
    assert answer.headers["content-type"].startswith("application/x-ndjson")
    return [parse_line(line) for line in answer.text.splitlines()]


def test_what_is_exported_replays_up_to_the_head_that_is_said(worked):
    for head in worked.get("/v1/streams").json()["streams"]:
        answer = worked.get(f"/v1/streams/{head['name']}/log")
        assert answer.headers["x-evenhand-head"] == f"{head['number']} {head['hash']}"
        done = replay_log(entries(answer), head=head["hash"])
        assert done.all_agree, done.summary()
        assert (done.last, done.head) == (head["number"], head["hash"])


def test_parts_are_those_of_the_whole(worked, monkeypatch):
    monkeypatch.setattr("evenhand.service.api.routes.streams.LINES_PER_PIECE", 7)
    whole = entries(worked.get("/v1/streams/loans/log"))
    assert len(whole) == 31
    assert whole == entries(worked.get("/v1/streams/loans/log", params={"limit": 1000}))
    parts, after = [], -1
    while part := entries(worked.get("/v1/streams/loans/log", params={"after": after, "limit": 9})):
        assert len(part) <= 9
        parts += part
        after = part[-1]["number"]
    assert parts == whole


def test_what_cannot_be_exported_is_said(client):
    answer = client.get("/v1/streams/nobody/log")
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "stream")
    for wrong in ({"after": -2}, {"limit": 0}, {"after": "x"}):
        assert client.get("/v1/streams/loans/log", params=wrong).status_code == 422
    assert json.loads(client.get("/v1/streams/loans/log").text)["number"] == 0

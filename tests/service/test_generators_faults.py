"""Generators, judges, classifiers and stores that fail, and callers who leave: what is said, and what stays open."""

import json
import socket
import threading

import pytest

httpx = pytest.importorskip("httpx", reason="needs httpx")

from in_thread import replaced, running, until
from service_settings import guard_ages, keyless

from evenhand.errors import ModelError, StoreError
from evenhand.genai.backends.studio import Studio
from genai_upstream import Upstream

BIAS = {"age": {"child": 0.0, "adult": 1.0, "elderly": 0.0}}
STUDIO = {"kind": "studio", "bias": BIAS}


def described(folder, generator, *, limits=None, guard=None, **changes):
    guarded = {"name": "guard", "config": guard_ages(generator, **changes), **(guard or {})}
    return keyless(folder, limits=limits or {}, guards=[guarded])


@pytest.fixture
def upstream():
    with Upstream(Studio(BIAS)) as service:
        yield service


def remote(upstream):
    return {"kind": "images", "url": upstream.url, "model": "m"}


def ask(service, prompt="a leader", **more):
    return httpx.post(f"{service.url}/v1/images/generations", json={"prompt": prompt, **more}, timeout=30)


def guarded(answer):
    return answer.status_code, answer.headers["x-evenhand-guarded"], answer.headers["x-evenhand-status"]


class Failing:
    """A part of a guard that fails, and tells where."""

    def __init__(self, times=10**9):
        self.times = times

    def _fail(self, *_):
        self.times -= 1
        if self.times < 0:
            return {"age": "adult"}
        raise ModelError("http://10.0.0.7:9000/secret does not answer")

    conditions = fixed = classify = generate = _fail


# ---- parts that fail


@pytest.mark.parametrize(
    ("unsure", "said"),
    [
        ("refuse", {"judge": (503, "true", "refused"), "classifier": (502, "true", "refused")}),
        ("pass", {"judge": (200, "false", "unguarded"), "classifier": (200, "false", "unguarded")}),
    ],
)
@pytest.mark.parametrize("part", ["judge", "classifier"])
def test_a_part_that_fails_is_told_and_its_words_are_in_the_log_alone(tmp_path, unsure, said, part):
    made = described(tmp_path, STUDIO, guard={"log_prompts": False})
    made["guards"][0]["config"]["guard"] = {"when_unsure": unsure}
    with running(made) as service:
        with replaced(service.guard("guard").pipeline, part, Failing()):
            answer = ask(service, "a leader from Utopia")
        assert guarded(answer) == said[part]
        assert "10.0.0.7" not in answer.text + str(answer.headers)
        if answer.status_code != 200:
            assert answer.json()["error"]["code"] == f"{part}_failed"
        else:
            assert answer.json()["data"][0]["evenhand"]["reason"] == f"the {part} failed"
        until(lambda: service.inputs("guard", "record"), "the log tells nothing")
        note = service.inputs("guard", "record")[-1]["note"]
        assert "10.0.0.7" in note["reason"]
        assert "Utopia" not in json.dumps(service.log("guard"))
        assert not service.check_replay("guard").open
        assert answer.headers["x-evenhand-entry"]
        if answer.status_code == 200:
            until(lambda: service.pictures("guard"), "the picture is not kept")
            assert service.pictures("guard") == [int(answer.headers["x-evenhand-entry"])]


def test_prompts_are_in_the_log_only_if_it_may_have_them(tmp_path):
    for log_prompts in (False, True):
        folder = tmp_path / str(log_prompts)
        folder.mkdir()
        made = described(folder, STUDIO, guard={"log_prompts": log_prompts})
        with running(made) as service:
            for _ in range(4):
                ask(service, "a leader from Utopia")
            text = json.dumps(service.log("guard"))
            assert ("Utopia" in text) is log_prompts
            notes = [one["note"] for one in service.inputs("guard", "complete")]
            assert any(note["clause"].startswith("(showing: age") for note in notes)
            if log_prompts:
                assert any(note["sent"].startswith("a leader from Utopia (showing") for note in notes)
            else:
                assert len({note["prompt_sha256"] for note in notes}) == 1


def test_pictures_are_kept_only_if_they_may_be(tmp_path):
    made = described(tmp_path, STUDIO, guard={"keep_pictures": False})
    with running(made) as service:
        ask(service)
        service.context.ledger.submit_work(lambda _connection: None).result()
        assert not service.pictures("guard")


def test_pictures_that_wait_are_kept_when_the_service_stops(tmp_path):
    made = described(tmp_path, STUDIO)
    with running(made) as service:
        numbers = [int(ask(service).headers["x-evenhand-entry"]) for _ in range(5)]
    with running(made) as again:
        assert again.pictures("guard") == numbers
        pictures = again.context.pictures
        assert pictures.find_delivered("guard", numbers[0]).data.startswith(b"\x89PNG")
        assert pictures.find_delivered("guard", 10**6) is None


# ---- too much, too late


def test_more_than_can_wait_is_refused_with_a_time_to_ask_again(upstream, tmp_path):
    with running(described(tmp_path, remote(upstream), guard={"at_once": 1, "waiting": 1})) as service:
        upstream.hang()
        answers = []
        threads = [threading.Thread(target=lambda: answers.append(ask(service))) for _ in range(2)]
        for thread in threads:
            thread.start()
        until(lambda: service.guard("guard").limiter.work_count == 2, "nobody waits")
        over = ask(service)
        assert over.status_code == 429
        assert over.headers["retry-after"]
        assert over.json()["error"]["code"] == "busy"
        assert ask(service, n=5).status_code == 429
        upstream.release()
        for thread in threads:
            thread.join()
        assert [one.status_code for one in answers] == [200, 200]
        assert len(upstream.asked("/images/generations")) == 2
        assert service.guard("guard").limiter.work_count == 0


def test_an_item_that_comes_too_late_does_not_count_as_shown(upstream, tmp_path):
    with running(described(tmp_path, remote(upstream), limits={"upstream_seconds": 0.3})) as service:
        upstream.hang()
        answer = ask(service)
        assert guarded(answer) == (504, "true", "refused")
        assert answer.json()["error"]["code"] == "timeout"
        upstream.release()
        until(lambda: not service.state("guard")["open"], "it stays open")
        (done,) = service.inputs("guard", "fail")
        assert done["withdrawn"]
        assert not service.inputs("guard", "complete")
        until(lambda: service.guard("guard").limiter.work_count == 0, "the limiter is not free again")
        service.check_replay("guard")


def test_a_caller_who_hangs_up_leaves_nothing_open(upstream, tmp_path):
    with running(described(tmp_path, remote(upstream))) as service:
        upstream.hang()
        host, port = service.url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port))) as caller:
            body = json.dumps({"prompt": "a leader"}).encode()
            caller.sendall(
                b"POST /v1/images/generations HTTP/1.1\r\nHost: localhost\r\n"
                b"Content-Type: application/json\r\n"
                b"Content-Length: %d\r\n\r\n%s" % (len(body), body)
            )
            until(lambda: upstream.received, "nothing was asked")
        upstream.release()
        until(lambda: len(service.inputs("guard")) == 2, "it is not complete")
        assert not service.check_replay("guard").open
        until(lambda: service.guard("guard").limiter.work_count == 0, "the limiter is not free again")
        assert ask(service).status_code == 200


def test_a_service_that_stops_gives_up_what_does_not_end(upstream, tmp_path, monkeypatch):
    monkeypatch.setattr("evenhand.service.api.context.GRACE_SECONDS", 0.2)
    made = described(tmp_path, remote(upstream), limits={"upstream_seconds": 0.3})
    with running(made) as service:
        upstream.hang()
        assert ask(service).status_code == 504
        assert service.state("guard")["open"]
    upstream.release()
    with running(made) as again:
        assert not again.state("guard")["open"]
        assert again.log("guard")[-2]["body"]["input"]["op"] == "abandon"
        again.check_replay("guard")


# ---- a store that fails


class Broken:
    """A ledger whose store fails for some operations."""

    def __init__(self, ledger, *ops):
        self.ledger, self.ops, self.tracing = ledger, ops, ledger.tracing

    def submit(self, stream, operation, **more):
        if operation["op"] in self.ops:
            raise StoreError("the disk is full")
        return self.ledger.submit(stream, operation, **more)


@pytest.mark.parametrize("ops", [("admit",), ("complete", "fail"), ("admit", "complete", "fail", "record", "abandon")])
@pytest.mark.parametrize("down", ["refuse", "pass"])
def test_a_store_that_fails_leaves_nothing_open_and_nothing_untold(tmp_path, ops, down, monkeypatch):
    monkeypatch.setattr("evenhand.service.store.retry_queue.RETRY_SECONDS", 0.02)
    made = described(tmp_path, STUDIO, guard={"when_down": down})
    with running(made) as service:
        guard = service.guard("guard")
        broken = Broken(guard.ledger, *ops)
        with replaced(guard, "ledger", broken), replaced(guard.retry_queue, "ledger", broken):
            answer = ask(service)
            if down == "refuse":
                assert answer.status_code == 503
                assert answer.json()["error"]["message"] == "the disk is full"
            else:
                assert guarded(answer) == (200, "false", "unguarded")
                assert answer.json()["data"][0]["evenhand"]["reason"] == "the store failed"
        until(lambda: guard.retry_queue.waiting == 0, "leftovers stay")
        until(lambda: not service.state("guard")["open"], "it stays open")
        if down == "pass":
            until(lambda: service.inputs("guard", "record"), "what passed is not in the log")
            assert service.inputs("guard", "record")[-1]["note"]["status"] == "unguarded"
        assert ask(service).status_code == 200
        service.check_replay("guard")

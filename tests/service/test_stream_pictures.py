"""Pictures sent one by one: each as soon as it is decided, and none that is not."""

from __future__ import annotations

import base64
import hashlib
import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest

httpx = pytest.importorskip("httpx", reason="needs httpx")
pytest.importorskip("fastapi", reason="needs the extra serve")

from in_thread import Running, running, until

from evenhand.genai import Item
from evenhand.genai.backends.studio import Studio, StudioPixels
from genai_upstream import Upstream

ADULT = {"age": {"adult": 1}}
KIND = "image_generation.completed"


class Waiting(Upstream):
    """Answers prompts that were changed only when it is told to."""

    def __init__(self, studio: Studio) -> None:
        super().__init__(studio)
        self.go = threading.Event()

    def _answer(self, path: str, headers: dict[str, str], asked: dict[str, Any]) -> tuple[int, dict[str, str], bytes]:
        if "showing" in asked.get("prompt", ""):
            with self.lock:
                self.received.append((path, headers, asked))
            self.go.wait(30)
        return super()._answer(path, headers, asked)


@pytest.fixture
def upstream() -> Iterator[Waiting]:
    with Waiting(Studio(ADULT, seed=2)) as service:
        yield service
        service.go.set()


@pytest.fixture
def service(tmp_path: Any, upstream: Waiting) -> Iterator[Running]:
    config = {
        "conditions": [{"name": "leader", "keywords": ["leader"]}],
        "specifications": [{"condition": "leader", "group": "age", "values": ["adult", "child"], "repeated": 3}],
        "generator": {"kind": "images", "url": upstream.url, "model": "m"},
        "classifier": {"kind": "studio"},
        "simulation": {"retries": 0},
    }
    described = {
        "service": {"database": f"sqlite:///{tmp_path / 'evenhand.db'}", "keys": False},
        "guards": [{"name": "guard", "config": config}],
    }
    with running(described) as here:
        yield here


def events(lines: Iterator[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    name = ""
    for line in lines:
        if line.startswith("event: "):
            name = line.removeprefix("event: ")
        elif line.startswith("data: "):
            yield name, json.loads(line.removeprefix("data: "))


def ask(service: Running, n: int, **more: Any) -> Any:
    body = {"prompt": "a leader", "n": n, "stream": True}
    return httpx.stream("POST", f"{service.url}/v1/images/generations", json=body, timeout=30, **more)


def shown(event: dict[str, Any]) -> str | None:
    return StudioPixels().classify(Item("image", base64.b64decode(event["b64_json"]), "image/png"))["age"]


def test_each_picture_is_sent_as_soon_as_it_is_decided_and_none_before(service: Running, upstream: Waiting) -> None:
    with ask(service, 4) as answer:
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert answer.headers["x-evenhand-guarded"] == "true"
        told = events(answer.iter_lines())
        first = [next(told), next(told)]
        # All four were made at once; the third needs another, which is under way: nothing of it is decided.
        until(lambda: len(upstream.received) == 2, "the child is not asked for")
        assert len(service.inputs("guard", "complete")) == 2
        upstream.go.set()
        rest = list(told)
    found = [*first, *rest]
    assert [name for name, _ in found] == [KIND] * 4
    assert [shown(event) for _, event in found] == ["adult", "adult", "child", "adult"]
    assert found[0][1]["type"] == KIND
    assert found[0][1]["output_format"] == "png"
    until(lambda: not service.guard("guard").limiter.work_count, "it is under way")
    done = service.inputs("guard", "complete")
    completed = {one["admission"]: one["note"]["item"]["sha256"] for one in done}
    for _, event in found:
        number = event["evenhand"]["entry"]
        assert completed[number] == hashlib.sha256(base64.b64decode(event["b64_json"])).hexdigest()
    service.check_replay("guard")


def test_a_caller_who_leaves_in_the_middle_leaves_nothing_open(service: Running, upstream: Waiting) -> None:
    with ask(service, 4) as answer:
        told = events(answer.iter_lines())
        next(told)
        until(lambda: len(upstream.received) == 2, "the child is not asked for")
    upstream.go.set()
    until(lambda: not service.guard("guard").limiter.work_count, "it is under way")
    assert not service.check_replay("guard").open
    until(lambda: any(one.get("withdrawn") for one in service.inputs("guard")), "nothing was withdrawn")


def test_what_is_missing_is_told_at_the_end_and_nothing_at_all_is_an_ordinary_error(
    service: Running, upstream: Waiting
) -> None:
    upstream.go.set()
    upstream.studio = Studio(ADULT, obeys=0.0)
    with ask(service, 1) as answer:
        assert len(list(events(answer.iter_lines()))) == 1
    upstream.failures = [404, 404]
    with ask(service, 2) as answer:
        name, last = list(events(answer.iter_lines()))[-1]
        assert (name, last["missing"], last["error"]["code"]) == ("error", 1, "generator_failed")
    upstream.always = 404
    with ask(service, 2) as answer:
        assert answer.status_code == 502
        answer.read()
        assert answer.json()["error"]["code"] == "generator_failed"


def test_the_published_client_reads_the_stream(service: Running, upstream: Waiting) -> None:
    openai = pytest.importorskip("openai", reason="needs openai")
    upstream.go.set()
    with openai.OpenAI(base_url=f"{service.url}/v1", api_key="unused", max_retries=0) as client:
        found = list(client.images.generate(model="guard", prompt="a leader", n=3, stream=True))
    assert [event.type for event in found] == [KIND] * 3
    assert all(base64.b64decode(event.b64_json).startswith(b"\x89PNG") for event in found)

"""A small service that speaks like OpenAI's and draws with the studio: a double for tests of whatever asks one.

Pictures are the studio's, texts tell what such a picture would show, questions about pictures are answered from their
pixels, and questions about prompts by looking for the words they name. It can be told to misbehave. As a process::

    python tests/genai_upstream.py --port 8080 --obeys 0.8
"""

import argparse
import base64
import json
import re
import threading
from collections.abc import Callable, Sequence
from typing import Any, Literal

from evenhand.genai import Item
from evenhand.genai.backends.generator import WordMatcher
from evenhand.genai.backends.studio import GROUPS, Studio, StudioPixels
from evenhand.testing import HttpAnswer, LocalServer

Shape = Literal["b64_json", "url", "data-url"]

UNSURE = "cannot tell"
MODELS = ("studio-pictures", "studio-texts", "studio-eyes")


class Upstream(LocalServer):
    """The service, on 127.0.0.1; a context manager that starts and stops it.

    What it does can be changed at any time:

    Attributes:
        studio: what draws; one with ``obeys=0`` ignores instructions.
        shape: how pictures are answered.
        key: the bearer key that is wanted; None: none is.
        failures: statuses of the next answers, first to last; what is asked then is not done.
        always: the status of all answers; None: they are good.
        error: the whole body of failures; None: it names the status.
        headers: more headers of failures, such as Retry-After or Location.
        lies: whether questions about items are answered with another value.
        says: replaces what the model says to questions: a text, or a function of the question.
        body: replaces the whole body of good answers.
        received: every request to be answered: path, headers in lower case, and body.
    """

    def __init__(
        self,
        studio: Studio | None = None,
        *,
        shape: Shape = "b64_json",
        key: str | None = None,
        port: int = 0,
    ) -> None:
        super().__init__(port)
        self.studio = studio or Studio()
        self.shape: Shape = shape
        self.key = key
        self.failures: list[int] = []
        self.always: int | None = None
        self.error: dict[str, Any] | None = None
        self.headers: dict[str, str] = {}
        self.lies = False
        self.says: str | Callable[[str], str] | None = None
        self.body: bytes | None = None
        self.received: list[tuple[str, dict[str, str], dict[str, Any]]] = []
        self._going = threading.Event()
        self._going.set()
        self._files: dict[str, Item] = {}

    def hang(self) -> None:
        """Answer nothing until ``release``."""
        self._going.clear()

    def release(self) -> None:
        """Answer again, also what was asked meanwhile."""
        self._going.set()

    def asked(self, path: str) -> list[dict[str, Any]]:
        """The bodies of the requests to a path, such as ``/images/generations``."""
        return [body for where, _, body in self.received if where == f"/v1{path}"]

    def __exit__(self, *error: object) -> None:
        self.release()
        super().__exit__(*error)

    def answer(self, path: str, headers: dict[str, str], body: bytes) -> HttpAnswer:
        """Status, headers and body of an answer."""
        asked = (
            {} if not body else json.loads(body) if headers["content-type"] == "application/json" else {"body": body}
        )
        return HttpAnswer(*self._answer(path, headers, asked))

    def _answer(self, path: str, headers: dict[str, str], asked: dict[str, Any]) -> tuple[int, dict[str, str], bytes]:
        with self.lock:
            self.received.append((path, headers, asked))
            failure = self.failures.pop(0) if self.failures else self.always
        self._going.wait()
        if failure is not None:
            said = _error(f"told to fail with {failure}")
            return failure, self.headers, said if self.error is None else json.dumps({"error": self.error}).encode()
        if self.key is not None and headers.get("authorization") != f"Bearer {self.key}":
            return 401, {}, _error(f"wrong key: {headers.get('authorization')}")
        if self.body is not None:
            return 200, {}, self.body
        if path in self._files:
            item = self._files[path]
            return 200, {"Content-Type": item.media_type}, item.data
        if path == "/v1/models":
            return _json({"object": "list", "data": [{"id": name, "object": "model"} for name in MODELS]})
        if path == "/v1/embeddings":
            data = [{"object": "embedding", "index": 0, "embedding": [0.5]}]
            usage = {"prompt_tokens": 1, "total_tokens": 1}
            return _json({"object": "list", "model": asked["model"], "data": data, "usage": usage})
        if path == "/v1/moderations":
            return _json({"id": "m", "model": "moderation", "results": [{"flagged": True}]})
        if path == "/v1/images/generations":
            return _json({"created": 0, "data": [self._picture(asked["prompt"]) for _ in range(asked.get("n") or 1)]})
        if path == "/v1/images/edits":
            return _json({"created": 0, "data": [self._picture("an edit")]})
        if path == "/v1/chat/completions":
            said = self._said(asked["messages"])
            return _stream(said) if asked.get("stream") else _json(_completion(said))
        return super().answer(path, headers, b"")

    def _picture(self, prompt: str) -> dict[str, str]:
        item = self._drawn(prompt)
        packed = base64.b64encode(item.data).decode()
        if self.shape == "b64_json":
            return {"b64_json": packed, "revised_prompt": prompt}
        if self.shape == "data-url":
            return {"url": f"data:{item.media_type};base64,{packed}"}
        with self.lock:
            path = f"/generated/{len(self._files)}.png"
            self._files[path] = item
        return {"url": self.root + path}

    def _drawn(self, prompt: str) -> Item:
        with self.lock:
            return self.studio.generate(prompt)

    def _said(self, messages: Sequence[dict[str, Any]]) -> str:
        content = messages[-1]["content"]
        parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
        question = "".join(part["text"] for part in parts if part["type"] == "text")
        pictures = [part["image_url"]["url"] for part in parts if part["type"] == "image_url"]
        answers = re.findall(r"^- (.*)$", question, re.MULTILINE)
        if not answers:
            return _told(self._drawn(question))
        if self.says is not None:
            return self.says if isinstance(self.says, str) else self.says(question)
        if pictures:
            return self._lied(_seen(pictures[0], answers), answers)
        # What is asked about stands on a line of its own, as JSON.
        line = next(line for line in question.splitlines() if line.startswith('"'))
        material = json.loads(line)
        if answers == ["yes", "no"]:
            return "yes" if _asks(question.partition(line)[2], material) else "no"
        named = [answer for answer in answers if answer != UNSURE and WordMatcher([answer]).is_in(material)]
        return self._lied(named[0] if len(named) == 1 else UNSURE, answers)

    def _lied(self, answer: str, answers: Sequence[str]) -> str:
        return next(other for other in answers if other != answer) if self.lies else answer


def _seen(address: str, answers: Sequence[str]) -> str:
    kind, _, packed = address.removeprefix("data:").partition(";base64,")
    shown = StudioPixels().classify(Item("image", base64.b64decode(packed), kind))
    group = max(GROUPS, key=lambda one: len(set(GROUPS[one]) & set(answers)))
    value = shown[group]
    return value if value is not None and value in answers else UNSURE


def _asks(question: str, prompt: str) -> bool:
    """Whether a prompt holds what a question quotes, or one of the values that it lists."""
    asked = question.partition("\nAnswer")[0]
    words = re.findall(r"'([^']+)'", asked) or asked.rpartition("one of:")[2].strip(" ?").split(", ")
    return WordMatcher(words).is_in(prompt)


def _told(item: Item) -> str:
    shown = StudioPixels().classify(item)
    if not all(shown.values()):
        return "There is nobody."
    return f"There is somebody: {', '.join(value for value in shown.values() if value)}."


def _completion(said: str) -> dict[str, Any]:
    message = {"role": "assistant", "content": said}
    return {
        "id": "chatcmpl-0",
        "object": "chat.completion",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
    }


def _stream(said: str) -> tuple[int, dict[str, str], bytes]:
    deltas: list[tuple[dict[str, str], str | None]] = [({"role": "assistant", "content": ""}, None)]
    deltas += [({"content": word}, None) for word in re.findall(r"\S+\s*", said)]
    deltas.append(({}, "stop"))
    events = [
        {"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}
        for delta, finish in deltas
    ]
    lines = [f"data: {json.dumps(event)}\n\n" for event in events] + ["data: [DONE]\n\n"]
    return 200, {"Content-Type": "text/event-stream"}, "".join(lines).encode()


def _json(found: dict[str, Any]) -> tuple[int, dict[str, str], bytes]:
    return 200, {"Content-Type": "application/json"}, json.dumps(found).encode()


def _error(message: str) -> bytes:
    return json.dumps({"error": {"message": message, "type": "test_error", "code": None}}).encode()


def main() -> None:
    parser = argparse.ArgumentParser(description="A small service that speaks like OpenAI's, for tests.")
    parser.add_argument("--port", type=int, default=0, help="0: any that is free")
    parser.add_argument("--obeys", type=float, default=1.0, help="how often instructions are followed")
    parser.add_argument("--unrecognised", type=float, default=0.0, help="how often nobody is drawn")
    parser.add_argument("--bias", type=json.loads, default={}, help='as JSON: {"age": {"adult": 9, "child": 1}}')
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    studio = Studio(given.bias, obeys=given.obeys, unrecognised=given.unrecognised, seed=given.seed)
    with Upstream(studio, port=given.port) as upstream:
        print(upstream.url, flush=True)
        threading.Event().wait()


if __name__ == "__main__":
    main()

"""Doubles of services for tests: a language model with known chances that speaks like OpenAI's, on this machine."""

from __future__ import annotations

import json
import math
import re
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from random import Random
from statistics import NormalDist
from typing import Any, Literal, NamedTuple, Self, TypeAlias

from evenhand.errors import OptionError

Chances: TypeAlias = float | Mapping[str, float]
"""The chance of ``yes`` (else ``no``), or the chances of several answers, which add up to 1."""

Fault: TypeAlias = int | Literal["slow", "truncated", "hangs up"]
"""What is wrong with an answer: a status such as 429, none within a minute, half of its JSON, or nothing at all."""


class HttpAnswer(NamedTuple):
    """What a server answers: status, headers and body; ``closes`` ends the connection without any of them."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    closes: bool = False


class LocalServer:
    """An HTTP server on 127.0.0.1: a context manager that starts and stops it.

    Args:
        port: 0 takes any that is free.
    """

    def __init__(self, port: int = 0) -> None:
        self.lock = threading.Lock()
        self.stopped = threading.Event()
        self._port = port
        self._server: _ThreadingServer | None = None

    @property
    def root(self) -> str:
        """Where it listens, without a path.

        Raises:
            OptionError: it has not started.
        """
        if self._server is None:
            raise OptionError("the server has not started", hint="use it in a with statement")
        return f"http://127.0.0.1:{self._server.server_port}"

    @property
    def url(self) -> str:
        """The base URL for clients."""
        return f"{self.root}/v1"

    def answer(self, path: str, headers: dict[str, str], body: bytes) -> HttpAnswer:
        """Return the answer to a request whose headers are in lower case; by itself it has nothing at any path.

        Several threads call it.
        """
        return _failure(404, f"nothing at {path}")

    def __enter__(self) -> Self:
        self._server = _ThreadingServer(("127.0.0.1", self._port), _handler(self))
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stopped.set()
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._thread.join()


class FakeChat(LocalServer):
    """A language model at ``/chat/completions`` that answers by known chances, and counts what it is paid for.

    An answer depends on the conversation and on the draw alone, so that the order of requests does not matter. The draw
    is the request's ``seed`` where seeds are honoured: conversations with the same seed then share their luck, as both
    sides of a pair should. Otherwise it is the header ``Idempotency-Key``, which Evenhand sends, or else how often the
    same conversation came before.

    Args:
        chances: the chance of yes, the chances of all answers, or a function of the conversation's text that returns
            either.
        refusals: the chance that the model declines; a number, or a function of the conversation's text.
        seeds: whether ``seed`` in a request is honoured.
        latency: seconds before each answer.
        faults: what is wrong with the nth request, counted from 1.
        at_once: more requests than so many at the same time are answered with status 429; None: any number is fine.
        seed: of all draws.
        port: 0 takes any that is free.

    Attributes:
        received: the body of every request, in the order of arrival.
        paid: for every answer that is charged, what was asked: its idempotency key, or else its conversation.
        tokens: read and written tokens that were charged; a word is a token.
        most_at_once: the most requests that were answered at the same time.

    >>> with FakeChat(lambda text: 0.2 if "Lakisha" in text else 0.4) as chat:
    ...     print(chat.url.rpartition(":")[0])
    http://127.0.0.1
    """

    def __init__(
        self,
        chances: Chances | Callable[[str], Chances] = 0.5,
        *,
        refusals: float | Callable[[str], float] = 0.0,
        seeds: bool = False,
        latency: float = 0.0,
        faults: Mapping[int, Fault] | None = None,
        at_once: int | None = None,
        seed: int = 0,
        port: int = 0,
    ) -> None:
        super().__init__(port)
        self.chances, self.refusals, self.seeds, self.latency = chances, refusals, seeds, latency
        self.faults, self.at_once, self.seed = dict(faults or {}), at_once, seed
        self.received: list[dict[str, Any]] = []
        self.paid: list[str] = []
        self.tokens = (0, 0)
        self.most_at_once = 0
        self._now = 0
        self._times: Counter[str] = Counter()

    def answer(self, path: str, headers: dict[str, str], body: bytes) -> HttpAnswer:
        """Return the answer to a request: a completion, or what is wrong with it."""
        if path != "/v1/chat/completions":
            return super().answer(path, headers, body)
        asked = json.loads(body)
        with self.lock:
            self.received.append(asked)
            fault: Fault | None = self.faults.get(len(self.received))
            self._now += 1
            self.most_at_once = max(self.most_at_once, self._now)
            if fault is None and self.at_once is not None and self._now > self.at_once:
                fault = 429
        try:
            charged = fault in (None, "slow", "truncated")
            said = json.dumps(self.complete(asked, headers.get("idempotency-key"))).encode() if charged else b""
            self.stopped.wait(60 if fault == "slow" else self.latency)
            if isinstance(fault, int):
                return _failure(fault, f"told to fail with {fault}")
            if fault == "hangs up":
                return HttpAnswer(0, {}, b"", closes=True)
            return HttpAnswer(200, _JSON, said[: len(said) // 2] if fault == "truncated" else said)
        finally:
            with self.lock:
                self._now -= 1

    def complete(self, asked: Mapping[str, Any], key: str | None = None) -> dict[str, Any]:
        """Return the completion for the body of a request, and charge it.

        Args:
            asked: the body.
            key: what tells it from others with the same body.
        """
        text = "\n".join(str(message["content"]) for message in asked["messages"])
        with self.lock:
            self._times[text] += 1
            draw = f"{text}|{key or self._times[text]}"
        if self.seeds and asked.get("seed") is not None:
            draw = f"seed {asked['seed']}"
        luck = Random(f"{self.seed}|{draw}")
        chances = self._chances_of(text)
        refused = luck.random() < (self.refusals(text) if callable(self.refusals) else self.refusals)
        drawn = luck.choices(list(chances), list(chances.values()))[0]
        words = re.findall(r"\S+\s*", _DECLINES if refused else drawn)
        most = asked.get("max_completion_tokens") or asked.get("max_tokens") or len(words)
        given = "".join(words[:most])
        message = {"role": "assistant", "content": None if refused else given, "refusal": given if refused else None}
        choice: dict[str, Any] = {"index": 0, "message": message, "logprobs": None}
        choice["finish_reason"] = "length" if most < len(words) else "stop"
        if asked.get("logprobs") and not refused:
            choice["logprobs"] = {"content": _log_probabilities(words[:most], chances, asked.get("top_logprobs") or 0)}
        used = len(text.split()), min(most, len(words))
        with self.lock:
            self.paid.append(key or text)
            self.tokens = self.tokens[0] + used[0], self.tokens[1] + used[1]
        usage = {"prompt_tokens": used[0], "completion_tokens": used[1], "total_tokens": sum(used)}
        head = {"id": "chatcmpl-0", "object": "chat.completion", "created": 0, "model": asked.get("model", "")}
        return {**head, "choices": [choice], "usage": usage}

    def _chances_of(self, text: str) -> Mapping[str, float]:
        found = self.chances(text) if callable(self.chances) else self.chances
        return found if isinstance(found, Mapping) else {"yes": found, "no": 1 - found}


def chance_by_words(
    base: float, effects: Mapping[str, float] | None = None, spread: float = 0.0, seed: int = 0
) -> Callable[[str], float]:
    """Return chances of yes by the words of a conversation.

    The logit of the chance is that of ``base``, plus the effects of all words that the text holds, plus ``spread``
    times a normal number that depends on the other words alone.

    Args:
        base: the chance without any of the words.
        effects: what is added to the logit, by word.
        spread: how far texts differ otherwise.
        seed: of the normal numbers.

    Raises:
        OptionError: ``base`` is not between 0 and 1.

    >>> round(chance_by_words(0.5, {"Lakisha": -1.0})("Lakisha: 3 years as welder"), 3)
    0.269
    """
    effects = effects or {}
    if not 0 < base < 1:
        raise OptionError(f"expected a chance between 0 and 1, both excluded, got {base}", location="base")

    def chance(text: str) -> float:
        words = re.findall(r"\w+", text)
        rest = " ".join(word for word in words if word not in effects)
        # Open at both ends: the normal quantile of 0 and of 1 is infinite.
        place = (Random(f"{seed}|{rest}").getrandbits(52) + 0.5) / 2**52
        logit = math.log(base / (1 - base)) + sum(effects.get(word, 0.0) for word in words)
        return 1 / (1 + math.exp(-logit - spread * NormalDist().inv_cdf(place)))

    return chance


_JSON = {"Content-Type": "application/json"}
_DECLINES = "I'm sorry, but I can't help with that."


def _log_probabilities(words: list[str], chances: Mapping[str, float], most: int) -> list[dict[str, Any]]:
    """Return what is said about tokens: of the first one its chance and those of others, all later ones are certain."""
    first: dict[str, float] = {}
    for answer, chance in chances.items():
        word = "".join(answer.split()[:1])
        first[word] = first.get(word, 0.0) + chance
    told = sorted(((chance, word) for word, chance in first.items() if chance > 0), reverse=True)[:most]
    others = [{"token": word, "logprob": math.log(chance), "bytes": None} for chance, word in told]
    return [
        {
            "token": word.strip(),
            "logprob": 0.0 if place else math.log(first[word.strip()]),
            "bytes": None,
            "top_logprobs": [] if place else others,
        }
        for place, word in enumerate(words)
    ]


def _failure(status: int, message: str) -> HttpAnswer:
    return HttpAnswer(status, _JSON, json.dumps({"error": {"message": message, "type": "test", "code": None}}).encode())


class _ThreadingServer(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print nothing about a client that went away."""


def _handler(server: LocalServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True
        wbufsize = -1  # an answer is one packet

        def do_GET(self) -> None:
            self._answer(b"")

        def do_POST(self) -> None:
            self._answer(self.rfile.read(int(self.headers["Content-Length"])))

        def _answer(self, asked: bytes) -> None:
            headers = {name.lower(): value for name, value in self.headers.items()}
            said = server.answer(self.path, headers, asked)
            if said.closes:
                self.close_connection = True
                return
            self.send_response(said.status)
            for name, value in {**said.headers, "Content-Length": str(len(said.body))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(said.body)

        def log_message(self, *_: Any) -> None:
            """Print nothing."""

    return Handler

"""Local test servers: an OpenAI-compatible language model with known answer probabilities."""

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
"""Probability of ``yes`` (otherwise ``no``), or the probability of each answer."""

Fault: TypeAlias = int | Literal["slow", "truncated", "hangs up"]
"""Fault of a response: an error status such as 429, a delay of one minute, truncated JSON, or a closed connection."""


class HttpAnswer(NamedTuple):
    """Response of a server. If ``closes`` is True, the connection is closed without a response."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    closes: bool = False


class LocalServer:
    """HTTP server on 127.0.0.1. Use it as a context manager.

    Args:
        port: Port of the server; 0 selects a free port.
    """

    def __init__(self, port: int = 0) -> None:
        self.lock = threading.Lock()
        self.stopped = threading.Event()
        self._port = port
        self._server: _ThreadingServer | None = None

    @property
    def root(self) -> str:
        """URL of the server without a path.

        Raises:
            OptionError: The server has not started.
        """
        if self._server is None:
            raise OptionError("the server has not started", hint="use it in a with statement")
        return f"http://127.0.0.1:{self._server.server_port}"

    @property
    def url(self) -> str:
        """Base URL for clients."""
        return f"{self.root}/v1"

    def answer(self, path: str, headers: dict[str, str], body: bytes) -> HttpAnswer:
        """Answer a request. Header names are in lower case. By default, every path returns status 404.

        The method is called from several threads.
        """
        return _failure(404, f"no such path: {path}")

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
    """Language model at ``/chat/completions`` that samples answers with known probabilities and records its charges.

    An answer depends only on the conversation and a draw, so the order of requests does not matter. If ``seeds`` is
    True, the draw is the ``seed`` of the request, so that both conversations of a pair share it. Otherwise, it is the
    ``Idempotency-Key`` header, which Evenhand sends, or the number of earlier requests with the same conversation.

    Args:
        chances: Probability of yes, probabilities of all answers, or a function of the conversation that returns them.
        refusals: Probability of a refusal, or a function of the conversation that returns it.
        seeds: Whether to use the ``seed`` of a request.
        latency: Seconds before each answer.
        faults: Fault of the nth request, counted from 1.
        at_once: Maximum number of concurrent requests. Further requests get status 429. None disables the limit.
        seed: Seed of all draws.
        port: Port of the server; 0 selects a free port.

    Attributes:
        received: Bodies of all requests, in the order of arrival.
        paid: Idempotency key of each charged answer, or its conversation if there is no key.
        tokens: Charged input and output tokens. A word is a token.
        most_at_once: Largest observed number of concurrent requests.

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
        self._active = 0
        self._repetitions: Counter[str] = Counter()

    def answer(self, path: str, headers: dict[str, str], body: bytes) -> HttpAnswer:
        """Answer a request with a completion or a fault."""
        if path != "/v1/chat/completions":
            return super().answer(path, headers, body)
        request = json.loads(body)
        with self.lock:
            self.received.append(request)
            fault: Fault | None = self.faults.get(len(self.received))
            self._active += 1
            self.most_at_once = max(self.most_at_once, self._active)
            if fault is None and self.at_once is not None and self._active > self.at_once:
                fault = 429
        try:
            charged = fault in (None, "slow", "truncated")
            text = json.dumps(self.complete(request, headers.get("idempotency-key"))).encode() if charged else b""
            self.stopped.wait(60 if fault == "slow" else self.latency)
            if isinstance(fault, int):
                return _failure(fault, f"fault {fault}")
            if fault == "hangs up":
                return HttpAnswer(0, {}, b"", closes=True)
            return HttpAnswer(200, _JSON, text[: len(text) // 2] if fault == "truncated" else text)
        finally:
            with self.lock:
                self._active -= 1

    def complete(self, request: Mapping[str, Any], key: str | None = None) -> dict[str, Any]:
        """Build the completion of a request, and charge it.

        Args:
            request: Body of the request.
            key: Key that distinguishes requests with the same body.
        """
        text = "\n".join(str(message["content"]) for message in request["messages"])
        with self.lock:
            self._repetitions[text] += 1
            draw = f"{text}|{key or self._repetitions[text]}"
        if self.seeds and request.get("seed") is not None:
            draw = f"seed {request['seed']}"
        luck = Random(f"{self.seed}|{draw}")
        chances = self._chances_of(text)
        refused = luck.random() < (self.refusals(text) if callable(self.refusals) else self.refusals)
        answer = luck.choices(list(chances), list(chances.values()))[0]
        words = re.findall(r"\S+\s*", _DECLINES if refused else answer)
        limit = request.get("max_completion_tokens") or request.get("max_tokens") or len(words)
        content = "".join(words[:limit])
        message = {
            "role": "assistant",
            "content": None if refused else content,
            "refusal": content if refused else None,
        }
        choice: dict[str, Any] = {"index": 0, "message": message, "logprobs": None}
        choice["finish_reason"] = "length" if limit < len(words) else "stop"
        if request.get("logprobs") and not refused:
            choice["logprobs"] = {
                "content": _log_probabilities(words[:limit], chances, request.get("top_logprobs") or 0)
            }
        used = len(text.split()), min(limit, len(words))
        with self.lock:
            self.paid.append(key or text)
            self.tokens = self.tokens[0] + used[0], self.tokens[1] + used[1]
        usage = {"prompt_tokens": used[0], "completion_tokens": used[1], "total_tokens": sum(used)}
        head = {"id": "chatcmpl-0", "object": "chat.completion", "created": 0, "model": request.get("model", "")}
        return {**head, "choices": [choice], "usage": usage}

    def _chances_of(self, text: str) -> Mapping[str, float]:
        chances = self.chances(text) if callable(self.chances) else self.chances
        return chances if isinstance(chances, Mapping) else {"yes": chances, "no": 1 - chances}


def chance_by_words(
    base: float, effects: Mapping[str, float] | None = None, spread: float = 0.0, seed: int = 0
) -> Callable[[str], float]:
    """Build a function that computes the probability of yes from the words of a conversation.

    The logit of the probability is the logit of ``base``, plus the effects of all words in the text, plus ``spread``
    times a standard normal number that depends only on the other words.

    Args:
        base: Probability for a text without any of the words.
        effects: Effect on the logit, by word.
        spread: Standard deviation of the logit between texts.
        seed: Seed of the normal numbers.

    Raises:
        OptionError: ``base`` is not strictly between 0 and 1.

    >>> round(chance_by_words(0.5, {"Lakisha": -1.0})("Lakisha: 3 years as welder"), 3)
    0.269
    """
    effects = effects or {}
    if not 0 < base < 1:
        raise OptionError(f"expected a probability strictly between 0 and 1, got {base}", location="base")

    def chance(text: str) -> float:
        words = re.findall(r"\w+", text)
        other_words = " ".join(word for word in words if word not in effects)
        # 0 and 1 are excluded because their normal quantiles are infinite.
        quantile = (Random(f"{seed}|{other_words}").getrandbits(52) + 0.5) / 2**52
        logit = math.log(base / (1 - base)) + sum(effects.get(word, 0.0) for word in words)
        return 1 / (1 + math.exp(-logit - spread * NormalDist().inv_cdf(quantile)))

    return chance


_JSON = {"Content-Type": "application/json"}
_DECLINES = "I'm sorry, but I can't help with that."


def _log_probabilities(words: list[str], chances: Mapping[str, float], limit: int) -> list[dict[str, Any]]:
    """Compute the log probabilities of tokens. The first token has alternatives, all later tokens are certain."""
    first_words: dict[str, float] = {}
    for answer, chance in chances.items():
        word = "".join(answer.split()[:1])
        first_words[word] = first_words.get(word, 0.0) + chance
    likeliest = sorted(((chance, word) for word, chance in first_words.items() if chance > 0), reverse=True)[:limit]
    alternatives = [{"token": word, "logprob": math.log(chance), "bytes": None} for chance, word in likeliest]
    return [
        {
            "token": word.strip(),
            "logprob": 0.0 if position else math.log(first_words[word.strip()]),
            "bytes": None,
            "top_logprobs": [] if position else alternatives,
        }
        for position, word in enumerate(words)
    ]


def _failure(status: int, message: str) -> HttpAnswer:
    return HttpAnswer(status, _JSON, json.dumps({"error": {"message": message, "type": "test", "code": None}}).encode())


class _ThreadingServer(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore clients that closed the connection."""


def _handler(server: LocalServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True
        wbufsize = -1  # a response is one packet

        def do_GET(self) -> None:
            self._answer(b"")

        def do_POST(self) -> None:
            self._answer(self.rfile.read(int(self.headers["Content-Length"])))

        def _answer(self, body: bytes) -> None:
            headers = {name.lower(): value for name, value in self.headers.items()}
            response = server.answer(self.path, headers, body)
            if response.closes:
                self.close_connection = True
                return
            self.send_response(response.status)
            for name, value in {**response.headers, "Content-Length": str(len(response.body))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(response.body)

        def log_message(self, *_: Any) -> None:
            """Print nothing."""

    return Handler

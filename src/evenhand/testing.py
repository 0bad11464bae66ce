"""Local test servers, such as an OpenAI-compatible language model with known answer probabilities."""

from __future__ import annotations

import json
import re
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from random import Random
from typing import Any, NamedTuple, Self, TypeAlias

from evenhand.errors import OptionError

Chances: TypeAlias = float | Mapping[str, float]
"""Probability of ``yes`` (otherwise ``no``), or the probability of each answer."""


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
        return failure(404, f"no such path: {path}")

    def __enter__(self) -> Self:
        self._server = _ThreadingServer(("127.0.0.1", self._port), _handler(self))
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
            self._thread.join()


class FakeChat(LocalServer):
    """Language model at ``/chat/completions`` that samples answers with known probabilities.

    An answer depends only on the conversation and a draw, so the order of requests does not matter. The draw is the
    ``Idempotency-Key`` header, which Evenhand sends, or the number of earlier requests with the same conversation.

    Args:
        chances: Probability of yes, probabilities of all answers, or a function of the conversation that returns them.
        refusals: Probability of a refusal, or a function of the conversation that returns it.
        seed: Seed of all draws.
        port: Port of the server; 0 selects a free port.

    Attributes:
        received: Bodies of all requests, in the order of arrival.

    >>> with FakeChat(lambda text: 0.2 if "Lakisha" in text else 0.4) as chat:
    ...     print(chat.url.rpartition(":")[0])
    http://127.0.0.1
    """

    def __init__(
        self,
        chances: Chances | Callable[[str], Chances] = 0.5,
        *,
        refusals: float | Callable[[str], float] = 0.0,
        seed: int = 0,
        port: int = 0,
    ) -> None:
        super().__init__(port)
        self.chances, self.refusals, self.seed = chances, refusals, seed
        self.received: list[dict[str, Any]] = []
        self._repetitions: Counter[str] = Counter()

    def answer(self, path: str, headers: dict[str, str], body: bytes) -> HttpAnswer:
        """Answer a request with a completion."""
        if path != "/v1/chat/completions":
            return super().answer(path, headers, body)
        request = json.loads(body)
        with self.lock:
            self.received.append(request)
        completion = self.complete(request, headers.get("idempotency-key"))
        return HttpAnswer(200, JSON_HEADERS, json.dumps(completion).encode())

    def complete(self, request: Mapping[str, Any], key: str | None = None) -> dict[str, Any]:
        """Build the completion of a request.

        Args:
            request: Body of the request.
            key: Key that distinguishes requests with the same body.
        """
        text = "\n".join(str(message["content"]) for message in request["messages"])
        generator = Random(f"{self.seed}|{self.draw_of(request, text, key)}")
        chances = self.chances_of(text)
        refused = generator.random() < (self.refusals(text) if callable(self.refusals) else self.refusals)
        answer = generator.choices(list(chances), list(chances.values()))[0]
        words = re.findall(r"\S+\s*", _REFUSAL if refused else answer)
        limit = request.get("max_completion_tokens") or request.get("max_tokens") or len(words)
        content = "".join(words[:limit])
        message = {"role": "assistant", "content": content, "refusal": None}
        if refused:
            message |= {"content": None, "refusal": content}
        finish = "length" if limit < len(words) else "stop"
        used = len(text.split()), min(limit, len(words))
        return {
            "id": "chatcmpl-0",
            "object": "chat.completion",
            "created": 0,
            "model": request.get("model", ""),
            "choices": [{"index": 0, "message": message, "finish_reason": finish, "logprobs": None}],
            "usage": {"prompt_tokens": used[0], "completion_tokens": used[1], "total_tokens": sum(used)},
        }

    def draw_of(self, request: Mapping[str, Any], text: str, key: str | None) -> str:
        """Return the identifier of a draw: the conversation with its key, or with the number of its repetitions."""
        with self.lock:
            self._repetitions[text] += 1
            return f"{text}|{key or self._repetitions[text]}"

    def chances_of(self, text: str) -> Mapping[str, float]:
        """Return the probabilities of the answers to a conversation."""
        chances = self.chances(text) if callable(self.chances) else self.chances
        return chances if isinstance(chances, Mapping) else {"yes": chances, "no": 1 - chances}


JSON_HEADERS = {"Content-Type": "application/json"}
_REFUSAL = "I'm sorry, but I can't help with that."


def failure(status: int, message: str) -> HttpAnswer:
    """Build an error response in OpenAI's format."""
    error = {"message": message, "type": "test", "code": None}
    return HttpAnswer(status, JSON_HEADERS, json.dumps({"error": error}).encode())


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
            for name, value in {"Content-Length": str(len(response.body)), **response.headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(response.body)

        def log_message(self, *_: Any) -> None:
            """Print nothing."""

    return Handler

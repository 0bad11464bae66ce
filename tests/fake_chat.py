"""Fake language model that records its charges and can fail, and probabilities that depend on words."""

import json
import math
import re
import threading
from collections.abc import Callable, Mapping
from random import Random
from statistics import NormalDist
from typing import Any, Literal, TypeAlias

from evenhand.testing import JSON_HEADERS, FakeChat, HttpAnswer, failure

Fault: TypeAlias = int | Literal["slow", "truncated", "hangs up"]
"""Error status such as 429, a delay of one minute, truncated JSON, or a closed connection."""


class RecordingChat(FakeChat):
    """Fake language model that records its charges and can fail.

    Args:
        chances: As for ``FakeChat``.
        seeds: Whether the draw is the ``seed`` of the request, so that both conversations of a pair share it.
        latency: Seconds before each answer.
        faults: Fault of the nth request, counted from 1.
        at_once: Maximum number of concurrent requests. Further requests get status 429. None disables the limit.
        options: Other arguments of ``FakeChat``.

    Attributes:
        paid: Idempotency key of each charged answer, or its conversation if there is no key.
        tokens: Charged input and output tokens. A word is a token.
        most_at_once: Largest observed number of concurrent requests.
    """

    def __init__(
        self,
        chances: Any = 0.5,
        *,
        seeds: bool = False,
        latency: float = 0.0,
        faults: Mapping[int, Fault] | None = None,
        at_once: int | None = None,
        **options: Any,
    ) -> None:
        super().__init__(chances, **options)
        self.seeds, self.latency, self.faults, self.at_once = seeds, latency, dict(faults or {}), at_once
        self.paid: list[str] = []
        self.tokens = (0, 0)
        self.most_at_once = 0
        self._active = self._requests = 0
        self._stopped = threading.Event()

    def __exit__(self, *error: object) -> None:
        self._stopped.set()
        super().__exit__(*error)

    def answer(self, path: str, headers: dict[str, str], body: bytes) -> HttpAnswer:
        with self.lock:
            self._requests += 1
            fault = self.faults.get(self._requests)
            self._active += 1
            self.most_at_once = max(self.most_at_once, self._active)
            if fault is None and self.at_once is not None and self._active > self.at_once:
                fault = 429
        try:
            if fault in (None, "slow", "truncated"):
                answer = super().answer(path, headers, body)
            else:
                self.received.append(json.loads(body))
                answer = HttpAnswer(0, {}, b"", closes=True)
            self._stopped.wait(60 if fault == "slow" else self.latency)
            if isinstance(fault, int):
                return failure(fault, f"fault {fault}")
            if fault == "truncated":
                return HttpAnswer(200, JSON_HEADERS, answer.body[: len(answer.body) // 2])
            return answer
        finally:
            with self.lock:
                self._active -= 1

    def complete(self, request: Mapping[str, Any], key: str | None = None) -> dict[str, Any]:
        completion = super().complete(request, key)
        choice, usage = completion["choices"][0], completion["usage"]
        text = "\n".join(str(message["content"]) for message in request["messages"])
        content = choice["message"]["content"]
        if request.get("logprobs") and content is not None:
            words = re.findall(r"\S+\s*", content)
            limit = request.get("top_logprobs") or 0
            choice["logprobs"] = {"content": log_probabilities(words, self.chances_of(text), limit)}
        with self.lock:
            self.paid.append(key or text)
            self.tokens = self.tokens[0] + usage["prompt_tokens"], self.tokens[1] + usage["completion_tokens"]
        return completion

    def draw_of(self, request: Mapping[str, Any], text: str, key: str | None) -> str:
        draw = super().draw_of(request, text, key)
        return f"seed {request['seed']}" if self.seeds and request.get("seed") is not None else draw


def log_probabilities(words: list[str], chances: Mapping[str, float], limit: int) -> list[dict[str, Any]]:
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


def chance_by_words(
    base: float, effects: Mapping[str, float] | None = None, spread: float = 0.0, seed: int = 0
) -> Callable[[str], float]:
    """Build a function that computes the probability of yes from the words of a conversation.

    The logit of the probability is the logit of ``base``, plus the effects of all words in the text, plus ``spread``
    times a standard normal number that depends only on the other words.
    """
    effects = effects or {}

    def chance(text: str) -> float:
        words = re.findall(r"\w+", text)
        other_words = " ".join(word for word in words if word not in effects)
        # 0 and 1 are excluded because their normal quantiles are infinite.
        quantile = (Random(f"{seed}|{other_words}").getrandbits(52) + 0.5) / 2**52
        logit = math.log(base / (1 - base)) + sum(effects.get(word, 0.0) for word in words)
        return 1 / (1 + math.exp(-logit - spread * NormalDist().inv_cdf(quantile)))

    return chance

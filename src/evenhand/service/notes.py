"""What the log keeps of requests beside what decides: prompts, if it may, and items by their hash."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping
from typing import Any

from evenhand.genai.backends import Generator, Item, instruct
from evenhand.genai.core import Must


def hash_of(data: str | bytes) -> str:
    """SHA-256 of a text or of bytes; what the log has of them."""
    return hashlib.sha256(data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data).hexdigest()


class Watched:
    """A generator, and the last item that it made.

    Attributes:
        item: None: there was none, or the last call failed.
        sent: the prompt of the last call.
        seconds: that all calls took.
    """

    def __init__(self, generator: Generator) -> None:
        self._generator = generator
        self.item: Item | None = None
        self.sent = ""
        self.seconds = 0.0

    def generate(self, prompt: str) -> Item:
        """As the generator."""
        self.item, self.sent = None, prompt
        begun = time.perf_counter()
        try:
            made = self._generator.generate(prompt)
        finally:
            self.seconds += time.perf_counter() - begun
        # What is no item is the guard's business; there is nothing to tell of it.
        self.item = made if isinstance(made, Item) else None
        return made


class Notes:
    """Of one request.

    Args:
        prompt: as the user wrote it.
        made: what makes its items.
        route: by which it came.
        log_prompts: whether the log may have the prompt; else it has its hash, from which a prompt can be told that
            somebody guesses.
    """

    def __init__(self, prompt: str, made: Watched | None, *, route: str, log_prompts: bool) -> None:
        self._prompt, self._made = prompt, made
        self._route, self._log_prompts = route, log_prompts

    def asked(self) -> Mapping[str, Any]:
        """Of the request."""
        return {"route": self._route, **self._prompts()}

    def came(self, must: Must) -> Mapping[str, Any]:
        """Of its item: the words that were put behind the prompt, and the hash of what was made."""
        note: dict[str, Any] = {**self._prompts(), "clause": instruct("", must).strip()}
        if self._log_prompts:
            note["sent"] = instruct(self._prompt, must)
        item = None if self._made is None else self._made.item
        if item is not None:
            note["item"] = {"sha256": hash_of(item.data), "media_type": item.media_type, "bytes": len(item.data)}
        return note

    def reason(self, said: str) -> str:
        """Why something went wrong, in a log; a service's own words may repeat the prompt."""
        return said if self._log_prompts else said.replace(self._prompt, "[prompt]")

    def _prompts(self) -> dict[str, Any]:
        return {"prompt": self._prompt} if self._log_prompts else {"prompt_sha256": hash_of(self._prompt)}

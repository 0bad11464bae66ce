"""The connection to a service that speaks like OpenAI's: where it is, and which key it wants."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Wire:
    """A service that speaks like OpenAI's: OpenAI itself, Ollama, vLLM, LocalAI, LiteLLM and many more.

    Attributes:
        url: its base, such as ``http://127.0.0.1:11434/v1``.
        key: the name of the environment variable that holds the key; None if it wants none.
        timeout: seconds to wait for a connection, and again for a whole answer.
        retries: how often to ask again when it is overloaded or out of reach.
    """

    url: str
    key: str | None = field(default=None, repr=False)
    timeout: float = 60.0
    retries: int = 2

    def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """What it answers at ``/images/generations``, say.

        Raises:
            FetchError: it does not answer, or refuses.
            ModelError: its answer is no JSON object, or too large.
        """
        raise NotImplementedError

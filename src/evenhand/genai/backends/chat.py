"""Texts from a service that speaks like OpenAI's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from evenhand.errors import ModelError
from evenhand.genai.backends.item import Item
from evenhand.genai.backends.wire import Wire, check_options, request


@dataclass(frozen=True)
class OpenAIChat:
    """A generator of texts at ``/chat/completions``.

    ``dataclasses.replace`` makes one with a request's own messages and options; the connections are shared.

    Attributes:
        wire: where to ask.
        model: which model.
        system: what the model is told before everything else.
        messages: of the conversation before the prompt, as the service takes them.
        options: what else the requests say, such as ``{"max_tokens": 200}``; one of None is left out.

    Raises:
        OptionError: an option that the generator sets itself.
    """

    wire: Wire
    model: str
    system: str | None = None
    messages: tuple[Mapping[str, Any], ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_options(self.options, ("model", "messages", "n", "stream"))

    def generate(self, prompt: str) -> Item:
        """The answer to the prompt.

        Raises:
            FetchError: the service does not answer, or refuses.
            ModelError: its answer holds no text, or the model declines.
        """
        return Item.of_text(self.reply(prompt))

    def reply(self, content: str | Sequence[Mapping[str, Any]]) -> str:
        """What the model says to a message: a text, or parts as the service takes them.

        Raises:
            FetchError: the service does not answer, or refuses.
            ModelError: its answer holds no text, or the model declines.
        """
        return self.text_of(self.ask([*self.messages, {"role": "user", "content": content}]))

    def ask(self, messages: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """The whole answer to a conversation; ``messages`` of this generator are not part of it.

        Raises:
            FetchError: the service does not answer, or refuses.
            ModelError: its answer is no JSON object.
        """
        before = [{"role": "system", "content": self.system}] if self.system else []
        return self.wire.post(
            "/chat/completions", request({"model": self.model, "messages": [*before, *messages]}, self.options)
        )

    def text_of(self, answer: Mapping[str, Any]) -> str:
        """The text in an answer.

        Raises:
            ModelError: there is none, or the model declines.
        """
        found = answer.get("choices")
        choice = found[0] if isinstance(found, list) and found else None
        message = choice.get("message") if isinstance(choice, dict) else None
        if not isinstance(choice, dict) or not isinstance(message, dict):
            raise ModelError("the answer has no list of choices with a message", where=self.wire.url)
        refusal = message.get("refusal")
        if choice.get("finish_reason") == "content_filter" or (isinstance(refusal, str) and refusal):
            raise ModelError("the model declines to answer", where=self.wire.url)
        text = _text(message.get("content"))
        if text is None:
            raise ModelError("the message in the answer has no text", where=self.wire.url)
        if not text.strip():
            cut = choice.get("finish_reason") == "length"
            raise ModelError(
                "the message in the answer is empty", where=self.wire.url, mend="raise max_tokens" if cut else None
            )
        return text


def _text(content: object) -> str | None:
    """The text of a message: as it is, or in parts."""
    if not isinstance(content, list):
        return content if isinstance(content, str) else None
    parts = [part.get("text") for part in content if isinstance(part, dict) and part.get("type") == "text"]
    texts = [part for part in parts if isinstance(part, str)]
    return "".join(texts) if texts and len(texts) == len(parts) else None

"""A guarded generator with what one request says: sizes and qualities, or a conversation and its settings."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, TypeAlias

from evenhand.coroutines import call, run_blocking
from evenhand.errors import ModelError
from evenhand.genai import ContentRefusedError, Generator, Item, LocalDiffusion, OpenAIChat, OpenAIImages, Studio
from evenhand.service.api.error_handlers import ServiceHTTPException

OutputKind: TypeAlias = Literal["image", "text", "either", "nothing"]

PICTURE_OPTIONS = (
    "background", "moderation", "output_compression", "output_format", "quality", "size", "style", "user",
)  # fmt: skip
"""Entries of requests for pictures that are handed on."""

TEXT_OPTIONS = (
    "frequency_penalty", "logit_bias", "logprobs", "max_completion_tokens", "max_tokens", "metadata",
    "presence_penalty", "prompt_cache_key", "reasoning_effort", "response_format", "safety_identifier", "seed",
    "service_tier", "stop", "store", "temperature", "top_logprobs", "top_p", "user", "verbosity",
)  # fmt: skip
"""Entries of requests for texts that are handed on."""


class GatewayGenerator:
    """In place of a generator, where a guard is asked by a gateway that has one."""

    def generate(self, prompt: str) -> Item:
        """Nothing.

        Raises:
            ModelError: always.
        """
        raise ModelError("items of this guard are made elsewhere")


def output_kind(generator: Generator) -> OutputKind:
    """Return what a generator makes."""
    if isinstance(generator, OpenAIImages | Studio | LocalDiffusion):
        return "image"
    if isinstance(generator, OpenAIChat):
        return "text"
    return "nothing" if isinstance(generator, GatewayGenerator) else "either"


def known_options(given: Mapping[str, Any], known: Collection[str]) -> dict[str, Any]:
    """Return what is handed on of a request: entries that are known, and not null.

    A gateway behind the guard may take entries that change where it asks; so only entries named in the configuration
    are handed on.

    Raises:
        Fault: one is not known.
    """
    options = {name: value for name, value in given.items() if value is not None}
    for name in options:
        if name not in known:
            raise ServiceHTTPException(
                400,
                f"{name[:100]!r} is not handed on to the model",
                code="unknown_parameter",
                hint=f"leave it out, or name it under pass_on of the guard; handed on are {', '.join(sorted(known))}",
            )
    return options


def with_picture_options(generator: Generator, options: Mapping[str, Any]) -> tuple[Generator, Collection[str]]:
    """Return a generator of pictures with a request's options, and those that it knows nothing of."""
    if isinstance(generator, OpenAIImages):
        return replace(generator, options={**generator.options, **options}), ()
    return generator, sorted(options.keys() - {"user"})


class ConversationGenerator:
    """Continues a conversation whose last question a prompt is.

    Args:
        generator: of texts.
        messages: of the conversation, as OpenAI's interface has them.
        options: of the request.

    Attributes:
        prompt: the text of the last message of the user: what is asked.
        declined: all that the service said when the model declined last; None where it did not.
        ignored: options that the generator knows nothing of.

    Raises:
        Fault: no message of the user has a text.
    """

    def __init__(self, generator: Generator, messages: Sequence[Mapping[str, Any]], options: Mapping[str, Any]) -> None:
        self._messages = [dict(message) for message in messages]
        last = [k for k, message in enumerate(self._messages) if message.get("role") == "user"]
        self._at = last[-1] if last else -1
        found = _content_texts(self._messages[self._at].get("content")) if last else []
        if not "".join(found).strip():
            raise ServiceHTTPException(
                400,
                "the last message of the user has no text, and a text is what the guard reads",
                code="messages",
                hint='give a message {"role": "user", "content": "..."}',
            )
        self.prompt = "".join(found)
        self.declined: dict[str, Any] | None = None
        self.ignored: Collection[str] = ()
        if isinstance(generator, OpenAIChat):
            self._chat: OpenAIChat | None = replace(generator, options={**generator.options, **options})
        else:
            self._chat, self.ignored = None, sorted(options.keys() - {"user", "metadata", "safety_identifier"})
        self._generator = generator

    def generate(self, prompt: str) -> Item:
        """Return the answer, if the last message of the user were the prompt.

        Raises:
            EvenhandError: there is none.
        """
        return run_blocking(self.generate_async(prompt))

    async def generate_async(self, prompt: str) -> Item:
        """Return the same, without holding up the event loop."""
        if self._chat is None:
            return await call(self._generator.generate, prompt)
        asked = [*self._messages]
        asked[self._at] = {**asked[self._at], "content": _replace_text(asked[self._at]["content"], self.prompt, prompt)}
        answer = await self._chat.ask_async(asked)
        try:
            text = self._chat.text_of(answer)
        except ContentRefusedError:
            self.declined = answer
            raise
        return replace(Item.of_text(text, answer.get("usage")), answer=answer)

    def said_of(self, item: Item | None) -> Mapping[str, Any]:
        """Return all that the service said with an item, or where there is none, when the model declined."""
        return self.declined or {} if item is None else item.answer


def _content_texts(content: object) -> list[str]:
    """Return the texts in a message: it is one, or it has parts."""
    if isinstance(content, str):
        return [content]
    parts = content if isinstance(content, list) else []
    found = [part.get("text") for part in parts if isinstance(part, dict) and part.get("type") == "text"]
    return [text for text in found if isinstance(text, str)]


def _replace_text(content: Any, before: str, after: str) -> Any:
    """Return a message's content with its text changed.

    What was put around the text is put around its parts that are texts; a rewritten text stands in the first
    of them, and the others are left out.
    """
    if isinstance(content, str) or before == after:
        return content if before == after else after
    texts = [k for k, part in enumerate(content) if isinstance(part, dict) and part.get("type") == "text"]
    parts = list(content)
    ahead, found, behind = after.partition(before)
    if not found:
        parts[texts[0]] = {**parts[texts[0]], "text": after}
        return [part for k, part in enumerate(parts) if k not in texts[1:]]
    parts[texts[0]] = {**parts[texts[0]], "text": ahead + parts[texts[0]]["text"]}
    parts[texts[-1]] = {**parts[texts[-1]], "text": parts[texts[-1]]["text"] + behind}
    return parts

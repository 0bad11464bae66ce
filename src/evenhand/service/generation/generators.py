"""Generators with the options of one request: picture sizes and qualities, or a conversation and its settings."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, TypeAlias

from evenhand.core.coroutines import blocks, call
from evenhand.errors import ModelError
from evenhand.genai.backends.generator import Generator, Item
from evenhand.genai.backends.local_diffusion import LocalDiffusion
from evenhand.genai.backends.openai_service import OpenAIChat, OpenAIImages
from evenhand.genai.backends.studio import Studio
from evenhand.models.language.services import ContentRefusedError
from evenhand.service.api.error_handlers import HttpError

OutputKind: TypeAlias = Literal["image", "text", "either", "nothing"]

PICTURE_OPTIONS = (
    "background",
    "moderation",
    "output_compression",
    "output_format",
    "quality",
    "size",
    "style",
    "user",
)
"""Options of picture requests that are passed to the generator."""

TEXT_OPTIONS = (
    "frequency_penalty",
    "logit_bias",
    "logprobs",
    "max_completion_tokens",
    "max_tokens",
    "metadata",
    "presence_penalty",
    "prompt_cache_key",
    "reasoning_effort",
    "response_format",
    "safety_identifier",
    "seed",
    "service_tier",
    "stop",
    "store",
    "temperature",
    "top_logprobs",
    "top_p",
    "user",
    "verbosity",
)
"""Options of text requests that are passed to the generator."""


class GatewayGenerator:
    """Placeholder for the generator of a guard behind a gateway, which generates by itself."""

    def generate(self, prompt: str) -> Item:
        """Refuse to generate.

        Raises:
            ModelError: Always.
        """
        raise ModelError("the gateway of this guard generates the items")


def output_kind(generator: Generator) -> OutputKind:
    """Return the kind of output of a generator."""
    if isinstance(generator, OpenAIImages | Studio | LocalDiffusion):
        return "image"
    if isinstance(generator, OpenAIChat):
        return "text"
    return "nothing" if isinstance(generator, GatewayGenerator) else "either"


def known_options(requested: Mapping[str, Any], supported: Collection[str]) -> dict[str, Any]:
    """Select the request options to forward: known options that are not null.

    A gateway behind the guard may have options that change its upstream, so unknown options are not forwarded unless
    the configuration names them.

    Raises:
        HttpError: An option is unknown.
    """
    options = {name: value for name, value in requested.items() if value is not None}
    for name in options:
        if name not in supported:
            raise HttpError(
                400,
                f"{name[:100]!r} is not forwarded to the model",
                code="unknown_parameter",
                hint=f"omit it, or add it to pass_on of the guard; known: {', '.join(sorted(supported))}",
            )
    return options


def with_picture_options(generator: Generator, options: Mapping[str, Any]) -> tuple[Generator, Collection[str]]:
    """Return a picture generator with the options of a request, and the unsupported options."""
    if options and isinstance(generator, OpenAIImages):
        return replace(generator, options={**generator.options, **options}), ()
    return generator, sorted(options.keys() - {"user"})


class ConversationGenerator:
    """Generator of the next message of a conversation.

    Args:
        generator: Generator of texts.
        messages: Messages of the conversation in the format of OpenAI.
        options: Options of the request.

    Attributes:
        prompt: Text of the last user messages without an answer between them. The model reads them together, so the
            guard does as well.
        declined: Response of the service when the model declined the last request. None if it did not.
        ignored: Options that the generator does not support.

    Raises:
        HttpError: The user has sent no text to answer.
    """

    def __init__(self, generator: Generator, messages: Sequence[Mapping[str, Any]], options: Mapping[str, Any]) -> None:
        self._messages = [dict(message) for message in messages]
        self._user = last_user_messages([message.get("role") for message in self._messages])
        self.prompt = join_texts([_content_text(self._messages[k].get("content")) for k in self._user])
        if not self.prompt.strip():
            raise HttpError(
                400,
                "the last user message has no text, which the guard needs",
                code="messages",
                hint='add {"role": "user", "content": "..."}',
            )
        self.declined: dict[str, Any] | None = None
        self.ignored: Collection[str] = ()
        if isinstance(generator, OpenAIChat):
            self._chat: OpenAIChat | None = replace(generator, options={**generator.options, **options})
        else:
            self._chat, self.ignored = None, sorted(options.keys() - {"user", "metadata", "safety_identifier"})
        self._generator = generator

    @blocks
    async def generate(self, prompt: str) -> Item:
        """Generate the next message, with the prompt instead of the text of the user.

        Raises:
            EvenhandError: There is no message.
        """
        if self._chat is None:
            return await call(self._generator.generate, prompt)
        messages = [*self._messages]
        texts = [_content_text(messages[k].get("content")) for k in self._user]
        for k, original, changed in zip(self._user, texts, replace_texts(texts, prompt), strict=True):
            messages[k] = {**messages[k], "content": _replace_text(messages[k].get("content"), original, changed)}
        # Messages may be empty if a rewritten prompt replaced their text.
        answer = await call(
            self._chat.ask, [message for k, message in enumerate(messages) if k not in self._user or message["content"]]
        )
        try:
            text = self._chat.text_of(answer)
        except ContentRefusedError:
            self.declined = answer
            raise
        return replace(Item.of_text(text, answer.get("usage")), answer=answer)

    def response_of(self, item: Item | None) -> Mapping[str, Any]:
        """Return the response of the service that contained the item, or in which the model declined."""
        return self.declined or {} if item is None else item.answer


def last_user_messages(roles: Sequence[object]) -> list[int]:
    """Return the positions of the last user messages that have no assistant message between them.

    Examples:
        >>> last_user_messages(["user", "assistant", "user", "system", "user"])
        [2, 4]
    """
    positions: list[int] = []
    for k in reversed(range(len(roles))):
        if roles[k] == "user":
            positions.insert(0, k)
        elif roles[k] == "assistant" and positions:
            break
    return positions


def join_texts(texts: Sequence[str]) -> str:
    """Join the texts of consecutive messages to a prompt."""
    return "\n".join(text for text in texts if text)


def replace_texts(texts: Sequence[str], prompt: str, *, separator: str = "\n") -> list[str]:
    """Distribute a changed prompt over the texts that it was joined from.

    Text before and after the original prompt is added to the first and the last text. If the prompt was rewritten, it
    replaces the first text, and the others become empty.

    Examples:
        >>> replace_texts(["a story", "make it long"], "a story\\nmake it long (showing: gender woman)")
        ['a story', 'make it long (showing: gender woman)']
    """
    filled = [k for k, text in enumerate(texts) if text]
    prefix, original, suffix = prompt.partition(separator.join(texts[k] for k in filled))
    changed = list(texts) if original else ["" for _ in texts]
    changed[filled[0]] = prefix + changed[filled[0]]
    changed[filled[-1]] += suffix
    return changed


def _content_text(content: object) -> str:
    """Return the text of a message, which is a text or a list of parts."""
    return content if isinstance(content, str) else "".join(text for _, text in _text_parts(content))


def _text_parts(content: object) -> list[tuple[int, str]]:
    """Return position and text of every part of a message that is a text."""
    parts = enumerate(content) if isinstance(content, list) else ()
    return [
        (k, part["text"])
        for k, part in parts
        if isinstance(part, dict) and part.get("type") == "text" and isinstance(part.get("text"), str)
    ]


def _replace_text(content: Any, original: str, changed: str) -> Any:
    """Replace the text of a message. Parts that become empty are left out."""
    if original == changed:
        return content
    if isinstance(content, str):
        return changed
    positions, texts = zip(*_text_parts(content), strict=True)
    replaced = dict(zip(positions, replace_texts(texts, changed, separator=""), strict=True))
    return [
        {**part, "text": replaced[k]} if k in replaced else part
        for k, part in enumerate(content)
        if replaced.get(k, "kept")
    ]

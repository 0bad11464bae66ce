"""A service that speaks like OpenAI's: the connection, a language model behind it, and few things believed."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Any
from urllib.parse import SplitResult, urljoin, urlsplit

from evenhand.core.coroutines import blocks, call
from evenhand.core.http import HttpClient, parse_json_response, quote_answer
from evenhand.errors import FetchError, ModelError, OptionError

_PORTS = {"http": 80, "https": 443}
_HINT = "check the URL: does the service speak like OpenAI's?"


class ContentRefusedError(ModelError):
    """A service that works refuses what was asked of it, such as for its content policy.

    Args:
        message: why, in its own words.
        code: its word for programs, such as ``content_policy_violation``.
        status: of HTTP; 200: the model declined in an ordinary answer.
        location, hint: as for every error.
    """

    def __init__(
        self, message: str, *, code: str, status: int = 400, location: str | None = None, hint: str | None = None
    ) -> None:
        super().__init__(message, location=location, hint=hint)
        self.code, self.status = code, status


@dataclass(frozen=True)
class ServiceConnection:
    """A service that speaks like OpenAI's: OpenAI itself, Ollama, vLLM, LocalAI, LiteLLM and many more.

    Redirects are not followed, and nothing is fetched from any other place than the service's own host and port.

    Attributes:
        url: its base, such as ``http://127.0.0.1:11434/v1``.
        key: the name of the environment variable that holds the key, never the key; None if the service wants none.
        timeout: seconds to wait for a connection, and again for a whole answer.
        retries: how often to ask again when it is overloaded or out of reach.
        backoff: seconds before the first of these; twice as long before each further one.
        repeatable: whether to ask again too when no answer came in time, or one that is not JSON: where asking twice
            costs nothing, or is wanted all the same.

    Raises:
        OptionError: this is not a URL, or it holds credentials; the key is not a name; a number makes no sense.
    """

    url: str
    key: str | None = field(default=None, repr=False)
    timeout: float = 60.0
    retries: int = 2
    backoff: float = 0.5
    repeatable: bool = False

    def __post_init__(self) -> None:
        parts = _split_url(self.url)
        if parts is None or parts.scheme not in _PORTS or not parts.hostname:
            raise OptionError(
                "the URL of a service begins with http:// or https:// and a host",
                location="url",
                hint="for example http://127.0.0.1:11434/v1",
            )
        if "@" in parts.netloc or parts.query or parts.fragment:
            raise OptionError(
                f"the URL of {parts.hostname} holds more than host, port and path",
                location="url",
                hint="put the key into an environment variable, and name that as key",
            )
        if self.key is not None and not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", self.key):
            raise OptionError(
                "key is not the name of an environment variable", location="key", hint="for example OPENAI_API_KEY"
            )
        if not 0 < self.timeout < float("inf"):
            raise OptionError(
                f"expected a positive, finite number of seconds, got {self.timeout}",
                location="timeout",
                hint="for example 60",
            )
        if self.retries < 0:
            raise OptionError(f"asking {self.retries} times again is impossible", location="retries", hint="0 or more")

    @blocks
    async def post(self, path: str, body: Mapping[str, Any], *, key: str | None = None) -> dict[str, Any]:
        """Return what the service answers at a path under its URL, such as ``/images/generations``.

        Args:
            path: under the service's URL.
            body: what is asked, as JSON holds it.
            key: sent as ``Idempotency-Key``: a service that knows the header charges further tries only once.

        Raises:
            OptionError: the body holds something that JSON has not, or the environment variable holds no key.
            FetchError: the service does not answer, or refuses.
            ModelError: its answer is not a JSON object, or too large.
        """
        try:
            asked = json.dumps(body, allow_nan=False).encode()
        except (TypeError, ValueError, RecursionError) as error:
            raise OptionError(f"what is asked of {self.url} cannot be written as JSON: {error}") from None
        answer, said = None, b""
        headers = {"Content-Type": "application/json", **({"Idempotency-Key": key} if key else {})}
        for _ in range(1 + self.retries * self.repeatable):
            said = await self._ask("POST", self.url.rstrip("/") + path, asked, headers)
            try:
                answer = parse_json_response(said)
                break
            except (ValueError, RecursionError):
                continue
        else:
            raise ModelError(f"the answer is not JSON: {self._quote(said)}", location=self.url, hint=_HINT)
        if not isinstance(answer, dict):
            raise ModelError(f"the answer is not a JSON object: {self._quote(said)}", location=self.url, hint=_HINT)
        if answer.get("error"):
            # Some services report errors with status 200.
            if (refused := read_refusal(answer, secret=self._secret() or "", location=self.url)) is not None:
                raise refused
            failed = FetchError(
                f"the service failed: {self._quote(said)}", location=self.url, hint="see the service's log"
            )
            failed.retry_after = 0.0
            raise failed
        return answer

    @blocks
    async def fetch(self, address: str) -> bytes:
        """What lies at an address that the service gave in an answer, if that is on the service's own host and port.

        Raises:
            FetchError: it lies elsewhere, or the service does not give it.
            ModelError: it is not an address, or what lies there is too large.
        """
        own, found = urlsplit(self.url), _split_url(address, self.url)
        if found is None:
            raise ModelError("the address in the answer is not a URL", location=self.url)
        if _url_origin(found) != _url_origin(own) or "@" in found.netloc:
            raise FetchError(
                f"the answer points to another place, {found.scheme}://{found.hostname or ''}, and nothing is fetched"
                " from there",
                location=self.url,
                hint="ask for the picture itself: options: {response_format: b64_json}",
            )
        # Put together from the service's own URL, so that it does not matter how others take the address apart.
        return await self._ask("GET", found._replace(scheme=own.scheme, netloc=own.netloc, fragment="").geturl())

    def check_key(self) -> None:
        """Raise an OptionError if a key is wanted and the environment variable holds none."""
        self._secret()

    def close(self) -> None:
        """Close the open connections."""
        self._client.close()

    @cached_property
    def _client(self) -> HttpClient:
        credentials = (
            f"check the key in the environment variable{f' {self.key}' if self.key and self.key.isupper() else ''}"
            if self.key
            else "put the key into an environment variable, and name that as key"
        )
        hints = {
            400: "check the name of the model, and the options: some models do not take all",
            401: credentials,
            403: credentials,
            404: "check the URL, which often ends in /v1, and the name of the model",
            405: "check the URL, which often ends in /v1",
            413: "ask for less",
            429: "the service is busy, or your quota is used up: try later",
        }
        return HttpClient(
            "the service",
            self.url,
            self.timeout,
            self.retries,
            self.backoff,
            retries_when_late=self.repeatable,
            hints=hints,
            hint=_HINT,
        )

    def _secret(self) -> str | None:
        if self.key is None:
            return None
        secret = os.environ.get(self.key, "").strip()
        if not secret or not secret.isascii() or not secret.isprintable():
            # Somebody may have written the key itself, so only what looks like a name is repeated.
            name = f"{self.key} " if self.key.isupper() else ""
            what = "holds no key that can be sent" if secret else "is not set"
            raise OptionError(
                f"the environment variable {name}that is named as key {what}",
                location="key",
                hint="set it, or name another",
            )
        return secret

    def _quote(self, said: bytes) -> str:
        return quote_answer(said, [self._secret() or ""])

    async def _ask(
        self, method: str, url: str, body: bytes | None = None, headers: Mapping[str, str] = MappingProxyType({})
    ) -> bytes:
        secret = self._secret()
        if secret is not None:
            headers = {**headers, "Authorization": f"Bearer {secret}"}
        try:
            return await call(self._client.ask, method, url, headers, [secret or ""], body)
        except FetchError as error:
            refused = None
            if error.status in (400, 403, 422, 451):
                with suppress(ValueError, RecursionError):
                    body = json.loads(error.body)
                    refused = read_refusal(body, status=error.status, secret=secret or "", location=self.url)
            if refused is not None:
                raise refused from None
            raise


_REFUSAL_CODE = re.compile(
    r"content_?(?:policy|filter|moderation)|moderation_|safety(?!_identifier)|responsible_?ai|prohibited_?content"
    r"|data_?inspection|invalid_prompt|sensitive_?content|blocklist",
    re.IGNORECASE,
)
"""Codes of errors about the content of a request, where nothing is wrong with the request itself."""

_REFUSAL_REASON = re.compile(
    r"content_?filter\w*|safety|refusal|prohibited_?content|blocklist|spii|recitation|sensitive", re.IGNORECASE
)
"""Reasons why an answer ended that are about its content."""


def is_refused(choice: Mapping[str, Any]) -> bool:
    """Check whether the model declined, or a content filter removed its answer."""
    message = choice.get("message")
    declined = isinstance(message, Mapping) and isinstance(message.get("refusal"), str) and message["refusal"]
    return bool(declined) or _REFUSAL_REASON.fullmatch(str(choice.get("finish_reason"))) is not None


def read_refusal(
    body: object, *, status: int = 200, secret: str = "", location: str | None = None
) -> ContentRefusedError | None:
    """Read the refusal of a request for its content from the JSON of an error. None for other errors."""
    error = body.get("error") if isinstance(body, dict) else None
    if not isinstance(error, dict):
        return None
    codes = [error.get("code"), error.get("type"), error.get("status")]
    if isinstance(inner := error.get("innererror"), dict):
        codes.append(inner.get("code"))
    code = next((code for code in codes if isinstance(code, str) and _REFUSAL_CODE.search(code)), None)
    metadata = error.get("metadata")
    if code is None and isinstance(metadata, dict) and metadata.keys() & {"flagged_input", "reasons"}:
        code = "moderation"
    if code is None:
        return None
    message = error.get("message")
    words = quote_answer(message if isinstance(message, str) else code, [secret])[1:-1]
    return ContentRefusedError(
        words, code=code, status=status, location=location, hint="Ask for something else: the service refuses this."
    )


def may_be_charged(error: FetchError) -> bool:
    """Check whether a call without an answer may have been charged, as the model may have answered it nevertheless.

    Answers are lost with the connection, or behind a gateway that stopped waiting (408, 502, 504, 520, 524).
    """
    return error.sent and error.status in (None, 408, 502, 504, 520, 524)


def check_reserved_options(options: Mapping[str, Any], own: Collection[str]) -> None:
    """Refuse options that the caller sets itself.

    Raises:
        OptionError: one of these is there.
    """
    for name in options:
        if name in own:
            raise OptionError(f"the option {name!r} is set by what asks", location="options", hint="leave it out")


def build_request(body: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is asked, with the options; those of None are left out."""
    return {**{name: value for name, value in options.items() if value is not None}, **body}


def _split_url(url: str, base: str = "") -> SplitResult | None:
    """Return the parts of a URL, or None if it is not one."""
    try:
        parts = urlsplit(urljoin(base, url))
        _ = parts.port
    except ValueError:
        return None
    return parts


def _url_origin(parts: SplitResult) -> tuple[str, str | None, int | None]:
    return parts.scheme, parts.hostname, parts.port or _PORTS.get(parts.scheme)


# Texts from a service that speaks like OpenAI's.


@dataclass(frozen=True)
class ChatService:
    """A language model at ``/chat/completions``.

    ``dataclasses.replace`` makes one with a request's own messages and options; the connections are shared.

    Attributes:
        wire: where to ask.
        model: which model.
        system: what the model is told before everything else.
        messages: of the conversation before the prompt, as the service takes them.
        options: what else the requests say, such as ``{"max_tokens": 200}``; one of None is left out.

    Raises:
        OptionError: an option that this sets itself.
    """

    wire: ServiceConnection
    model: str
    system: str | None = None
    messages: tuple[Mapping[str, Any], ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_reserved_options(self.options, ("model", "messages", "n", "stream"))

    @blocks
    async def reply(self, content: str | Sequence[Mapping[str, Any]]) -> str:
        """Return what the model says to a message: a text, or parts as the service takes them.

        Raises:
            FetchError: the service does not answer, or refuses.
            ModelError: its answer holds no text, or the model declines.
        """
        return self.text_of(await call(self.ask, [*self.messages, {"role": "user", "content": content}]))

    @blocks
    async def ask(self, messages: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Return the whole answer to a conversation; its own ``messages`` are not part of it.

        Raises:
            FetchError: the service does not answer, or refuses.
            ModelError: its answer is not a JSON object.
        """
        return await call(self.wire.post, "/chat/completions", self.request(messages))

    def request(self, messages: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Return the body of a request about a conversation, as ``ask`` sends it."""
        before = [{"role": "system", "content": self.system}] if self.system else []
        return build_request({"model": self.model, "messages": [*before, *messages]}, self.options)

    def choice_of(self, answer: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the first choice in an answer. A choice that a content filter removed has an empty message.

        Raises:
            ModelError: There is no choice with a message.
        """
        choices = answer.get("choices")
        choice = choices[0] if isinstance(choices, list) and choices else None
        if isinstance(choice, dict) and not isinstance(choice.get("message"), dict) and is_refused(choice):
            return {**choice, "message": {}}
        if not isinstance(choice, dict) or not isinstance(choice.get("message"), dict):
            raise ModelError("the answer has no list of choices with a message", location=self.wire.url)
        return choice

    def text_of(self, answer: Mapping[str, Any]) -> str:
        """Return the text in an answer.

        Raises:
            ModelError: there is none, or the model declines.
        """
        choice = self.choice_of(answer)
        message = choice["message"]
        if is_refused(choice):
            refusal = message.get("refusal")
            words = f": {refusal}" if isinstance(refusal, str) and refusal else ""
            raise ContentRefusedError(
                f"the model declines to answer{words}",
                code="refusal" if words else "content_filter",
                status=200,
                location=self.wire.url,
            )
        text = content_text(message.get("content"))
        if text is None:
            raise ModelError("the message in the answer has no text", location=self.wire.url)
        if not text.strip():
            cut = choice.get("finish_reason") == "length"
            raise ModelError(
                "the message in the answer is empty", location=self.wire.url, hint="raise max_tokens" if cut else None
            )
        return text


def read_usage(answer: Mapping[str, Any]) -> dict[str, Any]:
    """Return what an answer says that it costs, such as ``{"total_tokens": 120}``; empty if it does not say."""
    found = answer.get("usage")
    return found if isinstance(found, dict) else {}


def content_text(content: object) -> str | None:
    """Return the text of a message: as it is, or in parts."""
    if not isinstance(content, list):
        return content if isinstance(content, str) else None
    parts = [part.get("text") for part in content if isinstance(part, dict) and part.get("type") == "text"]
    texts = [part for part in parts if isinstance(part, str)]
    return "".join(texts) if texts and len(texts) == len(parts) else None

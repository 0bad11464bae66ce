"""OpenAI-compatible services: connection, language model and strict response validation."""

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
_HINT = "check the URL, and that the service is OpenAI-compatible"


class ContentRefusedError(ModelError):
    """Raised when a working service refuses a request, for example because of its content policy.

    Args:
        message: Message of the service.
        code: Error code of the service, such as ``content_policy_violation``.
        status: HTTP status; 200 if the model refused in an ordinary response.
        location, hint: As for ``EvenhandError``.
    """

    def __init__(
        self, message: str, *, code: str, status: int = 400, location: str | None = None, hint: str | None = None
    ) -> None:
        super().__init__(message, location=location, hint=hint)
        self.code, self.status = code, status


@dataclass(frozen=True)
class ServiceConnection:
    """Connection to an OpenAI-compatible service, such as OpenAI, Ollama, vLLM, LocalAI or LiteLLM.

    Redirects are not followed, and files are fetched only from the host and port of the service.

    Attributes:
        url: Base URL, such as ``http://127.0.0.1:11434/v1``.
        key: Name of the environment variable that contains the key. None if the service requires no key.
        timeout: Timeout in seconds, applied separately to the connection and to the whole response.
        retries: Maximum number of retries if the service is overloaded or unreachable.
        backoff: Seconds before the first retry. The pause doubles with each retry.
        repeatable: Whether to retry also after a timeout and after a response that is not JSON. Such a request may be
            charged twice.

    Raises:
        OptionError: The URL is invalid or contains credentials, or the key is not a variable name.
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
                "expected a URL that begins with http:// or https:// and contains a host",
                location="url",
                hint="pass a URL such as http://127.0.0.1:11434/v1",
            )
        if "@" in parts.netloc or parts.query or parts.fragment:
            raise OptionError(
                f"the URL of {parts.hostname} must contain only host, port and path",
                location="url",
                hint="store the key in an environment variable, and set `key` to its name",
            )
        if self.key is not None and not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", self.key):
            raise OptionError(
                "key is not the name of an environment variable",
                location="key",
                hint="pass a name such as OPENAI_API_KEY",
            )

    @blocks
    async def post(self, path: str, body: Mapping[str, Any], *, key: str | None = None) -> dict[str, Any]:
        """Send a POST request and return the JSON object of the response.

        Args:
            path: Path below the base URL, such as ``/images/generations``.
            body: JSON of the request.
            key: Idempotency key. A service that supports the ``Idempotency-Key`` header charges retries only once.

        Raises:
            OptionError: The body cannot be written as JSON, or the environment variable contains no key.
            FetchError: The service does not respond, or refuses the request.
            ModelError: The response is not a JSON object, or is too large.
        """
        try:
            data = json.dumps(body, allow_nan=False).encode()
        except (TypeError, ValueError, RecursionError) as error:
            raise OptionError(f"the request to {self.url} cannot be written as JSON: {error}") from None
        answer, response = None, b""
        headers = {"Content-Type": "application/json", **({"Idempotency-Key": key} if key else {})}
        for _ in range(1 + self.retries * self.repeatable):
            response = await self._ask("POST", self.url.rstrip("/") + path, data, headers)
            try:
                answer = parse_json_response(response)
                break
            except (ValueError, RecursionError):
                continue
        else:
            raise ModelError(f"the answer is not JSON: {self._quote(response)}", location=self.url, hint=_HINT)
        if not isinstance(answer, dict):
            raise ModelError(f"the answer is not a JSON object: {self._quote(response)}", location=self.url, hint=_HINT)
        if answer.get("error"):
            # Some services report errors with status 200.
            if (refusal := read_refusal(answer, secret=self._secret() or "", location=self.url)) is not None:
                raise refusal
            failure = FetchError(
                f"the service failed: {self._quote(response)}", location=self.url, hint="see the log of the service"
            )
            failure.retry_after = 0.0
            raise failure
        return answer

    @blocks
    async def forward(self, path: str, body: bytes, content_type: str, key: str | None = None) -> bytes:
        """Send the body and the idempotency key of another client's POST request and return the body of the response.

        Raises:
            OptionError: The environment variable contains no key.
            FetchError: The service does not respond, or refuses the request.
            ModelError: The response is too large.
        """
        headers = {"Content-Type": content_type, **({"Idempotency-Key": key} if key else {})}
        return await self._ask("POST", self.url.rstrip("/") + path, body, headers)

    @blocks
    async def fetch(self, address: str) -> bytes:
        """Fetch a file from a URL in a response. Only the host and port of the service are allowed.

        Raises:
            FetchError: The URL has another host or port, or the service does not return the file.
            ModelError: The URL is invalid, or the file is too large.
        """
        own, target = urlsplit(self.url), _split_url(address, self.url)
        if target is None:
            raise ModelError("the address in the answer is not a URL", location=self.url)
        if _url_origin(target) != _url_origin(own) or "@" in target.netloc:
            raise FetchError(
                f"the answer links to another server, {target.scheme}://{target.hostname or ''}, from which no file is"
                " fetched",
                location=self.url,
                hint="request the image in the answer: options: {response_format: b64_json}",
            )
        # Rebuilt from the base URL, because URL parsers may disagree about the host of an address.
        return await self._ask("GET", target._replace(scheme=own.scheme, netloc=own.netloc, fragment="").geturl())

    def check_key(self) -> None:
        """Raise an OptionError if a key is required and the environment variable contains none."""
        self._secret()

    def close(self) -> None:
        """Close the open connections."""
        self._client.close()

    @cached_property
    def _client(self) -> HttpClient:
        credentials = (
            f"check the key in the environment variable{f' {self.key}' if self.key and self.key.isupper() else ''}"
            if self.key
            else "store the key in an environment variable, and set `key` to its name"
        )
        hints = {
            400: "check the name of the model, and the options: some models do not support all of them",
            401: credentials,
            403: credentials,
            404: "check the URL, which often ends in /v1, and the name of the model",
            405: "check the URL, which often ends in /v1",
            413: "send a smaller request",
            429: "the service is busy, or your quota is exhausted: try again later",
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
            # The value may be the key itself, so it is echoed only if it looks like a variable name.
            name = f" {self.key}" if self.key.isupper() else ""
            problem = "contains characters that are not printable ASCII" if secret else "is not set"
            raise OptionError(
                f"the environment variable{name} for the key {problem}",
                location="key",
                hint="set it, or specify another variable",
            )
        return secret

    def _quote(self, response: bytes) -> str:
        return quote_answer(response, [self._secret() or ""])

    async def _ask(
        self, method: str, url: str, body: bytes | None = None, headers: Mapping[str, str] = MappingProxyType({})
    ) -> bytes:
        secret = self._secret()
        if secret is not None:
            headers = {**headers, "Authorization": f"Bearer {secret}"}
        try:
            return await call(self._client.ask, method, url, headers, [secret or ""], body)
        except FetchError as error:
            refusal = None
            if error.status in (400, 403, 422, 451):
                with suppress(ValueError, RecursionError):
                    body = json.loads(error.body)
                    refusal = read_refusal(body, status=error.status, secret=secret or "", location=self.url)
            if refusal is not None:
                raise refusal from None
            raise


_REFUSAL_CODE = re.compile(
    r"content_?(?:policy|filter|moderation)|moderation_|safety(?!_identifier)|responsible_?ai|prohibited_?content"
    r"|data_?inspection|invalid_prompt|sensitive_?content|blocklist",
    re.IGNORECASE,
)
"""Error codes for requests that are valid, but refused for their content."""

_REFUSAL_REASON = re.compile(
    r"content_?filter\w*|safety|refusal|prohibited_?content|blocklist|spii|recitation|sensitive", re.IGNORECASE
)
"""Finish reasons related to content."""


def is_refused(choice: Mapping[str, Any]) -> bool:
    """Check whether the model refused to answer, or a content filter removed its answer."""
    message = choice.get("message")
    declined = isinstance(message, Mapping) and isinstance(message.get("refusal"), str) and message["refusal"]
    return bool(declined) or _REFUSAL_REASON.fullmatch(str(choice.get("finish_reason"))) is not None


def read_refusal(
    body: object, *, status: int = 200, secret: str = "", location: str | None = None
) -> ContentRefusedError | None:
    """Read a content refusal from the JSON of an error response. None for other errors."""
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
        words, code=code, status=status, location=location, hint="change the request: the service refuses its content"
    )


def may_be_charged(error: FetchError) -> bool:
    """Check whether a failed call may have been charged because the model may have answered it.

    An answer is lost if the connection breaks, or if a gateway times out (408, 502, 504, 520, 524).
    """
    return error.sent and error.status in (None, 408, 502, 504, 520, 524)


def check_reserved_options(options: Mapping[str, Any], reserved: Collection[str]) -> None:
    """Check that the options contain no reserved names.

    Raises:
        OptionError: An option is reserved.
    """
    for name in options:
        if name in reserved:
            raise OptionError(f"the option {name!r} is set by Evenhand", location="options", hint="leave it out")


def build_request(body: Mapping[str, Any], options: Mapping[str, Any]) -> dict[str, Any]:
    """Build the body of a request. Options that are None are omitted."""
    return {**{name: value for name, value in options.items() if value is not None}, **body}


def _split_url(url: str, base: str = "") -> SplitResult | None:
    """Split a URL. None if it is invalid."""
    try:
        parts = urlsplit(urljoin(base, url))
        _ = parts.port
    except ValueError:
        return None
    return parts


def _url_origin(parts: SplitResult) -> tuple[str, str | None, int | None]:
    return parts.scheme, parts.hostname, parts.port or _PORTS.get(parts.scheme)


# Chat completions


@dataclass(frozen=True)
class ChatService:
    """Language model at ``/chat/completions``.

    Use ``dataclasses.replace`` to set other messages and options for a request. The connections are shared.

    Attributes:
        wire: Connection to the service.
        model: Name of the model.
        system: System prompt.
        messages: Messages before the prompt, in the format of the service.
        options: Other entries of the requests, such as ``{"max_tokens": 200}``. Entries that are None are omitted.

    Raises:
        OptionError: An option is reserved.
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
        """Return the model's reply to a message, given as text or as content parts.

        Raises:
            FetchError: The service does not respond, or refuses the request.
            ModelError: The response contains no text, or the model refuses to answer.
        """
        return self.text_of(await call(self.ask, [*self.messages, {"role": "user", "content": content}]))

    @blocks
    async def ask(self, messages: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Send a conversation and return the whole response. The attribute ``messages`` is not sent.

        Raises:
            FetchError: The service does not respond, or refuses the request.
            ModelError: The response is not a JSON object.
        """
        return await call(self.wire.post, "/chat/completions", self.request(messages))

    def request(self, messages: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Build the body of the request that ``ask`` sends."""
        system = [{"role": "system", "content": self.system}] if self.system else []
        return build_request({"model": self.model, "messages": [*system, *messages]}, self.options)

    def choice_of(self, answer: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the first choice in a response. A choice that was removed by a content filter has an empty message.

        Raises:
            ModelError: The response has no choice with a message.
        """
        choices = answer.get("choices")
        choice = choices[0] if isinstance(choices, list) and choices else None
        if isinstance(choice, dict) and not isinstance(choice.get("message"), dict) and is_refused(choice):
            return {**choice, "message": {}}
        if not isinstance(choice, dict) or not isinstance(choice.get("message"), dict):
            raise ModelError("the answer has no list of choices with a message", location=self.wire.url)
        return choice

    def text_of(self, answer: Mapping[str, Any]) -> str:
        """Return the text in a response.

        Raises:
            ModelError: The response contains no text, or the model refuses to answer.
        """
        choice = self.choice_of(answer)
        message = choice["message"]
        if is_refused(choice):
            refusal = message.get("refusal")
            words = f": {refusal}" if isinstance(refusal, str) and refusal else ""
            raise ContentRefusedError(
                f"the model refuses to answer{words}",
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
    """Return the usage in a response, such as ``{"total_tokens": 120}``. Empty if the response has none."""
    usage = answer.get("usage")
    return usage if isinstance(usage, dict) else {}


def content_text(content: object) -> str | None:
    """Return the text of a message, given as text or as content parts. None if it has none."""
    if not isinstance(content, list):
        return content if isinstance(content, str) else None
    parts = [part.get("text") for part in content if isinstance(part, dict) and part.get("type") == "text"]
    texts = [part for part in parts if isinstance(part, str)]
    return "".join(texts) if texts and len(texts) == len(parts) else None

"""Pictures from a service that speaks like OpenAI's."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from evenhand.errors import ModelError
from evenhand.genai.backends.item import Item
from evenhand.genai.backends.wire import Wire, check_options, request

_TYPES = ((b"\x89PNG\r\n\x1a\n", "image/png"), (b"\xff\xd8\xff", "image/jpeg"), (b"GIF8", "image/gif"))


@dataclass(frozen=True)
class OpenAIImages:
    """A generator of pictures at ``/images/generations``, one for every request.

    Pictures in the answer (``b64_json``) are taken as well as addresses (``url``) on the service's own host. Which of
    the two is answered can be asked for by ``options`` where a service knows ``response_format``; not all do.

    Attributes:
        wire: where to ask.
        model: which model.
        options: what else the requests say, such as ``{"size": "512x512"}``; one of None is left out.

    Raises:
        OptionError: an option that the generator sets itself.
    """

    wire: Wire
    model: str
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_options(self.options, ("model", "prompt", "n", "stream"))

    def generate(self, prompt: str) -> Item:
        """A picture: PNG, JPEG, WebP or GIF.

        Raises:
            FetchError: the service does not answer, or refuses.
            ModelError: its answer holds no picture.
        """
        answer = self.wire.post("/images/generations", request({"model": self.model, "prompt": prompt}, self.options))
        found = answer.get("data")
        first = found[0] if isinstance(found, list) and found else None
        if not isinstance(first, dict):
            raise ModelError("the answer has no list of pictures as data", where=self.wire.url)
        for name in ("b64_json", "url"):
            given = first.get(name)
            if isinstance(given, str) and given:
                inside = name == "b64_json" or given.startswith("data:")
                return self._picture(self._decoded(given) if inside else self.wire.fetch(given))
        raise ModelError("the picture in the answer has neither b64_json nor url", where=self.wire.url)

    def _decoded(self, given: str) -> bytes:
        packed = given.partition(",")[2] if given.startswith("data:") else given
        try:
            return base64.b64decode("".join(packed.split()), validate=True)
        except (binascii.Error, ValueError):
            raise ModelError("the picture in the answer is no base64", where=self.wire.url) from None

    def _picture(self, data: bytes) -> Item:
        # What it is called in an answer is not believed.
        kind = media_type_of(data)
        if kind is None:
            raise ModelError("the picture in the answer is neither PNG, JPEG, WebP nor GIF", where=self.wire.url)
        return Item("image", data, kind)


def media_type_of(data: bytes) -> str | None:
    """What a picture is by its first bytes: PNG, JPEG, WebP or GIF; None if it is none of them."""
    webp = data[:4] == b"RIFF" and data[8:12] == b"WEBP"
    return "image/webp" if webp else next((name for begin, name in _TYPES if data.startswith(begin)), None)

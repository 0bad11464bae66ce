"""An item that was generated, and what generates items."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias, runtime_checkable

from evenhand.errors import DataError

Kind: TypeAlias = Literal["image", "text"]


@dataclass(frozen=True)
class Item:
    """A picture or a text.

    Attributes:
        kind: ``image`` or ``text``.
        data: its bytes; a text's are UTF-8.
        media_type: such as ``image/png``.
    """

    kind: Kind
    data: bytes
    media_type: str

    @classmethod
    def of_text(cls, text: str) -> Item:
        """A text as an item."""
        return cls("text", text.encode(), "text/plain")

    @property
    def text(self) -> str:
        """The text.

        Raises:
            DataError: it is a picture, or no UTF-8.
        """
        if self.kind != "text":
            raise DataError(f"an item of type {self.media_type} is no text")
        try:
            return self.data.decode()
        except UnicodeDecodeError as error:
            raise DataError(f"a text is no UTF-8: {error}") from error


class Generator(Protocol):
    """What makes items for prompts."""

    def generate(self, prompt: str) -> Item:
        """One item; asked again with the same prompt, it may make another.

        Raises:
            EvenhandError: it made none.
        """
        ...


@runtime_checkable
class Resumable(Protocol):
    """A generator whose items depend on how many it made before."""

    def resume(self, made: int) -> None:
        """Go on as if so many items had been made already."""
        ...

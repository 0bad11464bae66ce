"""What importers of white boxes share: what they say when a model cannot be read, and JSON asked part by part."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from evenhand.core.typing import Floats, Integers
from evenhand.errors import ModelError, NotAdditiveError, TrustError
from evenhand.schema.schema import Schema

BLACK_BOX_HINT = (
    "as a black box it can still be audited and searched, but not certified: that needs preprocessing that acts on one "
    "attribute at a time, then affine and ReLU layers"
)


@contextmanager
def locate_errors(place: str, *, location: str, hint: str = BLACK_BOX_HINT) -> Iterator[None]:
    """Let errors name the part of the model that is being read, e.g. ``layer 'dense_1' (Dense)``.

    NumPy's complaints about shapes and types mean that the model's parts do not fit together.
    """
    try:
        with np.errstate(all="ignore"):  # what is not finite is refused when the network is built
            yield
    except NotAdditiveError as refusal:
        raise NotAdditiveError(f"{place}: {refusal.message}", location=location, hint=hint) from None
    except TrustError as refusal:
        raise TrustError(f"{place}: {refusal.message}", location=location, hint=refusal.hint) from None
    except ModelError as refusal:
        raise ModelError(f"{place}: {refusal.message}", location=location, hint=refusal.hint) from None
    except (ValueError, IndexError, KeyError, TypeError, OverflowError, AttributeError) as error:
        raise ModelError(f"{place} does not fit what comes before it ({error})", location=location) from None


def check_width(width: int, schema: Schema, *, location: str) -> None:
    """Refuse a model of plain numbers that takes another number of them than the schema gives."""
    if width != schema.width:
        raise ModelError(
            f"the model takes {width} inputs, but the schema's {len(schema.attributes)} attributes give {schema.width}",
            location=location,
            hint="describe every input of the model in the schema, in its order, with the right encoding",
        )


# A JSON document as models are written in, asked part by part.


@dataclass(frozen=True)
class JsonObject:
    """One object of a document; every question about it that has no answer is a ModelError.

    Attributes:
        fields: the object, as read from the file.
        location: the file and the place of the object in it.
        hint: what to do if the file is damaged.
    """

    fields: Any
    location: str
    hint: str

    def __post_init__(self) -> None:
        if not isinstance(self.fields, dict):
            raise ModelError(
                f"a JSON object is expected, and there is a {type(self.fields).__name__}",
                location=self.location,
                hint=self.hint,
            )

    def _field(self, key: str) -> Any:
        if key not in self.fields:
            raise ModelError(
                f"{key!r} is missing: the file is damaged, or no such model", location=self.location, hint=self.hint
            )
        return self.fields[key]

    def part(self, key: str) -> JsonObject:
        """Return an object inside."""
        return JsonObject(self._field(key), f"{self.location}, {key}", self.hint)

    def text(self, key: str) -> str:
        """Return a text."""
        value = self._field(key)
        if not isinstance(value, str):
            raise ModelError(f"{key!r} is not text", location=self.location, hint=self.hint)
        return value

    def items(self, key: str) -> list[Any]:
        """Return a list of anything."""
        value = self._field(key)
        if isinstance(value, np.ndarray):
            return list(value.tolist())
        if not isinstance(value, list):
            raise ModelError(f"{key!r} is not a list", location=self.location, hint=self.hint)
        return value

    def integer(self, key: str) -> int:
        """Return a whole number, also one written as text."""
        value = self._field(key)
        try:
            return int(value if isinstance(value, int | float) else str(value))
        except (ValueError, OverflowError):
            raise ModelError(f"{key!r} is not a whole number", location=self.location, hint=self.hint) from None

    def numbers(self, key: str, *, least: int = 0) -> Floats:
        """Return a list of at least so many numbers, shape (n,)."""
        value = self._field(key)
        try:
            with np.errstate(invalid="ignore"):  # a NaN of any kind is somebody else's to refuse
                numbers = np.asarray(value, dtype=np.float64)
        except (TypeError, ValueError, OverflowError):
            numbers = np.zeros(())
        if numbers.ndim != 1 or len(numbers) < least:
            raise ModelError(f"{key!r} is not a list of {least or ''} numbers", location=self.location, hint=self.hint)
        return numbers

    def integers(self, key: str, *, least: int = 0) -> Integers:
        """Return a list of at least so many whole numbers (or flags), shape (n,)."""
        numbers = self.numbers(key, least=least)
        if not (np.abs(numbers) < 2**53).all() or (numbers != np.floor(numbers)).any():
            raise ModelError(
                f"{key!r} holds something that is not a whole number", location=self.location, hint=self.hint
            )
        return numbers.astype(np.int64)

"""Shared parts of the readers: errors that name a part of a model, and fields of a damaged file."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from evenhand.core.typing import Floats, Integers
from evenhand.errors import ModelError, NotAdditiveError, TrustError
from evenhand.schema.schema import Schema

if TYPE_CHECKING:
    from evenhand.models.trees.ensemble import Link

BLACK_BOX_HINT = (
    "as a black box it can still be audited and searched, but not certified: that needs preprocessing that acts on one "
    "attribute at a time, then affine and ReLU layers"
)


@contextmanager
def locate_errors(place: str, *, location: str, hint: str = BLACK_BOX_HINT) -> Iterator[None]:
    """Add the part of a model to errors raised while it is read, e.g. ``layer 'dense_1' (Dense)``.

    Errors of NumPy about shapes and types mean that the parts of the model do not fit together.
    """
    try:
        with np.errstate(all="ignore"):  # numbers that are not finite are refused when the network is built
            yield
    except NotAdditiveError as error:
        raise NotAdditiveError(f"{place}: {error.message}", location=location, hint=hint) from None
    except (TrustError, ModelError) as error:
        raise type(error)(f"{place}: {error.message}", location=location, hint=error.hint) from None
    except (ValueError, IndexError, KeyError, TypeError, OverflowError, AttributeError) as error:
        raise ModelError(f"{place} does not fit its input ({error})", location=location) from None


def read_file(path: Path) -> bytes:
    """Read the bytes of a file.

    Raises:
        ModelError: the file is missing, empty or cannot be read.
    """
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise ModelError("there is no such file", location=str(path), hint="check the path") from None
    except OSError as error:
        raise ModelError(f"the file cannot be read: {error.strerror}", location=str(path)) from None
    if not content:
        raise ModelError("the file is empty", location=path.name)
    return content


def choose_link(
    objective: str, links: Mapping[str, Link], numbers: Collection[str], schema: Schema, *, location: str
) -> Link:
    """Choose the link from the outputs of boosted trees to probabilities, or to a number.

    Args:
        objective: Objective, or loss, of the training.
        links: Objectives of classifiers, and their links.
        numbers: Objectives whose output is the number itself.
        schema: Schema of the inputs.
        location: Name of the model.

    Raises:
        ModelError: the model does not decide the schema's target.
    """
    supported, problem = links, "makes no classifier with probabilities"
    if schema.target.is_number:
        supported, problem = dict.fromkeys(numbers, "identity"), "gives trees that do not add up to one number"
    if objective not in supported:
        raise ModelError(
            f"the objective {objective[:40]!r} {problem}",
            location=location,
            hint=f"train with one of {', '.join(sorted(supported)) or 'the classifiers'}, or give the model as "
            "module:function",
        )
    return supported[objective]


@dataclass(frozen=True)
class Fields:
    """Fields of one object in a model file; a missing or malformed field raises ModelError.

    Attributes:
        fields: The object, as decoded.
        location: File and place of the object in it.
        hint: Instruction for a damaged file.
    """

    fields: Any
    location: str
    hint: str

    def __post_init__(self) -> None:
        if not isinstance(self.fields, dict):
            raise self.error(f"expected an object, got {type(self.fields).__name__}")

    def error(self, message: str) -> ModelError:
        """Build an error about this object."""
        return ModelError(message, location=self.location, hint=self.hint)

    def __contains__(self, key: str) -> bool:
        return key in self.fields

    def __getitem__(self, key: str) -> Any:
        """Return a field of any type."""
        if key not in self.fields:
            raise self.error(f"{key!r} is missing: the file is damaged, or not such a model")
        return self.fields[key]

    def part(self, key: str) -> Fields:
        """Return an object inside."""
        return Fields(self[key], f"{self.location}, {key}", self.hint)

    def parts(self, key: str, name: str, *, optional: bool = False) -> list[Fields]:
        """Return a list of objects, each called ``name`` and its position in errors; empty if optional and missing."""
        items = [] if optional and self.fields.get(key) is None else self.items(key)
        return [Fields(item, f"{self.location}, {name} {i}", self.hint) for i, item in enumerate(items)]

    def text(self, key: str) -> str:
        """Return a text."""
        if not isinstance(self[key], str):
            raise self.error(f"{key!r} is not text")
        return str(self[key])

    def items(self, key: str) -> list[Any]:
        """Return a list of anything."""
        value = self[key]
        value = value.tolist() if isinstance(value, np.ndarray) else value
        if not isinstance(value, list):
            raise self.error(f"{key!r} is not a list")
        return value

    def integer(self, key: str) -> int:
        """Return an integer, which may be written as text."""
        value = self[key]
        try:
            return int(value if isinstance(value, int | float) else str(value))
        except (ValueError, OverflowError):
            raise self.error(f"{key!r} is not a whole number") from None

    def numbers(self, key: str, count: int | None = None) -> Floats:
        """Return a list of numbers, which may be written as text with blanks between them, shape (count,)."""
        value = self[key]
        try:
            with np.errstate(invalid="ignore"):  # a signalling NaN is refused with the other NaNs
                numbers = np.asarray(value.split() if isinstance(value, str) else value, dtype=np.float64)
        except (TypeError, ValueError, OverflowError):
            raise self.error(f"{key!r} is not a list of numbers: a part of it is not a number") from None
        if numbers.ndim != 1:
            raise self.error(f"{key!r} is not a list of numbers")
        if count is not None and len(numbers) != count:
            raise self.error(f"{key!r} holds {len(numbers)} numbers, not {count}")
        return numbers

    def integers(self, key: str, count: int | None = None) -> Integers:
        """Return a list of integers or flags, as ``numbers``."""
        numbers = self.numbers(key, count)
        if not (np.abs(numbers) < 2**53).all() or (numbers != np.floor(numbers)).any():
            raise self.error(f"{key!r} holds a number that is not whole")
        return numbers.astype(np.int64)

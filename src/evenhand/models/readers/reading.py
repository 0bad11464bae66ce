"""Shared helpers of the readers: error locations and checked fields of files."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np

from evenhand.core.typing import Floats, Integers
from evenhand.errors import ModelError, NotAdditiveError, TrustError
from evenhand.schema.schema import Schema

if TYPE_CHECKING:
    from evenhand.models.trees.ensemble import Link

BLACK_BOX_HINT = (
    "as a black box it can still be audited and searched. Certification requires preprocessing of one attribute at "
    "a time, then affine and ReLU layers"
)


MAX_CONVERSION_SECONDS = 300
"""Time limit for the library that converts a file, since it may hang on a damaged one."""


@contextmanager
def locate_errors(place: str, *, location: str, hint: str = BLACK_BOX_HINT) -> Iterator[None]:
    """Add the location in a model, such as ``layer 'dense_1' (Dense)``, to errors. NumPy errors about shapes and types
    mean that the parts do not fit together.
    """
    try:
        with np.errstate(all="ignore"):  # non-finite numbers are rejected when the network is built
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
    except OSError as error:
        raise ModelError(f"the file cannot be read: {error.strerror}", location=str(path)) from None
    if not content:
        raise ModelError("the file is empty", location=path.name)
    return content


def convert_file(path: Path, command: Sequence[str], *, words: str = "", hint: str) -> bytes:
    """Convert a model file to JSON with the library that wrote it, and return the JSON.

    The library runs in a separate process, since it can crash on damaged files.

    Args:
        path: The file.
        command: Python script, and arguments before the names of the file and of the JSON.
        words: Standard input of the script.
        hint: Instruction for a damaged file.

    Raises:
        ModelError: The library cannot read the file.
    """
    with TemporaryDirectory() as folder:
        target = Path(folder, "model.json")
        command = [sys.executable, "-P", *command, str(path), str(target)]
        try:
            run = subprocess.run(
                command, input=words, capture_output=True, text=True, check=False, timeout=MAX_CONVERSION_SECONDS
            )
            reason = (run.stderr.strip().splitlines() or [f"exit status {run.returncode}"])[-1]
        except subprocess.TimeoutExpired:
            reason = f"no result after {MAX_CONVERSION_SECONDS} seconds"
        if not target.exists() or run.returncode:
            raise ModelError(
                f"the file is damaged or of another type: its library cannot read it ({reason})",
                location=path.name,
                hint=hint,
            )
        return target.read_bytes()


def choose_link(
    objective: str, links: Mapping[str, Link], numbers: Collection[str], schema: Schema, *, location: str
) -> Link:
    """Choose the link from outputs of boosted trees to probabilities or a number.

    Args:
        objective: Training objective or loss.
        links: Classification objectives and their links.
        numbers: Objectives whose output is the number itself.
        schema: Schema of the inputs.
        location: Name of the model.

    Raises:
        ModelError: the model does not predict the schema's target.
    """
    supported, problem = links, "is not supported for classifiers"
    if schema.target.is_number:
        supported, problem = dict.fromkeys(numbers, "identity"), "is not supported for regressors"
    if objective not in supported:
        raise ModelError(
            f"the objective {objective[:40]!r} {problem}",
            location=location,
            hint=f"train with one of {', '.join(sorted(supported)) or 'the classifiers'}, or wrap the model as "
            "module:function",
        )
    return supported[objective]


@dataclass(frozen=True)
class Fields:
    """Fields of an object in a model file. A missing or malformed field raises ModelError.

    Attributes:
        fields: The object, as decoded.
        location: File and location in it.
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
            raise self.error(f"{key!r} is missing: the file is damaged or of another type")
        return self.fields[key]

    def part(self, key: str) -> Fields:
        """Return a nested object."""
        return Fields(self[key], f"{self.location}, {key}", self.hint)

    def parts(self, key: str, name: str, *, optional: bool = False) -> list[Fields]:
        """Return a list of objects, identified by ``name`` and position in errors. Empty if optional and missing."""
        items = [] if optional and self.fields.get(key) is None else self.items(key)
        return [Fields(item, f"{self.location}, {name} {i}", self.hint) for i, item in enumerate(items)]

    def text(self, key: str) -> str:
        """Return a string."""
        if not isinstance(self[key], str):
            raise self.error(f"{key!r} is not a string")
        return str(self[key])

    def items(self, key: str) -> list[Any]:
        """Return a list of values of any type."""
        value = self[key]
        value = value.tolist() if isinstance(value, np.ndarray) else value
        if not isinstance(value, list):
            raise self.error(f"{key!r} is not a list")
        return value

    def integer(self, key: str) -> int:
        """Return an integer, which may be stored as text."""
        value = self[key]
        try:
            return int(value if isinstance(value, int | float) else str(value))
        except (ValueError, OverflowError):
            raise self.error(f"{key!r} is not an integer") from None

    def numbers(self, key: str, count: int | None = None) -> Floats:
        """Return a list of numbers, which may be stored as text separated by spaces, shape (count,)."""
        value = self[key]
        try:
            with np.errstate(invalid="ignore"):  # signalling NaNs are rejected later, like other NaNs
                numbers = np.asarray(value.split() if isinstance(value, str) else value, dtype=np.float64)
        except (TypeError, ValueError, OverflowError):
            raise self.error(f"{key!r} is not a list of numbers: an item is not a number") from None
        if numbers.ndim != 1:
            raise self.error(f"{key!r} is not a list of numbers")
        if count is not None and len(numbers) != count:
            raise self.error(f"{key!r} must contain {count} numbers, got {len(numbers)}")
        return numbers

    def integers(self, key: str, count: int | None = None) -> Integers:
        """Return a list of integers or flags, like ``numbers``."""
        numbers = self.numbers(key, count)
        if not (np.abs(numbers) < 2**53).all() or (numbers != np.floor(numbers)).any():
            raise self.error(f"{key!r} contains a number that is not an integer")
        return numbers.astype(np.int64)

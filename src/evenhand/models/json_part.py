"""A JSON document as models are written in, asked part by part."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from evenhand.errors import ModelError

Floats: TypeAlias = NDArray[np.float64]
Integers: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True)
class Part:
    """One object of a document; every question about it that has no answer is a ModelError.

    Attributes:
        fields: the object, as read from the file.
        where: the file and the place of the object in it.
        mend: what to do if the file is damaged.
    """

    fields: Any
    where: str
    mend: str

    def __post_init__(self) -> None:
        if not isinstance(self.fields, dict):
            raise ModelError(
                f"a JSON object is expected, and there is a {type(self.fields).__name__}",
                where=self.where,
                mend=self.mend,
            )

    def _field(self, key: str) -> Any:
        if key not in self.fields:
            raise ModelError(
                f"{key!r} is missing: the file is damaged, or no such model", where=self.where, mend=self.mend
            )
        return self.fields[key]

    def part(self, key: str) -> Part:
        """An object inside."""
        return Part(self._field(key), f"{self.where}, {key}", self.mend)

    def text(self, key: str) -> str:
        """A text."""
        value = self._field(key)
        if not isinstance(value, str):
            raise ModelError(f"{key!r} is no text", where=self.where, mend=self.mend)
        return value

    def items(self, key: str) -> list[Any]:
        """A list of anything."""
        value = self._field(key)
        if isinstance(value, np.ndarray):
            return list(value.tolist())
        if not isinstance(value, list):
            raise ModelError(f"{key!r} is no list", where=self.where, mend=self.mend)
        return value

    def integer(self, key: str) -> int:
        """A whole number, also one written as text."""
        value = self._field(key)
        try:
            return int(value if isinstance(value, int | float) else str(value))
        except (ValueError, OverflowError):
            raise ModelError(f"{key!r} is no whole number", where=self.where, mend=self.mend) from None

    def numbers(self, key: str, *, least: int = 0) -> Floats:
        """A list of at least so many numbers, shape (n,)."""
        value = self._field(key)
        try:
            with np.errstate(invalid="ignore"):  # a NaN of any kind is somebody else's to refuse
                numbers = np.asarray(value, dtype=np.float64)
        except (TypeError, ValueError, OverflowError):
            numbers = np.zeros(())
        if numbers.ndim != 1 or len(numbers) < least:
            raise ModelError(f"{key!r} is no list of {least or ''} numbers", where=self.where, mend=self.mend)
        return numbers

    def integers(self, key: str, *, least: int = 0) -> Integers:
        """A list of at least so many whole numbers (or flags), shape (n,)."""
        numbers = self.numbers(key, least=least)
        if not (np.abs(numbers) < 2**53).all() or (numbers != np.floor(numbers)).any():
            raise ModelError(f"{key!r} holds something that is no whole number", where=self.where, mend=self.mend)
        return numbers.astype(np.int64)

"""What can be asked of a model that decides a number, such as a price: the number of everybody in a batch."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import numpy as np

from evenhand.core.typing import Floats
from evenhand.errors import ModelError
from evenhand.models.scorer import BATCH_ROWS
from evenhand.schema.schema import Schema


@runtime_checkable
class Regressor(Protocol):
    """A model that decides a number, as a black box. One call takes the whole batch.

    Attributes:
        schema: what its individuals are; its target is a number.
        name: how to call it in a report, e.g. the file name.
    """

    @property
    def schema(self) -> Schema: ...
    @property
    def name(self) -> str: ...

    def predict_numbers(self, individuals: Floats) -> Floats:
        """Return the number of each individual (n, attributes), in the target's unit, shape (n,)."""
        ...


def ask_numbers(regressor: Regressor, individuals: Floats, *, batch: int = BATCH_ROWS) -> Floats:
    """Return the numbers of any number of individuals (n, attributes), asked in batches, shape (n,)."""
    parts = [regressor.predict_numbers(individuals[at : at + batch]) for at in range(0, len(individuals), batch)]
    return np.concatenate(parts) if parts else np.empty(0)


def check_numbers(answer: Any, n: int, *, model: str) -> Floats:
    """Return a model's answer about n individuals as numbers (n,).

    Raises:
        ModelError: it is not one finite number each.
    """
    try:
        numbers = np.asarray(answer.detach().cpu() if hasattr(answer, "detach") else answer, dtype=np.float64)
    except (TypeError, ValueError):
        kind = type(answer).__name__
        raise ModelError(
            f"asked about {n} individuals, the model answered with no numbers ({kind})",
            location=model,
            hint="the target is a number; for a model that gives labels say `kind=label`",
        ) from None
    if numbers.shape == (n, 1):
        numbers = numbers[:, 0]
    if numbers.shape != (n,):
        shape = "a single value" if numbers.shape == () else f"shape {numbers.shape}"
        raise ModelError(
            f"asked about {n} individuals, the model answered with {shape}; expected ({n},), one number each",
            location=model,
        )
    if not np.isfinite(numbers).all():
        row = int(np.argmax(~np.isfinite(numbers)))
        raise ModelError(f"the model answered {numbers[row]} for individual {row + 1} of a batch", location=model)
    return numbers

"""Models that take a fixed number of individuals at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]


def in_batches(call: Callable[[Floats], Floats], asked: Floats, rows: int | None) -> Floats:
    """Ask about all individuals (n, inputs), ``rows`` at a time; the last one fills up what is missing to a batch.

    Without ``rows`` all are asked about at once.
    """
    if rows is None or len(asked) == 0:
        return call(asked)
    given = []
    for start in range(0, len(asked), rows):
        part = asked[start : start + rows]
        full = np.concatenate([part, np.repeat(part[-1:], rows - len(part), axis=0)])
        given.append(call(full)[: len(part)])
    return np.concatenate(given)

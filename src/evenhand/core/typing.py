"""Types of arrays, and progress functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Integers: TypeAlias = NDArray[np.int64]
Booleans: TypeAlias = NDArray[np.bool_]

Progress: TypeAlias = Callable[[str, float], None]
"""Function that receives the current step and the completed fraction, from 0 to 1."""


def ignore_progress(step: str, share: float) -> None:
    """Ignore progress. Default callback of functions that report progress."""

"""Names for the types that every package uses: arrays, and how progress is told."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Integers: TypeAlias = NDArray[np.int64]
Booleans: TypeAlias = NDArray[np.bool_]

Progress: TypeAlias = Callable[[str, float], None]
"""Called with what is being done and the share of the work that is done, 0 to 1."""
